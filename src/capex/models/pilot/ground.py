"""Grounding: pixels of a thing in several views become one point in the base frame, or none when
the views contradict each other.

A skill asks for features; each has pixels by camera. With locate_pixel every pixel is asked for and
the answers come back as the tool's text. Without it the two exterior views are intersected, which
is all that a model could do.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from capex.models.pilot.eyes import Pixel
from capex.models.pilot.rig import Rig
from capex.plan import ArmTarget
from capex.pose import Array

AGREE_M = 0.06  # two views of one thing within this are one thing: they see its two sides
EXTERIOR = ("left", "right")


@dataclass(frozen=True)
class Feature:
    """Something seen: its pixels by camera. Pixels in the same place of two lists are the same spot
    of the thing, about.
    """

    name: str
    spots: Mapping[str, Sequence[Pixel]]
    height_m: float = (
        0.47  # assumed where no depth can be had and only one camera sees it: things on a worktop
    )


@dataclass(frozen=True)
class Found:
    """Where the spots of a feature are, in metres in the base frame; None where nothing
    came back.
    """

    points: Mapping[str, Sequence[Array | None]] = field(default_factory=dict)

    def all(self, camera: str | None = None) -> list[Array]:
        """Every located spot, of one camera or of all."""
        return [
            p
            for name, row in self.points.items()
            if camera in (None, name)
            for p in row
            if p is not None
        ]

    def middle(self, camera: str) -> Array | None:
        """The middle of one camera's spots; spots far from most of them (background behind an edge)
        are left out.
        """
        found = self.all(camera)
        if not found:
            return None
        stack = np.stack(found)
        centre = np.median(stack, axis=0)
        near = stack[np.linalg.norm(stack - centre, axis=1) < 0.08]
        return np.asarray(near.mean(axis=0)) if len(near) else centre

    def agreed(self, within_m: float = AGREE_M) -> Array | None:
        """One point from the exterior views: their mean if they agree; if not, the nearer one,
        since what lies behind is background.
        """
        middles = [m for m in (self.middle(c) for c in EXTERIOR) if m is not None]
        if not middles:
            return None
        if len(middles) == 1 or float(np.linalg.norm(middles[0] - middles[1])) <= within_m:
            return np.asarray(np.mean(middles, axis=0))
        return min(middles, key=lambda m: float(m[0]))


Answers = Mapping[str, Found]
Asking = Generator[Sequence[Feature], Answers, "Intent"]


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
    moves: tuple[Move, ...] = ()
    drive: Drive | None = None


def read_position(text: str) -> Array | None:
    """A located point from the tool's answer."""
    found = re.match(r"^\[(-?\d+), (-?\d+), (-?\d+)\]", text.strip())
    return None if found is None else np.array([float(found[k]) for k in (1, 2, 3)]) / 100


def by_sight(features: Sequence[Feature], rig: Rig) -> dict[str, Found]:
    """Answers without locate_pixel: the exterior views intersected, or an assumed height where only
    one of them sees the thing.
    """
    answers: dict[str, Found] = {}
    for feature in features:
        left, right = feature.spots.get("left", ()), feature.spots.get("right", ())
        if left and right:
            points = [rig.between(a, b) for a, b in zip(left, right, strict=False)]
            answers[feature.name] = Found({"left": points, "right": points})
        else:
            camera, row = ("left", left) if left else ("right", right)
            answers[feature.name] = Found(
                {camera: [rig.on_height(camera, p, feature.height_m) for p in row]}
            )
    return answers
