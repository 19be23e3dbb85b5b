"""The Franka twin at Deoxys' wire: its programs live, die and come back as the real ones do."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from deoxys_pc import GAINS, Pc, twin

from capex.errors import UnknownName
from capex.pose import Pose
from capex.rigs.drivers.deoxys import messages as wire
from capex.rigs.drivers.deoxys.driver import DeoxysArm
from capex.rigs.parse import find_rig, read_rig
from capex.rigs.twins import start
from capex.rigs.twins.faults import require_fault
from capex.rigs.twins.hand import RoomHand


@pytest.fixture(scope="module")
def shared() -> Iterator[Pc]:
    """One twin for all tests: an arrangement makes it new."""
    with twin() as pc:
        yield pc


@pytest.fixture
def pc(shared: Pc) -> Pc:
    """At home, with programs that have just been started."""
    shared.hand.arrange("LiftBlock", 0)
    shared.tick()
    return shared


def pose_of(state: wire.PandaState) -> Pose:
    """The tip, from columns."""
    matrix = np.array(state.O_T_EE).reshape(4, 4).T
    return Pose(matrix[:3, 3], matrix[:3, :3])


def away(pose: Pose, *step_m: float) -> Pose:
    """A pose beside another."""
    return Pose(pose.position_m + np.array(step_m), pose.rotation)


def test_a_step_stops_short_and_the_state_stands_still_without_a_controller(pc: Pc) -> None:
    home = pose_of(pc.state)
    idle = pc.tick(ticks=10)
    assert idle.mode == wire.IDLE
    assert pc.state.frame > 40
    assert idle.time_s < pc.clock.now_s() - 0.4  # the same state, again and again
    here = pose_of(pc.hold(home, 10))
    state = pc.hold(away(here, 0.0, 0.05, 0.0), 20)
    done_m = float(pose_of(state).position_m[1] - here.position_m[1])
    assert 0.035 < done_m < 0.0495
    assert state.mode == wire.MOVE
    assert state.time_s == pytest.approx(pc.clock.now_s())
    assert len(pc.hand.goals()) >= 2
    stopped = pc.tick(wire.no_control(), ticks=30)
    assert stopped.time_s < pc.clock.now_s() - 1.0
    assert pc.hold(here, 2).time_s == pytest.approx(pc.clock.now_s())  # alive all the while


def test_silence_ends_the_program_which_comes_back_after_a_second(pc: Pc) -> None:
    home = pose_of(pc.hold(pose_of(pc.state), 5))
    last = pc.tick(ticks=24)
    assert last.time_s < pc.clock.now_s() - 0.1  # 20 looks in vain
    states = len(pc.arm)
    assert pc.tick(ticks=8).time_s == last.time_s
    assert len(pc.arm) == states
    back = pc.tick(ticks=16)
    assert back.frame < 80
    assert back.mode == wire.IDLE
    assert pc.hold(home, 3).mode == wire.MOVE


@pytest.mark.parametrize("kind", ["reflex", "e-stop", "relaunch", "dropped-connection"])
def test_what_ends_the_program(pc: Pc, kind: str) -> None:
    home = pose_of(pc.hold(pose_of(pc.state), 5))
    pc.hand.fault(kind)
    last = pc.hold(home, 10)
    assert last.time_s < pc.clock.now_s() - 0.3
    after = pc.hold(home, 14)
    if kind == "e-stop":
        assert after.time_s == last.time_s  # it does not come back before a person comes
        pc.hand.mend()
        after = pc.hold(home, 22)
    assert after.time_s == pytest.approx(pc.clock.now_s())
    assert after.mode == wire.MOVE


def test_a_user_stop_is_seen_when_a_motion_begins(pc: Pc) -> None:
    home = pose_of(pc.tick())
    pc.hand.fault("e-stop")
    assert pc.tick(ticks=3).mode == wire.IDLE
    assert pc.hold(home, 3).mode == wire.USER_STOPPED


def _changed(data: bytes, change: Any) -> bytes:
    message = wire.parsed(wire.ArmMessage, data)
    control = wire.taken(message.control_msg)
    change(message, control)
    wire.put(message.control_msg, control)
    return bytes(message.SerializeToString())


def _no_gains(message: Any, control: Any) -> None:
    del control.rotational_stiffness[:]


def _no_estimator(message: Any, control: Any) -> None:
    message.state_estimator_msg.estimator_type = 0


def _not_a_number(message: Any, control: Any) -> None:
    control.goal.x = float("nan")


@pytest.mark.parametrize("change", [_no_gains, _no_estimator, _not_a_number])
def test_what_the_real_program_does_not_survive(pc: Pc, change: Any) -> None:
    good = wire.pose_goal(pose_of(pc.state), GAINS)
    before = len(pc.arm)
    pc.tick(b"nonsense", ticks=2)
    pc.tick(_changed(good, change), ticks=1)
    states = len(pc.arm)
    assert states > before
    pc.tick(ticks=4)
    assert len(pc.arm) <= states + 1


def test_a_grasp_blocks_and_holds_until_a_move(pc: Pc) -> None:
    assert pc.fingers.width_m > 0.078
    closing = wire.grasp(0.0, 0.1, 30.0, 0.08)
    pc.tick(gripper=closing)
    states = len(pc.gripper)
    pc.tick(gripper=wire.move_fingers(0.08, 0.1), ticks=4)  # while it closes: lost
    assert len(pc.gripper) - states == 8
    pc.tick(ticks=30)
    assert pc.fingers.grasped
    assert pc.fingers.width_m < 0.01
    pc.tick(gripper=wire.move_fingers(0.04, 0.1), ticks=20)
    assert not pc.fingers.grasped
    assert pc.fingers.width_m == pytest.approx(0.04, abs=0.002)
    pc.hand.fault("no-gripper", duration_s=0.4)
    states = len(pc.gripper)
    pc.tick(ticks=7)
    assert len(pc.gripper) <= states + 1
    pc.tick(ticks=20)
    assert pc.fingers.width_m > 0.078  # the new program homes the hand


def test_stale_states_and_faults_of_another_wire(pc: Pc) -> None:
    home = pose_of(pc.hold(pose_of(pc.state), 4))
    pc.hand.fault("stale", duration_s=0.4)
    stale = pc.hold(home, 6)
    assert stale.time_s < pc.clock.now_s() - 0.25
    assert pc.hold(home, 4).time_s == pytest.approx(pc.clock.now_s())
    with pytest.raises(UnknownName, match="no fault 'stale' behind the wire 'room'"):
        require_fault({"kind": "stale"}, "room")


def test_on_the_real_clock_a_program_that_ends_closes_its_sockets_and_comes_back() -> None:
    rig, end = start.prepare(read_rig(find_rig("franka-twin-live")))
    try:
        arm, hand = DeoxysArm(rig.arms[0].options, "arm"), RoomHand.of(rig)
        arm.connect()
        hand.fault("relaunch")
        until_s = time.monotonic() + 20.0
        while not (error := arm.read().error) and time.monotonic() < until_s:
            arm.hold()
            time.sleep(0.02)
        assert "franka-interface" in error
        arm.recover(confirmed=True)
        assert not arm.read().error
        arm.close()
        hand.close()
    finally:
        end()


RUN = """
    from deoxys_pc import twin
    from test_deoxys_peer import digest
    with twin() as pc:
        print(digest(pc))
"""


def digest(pc: Pc) -> str:
    """Of every state that some commands bring."""
    pc.hand.arrange("LiftBlock", 3)
    pc.tick()
    del pc.arm[:-1], pc.gripper[:-1]
    begun_ms = round(1000 * pc.clock.now_s()) - 100
    here = pose_of(pc.state)
    for k in range(8):
        pc.hold(away(here, 0.01 * k, 0.0, -0.01 * k), 1)
    pc.tick(gripper=wire.grasp(0.0, 0.1, 30.0, 0.08), ticks=60)  # the watchdog, too
    whole = hashlib.sha256()
    for kind, states in ((wire.RobotStateMessage, pc.arm), (wire.GripperStateMessage, pc.gripper)):
        for message in [wire.parsed(kind, data) for data in states]:
            message.time.toSec, message.time.toMSec = 0.0, message.time.toMSec - begun_ms
            whole.update(message.SerializeToString())
    return whole.hexdigest()


def test_the_same_commands_give_the_same_bytes_in_any_process(pc: Pc) -> None:
    command = [sys.executable, "-c", textwrap.dedent(RUN)]
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    env = {**os.environ, "PYTHONPATH": path}
    other = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    assert other.strip() == digest(pc)
