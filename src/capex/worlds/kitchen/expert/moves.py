"""What the expert's skills are made of: where things are in the base frame, straight lines of
waypoints, lining up with the base.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from capex.plan import ArmTarget, BaseMotion, Gripper, Orientation, Waypoint
from capex.pose import DOWN, Array, matrix_to_euler, yaw_matrix
from capex.worlds.kitchen.robot import ARM

if TYPE_CHECKING:
    from capex.worlds.kitchen.env import KitchenEnv

LEG_M = 0.09  # spacing of waypoints on a straight line
FINGERTIP_M = 0.0125  # from the tip to the end of the fingers
LINE_UP_TRIES = 3

Skill = Callable[
    ["KitchenEnv", int], list[Waypoint]
]  # (env, plans already made in this episode) -> the next plan


def to_base(env: KitchenEnv, point_world: Sequence[float] | Array) -> Array:
    """A world point in the base frame."""
    x, y, yaw = base_pose(env)
    offset = np.asarray(point_world, dtype=float) - np.array(
        [x, y, float(env.facts.data.site("mount").xpos[2])]
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


def at(position: Array, orientation: Orientation = "keep", gripper: Gripper = "keep") -> Waypoint:
    """One waypoint."""
    x, y, z = (float(v) for v in position)
    return Waypoint({ARM: ArmTarget((x, y, z), orientation, gripper)})


def line(
    start: Array, end: Array, orientation: Orientation = "keep", gripper: Gripper = "keep"
) -> list[Waypoint]:
    """Waypoints along a straight line, the gripper command at its end."""
    count = max(1, math.ceil(float(np.linalg.norm(end - start)) / LEG_M))
    points = [start + (end - start) * (k + 1) / count for k in range(count)]
    return [at(p, orientation) for p in points[:-1]] + [at(points[-1], orientation, gripper)]


def path(
    start: Array, points: Sequence[Array], orientation: Orientation = "keep"
) -> list[Waypoint]:
    """Waypoints along straight lines from point to point."""
    waypoints: list[Waypoint] = []
    for point in points:
        waypoints += line(start, point, orientation)
        start = point
    return waypoints


def down_with_yaw(yaw: float) -> tuple[float, float, float]:
    """Pointing down, turned about the vertical; half turns are the same grasp, so the smaller one
    is taken.
    """
    yaw = (yaw + math.pi / 2) % math.pi - math.pi / 2
    return matrix_to_euler(yaw_matrix(yaw) @ DOWN)


def ceiling(point: Array) -> float:
    """How high the hand can be, pointing down, at a horizontal distance from the mount: the edge of
    the reach map.
    """
    return float(
        np.interp(
            math.hypot(point[0], point[1]),
            (0.30, 0.43, 0.52, 0.60, 0.69),
            (0.80, 0.69, 0.64, 0.58, 0.48),
        )
    )


def raised(point: Array, by_m: float) -> Array:
    """A point lifted, but not above the ceiling of its place."""
    return np.array([point[0], point[1], max(point[2], min(point[2] + by_m, ceiling(point)))])


def line_up(
    env: KitchenEnv, stand_world: Sequence[float] | Array, nearest_m: float
) -> list[Waypoint]:
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
        Waypoint(
            base=BaseMotion(
                float(shrink * forward), float(shrink * left), float(max(-1.5, min(1.5, turn)))
            )
        )
    ]
