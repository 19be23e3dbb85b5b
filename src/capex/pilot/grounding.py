"""Grounding: pixels of a thing in several views become one point in the base frame, or none when
the views contradict each other.

A skill asks for features; each has pixels by camera. With locate_pixel every pixel is asked for and
the answers come back as points. Without it the two exterior views are intersected, which
is all that a model could do.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from capex.pilot.cameras import GuessedCameras
from capex.pilot.segmentation import Pixel
from capex.plan import ArmTarget
from capex.pose import Array

AGREE_M = 0.06  # two views of one thing within this are one thing: they see its two sides
SPREAD_M = 0.08  # spots of one thing lie this near to their median; beyond is background
ROUNDED_M = 0.004  # located points come in whole centimetres: so much off is no outlier
EXTERIOR = ("left", "right")
HELD = "held"  # the feature between the fingers: it is where the tip is
AHEAD = np.array([1.0, 0.0, 0.0])  # of the robot: where a front faces it, unless seen otherwise


@dataclass(frozen=True)
class Feature:
    """Something seen: its pixels by camera; the same index in two lists is about the same spot."""

    name: str
    spots: Mapping[str, Sequence[Pixel]]
    height_m: float = 0.47  # assumed where one camera sees it without depth: things on a worktop


@dataclass(frozen=True)
class Located:
    """Where a feature's spots are, in metres in the base frame; None where nothing came back."""

    points: Mapping[str, Sequence[Array | None]] = field(default_factory=dict)

    def all(self, camera: str | None = None) -> list[Array]:
        """Every located spot, of one camera or of all."""
        rows = [row for name, row in self.points.items() if camera in (None, name)]
        return [p for row in rows for p in row if p is not None]

    def middle(self, camera: str) -> Array | None:
        """The middle of one camera's spots."""
        return middle_of(self.all(camera), SPREAD_M)

    def agreed(self, within_m: float = AGREE_M) -> Array | None:
        """One point from the exterior views: their mean if they agree; if not, the nearer one,
        since what lies behind is background.
        """
        middles = [m for m in (self.middle(c) for c in EXTERIOR) if m is not None]
        if not middles:
            return None
        if len(middles) == 1 or apart(middles[0], middles[1]) <= within_m:
            return np.asarray(np.mean(middles, axis=0))
        return min(middles, key=lambda m: float(m[0]))

    def best(self, within_m: float = AGREE_M) -> Array | None:
        """From the exterior views, or else from the wrist's."""
        point = self.agreed(within_m)
        return self.middle("wrist") if point is None else point


class Answers(dict[str, Located]):
    """What was located, by feature; nothing for a feature that was not asked for."""

    def __missing__(self, name: str) -> Located:
        return Located()


@dataclass(frozen=True)
class Move:
    """A waypoint that the pilot has in mind; `touch` where it expects to feel something."""

    target: ArmTarget
    touch: bool = False


@dataclass(frozen=True)
class Drive:
    """A base motion: metres and radians, left positive."""

    forward_m: float = 0.0
    left_m: float = 0.0
    turn_rad: float = 0.0


@dataclass(frozen=True)
class Intent:
    """What to do next and why."""

    why: str
    moves: Sequence[Move] = ()
    drive: Drive | None = None
    done: bool = False  # ends the attempt, where a person judges it
    arm: str = ""  # whose moves these are; of several, the first one's by default
    beside: Mapping[str, Sequence[Move]] = field(default_factory=dict)  # by other arm, meanwhile


Asking = Generator[Sequence[Feature], Answers, Intent]


def apart(a: Array, b: Array) -> float:
    """The distance of two points."""
    return float(np.linalg.norm(a - b))


def apart_level(a: Array, b: Array) -> float:
    """The distance of two points seen from above."""
    return float(np.linalg.norm((a - b)[:2]))


def heading(into: Array) -> float:
    """The yaw of a level direction."""
    return math.atan2(into[1], into[0])


def left_of(into: Array) -> Array:
    """The level direction a quarter turn to the left of another."""
    return np.array([-into[1], into[0], 0.0])


def middle_of(points: Sequence[Array], within_m: float) -> Array | None:
    """The mean of the points near their median: spots beside a thing's edge lie on what is behind
    it. None without points.
    """
    if not points:
        return None
    stack = np.stack(points)
    centre = np.median(stack, axis=0)
    near = stack[np.linalg.norm(stack - centre, axis=1) < within_m]
    return np.asarray(near.mean(axis=0)) if len(near) else centre


def round_middle(points: Sequence[Array], radius_m: float, guess: Array) -> Array:
    """The axis (x, y) of an upright round thing from spots of its shell: the circle of a known
    radius with the smallest sum of distances to them, by reweighted Gauss-Newton steps.
    """
    stack, middle = np.stack(points)[:, :2], np.asarray(guess, dtype=float)[:2]
    for _ in range(20):
        away = stack - middle
        far = np.maximum(np.linalg.norm(away, axis=1), 1e-6)
        miss, slope = far - radius_m, -away / far[:, None]
        weighted = slope / np.maximum(np.abs(miss), ROUNDED_M)[:, None]
        middle = middle - np.linalg.solve(weighted.T @ slope + 1e-3 * np.eye(2), weighted.T @ miss)
    return middle


def by_sight(features: Sequence[Feature], rig: GuessedCameras) -> Answers:
    """Answers without locate_pixel: the two views from behind intersected, or else, by view, an
    assumed height.
    """
    answers = Answers()
    for feature in features:
        left, right = feature.spots.get("left", ()), feature.spots.get("right", ())
        if left and right:
            points = [rig.between(a, b) for a, b in zip(left, right, strict=False)]
            answers[feature.name] = Located({"left": points, "right": points})
        else:
            rows = {c: row for c, row in feature.spots.items() if rig.knows(c)}
            height_m = feature.height_m
            answers[feature.name] = Located(
                {c: [rig.on_height(c, p, height_m) for p in row] for c, row in rows.items()}
            )
    return answers
