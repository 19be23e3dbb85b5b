"""Open a door by its upright handle: stand before it, take the handle with the hand forward, and draw it along the arc on which it swings.

While the handle is held the hinge follows from where the handle was taken, or from two places on the arc: nothing is remembered.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence

import numpy as np

from capex.models.pilot import front, looks, matching
from capex.models.pilot.eyes import Pixel, Shape
from capex.models.pilot.ground import Asking, Found, Intent, Move
from capex.models.pilot.scene import Scene, line, path
from capex.models.pilot.skills.stand import line_up
from capex.plan import Orientation
from capex.pose import Array, tilted_forward

OPEN = re.compile(r"open the (left|middle|right) cabinet", re.I)
HANDLE_HEIGHT_M = 0.79  # of an upper cabinet
HINGES = {"left": -1.0, "middle": 1.0, "right": -1.0}  # 1: hangs on its left; two doors with handles side by side open away from each other
LEAF_M = 0.30  # from hinge to handle along the door
HANDLE_OUT_M = 0.059  # the handle before the hinge
OPEN_RAD = 1.70
STEP_RAD = 0.25
STAND_M = 0.60
BESIDE_M = 0.12  # stand this much towards the hinge, out of the door's way
BEFORE_M = 0.09
PAIR_M = 0.12  # handles nearer than this belong to two doors that meet
HANDLE_INTO_M = 0.004  # from the side of a handle that is seen to its middle
ALIGNED_M = 0.015


def open_door(scene: Scene) -> Asking:
    """One decision of opening a cabinet's door."""
    words = OPEN.search(scene.page.instruction)
    assert words is not None
    name = words[1].lower()
    if scene.page.word == "holding" and scene.forward() and 0.008 < scene.page.opening_m < 0.035:
        yield []
        return _draw(scene, HINGES[name])
    bars = {v.camera: sorted(looks.upright_handles(v)[:4], key=lambda b: b.centre[0]) for v in scene.views.values()}
    asks = [*front.ask(scene), *matching.ask(scene, "handle", {c: [_spots(b) for b in row] for c, row in bars.items()}, HANDLE_HEIGHT_M)]
    answers = (yield asks) if asks else {}
    edge = front.fit(answers)
    into = edge.into if edge is not None else np.array([1.0, 0.0, 0.0])
    handles = matching.places(answers, "handle", _handle, HANDLE_HEIGHT_M, 0.045)
    handle = _named(scene, handles, name)
    if handle is None:
        return _look(scene, name)
    handle = handle + HANDLE_INTO_M * into
    left = np.array([-into[1], into[0], 0.0])
    if drive := line_up(scene, handle - STAND_M * into + HINGES[name] * BESIDE_M * left, into, 0.08):
        return Intent(f"Drive in front of the {name} cabinet and face it.", drive=drive)
    return _take(scene, handle, into, HINGES[name])


def _spots(bar: Shape) -> list[Pixel]:
    return [bar.along(f) for f in (-0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75)]


def _handle(found: Found) -> Array | None:
    """A handle's middle: its spots at the right height, those that fell on the door behind it left out."""
    points = [p for p in found.all() if abs(p[2] - HANDLE_HEIGHT_M) < 0.14 and 0.2 < p[0] < 1.6]
    if len(points) < 2:
        return None
    nearest = float(np.sort([p[0] for p in points])[min(1, len(points) - 1)])
    flat = np.mean([p for p in points if abs(p[0] - nearest) < 0.03], axis=0)
    return np.array([flat[0], flat[1], float(np.median([p[2] for p in points]))])


def _named(scene: Scene, handles: Sequence[Array], name: str) -> Array | None:
    """The handle of the left, middle or right cabinet: the last two are side by side, the first stands alone."""
    pairs = [(a, b) for a, b in itertools.pairwise(handles) if float(np.linalg.norm((a - b)[:2])) < PAIR_M]
    if len(handles) >= 3:
        return handles[("left", "middle", "right").index(name)]
    if pairs:
        return None if name == "left" else pairs[-1][name == "right"]
    if len(handles) == 2 and name != "right":
        return handles[("left", "middle").index(name)]
    goals = [np.array(w.target_cm) / 100 for w in scene.page.since_base_motion() if w.target_cm is not None]
    known = [h for h in handles if any(float(np.linalg.norm((g - h)[:2])) < 0.06 for g in goals)]
    if known:
        return known[0]
    return handles[0] if handles and name == "left" else None


def _take(scene: Scene, handle: Array, into: Array, side: float) -> Intent:
    """Before the handle, fingers open to both sides of it, forward, close, and along the arc."""
    tip = scene.tip
    heading = math.atan2(into[1], into[0])
    forward = _forward(heading)
    before = handle - BEFORE_M * into
    aside = float(np.linalg.norm((tip - handle) - float((tip - handle) @ into) * into))
    gap = float((handle - tip) @ into)
    moves: list[Move] = []
    if scene.page.opening_m < 0.07:
        moves.append(Move(tip, "keep", "open"))
    if aside < (ALIGNED_M if gap > BEFORE_M - 0.02 else 2 * ALIGNED_M) and gap > -0.02 and scene.forward():
        moves += [Move(tip, forward, "close", True)] if gap < 0.012 else line(tip, handle, forward, "close", True)
    else:
        back = tip - max(0.0, float((tip - before) @ into)) * into
        beside = before - max(0.0, float((before - back) @ into)) * into
        way = [p for p in (back, beside) if float(np.linalg.norm(before - tip)) > 0.05]
        moves += [*path(tip, [*way, before], forward), *line(before, handle, forward, "close", True)]
    hinge = _hinge(handle, into, side)
    return Intent(
        "Take the handle with the hand forward, close, and draw the door open along its arc.",
        (*moves, *_arc(handle, hinge, 0.0, into, side, forward)),
    )


def _draw(scene: Scene, side: float) -> Intent:
    """The handle is held: on along its arc."""
    tip, ahead = scene.tip, scene.page.rotation[:2, 2] / np.linalg.norm(scene.page.rotation[:2, 2])
    into = np.array([ahead[0], ahead[1], 0.0])
    told = [w for w in scene.page.since_base_motion() if w.target_cm is not None]
    taken = max((k for k, w in enumerate(told) if w.gripper in ("close", "reclose")), default=None)
    if taken is not None:
        hinge = _hinge(np.array(told[taken].target_cm) / 100, into, side)
    elif told and float(np.linalg.norm((tip - np.array(told[0].target_cm) / 100)[:2])) > 0.05:
        hinge = _hinge_between(np.array(told[0].target_cm) / 100, tip, side)
    else:
        hinge = _hinge(tip, into, side)
    offset = (tip - hinge)[:2]
    shut = (_closed(hinge, into, side) - hinge)[:2]
    angle = side * math.atan2(float(offset[0] * shut[1] - offset[1] * shut[0]), float(offset @ shut))
    return Intent(
        "I hold the handle: draw the door further along its arc.",
        tuple(_arc(tip, hinge, angle, into, side, _forward(math.atan2(into[1], into[0])))),
    )


def _forward(heading: float) -> Orientation:
    roll, pitch, yaw = tilted_forward(0.0, heading)
    return round(roll), round(pitch), round(yaw)


def _hinge(handle: Array, into: Array, side: float) -> Array:
    """Where the hinge is when the door is shut."""
    left = np.array([-into[1], into[0], 0.0])
    return np.asarray(handle + side * LEAF_M * left + HANDLE_OUT_M * into)


def _closed(hinge: Array, into: Array, side: float) -> Array:
    left = np.array([-into[1], into[0], 0.0])
    return np.asarray(hinge - side * LEAF_M * left - HANDLE_OUT_M * into)


def _hinge_between(earlier: Array, now: Array, side: float) -> Array:
    """The hinge from two places of the handle: the middle of the circle of the door's radius through both, on the hinge's side."""
    chord = (now - earlier)[:2]
    half = float(np.linalg.norm(chord)) / 2
    radius = math.hypot(LEAF_M, HANDLE_OUT_M)
    across = np.array([chord[1], -chord[0]]) / (2 * half) * side
    flat = (now + earlier)[:2] / 2 + math.sqrt(max(radius**2 - half**2, 0.0)) * across
    return np.array([flat[0], flat[1], now[2]])


def _arc(start: Array, hinge: Array, angle: float, into: Array, side: float, forward: Orientation) -> list[Move]:
    """Where the handle passes from an opening on."""
    shut = (_closed(hinge, into, side) - hinge)[:2]
    steps = max(1, math.ceil((OPEN_RAD - angle) / STEP_RAD))
    moves = []
    for k in range(steps):
        turned = -side * (angle + (OPEN_RAD - angle) * (k + 1) / steps)
        c, s = math.cos(turned), math.sin(turned)
        moves.append(
            Move(np.array([hinge[0] + c * shut[0] - s * shut[1], hinge[1] + s * shut[0] + c * shut[1], start[2]]), forward, "keep", True)
        )
    return moves


def _look(scene: Scene, name: str) -> Intent:
    """Not seen: lower the hand and draw it back, out of the line of sight."""
    aside = 0.10 if len(scene.page.told) % 2 else -0.10
    goal = np.array([0.36, aside, 0.62])
    return Intent(
        f"I do not see the handle of the {name} cabinet: move the hand aside and look.", tuple(path(scene.tip, [goal], "forward"))
    )
