"""A privileged planner: reads the simulator's truth and drives through the executor with waypoints, like any demonstrator.

It is the upper bound of what the waypoint interface can do, the proof that each task is solvable, and the stand-in for human
demonstrations. Nothing here reaches an interface that a model sees.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from capex.errors import CapexError
from capex.plan import ArmTarget, BaseMotion, Gripper, Orientation, Waypoint
from capex.pose import DOWN, Array, matrix_to_euler, tilted_forward, yaw_matrix
from capex.worlds.kitchen.env import ARM, KitchenEnv
from capex.worlds.kitchen.things import FOOD

LEG_M = 0.09  # spacing of waypoints on a straight line
HOVER_M = 0.10
CARRY_M = 0.17  # height of the carried thing's middle over the container
LIFT_M = 0.14
FINGERTIP_M = 0.0125  # from the tip to the end of the fingers
TALL_M = 0.04
GRASP_BELOW_TOP_M = 0.014
LINE_UP_TRIES = 3

Planner = Callable[[KitchenEnv, int], list[Waypoint]]


def plan(env: KitchenEnv, decision: int) -> list[Waypoint]:
    """The next plan for the env's task from its present state; `decision` counts the plans already made in this episode."""
    task = env.spec.task
    if task not in SKILLS:
        raise CapexError(f"the expert has no skill for {env.spec.name}; it knows {', '.join(sorted(SKILLS))}")
    return SKILLS[task](env, decision)


def _to_base(env: KitchenEnv, point_world: Sequence[float] | Array) -> Array:
    """A world point in the base frame."""
    x, y, yaw = _base_pose(env)
    offset = np.asarray(point_world, dtype=float) - np.array([x, y, float(env.facts.data.site("mount").xpos[2])])
    return np.asarray(yaw_matrix(-yaw) @ offset)


def _base_pose(env: KitchenEnv) -> tuple[float, float, float]:
    base = env.robot_state().base
    assert base is not None
    return base


def _tip(env: KitchenEnv) -> Array:
    return env.robot_state().arms[ARM].T_base_tip.position_m


def _open(env: KitchenEnv) -> bool:
    return env.robot_state().arms[ARM].opening_m > 0.01


def _at(position: Array, orientation: Orientation = "keep", gripper: Gripper = "keep") -> Waypoint:
    x, y, z = (float(v) for v in position)
    return Waypoint({ARM: ArmTarget((x, y, z), orientation, gripper)})


def _line(start: Array, end: Array, orientation: Orientation = "keep", gripper: Gripper = "keep") -> list[Waypoint]:
    """Waypoints along a straight line, the gripper command at its end."""
    count = max(1, math.ceil(float(np.linalg.norm(end - start)) / LEG_M))
    points = [start + (end - start) * (k + 1) / count for k in range(count)]
    return [_at(p, orientation) for p in points[:-1]] + [_at(points[-1], orientation, gripper)]


def _path(start: Array, points: Sequence[Array], orientation: Orientation = "keep") -> list[Waypoint]:
    waypoints: list[Waypoint] = []
    for point in points:
        waypoints += _line(start, point, orientation)
        start = point
    return waypoints


def _down_with_yaw(yaw: float) -> tuple[float, float, float]:
    """Pointing down, turned about the vertical; half turns are the same grasp, so the smaller one is taken."""
    yaw = (yaw + math.pi / 2) % math.pi - math.pi / 2
    return matrix_to_euler(yaw_matrix(yaw) @ DOWN)


def _ceiling(point: Array) -> float:
    """How high the hand can be, pointing down, at a horizontal distance from the mount: the edge of the reach map."""
    return float(np.interp(math.hypot(point[0], point[1]), (0.30, 0.43, 0.52, 0.60, 0.69), (0.80, 0.69, 0.64, 0.58, 0.48)))


def _raised(point: Array, by_m: float) -> Array:
    """A point lifted, but not above the ceiling of its place."""
    return np.array([point[0], point[1], max(point[2], min(point[2] + by_m, _ceiling(point)))])


def _pick_place(env: KitchenEnv, decision: int) -> list[Waypoint]:
    facts, state = env.facts, env.robot_state().arms[ARM]
    item, container = facts.role("object"), facts.role("container")
    tip, thing = _tip(env), _to_base(env, facts.position(item))
    place = _to_base(env, facts.position(container))
    half = facts.half_height(item)
    if item in state.held:
        return _carry(env, tip, thing, place, half)
    if facts.touching(item, container) and facts.distance_xy(item, container) < 0.07:
        return _retreat(tip)
    axis = facts.rotation(item)[:, 0]
    yaw = math.atan2(axis[1], axis[0]) - _base_pose(env)[2]
    round_thing = item in FOOD and FOOD[item].shape == "ball"
    orientation = _down_with_yaw(0.6 * (decision // 2) if round_thing else yaw + 0.35 * (decision // 3))
    # Tall things are taken near their top, low ones around their middle.
    grasp = thing + np.array([0, 0, max(half - GRASP_BELOW_TOP_M, -0.004) if half > TALL_M else -0.004])
    hover = _raised(grasp, HOVER_M)
    above = np.array([tip[0], tip[1], max(tip[2], min(hover[2] + 0.03, _ceiling(tip)))])
    approach = [_at(above, orientation, "open"), *_line(above, hover, orientation)]
    return [*approach, *_line(hover, grasp, orientation, "close"), *_line(grasp, _raised(grasp, LIFT_M))]


def _carry(env: KitchenEnv, tip: Array, thing: Array, place: Array, half: float) -> list[Waypoint]:
    """Bring what is held over the container, lower it, let go, retreat."""
    hang = tip - thing  # how the object hangs in the hand
    target = place + hang + np.array([0, 0, half + 0.022])
    up, over = _raised(tip, place[2] + hang[2] + CARRY_M - tip[2]), _raised(target, CARRY_M - half)
    over[2] = max(over[2], min(up[2], _ceiling(over)))
    return [*_line(tip, up), *_line(up, over), *_line(over, target, "keep", "release"), *_retreat(target)]


def _retreat(tip: Array) -> list[Waypoint]:
    """Up, then back towards the robot: over 25 cm away from what was let go."""
    up = _raised(tip, 0.12)
    back = np.array([max(0.24, up[0] - 0.20), up[1] * 0.7, 0.0])
    back[2] = min(up[2] + 0.12, _ceiling(back))
    return _path(tip, [up, back])


def _press(env: KitchenEnv, decision: int) -> list[Waypoint]:
    """Push a button in the front of an appliance with closed fingers, then back off."""
    facts = env.facts
    button = facts.role("button")
    tip = _tip(env)
    heading = _base_pose(env)[2]
    forward = tilted_forward(0.0, -heading)  # square to the front, however the robot stands
    face = _to_base(env, facts.position(button)) - yaw_matrix(-heading) @ np.array([0.006 + FINGERTIP_M, 0, 0])
    into = yaw_matrix(-heading) @ np.array([1.0, 0, 0])
    if facts.latched:
        return _line(tip, tip - 0.19 * into, forward)
    before = face - 0.07 * into
    aside = np.array([min(tip[0], before[0]), before[1], before[2]])
    way = [_at(tip, forward, "close"), *_path(tip, [aside, before], forward)]
    return [*way, *_line(before, face + (0.018 + 0.004 * (decision % 3)) * into, forward)]


def _line_up(env: KitchenEnv, stand_world: Sequence[float] | Array, nearest_m: float) -> list[Waypoint]:
    """A drive to a spot on the floor, facing along world x like every front; nothing when the robot stands well enough already.

    `nearest_m` is how much nearer to the front than that spot the robot may stay.
    """
    forward, left, _ = _to_base(env, stand_world)
    turn = -_base_pose(env)[2]
    if -nearest_m <= forward <= 0.04 and abs(left) <= 0.12 and abs(turn) <= 0.20:
        return []
    shrink = min(1.0, 0.58 / max(math.hypot(forward, left), 1e-9))
    return [Waypoint(base=BaseMotion(float(shrink * forward), float(shrink * left), float(max(-1.5, min(1.5, turn)))))]


def _close_door(env: KitchenEnv, decision: int) -> list[Waypoint]:
    """Push a side-hinged door shut along its arc, fingers closed and pointing forward."""
    facts = env.facts
    part = facts.role("part")
    tip = _tip(env)
    hinge = facts.position(part)
    side = -1.0 if facts.model.joint(part).axis[2] > 0 else 1.0  # hinge on the robot's right: -1
    yaw = _base_pose(env)[2]
    radius, height, thick = 0.42, 1.16, 0.0275
    if decision < LINE_UP_TRIES and (drive := _line_up(env, hinge + np.array([-0.70, -side * 0.33, 0]), 0.08)):
        return drive

    def contact(angle: float, gap: float) -> Array:
        """Tip position that touches the outer face at an opening angle, backed off by a gap along the face's normal."""
        # In the hinge's frame with the door closed along +y (mirrored for a left hinge): direction along the door and outward normal.
        along = np.array([-math.sin(angle), -side * math.cos(angle)])
        normal = np.array([-math.cos(angle), side * math.sin(angle)])
        lean = angle + side * yaw  # between the hand's forward and the push direction
        reach = max(0.0125 * math.cos(lean) + 0.02 * abs(math.sin(lean)), -0.045 * math.cos(lean) + 0.10 * abs(math.sin(lean)))
        flat = hinge[:2] + radius * along + (thick + reach + gap) * normal
        return _to_base(env, (flat[0], flat[1], height))

    angle = facts.joint(part)
    begin = contact(angle, 0.03)
    fingers = [_at(tip, "forward", "close")] if _open(env) else []
    # Lined up in front of the door first, then onto it: the hand must not sweep the door's edge sideways.
    clear = np.array([min(tip[0], begin[0] - 0.02), tip[1], tip[2]])
    beside = np.array([clear[0], begin[1], begin[2]])
    touching = float(np.linalg.norm(tip - contact(angle, 0.0))) < 0.05
    way = [] if touching else _path(tip, [clear, beside, begin], "forward")
    steps = max(1, math.ceil(angle * radius / 0.06))
    arc = [contact(angle * (1 - (k + 1) / steps), -0.012) for k in range(steps)]
    final = [contact(0.0, -0.03)]
    return [*fingers, *way, *_path(tip if touching else begin, [*arc, *final], "forward")]


def _close_flap(env: KitchenEnv, decision: int) -> list[Waypoint]:
    """Lift a door that is hinged along its lower edge by its handle bar, from below, and push it shut."""
    facts = env.facts
    part = facts.role("part")
    tip = _tip(env)
    hinge = facts.position(part)
    angle = facts.joint(part)
    heading = _base_pose(env)[2]
    forward = tilted_forward(0.0, -heading)
    if decision < LINE_UP_TRIES and (drive := _line_up(env, hinge + np.array([-0.70, 0, 0]), 0.06)):
        return drive

    def contact(angle: float, gap: float) -> Array:
        """Tip position whose fingers touch the handle bar from outside at an opening angle."""
        along, normal = np.array([-math.sin(angle), math.cos(angle)]), np.array([-math.cos(angle), -math.sin(angle)])
        extent = FINGERTIP_M * math.cos(angle) + 0.011 * math.sin(angle)
        x, z = hinge[[0, 2]] + 0.202 * along + (0.009 + 0.028 + 0.007 + extent + gap) * normal
        return _to_base(env, (x + 0.015 * math.sin(angle), hinge[1], z))

    begin = contact(angle, 0.03)
    touching = float(np.linalg.norm(tip - contact(angle, 0.0))) < 0.04
    back = np.array([min(tip[0], begin[0] - 0.10), tip[1], tip[2]])
    low = np.array([back[0], begin[1], begin[2]])
    way = [] if touching else _path(tip, [back, low, begin], forward)
    fingers = [_at(tip, forward, "close")] if _open(env) else []
    steps = max(1, math.ceil(angle * 0.2 / 0.04))
    arc = [contact(angle * (1 - (k + 1) / steps), -0.02) for k in range(steps)]
    return [*fingers, *way, *_path(tip if touching else begin, [*arc, contact(0.0, -0.04)], forward)]


SKILLS: dict[str, Planner] = {
    "CloseFridge": _close_door,
    "CloseToasterOvenDoor": _close_flap,
    "TurnOnMicrowave": _press,
    "PickPlaceCounterToStove": _pick_place,
    "PickPlaceToasterToCounter": _pick_place,
    "PickPlaceSinkToCounter": _pick_place,
}
