"""Where a camera stands, from a few points of known place and the pixels at which they are seen.

With known intrinsics K and x ~ K^-1 (u, v, 1), twelve numbers of P = [R | t] follow from
x cross (P X) = 0 by least squares (DLT); the nearest rotation begins a Gauss-Newton descent of the
pixel distance over rotation vector and translation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from capex.errors import CapexError, ErrorCode
from capex.pose import Array, Pose, matrix_to_euler, rotation_matrix
from capex.rigs.rigfile import Box, Corner

POINTS_MIN = 6  # what DLT needs
INSET = 0.25  # of the box's sides: calibration stays in its middle half
STEPS_MAX = 50
FLAT = 1e-3  # of the largest spread: points on a plane leave DLT without an answer


@dataclass(frozen=True)
class CameraPose:
    """The pose of a camera in the frame of the points, and how far pixels lie off, root mean
    square and at most.
    """

    pose: Pose
    error_px: float
    worst_px: float

    def as_toml(self) -> str:
        """The line for a rig file."""
        position = ", ".join(f"{v:.4f}" for v in self.pose.position_m)
        euler = ", ".join(f"{v:.3f}" for v in matrix_to_euler(self.pose.rotation))
        return f"extrinsics = {{ position_m = [{position}], euler_deg = [{euler}] }}"


def places(box: Box) -> list[Corner]:
    """Eight places for a tip, the corners of the middle half of a box, each an edge away from the
    one before.
    """
    low, high = np.array(box.lower_m), np.array(box.upper_m)
    inset = INSET * (high - low)
    corners = np.stack([low + inset, high - inset])
    gray = ((0, 0, 1), (0, 1, 1), (1, 1, 1), (1, 0, 1), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0, 0, 0))
    return [(float(corners[i, 0]), float(corners[j, 1]), float(corners[k, 2])) for i, j, k in gray]


def solve_pose(points_m: Sequence[Array], pixels: Sequence[Array], intrinsics: Array) -> CameraPose:
    """The camera that sees points (n,3) at pixels (n,2)."""
    points, seen = np.array(points_m, dtype=np.float64), np.array(pixels, dtype=np.float64)
    if len(points) < POINTS_MIN or len(points) != len(seen):
        raise CapexError(
            f"{min(len(points), len(seen))} points were seen; at least {POINTS_MIN} are needed",
            code=ErrorCode.NO_DATA,
        )
    spread = np.linalg.svd(points - points.mean(axis=0), compute_uv=False)
    if spread[2] < FLAT * spread[0]:
        raise CapexError("the points lie on one plane; they must differ in x, y and z")
    T_camera_points = _descend(_direct(points, seen, intrinsics), points, seen, intrinsics)
    off = np.linalg.norm(_residuals(T_camera_points, points, seen, intrinsics), axis=1)
    pose = T_camera_points.inverse() @ Pose(np.zeros(3), np.eye(3))
    return CameraPose(pose, float(np.sqrt((off**2).mean())), float(off.max()))


def _direct(points: Array, seen: Array, intrinsics: Array) -> Pose:
    """DLT: from the null vector of 2n equations in 12 unknowns to the nearest rigid pose."""
    centre, scale = points.mean(axis=0), float(np.abs(points - points.mean(axis=0)).max())
    scaled = (points - centre) / scale
    rays = np.column_stack([seen, np.ones(len(seen))]) @ np.linalg.inv(intrinsics).T
    rows = []
    for (x, y, z), (a, b, c) in zip(scaled, rays, strict=True):
        point = np.array([x, y, z, 1.0])
        rows.append(np.concatenate([c * point, np.zeros(4), -a * point]))
        rows.append(np.concatenate([np.zeros(4), c * point, -b * point]))
    P = np.linalg.svd(np.array(rows))[2][-1].reshape(3, 4)
    if float(np.mean(scaled @ P[2, :3] + P[2, 3])) < 0:  # the points are in front of the camera
        P = -P
    U, sizes, V = np.linalg.svd(P[:, :3])
    R = U @ np.diag([1.0, 1.0, np.linalg.det(U @ V)]) @ V
    t = P[:, 3] / sizes.mean() * scale
    return Pose(t - R @ centre, R)


def _descend(pose: Pose, points: Array, seen: Array, intrinsics: Array) -> Pose:
    """Gauss-Newton with derivatives by differences: 6 numbers and a few points are cheap."""
    for _ in range(STEPS_MAX):
        now = _residuals(pose, points, seen, intrinsics).ravel()
        columns = []
        for k in range(6):
            small = np.zeros(6)
            small[k] = 1e-6
            moved = _residuals(_nudged(pose, small), points, seen, intrinsics).ravel()
            columns.append((moved - now) / 1e-6)
        step = np.array(np.linalg.lstsq(np.array(columns).T, -now, rcond=None)[0])
        pose = _nudged(pose, step)
        if float(np.abs(step).max()) < 1e-10:
            break
    return pose


def _nudged(pose: Pose, by: Array) -> Pose:
    return Pose(pose.position_m + by[3:], rotation_matrix(by[:3]) @ pose.rotation)


def _residuals(T_camera_points: Pose, points: Array, seen: Array, intrinsics: Array) -> Array:
    """Pixels (n,2) by which projections miss."""
    x = intrinsics @ T_camera_points.apply(points.T)
    return np.asarray((x[:2] / x[2]).T - seen)
