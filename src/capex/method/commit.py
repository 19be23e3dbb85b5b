"""How much of a plan to execute before looking again."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from capex.plan import Waypoint

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
    for k, p in enumerate(probabilities):
        if k > 0 and p is not None and p < tau and k not in insisted:
            return k
    return len(probabilities)


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
