"""Put a lid on a jug: take it by the knob in its middle, bring it over the rim, set it down level,
retreat.
"""

from __future__ import annotations

import math
import re

import numpy as np

from capex.models.pilot import looks
from capex.models.pilot.eyes import Colour, Pixel, Shape, View, shapes
from capex.models.pilot.ground import Answers, Asking, Drive, Found, Intent, Move
from capex.models.pilot.rig import PLACES
from capex.models.pilot.scene import Scene, down, line, path
from capex.plan import Orientation, at, ceiling, raised
from capex.pose import Array

COVER = re.compile(r"put the (\w+) lid on the blender", re.I)
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
HOVER_M = 0.09
JUG_RADIUS_M = 0.056
RIM_M = 0.65  # a jug's rim above the robot's mount, where its ends were not seen
ALIGNED_M = 0.02
CLEAR_OF_JUG_M = 0.15


def cover(scene: Scene) -> Asking:
    """One decision of putting a lid on."""
    words = COVER.search(scene.page.instruction)
    colour = words[1] if words else "red"
    jugs = {v.camera: spots for v in scene.exterior() if (spots := _rim(v))}
    asks = [scene.feature("rim", jugs, 0.70)] if jugs else []
    holding = scene.page.word == "holding"
    lids = (
        {}
        if holding
        else {v.camera: s for v in scene.exterior() if (s := _lid(v, colour)) is not None}
    )
    if lids:
        asks.append(
            scene.feature(
                "lid",
                {
                    c: [s.along(0.65), s.along(-0.65), s.across(0.6), s.across(-0.6)]
                    for c, s in lids.items()
                },
            )
        )
    knob = None if holding else _knob(scene, colour)
    if knob is not None and scene.brief.locate:
        asks.append(
            scene.feature("knob", {"wrist": [knob.centre, knob.along(-0.4), knob.along(0.4)]})
        )
    answers = (yield asks) if asks else {}
    rim = _centre(answers)
    if holding:
        return _put_on(scene, rim)
    return _take(scene, colour, rim, knob, answers)


def _lid(view: View, colour: str) -> Shape | None:
    """A flat round thing of a colour: as full as an ellipse, wider than high."""
    mask = view.like(LIDS.get(colour, LIDS["red"])) & ~looks.hand_zone(view)
    for shape in shapes(view, mask, 0.0012, 0.05, close=2):
        along, across, (du, _) = shape.axes
        if (
            0.62 < shape.area / (math.pi * along * across) < 1.15
            and shape.elongation < 3.2
            and (abs(du) > 0.7 or shape.elongation < 1.3)
        ):
            return shape
    return None


def _knob(scene: Scene, colour: str) -> Shape | None:
    """The darker knob in the middle of the lid, seen from above."""
    if "wrist" not in scene.views or not scene.points_down():
        return None
    view = scene.views["wrist"]
    mask = view.like(LIDS.get(colour, LIDS["red"])) & ~looks.hand_zone(view)
    found = [s for s in shapes(view, mask, 0.006, 0.35, close=2) if s.elongation < 2.2]
    if not found:
        return None
    lid = found[0]
    values = view.value[lid.rows, lid.columns]
    dark = np.zeros(mask.shape, dtype=bool)
    dark[lid.rows, lid.columns] = values < 0.82 * float(np.percentile(values, 80))
    inner = [
        s
        for s in shapes(view, dark, 0.0006, 0.06)
        if math.dist(s.centre, lid.centre) < 0.75 * lid.axes[1]
    ]
    return inner[0] if inner else lid


def _rim(view: View) -> list[Pixel]:
    """The left and right end of the jug's rim, a little inside."""
    found = shapes(view, view.like(JUG), 0.0015, 0.06, close=2)
    if not found:
        return []
    jug = found[0]
    top, height = int(jug.rows.min()), int(np.ptp(jug.rows))
    widest: tuple[int, int, int] | None = None
    for row in range(top, top + max(2, height // 3)):
        columns = jug.columns[jug.rows == row]
        if columns.size and (widest is None or int(np.ptp(columns)) > widest[2] - widest[1]):
            widest = (row, int(columns.min()), int(columns.max()))
    if widest is None:
        return []
    row, left, right = widest
    middle = (left + right) / 2
    shell = [
        jug.at((middle + du * (right - left), row + f * (top + height - row)))
        for f in (0.3, 0.5, 0.7)
        for du in (-0.12, 0.12)
    ]
    return [jug.at((left + 2.5, row + 0.5)), jug.at((right - 1.5, row + 0.5)), *shell]


def _centre(answers: Answers) -> Array | None:
    """The middle of the rim: as high as its ends, half a jug behind what is seen of its shell."""
    found = answers.get("rim", Found())
    axes, heights = [], []
    for camera, row in found.points.items():
        shell = [p for p in row[2:] if p is not None]
        if not shell or camera not in PLACES:
            continue
        front = np.median(np.stack(shell), axis=0)
        away = front[:2] - np.array(PLACES[camera][:2])
        axes.append(front[:2] + JUG_RADIUS_M * away / float(np.linalg.norm(away)))
        heights += [
            float(p[2])
            for p in row[:2]
            if p is not None and float(np.linalg.norm((p - front)[:2])) < 0.12
        ]
    if not axes or (len(axes) == 2 and float(np.linalg.norm(axes[0] - axes[1])) > 0.10):
        return None
    x, y = np.mean(axes, axis=0)
    return np.array([x, y, float(np.median(heights)) if heights else RIM_M])


def _take(
    scene: Scene, colour: str, rim: Array | None, knob: Shape | None, answers: Answers
) -> Intent:
    """Over the lid, look from above, down onto the knob, close, lift."""
    tip = scene.tip
    lid = answers.get("lid", Found()).agreed()
    close_up = answers.get("knob", Found()).middle("wrist")
    if rim is not None and lid is not None and _released(scene) and lid[2] > rim[2] - 0.03:
        return Intent("The lid is on: back off.", tuple(_retreat(tip)))
    if rim is not None and scene.brief.base_motion and sum(w.base for w in scene.page.told) < 2:
        ahead, aside = rim[0] - STAND_M, rim[1]
        if abs(ahead) > 0.07 or abs(aside) > 0.16:
            return Intent(
                "Drive so that the jug stands in reach.",
                drive=Drive(float(np.clip(ahead, -0.4, 0.4)), float(0.6 * aside)),
            )
    if lid is None and close_up is None:
        goal = np.array([max(0.30, tip[0] - 0.08), 0.4 * tip[1], min(0.68, ceiling(tip))])
        return Intent(
            f"I do not see the {colour} lid: move aside and look.", tuple(line(tip, goal, "down"))
        )
    if (
        close_up is not None
        and lid is not None
        and float(np.linalg.norm((close_up - lid)[:2])) > 0.08
    ):
        close_up = None
    both = all(answers.get("lid", Found()).middle(c) is not None for c in ("left", "right"))
    # A whole disc from two sides beats a small knob.
    point = lid if lid is not None and (both or close_up is None) else close_up
    assert point is not None
    height = float(lid[2]) + KNOB_OVER_DISC_M if lid is not None else float(point[2]) - 0.016
    grasp = np.array([point[0], point[1], height])
    orientation: Orientation = "keep" if scene.points_down() else "down"
    if knob is not None and (close_up is not None or not scene.brief.locate):
        du, dv = knob.edge
        hand = math.atan2(scene.page.rotation[1, 0], scene.page.rotation[0, 0])
        # Square: a quarter turn is the same grasp.
        turn = (hand + math.atan2(-du, -dv) + math.pi / 4) % (math.pi / 2) - math.pi / 4
        orientation = down(turn + 0.4 * (_misses(scene) % 2))
    hover = raised(grasp, HOVER_M)
    opening = [Move(at(tip, "keep", "open"))] if scene.page.opening_m < 0.07 else []
    lateral = float(np.linalg.norm((tip - grasp)[:2]))
    lift = line(grasp, raised(grasp, 0.10))
    if lateral <= ALIGNED_M and tip[2] <= grasp[2] + 0.012:
        return Intent(
            "The fingers are around the knob: close and lift.",
            (Move(at(grasp, "keep", "close"), True), *lift),
        )
    if lateral <= ALIGNED_M:
        return Intent(
            "Down onto the knob, close, lift.",
            (*opening, *line(tip, grasp, orientation, "close", True), *lift),
        )
    way = [
        np.array([tip[0], tip[1], max(tip[2], min(hover[2] + 0.06, ceiling(tip)))]),
        *([_beside(rim, grasp)] if rim is not None else []),
        hover,
    ]
    moves = path(tip, [p for p in way if float(np.linalg.norm(p - tip)) > 0.012], orientation)
    if (close_up is None or lateral > 0.06) and scene.brief.locate:
        return Intent("Go over the lid and look from above.", (*opening, *moves))
    return Intent(
        "Over the lid, down onto its knob, close, lift.",
        (*opening, *moves, *line(hover, grasp, "keep", "close", True), *lift),
    )


def _beside(rim: Array, towards: Array) -> Array:
    """A point beside the jug, on the side of another point, above its rim."""
    way = (towards - rim)[:2]
    x, y = rim[:2] + way * (CLEAR_OF_JUG_M / max(float(np.linalg.norm(way)), 1e-9))
    return np.array([x, y, min(rim[2] + 0.06, ceiling(np.array([x, y, 0.0])))])


def _put_on(scene: Scene, rim: Array | None) -> Intent:
    """Up, over the rim from the side, down, let go, retreat."""
    tip = scene.tip
    if rim is None:
        goal = raised(np.array([max(0.32, tip[0] - 0.06), tip[1], tip[2]]), 0.05)
        return Intent(
            "I hold the lid but do not see the jug: draw back and look.", tuple(line(tip, goal))
        )
    target = np.array([rim[0], rim[1], rim[2] + KNOB_OVER_RIM_M + 0.012])
    over = raised(target, 0.05)
    why = "Over the jug, set the lid down, let go, retreat."
    if float(np.linalg.norm((tip - target)[:2])) < 0.025:
        return Intent(why, (*line(tip, target, "keep", "release", True), *_retreat(target)))
    up = raised(tip, max(0.0, over[2] - tip[2]))
    way = [
        p
        for p in (up, np.array([*_beside(rim, tip)[:2], over[2]]), over)
        if float(np.linalg.norm(p - tip)) > 0.012
    ]
    if float(np.linalg.norm((tip - over)[:2])) < CLEAR_OF_JUG_M:
        way = [p for p in (up, over) if float(np.linalg.norm(p - tip)) > 0.012]
    return Intent(
        why, (*path(tip, way), *line(over, target, "keep", "release", True), *_retreat(target))
    )


def _retreat(tip: Array) -> list[Move]:
    up = raised(tip, 0.10)
    back = np.array([max(0.24, up[0] - 0.20), up[1] * 0.7, min(up[2] + 0.08, 0.78)])
    return path(tip, [up, back])


def _released(scene: Scene) -> bool:
    return any(
        w.gripper in ("release", "open") and w.target_cm is not None for w in scene.page.told
    )


def _misses(scene: Scene) -> int:
    return sum(
        w.gripper in ("close", "reclose")
        and "finger contact" not in w.report.partition(": opening")[2]
        for w in scene.page.told
    )
