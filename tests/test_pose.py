"""Rotations and orientation words."""

from __future__ import annotations

import math

import numpy as np
import pytest

from capex.pose import (
    DOWN,
    FORWARD,
    PlanarPose,
    Pose,
    angle_between,
    euler_to_matrix,
    matrix_to_euler,
    quaternion_xyzw,
    rotation_matrix,
    rotation_vector,
    yaw_matrix,
)


def test_down_and_forward_point_where_they_say_with_fingers_closing_along_base_y():
    assert np.allclose(DOWN[:, 2], [0, 0, -1])
    assert np.allclose(FORWARD[:, 2], [1, 0, 0])
    for R in (DOWN, FORWARD):
        assert abs(R[1, 1]) == 1
        assert np.isclose(np.linalg.det(R), 1)


def test_rotation_vector_inverts_rotation_matrix_up_to_half_a_turn():
    rng = np.random.default_rng(0)
    for _ in range(200):
        axis = rng.standard_normal(3)
        vector = axis / np.linalg.norm(axis) * rng.uniform(0, math.pi - 1e-6)
        assert np.allclose(rotation_vector(rotation_matrix(vector)), vector, atol=1e-6)


@pytest.mark.parametrize("axis", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (0.6, 0.8, 0), (0.6, 0, -0.8)])
def test_half_a_turn_keeps_its_axis(axis):
    R = rotation_matrix(math.pi * np.array(axis, dtype=float))
    assert np.allclose(rotation_matrix(rotation_vector(R)), R, atol=1e-7)


def test_euler_angles_are_intrinsic_xyz_and_invert():
    x, y, z = (rotation_matrix(np.radians(d) * np.eye(3)[i]) for i, d in enumerate((30, -40, 70)))
    assert np.allclose(euler_to_matrix((30, -40, 70)), x @ y @ z)
    rng = np.random.default_rng(1)
    for _ in range(100):
        R = rotation_matrix(rng.uniform(-2, 2, 3))
        assert angle_between(euler_to_matrix(matrix_to_euler(R)), R) < 1e-6
    for R in (DOWN, FORWARD, yaw_matrix(0.4) @ FORWARD):  # forward stands at the pole
        assert angle_between(euler_to_matrix(matrix_to_euler(R)), R) < 1e-6


def test_quaternion_matches_the_rotation():
    assert np.allclose(quaternion_xyzw(np.eye(3)), [0, 0, 0, 1])
    assert np.allclose(
        quaternion_xyzw(yaw_matrix(math.pi / 2)), [0, 0, math.sqrt(0.5), math.sqrt(0.5)]
    )


def _pose(rng: np.random.Generator) -> Pose:
    return Pose(rng.uniform(-2, 2, 3), rotation_matrix(rng.uniform(-2, 2, 3)))


def test_poses_chain_and_their_inverse_leads_back():
    rng = np.random.default_rng(2)
    a, b, point, points = _pose(rng), _pose(rng), rng.uniform(-1, 1, 3), rng.uniform(-1, 1, (3, 5))
    assert np.allclose((a @ b).apply(point), a.apply(b.apply(point)))
    assert np.allclose(a.inverse().apply(a.apply(point)), point)
    back = a.inverse() @ (a @ b)
    assert np.allclose(back.position_m, b.position_m)
    assert np.allclose(back.rotation, b.rotation)
    assert np.allclose(a.apply(points)[:, 3], a.apply(points[:, 3]))
    assert np.allclose(a.inverse().apply(a.apply(points)), points)


def test_planar_poses_do_the_same_as_poses_in_space():
    rng = np.random.default_rng(3)
    for _ in range(20):
        a, b = (PlanarPose(*rng.uniform(-2, 2, 3)) for _ in range(2))
        A, B = (Pose(np.array([p.x, p.y, 0.0]), yaw_matrix(p.yaw)) for p in (a, b))
        point = rng.uniform(-1, 1, 3)
        assert np.allclose(a.apply(point), A.apply(point))
        assert np.allclose(a.inverse().apply(point), A.inverse().apply(point))
        for planar, pose in ((a @ b, A @ B), (a.inverse() @ b, A.inverse() @ B)):
            assert np.allclose([planar.x, planar.y, 0.0], pose.position_m)
            assert np.allclose(yaw_matrix(planar.yaw), pose.rotation)
    assert math.isclose((PlanarPose(yaw=3.0).inverse() @ PlanarPose(yaw=-3.0)).yaw, math.tau - 6.0)
