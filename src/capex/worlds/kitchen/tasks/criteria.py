"""Success rules and latches, read from physics after every control step. Thresholds are the
paper's; where it prints none (PRESSED, IN_CABINET_M), see docs/deviations.md.
"""

from __future__ import annotations

import math

from capex.worlds.kitchen.facts import Facts
from capex.worlds.kitchen.robot import HAND_BODIES
from capex.worlds.kitchen.things import PLATE_RADIUS_M

CLOSED = 0.005  # fraction of a joint's range
PRESSED = 0.6  # fraction of a button's travel; a touch alone could not be seen
OPENED = 0.90
OUT, IN = 0.95, 0.05  # fractions of a slide's travel
OFF_RAD = 0.35
WATER_RAD = (0.40, math.pi)
SWITCHED = 0.95
LIFTED = 0.99
CLEAR_OF_OBJECT_M = 0.25
CLEAR_OF_BUTTON_M = 0.15
CLEAR_OF_LID_M = 0.15
ON_JUG_M = 0.04
ARRIVED_M, ARRIVED_COS = 0.20, 0.98
LID_TILT_RAD = math.radians(7)
IN_PAN_M = 0.07
IN_CABINET_M = 0.05
UNDER_SPOUT_M = (0.04, 0.10)  # horizontally, vertically
ON_PLATE_M = 0.7 * PLATE_RADIUS_M


def closed(facts: Facts) -> bool:
    return facts.joint_fraction(facts.role("part")) <= CLOSED


def opened(facts: Facts) -> bool:
    """The door stands open."""
    return facts.joint_fraction(facts.role("part")) >= OPENED


def covered(facts: Facts) -> bool:
    """The lid lies on the jug, level, and the gripper has left it."""
    lid = facts.role("object")
    if facts.tip_distance(lid) <= CLEAR_OF_LID_M or facts.tilt(lid) >= LID_TILT_RAD:
        return False
    away = facts.position(lid) - facts.point("jug rim")
    return math.sqrt(float((away * away).sum())) < ON_JUG_M


def slid_out(facts: Facts) -> bool:
    """The part stands out."""
    return facts.joint_fraction(facts.role("part")) >= OUT


def slid_in(facts: Facts) -> bool:
    """The part is in."""
    return facts.joint_fraction(facts.role("part")) <= IN


def slid(facts: Facts) -> bool:
    """The part is where the instruction wants it, out or in."""
    return slid_out(facts) if facts.role("way") == "out" else slid_in(facts)


def switched(facts: Facts) -> bool:
    """The lever is pressed."""
    return facts.joint_fraction(facts.role("part")) >= SWITCHED


def lifted(facts: Facts) -> bool:
    """The head is up."""
    return facts.joint_fraction(facts.role("part")) > LIFTED


def turned_off(facts: Facts) -> bool:
    """The knob points to off."""
    return abs(facts.joint(facts.role("part"))) < OFF_RAD


def water_runs(facts: Facts) -> bool:
    """The handle has been swung."""
    return WATER_RAD[0] < facts.joint(facts.role("part")) < WATER_RAD[1]


def under_dispenser(facts: Facts) -> bool:
    """The mug stands under the spout and the gripper has left it."""
    item = facts.role("object")
    if facts.tip_distance(item) <= CLEAR_OF_OBJECT_M:
        return False
    dx, dy, dz = facts.position(item) - facts.point("dispenser")
    return math.hypot(dx, dy) < UNDER_SPOUT_M[0] and abs(dz) < UNDER_SPOUT_M[1]


def on_counter(facts: Facts) -> bool:
    """The object lies on a counter and the gripper has left it."""
    item = facts.role("object")
    return facts.tip_distance(item) > CLEAR_OF_OBJECT_M and any(
        n.startswith("counter") for n in facts.touched_by(item)
    )


def arrived(facts: Facts) -> bool:
    """The base stands before the place that was named, and faces it."""
    (x, y, yaw), (goal_x, goal_y, goal_yaw) = facts.base, facts.spot("goal")
    return (
        math.hypot(x - goal_x, y - goal_y) <= ARRIVED_M and math.cos(yaw - goal_yaw) >= ARRIVED_COS
    )


def in_cabinet(facts: Facts) -> bool:
    """Every corner of the object lies within the cabinet, give or take 5 cm, and the gripper has
    left it.
    """
    item = facts.role("object")
    if facts.tip_distance(item) <= CLEAR_OF_OBJECT_M:
        return False
    corners = facts.corners(item)
    return bool(
        (corners >= facts.spot("inside low") - IN_CABINET_M).all()
        and (corners <= facts.spot("inside high") + IN_CABINET_M).all()
    )


def started(facts: Facts) -> bool:
    return facts.latched and facts.tip_distance(facts.role("button")) > CLEAR_OF_BUTTON_M


def pressed(facts: Facts) -> bool:
    button = facts.role("button")
    return facts.joint_fraction(button) >= PRESSED and bool(
        facts.touched_by(button) & set(HAND_BODIES)
    )


def in_pan(facts: Facts) -> bool:
    return placed(facts, IN_PAN_M)


def on_plate(facts: Facts) -> bool:
    return placed(facts, ON_PLATE_M)


def on_plate_on_counter(facts: Facts) -> bool:
    return placed(facts, ON_PLATE_M) and any(
        n.startswith("counter") for n in facts.touched_by(facts.role("container"))
    )


def placed(facts: Facts, within_m: float) -> bool:
    item, container = facts.role("object"), facts.role("container")
    if (
        facts.tip_distance(item) <= CLEAR_OF_OBJECT_M
        or facts.distance_xy(item, container) >= within_m
    ):
        return False
    return facts.touching(item, container)
