"""A Franka's own numbers, for every driver of one: where its tip is, and how far its joints turn.

The control box reports O_T_EE, 16 numbers by columns, of the end effector in the frame of the
mount. Told of a Franka Hand, it puts the end effector between the finger pads with z along the
approach and y along the closing direction: our tip. Longer fingers move it along z.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from capex.errors import RigFault
from capex.pose import Array, Pose

JOINTS = ("j1", "j2", "j3", "j4", "j5", "j6", "j7")
_PANDA_LOWER = (-2.8973, -1.7628, -2.8973, -3.0718, -2.8973, -0.0175, -2.8973)
_PANDA_UPPER = (2.8973, 1.7628, 2.8973, -0.0698, 2.8973, 3.7525, 2.8973)
_FR3_LOWER = (-2.7437, -1.7837, -2.9007, -3.0421, -2.8065, 0.5445, -3.0159)
_FR3_UPPER = (2.7437, 1.7837, 2.9007, -0.1518, 2.8065, 4.5169, 3.0159)
JOINT_LIMITS_RAD: Mapping[str, tuple[tuple[float, float], ...]] = MappingProxyType(
    {
        "panda": tuple(zip(_PANDA_LOWER, _PANDA_UPPER, strict=True)),
        "fr3": tuple(zip(_FR3_LOWER, _FR3_UPPER, strict=True)),
    }
)
MAX_OPENING_M = 0.08  # by its data sheet; homing finds up to 2 mm less
HOMED_M = (0.01, 0.2)  # a hand that was homed reports a largest width within that
# What a wrist camera's bracket and the error of the robot's model leave of a bias, once it was
# subtracted at home, are some newtons elsewhere: contact is more than that.
CONTACT_N = 10.0
HAND = Pose(
    np.array([0.0, 0.0, 0.1034]),
    np.array([[1.0, 1.0, 0.0], [-1.0, 1.0, 0.0], [0.0, 0.0, np.sqrt(2.0)]]) / np.sqrt(2.0),
)  # F_T_EE of a Franka Hand: the flange turned by -45 degrees
# The same as the control box reports it, with four digits: no rotation but to 2e-5.
PRINTED_HAND = Pose(
    HAND.position_m, np.array([[0.7071, 0.7071, 0.0], [-0.7071, 0.7071, 0.0], [0.0, 0.0, 1.0]])
)
_FINGERS_M = 0.15  # longer than these no fingers are
_OFF_M, _OFF = 0.02, 0.05  # beside the flange's axis; of an entry of the rotation


def pose_of(columns: Sequence[float] | Array) -> Pose:
    """From the 16 numbers of a matrix, columns first."""
    matrix = np.asarray(columns, dtype=np.float64).reshape(4, 4).T
    return Pose(matrix[:3, 3].copy(), matrix[:3, :3].copy())


def force_on_arm_n(wrench: Sequence[float] | Array) -> tuple[float, float, float]:
    """The external force on the arm from O_F_ext_hat_K, whose sign is that of what the arm does to
    its surroundings.
    """
    x, y, z = (-float(v) for v in np.ravel(wrench)[:3])
    return x, y, z


def require_hand(F_T_EE: Pose, arm: str) -> None:
    """Refuse a control box that was not told of its hand: every height would be wrong by 10 cm."""
    at, hand = F_T_EE.position_m, HAND.position_m
    beside = float(np.hypot(at[0], at[1])) > _OFF_M
    length_wrong = not hand[2] - _OFF_M <= float(at[2]) <= hand[2] + _FINGERS_M
    turned = not np.allclose(F_T_EE.rotation, HAND.rotation, atol=_OFF)
    if beside or length_wrong or turned:
        given = ", ".join(f"{v:.3f}" for v in at)
        raise RigFault(
            f"{arm}: the control box has its end effector at ({given}) m from the flange; choose"
            " the Franka Hand (0, 0, 0.103, turned by -45 degrees) as end effector in Desk"
        )
