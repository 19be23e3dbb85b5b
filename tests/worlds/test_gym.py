"""The kitchen's tasks as Gymnasium environments pass Gymnasium's own check."""

from __future__ import annotations

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import capex.worlds.gym  # noqa: F401  registers
from capex import worlds
from capex.errors import BadCommand, ErrorCode
from capex.worlds import Start
from refusals import refuses


def test_every_task_is_registered_with_its_horizon():
    for info in worlds.tasks("kitchen").values():
        assert gymnasium.spec(f"capex/{info.name}-v0").max_episode_steps == info.horizon


def test_gymnasiums_check_passes_without_a_warning():
    env = gymnasium.make("capex/CloseFridge-v0", render_mode="rgb_array", size=(64, 64))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)
    env.close()


def test_a_step_is_the_kitchens_own():
    env = gymnasium.make("capex/TurnOnMicrowave-v0", size=(64, 48))
    observation, info = env.reset(seed=5, options={"start": 3})
    assert info == {
        "success": False,
        "instruction": "Press the start button on the microwave.",
        "start": 3,
    }
    assert observation["left"].shape == (48, 64, 3)
    ours = worlds.make("kitchen:TurnOnMicrowave")
    ours.reset(Start("TurnOnMicrowave", 3))
    action = np.linspace(-0.4, 0.4, 12).astype(np.float32)
    for _ in range(3):
        observation, reward, terminated, truncated, _ = env.step(action)
        ours.apply(action.astype(np.float64))
    measured = ours.robot_state().proprio
    assert np.array_equal(np.abs(observation["state"]), np.abs(measured))
    assert observation["state"][3] > 0
    assert np.array_equal(observation["wrist"], ours.observe(["wrist"], (64, 48))["wrist"])
    assert (reward, terminated, truncated) == (0.0, False, False)
    ours.close()
    env.close()


def test_success_ends_an_episode_and_the_horizon_cuts_it():
    env = gymnasium.make("capex/NavigateKitchen-v0", size=(8, 8), max_episode_steps=3)
    env.reset(options={"start": 0})
    still = np.zeros(12, dtype=np.float32)
    assert [env.step(still)[3] for _ in range(3)] == [False, False, True]
    kitchen = env.unwrapped._env
    env.reset(options={"start": 0})
    x, y, yaw = kitchen.truth.spot("goal")
    for joint, value in (("base_x", x), ("base_y", y), ("base_yaw", yaw)):
        kitchen.truth.data.joint(joint).qpos[0] = value
    _, reward, terminated, truncated, info = env.step(still)
    assert (reward, terminated, truncated, info["success"]) == (1.0, True, False, True)
    env.close()


def test_bad_use_gets_a_sentence():
    env = gymnasium.make("capex/CloseFridge-v0", size=(8, 8)).unwrapped
    with refuses(ErrorCode.WRONG_ORDER, "call reset"):
        env.step(np.zeros(12, dtype=np.float32))
    with refuses(ErrorCode.UNKNOWN_START, "there is no start 20000"):
        env.reset(options={"start": 20000})
    env.reset(options={"start": 0})
    with pytest.raises(BadCommand, match="eef_dx"):
        env.step(np.full(12, 2.0, dtype=np.float32))
    env.close()
