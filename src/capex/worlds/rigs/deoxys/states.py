"""The states that the twin's programs publish. Fields that nobody measures here stay empty."""

from __future__ import annotations

from typing import Any

import numpy as np

from capex.pose import Array, Pose
from capex.worlds.rigs.deoxys import messages as wire
from capex.worlds.rigs.deoxys.box import DeoxysBox
from capex.worlds.rigs.franka_tip import HAND
from capex.worlds.rigs.room.arm import MAX_OPENING_M, REFLEX, USER_STOP
from capex.worlds.rigs.room.physics import StateMessage

MODES = {REFLEX: wire.REFLEX, USER_STOP: wire.USER_STOPPED}
WARM_C = 30


def robot_state(seen: StateMessage, box: DeoxysBox, controls: bool) -> Any:
    """A robot's state, all but its frame. The external force has libfranka's sign: what the robot
    does to its surroundings is positive.
    """
    position_m, rotation, joints, _, force_n = seen.values
    message = wire.RobotStateMessage(
        O_T_EE=_columns(Pose(position_m, rotation)),
        O_T_EE_d=_columns(box.goal),
        F_T_EE=_columns(HAND),
        EE_T_K=_columns(Pose(np.zeros(3), np.eye(3))),
        q=joints.tolist(),
        q_d=joints.tolist(),
        dq=box.joint_speeds_rad_s.tolist(),
        O_F_ext_hat_K=[*(-force_n).tolist(), 0.0, 0.0, 0.0],
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
        width=width_m, max_width=MAX_OPENING_M, is_grasped=grasped, temperature=WARM_C
    )
    _set_time(message.time, now_s)
    return bytes(message.SerializeToString())


def _set_time(duration: Any, now_s: float) -> None:
    duration.toSec, duration.toMSec = now_s, round(1000 * now_s)


def _columns(pose: Pose) -> list[float]:
    matrix: Array = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = pose.rotation, pose.position_m
    return [float(v) for v in matrix.T.ravel()]
