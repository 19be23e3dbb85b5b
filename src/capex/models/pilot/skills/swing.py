"""Swing a door or a lid: line the base up, closed fingers onto it near its free edge, then along
the arc on which it travels.

Two kinds: a door on a vertical hinge is pushed on its face beside the handle, a flap on a hinge
along its lower edge is lifted and pushed by its bar. The angle comes from what is seen: the leaf
against the front it belongs to.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np

from capex.models.pilot import looks
from capex.models.pilot.eyes import Pixel, Shape, View
from capex.models.pilot.ground import Answers, Asking, Feature, Found, Intent
from capex.models.pilot.scene import Scene, line, path
from capex.models.pilot.skills.flap import (
    FINGERTIP_M,
    STAND_M,
    close_flap,
    draw_back,
    shut_fingers,
    stalls,
)
from capex.models.pilot.skills.stand import line_up
from capex.pose import Array

CLOSE = re.compile(r"close the (.*?) ?(?:door|lid)\.?$", re.I)
FLAPS = ("toaster oven", "oven", "dishwasher")
LEAF_M = 0.60  # from a fridge door's hinge to its handle, about
HANDLE_OFF_M = 0.07  # the handle in front of the leaf's middle
PUSH_AT_M = 0.42  # from the hinge
PUSH_HEIGHT_M = 0.71
THICK_M = 0.0275


def close_door(scene: Scene) -> Asking:
    """One decision of closing a door or a flap."""
    words = CLOSE.search(scene.page.instruction)
    noun = words[1] if words else ""
    return (yield from close_flap(scene) if any(noun.endswith(f) for f in FLAPS) else _door(scene))


# Flaps


# Doors


@dataclass(frozen=True)
class Leaf:
    """A door as seen: its handle, the unit direction from handle to hinge, the hinge, and how far
    it is open.
    """

    hinge: Array
    along: Array  # from hinge to free edge, level
    into: Array  # into the cupboard, square to its front
    side: float  # -1: hinge on the right
    angle: float


def _door(scene: Scene) -> Asking:
    handles = {v.camera: h for v in scene.exterior() if (h := _upright_bar(v)) is not None}
    asks: list[Feature] = []
    if handles:
        asks.append(
            scene.feature(
                "handle",
                {c: [h.along(f) for f in (0.0, -0.5, 0.5)] for c, h in handles.items()},
                0.71,
            )
        )
    faces = {v.camera: s for v in scene.exterior() if (s := _face(v, handles.get(v.camera)))}
    if faces:
        asks.append(scene.feature("face", faces, 0.71))
    drawers = {v.camera: d for v in scene.exterior() if (d := _level_bar(v)) is not None}
    if drawers:
        asks.append(
            scene.feature(
                "drawer",
                {c: [d.along(f) for f in (-0.9, -0.3, 0.3, 0.9)] for c, d in drawers.items()},
                0.13,
            )
        )
    answers = (yield asks) if asks else {}
    leaf = _leaf(answers)
    if leaf is None:
        return draw_back(scene, "I do not see the door's handle and face")
    stand = leaf.hinge + 0.33 * _shut_direction(leaf.into, leaf.side) - STAND_M * leaf.into
    if drive := line_up(scene, stand, leaf.into, 0.10):
        return Intent("Drive in front of the door and face it.", drive=drive)
    return _push(scene, leaf)


def _shut_direction(into: Array, side: float) -> Array:
    """From hinge to handle when the door is shut."""
    return -side * np.array([-into[1], into[0], 0.0])


def _push(scene: Scene, leaf: Leaf) -> Intent:
    """Closed fingers onto the face, then along the arc until it is shut."""
    tip = scene.tip
    turned = math.atan2(leaf.into[1], leaf.into[0])

    def contact(angle: float, gap: float) -> Array:
        """Where the tip touches the outer face at an opening, backed off by a gap along the face's
        normal.
        """
        shut = _shut_direction(leaf.into, leaf.side)
        along = math.cos(angle) * shut - math.sin(angle) * leaf.into
        normal = -math.cos(angle) * leaf.into - math.sin(angle) * shut
        lean = angle - leaf.side * turned
        reach = max(
            FINGERTIP_M * math.cos(lean) + 0.02 * abs(math.sin(lean)),
            -0.045 * math.cos(lean) + 0.10 * abs(math.sin(lean)),
        )
        flat = leaf.hinge + PUSH_AT_M * along + (THICK_M + reach + gap) * normal
        return np.array([flat[0], flat[1], PUSH_HEIGHT_M])

    begin = contact(leaf.angle, 0.03)
    touching = float(np.linalg.norm(tip - contact(leaf.angle, 0.0))) < 0.06
    moves = shut_fingers(scene, "forward")
    start = tip
    if not touching:
        clear = np.array([min(tip[0], begin[0] - 0.02), tip[1], tip[2]])
        beside = np.array([clear[0], begin[1], begin[2]])
        moves += path(tip, [clear, beside, begin], "forward")
        start = begin
    steps = max(1, math.ceil(leaf.angle * PUSH_AT_M / 0.06))
    arc = [contact(leaf.angle * (1 - (k + 1) / steps), -0.015) for k in range(steps)]
    for point in [*arc, contact(0.0, -0.035 - 0.01 * stalls(scene))]:
        moves += line(start, point, "forward", touch=True)
        start = point
    return Intent("Push the door on its face along its arc until it is shut.", tuple(moves))


def _upright_bar(view: View) -> Shape | None:
    """The dark upright bar of a door."""
    dark = view.grey(0.08, 0.05, 0.25) & (np.abs(view.hue - 240) < 25)
    bars = [b for b in looks.bars(view, dark) if abs(b.axes[2][1]) > 0.80]
    return bars[0] if bars else None


def _level_bar(view: View) -> Shape | None:
    """The long dark bar of the drawer under a fridge door: rather level, surrounded by metal."""
    dark = view.grey(0.08, 0.05, 0.34) & (np.abs(view.hue - 240) < 25)
    metal = view.grey(0.035, 0.30, 0.75)
    for bar in looks.bars(view, dark, 0.05):
        rows = np.clip(np.concatenate([bar.rows - 9, bar.rows + 9]), 0, view.height - 1)
        if (
            abs(bar.axes[2][1]) < 0.75
            and float(metal[rows, np.concatenate([bar.columns, bar.columns])].mean()) > 0.6
        ):
            return bar
    return None


def _face(view: View, handle: Shape | None) -> list[Pixel]:
    """Pixels on brushed metal to both sides of the handle."""
    if handle is None:
        return []
    metal = view.grey(0.035, 0.28, 0.80)
    found: list[Pixel] = []
    for fraction in (-0.4, 0.4):
        u, v = handle.along(fraction)
        for du in (-0.22, -0.14, -0.07, 0.07, 0.14, 0.22):
            column, row = int(u + du * view.width), int(v)
            box = (
                metal[max(0, row - 3) : row + 4, max(0, column - 3) : column + 4]
                if 4 <= column < view.width - 4
                else metal[:0]
            )
            if box.size and box.all():
                found.append((column + 0.5, row + 0.5))
    return found


def _leaf(answers: Answers) -> Leaf | None:
    """The door from its handle, the face beside it and the drawer's bar below."""
    handle = answers.get("handle", Found()).agreed(0.10)
    if handle is None:
        return None
    flat = [p for p in answers.get("face", Found()).all() if abs(p[2] - handle[2]) < 0.5]
    into = _drawer_normal(answers)
    along = _face_direction(handle, flat, into)
    if into is None and along is None:
        return None
    if into is None:
        into = np.array([1.0, 0.0, 0.0])
    if along is None:
        return None
    # Hinge to the right of the handle.
    side = -1.0 if float(along @ np.array([into[1], -into[0], 0.0])) > 0 else 1.0
    shut = _shut_direction(into, side)
    away = -along
    angle = float(np.clip(math.atan2(-float(away @ into), float(away @ shut)), 0.0, 1.6))
    normal = -math.cos(angle) * into - math.sin(angle) * shut
    hinge = np.array([handle[0], handle[1], 0.0]) - LEAF_M * away - HANDLE_OFF_M * normal
    return Leaf(hinge, away, into, side, angle)


def _drawer_normal(answers: Answers) -> Array | None:
    """Square to the drawer's bar, away from the robot."""
    points = [p for p in answers.get("drawer", Found()).all() if -0.2 < p[2] < 0.35]
    if len(points) < 2:
        return None
    flat = np.stack(points)[:, :2]
    _, size, directions = np.linalg.svd(flat - flat.mean(axis=0))
    if size[0] < 0.10:
        return None
    along = directions[0]
    into = np.array([-along[1], along[0], 0.0])
    return into if float(into[:2] @ flat.mean(axis=0)) > 0 else -into


def _face_direction(handle: Array, points: list[Array], into: Array | None) -> Array | None:
    """The level direction in which the face runs away from the handle: that of the farthest points
    on one straight line with it.
    """
    best: tuple[int, Array] | None = None
    for point in points:
        offset = (point - handle)[:2]
        distance = float(np.linalg.norm(offset))
        if not 0.10 < distance < 0.75:
            continue
        d = offset / distance
        off = [
            abs(float(d[0] * (p - handle)[1] - d[1] * (p - handle)[0]))
            for p in points
            if float((p - handle)[:2] @ d) > 0.05
        ]
        count = sum(o < 0.06 for o in off)
        if best is None or count > best[0]:
            best = (count, d)
    if best is None or best[0] < 2:
        return None
    d = best[1]
    line_points = np.stack(
        [
            p[:2]
            for p in points
            if float((p - handle)[:2] @ d) > 0.05
            and abs(float(d[0] * (p - handle)[1] - d[1] * (p - handle)[0])) < 0.06
        ]
    )
    if len(line_points) >= 3 and float(np.ptp(line_points @ d)) > 0.12:
        _, _, directions = np.linalg.svd(line_points - line_points.mean(axis=0))
        d = directions[0] if float(directions[0] @ d) > 0 else -directions[0]
    return np.array([d[0], d[1], 0.0])
