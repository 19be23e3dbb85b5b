"""Slide a drawer or a rack: out by its grip, drawn with the arm and then with the base; in by
pushing against the grip.

The grip is taken from above. How far the part has come needs no knowing: it is drawn or pushed on
until the episode says that it is enough.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from capex.models.pilot import front, looks, matching
from capex.models.pilot.eyes import Pixel, Shape, View
from capex.models.pilot.ground import Asking, Drive, Found, Intent, Move
from capex.models.pilot.scene import Scene, down, line, path
from capex.models.pilot.skills.stand import drives, line_up
from capex.plan import at, raised
from capex.pose import Array

SLIDE = re.compile(r"(open) the (left|right) drawer|slide the (upper) rack .*\b(out|in)\b", re.I)
STAND_M = 0.60  # from the mount to a grip before it is taken
NEAREST_M = 0.40  # the arm draws a grip no nearer
PUSH_STAND_M = 0.48  # from the mount to a grip before it is pushed
FARTHEST_M = 0.68  # the arm pushes a grip no farther
ABOVE_M = 0.13
ALIGNED_M = 0.018
TOUCH_M = 0.026  # from the middle of a grip to a tip whose fingers touch it from outside
RUN_UP_M = 0.025
DRIVE_M = 0.18


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


def slide(scene: Scene) -> Asking:
    """One decision of sliding a drawer or a rack."""
    words = SLIDE.search(scene.page.instruction)
    assert words is not None
    grip, side = (KNOB, words[2].lower()) if words[1] else (RACK, "")
    inwards = (words[4] or "").lower() == "in"
    if not inwards and _holds(scene, grip):
        yield []
        return _pull(scene)
    seen = {v.camera: _knobs(v) if grip is KNOB else _grips(v) for v in scene.views.values()}
    asks = [*front.ask(scene), *matching.ask(scene, "grip", seen, grip.height_m)]
    answers = (yield asks) if asks else {}
    edge = front.fit(answers)
    into = edge.into if edge is not None else np.array([1.0, 0.0, 0.0])
    places = matching.places(
        answers, "grip", lambda found: _place(found, grip), grip.height_m, 0.10
    )
    place = _named(scene, places, side)
    if place is None:
        return (
            _go_on(scene, grip)
            if inwards and _pushing(scene, grip)
            else _look(scene, words[2] or words[3])
        )
    place = place + grip.deeper_m * into - np.array([0.0, 0.0, grip.lower_m])
    if not scene.brief.locate:
        place[2] = np.clip(place[2], grip.height_m - 0.01, grip.height_m + 0.01)
    if inwards and _pushing(scene, grip) and _right_before(scene, place, into):
        return _go_on(scene, grip)
    if drive := line_up(
        scene,
        place - (PUSH_STAND_M if inwards else STAND_M) * into,
        into,
        0.04 if inwards else 0.10,
    ):
        return Intent("Drive in front of it and face it.", drive=drive)
    return _push(scene, place, into) if inwards else _take(scene, place, into)


def _knobs(view: View) -> list[list[Pixel]]:
    """Several pixels of the head of each knob, left to right: noise will put some of them
    off it.
    """
    heads = sorted((head for head, _ in looks.drawer_knobs(view)), key=lambda h: h.centre[0])
    return [
        [h.along(0.0), h.along(-0.45), h.along(0.45), h.across(-0.4), h.across(0.4)] for h in heads
    ]


def _grips(view: View) -> list[list[Pixel]]:
    """Several pixels of the thick end of each blue grip, from the top of the image down."""
    found = sorted(looks.blue_grips(view), key=lambda grip: grip[1][1])
    return [_around(shape, end, 0.008 * view.height) for shape, end in found]


def _around(shape: Shape, middle: Pixel, off: float) -> list[Pixel]:
    u, v = middle
    return [shape.at(p) for p in ((u, v), (u - off, v), (u + off, v), (u, v - off), (u, v + off))]


def _place(found: Found, grip: Grip) -> Array | None:
    """The side of a grip that is seen: its spots at the right height, those that fell on what is
    behind it left out.
    """
    points = [p for p in found.all() if abs(p[2] - grip.height_m) < 0.09 and 0.15 < p[0] < 1.6]
    if not points:
        return None
    nearest = min(p[0] for p in points)
    return np.asarray(np.mean([p for p in points if p[0] < nearest + 0.035], axis=0))


def _named(scene: Scene, places: Sequence[Array], side: str) -> Array | None:
    """The left or the right one; a single one only if the page shows that the hand was sent there,
    or it stands right ahead.
    """
    if not side:
        return min(places, key=lambda p: float(p[0])) if places else None
    if len(places) >= 2:
        return places[0] if side == "left" else places[-1]
    for place in places:
        goals = [
            np.array(w.target_cm) / 100
            for w in scene.page.since_base_motion()
            if w.target_cm is not None
        ]
        if any(float(np.linalg.norm((g - place)[:2])) < 0.06 for g in goals) or (
            drives(scene) and abs(place[1]) < 0.16
        ):
            return place
    return None


def _holds(scene: Scene, grip: Grip) -> bool:
    """Whether the fingers are closed on something as wide as the grip."""
    return (
        scene.page.word == "holding"
        and scene.points_down()
        and grip.opening_m[0] < scene.page.opening_m < grip.opening_m[1]
    )


def _take(scene: Scene, place: Array, into: Array) -> Intent:
    """Over the grip, fingers open and to both sides of it, down, close, and a first pull."""
    tip = scene.tip
    square = down(math.atan2(into[1], into[0]))
    above = raised(place, ABOVE_M)
    off = float(np.linalg.norm((tip - place)[:2]))
    moves: list[Move] = []
    if scene.page.opening_m < 0.07:
        moves.append(Move(at(tip, "keep", "open")))
    if off < (ALIGNED_M if tip[2] > place[2] + 0.06 else 2 * ALIGNED_M) and scene.points_down():
        moves += (
            [Move(at(tip, square, "close"), True)]
            if tip[2] < place[2] + 0.012
            else line(tip, place, square, "close", True)
        )
    else:
        moves += [*path(tip, _over(tip, above), square), *line(above, place, square, "close", True)]
    return Intent(
        "Take the grip from above, close, and begin to pull.",
        (*moves, Move(at(place - 0.08 * into), True)),
    )


def _over(tip: Array, above: Array) -> list[Array]:
    """Up before the hand goes over, where it is not above already."""
    if float(np.linalg.norm((tip - above)[:2])) < 0.12 and tip[2] > above[2] - 0.02:
        return [above]
    return [np.array([min(tip[0], above[0]), tip[1], max(tip[2], above[2])]), above]


def _pull(scene: Scene) -> Intent:
    """The grip is held: draw it along the hand's own direction while the arm has room, then with
    the base.
    """
    tip, into = scene.tip, _hand_forward(scene)
    if tip[0] > NEAREST_M + 0.05:
        return Intent(
            "I hold the grip: draw it out.",
            tuple(line(tip, tip - (tip[0] - NEAREST_M) / into[0] * into, touch=True)),
        )
    back = -DRIVE_M * into
    return Intent(
        "The arm has no more room: hold on and drive back.",
        drive=Drive(float(back[0]), float(back[1])),
    )


def _push(scene: Scene, place: Array, into: Array) -> Intent:
    """Closed fingers down before the grip, then against it."""
    tip = scene.tip
    square = down(math.atan2(into[1], into[0]))
    before = place - (TOUCH_M + RUN_UP_M) * into
    above = raised(before, ABOVE_M)
    off = float(np.linalg.norm((tip - before)[:2]))
    moves: list[Move] = []
    if scene.page.opening_m > 0.01:
        moves.append(Move(at(tip, "keep", "close")))
    if off < ALIGNED_M and scene.points_down():
        moves += path(tip, [before], square) if tip[2] > before[2] + 0.015 else []
    else:
        moves += path(tip, [*_over(tip, above), before], square)
    goal = before + (RUN_UP_M + 0.08) * into
    return Intent(
        "Closed fingers down before the grip, then push it in.",
        (*moves, *line(before, goal, touch=True)),
    )


def _pushing(scene: Scene, grip: Grip) -> bool:
    """Whether closed fingers are down at the height of the grip."""
    return (
        scene.page.opening_m < 0.01
        and scene.points_down()
        and abs(scene.tip[2] - grip.height_m) < 0.03
    )


def _right_before(scene: Scene, place: Array, into: Array) -> bool:
    """Whether the grip is straight ahead of the fingers and near."""
    way = (place - scene.tip)[:2]
    ahead = float(way @ into[:2])
    return -0.01 < ahead < 0.16 and float(np.linalg.norm(way - ahead * into[:2])) < 0.03


def _go_on(scene: Scene, grip: Grip) -> Intent:
    """The fingers are before the grip: straight on with the arm while it reaches, then with the
    base.
    """
    tip, into = scene.tip, _hand_forward(scene)
    if tip[0] < FARTHEST_M - 0.05:
        goal = tip + (FARTHEST_M - tip[0]) / into[0] * into
        goal[2] = grip.height_m
        return Intent(
            "The fingers are before the grip: push on.", tuple(line(tip, goal, touch=True))
        )
    on = DRIVE_M * into
    return Intent(
        "The arm reaches no farther: push on with the base.",
        drive=Drive(float(on[0]), float(on[1])),
    )


def _hand_forward(scene: Scene) -> Array:
    """Which way a hand that points down is turned; it was put square to the front."""
    forward = scene.page.rotation[:2, 0] / np.linalg.norm(scene.page.rotation[:2, 0])
    return np.array([forward[0], forward[1], 0.0])


def _look(scene: Scene, which: str) -> Intent:
    """Not seen, or one of two: raise the hand out of the line of sight and draw it back, each time
    to another side.
    """
    aside = 0.10 if len(scene.page.acts) and scene.page.acts[-1].number % 2 else -0.10
    goal = raised(np.array([0.36, aside, scene.tip[2]]), 0.10)
    return Intent(
        f"I cannot tell which is the {which} one: move the hand aside and look.",
        tuple(path(scene.tip, [goal], "down")),
    )
