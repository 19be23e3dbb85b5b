"""The states that the twin's programs publish, with the errors of a real Panda's numbers. Fields
that nobody measures here stay empty.

Desk prints the end effector's rotation with four digits, so that O_T_EE is orthonormal to 2e-5
only. The external force has a bias in free air: the bracket of a wrist camera that nobody entered,
and an error of the robot's model that varies with the joints. It is noisy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from capex.pose import Array, Pose
from capex.rigs.drivers.deoxys import messages as wire
from capex.rigs.drivers.franka_tip import HAND, PRINTED_HAND
from capex.rigs.twins.arm import REFLEX, USER_STOP
from capex.rigs.twins.deoxys.box import HOMED_M, DeoxysBox
from capex.rigs.twins.physics import StateMessage
from capex.rigs.twins.scenes.common import HOME_RAD

MODES = {REFLEX: wire.REFLEX, USER_STOP: wire.USER_STOPPED}
WARM_C = 30
BIAS_N = np.array([2.0, -1.5, 5.45])  # 6 N, in libfranka's sign
MODEL_ERROR_N, NOISE_N = 1.0, 0.3
_SPREAD = np.array([12.9898, 78.233, 37.719])  # any three that share no period


def robot_state(seen: StateMessage, box: DeoxysBox, controls: bool) -> Any:
    """A robot's state, all but its frame. The external force has libfranka's sign: what the robot
    does to its surroundings is positive.
    """
    position_m, rotation, joints, _, force_n = seen.values
    message = wire.RobotStateMessage(
        O_T_EE=_columns(_as_printed(Pose(position_m, rotation))),
        O_T_EE_d=_columns(_as_printed(box.goal)),
        F_T_EE=_columns(PRINTED_HAND),
        EE_T_K=_columns(Pose(np.zeros(3), np.eye(3))),
        q=joints.tolist(),
        q_d=joints.tolist(),
        dq=box.joint_speeds_rad_s.tolist(),
        O_F_ext_hat_K=[*(_free_air_n(joints, box.periods) - force_n).tolist(), 0.0, 0.0, 0.0],
        robot_mode=MODES.get(seen.error, wire.MOVE if controls else wire.IDLE),
        control_command_success_rate=1.0 if controls else 0.0,
    )
    message.current_errors.cartesian_reflex = seen.error == REFLEX
    message.last_motion_errors.cartesian_reflex = box.last_error == REFLEX
    _set_time(message.time, seen.time_s)
    return message


def gripper_state(width_m: float, grasped: bool, now_s: float) -> bytes:
    """A hand's state."""
    message = wire.GripperStateMessage(
        width=width_m, max_width=HOMED_M, is_grasped=grasped, temperature=WARM_C
    )
    _set_time(message.time, now_s)
    return bytes(message.SerializeToString())


def _as_printed(tip: Pose) -> Pose:
    """The flange is known exactly, the hand on it with four digits."""
    return Pose(tip.position_m, tip.rotation @ HAND.rotation.T @ PRINTED_HAND.rotation)


def _free_air_n(joints_rad: Array, periods: int) -> Array:
    """What is measured while nothing touches the arm; the noise repeats with the count."""
    model_n = MODEL_ERROR_N * np.sin(2.0 * (joints_rad - HOME_RAD)[[1, 3, 5]])
    return np.asarray(BIAS_N + model_n + NOISE_N * np.sin(_SPREAD * periods))


def _set_time(duration: Any, now_s: float) -> None:
    duration.toSec, duration.toMSec = now_s, round(1000 * now_s)


def _columns(pose: Pose) -> list[float]:
    matrix: Array = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = pose.rotation, pose.position_m
    return [float(v) for v in matrix.T.ravel()]
