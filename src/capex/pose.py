"""Poses and orientations: the words a plan may use, rotation vectors, and Euler angles, in one
place.

Rotations are 3x3 matrices whose columns are the axes of the moved frame. The tip frame has z along
the approach and y along the closing direction of the fingers. Metres and radians; degrees only
where a name says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

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
    axis = np.sqrt(
        np.maximum((np.diag(R) + 1.0) / 2.0, 0.0)
    )  # half a turn: signs from the largest column
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


def tilted_forward(pitch_down_rad: float, yaw_rad: float = 0.0) -> tuple[float, float, float]:
    """Euler degrees of a hand that points forward, lowered by a pitch and turned by a yaw about the
    vertical.
    """
    lower = rotation_matrix(np.array([0.0, pitch_down_rad, 0.0]))
    return matrix_to_euler(yaw_matrix(yaw_rad) @ lower @ FORWARD)
