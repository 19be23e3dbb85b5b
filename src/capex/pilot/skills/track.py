"""Follow a track: where closed fingers touch a part and how they push it along."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from capex.pilot.grounding import Intent, apart, apart_level
from capex.pilot.prompt import targets_m
from capex.pilot.scene import THERE_M, Scene, path, push
from capex.plan import Orientation, WaypointStatus, ceiling
from capex.pose import Array

FINGER_HALF_M = 0.019  # half the width of the closed fingers, across
ON_TRACK_M = 0.03  # a push stopped by its part leaves the tip this near to the track
ON_WAY_M = 0.02  # on the way in nothing stops the tip: only the page's rounding is off
UP_M = 0.08  # the hand comes down this far over a control, clear of what stands beside it
STOPPED = (WaypointStatus.FINGER_CONTACT, WaypointStatus.STALLED, WaypointStatus.TIMEOUT)
# Where the hand hides nothing: drawn back over the robot's own front, to either side, and high.
OUT_OF_SIGHT = tuple(np.array(p) for p in ((0.36, 0.12, 0.66), (0.36, -0.12, 0.66), (0.36, 0, 0.7)))


@dataclass(frozen=True)
class Track:
    """Where closed fingers start without touching, and the points they are then pushed to."""

    name: str
    begin: Array
    pushes: Sequence[Array]
    orientation: Orientation
    way_in: Sequence[Array]  # safe points before the beginning


def follow(scene: Scene, track: Track) -> Intent:
    """Close the fingers, go where the track begins, push along it; from its end, back before it."""
    tip = scene.tip
    ahead = _pushes_ahead(track, tip)
    if ahead is not None and not ahead:
        why = f"The {track.name} was pushed to the end: let go of it and look."
        return Intent(why, path(tip, [track.way_in[-1]]))
    moves = scene.shut()
    if ahead is None:
        moves += path(tip, _approach(track, tip), track.orientation)
        tip, ahead = track.begin, track.pushes
    moves += push(tip, ahead, track.orientation)
    return Intent(f"Closed fingers to the {track.name}, then push along its way.", moves)


def _off_leg(tip: Array, a: Array, b: Array) -> float:
    """How far a tip is from the straight line between two points."""
    leg = b - a
    along = float(np.clip((tip - a) @ leg / max(float(leg @ leg), 1e-9), 0.0, 1.0))
    return apart(tip, a + along * leg)


def _pushes_ahead(track: Track, tip: Array) -> Sequence[Array] | None:
    """Which pushes are still ahead of a tip that is on the track; None when it is not on it."""
    points = [track.begin, *track.pushes]
    best: tuple[float, int] | None = None
    for k, (a, b) in enumerate(itertools.pairwise(points)):
        off = _off_leg(tip, a, b)
        if best is None or off < best[0] - 1e-6:
            best = (off, k)
    if best is None or best[0] > ON_TRACK_M:
        return None
    ahead = points[best[1] + 1 :]
    return ahead[1:] if ahead and apart(ahead[0], tip) < THERE_M else ahead


def _approach(track: Track, tip: Array) -> list[Array]:
    """The safe points that are still to be passed: those behind the tip are left out."""
    points = [*track.way_in, track.begin]
    for k in range(len(points) - 1, 0, -1):
        if _off_leg(tip, points[k - 1], points[k]) < ON_WAY_M:
            return points[k:]
    return points


def from_above(tip: Array, begin: Array, by_m: float = UP_M) -> Sequence[Array]:
    """The way to a beginning with the hand pointing down: up, over, and then down."""
    top = max(begin[2] + 0.02, min(begin[2] + by_m, ceiling(begin)))
    above = np.array([begin[0], begin[1], top])
    if apart_level(tip, begin) < 0.03:
        return [above]
    # Up behind what stands ahead, but not so near to the mount that the arm folds.
    return [np.array([min(tip[0], max(above[0], 0.34)), tip[1], max(tip[2], top)]), above]


def tries(scene: Scene, point: Array, within_m: float = 0.07) -> int:
    """How many pushes near a point the page shows that came to their end."""
    ended = [w for w in scene.page.since_base_motion() if w.status in STOPPED]
    return sum(apart_level(p, point) < within_m for p in targets_m(ended))


def lost(scene: Scene, what: str, orientation: Orientation = "keep") -> Intent:
    """Not seen: go on with what was deferred, else out of the line of sight, to a new place."""
    tip = scene.tip
    if deferred := scene.page.deferred_m():
        why = f"The hand hides the {what}: go on as planned."
        return Intent(why, path(tip, deferred, orientation))
    back = np.array([max(0.32, tip[0] - 0.12), tip[1], min(tip[2] + 0.06, ceiling(tip))])
    goal = scene.untried([back, *OUT_OF_SIGHT], 0.03)
    why = f"I do not see the {what}: move the hand aside and look."
    return Intent(why, path(tip, [OUT_OF_SIGHT[-1] if goal is None else goal], orientation))
