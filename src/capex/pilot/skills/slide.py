"""Slide a drawer or a rack: out by its grip, drawn with the arm and then with the base; in by
pushing against the grip.

The grip is taken from above. How far the part has come needs no knowing: it is drawn or pushed on
until the episode says that it is enough.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from capex.pilot import appearance, matching, worktop_front
from capex.pilot.grounding import Asking, Drive, Intent, Located, Move, apart_level, heading
from capex.pilot.scene import SHUT_M, THERE_M, Scene, down, line, path
from capex.pilot.segmentation import Pixel, View
from capex.pilot.skills.base_position import line_up
from capex.plan import at, raised
from capex.pose import Array

STAND_M = 0.60  # from the mount to a grip before it is taken
NEAREST_M = 0.40  # the arm draws a grip no nearer
PUSH_STAND_M = 0.48  # from the mount to a grip before it is pushed
FARTHEST_M = 0.68  # the arm pushes a grip no farther
ABOVE_M = 0.13  # over a grip the hand is clear of the front that it comes down before
ALIGNED_M = 0.018  # open fingers have 2 cm to spare on each side of a grip
TOUCH_M = 0.026  # from the middle of a grip to a tip whose fingers touch it from outside
RUN_UP_M = 0.025  # before a push, so that the fingers do not come down on the grip
PULL_M = 0.08  # a first pull or push, in one waypoint: a little less than a leg
DRIVE_M = 0.18  # of the base while the hand holds or pushes: small steps, a look after each


@dataclass(frozen=True)
class Grip:
    """What a part is held by: about how high it is, how wide between the fingers, and from the side
    that is seen to its middle.
    """

    height_m: float
    opening_m: tuple[float, float]
    deeper_m: float
    lower_m: float


KNOB = Grip(0.325, (0.025, 0.06), 0.010, 0.010)
RACK = Grip(0.155, (0.012, 0.045), 0.007, 0.010)


def slide(scene: Scene, words: re.Match[str]) -> Asking:
    """One decision of sliding a drawer or a rack."""
    grip, side = (KNOB, words[2].lower()) if words[1] else (RACK, "")
    inwards = (words[4] or "").lower() == "in"
    if not inwards and _holds(scene, grip):
        yield []
        return _pull(scene)
    seen = {v.camera: _knobs(v) if grip is KNOB else _grips(v) for v in scene.views.values()}
    answers = yield [*worktop_front.ask(scene), *matching.ask(scene, "grip", seen, grip.height_m)]
    into = worktop_front.direction(worktop_front.fit(answers))
    candidates = matching.places(answers, "grip", lambda f: _seen(f, grip), grip.height_m, 0.10)
    middle = _named(scene, candidates, side)
    pushing = inwards and _pushing(scene, grip)
    if middle is None:
        return _go_on(scene, grip) if pushing else _look(scene, words[2] or words[3])
    middle = middle + grip.deeper_m * into - np.array([0.0, 0.0, grip.lower_m])
    if not scene.brief.locate:
        middle[2] = np.clip(middle[2], grip.height_m - 0.01, grip.height_m + 0.01)
    if pushing and _right_before(scene, middle, into):
        return _go_on(scene, grip)
    away_m, nearest_m = (PUSH_STAND_M, 0.04) if inwards else (STAND_M, 0.10)
    if drive := line_up(scene, middle - away_m * into, into, nearest_m):
        return Intent("Drive in front of it and face it.", drive=drive)
    return _push(scene, middle, into) if inwards else _take(scene, middle, into)


def _knobs(view: View) -> list[list[Pixel]]:
    """Several pixels of the head of each knob, left to right: noise puts some off it."""
    heads = sorted((head for head, _ in appearance.drawer_knobs(view)), key=lambda h: h.centre[0])
    return [h.spots((0.0, -0.45, 0.45), (-0.4, 0.4)) for h in heads]


def _grips(view: View) -> list[list[Pixel]]:
    """Several pixels of the thick end of each blue grip, from the top of the image down."""
    off = 0.008 * view.height
    around = ((0.0, 0.0), (-off, 0.0), (off, 0.0), (0.0, -off), (0.0, off))
    grips = sorted(appearance.blue_grips(view), key=lambda grip: grip[1][1])
    return [[grip.at((u + du, v + dv)) for du, dv in around] for grip, (u, v) in grips]


def _seen(located: Located, grip: Grip) -> Array | None:
    """The side of a grip that is seen: its spots at the right height, those that fell on what is
    behind it left out.
    """
    points = [p for p in located.all() if abs(p[2] - grip.height_m) < 0.09 and 0.15 < p[0] < 1.6]
    if not points:
        return None
    nearest = min(p[0] for p in points)
    return np.asarray(np.mean([p for p in points if p[0] < nearest + 0.035], axis=0))


def _named(scene: Scene, candidates: Sequence[Array], side: str) -> Array | None:
    """The left or the right one; a single one only if the page shows that the hand was sent there,
    or it stands right ahead.
    """
    if not side:
        return min(candidates, key=lambda p: float(p[0])) if candidates else None
    if len(candidates) >= 2:
        return candidates[0] if side == "left" else candidates[-1]
    for grip in candidates:
        sent = any(apart_level(goal, grip) < 0.06 for goal in scene.page.goals_m())
        if sent or (scene.page.drives and abs(grip[1]) < 0.16):
            return grip
    return None


def _holds(scene: Scene, grip: Grip) -> bool:
    """Whether the fingers are closed on something as wide as the grip."""
    narrow, wide = grip.opening_m
    return scene.page.holding and scene.points_down() and narrow < scene.page.opening_m < wide


def _take(scene: Scene, grip: Array, into: Array) -> Intent:
    """Over the grip, fingers open and to both sides of it, down, close, and a first pull."""
    tip, square, above = scene.tip, down(heading(into)), raised(grip, ABOVE_M)
    moves = scene.opened()
    near = apart_level(tip, grip) < (ALIGNED_M if tip[2] > grip[2] + 0.06 else 2 * ALIGNED_M)
    if not near or not scene.points_down():
        moves += [*path(tip, _over(tip, above), square), *line(above, grip, square, "close", True)]
    elif tip[2] < grip[2] + THERE_M:
        moves += [Move(at(tip, square, "close"), True)]
    else:
        moves += line(tip, grip, square, "close", True)
    why = "Take the grip from above, close, and begin to pull."
    return Intent(why, [*moves, Move(at(grip - PULL_M * into), True)])


def _over(tip: Array, above: Array) -> list[Array]:
    """Up before the hand goes over, where it is not above already."""
    if apart_level(tip, above) < 0.12 and tip[2] > above[2] - 0.02:
        return [above]
    return [np.array([min(tip[0], above[0]), tip[1], max(tip[2], above[2])]), above]


def _pull(scene: Scene) -> Intent:
    """The grip is held: draw it along the hand's own direction while the arm has room, then with
    the base.
    """
    tip, into = scene.tip, scene.axis(0)  # the hand was put square to the front
    if tip[0] > NEAREST_M + 0.05:
        end = tip - (tip[0] - NEAREST_M) / into[0] * into
        return Intent("I hold the grip: draw it out.", line(tip, end, touch=True))
    back = -DRIVE_M * into
    why = "The arm has no more room: hold on and drive back."
    return Intent(why, drive=Drive(float(back[0]), float(back[1])))


def _push(scene: Scene, grip: Array, into: Array) -> Intent:
    """Closed fingers down before the grip, then against it."""
    tip, square = scene.tip, down(heading(into))
    before = grip - (TOUCH_M + RUN_UP_M) * into
    moves = scene.shut()
    if apart_level(tip, before) >= ALIGNED_M or not scene.points_down():
        moves += path(tip, [*_over(tip, raised(before, ABOVE_M)), before], square)
    elif tip[2] > before[2] + 0.015:
        moves += path(tip, [before], square)
    goal = before + (RUN_UP_M + PULL_M) * into
    why = "Closed fingers down before the grip, then push it in."
    return Intent(why, [*moves, *line(before, goal, touch=True)])


def _pushing(scene: Scene, grip: Grip) -> bool:
    """Whether closed fingers are down at the height of the grip."""
    shut_down = scene.page.opening_m < SHUT_M and scene.points_down()
    return shut_down and bool(abs(scene.tip[2] - grip.height_m) < 0.03)


def _right_before(scene: Scene, grip: Array, into: Array) -> bool:
    """Whether the grip is straight ahead of the fingers and near."""
    way = (grip - scene.tip)[:2]
    ahead = float(way @ into[:2])
    return -0.01 < ahead < 0.16 and float(np.linalg.norm(way - ahead * into[:2])) < 0.03


def _go_on(scene: Scene, grip: Grip) -> Intent:
    """The fingers are before the grip: straight on while the arm reaches, then with the base."""
    tip, into = scene.tip, scene.axis(0)
    if tip[0] < FARTHEST_M - 0.05:
        goal = tip + (FARTHEST_M - tip[0]) / into[0] * into
        goal[2] = grip.height_m
        return Intent("The fingers are before the grip: push on.", line(tip, goal, touch=True))
    on = DRIVE_M * into
    why = "The arm reaches no farther: push on with the base."
    return Intent(why, drive=Drive(float(on[0]), float(on[1])))


def _look(scene: Scene, which: str) -> Intent:
    """Not seen, or one of two: raise the hand out of the line of sight and draw it back, each time
    to another side.
    """
    goal = raised(np.array([0.36, 0.10 if scene.page.odd else -0.10, scene.tip[2]]), 0.10)
    why = f"I cannot tell which is the {which} one: move the hand aside and look."
    return Intent(why, path(scene.tip, [goal], "down"))
