"""Kinematics and limits of the Franka Panda arm, and inverse kinematics for many targets at once.

The chain is the manufacturer's (Craig's convention): joint i turns about z after the constant
transform Rot_x(alpha) Trans_x(a) Trans_z(d). Frames: `mount` is the first link's foot, x forward, z
up; `tip` is the midpoint between the finger pads, z along the approach and y along the closing
direction. Metres and radians.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

# The manufacturer's numbers.
JOINTS = ("j1", "j2", "j3", "j4", "j5", "j6", "j7")
A_M = (0.0, 0.0, 0.0, 0.0825, -0.0825, 0.0, 0.088)
D_M = (0.333, 0.0, 0.316, 0.0, 0.384, 0.0, 0.0)
ALPHA_RAD = (0.0, -np.pi / 2, np.pi / 2, np.pi / 2, -np.pi / 2, np.pi / 2, np.pi / 2)
FLANGE_M = 0.107  # from the last joint's origin
HAND_YAW_RAD = -np.pi / 4  # how the hand is screwed onto the flange
TIP_M = 0.1034  # from the flange to the middle of the pads
LOWER_RAD = np.array([-2.8973, -1.7628, -2.8973, -3.0718, -2.8973, -0.0175, -2.8973])
UPPER_RAD = np.array([2.8973, 1.7628, 2.8973, -0.0698, 2.8973, 3.7525, 2.8973])
SPEED_RAD_S = np.array([2.175, 2.175, 2.175, 2.175, 2.61, 2.61, 2.61])
TORQUE_NM = np.array([87.0, 87.0, 87.0, 87.0, 12.0, 12.0, 12.0])


def _constant(i: int) -> Array:
    ca, sa = np.cos(ALPHA_RAD[i]), np.sin(ALPHA_RAD[i])
    return np.array(
        [[1, 0, 0, A_M[i]], [0, ca, -sa, -sa * D_M[i]], [0, sa, ca, ca * D_M[i]], [0, 0, 0, 1]],
        dtype=np.float64,
    )


def _tool() -> Array:
    c, s = np.cos(HAND_YAW_RAD), np.sin(HAND_YAW_RAD)
    return np.array(
        [[c, -s, 0, 0], [s, c, 0, 0], [0, 0, 1, FLANGE_M + TIP_M], [0, 0, 0, 1]], dtype=np.float64
    )


_CONSTANT = tuple(_constant(i) for i in range(7))
_TOOL = _tool()


def forward(q: Array) -> tuple[Array, Array, Array]:
    """q (n,7) -> T_mount_tip (n,4,4), joint axes' Jacobian (n,6,7), joint origins (n,7,3)."""
    n = len(q)
    T = np.broadcast_to(np.eye(4), (n, 4, 4))
    axes, origins = np.empty((n, 7, 3)), np.empty((n, 7, 3))
    for i in range(7):
        T = T @ _CONSTANT[i]
        c, s = np.cos(q[:, i]), np.sin(q[:, i])
        turn = np.zeros((n, 4, 4))
        turn[:, 0, 0], turn[:, 0, 1], turn[:, 1, 0], turn[:, 1, 1] = c, -s, s, c
        turn[:, 2, 2] = turn[:, 3, 3] = 1
        T = T @ turn
        axes[:, i], origins[:, i] = T[:, :3, 2], T[:, :3, 3]
    T = T @ _TOOL
    jacobian = np.empty((n, 6, 7))
    jacobian[:, :3] = np.cross(axes, T[:, None, :3, 3] - origins).transpose(0, 2, 1)
    jacobian[:, 3:] = axes.transpose(0, 2, 1)
    return T, jacobian, origins


@dataclass(frozen=True)
class Solution:
    """Joint angles (n,7), which targets were met (n,), smallest distance to a limit (n,)."""

    q: Array
    reached: npt.NDArray[np.bool_]
    margin_rad: Array


def solve(
    positions_m: Array,
    rotation: Array,
    *,
    seeds: int = 24,
    iterations: int = 120,
    limit_margin_rad: float = 0.05,
) -> Solution:
    """Damped least squares from several seeds; keeps, per target, the solution farthest from the
    joint limits.

    positions_m (n,3) in the mount frame, rotation (3,3) or (n,3,3) the wanted tip orientation.
    """
    n = len(positions_m)
    rotation = np.broadcast_to(rotation, (n, 3, 3))
    lower, upper = LOWER_RAD + limit_margin_rad, UPPER_RAD - limit_margin_rad
    rng = np.random.Generator(np.random.PCG64(7))
    best_q = np.zeros((n, 7))
    best_margin = np.full(n, -np.inf)
    heading = np.arctan2(positions_m[:, 1], positions_m[:, 0])
    for s in range(seeds):
        q = lower + rng.random((n, 7)) * (upper - lower)
        if s % 2 == 0:  # half of the seeds start near the usual elbow-up posture, facing the target
            usual = np.array([0.0, -0.3, 0.0, -2.0, 0.0, 2.0, 0.785])
            q = usual + 0.5 * rng.standard_normal((n, 7))
            q[:, 0] += heading
            q = np.clip(q, lower, upper)
        for _ in range(iterations):
            T, J, _ = forward(q)
            turn = rotation_error(rotation, T[:, :3, :3])
            e = np.concatenate([positions_m - T[:, :3, 3], turn], axis=1)
            H = J @ J.transpose(0, 2, 1) + 1e-4 * np.eye(6)
            step = (J.transpose(0, 2, 1) @ np.linalg.solve(H, e[..., None]))[..., 0]
            q = np.clip(q + np.clip(step, -0.3, 0.3), lower, upper)
        T, _, _ = forward(q)
        ok = np.linalg.norm(positions_m - T[:, :3, 3], axis=1) < 2e-3
        ok &= np.linalg.norm(rotation_error(rotation, T[:, :3, :3]), axis=1) < 0.01
        margin = np.minimum(q - LOWER_RAD, UPPER_RAD - q).min(axis=1)
        better = ok & (margin > best_margin)
        best_q[better], best_margin[better] = q[better], margin[better]
    return Solution(best_q, np.isfinite(best_margin), best_margin)


def rotation_error(goal: Array, current: Array) -> Array:
    """Rotation vectors (n,3) from `current` to `goal` (n,3,3), in their common frame."""
    R = goal @ current.transpose(0, 2, 1)
    vector = np.stack(
        [R[:, 2, 1] - R[:, 1, 2], R[:, 0, 2] - R[:, 2, 0], R[:, 1, 0] - R[:, 0, 1]], axis=1
    )
    sine = np.linalg.norm(vector, axis=1) / 2
    angle = np.arctan2(sine, (np.trace(R, axis1=1, axis2=2) - 1) / 2)
    return np.asarray(vector * (angle / np.maximum(2 * sine, 1e-12))[:, None])
