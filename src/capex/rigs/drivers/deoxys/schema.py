"""The messages of Deoxys' wire as a table: field numbers and types as it publishes them.

Made into classes in a descriptor pool of their own, without protoc, so that they stand beside
Deoxys' own modules in one process. They have no package: their full names are the bare ones.
"""

from __future__ import annotations

from typing import Any

from capex.errors import CapexError, ErrorCode

try:
    from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory
    from google.protobuf.message import DecodeError
except ImportError:
    raise CapexError(
        'Deoxys\' messages need protobuf, which is not installed: pip install "capex[deoxys]"',
        code=ErrorCode.MISSING_PACKAGE,
    ) from None

__all__ = ["DecodeError", "make_classes"]

ANY = "google.protobuf.Any"
STATE = "FrankaRobotStateMessage"

ENUMS = {
    "FrankaStateEstimatorMessage.EstimatorType": "NO_ESTIMATOR EXPONENTIAL_SMOOTHING_ESTIMATOR",
    "FrankaControlMessage.ControllerType": (
        "NO_CONTROL OSC_POSE OSC_POSITION JOINT_POSITION JOINT_IMPEDANCE JOINT_VELOCITY TORQUE"
        " OSC_YAW CARTESIAN_VELOCITY"
    ),
    "FrankaControlMessage.TrajInterpolatorType": (
        "NO_OP LINEAR_POSITION LINEAR_POSE MIN_JERK_POSE SMOOTH_JOINT_POSITION"
        " MIN_JERK_JOINT_POSITION LINEAR_JOINT_POSITION COSINE_CARTESIAN_VELOCITY"
        " LINEAR_CARTESIAN_VELOCITY"
    ),
    f"{STATE}.RobotMode": ("Other Idle Move Guiding Reflex UserStopped AutomaticErrorRecovery"),
}

# Fields in order, one line a type: numbers count up from 1 or go on from the last `#number`; a star
# means repeated.
MESSAGES = {
    "Goal": "bool is_delta; double x y z ax ay az",
    "ExponentialSmoothingConfig": "double alpha_q alpha_dq alpha_eef alpha_eef_vel",
    "FrankaStateEstimatorMessage": (
        "bool is_estimation; FrankaStateEstimatorMessage.EstimatorType estimator_type;"
        f" {ANY} #5 config"
    ),
    "FrankaOSCControllerConfig": "double* residual_mass_vec",
    "FrankaOSCPoseControllerMessage": (
        "Goal goal; double* translational_stiffness rotational_stiffness; bool termination;"
        " FrankaOSCControllerConfig config"
    ),
    "FrankaControlMessage": (
        "bool termination; FrankaControlMessage.ControllerType controller_type;"
        " FrankaControlMessage.TrajInterpolatorType traj_interpolator_type;"
        f" double traj_interpolator_time_fraction; {ANY} control_msg; double timeout;"
        " FrankaStateEstimatorMessage state_estimator_msg"
    ),
    "FrankaGripperHomingMessage": "bool homing",
    "FrankaGripperMoveMessage": "double width speed",
    "FrankaGripperStopMessage": "bool stop",
    "FrankaGripperGraspMessage": "double width speed force epsilon_inner epsilon_outer",
    "FrankaGripperControlMessage": f"bool termination; {ANY} control_msg",
    "FrankaGripperStateMessage.Duration": "double toSec; uint64 toMSec",
    "FrankaGripperStateMessage": (
        "double width max_width; bool is_grasped; uint32 temperature;"
        " FrankaGripperStateMessage.Duration time"
    ),
    f"{STATE}.Duration": "double toSec; uint64 toMSec",
    f"{STATE}.Errors": (
        "bool joint_position_limits_violation cartesian_position_limits_violation"
        " self_collision_avoidance_violation joint_velocity_violation"
        " cartesian_velocity_violation force_control_safety_violation joint_reflex"
        " cartesian_reflex max_goal_pose_deviation_violation max_path_pose_deviation_violation"
        " cartesian_velocity_profile_safety_violation"
        " joint_position_motion_generator_start_pose_invalid"
        " joint_motion_generator_position_limits_violation"
        " joint_motion_generator_velocity_limits_violation"
        " joint_motion_generator_velocity_discontinuity"
        " joint_motion_generator_acceleration_discontinuity"
        " cartesian_position_motion_generator_start_pose_invalid"
        " cartesian_motion_generator_elbow_limit_violation"
        " cartesian_motion_generator_velocity_limits_violation"
        " cartesian_motion_generator_velocity_discontinuity"
        " cartesian_motion_generator_acceleration_discontinuity"
        " cartesian_motion_generator_elbow_sign_inconsistent"
        " cartesian_motion_generator_start_elbow_invalid"
        " cartesian_motion_generator_joint_position_limits_violation"
        " cartesian_motion_generator_joint_velocity_limits_violation"
        " cartesian_motion_generator_joint_velocity_discontinuity"
        " cartesian_motion_generator_joint_acceleration_discontinuity"
        " cartesian_position_motion_generator_invalid_frame"
        " force_controller_desired_force_tolerance_violation controller_torque_discontinuity"
        " start_elbow_sign_inconsistent communication_constraints_violation"
        " power_limit_violation joint_p2p_insufficient_torque_for_planning tau_j_range_violation"
        " instability_detected joint_move_in_wrong_direction"
    ),
    STATE: (
        "double* O_T_EE O_T_EE_d F_T_EE F_T_NE NE_T_EE EE_T_K; double m_ee; double* I_ee F_x_Cee;"
        " double m_load; double* I_load F_x_Cload; double m_total; double* I_total F_x_Ctotal"
        " elbow elbow_d elbow_c delbow_c ddelbow_c tau_J tau_J_d dtau_J q q_d dq dq_d ddq_d"
        " joint_contact cartesian_contact joint_collision cartesian_collision"
        " tau_ext_hat_filtered O_F_ext_hat_K K_F_ext_hat_K O_dP_EE_d O_T_EE_c O_dP_EE_c O_ddP_EE_c"
        f" theta dtheta; {STATE}.Errors current_errors last_motion_errors;"
        f" double control_command_success_rate; {STATE}.RobotMode robot_mode;"
        f" {STATE}.Duration time; double* current_robot_poses_frames; uint64 frame"
    ),
}

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "double": _Field.TYPE_DOUBLE,
    "bool": _Field.TYPE_BOOL,
    "uint32": _Field.TYPE_UINT32,
    "uint64": _Field.TYPE_UINT64,
}


def _fields(message: Any, text: str) -> None:
    number = 1
    for group in text.split(";"):
        kind, *names = group.split()
        for name in names:
            if name.startswith("#"):
                number = int(name[1:])
                continue
            field = message.field.add(name=name, number=number)
            field.label = _Field.LABEL_REPEATED if kind.endswith("*") else _Field.LABEL_OPTIONAL
            scalar = _SCALARS.get(kind.rstrip("*"))
            if scalar is not None:
                field.type = scalar
            else:
                field.type = _Field.TYPE_ENUM if kind in ENUMS else _Field.TYPE_MESSAGE
                field.type_name = f".{kind}"
            number += 1


def _file() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="capex/deoxys.proto", syntax="proto3")
    file.dependency.append("google/protobuf/any.proto")
    outer = {name: file.message_type.add(name=name) for name in MESSAGES if "." not in name}
    for name, text in MESSAGES.items():
        parent, _, inner = name.partition(".")
        _fields(outer[parent].nested_type.add(name=inner) if inner else outer[parent], text)
    for name, values in ENUMS.items():
        parent, _, inner = name.partition(".")
        enum = outer[parent].enum_type.add(name=inner)
        for number, value in enumerate(values.split()):
            enum.value.add(name=value, number=number)
    return file


def make_classes() -> dict[str, Any]:
    """Each message's class by its full name, in a pool of its own."""
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(any_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(_file().SerializeToString())
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in MESSAGES
    }
