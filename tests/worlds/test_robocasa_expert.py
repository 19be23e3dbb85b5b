"""The parts of RoboCasa's expert that need no kitchen: how a part moves on its joint, where a hand comes from, and ways around things."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("robosuite")

import mujoco

from capex import worlds
from capex.pose import Pose, euler_to_matrix, yaw_matrix
from capex.worlds import Start
from capex.worlds.robocasa import handling, routes
from capex.worlds.robocasa.expert import SKILLS
from capex.worlds.robocasa.privileged import Box, Kitchen
from capex.worlds.robocasa.tasks import TASKS


def test_every_task_has_a_skill() -> None:
    assert set(SKILLS) == set(TASKS)


def test_a_part_is_foreseen_where_its_joint_brings_it() -> None:
    env = worlds.make("robosuite:Door")
    env.reset(Start("Door", 0))
    try:
        kitchen = Kitchen(env)
        part, handle = kitchen.part("Door_hinge"), kitchen.site("Door_handle")
        foreseen = part.at(handle, part.opening + 0.3)
        sim = env.suite.sim
        address = sim.model.get_joint_qpos_addr("Door_hinge")
        sim.data.qpos[address] += 0.3  # the door's range begins at 0: opening is the joint
        mujoco.mj_forward(sim.model._model, sim.data._data)
        np.testing.assert_allclose(kitchen.site("Door_handle"), foreseen, atol=1e-9)
        assert any(
            np.allclose(box.centre, kitchen.box("Door_handle").centre)
            for box in kitchen.boxes(part.body)
        )
    finally:
        env.close()


@pytest.mark.parametrize("lowered", [0.0, 0.6])
def test_a_hand_points_where_it_is_told(lowered: float) -> None:
    into = np.array([0.6, -0.8, 0.0])
    for closing in (None, handling.UP):
        R = euler_to_matrix(handling.facing(into, closing, lowered))
        np.testing.assert_allclose(R.T @ R, np.eye(3), atol=1e-6)
        assert R[:, 2] @ into == pytest.approx(np.cos(lowered), abs=1e-3)
        assert R[2, 2] == pytest.approx(-np.sin(lowered), abs=1e-3)


def test_the_hand_comes_from_before_and_down_last() -> None:
    tip, into = np.array([0.25, 0.0, 0.6]), np.array([1.0, 0.0, 0.0])
    level = handling.approach(tip, np.array([0.55, 0.2, 0.7]), into)
    assert level[0][0] == level[1][0] == pytest.approx(0.38)
    assert level[1][1] == 0.2
    low = handling.approach(tip, np.array([0.55, 0.2, 0.1]), into)
    assert low[1][2] > 0.4
    assert low[1][0] == low[2][0] == 0.55


def test_the_base_goes_around_a_wall_and_turns_where_it_has_room() -> None:
    wall = (np.array([1.0, -3.0]), np.array([1.1, 0.4]))
    counter = (np.array([2.2, -3.0]), np.array([3.0, 3.0]))
    place, heading, goal = np.zeros(2), np.pi / 2, np.array([2.0, 0.0])
    for _ in range(20):
        floor = routes.Floor([wall, counter], np.array([place, goal]))
        move, turn = floor.leg(heading, 0.0)
        for part in np.linspace(0.0, 1.0, 20):
            assert _free(place + part * move, heading, wall)
        for part in np.linspace(0.0, 1.0, 20):
            assert _free(place + move, heading + part * turn, wall)
        place, heading = place + move, heading + turn
        if np.allclose([*place, heading], [*goal, 0.0]):
            break
    np.testing.assert_allclose([*place, heading], [2.0, 0.0, 0.0], atol=0.06)


def _free(place: np.ndarray, heading: float, wall: tuple[np.ndarray, np.ndarray]) -> bool:
    """Whether no point of a grid over the base's footprint is within the wall."""
    along = np.array([np.cos(heading), np.sin(heading)])
    across = np.array([-along[1], along[0]])
    ends = [np.linspace(-half, half, 15) for half in routes.HALF_M]
    forward, left = (side.ravel()[:, None] for side in np.meshgrid(*ends))
    points = place + (forward - routes.BEHIND_M) * along + left * across
    inside = np.all((points > wall[0] + 0.01) & (points < wall[1] - 0.01), axis=1)
    return not inside.any()


def test_the_thinner_side_of_a_box_is_level() -> None:
    box = Box(Pose(np.zeros(3), yaw_matrix(0.4)), np.array([0.03, 0.02, 0.01]))
    np.testing.assert_allclose(
        handling.thinner_side(box), [-np.sin(0.4), np.cos(0.4), 0.0], atol=1e-9
    )
