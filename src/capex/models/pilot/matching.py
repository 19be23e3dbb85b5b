"""Several things of one kind: which one of the left view is which one of the right view, and where each of them is.

With locate_pixel every one is located from each view that shows it, and points that lie together are one thing. Without it every one of
the left view is paired with every one of the right view; the pairs whose lines of sight meet at the height where such things are stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from capex.models.pilot.eyes import Pixel
from capex.models.pilot.ground import EXTERIOR, Answers, Feature, Found
from capex.models.pilot.scene import Scene
from capex.pose import Array

Seen = Mapping[str, Sequence[Sequence[Pixel]]]  # by camera, the spots of each thing


def ask(scene: Scene, name: str, seen: Seen, height_m: float) -> list[Feature]:
    """What to ask to find out where the things are."""
    pairs = [(i, j) for i in range(len(seen.get("left", ()))) for j in range(len(seen.get("right", ())))]
    if not scene.brief.locate and pairs:
        return [scene.feature(f"{name}/{i}/{j}", {"left": seen["left"][i], "right": seen["right"][j]}, height_m) for i, j in pairs]
    cameras = [c for c in seen if scene.brief.locate or c in EXTERIOR]
    return [scene.feature(f"{name}/{c}/{k}", {c: spots}, height_m) for c in cameras for k, spots in enumerate(seen[c])]


def places(answers: Answers, name: str, where: Callable[[Found], Array | None], height_m: float, within_m: float) -> list[Array]:
    """Where the things are, left to right; `where` makes one point of a thing's spots, or None when they are something else."""
    found = [(key.split("/")[1:], point) for key, f in answers.items() if key.startswith(f"{name}/") and (point := where(f)) is not None]
    if any(first.isdigit() for (first, _), _ in found):
        found.sort(key=lambda row: abs(row[1][2] - height_m))
        taken: set[tuple[int, str]] = set()
        groups = []
        for key, point in found:
            if not taken & set(enumerate(key)):
                taken |= set(enumerate(key))
                groups.append([point])
    else:
        groups = []
        for _, point in found:
            near = [g for g in groups if float(np.linalg.norm(np.mean(g, axis=0) - point)) < within_m]
            if near:
                near[0].append(point)
            else:
                groups.append([point])
    return sorted((np.asarray(np.mean(g, axis=0)) for g in groups), key=lambda p: -float(p[1]))
