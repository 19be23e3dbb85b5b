"""The simulated room: the same bytes in any process, honest misbehaviour, an end with its parent."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
import pytest

from capex.errors import ErrorCode, RigFault
from capex.pose import Pose
from capex.rigs.drivers import ArmReading
from capex.rigs.parse import find_rig, read_rig
from capex.rigs.rigfile import RigFile
from capex.rigs.twins import start
from capex.rigs.twins.arm import REFLEX_N, WATCHDOG_S
from capex.rigs.twins.camera import RoomCamera
from capex.rigs.twins.driver import RoomArm, RoomClock
from capex.rigs.twins.hand import RoomHand
from capex.rigs.twins.scenes import blocks as scene
from refusals import refuses

TICK_S = 0.05


@dataclass
class Visit:
    """A running room and everything that speaks with it."""

    rig: RigFile
    arm: RoomArm
    clock: RoomClock
    hand: RoomHand
    cameras: dict[str, RoomCamera]

    def tick(self, goal: Pose | None = None) -> ArmReading:
        """One tick as the rig's process makes it."""
        if goal is None:
            self.arm.hold()
        else:
            self.arm.command(goal)
        self.clock.sleep_until(self.clock.now_s() + TICK_S)
        return self.arm.read()

    def move(self, step_m: tuple[float, float, float], ticks: int) -> ArmReading:
        """Steps of the goal from the measured pose."""
        at = self.arm.read().T_mount_tip
        for k in range(1, ticks + 1):
            reading = self.tick(Pose(at.position_m + k * np.array(step_m), at.rotation))
        return reading


def _enter(**room: Any) -> tuple[Visit, Any]:
    rig = read_rig(find_rig("room"))
    rig, end = start.prepare(dataclasses.replace(rig, room={**rig.room, **room}))
    options = rig.arms[0].options
    cameras = {c.name: RoomCamera(c.options, c.name, c.size) for c in rig.cameras}
    arm = RoomArm(options, "arm")
    facts = arm.connect()
    assert facts.max_opening_m == rig.arms[0].max_opening_m
    for camera in cameras.values():
        camera.start()
    return Visit(rig, arm, RoomArm.clock(options), RoomHand.of(rig), cameras), end


@pytest.fixture(scope="module")
def shared() -> Iterator[Visit]:
    visit, end = _enter()
    yield visit
    end()


@pytest.fixture
def visit(shared: Visit) -> Visit:
    """The room, arranged and mended."""
    shared.hand.arrange("BlockOnPlate", 3)
    return shared


def _experience(visit: Visit) -> str:
    """A digest of all that a rig would see of a short motion."""
    visit.hand.arrange("StackBlocks", 2, 5, 0.003)
    digest, begun_s = hashlib.sha256(), visit.clock.now_s()
    at = visit.arm.read().T_mount_tip
    visit.arm.grip(0.03)
    for k in range(12):
        step = np.array([0.006, 0.004, -0.01])
        reading = visit.tick(Pose(at.position_m + (k + 1) * step, at.rotation))
        digest.update(np.array([*reading.T_mount_tip.position_m, *reading.joints_rad]).tobytes())
        digest.update(np.array([reading.opening_m, *(reading.force_n or ())]).tobytes())
        assert reading.time_s == visit.clock.now_s()
        for camera in visit.cameras.values():
            frame = camera.latest()
            digest.update(frame.image.tobytes())
            if frame.depth_m is not None:
                digest.update(frame.depth_m.tobytes())
            digest.update(np.array(round(frame.device_s - begun_s, 6)).tobytes())
    digest.update(visit.hand.truth().tobytes())
    return digest.hexdigest()


def test_same_start_and_seed_give_the_same_bytes_in_any_process_and_after_anything(visit: Visit):
    visit.move((0.01, 0.0, 0.0), 7)
    first = _experience(visit)
    assert _experience(visit) == first
    other, end = _enter()
    try:
        assert _experience(other) == first
    finally:
        end()


def test_the_clock_stands_still_but_for_ticks(visit: Visit):
    before, frame = visit.arm.read(), visit.cameras["front"].latest()
    now_s = visit.clock.now_s()
    assert visit.arm.read() == before
    assert visit.cameras["front"].latest() is frame
    assert visit.clock.now_s() == now_s
    visit.clock.sleep_until(now_s - 1.0)
    assert visit.clock.now_s() == now_s
    assert visit.tick().time_s == pytest.approx(now_s + TICK_S)
    assert visit.cameras["front"].latest().number == frame.number + 1


def test_the_arm_lags_and_sags_but_holds(visit: Visit):
    home = visit.arm.read().T_mount_tip
    goal = Pose(home.position_m + np.array([0.05, 0.0, 0.0]), home.rotation)
    for _ in range(60):
        reading = visit.tick(goal)
    short_m = goal.position_m - reading.T_mount_tip.position_m
    assert 0.004 < short_m[2] < 0.02  # below its goal: a tool that the controller does not know
    assert abs(short_m[0]) < 0.01
    for _ in range(40):
        rested = visit.tick()
    drift = rested.T_mount_tip.position_m - reading.T_mount_tip.position_m
    assert float(np.linalg.norm(drift)) < 1e-3
    assert not rested.error


def test_the_gripper_stops_on_a_block_and_the_force_of_a_press_is_measured(visit: Visit):
    visit.hand.arrange("LiftBlock", 0)
    x, y, yaw = scene.places("LiftBlock", 0)["red block"]
    home = visit.arm.read().T_mount_tip
    turn = np.array([[np.cos(yaw), -np.sin(yaw), 0], [np.sin(yaw), np.cos(yaw), 0], [0, 0, 1]])
    lift = np.array([0.0, 0.0, 0.012])  # over the sag
    above = np.array([x, y, 0.15])
    for part in np.linspace(0.0, 1.0, 40):
        at = home.position_m + part * (above + lift - home.position_m)
        visit.tick(Pose(at, turn @ home.rotation))
    for z in np.linspace(0.15, 0.02, 40):
        visit.tick(Pose(np.array([x, y, z]) + lift / 2, turn @ home.rotation))
    visit.arm.grip(0.0)
    for _ in range(20):
        reading = visit.tick()
    assert reading.opening_m == pytest.approx(0.044, abs=0.003)
    for z in np.linspace(0.02, 0.2, 50):
        visit.tick(Pose(np.array([x, y, z]) + lift, turn @ home.rotation))
    assert visit.hand.judge()[0], visit.hand.judge()
    visit.arm.grip(0.08)
    for _ in range(20):
        visit.tick()
    assert not visit.hand.judge()[0]
    force = 0.0
    for z in np.linspace(0.2, -0.06, 80):
        reading = visit.tick(Pose(np.array([x, y - 0.1, z]), home.rotation))
        force = max(force, (reading.force_n or (0, 0, 0))[2])
    assert force > 5.0  # the table pushes up


def test_silence_brakes_the_arm_until_it_recovers(visit: Visit):
    visit.move((0.01, 0.0, 0.0), 2)
    visit.clock.sleep_until(visit.clock.now_s() + WATCHDOG_S + TICK_S)
    reading = visit.arm.read()
    assert reading.error == "watchdog"
    ignored = visit.move((0.0, 0.02, 0.0), 5).T_mount_tip.position_m
    assert ignored == pytest.approx(reading.T_mount_tip.position_m, abs=2e-3)
    visit.arm.recover(confirmed=False)
    assert not visit.arm.read().error
    assert visit.move((0.0, 0.02, 0.0), 8).T_mount_tip.position_m[1] > ignored[1] + 0.05


def test_a_reflex_is_cleared_by_a_program_and_an_e_stop_by_a_person(visit: Visit):
    visit.hand.fault("reflex", at_tick=3)
    errors = [visit.move((0.005, 0.0, 0.0), 1).error for _ in range(4)]
    assert errors == ["", "", "reflex", "reflex"]
    visit.arm.recover(confirmed=False)
    assert not visit.tick().error
    visit.hand.fault("e-stop")
    assert visit.tick().error == "user stop"
    with pytest.raises(RigFault, match=r"user stop.*a person"):
        visit.arm.recover(confirmed=False)
    visit.hand.mend()
    assert not visit.arm.read().error
    visit.hand.fault("e-stop", duration_s=0.1)
    assert [visit.tick().error for _ in range(3)] == ["user stop", "", ""]


def test_goals_that_are_no_goals_are_refused_and_counted_by_the_robot(visit: Visit):
    counted, at = len(visit.hand.goals()), visit.arm.read().T_mount_tip
    for far in (np.array([0.5, 0.0, 0.0]), np.array([np.nan, 0.0, 0.0])):
        assert visit.tick(Pose(at.position_m + far, at.rotation)).error == "reflex"
        visit.arm.recover(confirmed=False)
    still = visit.tick().T_mount_tip.position_m
    assert still == pytest.approx(at.position_m, abs=0.005)
    goals = visit.hand.goals()[counted:]
    assert goals[0][1] == at.position_m[0] + 0.5
    assert np.isnan(goals[1][1])


def test_states_come_late_with_their_old_times_and_may_be_no_numbers(visit: Visit):
    now_s = visit.clock.now_s()
    visit.hand.fault("late-states", at_s=now_s + TICK_S, duration_s=0.3)
    ages = []
    for _ in range(8):
        reading = visit.tick()
        ages.append(round(visit.clock.now_s() - reading.time_s, 3))
    assert ages[0] <= 0.01
    assert max(ages) >= 0.25
    assert ages[-1] == 0.0
    visit.hand.fault("nan-state", duration_s=1.5 * TICK_S)
    assert np.isnan(visit.tick().joints_rad).all()
    assert np.isfinite(visit.tick().joints_rad).all()


def test_a_dropped_connection_is_told_and_made_again(visit: Visit):
    visit.hand.fault("dropped-connection")
    with pytest.raises(RigFault, match="arm 'arm' is lost"):
        visit.tick()
    visit.arm.recover(confirmed=False)
    assert visit.move((0.01, 0.0, 0.0), 2).error == ""


def test_cameras_freeze_and_are_unplugged_one_by_one(visit: Visit):
    front, wrist = visit.cameras["front"], visit.cameras["wrist"]
    before = front.latest()
    visit.hand.fault("frozen-frames", camera="front", duration_s=3 * TICK_S)
    visit.move((0.01, 0.0, 0.0), 1)
    assert front.latest().arrived_s == before.arrived_s < wrist.latest().arrived_s
    numbers = []
    for _ in range(4):
        visit.move((0.01, 0.0, 0.0), 1)
        numbers.append((front.latest().number, wrist.latest().number))
    assert numbers[0][0] == before.number
    assert numbers[3][0] == numbers[3][1] > before.number
    visit.hand.fault("camera-unplugged", camera="front")
    with pytest.raises(RigFault, match="camera 'front' is lost"):
        front.latest()
    with pytest.raises(RigFault, match="front"):
        front.start()
    wrist.latest()
    visit.hand.mend()
    front.start()
    assert front.latest().image.shape == (360, 640, 3)


def test_faults_may_stand_in_the_rig_file_and_are_refused_when_unknown(visit: Visit):
    other, end = _enter(faults=[{"kind": "reflex", "at_tick": 2}])
    try:
        assert other.move((0.005, 0.0, 0.0), 1).error == ""
        assert other.move((0.005, 0.0, 0.0), 2).error == "reflex"
    finally:
        end()
    with refuses(ErrorCode.UNKNOWN_NAME, r"'meteor'.*reflex"):
        visit.hand.fault("meteor")
    with refuses(ErrorCode.BAD_SETTING, r"when.*at_tick"):
        visit.hand.fault("reflex", when=3)
    wrong = dataclasses.replace(visit.rig, room={"speed": 2})
    with refuses(ErrorCode.UNKNOWN_NAME, "'speed' in room; valid: scene, wire, fps"):
        start.prepare(wrong)


@pytest.mark.parametrize("name", ["room", "room-live"])
def test_the_packaged_files_say_what_the_scene_has(name: str):
    rig = read_rig(find_rig(name))
    assert list(rig.tasks) == list(scene.TASKS)
    model = scene.build("LiftBlock")
    data = mujoco.MjData(model)
    scene.arrange(model, data, "LiftBlock", 0)
    tip = Pose(data.site("tip").xpos.copy(), data.site("tip").xmat.reshape(3, 3).copy())
    assert rig.arms[0].home.position_m == pytest.approx(tip.position_m, abs=1e-4)
    assert rig.arms[0].home.rotation == pytest.approx(tip.rotation, abs=1e-4)
    for camera in rig.cameras:
        truth = scene.camera_model(data, camera.name).T_base_camera
        given = camera.extrinsics
        assert given is not None
        seen = given if camera.kind == "exterior" else tip @ given
        assert seen.position_m == pytest.approx(truth.position_m, abs=1e-6)
        assert seen.rotation == pytest.approx(truth.rotation, abs=1e-6)
        assert camera.view == scene.CAMERAS[camera.name].view
    assert rig.guard.force_latch_n is not None
    assert rig.guard.force_latch_n < REFLEX_N


def test_on_the_real_clock_time_passes_by_itself():
    rig = read_rig(find_rig("room-live"))
    rig, end = start.prepare(rig)
    try:
        hand, arm = RoomHand.of(rig), RoomArm(rig.arms[0].options, "arm")
        arm.connect()
        first = arm.read()
        ahead = np.array([0.03, 0.0, 0.0])
        goal = Pose(first.T_mount_tip.position_m + ahead, first.T_mount_tip.rotation)
        while arm.read().time_s < first.time_s + 0.6:
            arm.command(goal)
            time.sleep(0.02)
        assert arm.read().T_mount_tip.position_m[0] > first.T_mount_tip.position_m[0] + 0.015
        while arm.read().error != "watchdog":
            assert hand.now_s() < first.time_s + 30.0
            time.sleep(0.05)
        with pytest.raises(RigFault, match="real clock"):
            RoomArm.clock(rig.arms[0].options).sleep_until(1e9)
        arm.close()
    finally:
        end()


def test_the_room_ends_with_whoever_started_it():
    program = textwrap.dedent("""
        import time
        from capex.rigs.parse import find_rig, read_rig
        from capex.rigs.twins import start
        rig, end = start.prepare(read_rig(find_rig("room")))
        print(rig.room["side"], flush=True)
        time.sleep(60)
    """)
    parent = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert parent.stdout is not None
    hand = RoomHand(int(parent.stdout.readline()))
    hand.now_s()
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    with pytest.raises(RigFault):
        _ask_until_lost(hand)


def _ask_until_lost(hand: RoomHand) -> None:
    while True:
        hand.now_s()
