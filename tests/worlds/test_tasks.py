"""The eighteen tasks: the paper's table, the wrong fixture is no success, parts move as their kind does, and a nineteenth takes a page."""

from __future__ import annotations

import dataclasses
import math

import mujoco
import numpy as np
import pytest

from capex import worlds
from capex.method.executor import Executor
from capex.plan import BaseMotion, Waypoint
from capex.worlds import ArmCommand, Command, Start
from capex.worlds.kitchen import expert
from capex.worlds.kitchen.env import KitchenEnv
from capex.worlds.kitchen.furniture import KNOB_ORDER
from capex.worlds.kitchen.ground_truth import GroundTruth
from capex.worlds.kitchen.materials import STYLES
from capex.worlds.kitchen.scene import LAYOUTS, plan_kitchen
from capex.worlds.kitchen.situation import Draw
from capex.worlds.kitchen.tasks import BY_NAME
from capex.worlds.kitchen.tasks.navigate import BEFORE_M

HOLD = Command({"arm": ArmCommand(None, gripper=-1.0)})
HORIZONS = {  # the paper's table, by family
    "Pick and place": {
        "CoffeeSetupMug": 600,
        "PickPlaceCounterToCabinet": 750,
        "PickPlaceCounterToStove": 600,
        "PickPlaceDrawerToCounter": 750,
        "PickPlaceSinkToCounter": 900,
        "PickPlaceToasterToCounter": 600,
    },
    "Doors and lids": {
        "CloseBlenderLid": 900,
        "CloseFridge": 900,
        "CloseToasterOvenDoor": 450,
        "OpenCabinet": 1050,
        "OpenStandMixerHead": 450,
    },
    "Drawers and racks": {"OpenDrawer": 750, "SlideDishwasherRack": 450},
    "Buttons, knobs, levers": {
        "TurnOffStove": 750,
        "TurnOnElectricKettle": 450,
        "TurnOnMicrowave": 450,
        "TurnOnSinkFaucet": 600,
    },
    "Navigation": {"NavigateKitchen": 450},
}


def made(task: str, start: int = 0, world: str = "kitchen") -> KitchenEnv:
    env = KitchenEnv(world, BY_NAME[task])
    env.reset(Start(task, start))
    return env


def wait(env: KitchenEnv, ticks: int) -> None:
    for _ in range(ticks):
        env.step(HOLD)


def put(env: KitchenEnv, joint: str, value: float | np.ndarray) -> None:
    """Move a joint by hand; the body of a free joint is laid down where the array says."""
    model, data = env.truth.model, env.truth.data
    address = model.jnt_qposadr[model.joint(joint).id]
    if isinstance(value, np.ndarray):
        data.qpos[address : address + 3], data.qpos[address + 3 : address + 7] = value, (1, 0, 0, 0)
    else:
        data.qpos[address] = value
    mujoco.mj_forward(model, data)


def test_families_and_horizons_are_the_papers():
    rows: dict[str, dict[str, int]] = {}
    for info in worlds.tasks("kitchen").values():
        rows.setdefault(info.family, {})[info.name] = info.horizon
    assert rows == HORIZONS
    assert [list(r) for r in rows.values()] == [list(r) for r in HORIZONS.values()]  # in its order


# --- The wrong fixture of the same kind. The expert is told to work it; success is judged by what the instruction names.


def _other(env: KitchenEnv, kind: str) -> str:
    """The other part or thing whose name ends alike."""
    known = {env.truth.model.body(i).name for i in range(env.truth.model.nbody)}
    right = set(env.situation.roles.values())
    return min(n for n in known if n.endswith(kind) and n not in right)


def _wrong_food(env: KitchenEnv) -> str:
    return env.situation.things[1].name


WRONG = {  # task -> (start, the wrong roles)
    "CoffeeSetupMug": (0, lambda env: {"object": _other(env, " mug")}),
    "PickPlaceCounterToCabinet": (1, lambda env: {"object": _wrong_food(env)}),
    "PickPlaceDrawerToCounter": (1, lambda env: {"object": _wrong_food(env)}),
    "CloseBlenderLid": (1, lambda env: {"object": _other(env, " lid")}),
    "OpenCabinet": (2, lambda env: {"part": _other(env, " cabinet door")}),
    "OpenStandMixerHead": (0, lambda env: {"part": _other(env, " mixer head")}),
    "OpenDrawer": (1, lambda env: {"part": _other(env, " drawer")}),
    "TurnOnElectricKettle": (1, lambda env: {"part": _other(env, " switch")}),
    "TurnOnMicrowave": (0, lambda env: {"button": "stop button"}),
    "TurnOnSinkFaucet": (0, lambda env: {"part": _other(env, " handle")}),
}


def _misled(
    task: str,
    start: int,
    roles: dict[str, str],
    spots: dict[str, tuple[float, float, float]] | None = None,
) -> KitchenEnv:
    """The start with other roles: what the expert works is then the wrong fixture, while the rule still judges the right one."""
    right = made(task, start).situation

    def compose(draw: Draw, kitchen):
        return dataclasses.replace(
            right, roles={**right.roles, **roles}, spots={**right.spots, **(spots or {})}
        )

    def success(truth: GroundTruth) -> bool:
        judged = GroundTruth(truth.model, truth.data, right.roles, right.spots)
        judged.latched = truth.latched and task != "TurnOnMicrowave"
        return BY_NAME[task].success(judged)

    env = KitchenEnv(
        "kitchen", dataclasses.replace(BY_NAME[task], compose=compose, success=success)
    )
    env.reset(Start(task, start))
    return env


def _worked(env: KitchenEnv) -> bool:
    """Whether the wrong fixture has been worked, by the task's own rule."""
    return BY_NAME[env.spec.task].success(env.truth)


@pytest.mark.parametrize("task", sorted(WRONG))
def test_working_the_wrong_fixture_is_no_success(task):
    start, roles = WRONG[task]
    env = _misled(task, start, roles(made(task, start)))
    executor = Executor(env, steps_left=600)
    for plans in range(12):
        if _worked(env):
            break
        for waypoint in expert.plan(env, plans):
            if executor.execute([waypoint])[0].status not in (
                "reached",
                "base",
                "gripper",
            ) or _worked(env):
                break
    assert _worked(env)
    assert not env.success()
    env.close()


def test_another_burner_turned_off_is_no_success():
    env = next(
        e for e in (made("TurnOffStove", i) for i in range(20)) if len(e.situation.joints) == 2
    )
    other = next(j for j in env.situation.joints if j != env.truth.role("part"))
    put(env, other, 0.0)
    wait(env, 5)
    assert not env.success()
    put(env, env.truth.role("part"), 0.3)
    assert env.success()


def test_another_rack_or_the_wrong_way_is_no_success():
    for index in range(4):
        env = made("SlideDishwasherRack", index)
        out = env.truth.role("way") == "out"
        put(env, "lower rack", env.truth.limit("lower rack") if out else 0.0)
        put(env, "upper rack", 0.0 if out else env.truth.limit("upper rack"))
        wait(env, 5)
        assert not env.success()
        put(env, "upper rack", env.truth.limit("upper rack") if out else 0.0)
        assert env.success()


def test_standing_before_another_place_is_no_success():
    env = made("NavigateKitchen", 0)
    kitchen = plan_kitchen()
    x, y, yaw = env.truth.spot("goal")
    for name in ("fridge", "toaster oven", "stove", "sink", "toaster", "microwave"):
        put(env, "base_x", -BEFORE_M)
        put(env, "base_y", kitchen.fixture(name).y)
        put(env, "base_yaw", 0.0)
        assert env.success() is (name == env.truth.role("place"))
    put(env, "base_y", y)
    assert env.success()
    put(env, "base_x", x - 0.19)
    assert env.success()
    put(env, "base_yaw", yaw + 0.25)  # 14 degrees off
    assert not env.success()


@pytest.mark.parametrize(
    ("task", "other"),
    [("CloseFridge", "toaster oven door"), ("CloseToasterOvenDoor", "fridge door")],
)
def test_another_door_closed_is_no_success(task, other):
    env = made(task)
    put(env, other, 0.5)
    wait(env, 2)
    put(env, other, 0.0)
    wait(env, 2)
    assert not env.success()


@pytest.mark.parametrize(
    "task", ["PickPlaceCounterToStove", "PickPlaceSinkToCounter", "PickPlaceToasterToCounter"]
)
def test_another_thing_in_the_container_is_no_success(task):
    env = next(
        e
        for e in (made(task, i) for i in range(9))
        if len(e.situation.things) > (3 if task.endswith("Stove") else 2)
    )
    other, container = env.situation.things[-1].name, env.truth.role("container")
    put(env, other, env.truth.position(container) + np.array([0, 0, 0.02]))
    wait(env, 10)
    assert env.truth.touching(other, container)
    assert not env.success()


# --- Starts.


@pytest.mark.parametrize("task", sorted(BY_NAME))
def test_things_and_parts_are_at_rest_at_a_start(task):
    env = made(task)
    for index in range(3):
        env.reset(Start(task, index))
        before = {t.name: env.truth.position(t.name) for t in env.situation.things}
        joints = {j: env.truth.joint(j) for j in env.situation.joints}
        wait(env, 20)
        assert (
            max(
                (float(np.linalg.norm(env.truth.position(n) - p)) for n, p in before.items()),
                default=0.0,
            )
            < 0.004
        )
        assert all(abs(env.truth.joint(j) - q) < 0.02 for j, q in joints.items())
    env.close()


@pytest.mark.parametrize("task", sorted(BY_NAME))
def test_instructions_name_what_varies(task):
    """Nine starts give several instructions wherever something has to be chosen by reading."""
    one_thing = {"CloseFridge", "CloseToasterOvenDoor", "TurnOnMicrowave"}
    kitchen = plan_kitchen()
    told = {
        BY_NAME[task].compose(Draw("kitchen", task, i, 0, 0), kitchen).instruction for i in range(9)
    }
    assert (len(told) == 1) is (task in one_thing)


def test_the_mixed_kitchen_has_ten_layouts_and_ten_styles_that_hold_everything():
    assert len(LAYOUTS) >= 10
    assert len(STYLES) >= 10
    assert len({s.name for s in STYLES}) == len(STYLES)
    for layout in range(len(LAYOUTS)):
        kitchen = plan_kitchen(layout)
        sink, bench = kitchen.fixture("sink"), kitchen.workbench
        assert abs(abs(sink.y - bench.y) - (sink.width + bench.width) / 2) < 1e-9  # side by side
        assert {"fridge", "stove", "toaster oven", "toaster", "microwave"} <= set(kitchen.places)


def test_a_kitchen_is_the_same_to_the_bit_under_every_python():
    """sum() of Python 3.12 and later would put the fridge of layout 0 at 2.8."""
    at = {k: next(iter(plan_kitchen(k).places.values())).y for k in (0, 2, 5, 9, 10)}
    assert at == {
        0: 2.8000000000000003,
        2: 2.7999999999999994,
        5: 2.9999999999999996,
        9: 2.6499999999999995,
        10: 2.3500000000000005,
    }


@pytest.mark.parametrize("task", sorted(BY_NAME))
def test_starts_of_the_mixed_kitchen_can_be_built(task):
    env = KitchenEnv("kitchen-mixed", BY_NAME[task])
    seen = set()
    for index in range(4):
        env.reset(Start(task, index))
        seen.add(env.scene)
        assert not env.success()
    assert len(seen) >= 3
    env.close()


# --- Parts move as their kind does.


@pytest.mark.parametrize(
    ("task", "part"), [("TurnOnElectricKettle", "switch"), ("OpenStandMixerHead", "head")]
)
def test_a_lever_and_a_head_snap_over_a_detent(task, part):
    env = made(task)
    joint = env.truth.role("part")
    assert joint.endswith(part)
    for begin, end in ((0.30, 0.0), (0.65, 1.0)):
        put(env, joint, begin * env.truth.limit(joint))
        wait(env, 30)
        assert env.truth.joint_fraction(joint) == pytest.approx(end, abs=0.02)


@pytest.mark.parametrize(
    ("task", "joint", "force"),
    [
        ("OpenDrawer", "left drawer", (-5.0, 0, 0)),
        ("SlideDishwasherRack", "upper rack", (-3.0, 0, 0)),
        ("OpenCabinet", "middle cabinet door", (-0.5, 0, 0)),
    ],
)
def test_friction_holds_a_part_and_a_stop_ends_its_way(task, joint, force):
    env = made(task, 2)
    data, limit = env.truth.data, env.truth.limit(joint)
    put(env, joint, 0.5 * limit)
    body = data.body(joint).id
    data.xfrc_applied[body, :3] = force
    wait(env, 20)
    assert env.truth.joint_fraction(joint) == pytest.approx(0.5, abs=0.01)
    grip = env.truth.point(f"{joint} grip") - data.xipos[body]
    strong = np.array([-12.0, 0.0, 0.0])
    data.xfrc_applied[body, :3], data.xfrc_applied[body, 3:] = strong, np.cross(grip, strong)
    wait(env, 60)
    assert env.truth.joint_fraction(joint) == pytest.approx(1.0, abs=0.03)


def test_a_knob_turns_when_pushed_off_centre_and_not_when_pushed_in_the_middle():
    env = made("TurnOffStove")
    knob = env.truth.role("part")
    data, before = env.truth.data, env.truth.joint(knob)
    axis, body = data.xanchor[env.truth.model.joint(knob).id].copy(), data.body(knob).id
    for at, force, turns in (
        (axis, (10.0, 0, 0), False),
        (axis, (0, -10.0, 0), False),
        (env.truth.point(f"{knob} grip"), (0, -5.0, 0), True),
    ):
        data.xfrc_applied[body, :3], data.xfrc_applied[body, 3:] = (
            force,
            np.cross(at - data.xipos[body], force),
        )
        wait(env, 10)
        assert (abs(env.truth.joint(knob) - before) > 0.1) is turns


def test_a_lid_in_the_rim_closes_and_one_dropped_askew_does_not():
    env = made("CloseBlenderLid")
    lid, rim = env.truth.role("object"), env.truth.point("jug rim")
    for offset, closed in ((0.0, True), (0.024, False)):
        put(env, lid, rim + np.array([0.0, offset, 0.02]))
        wait(env, 40)
        assert env.truth.tip_distance(lid) > 0.15 or env.truth.data.site("tip").xpos[2] > rim[2]
        away = float(np.linalg.norm(env.truth.position(lid) - rim))
        assert (env.truth.tilt(lid) < math.radians(7) and away < 0.04) is closed


def test_the_open_dishwasher_door_stops_the_base():
    env = made("SlideDishwasherRack", 1)
    reports = [Executor(env).execute([Waypoint(base=BaseMotion(0.5))])[0].report for _ in range(2)]
    assert "stopped by contact (base on counter 2)" in reports[0] + reports[1]
    assert env.truth.base[0] < -0.6


def test_burners_glow_and_water_runs_only_while_they_are_on():
    env = made("TurnOffStove", 1)
    lit = env.observe(["right"], (256, 256))["right"].astype(int)
    put(env, env.truth.role("part"), 0.0)
    dark = env.observe(["right"], (256, 256))["right"].astype(int)
    redder = (lit - dark)[..., 0]
    assert (redder > 60).sum() > 30
    put(env, env.truth.role("part"), 1.0)
    assert np.abs(env.observe(["right"], (256, 256))["right"].astype(int) - lit).mean() < 2.0
    sink = made("TurnOnSinkFaucet", 1)
    dry = sink.depth("left", (256, 256)).depth_m
    put(sink, sink.truth.role("part"), 0.6)
    assert (sink.depth("left", (256, 256)).depth_m < dry - 0.02).sum() > 20
    assert {f"{burner} knob" for burner in KNOB_ORDER} <= {
        env.truth.model.joint(i).name for i in range(env.truth.model.njnt)
    }
