"""What is said over Deoxys' wire: the messages that we send, built whole, and the states that come.

Goals are absolute, metres and an axis times its angle, in the frame of the arm's base, unscaled
(Deoxys' own client multiplies by its action scale before it sends; ours is 1). A controller gets
all its gains and the smoothing estimator in every message: what is missing there is read out of
bounds or through a null pointer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from capex.pose import Pose, rotation_vector
from capex.rigs.drivers.deoxys.schema import DecodeError, make_classes
from capex.rigs.drivers.franka_tip import pose_of

TYPE_URL = "type.googleapis.com/"
NO_CONTROL, OSC_POSE = 0, 1  # FrankaControlMessage.ControllerType
LINEAR_POSE = 2  # FrankaControlMessage.TrajInterpolatorType
SMOOTHING = 1  # FrankaStateEstimatorMessage.EstimatorType
OTHER, IDLE, MOVE, GUIDING, REFLEX, USER_STOPPED, RECOVERING = range(7)  # RobotMode
TIMEOUT_S = 0.2  # stored over there and never used; what its own client sends

CLASSES = make_classes()
ArmMessage = CLASSES["FrankaControlMessage"]
PoseMessage = CLASSES["FrankaOSCPoseControllerMessage"]
GripperMessage = CLASSES["FrankaGripperControlMessage"]
MoveMessage = CLASSES["FrankaGripperMoveMessage"]
GraspMessage = CLASSES["FrankaGripperGraspMessage"]
StopMessage = CLASSES["FrankaGripperStopMessage"]
RobotStateMessage = CLASSES["FrankaRobotStateMessage"]
GripperStateMessage = CLASSES["FrankaGripperStateMessage"]
Errors = CLASSES["FrankaRobotStateMessage.Errors"]


@dataclass(frozen=True)
class Gains:
    """Of the operational-space controller: Deoxys' own defaults. A stiffness is an acceleration per
    error (1/s²), the damping critical; the interpolation takes `time_fraction` of a 50 ms period.
    """

    translation: tuple[float, float, float] = (150.0, 150.0, 150.0)
    rotation: tuple[float, float, float] = (250.0, 250.0, 250.0)
    residual_mass: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0, 0.1, 0.5, 0.5)
    time_fraction: float = 0.3

    def __post_init__(self) -> None:
        """Every one of them, always."""
        lengths = (len(self.translation), len(self.rotation), len(self.residual_mass))
        if lengths != (3, 3, 7):
            raise ValueError(f"gains have 3, 3 and 7 numbers, not {lengths}")


@dataclass(frozen=True)
class Smoothing:
    """The estimator that must be there; with `on` False it passes states through."""

    on: bool = False
    alpha_q: float = 0.9
    alpha_dq: float = 0.9
    alpha_eef: float = 1.0
    alpha_eef_vel: float = 1.0


PASS_THROUGH = Smoothing()


def put(holder: Any, message: Any) -> None:
    """Pack a message into an Any, under its bare name."""
    holder.type_url = TYPE_URL + message.DESCRIPTOR.full_name
    holder.value = message.SerializeToString()


def taken(holder: Any) -> Any:
    """The message inside an Any, or None where it is of no kind that we know or does not parse."""
    kind = CLASSES.get(holder.type_url.rpartition("/")[2])
    return None if kind is None else parsed(kind, holder.value)


def parsed(kind: Any, data: bytes) -> Any:
    """A message of a class, or None where the bytes are none."""
    message = kind()
    try:
        message.ParseFromString(data)
    except DecodeError:
        return None
    return message


def pose_goal(T_base_ee: Pose, gains: Gains, smoothing: Smoothing = PASS_THROUGH) -> bytes:
    """Pull the end effector to an absolute pose (OSC_POSE)."""
    controller = PoseMessage(
        translational_stiffness=gains.translation, rotational_stiffness=gains.rotation
    )
    controller.config.residual_mass_vec.extend(gains.residual_mass)
    goal = controller.goal
    goal.is_delta = False
    goal.x, goal.y, goal.z = map(float, T_base_ee.position_m)
    goal.ax, goal.ay, goal.az = map(float, rotation_vector(T_base_ee.rotation))
    message = ArmMessage(
        controller_type=OSC_POSE,
        traj_interpolator_type=LINEAR_POSE,
        traj_interpolator_time_fraction=gains.time_fraction,
        timeout=TIMEOUT_S,
    )
    put(message.control_msg, controller)
    estimator = message.state_estimator_msg
    estimator.is_estimation, estimator.estimator_type = smoothing.on, SMOOTHING
    config = CLASSES["ExponentialSmoothingConfig"](
        alpha_q=smoothing.alpha_q,
        alpha_dq=smoothing.alpha_dq,
        alpha_eef=smoothing.alpha_eef,
        alpha_eef_vel=smoothing.alpha_eef_vel,
    )
    put(estimator.config, config)
    return bytes(message.SerializeToString())


def no_control() -> bytes:
    """Run no controller, and stay alive. It has a time-out, because a message of defaults only
    would have no bytes, which count as silence there.
    """
    return bytes(ArmMessage(controller_type=NO_CONTROL, timeout=TIMEOUT_S).SerializeToString())


def terminate() -> bytes:
    """End franka-interface; its script starts it anew."""
    message = ArmMessage(termination=True, controller_type=NO_CONTROL, timeout=TIMEOUT_S)
    return bytes(message.SerializeToString())


def move_fingers(width_m: float, speed_m_s: float) -> bytes:
    """Go to a width without force."""
    return _gripper(MoveMessage(width=width_m, speed=speed_m_s))


def grasp(width_m: float, speed_m_s: float, force_n: float, epsilon_m: float) -> bytes:
    """Close towards a width and press; counts as grasped within epsilon of the width."""
    return _gripper(
        GraspMessage(
            width=width_m,
            speed=speed_m_s,
            force=force_n,
            epsilon_inner=epsilon_m,
            epsilon_outer=epsilon_m,
        )
    )


def stop_fingers() -> bytes:
    """Stop the fingers where they are."""
    return _gripper(StopMessage(stop=True))


def _gripper(command: Any) -> bytes:
    message = GripperMessage()
    put(message.control_msg, command)
    return bytes(message.SerializeToString())


@dataclass(frozen=True)
class PandaState:
    """What we read of a robot's state. Matrices are columns first, as libfranka gives them."""

    O_T_EE: tuple[float, ...] = ()
    F_T_EE: tuple[float, ...] = ()
    q: tuple[float, ...] = ()
    # O_F_ext_hat_K, frame of the base. Its sign is that of what the arm does to its surroundings.
    wrench: tuple[float, ...] = ()
    errors: tuple[str, ...] = ()  # those of current_errors that are set
    last_errors: tuple[str, ...] = ()  # what aborted the previous motion (last_motion_errors)
    mode: int = OTHER
    time_s: float = 0.0  # the robot's clock
    frame: int = 0  # counts messages of one franka-interface, also while the state is the same

    @property
    def complaint(self) -> str:
        """Why this is no state of a Panda behind Deoxys; empty where it is."""
        lengths = {"O_T_EE": (self.O_T_EE, 16), "q": (self.q, 7), "O_F_ext_hat_K": (self.wrench, 6)}
        for name, (values, count) in lengths.items():
            if len(values) != count:
                return f"{name} has {len(values)} numbers instead of {count}"
        return ""

    @property
    def finite(self) -> bool:
        """Whether pose and joints are there and are numbers."""
        return not self.complaint and all(map(math.isfinite, (*self.O_T_EE, *self.q)))

    @property
    def ee_pose(self) -> Pose:
        """T_base_ee, of the end effector that the desk knows."""
        return pose_of(self.O_T_EE)


@dataclass(frozen=True)
class GripperState:
    """The hand's state."""

    width_m: float = 0.0
    max_width_m: float = 0.0
    grasped: bool = False
    time_s: float = 0.0


def read_robot_state(data: bytes) -> PandaState | None:
    """A robot's state; None where the bytes are no such message."""
    message = parsed(RobotStateMessage, data)
    if message is None:
        return None
    return PandaState(
        O_T_EE=tuple(message.O_T_EE),
        F_T_EE=tuple(message.F_T_EE),
        q=tuple(message.q),
        wrench=tuple(message.O_F_ext_hat_K),
        errors=_set(message.current_errors),
        last_errors=_set(message.last_motion_errors),
        mode=message.robot_mode,
        time_s=float(message.time.toSec),
        frame=message.frame,
    )


def _set(errors: Any) -> tuple[str, ...]:
    """The names of the errors that are set."""
    return tuple(field.name.replace("_", " ") for field, value in errors.ListFields() if value)


def read_gripper_state(data: bytes) -> GripperState | None:
    """A gripper's state; None where the bytes are no such message."""
    message = parsed(GripperStateMessage, data)
    if message is None:
        return None
    return GripperState(
        message.width, message.max_width, message.is_grasped, float(message.time.toSec)
    )
