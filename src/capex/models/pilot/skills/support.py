"""Where a thing is put: a dish, or a free spot of worktop beside what stands there."""

from __future__ import annotations

import math

import numpy as np

from capex.models.pilot import looks
from capex.models.pilot.eyes import Ellipse
from capex.models.pilot.ground import Answers, Feature, Found
from capex.models.pilot.scene import Scene, spots_on
from capex.pose import Array

DISHES = ("plate", "pan")


WORKTOP_M = 0.45  # above the robot's mount


def is_dish(place: str) -> bool:
    return any(word in DISHES for word in place.split())


def support_features(scene: Scene, place: str) -> list[Feature]:
    """What a thing is to be put on: spots all over it, from every view that shows it; of a worktop,
    spots with room around them.
    """
    if not place or is_dish(place):
        return []
    if place == "counter":
        free = {v.camera: looks.free_stone(v) for v in scene.exterior()}
        return (
            [scene.feature("support", {c: row for c, row in free.items() if row}, WORKTOP_M)]
            if any(free.values())
            else []
        )
    seen = {v.camera: s[0] for v in scene.views.values() if (s := looks.coloured(v, place))}
    spots = {
        c: [*spots_on(s, (-0.6, 0.0, 0.6)), s.across(-0.6), s.across(0.6)]
        for c, s in seen.items()
        if c != "wrist" or scene.points_down()
    }
    return [scene.feature("support", spots)] if spots else []


def put_where(scene: Scene, place: str, answers: Answers) -> Array | None:
    """Where the thing is to be let go: the dish's middle, a free spot of a worktop in easy reach,
    or the top of another thing.
    """
    if is_dish(place):
        return dish_centre(answers)
    if place != "counter":
        return _top(answers)
    level = [p for p in answers.get("support", Found()).all() if abs(p[2] - WORKTOP_M) < 0.05]
    edge = min((float(p[0]) for p in level), default=0.0)
    reach = [p for p in level if math.hypot(p[0], p[1]) < 0.66 and p[0] > edge + 0.05]
    return min(
        reach,
        key=lambda p: abs(float(p[0]) - edge - 0.15) + 0.5 * abs(float(p[1] - scene.tip[1])),
        default=None,
    )


def _top(answers: Answers) -> Array | None:
    """The middle of a thing's upper face: of the spots that lie highest, those seen from above
    where there are any.
    """
    found = answers.get("support", Found())
    points = found.all("wrist") or found.all()
    if not points:
        return None
    stack = np.stack(points)
    high = stack[stack[:, 2] > stack[:, 2].max() - 0.015]
    return np.asarray(high.mean(axis=0))


def dish_feature(scene: Scene, dishes: dict[str, Ellipse]) -> Feature | None:
    """The rim's four extremes and the middle of the dish, a little inside the outline."""
    if not dishes:
        return None
    spots = {
        c: [e.point(0, 0), e.point(-0.96, 0), e.point(0.96, 0), e.point(0, -0.93), e.point(0, 0.93)]
        for c, e in dishes.items()
    }
    inside = {
        c: [
            p
            for p in row
            if 1 <= p[0] < scene.views[c].width - 1 and 1 <= p[1] < scene.views[c].height - 1
        ]
        for c, row in spots.items()
    }
    return scene.feature("dish", inside)


def dish_centre(answers: Answers) -> Array | None:
    """The middle of the dish: half way between opposite rim points, both views together; spots that
    lie off the dish are left out.
    """
    found = answers.get("dish")
    points = found.all() if found is not None else []
    if not points:
        return None
    stack = np.stack(points)
    low = float(np.median(stack[:, 2]))
    level = stack[np.abs(stack[:, 2] - low) < 0.05]
    if not len(level):
        return None
    middle = np.median(level, axis=0)
    near = level[np.linalg.norm(level[:, :2] - middle[:2], axis=1) < 0.17]
    if not len(near):
        return None
    centre = (near.min(axis=0) + near.max(axis=0)) / 2 if len(near) >= 6 else near.mean(axis=0)
    return np.array([centre[0], centre[1], float(near[:, 2].min())])
