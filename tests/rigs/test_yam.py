"""YAM arms: their kinematics beside the simulated bodies, portal's wire beside portal itself, and the
twin driven in lock-step through what goes wrong with two arms that have no brakes.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from capex.errors import ErrorCode, RigFault
from capex.loopback import HOST
from capex.pose import DOWN, Array, Pose, angle_between, rotation_matrix, rotation_vector
from capex.rigs.arm_controller import ArmUnit
from capex.rigs.controller import Keeper
from capex.rigs.drivers.yam.driver import YamArm
from capex.rigs.drivers.yam.kinematics import MODELS, YAM, YamKinematics
from capex.rigs.drivers.yam.wire import PortalClient, load_portal
from capex.rigs.link import RigReading
from capex.rigs.parse import find_rig, read_rig
from capex.rigs.servo import shortened
from capex.rigs.twins import start
from capex.rigs.twins.driver import RoomClock
from capex.rigs.twins.hand import RoomHand
from capex.rigs.twins.scenes import load_scene
from capex.rigs.twins.yam.follower import FollowerServer
from capex.worlds import ArmCommand, Command
from refusals import refuses

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
from guard_geometry import surface

KINEMATICS = YamKinematics(YAM)


def test_the_chain_is_that_of_the_simulated_arms() -> None:
    model = load_scene("yam").build("BowlHandover")
    data, rng = mujoco.MjData(model), np.random.default_rng(0)
    for _ in range(20):
        q = rng.uniform(YAM.lower_rad, YAM.upper_rad)
        for i in range(6):
            data.joint(f"right_joint{i + 1}").qpos[0] = q[i]
        mujoco.mj_kinematics(model, data)
        tip, site, mount = KINEMATICS.tip(q), data.site("right_tip"), data.site("right_mount")
        np.testing.assert_allclose(tip.position_m, site.xpos - mount.xpos, atol=1e-9)
        np.testing.assert_allclose(tip.rotation, site.xmat.reshape(3, 3), atol=1e-9)
        for i in range(6):
            dq = 1e-6 * np.eye(6)[i]
            moved = KINEMATICS.tip(q + dq).position_m - KINEMATICS.tip(q - dq).position_m
            np.testing.assert_allclose(moved / 2e-6, KINEMATICS.jacobian(q)[:3, i], atol=1e-6)


# Computed once by MuJoCo 3.3 from i2rt's XML files (github.com/i2rt-robotics/i2rt, commit 5d47b35):
# of each arm with the gripper linear_4310, combined as its combine_arm_and_gripper_xml does, the
# place of `grasp_site` in the base body's frame, metres.
VECTORS_RAD = (
    (0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    (0.3, 1.2, 1.0, -0.6, 0.4, -0.5),
    (-1.1, 2.4, 0.7, 0.9, -0.8, 1.3),
    (2.0, 0.6, 2.2, -1.2, 1.1, -1.7),
)
TIPS_M = {
    "yam": (
        (0.24530, 0.00000, 0.17350),
        (0.34175, 0.03630, 0.20409),
        (0.27980, -0.28041, -0.09706),
        (0.19032, -0.05115, 0.56461),
    ),
    "yam_pro": (
        (0.24530, 0.00000, 0.17330),
        (0.34161, 0.03626, 0.20395),
        (0.27974, -0.28029, -0.09720),
        (0.19029, -0.05108, 0.56442),
    ),
    "yam_ultra": (
        (0.24803, 0.00100, 0.17860),
        (0.34353, 0.03531, 0.20764),
        (0.28494, -0.27827, -0.09248),
        (0.19480, -0.04976, 0.56944),
    ),
    "big_yam": (
        (0.26949, -0.00046, 0.19835),
        (0.48128, 0.07898, 0.26652),
        (0.30440, -0.32975, -0.18093),
        (0.19003, -0.04941, 0.84103),
    ),
}
# From the same computation, alike for all four: the approach, and the axis along which fingers move
# with its sign turned as DOWN wants it.
APPROACHES = (
    (1.0, 0.0, 0.0),
    (0.7281, -0.1824, -0.6607),
    (0.8595, -0.1072, -0.4998),
    (0.6365, 0.7508, 0.1766),
)
CLOSINGS = (
    (0.0, -1.0, 0.0),
    (0.3400, -0.7409, 0.5792),
    (-0.4190, 0.4123, -0.8090),
    (0.0635, -0.2793, 0.9581),
)


@pytest.mark.parametrize("name", MODELS)
def test_the_chain_of_each_model_is_that_of_i2rts_own_file(name: str) -> None:
    assert set(TIPS_M) == set(MODELS)
    chain = YamKinematics(MODELS[name])
    rows = zip(VECTORS_RAD, TIPS_M[name], APPROACHES, CLOSINGS, strict=True)
    for q, tip_m, approach, closing in rows:
        tip = chain.tip(np.array(q))
        np.testing.assert_allclose(tip.position_m, tip_m, atol=3e-5)
        np.testing.assert_allclose(tip.rotation[:, 2], approach, atol=2e-4)
        np.testing.assert_allclose(tip.rotation[:, 1], closing, atol=2e-4)


@pytest.mark.parametrize("name", MODELS)
def test_goals_that_follow_each_other_are_solved_for_each_model(name: str) -> None:
    chain = YamKinematics(MODELS[name])
    q = np.array([-0.245, 1.327, 1.2245, -1.2, 0.3, -0.245])
    begin, end = chain.tip(q), chain.tip(q + np.array([0.3, 0.2, -0.2, 0.3, -0.2, 0.3]))
    turn = rotation_vector(end.rotation @ begin.rotation.T)
    for part in np.linspace(0.0, 1.0, 60)[1:]:
        place = begin.position_m + part * (end.position_m - begin.position_m)
        goal = Pose(place, rotation_matrix(part * turn) @ begin.rotation)
        q = chain.step(q, goal)
        solved = chain.tip(q)
        assert np.linalg.norm(solved.position_m - goal.position_m) < 2e-5
        assert angle_between(solved.rotation, goal.rotation) < 2e-4


def test_an_arm_whose_model_is_missing_or_unknown_is_refused() -> None:
    valid = "it must be one of yam, yam_pro, yam_ultra, big_yam"
    with refuses(ErrorCode.BAD_SETTING, rf"'left'\.options\.model is missing; {valid}"):
        YamArm({"port": 1}, "left")
    with refuses(ErrorCode.BAD_SETTING, rf"'left'\.options\.model is 'yam_max'; {valid}"):
        YamArm({"model": "yam_max", "port": 1}, "left")


def test_joints_are_held_against_the_ranges_of_their_model() -> None:
    joints = np.array([0.0, 3.6, 0.5, 0.0, 0.0, 0.0, 1.0])
    server = FollowerServer(
        {"num_dofs": lambda: 7, "get_observations": lambda: {"joint_pos": joints}}
    )
    server.start()
    arm = YamArm({"model": "yam_ultra", "port": server.port}, "left")
    assert arm.connect().joint_limits_rad[1] == (0.0, 3.665)
    arm.close()
    with pytest.raises(RigFault, match="joints that a big_yam cannot have"):
        YamArm({"model": "big_yam", "port": server.port}, "left").connect()


def test_a_near_goal_is_solved_and_one_out_of_reach_is_followed_within_the_ranges() -> None:
    q = np.array([-0.245, 1.327, 1.2245, -1.4682, 0.0, -0.245])
    tip = KINEMATICS.tip(q)
    assert angle_between(tip.rotation, DOWN) < 1e-3
    goal = Pose(
        tip.position_m + np.array([0.003, -0.002, 0.001]), rotation_matrix(np.full(3, 0.02)) @ DOWN
    )
    solved = KINEMATICS.tip(KINEMATICS.step(q, goal))
    assert np.linalg.norm(solved.position_m - goal.position_m) < 2e-5
    assert angle_between(solved.rotation, goal.rotation) < 2e-4
    for _ in range(60):
        before, q = q, KINEMATICS.step(q, Pose(np.array([0.3, 0.0, 0.9]), DOWN))
        assert np.abs(q - before).max() <= 0.15 + 1e-9
        assert ((q > YAM.lower_rad) & (q < YAM.upper_rad)).all()


def test_the_wire_is_portals_own_in_both_directions() -> None:
    portal, told = load_portal(), list[Array]()
    methods: dict[str, Any] = {
        "num_dofs": lambda: 7,
        "get_observations": lambda: {"joint_pos": np.full(7, 0.5)},
        "command_joint_pos": lambda joints: told.append(np.array(joints)),
    }
    theirs = portal.Server(0, host=HOST, logging=False, errors=False)
    for name, method in methods.items():
        theirs.bind(name, method)
    theirs.start(block=False)
    arm = YamArm({"model": "yam", "port": theirs.socket.sock.getsockname()[1]}, "left")
    assert "no brakes" in arm.connect().on_disconnect
    assert arm.read().joints_rad == (0.5,) * 6
    assert not told  # nothing is commanded before the first hold
    arm.hold()
    np.testing.assert_array_equal(told[-1], np.full(7, 0.5))
    arm.close()
    theirs.close()
    ours = FollowerServer(methods)
    ours.start()
    client = portal.Client(f"{HOST}:{ours.port}", autoconn=False, logging=False)
    assert client.connect(5.0)
    np.testing.assert_array_equal(
        client.get_observations().result(5.0)["joint_pos"], np.full(7, 0.5)
    )
    client.command_joint_pos(np.arange(7.0)).result(5.0)
    np.testing.assert_array_equal(told[-1], np.arange(7.0))
    client.close()


def test_a_server_that_is_none_or_not_a_yams_is_a_sentence() -> None:
    with socket.create_server((HOST, 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(RigFault, match=rf"nobody answers at .*:{port}.*minimum_gello"):
        YamArm({"model": "yam", "port": port}, "left").connect()
    bare = FollowerServer({"num_dofs": lambda: 6})
    bare.start()
    with pytest.raises(RigFault, match=r"has 6 joints.*--gripper"):
        YamArm({"model": "yam", "port": bare.port}, "left").connect()
    with pytest.raises(RigFault, match=r"get_joint_pos was refused .*Unknown method"):
        PortalClient(HOST, bare.port, "the arm", 1.0).call("get_joint_pos")


class Bench:
    """The twin with its keeper in this process."""

    def __init__(self) -> None:
        self.rig, self.end = start.prepare(read_rig(find_rig("yam-twin")))
        self.clock = RoomClock(int(self.rig.room["side"]))
        self.hand = RoomHand.of(self.rig)
        self.units = {
            arm.name: ArmUnit(arm, YamArm(arm.options, arm.name), self.rig.guard)
            for arm in self.rig.arms
        }
        self.keeper = Keeper(self.rig, self.units, self.clock)

    def tip(self, arm: str) -> Pose:
        return self.units[arm].state.T_base_tip

    def go(self, ticks: int, gripper: float = 0.0, **goals: Pose) -> RigReading:
        for _ in range(ticks):
            commands = {}
            for arm, goal in goals.items():
                tip = self.tip(arm)
                move = shortened(goal.position_m - tip.position_m, 0.004)
                turn = shortened(rotation_vector(goal.rotation @ tip.rotation.T), 0.039)
                commands[arm] = ArmCommand(tuple(move), tuple(turn), gripper)  # type: ignore[arg-type]
            reading = self.keeper.tick(Command(commands))
        return reading

    def leave(self) -> None:
        self.keeper.close()
        self.hand.close()
        self.end()

    def let_time_pass(self, seconds: float) -> None:
        """Without a word to the arms."""
        self.clock.sleep_until(self.clock.now_s() + seconds)
        self.keeper.read()


def test_arms_at_rest_lie_at_their_limits_float_until_held_and_come_home_from_there() -> None:
    bench = Bench()
    try:
        rest_m = bench.tip("left").position_m
        assert bench.units["left"].state.joints_at_limit == ("joint2", "joint3")
        bench.keeper.read()
        bench.keeper.beat()  # nobody needs them held yet
        bench.hand.lift()
        assert not bench.keeper.read().arms["left"].joints_at_limit
        lifted_m = bench.tip("left").position_m
        assert np.linalg.norm(lifted_m - rest_m) > 0.01
        bench.let_time_pass(1.0)
        assert np.linalg.norm(bench.tip("left").position_m - lifted_m) < 0.001
        assert not len(bench.hand.goals())
    finally:
        bench.leave()
    bench = Bench()
    try:
        for request in (bench.keeper.settle, bench.keeper.home, bench.keeper.tare):
            with pytest.raises(
                RigFault, match=r"nothing was held: joint2, joint3 of left; .*Ctrl-C"
            ):
                request()
        bench.keeper.clear()  # a person confirms, and it floats on
        bench.keeper.latch("a person stopped it")
        bench.keeper.clear()
        bench.hand.lift()
        bench.keeper.home()
        for name, unit in bench.units.items():
            off_m = np.linalg.norm(bench.tip(name).position_m - unit.entry.home.position_m)
            assert off_m < 0.008
            assert not unit.state.joints_at_limit
    finally:
        bench.leave()


def test_numbers_that_are_none_reach_no_motor() -> None:
    joints, told = np.array([0.0, 1.2, 1.1, -1.2, 0.0, 0.0, 1.0]), list[Array]()
    server = FollowerServer(
        {
            "num_dofs": lambda: 7,
            "get_observations": lambda: {"joint_pos": joints.copy()},
            "command_joint_pos": lambda goal: told.append(np.array(goal)),
        }
    )
    server.start()
    arm = YamArm({"model": "yam", "port": server.port}, "left")
    arm.connect()
    arm.hold()
    joints[3] = np.nan
    assert np.isnan(arm.read().joints_rad[3])  # it is reported as it is
    arm.stop()
    joints[3] = -1.2
    arm.read()
    arm.hold()
    for goal in told:
        np.testing.assert_array_equal(goal, joints)
    with pytest.raises(RigFault, match="not finite are not sent"):
        arm._send(np.full(6, np.nan))
    joints[6] = np.nan
    with pytest.raises(RigFault, match="reports numbers that are not finite"):
        arm.connect()
    arm.close()


def test_arms_that_were_only_held_are_not_parked() -> None:
    bench = Bench()
    try:
        bench.hand.lift()
        bench.keeper.settle()
        held_m = bench.tip("left").position_m
        bench.keeper.close()
        seen = YamArm(bench.units["left"].entry.options, "left")
        seen.connect()
        tip = bench.units["left"].entry.T_base_mount @ seen.read().T_mount_tip
        assert np.linalg.norm(tip.position_m - held_m) < 0.002
        seen.close()
    finally:
        bench.leave()


@pytest.fixture(scope="module")
def shared() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.leave()


@pytest.fixture
def bench(shared: Bench) -> Bench:
    shared.hand.arrange("BowlHandover", 0)
    shared.keeper.clear()
    return shared


def moved(pose: Pose, *by_m: float) -> Pose:
    return Pose(pose.position_m + by_m, pose.rotation)


def test_arms_that_sag_arrive_together_within_4_mm(bench: Bench) -> None:
    goals = {"left": moved(bench.tip("left"), 0.06, -0.03, 0.02)}
    goals["right"] = moved(bench.tip("right"), 0.06, 0.03, -0.02)
    bench.go(35, **goals)
    for name, goal in goals.items():
        assert np.linalg.norm(bench.tip(name).position_m - goal.position_m) < 0.004
    bench.keeper.settle()
    told = bench.units["left"]._driver._goal  # type: ignore[attr-defined]
    sag = np.abs(told - bench.units["left"].reading.joints_rad)
    assert 0.015 < sag.max() < 0.06


def test_a_frozen_arm_stops_both_and_sinks(bench: Bench) -> None:
    goals = {name: moved(bench.tip(name), 0.1, 0.0, 0.05) for name in bench.units}
    bench.go(5, **goals)
    bench.hand.fault("frozen-arm", arm="right")
    before_m = bench.tip("right").position_m
    notes = [bench.go(1, **goals).stopped for _ in range(10)]
    assert any("the state of right is" in note for note in notes)
    left_m = bench.tip("left").position_m
    bench.let_time_pass(1.0)
    assert np.linalg.norm(bench.tip("left").position_m - left_m) < 0.02  # it is held
    assert np.array_equal(bench.tip("right").position_m, before_m)  # as its program says
    bench.hand.mend()
    bench.let_time_pass(0.1)
    assert bench.tip("right").position_m[2] < before_m[2] - 0.03  # as it is


def test_an_arm_that_measures_no_numbers_is_stopped_and_goes_on_from_its_last(bench: Bench) -> None:
    goals = {name: moved(bench.tip(name), 0.1, 0.0, 0.05) for name in bench.units}
    bench.go(5, **goals)
    bench.hand.fault("nan-state", duration_s=0.12)
    notes = [bench.go(1, **goals).stopped for _ in range(4)]
    assert any("not finite" in note for note in notes)
    bench.keeper.settle()
    assert not bench.go(2, **goals).stopped
    assert not any(unit.lost for unit in bench.units.values())


def test_joints_that_cannot_have_a_goal_do_not_lead_the_hand_below_the_table(bench: Bench) -> None:
    """Far out a YAM cannot tilt as it is asked to: it keeps the place and turns elsewhere."""
    rig, name = bench.rig, "left"
    driver, unit = bench.units[name]._driver, bench.units[name]
    points, floor_m = surface(rig.guard.hand(name)), rig.guard.floor(name)
    assert isinstance(driver, YamArm)
    lowest_m, notes = np.inf, set[str]()
    for tilt in (0.0, -1.0, 1.0):
        goal = Pose(np.array([0.58, 0.3, 0.0]), rotation_matrix(np.array([0.0, tilt, 0.0])) @ DOWN)
        for _ in range(60):
            reading = bench.go(1, left=goal)
            notes |= set(reading.guard)
            if reading.stopped:
                bench.keeper.settle()
            assert driver._goal is not None
            led = unit.entry.T_base_mount @ KINEMATICS.tip(driver._goal)
            lowest_m = min(lowest_m, float(led.apply(points.T)[2].min()))
    assert lowest_m > floor_m - 0.001, notes
    assert any("above the floor" in note for note in notes)


def test_a_lost_connection_stops_both_and_the_arm_stays_where_it_is(bench: Bench) -> None:
    bench.hand.fault("dropped-connection", arm="left", duration_s=0.5)
    with pytest.raises(RigFault, match=r"left: the arm 'left': the server at .* is gone"):
        bench.go(2, left=moved(bench.tip("left"), 0.05, 0.0, 0.0))
    height_m = bench.tip("left").position_m[2]
    with pytest.raises(RigFault, match="cannot go on yet"):
        bench.keeper.clear()
    bench.clock.sleep_until(bench.clock.now_s() + 1.0)
    bench.keeper.clear()
    assert abs(bench.tip("left").position_m[2] - height_m) < 0.015
    bench.go(2, left=moved(bench.tip("left"), 0.05, 0.0, 0.0))


def test_without_us_the_servers_hold_and_without_them_the_arms_sink(bench: Bench) -> None:
    bench.keeper.settle()
    height_m = bench.tip("left").position_m[2]
    bench.let_time_pass(5.0)  # our process is dead
    assert abs(bench.tip("left").position_m[2] - height_m) < 0.002
    bench.hand.fault("server-gone", arm="left", duration_s=1.0)
    bench.clock.sleep_until(bench.clock.now_s() + 1.5)
    bench.keeper.clear()
    assert bench.tip("left").position_m[2] < height_m - 0.05
    assert abs(bench.tip("right").position_m[2] - height_m) < 0.02


def test_a_jammed_gripper_holds_nothing(bench: Bench) -> None:
    bench.hand.fault("gripper-jammed", arm="right")
    goals = {name: bench.tip(name) for name in bench.units}
    bench.go(25, gripper=1.0, **goals)
    left, right = (bench.units[name].state for name in ("left", "right"))
    assert left.opening_m < 0.01
    assert right.opening_m > 0.08
    assert not left.held
    assert not right.held


def test_arms_are_parked_before_they_are_left(bench: Bench) -> None:
    bench.go(1, left=bench.tip("left"))
    bench.keeper.park()
    for name, unit in bench.units.items():
        park = unit.entry.park
        assert park is not None
        assert park.position_m[2] < 0.1
        assert np.linalg.norm(bench.tip(name).position_m - park.position_m) < 0.008
