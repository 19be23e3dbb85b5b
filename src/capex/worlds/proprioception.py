"""The robot's numbers as learners get them, in datasets and in rollouts alike: quaternions are
continuous.

q and -q are one rotation, and worlds measure whichever has w >= 0. A hand that points down or
forward has a w near 0, so that its measured quaternion changes its sign again and again. Here

    q_0      has its first number beyond LARGE positive, in the order x, y, z, w,
    q_(t+1)  has the sign with q_t . q_(t+1) >= 0

What a run records stays as it was measured.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from capex.pose import Array

QUATERNION = ("qx", "qy", "qz", "qw")  # as state names end
# Below 1/2, so that every unit quaternion has such a number, and far from the noise around 0.
LARGE = 0.3


def quaternions(names: Sequence[str]) -> list[int]:
    """Where quaternions begin among a state's names: one for each arm that tells its tip."""
    return [
        at for at in range(len(names) - 3) if all(map(str.endswith, names[at : at + 4], QUATERNION))
    ]


def continuous(names: Sequence[str], states: Array, before: Array | None = None) -> Array:
    """States (T, S) in order with continuous quaternions; `before`: the continuous state (S,) that
    they follow, None where an episode begins.
    """
    turned = np.array(states)
    for at in quaternions(names):
        q = turned[:, at : at + 4]  # a view
        last = _reference(q[0]) if before is None else before[at : at + 4]
        along = np.einsum("tk,tk->t", q, np.vstack([last, q[:-1]]))
        q *= np.cumprod(np.where(along < 0, -1.0, 1.0))[:, None]
    return turned


def _reference(q: Array) -> Array:
    """What the first quaternion (4,) of an episode is turned towards."""
    axis = np.zeros(4)
    axis[np.argmax(np.abs(q) > LARGE)] = 1.0
    return axis
