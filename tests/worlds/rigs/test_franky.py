"""The franky driver as far as it goes without franky: its options, its sentences, the tip."""

from __future__ import annotations

import importlib.util
import socket

import numpy as np
import pytest

from capex.errors import CapexError, RigFault
from capex.pose import DOWN, Pose
from capex.worlds.kitchen import panda
from capex.worlds.rigs.franka_tip import JOINT_LIMITS_RAD, force_on_arm_n, pose_of, require_hand
from capex.worlds.rigs.franky import FrankyArm
from capex.worlds.rigs.franky_options import read_options
from capex.worlds.rigs.franky_words import error_words, why_not_connected
from capex.worlds.rigs.keeper import BY_PERSON

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


def test_errors_in_words():
    assert error_words("Move", []) == error_words("Idle", []) == ""
    assert error_words("Reflex", ["cartesian_reflex"]) == "reflex: cartesian_reflex"
    said = "libfranka: Move command aborted: motion aborted by reflex! []\ncontrol_command_success_rate: 0.9"
    assert (
        error_words("Reflex", [said]) == "reflex: Move command aborted: motion aborted by reflex!"
    )
    by_person = [
        error_words("UserStopped", []),
        error_words("Guiding", []),
        error_words("Reflex", ["Move command aborted: User Stop pressed!"]),
    ]
    assert all(BY_PERSON.search(words) for words in by_person)
    assert not BY_PERSON.search(error_words("Reflex", ["joint_velocity_violation"]))
    assert "unlock the joints" in error_words("Other", [])


def test_options_are_checked():
    options = read_options({"address": "1.2.3.4", "force_reaction_n": "off", "side": 1}, "arm")
    assert options.force_reaction_n is None
    assert options.translational_stiffness == 800.0
    for wrong, sentence in (
        ({}, "has no option 'address'"),
        ({"address": "a", "stiffnes": 1}, "no option 'stiffnes' .* valid: rotational_stiffness"),
        ({"address": "a", "grip_force_n": -1}, "is -1; it must be a number above 0"),
        ({"address": "a", "robot": "ur5"}, "must be one of panda, fr3"),
        ({"address": "a", "senses_force": 1}, "must be true or false"),
        ({"address": 7}, "must be an address"),
    ):
        with pytest.raises(CapexError, match=sentence):
            read_options(wrong, "arm")


def test_without_franky_the_extra_is_named():
    if importlib.util.find_spec("franky"):
        pytest.skip("franky is installed")
    with pytest.raises(CapexError, match=r'pip install "capex\[franka\]"'):
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
