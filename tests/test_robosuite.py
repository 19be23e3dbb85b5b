"""robosuite's Lift meets the Env contract, repeats to the bit, and is lifted by the executor as it stands."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("robosuite")

from capex.errors import BadCommand, CapexError, PhysicsDiverged, StateMismatch
from capex.executor import Executor, Outcome
from capex.plan import ArmTarget, Gripper, Orientation, Waypoint
from capex.pose import DOWN, Array, Pose, matrix_to_euler, yaw_matrix
from capex.worlds import ArmCommand, Command, Env, Start
from capex.worlds import robosuite as world
from capex.worlds.contract import check

make = functools.partial(world.make, "robosuite", "Lift")
ABOVE_M = np.array([0.0, 0.0, 0.1])


@pytest.fixture(scope="module")
def env() -> Iterator[world.RobosuiteEnv]:
    made = world.RobosuiteEnv("robosuite", "Lift")
    yield made
    made.close()


def cube(env: world.RobosuiteEnv) -> Pose:
    """The cube's pose in the base frame, read from the simulator."""
    body = env._data.body("cube_main")
    return env._in_base(body.xpos, body.xmat.reshape(3, 3))


def tip_m(env: world.RobosuiteEnv) -> Array:
    return env.robot_state().arms["arm"].T_base_tip.position_m


def hold(env: Env, ticks: int, gripper: float = 0.0) -> None:
    for _ in range(ticks):
        env.step(Command({"arm": ArmCommand(gripper=gripper)}))


def go(executor: Executor, position_m: Array | None, orientation: Orientation = "keep", gripper: Gripper = "keep") -> Outcome:
    position = None if position_m is None else tuple(float(p) for p in position_m)
    return executor.execute([Waypoint({"arm": ArmTarget(position, orientation, gripper)})])[0]


def grasp(env: world.RobosuiteEnv) -> tuple[Executor, Array]:
    """Open, go above the cube square to its faces, down, and close; returns the executor and the cube's place."""
    executor = Executor(env)
    go(executor, None, gripper="open")
    target = cube(env)
    yaw = math.atan2(target.rotation[1, 0], target.rotation[0, 0])
    square = matrix_to_euler(yaw_matrix((yaw + math.pi / 4) % (math.pi / 2) - math.pi / 4) @ DOWN)
    for _ in range(4):
        if not (above := go(executor, target.position_m + ABOVE_M, square)).report.endswith("shortened to 10 cm"):
            break
    assert above.report == "reached"
    assert go(executor, target.position_m, gripper="close").status == "reached"
    return executor, target.position_m


def test_contract() -> None:
    env = make()
    check(env, factory=make, ticks=8).raise_if_failed()
    env.close()


def test_a_start_is_the_same_bits_in_every_build_and_starts_differ(env: world.RobosuiteEnv) -> None:
    env.reset(Start("Lift", 3))
    hold(env, 3, gripper=1.0)
    first = env.save_state().vector
    places = {tuple(cube(env).position_m)}
    for start in (Start("Lift", 4), Start("Lift", 3, seed=1)):
        env.reset(start)
        hold(env, 3, gripper=1.0)
        places.add(tuple(cube(env).position_m))
    assert len(places) == 3
    fresh = make()
    for again in (env, fresh):
        again.reset(Start("Lift", 3))
        hold(again, 3, gripper=1.0)
        assert np.array_equal(again.save_state().vector, first)
    fresh.close()


def test_ten_centimetres_of_free_motion(env: world.RobosuiteEnv) -> None:
    env.reset(Start("Lift", 0))
    executor, home = Executor(env), tip_m(env)
    for axis in range(3):
        for offset in (0.1, -0.1):
            goal = home.copy()
            goal[axis] += offset
            for target in (goal, home):
                outcome = go(executor, target, "down")
                assert outcome.report == "reached" or outcome.report.startswith("reached; shortened")
                assert outcome.label == 1
                assert outcome.steps < 40


def test_grasp_hold_and_lift(env: world.RobosuiteEnv) -> None:
    env.reset(Start("Lift", 1))
    executor, place = grasp(env)
    assert env.robot_state().arms["arm"].held == {"cube"}
    assert not env.success()
    assert go(executor, place + ABOVE_M).status == "terminal"
    hold(env, 20)
    settled = tip_m(env)
    hold(env, 40)
    assert np.linalg.norm(tip_m(env) - settled) < 0.001  # a load does not sink while the arm holds
    assert env.robot_state().arms["arm"].held == {"cube"}
    assert env.success()


def test_a_grasp_continues_from_a_saved_state(env: world.RobosuiteEnv) -> None:
    env.reset(Start("Lift", 2))
    executor, place = grasp(env)
    saved = env.save_state()
    ends = []
    for _ in range(2):
        go(executor, place + ABOVE_M)
        ends.append(env.save_state().vector)
        env.load_state(saved)
    assert np.array_equal(*ends)
    foreign = json.dumps(json.loads(saved.header) | {"start": 3})
    for state in (dataclasses.replace(saved, header=foreign), dataclasses.replace(saved, vector=saved.vector[:-1])):
        with pytest.raises(StateMismatch):
            env.load_state(state)


def test_pressing_on_the_cube_is_finger_contact_and_not_holding(env: world.RobosuiteEnv) -> None:
    env.reset(Start("Lift", 0))
    executor = Executor(env)
    go(executor, None, gripper="close")
    for _ in range(4):
        go(executor, cube(env).position_m + ABOVE_M, "down")
    outcome = go(executor, cube(env).position_m)
    assert (outcome.status, outcome.label) == ("finger contact", 0)
    assert {contact.thing for contact in outcome.contacts} == {"cube"}
    assert not env.robot_state().arms["arm"].held


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
