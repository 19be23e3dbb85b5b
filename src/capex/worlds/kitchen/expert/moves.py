"""What the expert's skills share: where things are in the base frame, and lining the base up."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from capex.plan import BaseMotion, Steps
from capex.pose import Array, yaw_matrix
from capex.worlds.kitchen.robot import ARM

if TYPE_CHECKING:
    from capex.worlds.kitchen.env import KitchenEnv

FINGERTIP_M = 0.0125  # from the tip to the end of the fingers
LINE_UP_TRIES = 3  # then the arm tries from where the robot stands
LEG_M, TURN_RAD = 0.58, 1.5  # of one drive: just under the limits of a base motion

# (env, plans already made in this episode) -> the next plan
Skill = Callable[["KitchenEnv", int], Steps]


def to_base(env: KitchenEnv, point_world: Sequence[float] | Array) -> Array:
    """A world point in the base frame."""
    x, y, yaw = base_pose(env)
    mount = np.array([x, y, float(env.truth.data.site("mount").xpos[2])])
    return np.asarray(yaw_matrix(-yaw) @ (np.asarray(point_world, dtype=float) - mount))


def base_pose(env: KitchenEnv) -> tuple[float, float, float]:
    """Where the base stands: x, y, yaw in the world."""
    base = env.robot_state().base
    assert base is not None
    return base


def tip_of(env: KitchenEnv) -> Array:
    """Where the tip is, in the base frame."""
    return env.robot_state().arms[ARM].T_base_tip.position_m


def is_open(env: KitchenEnv) -> bool:
    """Whether the fingers stand apart."""
    return env.robot_state().arms[ARM].opening_m > 0.01


def holds(env: KitchenEnv, name: str) -> bool:
    """Whether both fingers grip the thing or part of that name."""
    return name in env.robot_state().arms[ARM].held


def before(tip: Array, point: Array) -> tuple[Array, Array]:
    """From the tip back to where x is not beyond a point's, then across to that point's y and z."""
    x = min(tip[0], point[0])
    return np.array([x, tip[1], tip[2]]), np.array([x, point[1], point[2]])


def over(tip: Array, point: Array) -> Array:
    """Where the tip is clear on its way to a point above a part: back and up, at its own y."""
    return np.array([min(tip[0], point[0]), tip[1], max(tip[2], point[2])])


def drive(forward_m: float, left_m: float, turn_rad: float) -> BaseMotion:
    """One leg of a drive in the base frame, shortened to what one base motion may be."""
    shrink = min(1.0, LEG_M / max(math.hypot(forward_m, left_m), 1e-9))
    turn = max(-TURN_RAD, min(TURN_RAD, turn_rad))
    return BaseMotion(float(shrink * forward_m), float(shrink * left_m), float(turn))


def line_up(
    env: KitchenEnv, decision: int, point_world: Array, offset_m: Sequence[float], nearest_m: float
) -> list[BaseMotion]:
    """A drive to a spot on the floor at an offset from a world point, facing along world x like
    every front; nothing when the robot stands well enough or has tried often enough.

    `nearest_m` is how much nearer to the front than that spot the robot may stay.
    """
    forward, left, _ = to_base(env, point_world + np.array(offset_m))
    turn = -base_pose(env)[2]
    near = -nearest_m <= forward <= 0.04 and abs(left) <= 0.12 and abs(turn) <= 0.20
    return [] if near or decision >= LINE_UP_TRIES else [drive(forward, left, turn)]
