"""Put a lid on a jug: take it by the knob in its middle, bring it over the rim, set it down level,
retreat.
"""

from __future__ import annotations

import math
import re

import numpy as np

from capex.pilot import appearance
from capex.pilot.cameras import PLACES
from capex.pilot.grounding import (
    EXTERIOR,
    Answers,
    Asking,
    Drive,
    Intent,
    Move,
    apart,
    apart_level,
    round_middle,
)
from capex.pilot.scene import Scene, beyond, down, line, path
from capex.pilot.segmentation import Colour, Pixel, Region, View, find, regions
from capex.pilot.skills.base_position import may_drive
from capex.plan import at, ceiling, raised
from capex.pose import Array

LIDS = {
    "red": Colour(0, 0.85, 4, 0.05, 0.2),
    "blue": Colour(218, 0.785, 4, 0.05, 0.15),
    "green": Colour(137, 0.64, 4, 0.05, 0.12),
    "black": Colour(240, 0.07, 20, 0.04, 0.06, 0.19),
}
JUG = Colour(197.5, 0.165, 5, 0.03, 0.30)
STAND_M = 0.36  # how far ahead the jug stands when the lid is put on
KNOB_OVER_DISC_M = 0.014  # from the lid's upper face to the middle of its knob
KNOB_OVER_RIM_M = 0.026  # from the rim to the middle of the knob, when the lid is on
HOVER_M = 0.09  # over the knob: one leg, the lid whole in the wrist view
JUG_RADIUS_M = 0.056
RIM_M = 0.65  # a jug's rim above the robot's mount, where its ends were not seen
ALIGNED_M = 0.02  # open fingers have about so much to spare on each side of a knob
SAME_M = 0.08  # farther from the lid, what the wrist sees is something else
OFF = (-0.12, 0.12)  # of the rim's width: spots of the shell to both sides of its middle
LID_RADIUS_M = 0.059  # to the spots asked for, a little inside its outline
BOUND = tuple(math.radians(a) for a in range(-15, 196, 30))  # the upper part of an outline
SPOTS_MIN = 4  # of an outline: fewer leave its middle open
LEVEL_M = 0.03  # spots of a lid in the hand lie this near in height; beyond is what is below it
OFF_MIDDLE_M = 0.03  # a knob is held no farther from its middle
CLEAR_OF_LID_M = 0.17  # a hand this far from a lid has left it
CLEAR_OF_JUG_M = 0.15  # from its axis: a lid that is carried passes the jug


def cover(scene: Scene, words: re.Match[str]) -> Asking:
    """One decision of putting a lid on."""
    colour = words[1]
    asks = scene.ask("rim", find(scene.exterior(), _rim), 0.70)
    if scene.page.holding:
        answers = yield asks + scene.ask("disc", _disc(scene, colour))
        return _put_on(scene, _centre(scene, answers), _held_off(scene, answers))
    lids = find(scene.exterior(), lambda v: _lid(v, colour))
    asks += scene.ask("lid", {c: s.spots((0.65, -0.65), (0.6, -0.6)) for c, s in lids.items()})
    knob = _knob(scene, colour)
    if knob is not None and scene.brief.locate:
        asks += scene.ask("knob", {"wrist": [knob.centre, *knob.spots((-0.4, 0.4))]})
    answers = yield asks
    return _take(scene, colour, knob, answers)


def _of_colour(view: View, colour: str, smallest: float, largest: float) -> list[Region]:
    mask = view.like(LIDS.get(colour, LIDS["red"])) & ~appearance.hand_zone(view)
    return regions(mask, smallest, largest, close=2)


def _lid(view: View, colour: str) -> Region | None:
    """A flat round thing of a colour: as full as an ellipse, wider than high."""
    for lid in _of_colour(view, colour, 0.0012, 0.05):
        along, across, (du, _) = lid.axes
        full = 0.62 < lid.area / (math.pi * along * across) < 1.15
        if full and lid.elongation < 3.2 and (abs(du) > 0.7 or lid.elongation < 1.3):
            return lid
    return None


def _knob(scene: Scene, colour: str) -> Region | None:
    """The darker knob in the middle of the lid, seen from above."""
    view = scene.wrist_view()
    if view is None:
        return None
    lids = [s for s in _of_colour(view, colour, 0.006, 0.35) if s.elongation < 2.2]
    if not lids:
        return None
    lid = lids[0]
    values = view.value[lid.rows, lid.columns]
    dark = np.zeros(view.value.shape, dtype=bool)
    dark[lid.rows, lid.columns] = values < 0.82 * float(np.percentile(values, 80))
    near = 0.75 * lid.axes[1]
    knobs = regions(dark, 0.0006, 0.06)
    return next((s for s in knobs if math.dist(s.centre, lid.centre) < near), lid)


def _disc(scene: Scene, colour: str) -> dict[str, list[Pixel]]:
    """Spots just inside the outline of the lid below the hand, where the fingers do not hide it."""
    view = scene.wrist_view()
    if view is None or not scene.brief.locate:
        return {}
    lids = _of_colour(view, colour, 0.01, 0.5)
    if not lids:
        return {}
    u, v = lids[0].columns - lids[0].columns.mean(), lids[0].rows - lids[0].rows.mean()
    spots = []
    for angle in BOUND:
        k = int(np.argmax(u * math.cos(angle) - v * math.sin(angle)))
        # Noisy eyes: a spot on the outline itself is as often beside it.
        inside = 1 - 7 * view.height / 512 / max(math.hypot(u[k], v[k]), 8.0)
        middle = lids[0].columns.mean(), lids[0].rows.mean()
        spots.append((middle[0] + inside * u[k] + 0.5, middle[1] + inside * v[k] + 0.5))
    return {"wrist": [p for p in spots if _inside(view, p)]}


def _inside(view: View, pixel: Pixel) -> bool:
    """Whether a pixel is clear of the picture's edge: an outline that is cut off says nothing."""
    margin = 0.03 * view.width
    across = margin < pixel[0] < view.width - margin
    return across and margin < pixel[1] < view.height - margin


def _held_off(scene: Scene, answers: Answers) -> Array:
    """How far the lid's middle is off the tip along the fingers: closing centres it across them."""
    points = answers["disc"].all("wrist")
    height = float(np.median([p[2] for p in points])) if points else 0.0
    disc = [p for p in points if abs(p[2] - height) < LEVEL_M]
    off = np.zeros(3)
    if len(disc) < SPOTS_MIN:
        return off
    off[:2] = round_middle(disc, LID_RADIUS_M, scene.tip) - scene.tip[:2]
    width = scene.axis(0)
    return np.asarray(width * np.clip(off @ width, -OFF_MIDDLE_M, OFF_MIDDLE_M))


def _rim(view: View) -> list[Pixel]:
    """The left and right end of the jug's rim, a little inside, and spots of the shell below."""
    jugs = regions(view.like(JUG), 0.0015, 0.06, close=2)
    if not jugs:
        return []
    jug = jugs[0]
    top, height = int(jug.rows.min()), int(np.ptp(jug.rows))
    widest: tuple[int, int, int] | None = None
    for row in range(top, top + max(2, height // 3)):
        columns = jug.columns[jug.rows == row]
        if columns.size and (widest is None or int(np.ptp(columns)) > widest[2] - widest[1]):
            widest = (row, int(columns.min()), int(columns.max()))
    if widest is None:
        return []
    row, left, right = widest
    middle, below = (left + right) / 2, top + height - row
    shell = [(middle + du * (right - left), row + f * below) for f in (0.3, 0.5, 0.7) for du in OFF]
    return [jug.at(p) for p in ((left + 2.5, row + 0.5), (right - 1.5, row + 0.5), *shell)]


def _centre(scene: Scene, answers: Answers) -> Array | None:
    """The middle of the rim: as high as its ends, half a jug behind what is seen of its shell."""
    axes, heights, shells = [], [], []
    for camera, row in answers["rim"].points.items():
        shell = [p for p in row[2:] if p is not None]
        if not shell:
            continue
        front = np.median(np.stack(shell), axis=0)
        away = front[:2] - np.array(PLACES[camera][:2])
        axes.append(front[:2] + JUG_RADIUS_M * away / float(np.linalg.norm(away)))
        shells += shell
        ends = [p for p in row[:2] if p is not None]
        heights += [float(p[2]) for p in ends if apart_level(p, front) < 0.12]
    if not axes or (len(axes) == 2 and apart_level(axes[0], axes[1]) > 0.10):
        return None
    x, y = middle = np.mean(axes, axis=0)
    if len(axes) == 2 and scene.brief.locate:  # from one side its shell is nearly flat
        x, y = round_middle(shells, JUG_RADIUS_M, middle)
    return np.array([x, y, float(np.median(heights)) if heights else RIM_M])


def _take(scene: Scene, colour: str, knob: Region | None, answers: Answers) -> Intent:
    """Over the lid, look from above, down onto the knob, close, lift."""
    tip, rim = scene.tip, _centre(scene, answers)
    lid, close_up = answers["lid"].agreed(), answers["knob"].middle("wrist")
    up_there = rim is not None and lid is not None and bool(lid[2] > rim[2] - 0.03)
    # Farther away, and asked again: it lies askew.
    near = lid is not None and apart(tip, lid) < CLEAR_OF_LID_M
    if up_there and near and scene.page.released:
        return Intent("The lid is on: back off.", _retreat(tip))
    if rim is not None and may_drive(scene, 2):
        ahead, aside = rim[0] - STAND_M, rim[1]
        if abs(ahead) > 0.07 or abs(aside) > 0.16:
            drive = Drive(float(np.clip(ahead, -0.4, 0.4)), float(0.6 * aside))
            return Intent("Drive so that the jug stands in reach.", drive=drive)
    if close_up is not None and lid is not None and apart_level(close_up, lid) > SAME_M:
        close_up = None
    both = all(answers["lid"].middle(c) is not None for c in EXTERIOR)
    # A whole disc from two sides beats a small knob.
    point = lid if both or close_up is None else close_up
    if point is None:
        goal = np.array([max(0.30, tip[0] - 0.08), 0.4 * tip[1], min(0.68, ceiling(tip))])
        why = f"I do not see the {colour} lid: move aside and look."
        return Intent(why, line(tip, goal, "down"))
    height = float(lid[2]) + KNOB_OVER_DISC_M if lid is not None else float(point[2]) - 0.016
    grasp = np.array([point[0], point[1], height])
    orientation = scene.downwards()
    if knob is not None and (close_up is not None or not scene.brief.locate):
        # Square: a quarter turn is the same grasp.
        yaw = scene.yaw_in_wrist_view(*knob.edge)
        turn = (yaw + math.pi / 4) % (math.pi / 2) - math.pi / 4
        orientation = down(turn + 0.4 * (scene.page.empty_closes % 2))
    hover = raised(grasp, HOVER_M)
    opening, lateral = scene.opened(), apart_level(tip, grasp)
    lift = line(grasp, raised(grasp, 0.10))
    if lateral <= ALIGNED_M and tip[2] <= grasp[2] + 0.012:
        why = "The fingers are around the knob: close and lift."
        return Intent(why, [Move(at(grasp, "keep", "close"), True), *lift])
    if lateral <= ALIGNED_M:
        descent = line(tip, grasp, orientation, "close", True)
        return Intent("Down onto the knob, close, lift.", [*opening, *descent, *lift])
    up = np.array([tip[0], tip[1], max(tip[2], min(hover[2] + 0.06, ceiling(tip)))])
    beside = _past(rim, tip, grasp) if rim is not None else []
    moves = [*opening, *path(tip, beyond(tip, up, *beside, hover), orientation)]
    if (close_up is None or lateral > 0.06) and scene.brief.locate:
        return Intent("Go over the lid and look from above.", moves)
    why = "Over the lid, down onto its knob, close, lift."
    return Intent(why, [*moves, *line(hover, grasp, "keep", "close", True), *lift])


def _past(rim: Array, tip: Array, grasp: Array) -> list[Array]:
    """The way past the jug to a lid: over its edge; where the arm is too short for that, back
    towards the robot and round.
    """
    beside = _beside(rim, grasp)
    if apart_level(tip, rim) > CLEAR_OF_JUG_M or beside[2] > rim[2] + 0.04:
        return [beside]
    back = max(0.24, rim[0] - CLEAR_OF_JUG_M)
    high = min(rim[2] + 0.08, ceiling(np.array([back, grasp[1], 0.0])))
    return [np.array([back, tip[1], high]), np.array([back, grasp[1], high])]


def _beside(rim: Array, towards: Array) -> Array:
    """A point beside the jug, on the side of another point, above its rim."""
    way = (towards - rim)[:2]
    x, y = rim[:2] + way * (CLEAR_OF_JUG_M / max(float(np.linalg.norm(way)), 1e-9))
    return np.array([x, y, min(rim[2] + 0.06, ceiling(np.array([x, y, 0.0])))])


def _put_on(scene: Scene, rim: Array | None, off: Array) -> Intent:
    """Up, over the rim from the side, down, let go, retreat."""
    tip = scene.tip
    if rim is None:
        goal = raised(np.array([max(0.32, tip[0] - 0.06), tip[1], tip[2]]), 0.05)
        why = "I hold the lid but do not see the jug: draw back and look."
        return Intent(why, line(tip, goal))
    target = np.array([rim[0], rim[1], rim[2] + KNOB_OVER_RIM_M + 0.012]) - off
    over = raised(target, 0.05)
    moves: list[Move] = []
    start = tip
    if apart_level(tip, target) >= 0.025:
        near = apart_level(tip, over) < CLEAR_OF_JUG_M
        beside = [] if near else [np.array([*_beside(rim, tip)[:2], over[2]])]
        up = raised(tip, max(0.0, over[2] - tip[2]))
        moves, start = path(tip, beyond(tip, up, *beside, over)), over
    moves += [*line(start, target, "keep", "release", True), *_retreat(target)]
    return Intent("Over the jug, set the lid down, let go, retreat.", moves)


def _retreat(tip: Array) -> list[Move]:
    up = raised(tip, 0.10)
    back = np.array([max(0.24, up[0] - 0.20), up[1] * 0.7, min(up[2] + 0.08, 0.78)])
    return path(tip, [up, back])
