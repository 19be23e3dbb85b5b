"""A privileged planner: reads the simulator's truth and drives through the executor with waypoints, like any demonstrator.

It is the upper bound of what the waypoint interface can do, the proof that each task is solvable, and the stand-in for human
demonstrations. Nothing here reaches an interface that a model sees.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from capex.errors import CapexError
from capex.plan import ArmTarget, Gripper, Orientation, Waypoint
from capex.pose import DOWN, Array, matrix_to_euler, yaw_matrix
from capex.worlds.kitchen.env import ARM, KitchenEnv
from capex.worlds.kitchen.things import FOOD

LEG_M = 0.09  # spacing of waypoints on a straight line
HOVER_M = 0.10
CARRY_M = 0.17  # height of the tip over the worktop while carrying

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


def _pick_place(env: KitchenEnv, decision: int) -> list[Waypoint]:
    facts, state = env.facts, env.robot_state().arms[ARM]
    item, container = facts.role("object"), facts.role("container")
    tip, thing = _tip(env), _to_base(env, facts.position(item))
    place = _to_base(env, facts.position(container))
    holding = item in state.held
    if not holding and facts.touching(item, container) and facts.distance_xy(item, container) < 0.07:
        return _retreat(env, tip)
    if not holding:
        axis = facts.rotation(item)[:, 0]
        yaw = math.atan2(axis[1], axis[0]) - _base_pose(env)[2]
        round_thing = item in FOOD and FOOD[item].shape == "ball"
        orientation = _down_with_yaw(0.0 if round_thing else yaw + 0.35 * (decision // 3))
        hover = thing + np.array([0, 0, HOVER_M])
        above = np.array([tip[0], tip[1], max(tip[2], hover[2])])
        grasp = thing - np.array([0, 0, 0.004])
        approach = [_at(above, orientation, "open"), *_line(above, hover, orientation)]
        lift = grasp + np.array([0, 0, CARRY_M - 0.03])
        return [*approach, *_line(hover, grasp, orientation, "close"), *_line(grasp, lift)]
    high = max(tip[2], place[2] + CARRY_M)
    over = np.array([place[0], place[1], high])
    hang = tip - thing  # how the object hangs in the hand
    target = np.array([place[0] + hang[0], place[1] + hang[1], place[2] + 0.055 + hang[2]])
    over[:2] = target[:2]
    way = [
        *_line(tip, np.array([tip[0], tip[1], high])),
        *_line(np.array([tip[0], tip[1], high]), over),
        *_line(over, target, "keep", "release"),
    ]
    return way + _retreat(env, target)


def _retreat(env: KitchenEnv, tip: Array) -> list[Waypoint]:
    """Up, then back towards the robot: over 25 cm away from what was let go."""
    up = tip + np.array([0, 0, 0.12])
    return _path(tip, [up, np.array([max(0.24, up[0] - 0.20), up[1] * 0.7, min(up[2] + 0.08, 0.74)])])


def _close_door(env: KitchenEnv, decision: int) -> list[Waypoint]:
    """Push a side-hinged door shut along its arc, fingers closed and pointing forward."""
    facts = env.facts
    part = facts.role("part")
    tip = _tip(env)
    hinge = facts.position(part)
    side = -1.0 if facts.model.joint(part).axis[2] > 0 else 1.0  # hinge on the robot's right: -1
    yaw = _base_pose(env)[2]
    radius, height, thick = 0.42, 1.16, 0.0275

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
    fingers = [_at(tip, "forward", "close")] if decision == 0 else []
    # Lined up in front of the door first, then onto it: the hand must not sweep the door's edge sideways.
    clear = np.array([min(tip[0], begin[0] - 0.02), tip[1], tip[2]])
    beside = np.array([clear[0], begin[1], begin[2]])
    touching = float(np.linalg.norm(tip - contact(angle, 0.0))) < 0.05
    way = [] if touching else _path(tip, [clear, beside, begin], "forward")
    steps = max(1, math.ceil(angle * radius / 0.06))
    arc = [contact(angle * (1 - (k + 1) / steps), -0.012) for k in range(steps)]
    final = [contact(0.0, -0.03)]
    return [*fingers, *way, *_path(tip if touching else begin, [*arc, *final], "forward")]


SKILLS: dict[str, Planner] = {"PickPlaceCounterToStove": _pick_place, "CloseFridge": _close_door}
