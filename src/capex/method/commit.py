"""How much of a plan to execute before looking again."""

from __future__ import annotations

from collections.abc import Sequence


def committed(probabilities: Sequence[float | None], tau: float) -> int:
    """The number of waypoints to execute: the longest prefix before the first later waypoint that
    is too uncertain.

        n = min({k in {2, .., K} : p_k < tau} u {K + 1}) - 1

    The first waypoint always runs, so that every decision does something. A waypoint without a
    probability (a gripper command without a motion, a base motion, no stated confidence) never
    defers. An uncertain waypoint takes the whole tail with it, however certain that is.
    """
    for k, p in enumerate(probabilities):
        if k > 0 and p is not None and p < tau:
            return k
    return len(probabilities)
