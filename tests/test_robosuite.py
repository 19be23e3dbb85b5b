"""robosuite's Lift meets the Env contract, repeats to the bit, and can be lifted by a plain servo loop."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("robosuite")

from capex.errors import BadCommand, CapexError, PhysicsDiverged, StateMismatch
from capex.pose import DOWN, Array, Pose, rotation_vector, yaw_matrix
from capex.worlds import ArmCommand, Command, Start
from capex.worlds import robosuite as world
from capex.worlds.check import check

make = functools.partial(world.make, "robosuite", "Lift")


@pytest.fixture(scope="module")
def env() -> Iterator[world.RobosuiteEnv]:
    made = world.RobosuiteEnv("robosuite", "Lift")
    yield made
    made.close()


def tip(env: world.RobosuiteEnv) -> Pose:
    return env.robot_state().arms["arm"].T_base_tip


def cube(env: world.RobosuiteEnv) -> Pose:
    body = env._data.body("cube_main")
    return env._in_base(body.xpos, body.xmat.reshape(3, 3))


def grip(env: world.RobosuiteEnv, gripper: float, ticks: int = 15) -> None:
    for _ in range(ticks):
        env.step(Command({"arm": ArmCommand(gripper=gripper)}))


def move(env: world.RobosuiteEnv, position_m: Array, rotation: Array, gripper: float = 0.0) -> int:
    """Unity gain: command the whole remaining error, shortened to what one tick may carry. Returns the ticks it took."""
    for tick in range(60):
        now = tip(env)
        step_m, step_rad = position_m - now.position_m, rotation_vector(rotation @ now.rotation.T)
        if np.linalg.norm(step_m) < 0.004 and np.linalg.norm(step_rad) < 0.04:
            return tick
        step_m *= min(1.0, 0.05 / np.linalg.norm(step_m))
        step_rad *= min(1.0, 0.5 / max(np.linalg.norm(step_rad), 1e-9))
        env.step(Command({"arm": ArmCommand(tuple(step_m), tuple(step_rad), gripper)}))
    raise AssertionError(f"{position_m} not reached; the tip is at {tip(env).position_m}")


def test_contract() -> None:
    env = make()
    check(env, factory=make, ticks=8).raise_if_failed()
    env.close()


def test_starts_are_fixed_and_differ(env: world.RobosuiteEnv) -> None:
    env.reset(Start("Lift", 3))
    grip(env, 1.0, ticks=3)
    first = env.save_state().vector
    env.reset(Start("Lift", 4))
    other = env.save_state().vector
    fresh = make()
    for again in (env, fresh):
        again.reset(Start("Lift", 3))
        grip(again, 1.0, ticks=3)
        assert np.array_equal(again.save_state().vector, first)
    fresh.close()
    places = []
    for start in (Start("Lift", 3), Start("Lift", 4), Start("Lift", 3, seed=1)):
        env.reset(start)
        places.append(tuple(cube(env).position_m))
    assert len(set(places)) == 3
    assert not np.array_equal(other, first)


def test_ten_centimetres_of_free_motion(env: world.RobosuiteEnv) -> None:
    env.reset(Start("Lift", 0))
    home = tip(env)
    for axis in range(3):
        for sign in (1.0, -1.0):
            goal = home.position_m.copy()
            goal[axis] += sign * 0.1
            assert move(env, goal, DOWN) < 30
            move(env, home.position_m, DOWN)
    assert not env.robot_state().contacts


def test_grasp_lift_hold_and_return_to_a_saved_state(env: world.RobosuiteEnv) -> None:
    env.reset(Start("Lift", 1))
    grip(env, -1.0)
    target = cube(env)
    yaw = np.arctan2(target.rotation[1, 0], target.rotation[0, 0])
    down = yaw_matrix((yaw + np.pi / 4) % (np.pi / 2) - np.pi / 4) @ DOWN
    move(env, target.position_m + [0, 0, 0.1], down)
    move(env, target.position_m, down)
    grip(env, 1.0)
    grasped = env.save_state()
    assert env.robot_state().arms["arm"].held == {"cube"}
    assert not env.success()

    def lift() -> Array:
        move(env, target.position_m + [0, 0, 0.1], down, 1.0)
        assert env.success()
        return env.save_state().vector

    lifted = lift()
    grip(env, 1.0, ticks=40)
    assert np.linalg.norm(tip(env).position_m - env._goal.position_m) < 0.002  # a load does not sink while holding
    env.load_state(grasped)
    assert np.array_equal(lift(), lifted)
    foreign = json.dumps(json.loads(grasped.header) | {"start": 2})
    for state in (dataclasses.replace(grasped, header=foreign), dataclasses.replace(grasped, vector=grasped.vector[:-1])):
        with pytest.raises(StateMismatch):
            env.load_state(state)


def test_pressing_the_table_is_contact_but_not_held(env: world.RobosuiteEnv) -> None:
    env.reset(Start("Lift", 0))
    place = cube(env).position_m + [-0.12, 0.0, 0.0]
    move(env, place, DOWN, 1.0)
    for _ in range(15):
        env.step(Command({"arm": ArmCommand((0.0, 0.0, -0.03), gripper=1.0)}))
    arm = env.robot_state().arms["arm"]
    assert {contact.thing for contact in arm.hand_contacts} == {"table"}
    assert arm.finger_contact
    assert not arm.held


def test_refusals(env: world.RobosuiteEnv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CapexError, match="call reset"):
        make().robot_state()
    env.reset(Start("Lift", 0))
    with pytest.raises(BadCommand, match="eef_dz"):
        env.apply(np.array([0, 0, 1.5, 0, 0, 0, 0]))
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its log where it stands
    env._data.qvel[0] = np.nan
    for _ in range(2):
        with pytest.raises(PhysicsDiverged):
            env.apply(np.zeros(7))
    assert not env.success()
