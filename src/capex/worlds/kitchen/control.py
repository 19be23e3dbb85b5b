"""From the 12 native numbers to actuator commands: the tip's goal and its controller, base
velocity, torso, gripper integrator.

Native action (RoboCasa's environment order): tip dx dy dz (x 0.05 m) | axis-angle (x 0.5 rad), base
frame | gripper -1 open, +1 close | base x, y, yaw velocity | torso | mode (<= 0 arm, > 0 base). Arm
mode anchors the goal to the achieved pose, base mode to the previous goal, so that the arm rides
with the base and a load does not sink.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import mujoco
import numpy as np

from capex.errors import BadCommand
from capex.pose import Array, rotation_matrix
from capex.worlds import ArmCommand
from capex.worlds.kitchen import robot
from capex.worlds.kitchen import robot as panda

KP, KP_NULL = 150.0, 10.0  # tip and posture, 1/s2: the first is robosuite's, the second far softer
KD, KD_NULL = 2.0 * math.sqrt(KP), 2.0 * math.sqrt(KP_NULL)  # critical damping
SINGULAR = 1e-3  # damping of the operational-space inertia near singular postures, 1/kg
# far smaller for the null-space projector: whatever it lets through holds the tip off its goal
SINGULAR_NULL = 1e-6
_SPEED_LIMITS = panda.SPEED_RAD_S.tolist()
SPEED_BRAKE_NMS = 40.0  # torque per rad/s beyond a joint's speed limit


@dataclass(frozen=True)
class TipGains:
    """How the tip is pulled: position first, then rotation."""

    stiffness: Array  # (6,) 1/s2, of metres and of the sine of the angle
    damping: Array  # (6,) 1/s
    dead_band: Array | None = None  # (6,) a smaller error counts as none
    residual_kgm2: Array | None = None  # (7,) added to the joints' inertias that are reckoned with
    max_torque_nm: float | None = None  # of each joint, beside what carries the arm


GAINS = TipGains(np.full(6, KP), np.full(6, KD))


class TipController:
    """Holds a goal of the tip and turns it into torques; `gains` may be changed at any time."""

    def __init__(self, model: mujoco.MjModel):
        self.gains = GAINS
        self._mount, self._tip = model.site("mount").id, model.site("tip").id
        joint = model.joint(panda.JOINTS[0])
        first, address = int(joint.dofadr[0]), int(joint.qposadr[0])
        self._dofs, self._q = slice(first, first + 7), slice(address, address + 7)
        self._torques = actuators(model, panda.JOINTS)
        nv = model.nv
        self._jacobian = np.zeros((6, nv))
        self._units = np.zeros((7, nv))
        for i in range(7):
            self._units[i, first + i] = 1.0
        self._columns = np.zeros((7, nv))
        self._mass, self._factor = np.zeros((7, 7)), np.zeros((7, 7))
        self._minv_jt = np.zeros((6, 7))
        self._null_factor, self._arm_jacobian = np.zeros((6, 6)), np.zeros((6, 7))
        self._position_factor, self._rotation_factor = np.zeros((3, 3)), np.zeros((3, 3))
        self.goal_position_m: Array = np.zeros(3)  # of the tip, in the mount's frame
        self.goal_rotation: Array = np.eye(3)
        self.posture: Array = np.zeros(7)  # joint angles to which the null space pulls

    def reset(self, data: mujoco.MjData) -> None:
        """Make the present pose the goal, and the joint angles the null space's posture."""
        self.goal_position_m, self.goal_rotation = self.achieved(data)
        self.posture = data.qpos[self._q].copy()

    def achieved(self, data: mujoco.MjData) -> tuple[Array, Array]:
        """Tip position and rotation in the base frame."""
        mount_R, tip_R = (data.site_xmat[site].reshape(3, 3) for site in (self._mount, self._tip))
        position, rotation = np.empty(3), np.empty((3, 3))
        offset = data.site_xpos[self._tip] - data.site_xpos[self._mount]
        mujoco.mju_mulMatTVec(position, mount_R, offset)
        mujoco.mju_mulMatTMat(rotation, mount_R, tip_R)
        return position, rotation

    def run(self, model: mujoco.MjModel, data: mujoco.MjData, first: bool) -> None:
        """Write the arm's torques for the next 10 ms. Needs current kinematics (after mj_step1 or
        mj_forward).

        Inertias are measured in the `first` run of a control step and kept for its others: over 50
        ms they hardly change.
        """
        site_xmat, site_xpos = data.site_xmat, data.site_xpos
        mount_R, tip_R = site_xmat[self._mount].reshape(3, 3), site_xmat[self._tip].reshape(3, 3)
        J = self._jacobian
        mujoco.mj_jacSite(model, data, J[:3], J[3:], self._tip)
        Ja = np.ascontiguousarray(J[:, self._dofs])
        if first:
            self._measure_inertia(model, data, Ja)
        velocity = np.empty(6)
        qvel = data.qvel[self._dofs]
        mujoco.mju_mulMatVec(velocity, Ja, qvel)
        goal, error = np.empty(3), np.empty(6)
        mujoco.mju_mulMatVec(goal, mount_R, self.goal_position_m)
        error[:3] = goal + site_xpos[self._mount] - site_xpos[self._tip]
        goal_R = np.empty((3, 3))
        mujoco.mju_mulMatMat(goal_R, mount_R, self.goal_rotation)
        # Half the sum of the cross products of matching axes: sin(angle) times the axis.
        error[3:] = [0.5 * v for v in _axial(goal_R, tip_R)]
        gains = self.gains
        if gains.dead_band is not None:
            error[np.abs(error) < gains.dead_band] = 0.0
        acceleration = gains.stiffness * error - gains.damping * velocity
        force = np.empty(6)
        mujoco.mju_cholSolve(force[:3], self._position_factor, acceleration[:3])
        mujoco.mju_cholSolve(force[3:], self._rotation_factor, acceleration[3:])
        torque = np.empty(7)
        mujoco.mju_mulMatTVec(torque, Ja, force)
        torque += self._posture_torque(data.qpos[self._q], qvel)
        if gains.max_torque_nm is not None:
            np.clip(torque, -gains.max_torque_nm, gains.max_torque_nm, out=torque)
        torque += data.qfrc_bias[self._dofs] - data.qfrc_gravcomp[self._dofs]
        if any(abs(v) > limit for v, limit in zip(qvel.tolist(), _SPEED_LIMITS, strict=True)):
            excess = np.maximum(np.abs(qvel) - panda.SPEED_RAD_S, 0.0)
            torque -= SPEED_BRAKE_NMS * np.sign(qvel) * excess
        data.ctrl[self._torques] = torque

    def _measure_inertia(self, model: mujoco.MjModel, data: mujoco.MjData, Ja: Array) -> None:
        """The arm's mass matrix M, M^-1 J^T, and the factors of the damped J M^-1 J^T: whole for
        the null space, by blocks for the task.
        """
        for column, unit in zip(self._columns, self._units, strict=True):
            mujoco.mj_mulM(model, data, column, unit)
        self._mass[:] = self._columns[:, self._dofs]
        if self.gains.residual_kgm2 is not None:
            self._mass.flat[:: len(self._mass) + 1] += self.gains.residual_kgm2
        self._factor[:] = self._mass
        mujoco.mju_cholFactor(self._factor, 0.0)
        for k in range(6):
            mujoco.mju_cholSolve(self._minv_jt[k], self._factor, Ja[k])
        self._arm_jacobian[:] = Ja
        whole = self._null_factor
        mujoco.mju_mulMatMatT(whole, Ja, self._minv_jt)
        self._position_factor[:], self._rotation_factor[:] = whole[:3, :3], whole[3:, 3:]
        for factor, damping in (
            (self._position_factor, SINGULAR),
            (self._rotation_factor, SINGULAR),
            (whole, SINGULAR_NULL),
        ):
            factor.flat[:: len(factor) + 1] += damping
            mujoco.mju_cholFactor(factor, 0.0)

    def _posture_torque(self, q: Array, qvel: Array) -> Array:
        """Null-space torque N^T M (k (q0 - q) - d qdot): pulls the elbow back, not the tip."""
        inside, projected, spent, result = np.empty(7), np.empty(6), np.empty(6), np.empty(7)
        mujoco.mju_mulMatVec(inside, self._mass, KP_NULL * (self.posture - q) - KD_NULL * qvel)
        # N^T x = x - J^T Lambda J M^-1 x, all of one moment
        mujoco.mju_mulMatVec(projected, self._minv_jt, inside)
        mujoco.mju_cholSolve(spent, self._null_factor, projected)
        mujoco.mju_mulMatTVec(result, self._arm_jacobian, spent)
        return np.asarray(inside - result)


def actuators(model: mujoco.MjModel, names: tuple[str, ...]) -> slice:
    """The controls of actuators that follow each other."""
    return slice(model.actuator(names[0]).id, model.actuator(names[-1]).id + 1)


def _axial(goal: Array, current: Array) -> list[float]:
    """Sum of current_axis x goal_axis over three axes, in floats: faster than array elements."""
    (a00, a01, a02), (a10, a11, a12), (a20, a21, a22) = current.tolist()
    (b00, b01, b02), (b10, b11, b12), (b20, b21, b22) = goal.tolist()
    return [
        a10 * b20 - a20 * b10 + a11 * b21 - a21 * b11 + a12 * b22 - a22 * b12,
        a20 * b00 - a00 * b20 + a21 * b01 - a01 * b21 + a22 * b02 - a02 * b22,
        a00 * b10 - a10 * b00 + a01 * b11 - a11 * b01 + a02 * b12 - a12 * b02,
    ]


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
