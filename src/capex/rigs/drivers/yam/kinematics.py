"""The YAM family's numbers, a table for each model; where a tip is, and the joints for one that is
near.

The numbers are those of i2rt's own models (commit 5d47b35, with the gripper `linear_4310`), not of
the menagerie's older one of the plain YAM, whose tip sits 9.5 mm lower. The models report the same
seven joints, so an arm cannot say which one it is. An arm at zero lies folded along +x: each joint
has an anchor p and an axis a there, in the frame of the mount (x forward, z up), and turns all that
follows:

    T_mount_tip(q) = X_1(q_1) ... X_6(q_6) T_0,  X(q) turns by q about the line through p along a

The tip is the grasp site, z along the approach and y along the closing of the fingers; turned so
that a wrist at zero above the table has the orientation `DOWN`. Metres, radians.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from capex.pose import FORWARD, Array, Pose, rotation_vector


@dataclass(frozen=True)
class YamJoint:
    """One joint in the pose zero. Where its anchor lies along its axis makes no difference."""

    anchor_m: tuple[float, float, float]
    axis: tuple[int, int, int]
    range_rad: tuple[float, float]


@dataclass(frozen=True)
class YamModel:
    """One model of the family: its joints from the mount on, the grasp site in the pose zero, and
    the stiffness and damping by which i2rt's server holds the joints (Nm/rad, Nm s/rad).
    """

    joints: tuple[YamJoint, ...]
    tip_zero_m: tuple[float, float, float]
    kp: tuple[float, ...]
    kd: tuple[float, ...]

    @cached_property
    def lower_rad(self) -> Array:
        """(6,)."""
        return np.array([joint.range_rad[0] for joint in self.joints])

    @cached_property
    def upper_rad(self) -> Array:
        """(6,)."""
        return np.array([joint.range_rad[1] for joint in self.joints])


JOINTS = ("joint1", "joint2", "joint3", "joint4", "joint5", "joint6")
YAM = YamModel(
    (
        YamJoint((0.0, 0.0, 0.068), (0, 0, 1), (-2.618, 3.142)),
        YamJoint((0.020, 0.0, 0.1135), (0, 1, 0), (0.0, 3.665)),
        YamJoint((-0.244, 0.0, 0.1135), (0, -1, 0), (0.0, 3.142)),
        YamJoint((0.001, 0.0, 0.1735), (0, -1, 0), (-1.693, 1.571)),
        YamJoint((0.075, 0.0, 0.214), (0, 0, -1), (-1.571, 1.571)),
        YamJoint((0.1106, 0.0, 0.1735), (1, 0, 0), (-2.094, 2.094)),
    ),
    (0.2453, 0.0, 0.1735),
    (80.0, 80.0, 80.0, 10.0, 10.0, 10.0),
    (5.0, 5.0, 5.0, 1.5, 1.5, 1.5),
)
# By i2rt's own names.
MODELS: Mapping[str, YamModel] = {
    "yam": YAM,
    "yam_pro": YamModel(
        (
            *YAM.joints[:4],
            YamJoint((0.075, 0.0, 0.2138), (0, 0, -1), (-1.571, 1.571)),
            YamJoint((0.1106, 0.0, 0.1733), (1, 0, 0), (-2.094, 2.094)),
        ),
        (0.2453, 0.0, 0.1733),
        (80.0, 80.0, 80.0, 40.0, 10.0, 10.0),
        (5.0, 5.0, 5.0, 1.5, 1.5, 1.5),
    ),
    "yam_ultra": YamModel(
        (
            YamJoint((0.0, 0.0, 0.0733), (0, 0, 1), (-2.618, 3.142)),
            YamJoint((0.020, 0.0, 0.1188), (0, 1, 0), (0.0, 3.665)),
            YamJoint((-0.244, 0.0, 0.1188), (0, -1, 0), (0.0, 3.142)),
            YamJoint((0.001, 0.0, 0.1788), (0, -1, 0), (-1.693, 1.571)),
            YamJoint((0.07138, 0.0010, 0.2191), (0, 0, -1), (-1.571, 1.571)),
            YamJoint((0.11333, 0.0010, 0.1786), (1, 0, 0), (-2.094, 2.094)),
        ),
        (0.24803, 0.0010, 0.1786),
        (80.0, 80.0, 80.0, 40.0, 10.0, 10.0),
        (5.0, 5.0, 5.0, 1.5, 1.5, 1.5),
    ),
    "big_yam": YamModel(
        (
            YamJoint((0.0, 0.0, 0.0666), (0, 0, 1), (-2.880, 2.880)),
            YamJoint((0.02191, 0.0, 0.13055), (0, 1, 0), (0.0, 3.142)),
            YamJoint((-0.35679, 0.0, 0.19855), (0, -1, 0), (0.0, 3.019)),
            YamJoint((0.02520, 0.0, 0.19855), (0, -1, 0), (-1.693, 1.571)),
            YamJoint((0.09919, -0.00046, 0.23885), (0, 0, -1), (-1.571, 1.571)),
            YamJoint((0.13479, -0.00046, 0.19835), (1, 0, 0), (-2.094, 2.094)),
        ),
        (0.26949, -0.00046, 0.19835),
        (80.0, 80.0, 80.0, 40.0, 40.0, 10.0),
        (5.0, 5.0, 5.0, 3.0, 1.5, 1.5),
    ),
}
FINGER_TRAVEL_M = 0.0475  # of each of the two, along the tip's y
MAX_OPENING_M = 2 * FINGER_TRAVEL_M
# Goals stay so far inside of the ranges: an arm that sags does not come into the guard's margin,
# which is 0.05 by default and lets it go only where it came from.
MARGIN_RAD = 0.08
STEP_RAD = 0.15  # largest change of a joint for one goal: near a singularity the tip falls behind
ITERATIONS = 5  # two are enough for a tick's goal away from singularities
DAMPING, LEAST_DAMPING = 5.0, 1e-8  # times the squared error, so that none is left near the goal
_ARM_M = 0.1  # what one radian of turning weighs in metres: where both cannot be, the place counts
_NEAR_M = 1e-5  # a weighted error below it is none
_ONES, _EYE = np.ones(6), np.eye(6)


class YamKinematics:
    """The chain of one arm, in the frame of its mount. Joints are (6,) arrays; nothing is kept."""

    def __init__(self, model: YamModel, margin_rad: float = MARGIN_RAD):
        joints = model.joints
        self._lower, self._upper = model.lower_rad + margin_rad, model.upper_rad - margin_rad
        self._axes: Array = np.array([[*joint.axis, 0.0] for joint in joints])[:, :, None]
        self._anchors: Array = np.array([[*joint.anchor_m, 1.0] for joint in joints])[:, :, None]
        # X(q) = still + cos q * even + sin q * odd, each (6,4,4)
        self._still, self._even, self._odd = np.zeros((3, 6, 4, 4))
        for i, joint in enumerate(joints):
            axis, anchor = np.array(joint.axis, dtype=np.float64), np.array(joint.anchor_m)
            along, across = np.outer(axis, axis), _cross_matrix(axis)
            self._still[i, :3, :3], self._still[i, :3, 3] = along, anchor - along @ anchor
            self._still[i, 3, 3] = 1.0
            self._even[i, :3, :3] = np.eye(3) - along
            self._even[i, :3, 3] = -(anchor - along @ anchor)
            self._odd[i, :3, :3], self._odd[i, :3, 3] = across, -across @ anchor
        self._zero: Array = np.eye(4)
        self._zero[:3, :3], self._zero[:3, 3] = FORWARD, model.tip_zero_m

    def tip(self, q: Array) -> Pose:
        """T_mount_tip."""
        T, _ = self._chain(q)
        return Pose(T[:3, 3].copy(), T[:3, :3].copy())

    def jacobian(self, q: Array) -> Array:
        """(6,6): the tip's velocity, then its angular velocity, a column for each joint's."""
        return self._chain(q)[1]

    def step(self, q: Array, goal: Pose) -> Array:
        """The joints for a goal of the tip near to that of q: Newton's steps,

            dq = J^T (J J^T + d I)^-1 e,

        damped by d, which goes with the square of the error e; joints that would leave their range
        stay at its edge and the others share what is left. None changes by more than STEP_RAD, so a
        goal beyond a singularity or the reach is followed as far as it goes, on the branch of q.
        """
        now: Array = np.minimum(np.maximum(q, self._lower), self._upper)
        ends = np.maximum(self._lower, now - STEP_RAD), np.minimum(self._upper, now + STEP_RAD)
        best, least = now, math.inf
        for _ in range(ITERATIONS):
            T, J = self._chain(now)
            move, turn = goal.position_m - T[:3, 3], rotation_vector(goal.rotation @ T[:3, :3].T)
            error = np.concatenate((move, _ARM_M * turn))
            if (off := float(error @ error)) < least:
                best, least = now, off
            if least < _NEAR_M**2:
                break
            J[3:] *= _ARM_M
            now = _damped(J, error, now, ends)
        return best

    def _chain(self, q: Array) -> tuple[Array, Array]:
        """T_mount_tip (4,4) and the Jacobian (6,6)."""
        c, s = np.cos(q)[:, None, None], np.sin(q)[:, None, None]
        turns = self._still + c * self._even + s * self._odd
        before = np.empty((6, 4, 4))  # of each joint, by those before it
        T = np.eye(4)
        for i in range(6):
            before[i] = T
            T = T @ turns[i]
        T = T @ self._zero
        axes = (before @ self._axes)[:, :3, 0]
        arms, jacobian = T[:3, 3] - (before @ self._anchors)[:, :3, 0], np.empty((6, 6))
        for k, (a, b) in enumerate(((1, 2), (2, 0), (0, 1))):
            jacobian[k] = axes[:, a] * arms[:, b] - axes[:, b] * arms[:, a]
        jacobian[3:] = axes.T
        return T, jacobian


def _damped(J: Array, error: Array, q: Array, ends: tuple[Array, Array]) -> Array:
    """One damped step; joints that meet their ends leave what is missing to the others."""
    damping = (DAMPING * float(error @ error) + LEAST_DAMPING) * _EYE
    free: Array = _ONES
    within = q
    for _ in range(3):
        part = J * free
        now = q + part.T @ np.linalg.solve(part @ part.T + damping, error)
        within = np.minimum(np.maximum(now, ends[0]), ends[1])
        if not (beyond := now != within).any():
            break
        error = error - J @ np.where(beyond, within - q, 0.0)
        q, free = np.where(beyond, within, q), np.where(beyond, 0.0, free)
    return within


def _cross_matrix(v: Array) -> Array:
    x, y, z = v
    return np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
