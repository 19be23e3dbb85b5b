"""Poses, their algebra (`@`, `inverse`, `apply`) in space and on the floor, rotation vectors and
Euler angles.

Rotations are 3x3 matrices whose columns are the axes of the moved frame. The tip frame has z along
the approach and y along the closing direction of the fingers. Metres and radians; degrees only
where a name says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

DOWN: Array = np.array([[1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, -1.0]])
FORWARD: Array = np.array([[0.0, 0.0, 1.0], [0.0, -1.0, 0.0], [1.0, 0.0, 0.0]])


@dataclass(frozen=True)
class Pose:
    """Position (3,) in metres and rotation (3,3) of a frame, seen from the frame that the
    variable's name says.
    """

    position_m: Array
    rotation: Array

    def apply(self, point_m: Array) -> Array:
        """A point (3,) or points (3,n) of this frame, in the frame that the pose is given in."""
        return np.asarray(self.rotation @ point_m + _beside(self.position_m, point_m))

    def __matmul__(self, inner: Pose) -> Pose:
        """T_a_b @ T_b_c = T_a_c."""
        return Pose(self.apply(inner.position_m), self.rotation @ inner.rotation)

    def inverse(self) -> Inverse:
        """T_a_b.inverse() acts as T_b_a: `apply` and `@` take what is seen from a."""
        return Inverse(self)


@dataclass(frozen=True)
class Inverse:
    """A pose taken back. It subtracts before it rotates: a far origin costs no digits."""

    pose: Pose

    def apply(self, point_m: Array) -> Array:
        """R^T (p - t)."""
        offset_m = point_m - _beside(self.pose.position_m, point_m)
        return np.asarray(self.pose.rotation.T @ offset_m)

    def __matmul__(self, outer: Pose) -> Pose:
        """T_a_b.inverse() @ T_a_c = T_b_c."""
        return Pose(self.apply(outer.position_m), self.pose.rotation.T @ outer.rotation)


def _beside(position_m: Array, points: Array) -> Array:
    """A position shaped so that it adds to a point (3,) or to points (3,n)."""
    return position_m if points.ndim == 1 else position_m[:, None]


class PlanarPose(NamedTuple):
    """Where something stands on the floor: x and y in metres, yaw in radians; a mobile base, a
    fixture, or the measured motion of a base. Heights pass through unchanged.
    """

    x: float = 0.0
    y: float = 0.0
    yaw: float = 0.0

    def apply(self, point_m: Sequence[float] | Array) -> tuple[float, float, float]:
        """A point of this frame, in the frame that the pose is given in."""
        c, s = math.cos(self.yaw), math.sin(self.yaw)
        x, y, z = point_m
        return self.x + c * x - s * y, self.y + s * x + c * y, z

    def __matmul__(self, inner: tuple[float, float, float]) -> PlanarPose:
        """Go on by a pose that is seen from this one."""
        x, y, _ = self.apply((inner[0], inner[1], 0.0))
        return PlanarPose(x, y, self.yaw + inner[2])

    def inverse(self) -> PlanarInverse:
        """`apply` and `@` of the inverse take what is seen from outside."""
        return PlanarInverse(self)


@dataclass(frozen=True)
class PlanarInverse:
    """A planar pose taken back; like `Inverse` it subtracts first."""

    pose: PlanarPose

    def apply(self, point_m: Sequence[float] | Array) -> tuple[float, float, float]:
        """A point given from outside, seen from the pose."""
        c, s = math.cos(self.pose.yaw), math.sin(self.pose.yaw)
        dx, dy = point_m[0] - self.pose.x, point_m[1] - self.pose.y
        return c * dx + s * dy, -s * dx + c * dy, point_m[2]

    def __matmul__(self, outer: tuple[float, float, float]) -> PlanarPose:
        """A pose given from outside, seen from this one; its yaw lies within half a turn."""
        x, y, _ = self.apply((outer[0], outer[1], 0.0))
        return PlanarPose(x, y, wrap(outer[2] - self.pose.yaw))


def wrap(angle_rad: float) -> float:
    """The same angle within half a turn."""
    return math.atan2(math.sin(angle_rad), math.cos(angle_rad))


def nearest_rotation(matrix: Array) -> Array:
    """The rotation (3,3) nearest to a measured matrix (3,3): U V^T of its decomposition U S V^T."""
    u, _, vt = np.linalg.svd(matrix)
    if np.linalg.det(u @ vt) < 0.0:  # a mirror image: turn the axis that fits least
        u[:, 2] = -u[:, 2]
    return np.asarray(u @ vt)


def rotation_vector(R: Array) -> Array:
    """Axis times angle of a rotation matrix, angle in [0, pi]."""
    v = np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]])
    sine = 0.5 * math.sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2])
    cosine = 0.5 * (R[0, 0] + R[1, 1] + R[2, 2] - 1.0)
    angle = math.atan2(sine, cosine)
    if sine > 1e-9:
        return np.asarray(v * (0.5 * angle / sine))
    if cosine > 0:
        return np.asarray(0.5 * v)
    # Half a turn: signs from the largest column.
    axis = np.sqrt(np.maximum((np.diag(R) + 1.0) / 2.0, 0.0))
    k = int(np.argmax(axis))
    signs = np.sign(R[k] + R[:, k])
    signs[k] = 1.0
    return np.asarray(math.pi * axis * np.where(signs == 0, 1.0, signs))


def rotation_matrix(vector: Array) -> Array:
    """Rotation matrix of an axis-angle vector (Rodrigues)."""
    x, y, z = (float(c) for c in vector)
    angle = math.sqrt(x * x + y * y + z * z)
    if angle < 1e-12:
        return np.array([[1.0, -z, y], [z, 1.0, -x], [-y, x, 1.0]])
    x, y, z = x / angle, y / angle, z / angle
    c, s = math.cos(angle), math.sin(angle)
    t = 1.0 - c
    return np.array(
        [
            [t * x * x + c, t * x * y - s * z, t * x * z + s * y],
            [t * x * y + s * z, t * y * y + c, t * y * z - s * x],
            [t * x * z - s * y, t * y * z + s * x, t * z * z + c],
        ]
    )


def angle_between(a: Array, b: Array) -> float:
    """Angle in radians of the rotation between two orientations."""
    return float(np.linalg.norm(rotation_vector(a @ b.T)))


def euler_to_matrix(degrees: tuple[float, float, float]) -> Array:
    """Intrinsic XYZ Euler angles in degrees (roll, pitch, yaw) to a rotation matrix."""
    roll, pitch, yaw = (math.radians(d) for d in degrees)
    x = np.array(
        [[1, 0, 0], [0, math.cos(roll), -math.sin(roll)], [0, math.sin(roll), math.cos(roll)]]
    )
    y = np.array(
        [[math.cos(pitch), 0, math.sin(pitch)], [0, 1, 0], [-math.sin(pitch), 0, math.cos(pitch)]]
    )
    return np.asarray(x @ y @ yaw_matrix(yaw))


def matrix_to_euler(R: Array) -> tuple[float, float, float]:
    """Intrinsic XYZ Euler angles in degrees of a rotation matrix; at the pole (pitch 90) yaw is set
    to 0.
    """
    pitch = math.asin(max(-1.0, min(1.0, float(R[0, 2]))))
    if abs(R[0, 2]) < 1.0 - 1e-9:
        roll, yaw = math.atan2(-R[1, 2], R[2, 2]), math.atan2(-R[0, 1], R[0, 0])
    else:
        roll, yaw = math.atan2(R[2, 1], R[1, 1]), 0.0
    return math.degrees(roll), math.degrees(pitch), math.degrees(yaw)


def yaw_matrix(yaw_rad: float) -> Array:
    """Rotation about the vertical axis."""
    c, s = math.cos(yaw_rad), math.sin(yaw_rad)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def quaternion_xyzw(R: Array) -> Array:
    """Unit quaternion (x, y, z, w) of a rotation matrix, w >= 0."""
    v = rotation_vector(R)
    angle = float(np.linalg.norm(v))
    axis = v / angle if angle > 1e-12 else np.zeros(3)
    return np.array([*(axis * math.sin(angle / 2)), math.cos(angle / 2)])


def quaternion_matrix(xyzw: Array) -> Array:
    """Rotation matrix of a unit quaternion (x, y, z, w)."""
    sine = float(np.linalg.norm(xyzw[:3]))
    angle = 2.0 * math.atan2(sine, float(xyzw[3]))
    return rotation_matrix(xyzw[:3] * (angle / sine if sine > 1e-12 else 2.0))


def tilted_forward(pitch_down_rad: float, yaw_rad: float = 0.0) -> tuple[float, float, float]:
    """Euler degrees of a hand that points forward, lowered by a pitch and turned by a yaw about the
    vertical.
    """
    lower = rotation_matrix(np.array([0.0, pitch_down_rad, 0.0]))
    return matrix_to_euler(yaw_matrix(yaw_rad) @ lower @ FORWARD)
