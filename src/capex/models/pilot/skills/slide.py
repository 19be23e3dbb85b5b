"""Slide a drawer out: stand before it, take its knob from above, draw with the arm, then hold on and drive back."""

from __future__ import annotations

import math
import re

import numpy as np

from capex.models.pilot import looks, matching
from capex.models.pilot.eyes import Pixel, Shape
from capex.models.pilot.ground import Asking, Drive, Found, Intent, Move
from capex.models.pilot.scene import Scene, down, line, path, raised
from capex.models.pilot.skills.stand import drives, line_up
from capex.pose import Array

DRAW = re.compile(r"open the (left|right) drawer", re.I)
KNOB_HEIGHT_M = 0.33  # of a drawer under a worktop
KNOB_INTO_M, KNOB_BELOW_M = 0.010, 0.010  # from the side of a knob that the cameras see to its middle
STAND_M = 0.60  # from the mount to the knob
NEAREST_M = 0.40  # the arm draws it no nearer
ABOVE_M = 0.13
ALIGNED_M = 0.018


def draw_out(scene: Scene) -> Asking:
    """One decision of pulling a drawer out."""
    words = DRAW.search(scene.page.instruction)
    assert words is not None
    if scene.page.word == "holding" and scene.points_down() and 0.025 < scene.page.opening_m < 0.06:
        yield []
        return _pull(scene)
    seen = {v.camera: [_spots(head) for head, _ in looks.drawer_knobs(v)] for v in scene.views.values()}
    answers = yield matching.ask(scene, "knob", seen, KNOB_HEIGHT_M)
    knobs = matching.places(answers, "knob", _knob, KNOB_HEIGHT_M, 0.10)
    into = _square(knobs)
    knob = _named(scene, knobs, words[1].lower())
    if knob is None:
        return _look(scene, words[1])
    knob = knob + KNOB_INTO_M * into - np.array([0.0, 0.0, KNOB_BELOW_M])
    if drive := line_up(scene, knob - STAND_M * into, into, 0.10):
        return Intent(f"Drive in front of the {words[1]} drawer and face it.", drive=drive)
    return _grasp(scene, knob, into)


def _spots(head: Shape) -> list[Pixel]:
    """Several pixels of a knob's head: some of them will be off it."""
    return [head.along(0.0), head.along(-0.45), head.along(0.45), head.across(-0.4), head.across(0.4)]


def _knob(found: Found) -> Array | None:
    """The side of a knob that is seen: its spots at the right height, those that fell on the front behind it left out."""
    points = [p for p in found.all() if abs(p[2] - KNOB_HEIGHT_M) < 0.09 and 0.15 < p[0] < 1.6]
    if not points:
        return None
    nearest = min(p[0] for p in points)
    return np.asarray(np.mean([p for p in points if p[0] < nearest + 0.035], axis=0))


def _square(knobs: list[Array]) -> Array:
    """The level direction into the drawers: square to the line through two knobs; straight ahead when one is seen."""
    if len(knobs) < 2:
        return np.array([1.0, 0.0, 0.0])
    along = (knobs[0] - knobs[-1])[:2]
    along = along / np.linalg.norm(along)
    return np.array([along[1], -along[0], 0.0])


def _named(scene: Scene, knobs: list[Array], side: str) -> Array | None:
    """The left or the right one; a single one only if the page shows that the hand was sent there, or it stands right ahead."""
    if len(knobs) >= 2:
        return knobs[0] if side == "left" else knobs[-1]
    for knob in knobs:
        goals = [np.array(w.target_cm) / 100 for w in scene.page.since_base_motion() if w.target_cm is not None]
        if any(float(np.linalg.norm((g - knob)[:2])) < 0.06 for g in goals) or (drives(scene) and abs(knob[1]) < 0.16):
            return knob
    return None


def _grasp(scene: Scene, knob: Array, into: Array) -> Intent:
    """Over the knob, fingers open and to both sides of it, down, close, and a first pull."""
    tip = scene.tip
    square = down(math.atan2(into[1], into[0]))
    above = raised(knob, ABOVE_M)
    off = float(np.linalg.norm((tip - knob)[:2]))
    moves: list[Move] = []
    if scene.page.opening_m < 0.07:
        moves.append(Move(tip, "keep", "open"))
    if off < ALIGNED_M and scene.points_down():
        moves += [Move(tip, square, "close", True)] if tip[2] < knob[2] + 0.012 else line(tip, knob, square, "close", True)
    else:
        clear = np.array([min(tip[0], above[0]), tip[1], max(tip[2], above[2])])
        way = [above] if off < 0.12 and tip[2] > above[2] - 0.02 else [clear, above]
        moves += [*path(tip, way, square), *line(above, knob, square, "close", True)]
    return Intent("Take the knob from above, close, and begin to pull.", (*moves, Move(knob - 0.08 * into, touch=True)))


def _pull(scene: Scene) -> Intent:
    """The knob is held: draw it along the hand's own direction while the arm has room, then with the base."""
    tip, forward = scene.tip, scene.page.rotation[:2, 0] / np.linalg.norm(scene.page.rotation[:2, 0])
    into = np.array([forward[0], forward[1], 0.0])
    if tip[0] > NEAREST_M + 0.05:
        return Intent("I hold the knob: draw the drawer out.", tuple(line(tip, tip - (tip[0] - NEAREST_M) / into[0] * into, touch=True)))
    back = -0.18 * into
    return Intent("The arm has no more room: hold on and drive back.", drive=Drive(float(back[0]), float(back[1])))


def _look(scene: Scene, side: str) -> Intent:
    """Not seen, or one of two: raise the hand out of the line of sight and draw it back, each time to another side."""
    aside = 0.10 if len(scene.page.told) % 2 else -0.10
    goal = raised(np.array([0.36, aside, scene.tip[2]]), 0.10)
    return Intent(f"I cannot tell which is the {side} drawer: move the hand aside and look.", tuple(path(scene.tip, [goal], "down")))
