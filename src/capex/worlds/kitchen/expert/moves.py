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
LINE_UP_TRIES = 3

# (env, plans already made in this episode) -> the next plan
Skill = Callable[["KitchenEnv", int], Steps]


def to_base(env: KitchenEnv, point_world: Sequence[float] | Array) -> Array:
    """A world point in the base frame."""
    x, y, yaw = base_pose(env)
    offset = np.asarray(point_world, dtype=float) - np.array(
        [x, y, float(env.truth.data.site("mount").xpos[2])]
    )
    return np.asarray(yaw_matrix(-yaw) @ offset)


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


def line_up(
    env: KitchenEnv, stand_world: Sequence[float] | Array, nearest_m: float
) -> list[BaseMotion]:
    """A drive to a spot on the floor, facing along world x like every front; nothing when the robot
    stands well enough already.

    `nearest_m` is how much nearer to the front than that spot the robot may stay.
    """
    forward, left, _ = to_base(env, stand_world)
    turn = -base_pose(env)[2]
    if -nearest_m <= forward <= 0.04 and abs(left) <= 0.12 and abs(turn) <= 0.20:
        return []
    shrink = min(1.0, 0.58 / max(math.hypot(forward, left), 1e-9))
    return [
        BaseMotion(float(shrink * forward), float(shrink * left), float(max(-1.5, min(1.5, turn))))
    ]
