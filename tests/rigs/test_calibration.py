"""Camera poses from points and pixels."""

from __future__ import annotations

import tomllib

import numpy as np

from capex.errors import ErrorCode
from capex.pose import Pose, angle_between, euler_to_matrix
from capex.rigs.cameras.calibration import places, solve_pose
from capex.rigs.rigfile import Box
from capex.worlds.spec import CameraModel
from refusals import refuses

K = np.array([[600.0, 0.0, 320.0], [0.0, 600.0, 180.0], [0.0, 0.0, 1.0]])
BOX = Box("workspace", (0.25, -0.35, 0.01), (0.70, 0.35, 0.55))
FRONT = Pose(np.array([1.3, 0.05, 0.7]), euler_to_matrix((-118.0, 3.0, 90.0)))


def pixels(camera: Pose, noise_px: float = 0.0) -> list[np.ndarray]:
    drawn = np.random.default_rng(0).normal(0.0, noise_px, (8, 2))
    model = CameraModel(K, camera)
    return [
        np.array(model.project(np.array(p))[:2]) + d
        for p, d in zip(places(BOX), drawn, strict=True)
    ]


def test_eight_places_lie_in_the_middle_of_the_box_and_one_edge_apart():
    corners = np.array(places(BOX))
    assert len({tuple(c) for c in corners}) == 8
    assert np.all(corners >= np.array(BOX.lower_m) + 0.05)
    assert np.all((np.diff(corners, axis=0) != 0).sum(axis=1) == 1)


def test_exact_pixels_give_the_camera_back_and_the_line_for_the_file():
    solved = solve_pose([np.array(p) for p in places(BOX)], pixels(FRONT), K)
    assert np.allclose(solved.pose.position_m, FRONT.position_m, atol=1e-6)
    assert angle_between(solved.pose.rotation, FRONT.rotation) < 1e-6
    assert solved.worst_px < 1e-4
    line = tomllib.loads(solved.as_toml())["extrinsics"]
    assert np.allclose(line["position_m"], FRONT.position_m, atol=1e-4)
    assert angle_between(euler_to_matrix(tuple(line["euler_deg"])), FRONT.rotation) < 1e-4


def test_clicks_that_are_two_pixels_off_move_the_camera_by_a_centimetre_and_say_so():
    solved = solve_pose([np.array(p) for p in places(BOX)], pixels(FRONT, 2.0), K)
    assert np.linalg.norm(solved.pose.position_m - FRONT.position_m) < 0.02
    assert 0.5 < solved.error_px < 4.0


def test_too_few_or_flat_points_are_refused():
    points, seen = [np.array(p) for p in places(BOX)], pixels(FRONT)
    with refuses(ErrorCode.NO_DATA, "5 points were seen; at least 6 are needed"):
        solve_pose(points[:5], seen[:5], K)
    flat = [np.array([x, y, 0.1]) for x, y, _ in points]
    with refuses(ErrorCode.INVALID_INPUT, "on one plane"):
        solve_pose(flat, seen, K)
