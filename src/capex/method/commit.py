"""How much of a plan to execute before looking again."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from capex.plan import Waypoint
from capex.pose import Array

SAME_M = 0.03  # two waypoints this near ask for the same


def committed(
    probabilities: Sequence[float | None], tau: float, insisted: Collection[int] = ()
) -> int:
    """The number of waypoints to execute: the longest prefix before the first later waypoint that
    is too uncertain.

        n = min({k in {2, .., K} : p_k < tau} u {K + 1}) - 1

    The first waypoint always runs, so that every decision does something. A waypoint without a
    probability (a gripper command without a motion, a base motion, no stated confidence) never
    defers. An uncertain waypoint takes the whole tail with it, however certain that is.

    insisted: past the paper, the places (from 0) of waypoints that do not defer.
    """
    p = np.array(probabilities, dtype=np.float64)  # None becomes nan
    at = np.flatnonzero(defers(np.arange(1, len(p) + 1), p, tau))
    return next((k for k in at.tolist() if k not in insisted), len(p))


def defers(place: npt.NDArray[Any], probability: Array, tau: float) -> npt.NDArray[np.bool_]:
    """Which waypoints (n,) of one or more plans end their plan's prefix, if none before them does.

    place: k, from 1. probability: nan where there is none; a comparison with nan is false.
    """
    found: npt.NDArray[np.bool_] = (place > 1) & (probability < tau)
    return found


def planned_again(plan: Sequence[Waypoint], deferred: Sequence[Waypoint]) -> set[int]:
    """Places of waypoints that the decision before deferred, and that are asked for again: the same
    arms, the same words to their grippers, within SAME_M.
    """
    return {k for k, waypoint in enumerate(plan) if any(_same(waypoint, d) for d in deferred)}


def _same(one: Waypoint, other: Waypoint) -> bool:
    if not one.targets or one.targets.keys() != other.targets.keys():
        return False
    for arm, target in one.targets.items():
        before = other.targets[arm]
        if target.gripper != before.gripper or target.position_m is None:
            return False
        if before.position_m is None or math.dist(target.position_m, before.position_m) > SAME_M:
            return False
    return True
