"""Follow a track: where closed fingers touch a part and how they push it along."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from capex.models.pilot.ground import Drive, Intent, Move
from capex.models.pilot.scene import Scene, line, path
from capex.plan import Orientation, at, ceiling
from capex.pose import Array

FINGER_HALF_M = 0.019  # half the width of the closed fingers, across


DRIVES_MAX = 3


ON_TRACK_M = 0.03


UP_M = 0.08


@dataclass(frozen=True)
class Track:
    """Where closed fingers start without touching, and the points that they are then sent to, in
    touch.
    """

    name: str
    begin: Array
    pushes: tuple[Array, ...]
    orientation: Orientation
    way_in: tuple[Array, ...]  # safe points before the beginning


def stand(
    scene: Scene,
    point: Array,
    ahead_m: tuple[float, float, float],
    aside_m: float,
    turn_rad: float = 0.0,
) -> Drive | None:
    """The drive that brings a point in front of the robot: not nearer and not farther than two
    bounds, else to the middle distance.
    """
    if not scene.brief.base_motion or sum(w.base for w in scene.page.told) >= DRIVES_MAX:
        return None
    nearest, wanted, farthest = ahead_m
    if nearest <= point[0] <= farthest and abs(point[1]) <= aside_m and abs(turn_rad) <= 0.30:
        return None
    ahead, left = math.cos(turn_rad) * wanted, math.sin(turn_rad) * wanted
    forward, side = float(point[0] - ahead), float(point[1] - left)
    shrink = min(1.0, 0.58 / max(math.hypot(forward, side), 1e-9))
    return Drive(shrink * forward, shrink * side, float(np.clip(turn_rad, -1.5, 1.5)))


def follow(scene: Scene, track: Track) -> Intent:
    """Close the fingers, go where the track begins, push along it; from its end, back to
    before it.
    """
    tip = scene.tip
    moves: list[Move] = [Move(at(tip, "keep", "close"))] if scene.page.opening_m > 0.01 else []
    left = _left(track, tip)
    if left is not None and not left:
        out = track.way_in[-1]
        return Intent(
            f"The {track.name} was pushed to the end: let go of it and look.",
            tuple(path(tip, [out], "keep")),
        )
    if left is None:
        moves += path(tip, _approach(track, tip), track.orientation)
        tip, left = track.begin, list(track.pushes)
    for point in left:
        moves += line(tip, point, track.orientation, touch=True)
        tip = point
    return Intent(f"Closed fingers to the {track.name}, then push along its way.", tuple(moves))


def _left(track: Track, tip: Array) -> list[Array] | None:
    """Which pushes are still ahead of a tip that is on the track; None when it is not on it."""
    points = [track.begin, *track.pushes]
    best: tuple[float, int, float] | None = None
    for k, (a, b) in enumerate(itertools.pairwise(points)):
        leg = b - a
        along = float(np.clip((tip - a) @ leg / max(float(leg @ leg), 1e-9), 0.0, 1.0))
        off = float(np.linalg.norm(tip - (a + along * leg)))
        if best is None or off < best[0] - 1e-6:
            best = (off, k, along)
    if best is None or best[0] > ON_TRACK_M:
        return None
    _, k, along = best
    ahead = points[k + 1 :]
    if ahead and float(np.linalg.norm(ahead[0] - tip)) < 0.012:
        ahead = ahead[1:]
    return ahead


def _approach(track: Track, tip: Array) -> list[Array]:
    """The safe points that are still to be passed: those behind the tip are left out."""
    points = [*track.way_in, track.begin]
    for k in range(len(points) - 1, 0, -1):
        leg = points[k] - points[k - 1]
        along = float(np.clip((tip - points[k - 1]) @ leg / max(float(leg @ leg), 1e-9), 0.0, 1.0))
        if float(np.linalg.norm(tip - (points[k - 1] + along * leg))) < 0.02:
            return points[k:]
    return points


def from_above(tip: Array, begin: Array, by_m: float = UP_M) -> tuple[Array, ...]:
    """The way to a beginning with the hand pointing down: up, over, and then down."""
    top = max(begin[2] + 0.02, min(begin[2] + by_m, ceiling(begin)))
    above = np.array([begin[0], begin[1], top])
    if float(np.linalg.norm((tip - begin)[:2])) < 0.03:
        return (above,)
    rise = np.array([min(tip[0], max(above[0], 0.34)), tip[1], max(tip[2], top)])
    return (rise, above)


def tries(scene: Scene, point: Array, within_m: float = 0.07) -> int:
    """How many pushes near a point the page shows that came to their end; the last one of a row of
    them counts.
    """
    ended = [
        w.status in ("finger contact", "stalled", "timeout")
        and w.target_cm is not None
        and _near(w.target_cm, point, within_m)
        for w in scene.page.since_base_motion()
    ]
    return sum(ended)


def _near(target_cm: Sequence[int], point: Array, within_m: float) -> bool:
    return float(np.linalg.norm((np.array(target_cm) / 100 - point)[:2])) < within_m


def lost(scene: Scene, what: str, orientation: Orientation = "keep") -> Intent:
    """Not seen: go on with what was deferred, else out of the line of sight, somewhere else than
    before.
    """
    last = scene.page.acts[-1].waypoints if scene.page.acts else ()
    deferred = [
        np.array(w.target_cm) / 100
        for w in last
        if w.status == "deferred" and w.target_cm is not None
    ]
    if deferred:
        return Intent(
            f"The hand hides the {what}: go on as planned.",
            tuple(path(scene.tip, deferred, orientation)),
        )
    tip = scene.tip
    back = np.array([max(0.32, tip[0] - 0.12), tip[1], min(tip[2] + 0.06, ceiling(tip))])
    goals = [
        back,
        np.array([0.36, 0.12, 0.66]),
        np.array([0.36, -0.12, 0.66]),
        np.array([0.36, 0.0, 0.70]),
    ]
    told = [np.array(w.target_cm) / 100 for w in scene.page.told[-6:] if w.target_cm is not None]
    fresh = [
        g
        for g in goals
        if all(float(np.linalg.norm(g - t)) > 0.03 for t in told)
        and float(np.linalg.norm(g - tip)) > 0.03
    ]
    return Intent(
        f"I do not see the {what}: move the hand aside and look.",
        tuple(path(tip, (fresh or goals[-1:])[:1], orientation)),
    )
