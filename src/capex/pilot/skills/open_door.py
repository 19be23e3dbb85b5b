"""Open a door by its upright handle: stand before it, take the handle with the hand forward, and
draw it along the arc on which it swings.

While the handle is held the hinge follows from where the handle was taken, or from two places on
the arc: nothing is remembered.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from capex.pilot import appearance, matching, worktop_front
from capex.pilot.grounding import (
    Asking,
    Intent,
    Located,
    Move,
    apart,
    apart_level,
    heading,
    left_of,
)
from capex.pilot.scene import THERE_M, Scene, forward, line, path
from capex.pilot.segmentation import Pixel, View
from capex.pilot.skills.base_position import line_up
from capex.pilot.worktop_front import Front
from capex.plan import Orientation, at
from capex.pose import Array, yaw_matrix

HANDLE_HEIGHT_M = 0.79  # of an upper cabinet
# 1: hangs on its left; two doors with handles side by side open away from each other.
HINGES = {"left": -1.0, "middle": 1.0, "right": -1.0}
HELD_M = (0.008, 0.035)  # between fingers that hold a handle
LEAF_M = 0.30  # from hinge to handle along the door
HANDLE_OUT_M = 0.059  # the handle before the hinge
OPEN_RAD = 1.70  # farther than a task asks for: the end of the arc is not always reached
STEP_RAD = 0.25  # of the arc between two waypoints: 7.5 cm at the handle, less than a leg
STAND_M = 0.60  # from the mount to a shut door's handle: within reach along the whole arc
BESIDE_M = 0.12  # stand this much towards the hinge, out of the door's way
BEFORE_M = 0.09  # open fingers line up this far before a handle: one leg
PAIR_M = 0.12  # handles nearer than this belong to two doors that meet
HANDLE_INTO_M = 0.004  # from the side of a handle that is seen to its middle
# where the depth is only guessed: rather too deep than too shallow, there is room behind it
GUESSED_INTO_M = 0.014
SHUT_BEHIND_M = 0.26  # from the worktop's edge to the handle of a shut door
MOVED_M = 0.08  # a handle this far before that place has been drawn: the look is off by less
BEHIND_M = 0.12  # a bar this far behind that place is no handle but a faucet
ALIGNED_M = 0.015  # open fingers have more than 3 cm to spare on each side of a handle


def open_door(scene: Scene, words: re.Match[str]) -> Asking:
    """One decision of opening a cabinet's door."""
    name = words[1].lower()
    side = HINGES[name]
    if scene.page.holding and scene.forward() and HELD_M[0] < scene.page.opening_m < HELD_M[1]:
        answers = yield worktop_front.ask(scene)
        return _draw(scene, side, worktop_front.fit(answers))
    seen = {v.camera: _bars(v) for v in scene.views.values()}
    answers = yield [
        *worktop_front.ask(scene),
        *matching.ask(scene, "handle", seen, HANDLE_HEIGHT_M),
    ]
    edge = worktop_front.fit(answers)
    into = worktop_front.direction(edge)
    bars = matching.places(answers, "handle", _handle, HANDLE_HEIGHT_M, 0.045)
    handles = [h for h in bars if _ahead(h, edge) > -BEHIND_M]
    handle = _moved(handles, edge)
    if handle is None:
        handle = _named(scene, handles, name)
    if handle is None:
        # Lower the hand and draw it back, out of the line of sight.
        goal = np.array([0.36, 0.10 if scene.page.odd else -0.10, 0.62])
        why = f"I do not see the handle of the {name} cabinet: move the hand aside and look."
        return Intent(why, path(scene.tip, [goal], "forward"))
    handle = handle + (HANDLE_INTO_M if scene.brief.locate else GUESSED_INTO_M) * into
    door = Door.through(handle, into, side, _opening(handle, edge))
    stand = door.handle(0.0) - STAND_M * into + side * BESIDE_M * left_of(into)
    if drive := line_up(scene, stand, into, 0.08):
        return Intent(f"Drive in front of the {name} cabinet and face it.", drive=drive)
    return _take(scene, handle, door)


@dataclass(frozen=True)
class Door:
    """A door on an upright hinge."""

    hinge: Array
    into: Array  # the level direction into the cabinet
    side: float  # that it hangs on; 1: left

    @classmethod
    def through(cls, handle: Array, into: Array, side: float, angle: float) -> Door:
        """The door whose handle is at a place when it is open by an angle."""
        start = cls(np.zeros(3), into, side)
        return cls(np.array([*(handle - start.handle(angle))[:2], handle[2]]), into, side)

    @classmethod
    def between(cls, earlier: Array, now: Array, into: Array, side: float) -> Door:
        """From two places of the handle: the hinge is the middle of the circle of the door's radius
        through both, on the hinge's side.
        """
        chord = (now - earlier)[:2]
        half = float(np.linalg.norm(chord)) / 2
        across = np.array([chord[1], -chord[0]]) / (2 * half) * side
        height = math.sqrt(max(LEAF_M**2 + HANDLE_OUT_M**2 - half**2, 0.0))  # over the chord
        flat = (now + earlier)[:2] / 2 + height * across
        return cls(np.array([flat[0], flat[1], now[2]]), into, side)

    def handle(self, angle: float) -> Array:
        """Where the handle is at an opening."""
        shut = -self.side * LEAF_M * left_of(self.into) - HANDLE_OUT_M * self.into
        return np.asarray(self.hinge + yaw_matrix(-self.side * angle) @ shut)

    def angle(self, handle: Array) -> float:
        """The opening at which the handle is nearest to a place."""
        offset, shut = (handle - self.hinge)[:2], (self.handle(0.0) - self.hinge)[:2]
        cross = float(offset[0] * shut[1] - offset[1] * shut[0])
        return self.side * math.atan2(cross, float(offset @ shut))

    def arc(self, handle: Array) -> list[Move]:
        """The handle's way from a place on, at its height, the hand kept forward."""
        angle = self.angle(handle)
        steps = max(1, math.ceil((OPEN_RAD - angle) / STEP_RAD))
        openings = [angle + (OPEN_RAD - angle) * (k + 1) / steps for k in range(steps)]
        points = [np.array([*self.handle(a)[:2], handle[2]]) for a in openings]
        return [Move(at(p, self.forward), True) for p in points]

    @property
    def forward(self) -> Orientation:
        """The hand forward, square to the front."""
        return forward(heading(self.into))


def _bars(view: View) -> list[list[Pixel]]:
    """Several pixels of each of the longest upright handles, left to right."""
    bars = sorted(appearance.upright_handles(view)[:4], key=lambda b: b.centre[0])
    return [b.spots((-0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75)) for b in bars]


def _handle(located: Located) -> Array | None:
    """A handle's middle: its spots at the right height, those that fell on the door behind it left
    out.
    """
    points = [p for p in located.all() if abs(p[2] - HANDLE_HEIGHT_M) < 0.14 and 0.2 < p[0] < 1.6]
    if len(points) < 2:
        return None
    nearest = float(np.sort([p[0] for p in points])[1])
    flat = np.mean([p for p in points if abs(p[0] - nearest) < 0.03], axis=0)
    return np.array([flat[0], flat[1], float(np.median([p[2] for p in points]))])


def _named(scene: Scene, handles: Sequence[Array], name: str) -> Array | None:
    """The handle of the left, middle or right cabinet: the last two are side by side, the first
    stands alone.
    """
    if len(handles) >= 3:
        return handles[("left", "middle", "right").index(name)]
    if pairs := [(a, b) for a, b in itertools.pairwise(handles) if apart_level(a, b) < PAIR_M]:
        return None if name == "left" else pairs[-1][name == "right"]
    if len(handles) == 2 and name != "right":
        return handles[("left", "middle").index(name)]
    goals = scene.page.goals_m()
    known = [h for h in handles if any(apart_level(g, h) < 0.06 for g in goals)]
    if known:
        return known[0]
    return handles[0] if handles and name == "left" else None


def _ahead(handle: Array, edge: Front | None) -> float:
    """How far before the place of a shut door's handle another is, seen from the worktop's edge."""
    return 0.0 if edge is None else SHUT_BEHIND_M - (float(handle @ edge.into) - edge.distance_m)


def _moved(handles: Sequence[Array], edge: Front | None) -> Array | None:
    """A handle that stands far before the others' place: that of the door that was begun."""
    moved = [h for h in handles if _ahead(h, edge) > MOVED_M]
    return max(moved, key=lambda h: _ahead(h, edge), default=None)


def _opening(handle: Array, edge: Front | None) -> float:
    """How far a door is open, from how far its handle has come forward."""
    ahead = _ahead(handle, edge)
    if ahead < MOVED_M:
        return 0.0
    options = np.linspace(0.0, 1.4, 141)
    forward_m = LEAF_M * np.sin(options) + HANDLE_OUT_M * (np.cos(options) - 1)
    return float(options[int(np.argmin(np.abs(forward_m - ahead)))])


def _take(scene: Scene, handle: Array, door: Door) -> Intent:
    """Before the handle, fingers open to both sides of it, forward, close, and along the arc."""
    tip, into, square = scene.tip, door.into, door.forward
    before = handle - BEFORE_M * into
    aside = apart(tip - handle, float((tip - handle) @ into) * into)
    gap = float((handle - tip) @ into)
    moves = scene.opened()
    lined_up = aside < (ALIGNED_M if gap > BEFORE_M - 0.02 else 2 * ALIGNED_M) and gap > -0.02
    if not lined_up or not scene.forward():
        back = tip - max(0.0, float((tip - before) @ into)) * into
        beside = before - max(0.0, float((before - back) @ into)) * into
        way = [back, beside, before] if apart(before, tip) > 0.05 else [before]
        moves += [*path(tip, way, square), *line(before, handle, square, "close", True)]
    elif gap < THERE_M:
        moves += [Move(at(tip, square, "close"), True)]
    else:
        moves += line(tip, handle, square, "close", True)
    why = "Take the handle with the hand forward, close, and draw the door open along its arc."
    return Intent(why, [*moves, *door.arc(handle)])


def _draw(scene: Scene, side: float, edge: Front | None) -> Intent:
    """The handle is held: on along its arc."""
    tip, into = scene.tip, scene.axis(2)
    sent = [w for w in scene.page.since_base_motion() if w.target_cm is not None]
    goals = scene.page.goals_m()
    closes = [g for w, g in zip(sent, goals, strict=True) if w.gripper in ("close", "reclose")]
    if not closes and goals and apart_level(tip, goals[0]) > 0.05:
        door = Door.between(goals[0], tip, into, side)
    else:
        taken = closes[-1] if closes else tip
        door = Door.through(taken, into, side, _opening(taken, edge))
    return Intent("I hold the handle: draw the door further along its arc.", door.arc(tip))
