"""Where a thing is put: a dish, or a free spot of worktop beside what stands there."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from capex.pilot import appearance
from capex.pilot.grounding import Answers, Drive, Feature
from capex.pilot.scene import Scene
from capex.pilot.segmentation import Ellipse, find
from capex.pilot.skills.base_position import may_drive
from capex.pose import Array

DISHES = ("plate", "pan")
WORKTOP_M = 0.45  # above the robot's mount
DISH_HIGH_M = 0.47  # of a dish's rim on a worktop
LEVEL_M = 0.05  # points this near in height lie on one surface: what is located is off by a few cm
REACH_M = 0.66  # from the mount: as far as a hand that points down reaches a worktop
ROOM_M = 0.13  # behind the worktop's front: a thing that is put there lies whole on it
APPROACH_M = 0.25  # a drive nearer to a worktop: more, and the robot stands below it
DISH_M = 0.17  # a dish is no wider than this from its middle
DISH_SPOTS = ((0, 0), (-0.96, 0), (0.96, 0), (0, -0.93), (0, 0.93))  # just inside the outline


def is_dish(place: str) -> bool:
    return any(word in DISHES for word in place.split())


def support_features(scene: Scene, place: str) -> list[Feature]:
    """What a thing is to be put on: spots all over it, from every view that shows it; of a worktop,
    spots with room around them.
    """
    if not place or is_dish(place):
        return []
    if place == "counter":
        return scene.ask("support", find(scene.exterior(), appearance.free_stone), WORKTOP_M)
    views = [v for v in scene.views.values() if v.camera != "wrist" or scene.points_down()]
    seen = find(views, lambda v: appearance.coloured(v, place))
    spots = {c: s[0].spots((-0.6, 0.0, 0.6), (-0.6, 0.6)) for c, s in seen.items()}
    return scene.ask("support", spots)


def put_where(scene: Scene, place: str, answers: Answers) -> Array | None:
    """Where the thing is to be let go: the dish's middle, a free spot of a worktop in easy reach,
    or the top of another thing.
    """
    if is_dish(place):
        return _dish_centre(answers)
    if place != "counter":
        return _top(answers)
    level = _worktop(answers)
    edge = min((float(p[0]) for p in level), default=0.0)
    reach = [p for p in level if math.hypot(p[0], p[1]) < REACH_M and p[0] > edge + 0.05]
    return min(
        reach,
        key=lambda p: abs(float(p[0]) - edge - 0.15) + 0.5 * abs(float(p[1] - scene.tip[1])),
        default=None,
    )


def nearer(scene: Scene, place: str, answers: Answers) -> Drive | None:
    """The drive towards a worktop that is seen but out of reach."""
    level = _worktop(answers)
    if place != "counter" or not level or not may_drive(scene):
        return None
    short_m = min(float(p[0]) for p in level) + ROOM_M - REACH_M + 0.05
    return Drive(min(short_m, APPROACH_M)) if short_m > 0.02 else None


def _worktop(answers: Answers) -> list[Array]:
    """The located spots at a worktop's height."""
    return [p for p in answers["support"].all() if abs(p[2] - WORKTOP_M) < LEVEL_M]


def _top(answers: Answers) -> Array | None:
    """The middle of a thing's upper face: of the spots that lie highest, those seen from above
    where there are any.
    """
    points = answers["support"].all("wrist") or answers["support"].all()
    if not points:
        return None
    stack = np.stack(points)
    high = stack[stack[:, 2] > stack[:, 2].max() - 0.015]
    return np.asarray(high.mean(axis=0))


def dish_feature(
    scene: Scene, dishes: Mapping[str, Ellipse], height_m: float = DISH_HIGH_M
) -> list[Feature]:
    """The rim's four extremes and the middle of the dish, a little inside the outline."""
    spots = {}
    for c, dish in dishes.items():
        row = [dish.point(*fractions) for fractions in DISH_SPOTS]
        width, height = scene.views[c].width, scene.views[c].height
        spots[c] = [p for p in row if 1 <= p[0] < width - 1 and 1 <= p[1] < height - 1]
    return scene.ask("dish", spots, height_m)


def _dish_centre(answers: Answers) -> Array | None:
    """The middle of the dish: half way between opposite rim points, both views together; spots that
    lie off the dish are left out.
    """
    points = answers["dish"].all()
    if not points:
        return None
    stack = np.stack(points)
    level = stack[np.abs(stack[:, 2] - float(np.median(stack[:, 2]))) < LEVEL_M]
    if not len(level):
        return None
    middle = np.median(level, axis=0)
    near = level[np.linalg.norm(level[:, :2] - middle[:2], axis=1) < DISH_M]
    if not len(near):
        return None
    centre = (near.min(axis=0) + near.max(axis=0)) / 2 if len(near) >= 6 else near.mean(axis=0)
    return np.array([centre[0], centre[1], float(near[:, 2].min())])
