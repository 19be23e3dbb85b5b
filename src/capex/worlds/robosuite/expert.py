"""A privileged planner for robosuite's tasks: from the simulator's truth to waypoints.

It proves tasks solvable through the interface and makes demonstrations for tests; nothing here
reaches an interface that a model sees. It grasps from above, across the thinner side of a thing,
carries high, and lets go. It has no skill for Door.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from capex.errors import CapexError, ErrorCode
from capex.plan import BaseMotion, Orientation, Steps, Waypoint, at, down, line, path, waypoints
from capex.pose import Array, Pose, matrix_to_euler, yaw_matrix
from capex.worlds.robosuite.env import SuiteEnv
from capex.worlds.robosuite.robots import ARM

HOVER_M = 0.10
CARRY_M = 0.16  # height of the tip over the table while carrying; over the bins' walls
TALL_M = 0.03  # a thing of more than this half height is taken near its top
BELOW_TOP_M = 0.022
REACH_M = 0.66  # a mobile robot comes nearer when something is farther from its mount
COMFORT_M = 0.55
DRIVE_MAX_M = 0.35
# How far forward the mount can stand in robosuite's world.
TABLE_NEAREST_M, BINS_NEAREST_M = (-0.48, -0.25)
# Far, left.
COMPARTMENTS = {
    "PickPlaceMilk": (-1, -1),
    "PickPlaceBread": (1, -1),
    "PickPlaceCereal": (-1, 1),
    "PickPlaceCan": (1, 1),
}
BIN_M = (0.1, 0.28, 0.8)  # robosuite's dark bin in the world: its middle, and half of a compartment
HALF_COMPARTMENT_M = (0.0975, 0.1225)
PEG_HALF_M = 0.1

Skill = Callable[[SuiteEnv, int], Steps]


def plan(env: SuiteEnv, decision: int) -> list[Waypoint]:
    """The next plan for the env's task; `decision` counts the plans made in this episode."""
    task = env.spec.task
    if task not in SKILLS:
        known = ", ".join(SKILLS)
        raise CapexError(
            f"the expert has no skill for {env.spec.name}; it knows {known}",
            code=ErrorCode.UNSUPPORTED,
        )
    return waypoints(ARM.name, SKILLS[task](env, decision))


def _tip(env: SuiteEnv) -> Array:
    return env.robot_state().arms[ARM.name].T_base_tip.position_m


def _holds(env: SuiteEnv, thing: str) -> bool:
    return thing in env.robot_state().arms[ARM.name].held


def _at_height(point: Array, height_m: float) -> Array:
    return np.array([point[0], point[1], height_m])


def _across(pose: Pose, half_m: Array) -> Orientation:
    """Pointing down, fingers closing across the thinner of a thing's upright sides."""
    axis = pose.rotation[:, 0 if half_m[0] <= half_m[1] else 1]
    return _down_closing_along(axis)


def _down_closing_along(axis: Array) -> Orientation:
    return down(math.atan2(axis[1], axis[0]) - math.pi / 2)


def _come_near(env: SuiteEnv, point: Array) -> Steps:
    """A drive that brings a far point into comfortable reach; empty where none is needed or can."""
    here = env.robot_state().base
    if here is None or math.hypot(point[0], point[1]) <= REACH_M:
        return []
    nearest = BINS_NEAREST_M if env.spec.task in COMPARTMENTS else TABLE_NEAREST_M
    forward = max(-DRIVE_MAX_M, min(DRIVE_MAX_M, float(point[0]) - COMFORT_M, nearest - here[0]))
    left = max(-DRIVE_MAX_M, min(DRIVE_MAX_M, float(point[1])))
    return [BaseMotion(forward, left)] if math.hypot(forward, left) > 0.03 else []


def _grasp(env: SuiteEnv, grip: Array, orientation: Orientation) -> Steps:
    """Open above a place, come down on it, close, and lift."""
    if drive := _come_near(env, grip):
        return drive
    tip = _tip(env)
    hover = _at_height(grip, max(grip[2] + HOVER_M, CARRY_M))
    above = _at_height(tip, max(tip[2], hover[2]))
    approach = [at(above, orientation, "open"), *line(above, hover, orientation)]
    return [*approach, *line(hover, grip, orientation, "close"), *line(grip, hover)]


def _grip_of(env: SuiteEnv, shape: str) -> tuple[Array, Orientation]:
    """Where and how to take a thing: low ones around their middle, tall ones near their top."""
    pose, half_m = env.truth.shape(shape)
    rise = half_m[2] - BELOW_TOP_M if half_m[2] > TALL_M else 0.0
    return pose.position_m + np.array([0.0, 0.0, rise]), _across(pose, half_m)


def _lift(env: SuiteEnv, decision: int) -> Steps:
    return _grasp(env, *_grip_of(env, "cube_g0"))


def _put(env: SuiteEnv, shape: str, place: Array) -> Steps:
    """Carry what is held over a place, lower it there, let go, and rise."""
    if drive := _come_near(env, place):
        return drive
    tip = _tip(env)
    thing, _ = env.truth.shape(shape)
    target = place + (tip - thing.position_m)
    height = max(tip[2], target[2] + 0.03, CARRY_M)
    up, over = _at_height(tip, height), _at_height(target, height)
    return [*path(tip, [up, over]), *line(over, target, "keep", "release"), *line(target, over)]


def _stack(env: SuiteEnv, decision: int) -> Steps:
    if not _holds(env, "cubeA"):
        return _grasp(env, *_grip_of(env, "cubeA_g0"))
    (below, half_below), (_, half) = env.truth.shape("cubeB_g0"), env.truth.shape("cubeA_g0")
    top = below.position_m + np.array([0.0, 0.0, half_below[2] + half[2] + 0.004])
    return _put(env, "cubeA_g0", top)


def _to_bin(env: SuiteEnv, decision: int) -> Steps:
    thing = env.spec.task.removeprefix("PickPlace")
    shape = f"{thing}_g0"
    if not _holds(env, thing):
        return _grasp(env, *_grip_of(env, shape))
    far, left = COMPARTMENTS[env.spec.task]
    half_x, half_y = HALF_COMPARTMENT_M
    floor = np.array([BIN_M[0] + far * half_x, BIN_M[1] + left * half_y, BIN_M[2]])
    place = env.truth.place(floor) + np.array([0.0, 0.0, env.truth.shape(shape)[1][2] + 0.03])
    return _put(env, shape, place)


def _nut(env: SuiteEnv, decision: int) -> Steps:
    """Take the nut by its handle, turn it square to the peg, and put its hole over the peg."""
    handle, _ = env.truth.shape("SquareNut_g4")
    if not _holds(env, "SquareNut"):
        return _grasp(env, handle.position_m, _down_closing_along(handle.rotation[:, 1]))
    peg = env.truth.body("peg1")
    if drive := _come_near(env, peg.position_m):
        return drive
    hand, nut = env.robot_state().arms[ARM.name].T_base_tip, env.truth.body("SquareNut_main")
    # The smallest turn about the vertical that makes the nut square to the peg, and where the hand
    # is then over it.
    heading = [math.atan2(pose.rotation[1, 0], pose.rotation[0, 0]) for pose in (nut, peg)]
    turn = (heading[1] - heading[0] + math.pi / 4) % (math.pi / 2) - math.pi / 4
    hang = yaw_matrix(turn) @ (hand.position_m - nut.position_m)
    square = matrix_to_euler(yaw_matrix(turn) @ hand.rotation)
    above, low = (
        peg.position_m + hang + np.array([0.0, 0.0, rise]) for rise in (PEG_HALF_M + 0.03, 0.01)
    )
    high = max(hand.position_m[2], above[2])
    up, over = _at_height(hand.position_m, high), _at_height(above, high)
    way = [*line(hand.position_m, up), *line(up, over, square), *line(over, above, square)]
    return [*way, *line(above, low, square, "release"), *line(low, above)]


SKILLS: dict[str, Skill] = {
    "Lift": _lift,
    "Stack": _stack,
    **dict.fromkeys(COMPARTMENTS, _to_bin),
    "NutAssemblySquare": _nut,
}
