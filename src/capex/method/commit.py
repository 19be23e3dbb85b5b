"""How much of a plan to execute before looking again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from capex.pose import Array


def committed(probabilities: Sequence[float | None], tau: float) -> int:
    """The number of waypoints to execute: the longest prefix before the first later waypoint that
    is too uncertain.

        n = min({k in {2, .., K} : p_k < tau} u {K + 1}) - 1

    The first waypoint always runs, so that every decision does something. A waypoint without a
    probability (a gripper command without a motion, a base motion, no stated confidence) never
    defers. An uncertain waypoint takes the whole tail with it, however certain that is.
    """
    p = np.array(probabilities, dtype=np.float64)  # None becomes nan
    at = np.flatnonzero(defers(np.arange(1, len(p) + 1), p, tau))
    return int(at[0]) if len(at) else len(p)


def defers(place: npt.NDArray[Any], probability: Array, tau: float) -> npt.NDArray[np.bool_]:
    """Which waypoints (n,) of one or more plans end their plan's prefix, if none before them does.

    place: k, from 1. probability: nan where there is none; a comparison with nan is false.
    """
    found: npt.NDArray[np.bool_] = (place > 1) & (probability < tau)
    return found
