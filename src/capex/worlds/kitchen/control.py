"""From the 12 native numbers to actuator commands: the tip's goal, base velocity, torso,
gripper integrator.

Native action (RoboCasa's environment order): tip dx dy dz (x 0.05 m) | axis-angle (x 0.5 rad), base
frame | gripper -1 open, +1 close | base x, y, yaw velocity | torso | mode (<= 0 arm, > 0 base). Arm
mode anchors the goal to the achieved pose, base mode to the previous goal, so that the arm rides
with the base and a load does not sink.
"""

from __future__ import annotations

import math

import mujoco
import numpy as np

from capex.errors import BadCommand
from capex.pose import Array, rotation_matrix
from capex.worlds import ArmCommand
from capex.worlds.kitchen import robot
from capex.worlds.kitchen.tip_control import TipController, actuators

ACTION_NAMES = (
    "eef_dx", "eef_dy", "eef_dz", "eef_rx", "eef_ry", "eef_rz",
    "gripper", "base_vx", "base_vy", "base_wz", "torso", "mode",
)  # fmt: skip
STEP_M, STEP_RAD = 0.05, 0.5  # of the tip at a native value of 1: robosuite's
BASE_SPEED_M_S, BASE_YAW_RATE_RAD_S = 1.0, 1.5  # velocities at a native value of 1
TORSO_STEP_M = 0.05  # at a native value of 1
GRIPPER_STEP = 0.2  # from open (-1) to closed (1) in ten control steps
CONTROL_HZ = 20.0  # the paper's
SUBSTEPS = 25  # of robot.TIMESTEP_S: a control step of 50 ms
CONTROL_EVERY = 5  # substeps: a torque every 10 ms


class Controller:
    """Holds the goals between ticks and turns them into controls. `vector` is all of its state."""

    def __init__(self, model: mujoco.MjModel):
        self._arm = TipController(model)
        self._yaw = int(model.joint("base_yaw").qposadr[0])
        self._base_controls = actuators(model, ("base_x", "base_y", "base_yaw"))
        self._torso_control = actuators(model, ("torso",)).start
        self._finger_controls = actuators(model, ("finger_left", "finger_right"))
        self._gripper = -1.0
        self._torso_m = 0.0
        self._base_velocity: Array = np.zeros(3)

    @property
    def vector(self) -> Array:
        """All goals: position 3, rotation 9, posture 7, gripper, torso, base velocity 3."""
        arm = self._arm
        goals = (arm.goal_position_m, arm.goal_rotation.ravel(), arm.posture)
        return np.concatenate([*goals, [self._gripper, self._torso_m], self._base_velocity])

    @vector.setter
    def vector(self, v: Array) -> None:
        v = v.copy()
        self._arm.goal_position_m, self._arm.goal_rotation = v[0:3], v[3:12].reshape(3, 3)
        self._arm.posture, self._base_velocity = v[12:19], v[21:24]
        self._gripper, self._torso_m = float(v[19]), float(v[20])

    VECTOR_SIZE = 24

    def reset(self, data: mujoco.MjData, torso_m: float) -> None:
        """Make the present pose the goal, and the joint angles the null space's posture."""
        self._arm.reset(data)
        self._gripper, self._torso_m, self._base_velocity = -1.0, torso_m, np.zeros(3)

    def set_goal(self, data: mujoco.MjData, action: Array) -> None:
        """Take one native action (already validated) as the goal of the next control step."""
        arm = self._arm
        if action[11] <= 0:
            arm.goal_position_m, arm.goal_rotation = self.achieved(data)
        arm.goal_position_m = arm.goal_position_m + STEP_M * action[0:3]
        if action[3] or action[4] or action[5]:
            turned, turn = np.empty((3, 3)), rotation_matrix(STEP_RAD * action[3:6])
            mujoco.mju_mulMatMat(turned, turn, arm.goal_rotation)
            arm.goal_rotation = turned
        step = GRIPPER_STEP * math.copysign(1.0, action[6]) * (action[6] != 0)
        self._gripper = min(1.0, max(-1.0, self._gripper + step))
        self._base_velocity = action[7:10] * (BASE_SPEED_M_S, BASE_SPEED_M_S, BASE_YAW_RATE_RAD_S)
        torso_m = self._torso_m + TORSO_STEP_M * float(action[10])
        self._torso_m = min(robot.TORSO_TRAVEL_M, max(0.0, torso_m))
        data.ctrl[self._finger_controls] = 0.5 * robot.FINGER_TRAVEL_M * (1.0 - self._gripper)
        data.ctrl[self._torso_control] = self._torso_m

    def achieved(self, data: mujoco.MjData) -> tuple[Array, Array]:
        """Tip position and rotation in the base frame."""
        return self._arm.achieved(data)

    def run(self, model: mujoco.MjModel, data: mujoco.MjData, first: bool) -> None:
        """Write the controls for the next 10 ms (see `TipController.run`)."""
        self._drive_base(data)
        self._arm.run(model, data, first)

    def _drive_base(self, data: mujoco.MjData) -> None:
        vx, vy, wz = (float(v) for v in self._base_velocity)
        if vx == 0.0 and vy == 0.0 and wz == 0.0:
            data.ctrl[self._base_controls] = 0.0
            return
        c, s = math.cos(data.qpos[self._yaw]), math.sin(data.qpos[self._yaw])
        wx, wy = c * vx - s * vy, s * vx + c * vy
        # The drive adds what its own dry friction eats: a commanded velocity is the velocity.
        data.ctrl[self._base_controls] = (
            wx + _sign(wx) * robot.BASE_HOLD_N / robot.BASE_GAIN,
            wy + _sign(wy) * robot.BASE_HOLD_N / robot.BASE_GAIN,
            wz + _sign(wz) * robot.BASE_HOLD_NM / robot.BASE_YAW_GAIN,
        )


def to_action(arm: ArmCommand, base_velocity: tuple[float, float, float] | None) -> Array:
    """A command as the 12 native numbers."""
    action = np.zeros(len(ACTION_NAMES))
    if arm.step_m is None:
        action[11] = 1.0  # base mode with no delta: hold the previous goal
    else:
        action[0:3] = np.asarray(arm.step_m) / STEP_M
        action[3:6] = np.asarray(arm.step_rad) / STEP_RAD
        action[11] = -1.0
    action[6] = arm.gripper
    if base_velocity is not None:
        vx, vy, wz = base_velocity
        action[7:10] = (vx / BASE_SPEED_M_S, vy / BASE_SPEED_M_S, wz / BASE_YAW_RATE_RAD_S)
    return action


def require_action(action: Array) -> Array:
    """The action, refused if it is not 12 finite numbers in [-1, 1]."""
    values = np.asarray(action, dtype=np.float64)
    if values.shape != (len(ACTION_NAMES),):
        raise BadCommand(
            f"action has shape {values.shape}; it must have shape"
            f" ({len(ACTION_NAMES)},): {', '.join(ACTION_NAMES)}"
        )
    for name, value in zip(ACTION_NAMES, values.tolist(), strict=True):
        if not -1.0 - 1e-9 <= value <= 1.0 + 1e-9:  # also false for NaN
            raise BadCommand(
                f"action['{name}'] is {value}; it must be a finite number between -1 and 1"
            )
    return values


def _sign(v: float) -> float:
    return 0.0 if abs(v) < 1e-3 else math.copysign(1.0, v)
