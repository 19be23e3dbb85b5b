"""robosuite's controllers at one physics step, compiled: the same operations and functions.

Imported by the fast stepping alone, after robosuite: numba compiles it once and keeps the result
beside the package.
"""

from __future__ import annotations

import numba
import numpy as np
from robosuite.utils.control_utils import nullspace_torques, opspace_matrices, orientation_error

from capex.pose import Array


@numba.njit(cache=True)
def arm_torques(
    jacobians: tuple[Array, Array, Array, Array],  # (3, nv): tip's and mount's motion, turn
    tip_m: Array,
    tip_R: Array,
    mount_m: Array,
    mount_R: Array,
    mass: Array,  # (nv, nv)
    q: Array,  # the arm's joint positions, velocities and bias forces
    v: Array,
    bias: Array,
    qvel: Array,  # (nv,)
    first: int,  # address of the arm's first joint among velocities
    goal_m: Array,
    goal_R: Array,
    kp: Array,
    kd: Array,
    posture: Array,
    low: Array,
    high: Array,
) -> Array:
    """Clipped: J^T Lambda (kp e - kd (v_tip - v_mount)) + bias + null-space torques."""
    last = first + len(q)
    tip_p, tip_r, mount_p, mount_r = jacobians
    J_pos, J_ori = tip_p[:, first:last].copy(), tip_r[:, first:last].copy()
    J = np.vstack((J_pos, J_ori))
    # The order for which robosuite's functions are compiled already.
    inertia = np.asfortranarray(mass[first:last, first:last])
    position_error = (mount_m + np.dot(mount_R, goal_m)) - tip_m
    turn_error = orientation_error(np.dot(mount_R, goal_R), tip_R)
    slip = -(np.dot(tip_p, qvel) - np.dot(mount_p, qvel))
    spin = -(np.dot(tip_r, qvel) - np.dot(mount_r, qvel))
    force = position_error * kp[0:3] + slip * kd[0:3]
    torque = turn_error * kp[3:6] + spin * kd[3:6]
    _, lambda_pos, lambda_ori, null_space = opspace_matrices(inertia, J, J_pos, J_ori)
    wrench = np.concatenate((np.dot(lambda_pos, force), np.dot(lambda_ori, torque)))
    torques = np.dot(J.T, wrench) + bias
    torques += nullspace_torques(inertia, null_space, posture, q, v)
    clipped: Array = np.minimum(np.maximum(torques, low), high)
    return clipped


@numba.njit(cache=True)
def joint_torques(
    mass: Array,
    q: Array,
    v: Array,
    bias: Array,
    first: int,
    goal: Array,
    kp: Array,
    kd: Array,
    low: Array,
    high: Array,
) -> Array:
    """Torques towards joint positions, clipped: M (kp e - kd v) + bias."""
    last = first + len(q)
    inertia = np.asfortranarray(mass[first:last, first:last])
    torques = np.dot(inertia, (goal - q) * kp + (-v) * kd) + bias
    clipped: Array = np.minimum(np.maximum(torques, low), high)
    return clipped
