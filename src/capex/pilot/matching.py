"""Several things of one kind: which one of the left view is which one of the right view, and where
each of them is.

With locate_pixel every one is located from each view that shows it, and points that lie together
are one thing. Without it every one of the left view is paired with every one of the right view;
those pairs stay whose lines of sight meet at the height where such things are, in the order that
both views show.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from capex.pilot.grounding import EXTERIOR, Answers, Feature, Located, apart
from capex.pilot.scene import Scene
from capex.pilot.segmentation import Pixel
from capex.pose import Array

ORDERED_M = 0.15  # one more thing seen by both views is worth this much error in height
Seen = Mapping[str, Sequence[Sequence[Pixel]]]  # by camera, the spots of each thing, left to right


def ask(scene: Scene, name: str, seen: Seen, height_m: float) -> list[Feature]:
    """What to ask to find out where the things are."""
    left, right = seen.get("left", ()), seen.get("right", ())
    if not scene.brief.locate and left and right:
        spots = {
            f"{name}/{i}/{j}": {"left": a, "right": b}
            for i, a in enumerate(left)
            for j, b in enumerate(right)
        }
    else:
        cameras = [c for c in seen if scene.brief.locate or c in EXTERIOR]
        spots = {f"{name}/{c}/{k}": {c: row} for c in cameras for k, row in enumerate(seen[c])}
    return [f for key, row in spots.items() for f in scene.ask(key, row, height_m)]


def places(
    answers: Answers,
    name: str,
    where: Callable[[Located], Array | None],
    height_m: float,
    within_m: float,
) -> list[Array]:
    """Where the things are, left to right; `where` makes one point of a thing's spots, or None when
    they are something else.
    """
    found = {
        tuple(key.split("/")[1:]): p
        for key, f in answers.items()
        if key.startswith(f"{name}/") and (p := where(f)) is not None
    }
    pairs = {(int(i), int(j)): p for (i, j), p in found.items() if i.isdigit()}
    points = _in_order(pairs, height_m) if pairs else _together(list(found.values()), within_m)
    return sorted(points, key=lambda p: -float(p[1]))


def _in_order(pairs: Mapping[tuple[int, int], Array], height_m: float) -> list[Array]:
    """The most pairs that keep the order of both views, and among these those nearest to the
    height.
    """
    best: tuple[float, list[Array]] = (0.0, [])
    lefts, rights = sorted({i for i, _ in pairs}), sorted({j for _, j in pairs})
    for count in range(1, min(len(lefts), len(rights)) + 1):
        for some, others in itertools.product(
            itertools.combinations(lefts, count), itertools.combinations(rights, count)
        ):
            row = [pairs.get(pair) for pair in zip(some, others, strict=True)]
            points = [p for p in row if p is not None]
            score = 0.0
            for p in points:  # one by one: sum() rounds otherwise from Python 3.12 on
                score += ORDERED_M - abs(float(p[2]) - height_m)
            if len(points) == count and score > best[0]:
                best = (score, points)
    return best[1]


def _together(points: Sequence[Array], within_m: float) -> list[Array]:
    """The middles of groups of points."""
    groups: list[list[Array]] = []
    for point in points:
        near = [g for g in groups if apart(np.mean(g, axis=0), point) < within_m]
        if near:
            near[0].append(point)
        else:
            groups.append([point])
    return [np.asarray(np.mean(g, axis=0)) for g in groups]
