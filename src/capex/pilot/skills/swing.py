"""Swing a door or a lid: line the base up, closed fingers onto it near its free edge, then along
the arc on which it travels.

Two kinds: a door on a vertical hinge is pushed on its face beside the handle, a flap on a hinge
along its lower edge is lifted and pushed by its bar (flap.py). The angle comes from what is seen:
the leaf against the front it belongs to.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np

from capex.pilot import appearance
from capex.pilot.grounding import AHEAD, Answers, Asking, Intent, apart, heading, left_of
from capex.pilot.scene import FINGER_END_M, Scene, path, push
from capex.pilot.segmentation import Pixel, Region, View, find
from capex.pilot.skills.base_position import line_up
from capex.pilot.skills.flap import STAND_M, close_flap, draw_back, stalls
from capex.pose import Array

FLAPS = ("toaster oven", "oven", "dishwasher")
HEIGHT_M = 0.71  # of a fridge door's handle, over the mount; the face is pushed there too
DRAWER_M = 0.13  # height of the drawer below the door
LEAF_M = 0.60  # from a fridge door's hinge to its handle, about
HANDLE_OFF_M = 0.07  # the handle in front of the leaf's middle
PUSH_AT_M = 0.42  # from the hinge: beside the handle, with a long lever
STAND_AT_M = 0.33  # from the hinge along the shut door, where the robot stands before it
THICK_M = 0.0275  # half a leaf
STEP_M = 0.06  # of the arc between two waypoints
ON_FACE_M = 0.06  # a spot on the face lies this near to a line through the handle
BESIDE = (-0.22, -0.14, -0.07, 0.07, 0.14, 0.22)  # of the image's width: from the handle on


@dataclass(frozen=True)
class Leaf:
    """A door as seen."""

    hinge: Array
    into: Array  # into the cupboard, square to its front
    side: float  # -1: hinge on the right
    angle: float  # how far it is open

    @property
    def shut(self) -> Array:
        """The level direction from hinge to handle when the door is shut."""
        return -self.side * left_of(self.into)


def close_door(scene: Scene, words: re.Match[str]) -> Asking:
    """One decision of closing a door or a flap."""
    is_flap = any(words[1].endswith(f) for f in FLAPS)
    return (yield from close_flap(scene) if is_flap else _close_leaf(scene))


def _close_leaf(scene: Scene) -> Asking:
    handles = find(scene.exterior(), _upright_bar)
    drawers = find(scene.exterior(), _level_bar)
    faces = find(scene.exterior(), lambda v: _face(v, handles.get(v.camera)))
    bars = {c: h.spots((0.0, -0.5, 0.5)) for c, h in handles.items()}
    below = {c: d.spots((-0.9, -0.3, 0.3, 0.9)) for c, d in drawers.items()}
    asks = [*scene.ask("handle", bars, HEIGHT_M), *scene.ask("face", faces, HEIGHT_M)]
    answers = yield [*asks, *scene.ask("drawer", below, DRAWER_M)]
    leaf = _leaf(answers)
    if leaf is None:
        return draw_back(scene, "I do not see the door's handle and face")
    stand = leaf.hinge + STAND_AT_M * leaf.shut - STAND_M * leaf.into
    if drive := line_up(scene, stand, leaf.into, 0.10):
        return Intent("Drive in front of the door and face it.", drive=drive)
    return _push(scene, leaf)


def _push(scene: Scene, leaf: Leaf) -> Intent:
    """Closed fingers onto the face, then along the arc until it is shut."""
    tip, turned = scene.tip, heading(leaf.into)

    def contact(angle: float, gap: float) -> Array:
        """Where the tip touches the face at an opening, backed off by a gap along its normal."""
        along = math.cos(angle) * leaf.shut - math.sin(angle) * leaf.into
        normal = -math.cos(angle) * leaf.into - math.sin(angle) * leaf.shut
        lean = angle - leaf.side * turned
        # Square to the face the fingertips touch first, aslant the side of the hand behind them.
        fingers = FINGER_END_M * math.cos(lean) + 0.02 * abs(math.sin(lean))
        hand = -0.045 * math.cos(lean) + 0.10 * abs(math.sin(lean))
        flat = leaf.hinge + PUSH_AT_M * along + (THICK_M + max(fingers, hand) + gap) * normal
        return np.array([flat[0], flat[1], HEIGHT_M])

    begin, start = contact(leaf.angle, 0.03), tip
    moves = scene.shut("forward")
    if apart(tip, contact(leaf.angle, 0.0)) >= 0.06:
        clear = np.array([min(tip[0], begin[0] - 0.02), tip[1], tip[2]])
        beside = np.array([clear[0], begin[1], begin[2]])
        moves += path(tip, [clear, beside, begin], "forward")
        start = begin
    steps = max(1, math.ceil(leaf.angle * PUSH_AT_M / STEP_M))
    arc = [contact(leaf.angle * (1 - (k + 1) / steps), -0.015) for k in range(steps)]
    end = contact(0.0, -0.035 - 0.01 * stalls(scene))
    why = "Push the door on its face along its arc until it is shut."
    return Intent(why, [*moves, *push(start, [*arc, end], "forward")])


def _upright_bar(view: View) -> Region | None:
    """The dark upright bar of a door, or else one of another colour before its metal."""
    dark = view.grey(0.08, 0.05, 0.25) & (np.abs(view.hue - 240) < 25)
    bars = [b for b in appearance.bars(view, dark) if abs(b.axes[2][1]) > 0.80]
    return next(iter(bars or _on_metal(view)), None)


def _on_metal(view: View) -> list[Region]:
    """Upright bars of another colour, or of darker metal, with brushed metal along a side."""
    metal = view.grey(0.035, 0.28, 0.80)
    other = (view.saturation > 0.15) & (view.value > 0.2) | view.grey(0.08, 0.05, 0.36)
    off = round(0.018 * view.width)
    found = []
    for bar in appearance.bars(view, other, 0.05):
        columns = [np.clip(bar.columns + du, 0, view.width - 1) for du in (-off, off)]
        shares = [float(metal[bar.rows, beside].mean()) for beside in columns]
        if abs(bar.axes[2][1]) > 0.80 and max(shares) > 0.7:
            found.append(bar)
    return found


def _level_bar(view: View) -> Region | None:
    """The long dark bar of the drawer under a fridge door: rather level, surrounded by metal."""
    dark = view.grey(0.08, 0.05, 0.34) & (np.abs(view.hue - 240) < 25)
    metal = view.grey(0.035, 0.30, 0.75)
    level = [b for b in appearance.bars(view, dark, 0.05) if abs(b.axes[2][1]) < 0.75]
    return next((b for b in level if b.share_beside(metal, -9, 9) > 0.6), None)


def _face(view: View, handle: Region | None) -> list[Pixel]:
    """Pixels on brushed metal to both sides of the handle."""
    metal = view.grey(0.035, 0.28, 0.80)
    pixels: list[Pixel] = []
    for u, v in handle.spots((-0.4, 0.4)) if handle is not None else ():
        for du in BESIDE:
            column, row = int(u + du * view.width), int(v)
            box = metal[max(0, row - 3) : row + 4, max(0, column - 3) : column + 4]
            if 4 <= column < view.width - 4 and box.size and box.all():
                pixels.append((column + 0.5, row + 0.5))
    return pixels


def _leaf(answers: Answers) -> Leaf | None:
    """The door from its handle, the face beside it and the drawer's bar below."""
    handle = answers["handle"].agreed(0.10)
    if handle is None:
        return None
    flat = [p for p in answers["face"].all() if abs(p[2] - handle[2]) < 0.5]
    along = _face_direction(handle, flat)
    if along is None:
        return None
    normal = _drawer_normal(answers)
    into = AHEAD if normal is None else normal
    side = -1.0 if float(along @ left_of(into)) < 0 else 1.0  # -1: hinge right of the handle
    shut, away = -side * left_of(into), -along
    angle = float(np.clip(math.atan2(-float(away @ into), float(away @ shut)), 0.0, 1.6))
    outwards = -math.cos(angle) * into - math.sin(angle) * shut
    hinge = np.array([handle[0], handle[1], 0.0]) - LEAF_M * away - HANDLE_OFF_M * outwards
    return Leaf(hinge, into, side, angle)


def _drawer_normal(answers: Answers) -> Array | None:
    """Square to the drawer's bar, away from the robot."""
    points = [p for p in answers["drawer"].all() if -0.2 < p[2] < 0.35]
    if len(points) < 2:
        return None
    flat = np.stack(points)[:, :2]
    _, size, directions = np.linalg.svd(flat - flat.mean(axis=0))
    if size[0] < 0.10:
        return None
    into = left_of(directions[0])
    return into if float(into[:2] @ flat.mean(axis=0)) > 0 else -into


def _face_direction(handle: Array, points: list[Array]) -> Array | None:
    """The level direction in which the face runs away from the handle: that of the farthest points
    on one straight line with it.
    """
    offsets = [(p - handle)[:2] for p in points]
    best: list[int] = []
    d: Array = np.zeros(2)
    for offset in offsets:
        distance = float(np.linalg.norm(offset))
        if not 0.10 < distance < 0.75:
            continue
        way = offset / distance
        ahead = [k for k, o in enumerate(offsets) if float(o @ way) > 0.05]
        on = [
            k
            for k in ahead
            if abs(float(way[0] * offsets[k][1] - way[1] * offsets[k][0])) < ON_FACE_M
        ]
        if len(on) > len(best):
            best, d = on, way
    if len(best) < 2:
        return None
    flat = np.stack([points[k][:2] for k in best])
    if len(flat) >= 3 and float(np.ptp(flat @ d)) > 0.12:
        _, _, directions = np.linalg.svd(flat - flat.mean(axis=0))
        d = directions[0] if float(directions[0] @ d) > 0 else -directions[0]
    return np.array([d[0], d[1], 0.0])
