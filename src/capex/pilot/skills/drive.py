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

from capex.pilot import appearance, worktop_front
from capex.pilot.cameras import PLACES as CAMERAS
from capex.pilot.grounding import Answers, Asking, Drive, Feature, Intent, heading
from capex.pilot.scene import Scene
from capex.pilot.segmentation import Colour, Mask, Pixel, Region, View, regions
from capex.pilot.skills.base_position import DRIVE_MAX_M, TURN_MAX_RAD
from capex.pilot.worktop_front import Front
from capex.pose import Array

BEFORE_M = 0.48  # from the mount to the worktop's edge when the robot stands right in front
VIEW_RAD = 0.55  # so far from straight ahead a place is surely in view: a lens sees 60 degrees
LOOK_RAD = 0.5  # a look around: less than the lens sees, so that nothing is skipped
STILL_M, STILL_RAD = 0.02, 0.03  # no more than this is no drive
REGIONS = 5  # of a view that are asked for
SPOTS = 8  # of a region, about


@dataclass(frozen=True)
class Landmark:
    """Where something that looks like a place belongs to it, and how wide the place is."""

    heights_m: tuple[tuple[float, float], ...]  # over the mount
    depths_m: tuple[float, float]  # behind the row's front
    width_m: float
    offset_m: float = 0.0  # how far to the left of the place's middle that look is
    largest: float = 0.06  # the share of an image above which a region is something else


LANDMARKS = {
    "fridge": Landmark(((0.50, 1.45),), (-0.12, 0.16), 0.72, largest=1.0),
    "stove": Landmark(((-0.15, 0.48),), (-0.12, 0.70), 0.62, largest=1.0),
    "sink": Landmark(((0.24, 0.43), (0.49, 0.85)), (0.03, 0.75), 0.55),
    "toaster": Landmark(((0.48, 0.75),), (0.10, 0.50), 0.32),
    "toaster oven": Landmark(((0.56, 0.95),), (0.10, 0.32), 0.40, 0.04),
    "microwave": Landmark(((0.52, 0.95),), (0.08, 0.32), 0.40, 0.06),
}


def drive(scene: Scene, words: re.Match[str]) -> Asking:
    """One decision of driving to a place."""
    name = words[1].lower()
    landmark = LANDMARKS.get(name)
    spots = _spots(scene, name, landmark) if landmark is not None else []
    answers = yield [*worktop_front.ask(scene), *spots]
    edge = worktop_front.fit(answers)
    where = None
    if landmark is not None and edge is not None:
        where = _along(answers, landmark, edge, scene.brief.locate)
    if edge is None or where is None:
        # Not in view: turn to the left first, then sweep to the right.
        turn = -LOOK_RAD if scene.page.drives else LOOK_RAD
        return Intent(f"I do not see the {name}: turn and look.", drive=Drive(turn_rad=turn))
    goal = (edge.distance_m - BEFORE_M) * edge.into + where * edge.left
    leg = goal * min(1.0, DRIVE_MAX_M / max(float(np.linalg.norm(goal)), 1e-9))
    rest = (edge.distance_m + 0.2) * edge.into + where * edge.left - leg
    bearing = heading(rest)
    turn = np.clip(heading(edge.into), bearing - VIEW_RAD, bearing + VIEW_RAD)
    turn = float(np.clip(turn, -TURN_MAX_RAD, TURN_MAX_RAD))
    if float(np.linalg.norm(leg)) < STILL_M and abs(turn) < STILL_RAD:
        why = f"I stand where the {name} should be, but this is not it: turn away and look."
        return Intent(why, drive=Drive(turn_rad=2 * LOOK_RAD))
    why = f"Drive towards the {name} and turn to face it."
    return Intent(why, drive=Drive(float(leg[0]), float(leg[1]), turn))


def _material(view: View, name: str) -> Mask:
    """Where a view shows the material of a place."""
    shade = ndimage.uniform_filter(view.saturation, 7)
    metal = (np.abs(view.hue - 240) < 25) & view.between(0.28, 0.85)
    if name == "fridge":
        return np.asarray(metal & (view.saturation < 0.035) & (shade < 0.03))
    if name in ("stove", "microwave"):
        return view.like(Colour(210, 0.225, 14, 0.06, 0.04, 0.14))
    if name == "sink":
        return appearance.steel(view, 0.28, 0.85)
    if name == "toaster":
        return np.asarray(metal & (view.saturation > 0.008) & (shade > 0.0185) & (shade < 0.035))
    return view.like(Colour(27.3, 0.528, 2.0, 0.025, 0.18, 0.42))


def _regions(view: View, name: str, landmark: Landmark) -> list[Region]:
    """What looks like a place in a view: for a sink its faucet and its basin, else regions of its
    material, largest first.
    """
    mask = _material(view, name)
    if name == "sink":
        bars = [b for b in appearance.bars(view, mask, 0.04) if abs(b.axes[2][1]) > 0.9]
        faucets = [b for b in bars if b.centre[1] < 0.6 * view.height]
        basin = ndimage.binary_opening(mask, iterations=2)
        return [*faucets[:2], *regions(basin, 0.0006, landmark.largest)]
    mask = ndimage.binary_opening(mask, iterations=max(1, view.height // 256))
    on_worktop = landmark.heights_m[0][0] > worktop_front.EDGE_HEIGHT_M
    lowest = 0.5 * view.height if on_worktop else math.inf
    return [s for s in regions(mask, 0.0003, landmark.largest) if s.centre[1] < lowest]


def _spots(scene: Scene, name: str, landmark: Landmark) -> list[Feature]:
    """A few pixels of each region; without locate_pixel the middle of the first, at the height
    where such a place is.
    """
    asks = []
    for view in scene.exterior():
        seen = _regions(view, name, landmark)
        spots = [p for r in seen[:REGIONS] for p in _spread(r)]
        if not scene.brief.locate:
            spots = [r.centre for r in seen[:1]]
        height_m = sum(landmark.heights_m[-1]) / 2
        asks += scene.ask(f"place {view.camera}", {view.camera: spots} if spots else {}, height_m)
    return asks


def _spread(region: Region) -> list[Pixel]:
    """About a dozen pixels of a region, evenly spread."""
    step = max(1, round(math.sqrt(region.area / SPOTS)))
    keep = np.flatnonzero((region.rows % step == step // 2) & (region.columns % step == step // 2))
    some = keep[:: max(1, keep.size // (2 * SPOTS))]
    return [(float(region.columns[k]) + 0.5, float(region.rows[k]) + 0.5) for k in some]


def _along(answers: Answers, landmark: Landmark, edge: Front, locate: bool) -> float | None:
    """How far to the left along the front a place is: the middle of the stretch as wide as it that
    holds most of what looks like it.
    """
    located = [(c, p) for c in CAMERAS for p in answers[f"place {c}"].all(c)]
    near, far = landmark.depths_m
    points = [p if locate else _at_depth(c, p, edge, (near + far) / 2) for c, p in located]
    right = [p for p in points if any(low < p[2] < high for low, high in landmark.heights_m)]
    behind = [p for p in right if near < float(p @ edge.into) - edge.distance_m < far]
    if not behind:
        return None
    values = np.sort([float(p @ edge.left) for p in behind])
    width_m = landmark.width_m
    counts = [int(((values >= v) & (values <= v + width_m)).sum()) for v in values]
    start = values[int(np.argmax(counts))]
    stretch = values[(values >= start) & (values <= start + width_m)]
    if locate and stretch.size < 3:
        return None
    whole = stretch[-1] - stretch[0] > 0.6 * width_m
    middle = (stretch[0] + stretch[-1]) / 2 if whole else stretch.mean()
    return float(middle) - landmark.offset_m


def _at_depth(camera: str, point: Array, edge: Front, depth_m: float) -> Array:
    """Where the line of sight from a guessed camera through a point is so far behind the front:
    bearings are seen, distances are not.
    """
    eye = np.array(CAMERAS[camera])
    way = point - eye
    closing = float(way @ edge.into)
    if abs(closing) <= 1e-6:
        return point
    return np.asarray(eye + way * (edge.distance_m + depth_m - float(eye @ edge.into)) / closing)
