"""The parts of RoboCasa's expert that need no kitchen: how a part moves on its joint, where a hand comes from, and ways around things."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("robosuite")

import mujoco

from capex import worlds
from capex.pose import euler_to_matrix
from capex.worlds import Start
from capex.worlds.robocasa import handling, routes
from capex.worlds.robocasa.expert import SKILLS
from capex.worlds.robocasa.privileged import Kitchen
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


def test_a_way_goes_around_what_costs_more() -> None:
    cost = np.ones((30, 30))
    cost[15, :25] = 100.0
    cells = routes._cheapest(cost, (2, 2), (28, 2))
    assert (cells[0], cells[-1]) == ((2, 2), (28, 2))
    assert next(cell for cell in cells if cell[0] == 15)[1] >= 25
