"""Success rules and latches, read from physics after every control step. Thresholds are the
paper's; where it prints none (PRESSED, IN_CABINET_M), see docs/deviations.md.
"""

from __future__ import annotations

import math

from capex.worlds.kitchen.appliances import KETTLE_ON
from capex.worlds.kitchen.furniture import KNOB_OFF_RAD, WATER_ON_RAD
from capex.worlds.kitchen.ground_truth import GroundTruth
from capex.worlds.kitchen.objects import PLATE_RADIUS_M
from capex.worlds.kitchen.robot import HAND_BODIES

CLOSED = 0.005  # fraction of a joint's range
PRESSED = 0.6  # fraction of a button's travel; a touch alone could not be seen
OPENED = 0.90
OUT, IN = 0.95, 0.05  # fractions of a slide's travel
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


def closed(truth: GroundTruth) -> bool:
    return truth.joint_fraction(truth.role("part")) <= CLOSED


def opened(truth: GroundTruth) -> bool:
    """The door stands open."""
    return truth.joint_fraction(truth.role("part")) >= OPENED


def covered(truth: GroundTruth) -> bool:
    """The lid lies on the jug, level, and the gripper has left it."""
    lid = truth.role("object")
    if truth.tip_distance(lid) <= CLEAR_OF_LID_M or truth.tilt(lid) >= LID_TILT_RAD:
        return False
    away = truth.position(lid) - truth.point("jug rim")
    return math.sqrt(float((away * away).sum())) < ON_JUG_M


def slid_out(truth: GroundTruth) -> bool:
    """The part stands out."""
    return truth.joint_fraction(truth.role("part")) >= OUT


def slid_in(truth: GroundTruth) -> bool:
    """The part is in."""
    return truth.joint_fraction(truth.role("part")) <= IN


def slid(truth: GroundTruth) -> bool:
    """The part is where the instruction wants it, out or in."""
    return slid_out(truth) if truth.role("way") == "out" else slid_in(truth)


def switched(truth: GroundTruth) -> bool:
    """The lever is pressed."""
    return truth.joint_fraction(truth.role("part")) >= KETTLE_ON


def lifted(truth: GroundTruth) -> bool:
    """The head is up."""
    return truth.joint_fraction(truth.role("part")) > LIFTED


def turned_off(truth: GroundTruth) -> bool:
    """The knob points to off."""
    return abs(truth.joint(truth.role("part"))) < KNOB_OFF_RAD


def water_runs(truth: GroundTruth) -> bool:
    """The handle has been swung."""
    return WATER_ON_RAD < truth.joint(truth.role("part")) < math.pi


def under_dispenser(truth: GroundTruth) -> bool:
    """The mug stands under the spout and the gripper has left it."""
    item = truth.role("object")
    if truth.tip_distance(item) <= CLEAR_OF_OBJECT_M:
        return False
    dx, dy, dz = truth.position(item) - truth.point("dispenser")
    return math.hypot(dx, dy) < UNDER_SPOUT_M[0] and abs(dz) < UNDER_SPOUT_M[1]


def on_counter(truth: GroundTruth) -> bool:
    """The object lies on a counter and the gripper has left it."""
    item = truth.role("object")
    return truth.tip_distance(item) > CLEAR_OF_OBJECT_M and _touches_counter(truth, item)


def arrived(truth: GroundTruth) -> bool:
    """The base stands before the place that was named, and faces it."""
    (x, y, yaw), (goal_x, goal_y, goal_yaw) = truth.base, truth.spot("goal")
    near = math.hypot(x - goal_x, y - goal_y) <= ARRIVED_M
    return near and math.cos(yaw - goal_yaw) >= ARRIVED_COS


def in_cabinet(truth: GroundTruth) -> bool:
    """The object lies within the cabinet, give or take 5 cm, and the gripper has left it."""
    item = truth.role("object")
    if truth.tip_distance(item) <= CLEAR_OF_OBJECT_M:
        return False
    corners = truth.corners(item)
    low, high = truth.spot("inside low") - IN_CABINET_M, truth.spot("inside high") + IN_CABINET_M
    return bool(((corners >= low) & (corners <= high)).all())


def started(truth: GroundTruth) -> bool:
    return truth.latched and truth.tip_distance(truth.role("button")) > CLEAR_OF_BUTTON_M


def pressed(truth: GroundTruth) -> bool:
    button = truth.role("button")
    deep = truth.joint_fraction(button) >= PRESSED
    return deep and not truth.touched_by(button).isdisjoint(HAND_BODIES)


def in_pan(truth: GroundTruth) -> bool:
    return placed(truth, IN_PAN_M)


def on_plate(truth: GroundTruth) -> bool:
    return placed(truth, ON_PLATE_M)


def on_plate_on_counter(truth: GroundTruth) -> bool:
    return on_plate(truth) and _touches_counter(truth, truth.role("container"))


def _touches_counter(truth: GroundTruth, name: str) -> bool:
    return any(other.startswith("counter") for other in truth.touched_by(name))


def placed(truth: GroundTruth, within_m: float) -> bool:
    """The object touches its container near the middle, and the gripper has left it."""
    item, container = truth.role("object"), truth.role("container")
    left = truth.tip_distance(item) > CLEAR_OF_OBJECT_M
    near = truth.distance_xy(item, container) < within_m
    return left and near and truth.touching(item, container)
