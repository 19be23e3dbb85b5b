"""The front of the row of units, from the edge of its worktops: how far away it is and which way it
faces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from capex.pilot import appearance
from capex.pilot.grounding import AHEAD, EXTERIOR, Answers, Feature, left_of
from capex.pilot.scene import Scene
from capex.pilot.segmentation import find
from capex.pose import Array

EDGE_HEIGHT_M = 0.43  # over the mount: just below the worktop, which is at 0.45
NEAR_M = 0.02  # points that lie this near to a line are on it
APART_M = 0.15  # points nearer to each other than this give no line a direction
DEEP_M = 0.35  # a worktop is deeper
ALONGSIDE = 0.97  # cosine of what two edges of one worktop may differ by: things stand on it
SHARE = 0.5  # of the points on the fuller line: fewer may be the edge of something else
POINTS_MIN = 4  # on one line: fewer may lie on one by chance


@dataclass(frozen=True)
class Front:
    """A straight front."""

    into: Array  # the level direction into it
    distance_m: float  # from the robot's mount, along that direction

    @property
    def left(self) -> Array:
        """The level direction along it, to the left."""
        return left_of(self.into)


def ask(scene: Scene) -> list[Feature]:
    """What to ask to find the front."""
    seen = find(scene.exterior(), appearance.worktop_edge)
    return [f for c, row in seen.items() for f in scene.ask(f"edge {c}", {c: row}, EDGE_HEIGHT_M)]


def direction(front: Front | None) -> Array:
    """The level direction into a front; straight ahead where none is seen."""
    return AHEAD if front is None else front.into


def fit(answers: Answers) -> Front | None:
    """The line through most of the edge's points; of two that run alongside, the nearer one: the
    other is where the worktop meets the wall. None when too few points lie on one.
    """
    located = [p for c in EXTERIOR for p in answers[f"edge {c}"].all()]
    points = [p[:2] for p in located if abs(p[2] - EDGE_HEIGHT_M) < 0.06]
    on_line = _most(points)
    if len(on_line) < POINTS_MIN:
        return None
    far = _through(on_line)
    before = _most([p for p in points if float(far.into[:2] @ p) < far.distance_m - DEEP_M])
    if len(before) < max(POINTS_MIN, SHARE * len(on_line)):
        return far
    near = _through(before)
    return near if float(near.into @ far.into) > ALONGSIDE else far


def _most(points: Sequence[Array]) -> list[Array]:
    """The most of some points that lie on one line."""
    best: list[Array] = []
    for i, a in enumerate(points):
        for b in points[:i]:
            along = a - b
            length = float(np.linalg.norm(along))
            if length > APART_M:
                offsets = [along[0] * (p - b)[1] - along[1] * (p - b)[0] for p in points]
                near = [abs(float(off)) < NEAR_M * length for off in offsets]
                if sum(near) > len(best):
                    best = [p for p, on in zip(points, near, strict=True) if on]
    return best


def _through(points: Sequence[Array]) -> Front:
    """The front along points on one line."""
    middle = np.mean(points, axis=0)
    _, _, directions = np.linalg.svd(np.stack(points) - middle)
    into = np.array([directions[0][1], -directions[0][0]])
    into = into if float(into @ middle) > 0 else -into
    return Front(np.array([into[0], into[1], 0.0]), float(into @ middle))
