"""robosuite's tasks meet the Env contract, repeat to the bit, and are worked on by the executor as it stands, with either robot."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("robosuite")

from capex import worlds
from capex.errors import BadCommand, ErrorCode, PhysicsDiverged, StateMismatch, UnknownName
from capex.method.dialogue import Sight
from capex.method.executor import Executor, Outcome
from capex.plan import ArmTarget, BaseMotion, Gripper, Orientation, Waypoint
from capex.pose import DOWN, Array, matrix_to_euler, yaw_matrix
from capex.worlds import ArmCommand, Command, Start
from capex.worlds.contract import check
from capex.worlds.kitchen import control as kitchen
from capex.worlds.robosuite import TASKS
from capex.worlds.robosuite.env import SuiteEnv
from capex.worlds.robosuite.packages import ROBOSUITE_IMPORTS, install_commands
from capex.worlds.robosuite.robots import MOBILE
from refusals import refuses

ABOVE_M = np.array([0.0, 0.0, 0.1])
OTHERS = [name for name in TASKS if name != "Lift"]


def made(name: str) -> SuiteEnv:
    env = worlds.make(name)
    assert isinstance(env, SuiteEnv)
    return env


@pytest.fixture(scope="module")
def mobile() -> Iterator[SuiteEnv]:
    env = made("robosuite:Lift")
    yield env
    env.close()


@pytest.fixture(scope="module")
def fixed() -> Iterator[SuiteEnv]:
    env = made("robosuite-panda:Lift")
    yield env
    env.close()


@pytest.fixture(params=["mobile", "fixed"])
def env(request: pytest.FixtureRequest) -> SuiteEnv:
    chosen: SuiteEnv = request.getfixturevalue(request.param)
    return chosen


def cube_m(env: SuiteEnv) -> Array:
    return env.truth.shape("cube_g0")[0].position_m


def tip_m(env: SuiteEnv) -> Array:
    return env.robot_state().arms["arm"].T_base_tip.position_m


def hold(
    env: SuiteEnv, ticks: int, gripper: float = 0.0, base: tuple[float, float, float] | None = None
) -> list[Array]:
    return [env.step(Command({"arm": ArmCommand(gripper=gripper)}, base)) for _ in range(ticks)]


def go(
    executor: Executor,
    position_m: Array | None,
    orientation: Orientation = "keep",
    gripper: Gripper = "keep",
) -> Outcome:
    position = None if position_m is None else tuple(float(p) for p in position_m)
    return executor.execute([Waypoint({"arm": ArmTarget(position, orientation, gripper)})])[0]


def grasp(env: SuiteEnv) -> tuple[Executor, Array]:
    """Open, go above the cube square to its faces, down, and close; returns the executor and the cube's place."""
    executor = Executor(env)
    go(executor, None, gripper="open")
    target = env.truth.shape("cube_g0")[0]
    yaw = math.atan2(target.rotation[1, 0], target.rotation[0, 0])
    square = matrix_to_euler(yaw_matrix((yaw + math.pi / 4) % (math.pi / 2) - math.pi / 4) @ DOWN)
    for _ in range(4):
        if not (above := go(executor, target.position_m + ABOVE_M, square)).report.endswith(
            "shortened to 10 cm"
        ):
            break
    assert above.report == "reached"
    assert go(executor, target.position_m, gripper="close").status == "reached"
    return executor, target.position_m


def test_contract_of_the_mobile_robot(mobile: SuiteEnv) -> None:
    check(
        mobile, factory=functools.partial(worlds.make, "robosuite:Lift"), ticks=6
    ).raise_if_failed()


def test_contract_of_the_fixed_robot(fixed: SuiteEnv) -> None:
    check(
        fixed, ticks=6, rules=["spec", "limits", "save", "replay", "tip", "commands", "base"]
    ).raise_if_failed()


@pytest.mark.parametrize("task", OTHERS)
def test_the_other_tasks(task: str) -> None:
    """Deterministic, not achieved at once, exact to continue, with images of the asked shape; `capex check` runs all rules on them."""
    env = made(f"robosuite:{task}")
    check(env, ticks=4, rules=["spec", "reset", "success", "save", "images"]).raise_if_failed()
    assert env.instruction == TASKS[task].instruction
    env.close()


def test_native_numbers_are_the_kitchens() -> None:
    assert MOBILE.action_names == kitchen.ACTION_NAMES
    assert made("robosuite-panda:Lift").spec.action_names == kitchen.ACTION_NAMES[:7]


def test_a_start_is_the_same_bits_in_every_build_and_starts_differ(fixed: SuiteEnv) -> None:
    fixed.reset(Start("Lift", 3))
    hold(fixed, 3, gripper=1.0)
    first = fixed.save_state().vector
    places = {tuple(cube_m(fixed))}
    for start in (Start("Lift", 4), Start("Lift", 3, seed=1)):
        fixed.reset(start)
        places.add(tuple(cube_m(fixed)))
    assert len(places) == 3
    fixed.reset(Start("Lift", 3))
    hold(fixed, 3, gripper=1.0)
    assert np.array_equal(fixed.save_state().vector, first)


def test_things_rest_at_the_start(mobile: SuiteEnv) -> None:
    mobile.reset(Start("Lift", 0))
    before = cube_m(mobile)
    hold(mobile, 10)
    assert np.abs(cube_m(mobile) - before).max() < 1e-4


def test_grasp_hold_and_lift(env: SuiteEnv) -> None:
    env.reset(Start("Lift", 1))
    executor, place = grasp(env)
    assert env.robot_state().arms["arm"].held == {"cube"}
    assert not env.success()
    assert go(executor, place + ABOVE_M).status == "terminal"
    hold(env, 20)
    settled = tip_m(env)
    hold(env, 30)
    assert np.linalg.norm(tip_m(env) - settled) < 0.001  # a load does not sink while the arm holds
    assert env.robot_state().arms["arm"].held == {"cube"}
    assert env.success()


def test_a_grasp_continues_from_a_saved_state(mobile: SuiteEnv) -> None:
    mobile.reset(Start("Lift", 2))
    executor, place = grasp(mobile)
    saved = mobile.save_state()
    ends = []
    for _ in range(2):
        go(executor, place + ABOVE_M)
        ends.append(mobile.save_state().vector)
        mobile.load_state(saved)
    assert np.array_equal(*ends)
    foreign = json.dumps(json.loads(saved.header) | {"start": 3})
    for state in (
        dataclasses.replace(saved, header=foreign),
        dataclasses.replace(saved, vector=saved.vector[:-1]),
    ):
        with pytest.raises(StateMismatch):
            mobile.load_state(state)


def test_the_base_drives_where_it_is_told_after_a_turn(mobile: SuiteEnv) -> None:
    """robosuite's own controller would drive backward here; the recorded numbers are those that make it drive forward."""
    mobile.reset(Start("Lift", 0))
    executor = Executor(mobile)
    executor.execute([Waypoint(base=BaseMotion(-0.5, 0.0, 0.0))])
    turned = executor.execute([Waypoint(base=BaseMotion(0.0, 0.0, 1.5))])[0]
    assert turned.base_moved is not None
    assert turned.base_moved == pytest.approx((0.0, 0.0, 1.5), abs=0.02)
    held = tip_m(mobile)
    driven = executor.execute([Waypoint(base=BaseMotion(0.2, 0.1, 0.0))])[0]
    assert driven.report == "base moved 20 cm forward, 10 cm left, turned 0 deg left"
    assert np.linalg.norm(tip_m(mobile) - held) < 0.01
    forward = hold(mobile, 1, base=(0.2, 0.0, 0.0))[0]
    assert forward[7] < -0.2  # at such a heading the controller's sign is the other way round


def test_pressing_on_the_cube_is_finger_contact_and_not_holding(fixed: SuiteEnv) -> None:
    fixed.reset(Start("Lift", 0))
    executor = Executor(fixed)
    go(executor, None, gripper="close")
    for _ in range(4):
        go(executor, cube_m(fixed) + ABOVE_M, "down")
    outcome = go(executor, cube_m(fixed))
    assert (outcome.status, outcome.label) == ("finger contact", 0)
    assert {contact.thing for contact in outcome.contacts} == {"cube"}
    assert not fixed.robot_state().arms["arm"].held


def test_the_cube_is_located_where_it_is_seen(mobile: SuiteEnv) -> None:
    """Its red pixels, in both outer views, at its place."""
    mobile.reset(Start("Lift", 0))
    images = mobile.observe(["left", "right"])
    for camera, image in images.items():
        red = (image[..., 0] > 100) & (image[..., 1] < 90) & (image[..., 2] < 90)
        assert red.sum() > 100, camera
        v, u = (float(np.median(pixels)) for pixels in np.nonzero(red))
        u_expected, v_expected, _ = mobile.camera_model(camera).project(cube_m(mobile))
        assert (
            math.hypot(u - u_expected, v - v_expected) < 10
        )  # the faces that are seen, not the middle
        found = Sight(mobile, {camera: (image.shape[1], image.shape[0])}).locate(camera, u, v)
        assert not isinstance(found, str)
        assert np.linalg.norm(found - cube_m(mobile)) < 0.04


def test_the_model_file_stands_where_the_door_stands() -> None:
    env = made("robosuite:Door")
    env.reset(Start("Door", 5))
    given = worlds.model_file(env)
    assert given is not None
    door = next(b for b in ET.fromstring(given.xml).iter("body") if b.get("name") == "Door_main")
    assert np.allclose(
        [float(v) for v in (door.get("pos") or "").split()],
        env.truth.anatomy.model.body("Door_main").pos,
    )
    flat = env.save_state().vector[: given.state_size]
    assert np.array_equal(
        flat[1:], np.concatenate([env.truth.anatomy.data.qpos, env.truth.anatomy.data.qvel])
    )
    assert given.env_args["env_kwargs"]["robots"] == "PandaOmron"
    assert given.episode_meta["lang"] == env.instruction
    env.close()


def test_refusals(fixed: SuiteEnv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with refuses(ErrorCode.WRONG_ORDER, "call reset"):
        made("robosuite:Lift").robot_state()
    with pytest.raises(UnknownName, match="stepping"):
        worlds.make("robosuite-panda:Lift", stepping="quick").reset(Start("Lift", 0))
    fixed.reset(Start("Lift", 0))
    with pytest.raises(BadCommand, match="eef_dz"):
        fixed.apply(np.array([0, 0, 1.5, 0, 0, 0, 0]))
    with pytest.raises(BadCommand, match="shape"):
        fixed.apply(np.zeros(12))
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its log where it stands
    fixed.truth.anatomy.data.qvel[0] = np.nan
    for _ in range(2):
        with pytest.raises(PhysicsDiverged):
            fixed.apply(np.zeros(7))
    assert not fixed.success()


def test_one_command_installs_it_beside_a_current_numpy(tmp_path: Path) -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert tuple(project["optional-dependencies"]["robosuite"]) == ROBOSUITE_IMPORTS
    needed, itself = install_commands("robosuite", tmp_path / "constraints.txt")
    assert needed[-len(ROBOSUITE_IMPORTS) :] == list(ROBOSUITE_IMPORTS)
    assert itself[-2:] == ["--no-deps", "robosuite==1.5.2"]
    assert not any("numpy" in part or "mink" in part for part in needed)
    assert (
        int(np.__version__.partition(".")[0]) >= 2
    )  # where these tests run, it was installed this way
    with pytest.raises(UnknownName, match="valid: robosuite"):
        install_commands("lerobot")
