"""Continuous quaternions: the same rotations, no sign changes, and frame by frame the same as all at once."""

from __future__ import annotations

import numpy as np
import pytest

from capex.pose import FORWARD, euler_to_matrix, quaternion_matrix, quaternion_xyzw, rotation_matrix
from capex.worlds.proprioception import continuous, quaternions

NAMES = ("left_x", "left_qx", "left_qy", "left_qz", "left_qw", "qx", "qy", "qz", "qw", "opening")


def walk(seed: int, frames: int = 400) -> np.ndarray:
    """Measured states of two arms that turn about: every quaternion with w >= 0."""
    draw = np.random.default_rng(seed)
    turns = [euler_to_matrix(draw.uniform(-180, 180, 3)) for _ in range(2)]
    rows = []
    for _ in range(frames):
        turns = [R @ rotation_matrix(draw.normal(0, 0.2, 3)) for R in turns]
        left, right = map(quaternion_xyzw, turns)
        rows.append([draw.normal(), *left, *right, 0.08])
    return np.array(rows)


@pytest.mark.parametrize("seed", range(10))
def test_rotations_stay_and_signs_do_not_change(seed):
    measured = walk(seed)
    assert quaternions(NAMES) == [1, 5]
    turned = continuous(NAMES, measured)
    before, frame_by_frame = None, []
    for row in measured:
        (before,) = continuous(NAMES, row[None], before)
        frame_by_frame.append(before)
    assert np.array_equal(turned, frame_by_frame)
    assert np.array_equal(np.abs(turned), np.abs(measured))
    flips = 0
    for at in (1, 5):
        q, raw = turned[:, at : at + 4], measured[:, at : at + 4]
        flips += ((raw[1:] * raw[:-1]).sum(axis=1) < 0).sum()
        assert ((q[1:] * q[:-1]).sum(axis=1) >= 0).all()
        assert np.allclose([quaternion_matrix(v) for v in q], [quaternion_matrix(v) for v in raw])
    assert flips > 0


def test_an_episode_begins_with_the_same_sign_whatever_the_noise_around_w():
    """A hand that points forward, a little to either side."""
    turns = [rotation_matrix(np.array([turn_rad, 0.0, 0.0])) for turn_rad in (-0.02, 0.02)]
    one, two = (quaternion_xyzw(FORWARD @ R) for R in turns)
    assert np.linalg.norm(one - two) > 1
    one, two = (continuous(NAMES[5:9], q[None])[0] for q in (one, two))
    assert np.linalg.norm(one - two) < 0.05
    assert np.array_equal(continuous(("x", "y"), np.ones((3, 2))), np.ones((3, 2)))
