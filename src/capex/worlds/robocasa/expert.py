"""A privileged planner for RoboCasa's tasks: from the simulator's truth to waypoints.

It is a stand-in, like the kitchen's expert: it proves that a task's success can be reached through
the waypoint interface. It finds fixtures, joints and things as RoboCasa's own task objects name
them, and stands, grasps, pushes and pulls by their measured extents; nothing here reaches an
interface that a model sees.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from capex.plan import Steps, Waypoint, at, line, path, waypoints
from capex.pose import DOWN, Array, matrix_to_euler, yaw_matrix
from capex.worlds.robocasa import handling as hand
from capex.worlds.robocasa.handling import UP
from capex.worlds.robocasa.privileged import Kitchen, Part
from capex.worlds.robocasa.routes import next_drive
from capex.worlds.robosuite.env import SuiteEnv
from capex.worlds.robosuite.robots import ARM

AHEAD: Array = np.array([1.0, 0.0, 0.0])

HAND_ROOM_M = 0.13  # half the width of a hand, and a little
BACK_OFF_UNTIL = 10  # decisions; then a hand tries to get behind an open door from where it is
ROOMY_M = 0.42  # a drawer so far open has room for a hand before the counter's edge
BASE_ROOM_M = 0.29  # half the width of the base, and a little
AJAR_RAD = 0.6  # a door so far open is pushed on from inside

Skill = Callable[[Kitchen, int], Steps]


def plan(env: SuiteEnv, decision: int) -> list[Waypoint]:
    """The next plan for the env's task; `decision` counts the plans made in this episode."""
    return waypoints(ARM.name, SKILLS[env.spec.task](Kitchen(env), decision))


def _press_start(k: Kitchen, decision: int) -> Steps:
    """Push the microwave's start button with closed fingers, then back off."""
    fixture = k.casa.microwave
    into, button = k.into(fixture), k.box(f"{fixture.name}_start_button")
    if fixture.get_state()["turned_on"]:
        return line(k.tip, k.tip - 0.19 * into, hand.facing(into))
    if drive := hand.line_up(button.centre, into, 0.56, decision):
        return drive
    face = button.centre - (button.reach(into) + hand.FINGERS_HALF_M[2]) * into
    deep = face + (0.02 + 0.01 * (decision % 3)) * into
    way = hand.approach(k.tip, face - 0.08 * into, into)
    facing = hand.facing(into)
    first = line(k.tip, way[0], facing, "close" if k.fingers_open else "keep")
    return [*first, *path(way[0], [*way[1:], deep], facing)]


def _shut_fridge(k: Kitchen, decision: int) -> Steps:
    """Push open side-hinged doors shut from outside, one after the other."""
    fixture = k.casa.fxtr
    into = k.into(fixture)
    parts = [k.part(joint) for joint in fixture.door_joint_names]
    part = max(parts, key=lambda p: p.opening)
    if drive := _face_hinge(part, into, decision):
        return drive
    panel = max(k.boxes(part.body), key=lambda box: float(np.prod(box.half_m)))
    edge = part.anchor + 1.86 * (panel.centre - part.anchor)  # the free end is at twice its middle
    way = part.way(panel.centre, 0.0)
    point = np.array([*edge[:2], 0.62]) - panel.reach(way) * way
    rolled = hand.facing(AHEAD, UP)  # the hand's broad side upright, to pass the door's edge
    return hand.push(k, part, point, 0.0, rolled, gap_m=0.06, press_m=0.025)


def _face_hinge(part: Part, into: Array, decision: int) -> Steps:
    """Aside, away from an open door, then turned to its hinge: so the arm gets behind the door even
    where the robot cannot back off.
    """
    left = np.cross(UP, into)
    forward, across = float(part.anchor @ into), float(part.anchor @ left)
    turn = math.atan2(part.anchor[1], part.anchor[0])
    if decision >= 4:
        return []
    if abs(math.atan2(into[1], into[0])) < 0.2:  # not turned yet
        need = math.sqrt(max(0.78**2 - forward**2, 0.0)) - abs(across)
        if need > 0.04 and decision < 2:
            # A little ahead, too: what stands behind may touch the base, and stop a drive.
            x, y, _ = 0.03 * into - math.copysign(need, across) * left
            return [hand.drive(float(x), float(y), 0.0)]
    return [hand.drive(0.0, 0.0, turn)] if abs(turn) > 0.1 else []


def _shut_flap(k: Kitchen, decision: int) -> Steps:
    """Lift a door that dropped open by its free edge, from below, and push it shut."""
    fixture = k.casa.toaster_oven
    into = k.into(fixture)
    (joint,) = fixture.door_joint_names
    part = k.part(joint)
    if drive := hand.line_up(part.anchor, into, 0.78, decision):
        return drive
    panel = max(k.boxes(part.body), key=lambda box: float(np.prod(box.half_m)))
    across = panel.centre - part.anchor
    across -= part.axis * float(across @ part.axis)
    sides = [panel.centre + s * 0.8 * panel.reach(part.axis) * part.axis for s in (1.0, -1.0)]
    beside = min(sides, key=lambda p: abs(float(p[1])))
    edge = beside + 0.8 * across
    way = part.way(edge, 0.0)
    point = edge - panel.reach(way) * way
    return hand.push(k, part, point, 0.0, hand.facing(into, lowered=0.6), gap_m=0.01)


def _open_doors(k: Kitchen, decision: int) -> Steps:
    """Draw a cabinet's doors open by their handles, one after the other; then push from inside."""
    fixture = k.casa.fxtr
    into = k.into(fixture)
    parts = [k.part(joint) for joint in fixture.door_joint_names]
    part = min(parts, key=lambda p: p.opening / p.limit if p.opening < 0.93 * p.limit else 2.0)
    goal = 0.98 * part.limit
    if part.opening < AJAR_RAD:
        return hand.pull(k, part, hand.handle_of(k, part, into), into, goal, decision)
    if k.holds(part.body):
        return [at(k.tip, "keep", "release"), *line(k.tip, k.tip - 0.10 * into)]
    panel = max(k.boxes(part.body), key=lambda box: float(np.prod(box.half_m)))
    edge = part.anchor + 1.8 * (panel.centre - part.anchor)
    if decision < BACK_OFF_UNTIL and (near := float(edge @ into) - 0.62) < -0.06:
        return [hand.drive(near * float(into[0]), near * float(into[1]), 0.0)]
    way = part.way(edge, goal)
    point = np.array([*edge[:2], panel.centre[2] - 0.6 * panel.reach(UP)]) - panel.reach(way) * way
    return hand.push(k, part, point, goal, hand.facing(into, UP), gap_m=0.05)


def _open_drawer(k: Kitchen, decision: int) -> Steps:
    """Draw a drawer out by its handle."""
    fixture = k.casa.drawer
    into = k.into(fixture)
    (joint,) = fixture.door_joint_names
    part = k.part(joint)
    grip = hand.handle_of(k, part, into)
    return hand.pull(k, part, grip, into, part.limit + 0.02, decision)


def _slide_rack(k: Kitchen, decision: int) -> Steps:
    """Push a rack in by its front edge, or out from behind it, with the hand pointing down; from
    beside the open door, which the base cannot stand on.
    """
    fixture = k.casa.dishwasher
    into = k.into(fixture)
    part = k.part(fixture._joint_names["rack"])
    goal = part.limit + 0.01 if k.casa.should_pull else 0.0
    edge = min(k.boxes(part.body), key=lambda box: float(box.centre @ into))
    left: Array = np.cross(UP, into).astype(np.float64)
    aside = float(edge.centre @ left)
    nearer = math.copysign(min(abs(aside), edge.reach(left) - 0.06), aside)
    way = part.way(edge.centre, goal)
    point = edge.centre - nearer * left - edge.reach(way) * way + 0.6 * edge.reach(UP) * UP
    halfway = (point + part.at(point, goal)) / 2
    if drive := hand.line_up(halfway, into, 0.30, decision, aside_m=0.46):
        return drive
    yaw = math.atan2(into[1], into[0])
    down = matrix_to_euler(yaw_matrix(yaw + math.pi / 2) @ DOWN)
    return hand.push(k, part, point, goal, down, press_m=0.03)


def _lift_head(k: Kitchen, decision: int) -> Steps:
    """Lift the mixer's head by its free end, from below."""
    part = k.part(k.casa.stand_mixer._joint_names["head"])
    head = max(k.boxes(part.body), key=lambda box: float(np.prod(box.half_m)))
    if drive := hand.line_up(head.centre, AHEAD, 0.58, decision):
        return drive
    out = head.centre - part.anchor
    out[2] = 0.0
    out /= float(np.linalg.norm(out))
    point = head.centre + 0.8 * head.reach(out) * out - head.reach(UP) * UP
    facing = hand.facing(AHEAD, lowered=hand.lowered_at(point))
    return hand.push(k, part, point, part.limit + 0.06, facing, press_m=0.03)


def _press_lever(k: Kitchen, decision: int) -> Steps:
    """Push the kettle's lever down, with closed fingers that point down."""
    part = k.part(k.casa.electric_kettle._joint_names["switch"])
    lever = k.boxes(part.body)[0]
    if drive := hand.line_up(lever.centre, AHEAD, 0.45, decision):
        return drive
    point = lever.centre + lever.reach(UP) * UP - 0.4 * lever.reach(AHEAD) * AHEAD
    return hand.push(k, part, point, part.limit + 0.01, matrix_to_euler(DOWN))


def _turn_faucet(k: Kitchen, decision: int) -> Steps:
    """Push the faucet's lever aside, with closed fingers that point forward."""
    sink = k.casa.sink
    part = k.part(f"{sink.naming_prefix}handle_joint")
    into = k.into(sink)
    lever = min(k.boxes(part.body), key=lambda box: float(box.centre @ into))
    if drive := hand.line_up(lever.centre, into, 0.66, decision):
        return drive
    end = lever.centre - 0.6 * lever.reach(into) * into
    goal = min(0.9, 0.7 * part.limit)
    way = part.way(end, goal)
    side = way - into * float(way @ into)
    side /= float(np.linalg.norm(side))
    facing = hand.facing(into, lowered=hand.lowered_at(end))
    return hand.push(k, part, end - lever.reach(side) * side, goal, facing)


def _turn_knob(k: Kitchen, decision: int) -> Steps:
    """Take the burner's knob from above, across its thinner side, and turn it back."""
    stove = k.casa.stove
    part = k.part(f"{stove.naming_prefix}knob_{k.casa.knob}_joint")
    box = k.boxes(part.body)[0]
    if drive := hand.line_up(box.centre, AHEAD, 0.36, decision):
        return drive
    turn = float(part.axis[2]) * -part.opening
    if k.holds(part.body):  # where the hand is now: a knob stays where it is
        legs = max(1, math.ceil(abs(turn) / 0.35))
        turned = [yaw_matrix(turn * (n + 1) / legs) @ k.hand for n in range(legs)]
        return [at(k.tip, matrix_to_euler(R)) for R in turned]
    across = hand.thinner_side(box)
    side = math.atan2(across[1], across[0]) - math.pi / 2
    sides = [math.remainder(side + n * math.pi, 2 * math.pi) for n in range(2)]
    first = min(sides, key=lambda yaw: max(abs(yaw), abs(yaw + turn)))
    down = matrix_to_euler(yaw_matrix(first) @ DOWN)
    grip = box.centre + 0.004 * UP
    way = hand.over(k.tip, grip + 0.10 * UP)
    take = line(way[-1], grip, down, "close")
    return [at(way[0], down, "open"), *path(way[0], way[1:], down), *take]


def _navigate(k: Kitchen, decision: int) -> Steps:
    """The next leg of a way around what stands on the floor."""
    return [next_drive(k, k.casa.target_pos, float(k.casa.target_ori[2]))]


def _to_container(container: str, front: str = "") -> Skill:
    """Take the object from above, or over a fixture's front, and set it into a container, or onto
    one.
    """

    def skill(k: Kitchen, decision: int) -> Steps:
        body = k.thing(container)
        low, high = k.extent(body)
        floor = k.body(body).position_m.copy()
        floor[2] = low[2] + 0.02 if high[2] - low[2] > 0.035 else high[2]
        into = k.into(getattr(k.casa, front)) if front else None
        above = float(high[2])
        return hand.pick_place(k, k.thing("obj"), floor, decision, over_m=above, into=into)

    return skill


def _to_counter(k: Kitchen, decision: int) -> Steps:
    """Take the object out of the drawer, around it, and put it on the counter beside it."""
    drawer, obj = k.casa.drawer, k.thing("obj")
    into = k.into(drawer)
    top = float(k.point(k.casa.counter.pos)[2] + k.casa.counter.size[2] / 2)
    inside = float(k.body(obj).position_m[2]) < top - 0.05 and not k.holds(obj)
    if inside and decision < 8 and (wider := _wider_open(k, into, decision)):
        return wider
    front = k.point(drawer.pos) - into * float(drawer.size[1] / 2)
    left = np.cross(UP, into)
    aside = float(front @ left)
    if k.holds(obj):
        if float(k.extent(obj)[0][2]) < top + 0.02:
            return line(k.tip, k.tip + (top + 0.08 - float(k.extent(obj)[0][2])) * UP)
        past = float(drawer.size[0]) / 2 + BASE_ROOM_M - abs(aside)
        if past > 0.03:  # the base stands before the open drawer
            x, y, _ = math.copysign(past, -aside) * left
            return [hand.drive(float(x), float(y), 0.0)]
    place = front - aside * left + 0.12 * into
    return hand.pick_place(k, obj, np.array([*place[:2], top]), decision)


def _wider_open(k: Kitchen, into: Array, decision: int) -> Steps:
    """Push a drawer's front outwards from within, so that a hand has room before the counter."""
    (joint,) = k.casa.drawer.door_joint_names
    part = k.part(joint)
    if part.opening > ROOMY_M:
        return []
    panel = max(k.boxes(part.body), key=lambda box: box.reach(UP))
    point = panel.centre + panel.reach(into) * into + 0.6 * panel.reach(UP) * UP
    if drive := hand.line_up(point, into, 0.45, decision, aside_m=0.25):
        return drive
    yaw = math.atan2(into[1], into[0])
    down = matrix_to_euler(yaw_matrix(yaw + math.pi / 2) @ DOWN)
    return hand.push(k, part, point, min(ROOMY_M + 0.03, part.limit), down, press_m=0.03)


def _to_dispenser(k: Kitchen, decision: int) -> Steps:
    """Take the mug from the front and set it under the coffee machine."""
    machine = k.casa.coffee_machine
    place = k.site(f"{machine.naming_prefix}receptacle_place_site")
    return hand.shelve(k, k.thing("obj"), place, k.into(machine), decision)


def _to_cabinet(k: Kitchen, decision: int) -> Steps:
    """Take the object from the front and set it on the lowest shelf of the cabinet, where nothing
    stands in the hand's way.
    """
    cabinet, obj = k.casa.cab, k.thing("obj")
    regions: list[Any] = list(cabinet.get_int_sites(relative=False).values())
    lowest: Any = min(regions, key=lambda region: float(region[0][2]))
    corner, right, back, _ = (np.asarray(point) for point in lowest)
    width = float(np.linalg.norm(right - corner))
    steps = np.arange(HAND_ROOM_M, max(width - HAND_ROOM_M, HAND_ROOM_M + 0.01), 0.04) / width
    fronts = [corner + part * (right - corner) for part in steps]
    standing = k.footprints(corner[2] + 0.01, corner[2] + 0.25, but=obj)
    free = [front for front in fronts if _is_free(front, back - corner, standing)]
    thing = k.body(obj).position_m
    places = [k.point(front + (back - corner) / 2) for front in free or fronts]
    place = min(places, key=lambda p: float(np.linalg.norm(p - thing)))
    return hand.shelve(k, obj, place, k.into(cabinet), decision)


def _is_free(front: Array, back: Array, standing: list[tuple[Array, Array]]) -> bool:
    """Whether a hand gets from a shelf's front to its middle past what stands on it."""
    way = [(front + part * back)[:2] for part in (0.0, 0.25, 0.5)]
    return all(
        float(np.linalg.norm(np.maximum(np.maximum(low - p, p - high), 0.0))) > HAND_ROOM_M
        for low, high in standing
        for p in way
    )


def _cover(k: Kitchen, decision: int) -> Steps:
    """Take the blender's lid by its knob and set it on the jug."""
    blender = k.casa.blender
    lid = f"{blender.blender_lid.name}_main"
    seat = k.point(blender.get_lid_closed_pos(k.casa))
    if not k.holds(lid) and (drive := hand.line_up(seat, k.into(blender), 0.48, decision)):
        return drive
    low, _ = k.extent(lid)
    knob = max(k.boxes(lid), key=lambda box: float(box.centre[2]))
    seat[2] += float(low[2] - k.body(lid).position_m[2])
    return hand.pick_place(k, lid, seat, decision, grip=knob, over_m=float(seat[2]))


SKILLS: dict[str, Skill] = {
    "TurnOnMicrowave": _press_start,
    "CloseFridge": _shut_fridge,
    "CloseToasterOvenDoor": _shut_flap,
    "PickPlaceCounterToStove": _to_container("container"),
    "PickPlaceSinkToCounter": _to_container("container"),
    "PickPlaceToasterToCounter": _to_container("plate", front="toaster"),
    "CoffeeSetupMug": _to_dispenser,
    "PickPlaceCounterToCabinet": _to_cabinet,
    "PickPlaceDrawerToCounter": _to_counter,
    "CloseBlenderLid": _cover,
    "OpenCabinet": _open_doors,
    "OpenStandMixerHead": _lift_head,
    "OpenDrawer": _open_drawer,
    "SlideDishwasherRack": _slide_rack,
    "TurnOffStove": _turn_knob,
    "TurnOnElectricKettle": _press_lever,
    "TurnOnSinkFaucet": _turn_faucet,
    "NavigateKitchen": _navigate,
}
