"""The order of an action's 12 numbers: RoboCasa's environment has the arm first, its datasets the
base.

Converted by name: datasets that others have put up again stand in either order, and only
`meta/modality.json` tells which.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np

from capex.errors import CapexError, ErrorCode
from capex.pose import Array

ENVIRONMENT: dict[str, tuple[int, int]] = {
    "end_effector_position": (0, 3),
    "end_effector_rotation": (3, 6),
    "gripper_close": (6, 7),
    "base_motion": (7, 11),  # forward, left, yaw, torso
    "control_mode": (11, 12),
}


def to_environment(actions: Array, order: Mapping[str, tuple[int, int]]) -> Array:
    """Actions (T, 12) of a dataset in the environment's order."""
    spans = sorted(order.values())
    widths = {name: end - start for name, (start, end) in order.items()}
    if widths != {name: end - start for name, (start, end) in ENVIRONMENT.items()}:
        ours = f"RoboCasa's is made of {list(ENVIRONMENT)}"
        raise CapexError(
            f"the dataset's action is made of {widths}; {ours}", code=ErrorCode.MISMATCH
        )
    if any(end != start for (_, end), (start, _) in itertools.pairwise(spans)) or spans[0][0] != 0:
        raise CapexError(
            f"the parts of the dataset's action overlap or leave gaps: {dict(order)}",
            code=ErrorCode.DAMAGED_FILE,
        )
    if actions.ndim != 2 or actions.shape[1] != 12:
        raise CapexError(
            f"actions of shape {actions.shape}; RoboCasa's have 12 numbers a row",
            code=ErrorCode.DAMAGED_FILE,
        )
    result = np.empty_like(actions)
    for name, (start, end) in ENVIRONMENT.items():
        result[:, start:end] = actions[:, slice(*order[name])]
    return result
