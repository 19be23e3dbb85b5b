"""Deoxys' messages byte by byte: what its published definitions make of the same values, as printed
by scripts/check_deoxys_messages.py --hex.
"""

from __future__ import annotations

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool

from capex.pose import Pose, rotation_matrix
from capex.rigs.drivers.deoxys import messages
from capex.rigs.drivers.deoxys.messages import Gains

PUBLISHED = {
    "pose_goal": "1001180221333333333333d33f2acd010a32747970652e676f6f676c65617069732e636f6d2f4672616e6b614f5343506f7365436f6e74726f6c6c65724d6573736167651296010a24119a9999999999d93f199a9999999999b9bf21000000000000d03f39182d4454fb21f93f12180000000000c062400000000000c062400000000000c062401a180000000000406f400000000000406f400000000000406f402a3a0a3800000000000000000000000000000000000000000000000000000000000000009a9999999999b93f000000000000e03f000000000000e03f319a9999999999c93f3a5a10012a560a2e747970652e676f6f676c65617069732e636f6d2f4578706f6e656e7469616c536d6f6f7468696e67436f6e666967122409cdccccccccccec3f11cdccccccccccec3f19000000000000f03f21000000000000f03f",
    "no_control": "319a9999999999c93f",
    "terminate": "0801319a9999999999c93f",
    "move_fingers": "12420a2c747970652e676f6f676c65617069732e636f6d2f4672616e6b61477269707065724d6f76654d6573736167651212097b14ae47e17ab43f119a9999999999b93f",
    "grasp": "12550a2d747970652e676f6f676c65617069732e636f6d2f4672616e6b614772697070657247726173704d6573736167651224119a9999999999b93f190000000000003e40217b14ae47e17ab43f297b14ae47e17ab43f",
    "stop_fingers": "12320a2c747970652e676f6f676c65617069732e636f6d2f4672616e6b614772697070657253746f704d65737361676512020801",
}
QUARTER = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])


def test_what_we_send_has_the_bytes_of_the_published_definitions():
    sent = {
        "pose_goal": messages.pose_goal(Pose(np.array([0.4, -0.1, 0.25]), QUARTER), Gains()),
        "no_control": messages.no_control(),
        "terminate": messages.terminate(),
        "move_fingers": messages.move_fingers(0.08, 0.1),
        "grasp": messages.grasp(0.0, 0.1, 30.0, 0.08),
        "stop_fingers": messages.stop_fingers(),
    }
    assert {name: data.hex() for name, data in sent.items()} == PUBLISHED
    assert all(sent.values())  # no bytes at all would count as silence


def test_a_goal_is_absolute_unscaled_and_has_every_gain():
    vector = np.array([3.0, 0.4, -0.2])
    data = messages.pose_goal(Pose(np.array([0.5, 0.1, 0.2]), rotation_matrix(vector)), Gains())
    message = messages.parsed(messages.ArmMessage, data)
    control = messages.taken(message.control_msg)
    goal = control.goal
    assert not goal.is_delta
    np.testing.assert_allclose([goal.x, goal.y, goal.z], [0.5, 0.1, 0.2])
    np.testing.assert_allclose([goal.ax, goal.ay, goal.az], vector)
    assert len(control.translational_stiffness) == len(control.rotational_stiffness) == 3
    assert len(control.config.residual_mass_vec) == 7
    assert message.state_estimator_msg.estimator_type == messages.SMOOTHING
    with pytest.raises(ValueError, match="3, 3 and 7"):
        Gains(residual_mass=())


def test_states_are_read_and_other_bytes_are_refused():
    message = messages.RobotStateMessage(
        O_T_EE=[1, 0, 0, 0, 0, -1, 0, 0, 0, 0, -1, 0, 0.4, 0.1, 0.3, 1],
        q=[0.1] * 7,
        O_F_ext_hat_K=[1, 2, 3, 4, 5, 6],
        robot_mode=messages.REFLEX,
        frame=7,
    )
    message.current_errors.cartesian_reflex = True
    message.time.toSec = 12.5
    state = messages.read_robot_state(message.SerializeToString())
    assert state is not None
    assert (state.complaint, state.errors, state.time_s) == ("", ("cartesian reflex",), 12.5)
    np.testing.assert_array_equal(state.ee_pose.position_m, [0.4, 0.1, 0.3])
    assert messages.read_robot_state(b"no state") is None
    assert "O_T_EE has 0 numbers" in messages.PandaState().complaint


def test_the_messages_stand_beside_others_of_their_names():
    file = descriptor_pb2.FileDescriptorProto(name="franka_controller.proto", syntax="proto3")
    file.message_type.add(name="FrankaControlMessage")
    descriptor_pool.Default().AddSerializedFile(file.SerializeToString())
    assert len(messages.CLASSES["FrankaControlMessage"].DESCRIPTOR.fields) == 7
