"""The franky driver without a robot: options, sentences, and its calls at `soft_franky`."""

from __future__ import annotations

import socket
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import soft_franky

from capex.errors import ErrorCode, RigFault
from capex.pose import DOWN, Pose, nearest_rotation
from capex.rigs.arm_controller import ArmUnit
from capex.rigs.drivers import ArmStatus
from capex.rigs.drivers.franka_tip import JOINT_LIMITS_RAD, force_on_arm_n, pose_of, require_hand
from capex.rigs.drivers.franky import FrankyArm
from capex.rigs.drivers.franky_options import read_options
from capex.rigs.drivers.franky_status import why_not_connected
from capex.rigs.parse import find_rig, read_rig
from capex.worlds.kitchen import robot as panda
from refusals import refuses

ARM = "the arm 'arm' at 172.16.0.2"


def flange_to_hand(length_m=0.1034, yaw=-np.pi / 4):
    c, s = np.cos(yaw), np.sin(yaw)
    return Pose(np.array([0.0, 0.0, length_m]), np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]))


def test_the_control_boxs_end_effector_is_our_tip():
    q = np.array([[0.1, -0.4, 0.2, -2.3, 0.05, 1.9, 0.8]])
    T = panda.forward(q)[0][0]
    tip = pose_of(T.T.ravel())  # by columns, as the control box sends it
    np.testing.assert_allclose(tip.position_m, T[:3, 3])
    np.testing.assert_allclose(tip.rotation, T[:3, :3])
    down = pose_of([1, 0, 0, 0, 0, -1, 0, 0, 0, 0, -1, 0, 0.4, 0.1, 0.38, 1])
    np.testing.assert_allclose(down.rotation, DOWN)
    np.testing.assert_allclose(down.position_m, (0.4, 0.1, 0.38))
    assert JOINT_LIMITS_RAD["panda"] == tuple(
        zip(panda.LOWER_RAD.tolist(), panda.UPPER_RAD.tolist(), strict=True)
    )


def test_a_force_is_what_is_done_to_the_arm():
    pressed_down_by_the_arm = [0.0, 0.0, -12.0, 0.0, 0.0, 0.0]  # O_F_ext_hat_K has libfranka's sign
    assert force_on_arm_n(pressed_down_by_the_arm) == (0.0, 0.0, 12.0)  # the table pushes up


def test_a_control_box_must_know_its_hand():
    require_hand(flange_to_hand(), "arm")
    require_hand(flange_to_hand(0.14), "arm")  # longer fingers
    for wrong in (flange_to_hand(0.0, 0.0), flange_to_hand(yaw=0.0), flange_to_hand(0.4)):
        with pytest.raises(RigFault, match=r"choose the Franka Hand .* in Desk"):
            require_hand(wrong, "arm")


@pytest.mark.parametrize(
    ("kind", "said", "sentence"),
    [
        ("IncompatibleVersionException", "libfranka: Incompatible library version (server version: 5, library version: 10). Please", "speaks version 5 .* franky version 10; install the franky-control .* server version 5"),
        ("NetworkException", "libfranka: Connection to FCI refused. Please install FCI feature or enable FCI mode in Desk.", "take control and activate FCI in Desk"),
        ("NetworkException", "libfranka: TCP connection got interrupted.", "another program may drive it"),
        ("NetworkException", "libfranka: Connection error: Host not found", "no computer of that name"),
        ("RealtimeException", "libfranka: unable to set realtime scheduling: Operation not permitted", "rtprio 99"),
        ("CommandException", "libfranka: strange", "cannot be used: libfranka: strange"),
    ],
)  # fmt: skip
def test_why_an_arm_cannot_be_reached(kind, said, sentence):
    with pytest.raises(RigFault, match=sentence):
        raise RigFault(why_not_connected(kind, said, ARM))


def tip_of(reading):
    """As the rig's process makes it a rotation."""
    tip = reading.T_mount_tip
    return Pose(tip.position_m, nearest_rotation(tip.rotation))


def reading_after(robot, arm, error, mode="Idle", *errors):
    robot.end(error, mode, *errors)
    return arm.read()


@pytest.fixture
def arm(monkeypatch):
    """A driver at a robot with a real Panda's numbers, in a motion."""
    monkeypatch.setitem(sys.modules, "franky", soft_franky.module())
    monkeypatch.setattr(FrankyArm, "_look", lambda *_: None)
    monkeypatch.setattr(soft_franky.Gripper, "refuses", 0)
    options = {"address": "127.0.0.1", "robot": "panda", "realtime": "ignore"}
    made = FrankyArm(options, "arm")
    made.facts = made.connect()
    yield made
    made.close()


def test_a_pandas_pose_is_made_a_rotation_before_it_becomes_a_goal(arm):
    robot = soft_franky.Robot.made[-1]
    tip = tip_of(arm.read())
    raw = arm.read().T_mount_tip.rotation
    assert 1e-6 < np.abs(raw @ raw.T - np.eye(3)).max() < 1e-4  # as the control box reports it
    arm.command(Pose(tip.position_m + np.array([0.0, 0.0, 0.01]), tip.rotation))
    (motion,) = robot.motions
    assert motion.target[2, 3] == pytest.approx(0.39)
    assert motion.reactions == 1
    lower, upper = np.array(JOINT_LIMITS_RAD["panda"]).T
    np.testing.assert_array_equal(motion.params["lower_joint_limits"], lower)
    np.testing.assert_array_equal(motion.params["upper_joint_limits"], upper)
    arm.stop()
    assert motion.target[2, 3] == pytest.approx(0.38)


def test_a_goal_that_franky_refuses_is_a_fault_and_the_motion_goes_on(arm):
    robot = soft_franky.Robot.made[-1]
    tip = tip_of(arm.read())
    arm.command(tip)
    arm.command(Pose(tip.position_m, 1.001 * tip.rotation))
    reading = arm.read()
    assert reading.status is ArmStatus.FAULT
    assert reading.detail == (
        "franky refuses a goal: target must have an orthonormal rotation block"
    )
    arm.recover(confirmed=False)
    assert arm.read().status is ArmStatus.READY
    arm.command(Pose(tip.position_m + np.array([0.0, 0.0, 0.01]), tip.rotation))
    (motion,) = robot.motions
    assert motion.target[2, 3] == pytest.approx(0.39)
    arm.command(Pose(tip.position_m, 1.001 * tip.rotation))
    robot.end(soft_franky.ControlException("libfranka: Move command aborted"))
    arm.recover(confirmed=False)  # a person pressed and released the stop meanwhile
    assert arm.read().status is ArmStatus.UNEXPLAINED


@pytest.mark.parametrize("refuses", ["constructor", "move"])
def test_a_motion_that_franky_refuses_to_begin_is_a_fault(arm, monkeypatch, refuses):
    robot = soft_franky.Robot.made[-1]
    tip = tip_of(arm.read())
    with monkeypatch.context() as patched:
        if refuses == "move":
            refusal = ValueError("translational_stiffness must be finite")
            patched.setattr(robot, "move", lambda *_, **__: (_ for _ in ()).throw(refusal))
        else:
            stiff = replace(arm._options, translational_stiffness=float("nan"))
            patched.setattr(arm, "_options", stiff)
        arm.command(tip)
        reading = arm.read()
        assert reading.status is ArmStatus.FAULT
        assert "refuses to begin a motion: translational_stiffness must be" in reading.error
    arm.recover(confirmed=False)
    arm.command(tip)
    assert len(robot.motions) == 1
    assert arm.read().status is ArmStatus.READY


@pytest.mark.parametrize(
    ("matrix", "garbled"),
    [
        (np.zeros((4, 4)), "it measures a rotation that is none"),
        (np.diag([1.2, 1.2, 1.2, 1.0]), "it measures a rotation that is none"),
        (np.diag([1.0, 1.0, -1.0, 1.0]), "it measures a rotation that is none"),  # a mirror
        (np.full((4, 4), np.nan), "it measures numbers that are not finite"),
    ],
)
def test_a_pose_that_is_none_is_no_reading_and_no_goal(arm, matrix, garbled):
    robot, rig = soft_franky.Robot.made[-1], read_rig(find_rig("franka-twin"))
    unit = ArmUnit(replace(rig.arms[0], max_opening_m=0.079), arm, rig.guard)
    robot = soft_franky.Robot.made[-1]
    good = robot.state.O_T_EE
    unit.send(unit.state.T_base_tip)
    unit.measure(1.0)
    robot.state.O_T_EE = soft_franky.Affine(matrix)
    unit.measure(1.1)
    assert unit.tip_state.error.startswith(garbled)
    unit.stop()
    assert not unit.lost
    np.testing.assert_allclose(robot.motions[-1].target[:3, 3], good.matrix[:3, 3])
    robot.end(soft_franky.ControlException("libfranka: aborted"), "Idle", "cartesian_reflex")
    unit.recover()
    unit.send(unit.state.T_base_tip)  # at no measured pose a motion begins
    assert len(robot.motions) == 1
    robot.state.O_T_EE = good
    unit.measure(1.2)
    assert not unit.garbled


def test_looking_at_an_arm_sets_nothing_in_its_control_box(arm):
    robot = soft_franky.Robot.made[-1]
    tip = tip_of(arm.read())
    arm.hold()
    assert robot.settings == []
    arm.command(tip)
    assert robot.settings == [(40.0, 60.0)]


@pytest.mark.parametrize(
    ("mode", "errors", "status"),
    [
        ("Reflex", (), ArmStatus.REFLEX),
        ("Idle", ("cartesian_reflex",), ArmStatus.REFLEX),  # cleared by another, but it says so
        ("UserStopped", (), ArmStatus.USER_STOP),
        ("Guiding", (), ArmStatus.USER_STOP),
        ("Idle", (), ArmStatus.UNEXPLAINED),  # a stop that was pressed and released
        ("Other", (), ArmStatus.NOT_READY),
    ],
)
def test_what_ended_a_motion_is_told_by_the_robots_state_alone(arm, mode, errors, status):
    arm.command(tip_of(arm.read()))
    robot = soft_franky.Robot.made[-1]
    error = soft_franky.ControlException("libfranka: motion aborted by reflex! []\nlog: reflex")
    reading = reading_after(robot, arm, error, mode, *errors)
    assert reading.status is status
    assert "log" not in reading.error
    arm.command(tip_of(reading))
    assert len(robot.motions) == 1  # nothing moves until it was recovered
    arm.recover(confirmed=status.needs_person)
    assert arm.read().status is ArmStatus.READY
    arm.command(tip_of(reading))
    assert len(robot.motions) == 2


def test_errors_of_an_earlier_motion_prove_nothing(arm):
    robot = soft_franky.Robot.made[-1]
    error = soft_franky.ControlException("libfranka: Move command aborted")
    for status in (ArmStatus.REFLEX, ArmStatus.UNEXPLAINED):
        arm.command(tip_of(arm.read()))
        assert reading_after(robot, arm, error, "Idle", "cartesian_reflex").status is status
        arm.recover(confirmed=True)


def until(holds):
    end_s = time.monotonic() + 20.0
    while not holds() and time.monotonic() < end_s:
        time.sleep(0.01)
    assert holds()


def test_a_hand_opens_as_far_as_it_was_homed_and_survives_refusals(arm):
    assert arm.facts.max_opening_m == 0.079
    hand = soft_franky.Gripper.made[-1]
    arm.grip(0.0)
    until(lambda: arm.read().opening_m == 0.0)
    soft_franky.Gripper.refuses = 2
    arm.grip(0.08)
    until(lambda: arm.read().opening_m == 0.079)
    assert hand.asked_m == [0.0, 0.079, 0.079, 0.079]


def test_a_command_that_the_hand_gave_up_is_sent_again(arm):
    rig = read_rig(find_rig("franka-twin"))
    unit = ArmUnit(replace(rig.arms[0], max_opening_m=0.079), arm, rig.guard)
    hand = soft_franky.Gripper.made[-1]
    soft_franky.Gripper.refuses = 3  # as often as it tries by itself
    assert unit.grip(1.0)
    until(lambda: arm.read().grip_refused)
    assert hand.width_m == 0.079
    unit.measure(1.0)
    assert unit.grip(1.0)
    until(lambda: arm.read().opening_m == 0.0)
    unit.measure(1.1)
    assert not unit.grip(1.0)  # it was done


def test_a_hand_that_was_not_homed_is_refused(arm, monkeypatch):
    monkeypatch.setattr(soft_franky.Gripper, "max_width_m", 0.0)
    with pytest.raises(RigFault, match="opens to 0 m: it has not been homed"):
        FrankyArm({"address": "127.0.0.1", "realtime": "ignore"}, "arm").connect()


def test_options_are_checked():
    options = read_options({"address": "1.2.3.4", "force_reaction_n": "off", "side": 1}, "arm")
    assert options.force_reaction_n is None
    assert options.translational_stiffness == 800.0
    for wrong, code, sentence in (
        ({}, ErrorCode.MISSING_SETTING, "has no option 'address'"),
        (
            {"address": "a", "stiffnes": 1},
            ErrorCode.UNKNOWN_NAME,
            "no option 'stiffnes' .* valid: rotational_stiffness",
        ),
        (
            {"address": "a", "grip_force_n": -1},
            ErrorCode.BAD_SETTING,
            "is -1; it must be a number above 0",
        ),
        ({"address": "a", "robot": "ur5"}, ErrorCode.BAD_SETTING, "must be one of panda, fr3"),
        ({"address": "a", "senses_force": 1}, ErrorCode.BAD_SETTING, "must be true or false"),
        ({"address": 7}, ErrorCode.BAD_SETTING, "must be an address"),
    ):
        with refuses(code, sentence):
            read_options(wrong, "arm")


def test_without_franky_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "franky", None)  # also where it is installed
    with refuses(ErrorCode.MISSING_PACKAGE, r'pip install "capex\[franka\]"'):
        FrankyArm({"address": "127.0.0.1"}, "arm").connect()


def test_an_address_where_nothing_is():
    arm = FrankyArm({"address": "no-such-host.invalid"}, "arm")
    with pytest.raises(
        RigFault, match=r"nothing answers for the arm 'arm' at no-such-host\.invalid"
    ):
        arm._look("no-such-host.invalid")
    with socket.create_server(("127.0.0.1", 0)):
        FrankyArm({"address": "127.0.0.1"}, "arm")._look("127.0.0.1")  # refused: it is there
    with pytest.raises(RigFault, match="is not connected"):
        arm.read()
