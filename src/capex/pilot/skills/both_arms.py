"""Two arms at one table: each brings a thing to its half of a plate, or one hands a bowl over to
the other in the air.

Bringing a thing is what one arm does on a table (`pick_place`), arm by arm; new is the rim: a bowl
is held by its wall, with a gripper that leans outwards as the wall does.
"""

from __future__ import annotations

import math
import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from capex.pilot import appearance, table_objects
from capex.pilot.grounding import (
    Answers,
    Asking,
    Feature,
    Intent,
    Located,
    Move,
    apart,
    apart_level,
)
from capex.pilot.scene import WRIST, Scene, down, line, path
from capex.pilot.segmentation import Ellipse, Region, View, ellipse, find
from capex.pilot.skills import pick_place, support
from capex.pilot.skills.tabletop import point, region_of
from capex.pilot.table_objects import kind
from capex.plan import ArmTarget
from capex.pose import Array, euler_to_matrix

HALF_M = 0.055  # from a plate's middle to that of one half: two things beside each other fit
ON_M = 0.12  # a thing's middle this near to the plate's lies on it
AWAY_M = 0.15  # the prompt wants the gripper this far from what it let go
APART_M = 0.17  # between the tips of two grippers on one bowl, and less
LEAN_DEG = 20.0  # outwards, as a bowl's wall leans
BACK_M = 0.07  # along the fingers, from a pinched rim to clear of it
LIFT_M = 0.06
MIDDLE_M = (0.31, 0.0, 0.16)  # of the rim, where a bowl is handed over: both arms reach it leaning
READY_M = (0.26, 0.20, 0.18)  # where the taker waits for it, on its own side
SET_DOWN_M = (0.31, 0.20)  # on the taker's side
THERE_M = 0.025
RIM_SPOTS = 12
RIM_SHARE = 0.92  # of the brightest: the rim faces the light
THIN_M = (0.002, 0.01)  # opening of fingers on a bowl's wall
ROUND_M = 0.012  # points of a rim are this near to its circle

Step = Generator[Sequence[Feature], Answers, Intent | None]


def halves(scene: Scene, words: re.Match[str]) -> Asking:
    """Each thing onto its half, in the order of the instruction; done when all lie there."""
    place = words["place"] or "plate"
    for clause in words.re.finditer(scene.page.instruction):
        own = scene.of(clause["arm"].lower())
        sign = {"left": 1.0, "right": -1.0}[clause["half"].lower()]
        intent = yield from _as_arm(own.arm, _bring(own, clause["item"], place, sign))
        if intent is not None:
            return intent
    return Intent(f"Each thing lies on its half of the {place}, let go: done.", done=True)


def _as_arm(arm: str, skill: Step) -> Step:
    """A skill of one arm: what it calls its wrist camera is that arm's."""
    camera = f"{arm}_{WRIST}"
    try:
        asked = next(skill)
        while True:
            answers = yield [replace(f, spots=_renamed(f.spots, WRIST, camera)) for f in asked]
            back = {n: Located(_renamed(a.points, camera, WRIST)) for n, a in answers.items()}
            asked = skill.send(Answers(back))
    except StopIteration as end:
        intent: Intent | None = end.value
        return intent and replace(intent, arm=arm)


def _renamed(rows: Mapping[str, Any], old: str, new: str) -> dict[str, Any]:
    return {new if name == old else name: row for name, row in rows.items()}


def _bring(scene: Scene, item: str, place: str, sign: float) -> Step:
    """One thing onto its half of the plate; None once it lies there and the hand is away."""
    dishes = find(scene.outside(), lambda v: table_objects.dish(v, place))
    top_m = scene.brief.table_m + kind(place).height_m
    asks = support.dish_feature(scene, dishes, top_m)
    if scene.page.holding:
        answers = yield asks
        centre = _plate_middle(scene, place, answers)
        if centre is not None:
            centre[1] += sign * HALF_M
        return pick_place.carry(scene, item, place, centre, down(0.0))
    seen = find(scene.outside(), lambda v: region_of(v, item))
    spots = {c: r.spots((0.0, -0.6, 0.6), (-0.6, 0.6)) for c, r in seen.items()}
    wrist = pick_place.wrist_item(scene, item)
    if wrist is not None and not wrist.whole(scene.views[WRIST]):
        wrist = None  # of a part, neither middle nor long side tell anything
    asks += scene.ask("item", spots, scene.brief.table_m + kind(item).height_m)
    answers = yield asks + (pick_place.wrist_features(scene, wrist) if wrist else [])
    thing, centre = point(answers["item"]), _plate_middle(scene, place, answers)
    if thing is not None and centre is not None and apart_level(thing, centre) < ON_M:
        if apart(scene.tip, thing) >= AWAY_M:
            return None
        why = f"The {item} lies on the {place}; back off to the {scene.arm}."
        return Intent(why, pick_place.retreat(scene, scene.tip))
    return pick_place.take(scene, item, thing, wrist, answers)


def _plate_middle(scene: Scene, place: str, answers: Answers) -> Array | None:
    """Half way between opposite points of the rim: what lies on the plate hides some of them."""
    top_m = scene.brief.table_m + kind(place).height_m
    middles = []
    for row in answers["dish"].points.values():
        low = [p if p is not None and p[2] < top_m + 0.02 else None for p in row]
        pairs = zip(low[1::2], low[2::2], strict=False)
        middles += [(a + b) / 2 for a, b in pairs if a is not None and b is not None]
        middles += [p for p in low[:1] if p is not None]
    if not middles:
        return None
    x, y, _ = np.mean(middles, axis=0)
    return np.array([x, y, top_m])


@dataclass(frozen=True)
class Rim:
    """The circle of a bowl's rim, and how far it is below the upper edge that it is pinched."""

    centre: Array
    radius_m: float
    depth_m: float

    def pinch(self, side: float) -> tuple[Array, tuple[float, float, float]]:
        """The tip and its angles, with one finger on each side of the wall."""
        inwards_m = self.depth_m * math.tan(math.radians(LEAN_DEG))
        offset = np.array([0.0, side * (self.radius_m - inwards_m), -self.depth_m])
        return self.centre + offset, (180.0 - side * LEAN_DEG, 0.0, 0.0)


def hand_over(scene: Scene, words: re.Match[str]) -> Asking:
    """One decision of a handover, by who holds the bowl now and where it is."""
    item = words["item"]
    giver, taker = (scene.of(words[key].lower()) for key in ("giver", "taker"))
    gives, takes = _pinches(giver), _pinches(taker)
    seen = find(scene.outside(), lambda v: _rim(v, item))
    spots = {c: _around(outline) for c, outline in seen.items()}
    height_m = scene.brief.table_m + kind(item).height_m
    if gives or takes:
        height_m = float((giver if gives else taker).tip[2]) + kind(item).depth_m
    answers = yield scene.ask("rim", spots, height_m)
    rim = _circle(answers["rim"].all(), item)
    if gives and takes:
        return _let_go(giver, f"Both grippers hold the {item}: the {giver.arm} one lets go.")
    if takes and apart(giver.tip, taker.tip) < APART_M:
        why = f"The {taker.arm} gripper holds the {item}: the {giver.arm} one backs off."
        return Intent(why, _back(giver, giver.tip), arm=giver.arm)
    if takes:
        return _set_down(taker, item, rim)
    if gives:
        return _offer(giver, taker, item, rim)
    if rim is None:
        why = f"I do not see the rim of the {item}: move the hand out of the way and look again."
        return Intent(why, path(giver.tip, [pick_place.aside(giver)], "down"), arm=giver.arm)
    if taker.side * rim.centre[1] > 0.08:
        aside = pick_place.aside(taker)
        if apart(taker.tip, rim.centre) < AWAY_M and apart(taker.tip, aside) > THERE_M:
            why = f"The {item} stands on the {taker.arm} side: back off."
            return Intent(why, _back(taker, taker.tip), arm=taker.arm)
        why = f"The {item} stands on the {taker.arm} side and nothing holds it: done."
        return Intent(why, done=True)
    return _pinch(giver, item, rim, LIFT_M)


def _pinches(scene: Scene) -> bool:
    """Whether the fingers are closed on something, be it as thin as a wall: without touch it is
    called empty, but fingers that meet are shut.
    """
    return scene.page.holding or THIN_M[0] < scene.page.opening_m < THIN_M[1]


def _pinch(scene: Scene, item: str, rim: Rim, lift_m: float = 0.0) -> Intent:
    """Come along the wall from above, close on it, and lift."""
    grasp, lean = rim.pinch(scene.side)
    before = grasp - BACK_M * euler_to_matrix(lean)[:, 2]
    moves = [*scene.opened(), *line(scene.tip, before, lean)]
    moves += line(before, grasp, "keep", "close", True)
    if lift_m:
        moves += line(grasp, grasp + np.array([0.0, 0.0, lift_m]))
    why = f"Pinch the {item}'s rim on the {scene.arm} side, the gripper leaning as the wall does."
    return Intent(why, moves, arm=scene.arm)


def _offer(giver: Scene, taker: Scene, item: str, rim: Rim | None) -> Intent:
    """Bring the bowl over the middle, and there let the other arm pinch it."""
    held = _held(giver, item, rim)
    way = np.array(MIDDLE_M) - held.centre
    if float(np.linalg.norm(way)) <= THERE_M:
        return _pinch(taker, item, held)
    up = giver.tip + np.array([0.0, 0.0, max(0.0, way[2])])
    why = f"Bring the {item} over the middle of the table; the {taker.arm} gripper comes near."
    x, y, z = READY_M
    ready = line(taker.tip, np.array([x, taker.side * y, z]), held.pinch(taker.side)[1])
    moves = path(giver.tip, [up, giver.tip + way])
    return Intent(why, moves, arm=giver.arm, beside={taker.arm: ready})


def _set_down(scene: Scene, item: str, rim: Rim | None) -> Intent:
    """Over to the arm's own side, down, let go, and back along the fingers."""
    held = _held(scene, item, rim)
    x, y = SET_DOWN_M
    level = np.array([x, scene.side * y, held.centre[2]]) - held.centre
    over = scene.tip + level
    low = over.copy()
    low[2] += scene.brief.table_m + kind(item).height_m + 0.004 - held.centre[2]
    why = f"Carry the {item} to the {scene.arm} side, set it down, let go, back off."
    moves = [*line(scene.tip, over), *line(over, low, "keep", "release", True)]
    return Intent(why, [*moves, *_back(scene, low)], arm=scene.arm)


def _let_go(scene: Scene, why: str) -> Intent:
    moves = [Move(ArmTarget(gripper="release")), *_back(scene, scene.tip)]
    return Intent(why, moves, arm=scene.arm)


def _back(scene: Scene, tip: Array) -> list[Move]:
    """Along the fingers, then aside."""
    behind = tip - BACK_M * scene.page.rotation[:, 2]
    return [*line(tip, behind), *line(behind, pick_place.aside(scene), "down")]


def _held(scene: Scene, item: str, rim: Rim | None) -> Rim:
    """The rim of what an arm holds: where it is seen, unless that is not at the fingers."""
    usual = Rim(np.zeros(3), 0.073, kind(item).depth_m)
    centre = scene.tip - usual.pinch(scene.side)[0]
    if rim is not None and apart(rim.centre, centre) < 0.04:
        return rim
    return replace(usual, centre=centre)


def _rim(view: View, item: str) -> Ellipse | None:
    """A bowl's rim in one view: the brightest of its colour, since it faces the light."""
    found = appearance.coloured(view, item)
    if not found:
        return None
    body = found[0]
    value = view.value[body.rows, body.columns]
    bright = value > RIM_SHARE * value.max()
    rim = Region(body.rows[bright], body.columns[bright])
    return ellipse(rim.columns.astype(float), rim.rows.astype(float))


def _around(outline: Ellipse) -> list[tuple[float, float]]:
    turns = [2 * math.pi * k / RIM_SPOTS for k in range(RIM_SPOTS)]
    return [outline.point(math.cos(t), math.sin(t)) for t in turns]


def _circle(points: Sequence[Array], item: str) -> Rim | None:
    """The level circle through the points of a rim; those beside it lie lower, or off it."""
    if len(points) < 5:
        return None
    stack = np.stack(points)
    top_m = float(np.percentile(stack[:, 2], 80))
    stack = stack[np.abs(stack[:, 2] - top_m) < 0.02]
    for _ in range(2):
        if len(stack) < 5:
            return None
        design = np.column_stack([2 * stack[:, :2], np.ones(len(stack))])
        (x, y, c), *_ = np.linalg.lstsq(design, (stack[:, :2] ** 2).sum(axis=1), rcond=None)
        radius = math.sqrt(max(c + x * x + y * y, 0.0))
        off = np.abs(np.hypot(stack[:, 0] - x, stack[:, 1] - y) - radius)
        near = off < ROUND_M
        z = float(stack[:, 2].mean())
        stack = stack[near]
    if not 0.03 < radius < 0.15:
        return None
    return Rim(np.array([x, y, z]), radius, kind(item).depth_m)
