"""Drive to a place: find it by its look, go there in legs along the front of the row, and face it
squarely.

Every leg begins with a new look. The heading turns towards the front only as far as the place stays
in view.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from capex.models.pilot import front, looks
from capex.models.pilot.eyes import Colour, Mask, Pixel, Shape, View, shapes
from capex.models.pilot.front import Front
from capex.models.pilot.ground import Answers, Asking, Drive, Feature, Found, Intent
from capex.models.pilot.rig import PLACES as PLACED
from capex.models.pilot.scene import Scene
from capex.models.pilot.skills.stand import DRIVE_MAX_M, TURN_MAX_RAD
from capex.pose import Array

DRIVE = re.compile(r"drive to the (.+?) and stop", re.I)
BEFORE_M = 0.48  # from the mount to the worktop's edge when the robot stands right in front
VIEW_RAD = 0.55  # so far from straight ahead a place is surely in view
LOOK_RAD = 0.5
STILL_M, STILL_RAD = 0.02, 0.03  # no more than this is no drive
REGIONS = 5  # of a view that are asked for
SPOTS = 8  # of a region, about


@dataclass(frozen=True)
class Place:
    """Where something that looks like a place belongs to it: ranges of height, depth behind the
    row's front; and how wide the place is.

    `offset_m` is how far to the left of its middle that look is, `largest` the share of an image
    above which a region is something else.
    """

    heights_m: tuple[tuple[float, float], ...]
    depths_m: tuple[float, float]
    width_m: float
    offset_m: float = 0.0
    largest: float = 0.06


PLACES = {
    "fridge": Place(((0.50, 1.45),), (-0.12, 0.16), 0.72, largest=1.0),
    "stove": Place(((-0.15, 0.48),), (-0.12, 0.70), 0.62, largest=1.0),
    "sink": Place(((0.24, 0.43), (0.49, 0.85)), (0.03, 0.75), 0.55),
    "toaster": Place(((0.48, 0.75),), (0.10, 0.50), 0.32),
    "toaster oven": Place(((0.56, 0.95),), (0.10, 0.32), 0.40, 0.04),
    "microwave": Place(((0.52, 0.95),), (0.08, 0.32), 0.40, 0.06),
}


def drive(scene: Scene) -> Asking:
    """One decision of driving to a place."""
    words = DRIVE.search(scene.page.instruction)
    assert words is not None
    name = words[1].lower()
    place = PLACES.get(name)
    asks = [*front.ask(scene), *(_spots(scene, name, place) if place is not None else [])]
    answers = (yield asks) if asks else {}
    edge = front.fit(answers)
    where = (
        _along(answers, place, edge, scene.brief.locate)
        if place is not None and edge is not None
        else None
    )
    if edge is None or where is None:
        return _look(scene, name)
    goal = (edge.distance_m - BEFORE_M) * edge.into + where * edge.left
    leg = goal * min(1.0, DRIVE_MAX_M / max(float(np.linalg.norm(goal)), 1e-9))
    rest = (edge.distance_m + 0.2) * edge.into + where * edge.left - leg
    bearing, square = math.atan2(rest[1], rest[0]), math.atan2(edge.into[1], edge.into[0])
    turn = float(
        np.clip(
            np.clip(square, bearing - VIEW_RAD, bearing + VIEW_RAD), -TURN_MAX_RAD, TURN_MAX_RAD
        )
    )
    if float(np.linalg.norm(leg)) < STILL_M and abs(turn) < STILL_RAD:
        return Intent(
            f"I stand where the {name} should be, but this is not it: turn away and look.",
            drive=Drive(turn_rad=2 * LOOK_RAD),
        )
    return Intent(
        f"Drive towards the {name} and turn to face it.",
        drive=Drive(float(leg[0]), float(leg[1]), turn),
    )


def _material(view: View, name: str) -> Mask:
    """Where a view shows the material of a place."""
    shade = ndimage.uniform_filter(view.saturation, 7)
    metal = (np.abs(view.hue - 240) < 25) & view.between(0.28, 0.85)
    if name == "fridge":
        return np.asarray(metal & (view.saturation < 0.035) & (shade < 0.03))
    if name in ("stove", "microwave"):
        return view.like(Colour(210, 0.225, 14, 0.06, 0.04, 0.14))
    if name == "sink":
        return looks.steel(view, 0.28, 0.85)
    if name == "toaster":
        return np.asarray(metal & (view.saturation > 0.008) & (shade > 0.0185) & (shade < 0.035))
    return view.like(Colour(27.3, 0.528, 2.0, 0.025, 0.18, 0.42))


def _regions(view: View, name: str, place: Place) -> list[Shape]:
    """What looks like a place in a view: for a sink its faucet and its basin, else regions of its
    material, largest first.
    """
    mask = _material(view, name)
    if name == "sink":
        upright = [
            b
            for b in looks.bars(view, mask, 0.04)
            if abs(b.axes[2][1]) > 0.9 and b.centre[1] < 0.6 * view.height
        ]
        return [
            *upright[:2],
            *shapes(view, ndimage.binary_opening(mask, iterations=2), 0.0006, place.largest),
        ]
    found = shapes(
        view,
        ndimage.binary_opening(mask, iterations=max(1, view.height // 256)),
        0.0003,
        place.largest,
    )
    on_worktop = place.heights_m[0][0] > front.EDGE_HEIGHT_M
    return [s for s in found if not on_worktop or s.centre[1] < 0.5 * view.height]


def _spots(scene: Scene, name: str, place: Place) -> list[Feature]:
    """A few pixels of each region; without locate_pixel the middle of the first, at the height
    where such a place is.
    """
    asks = []
    for view in scene.exterior():
        regions = _regions(view, name, place)
        spots = (
            [p for r in regions[:REGIONS] for p in _spread(r)]
            if scene.brief.locate
            else [r.centre for r in regions[:1]]
        )
        if spots:
            asks.append(
                scene.feature(
                    f"place {view.camera}", {view.camera: spots}, sum(place.heights_m[-1]) / 2
                )
            )
    return asks


def _spread(region: Shape) -> list[Pixel]:
    """About a dozen pixels of a region, evenly spread."""
    step = max(1, round(math.sqrt(region.area / SPOTS)))
    keep = np.flatnonzero((region.rows % step == step // 2) & (region.columns % step == step // 2))
    return [
        (float(region.columns[k]) + 0.5, float(region.rows[k]) + 0.5)
        for k in keep[:: max(1, keep.size // (2 * SPOTS))]
    ]


def _along(answers: Answers, place: Place, edge: Front, locate: bool) -> float | None:
    """How far to the left along the front a place is: the middle of the stretch as wide as it that
    holds most of what looks like it.
    """
    points = [p for key, f in answers.items() if key.startswith("place ") for p in f.all()]
    if not locate:
        points = [
            _at_depth(c, p, edge, sum(place.depths_m) / 2)
            for c in PLACED
            for p in answers.get(f"place {c}", Found()).all(c)
        ]
    near, far = place.depths_m
    right = [p for p in points if any(low < p[2] < high for low, high in place.heights_m)]
    rows = [
        float(p @ edge.left) for p in right if near < float(p @ edge.into) - edge.distance_m < far
    ]
    if not rows:
        return None
    values = np.sort(rows)
    counts = [int(((values >= v) & (values <= v + place.width_m)).sum()) for v in values]
    start = values[int(np.argmax(counts))]
    stretch = values[(values >= start) & (values <= start + place.width_m)]
    if locate and stretch.size < 3:
        return None
    middle = (
        (stretch[0] + stretch[-1]) / 2
        if stretch[-1] - stretch[0] > 0.6 * place.width_m
        else float(stretch.mean())
    )
    return float(middle) - place.offset_m


def _at_depth(camera: str, point: Array, edge: Front, depth_m: float) -> Array:
    """Where the line of sight from a guessed camera through a point is so far behind the front:
    bearings are seen, distances are not.
    """
    eye = np.array(PLACED[camera])
    way = point - eye
    closing = float(way @ edge.into)
    return (
        np.asarray(eye + way * (edge.distance_m + depth_m - float(eye @ edge.into)) / closing)
        if abs(closing) > 1e-6
        else point
    )


def _look(scene: Scene, name: str) -> Intent:
    """Not in view: turn to the left first, then sweep to the right."""
    turn = -LOOK_RAD if any(w.base for w in scene.page.told) else LOOK_RAD
    return Intent(f"I do not see the {name}: turn and look.", drive=Drive(turn_rad=turn))
