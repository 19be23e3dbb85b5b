"""Operational-space control of a Panda's tip: torques that pull it to a pose in the mount's frame.

    tau = J^T Lambda (k_p e - k_d J qdot) + N^T M (k_n (q_0 - q) - d_n qdot) + bias,  k_p = 150

critically damped, with position and rotation decoupled, evaluated every 10 ms on a 2 ms simulation.
All of it runs through MuJoCo's own small-matrix routines: no BLAS, so that the result does not
depend on which one numpy was built with.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import mujoco
import numpy as np

from capex.pose import Array
from capex.worlds.kitchen import panda

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
