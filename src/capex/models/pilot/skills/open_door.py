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

from capex.models.pilot import front, looks, matching
from capex.models.pilot.eyes import Pixel, Shape
from capex.models.pilot.front import Front
from capex.models.pilot.ground import Asking, Found, Intent, Move
from capex.models.pilot.scene import Scene, line, path
from capex.models.pilot.skills.stand import line_up
from capex.plan import Orientation, at
from capex.pose import Array, tilted_forward, yaw_matrix

OPEN = re.compile(r"open the (left|middle|right) cabinet", re.I)
HANDLE_HEIGHT_M = 0.79  # of an upper cabinet
# 1: hangs on its left; two doors with handles side by side open away from each other.
HINGES = {"left": -1.0, "middle": 1.0, "right": -1.0}
LEAF_M = 0.30  # from hinge to handle along the door
HANDLE_OUT_M = 0.059  # the handle before the hinge
OPEN_RAD = 1.70
STEP_RAD = 0.25
STAND_M = 0.60
BESIDE_M = 0.12  # stand this much towards the hinge, out of the door's way
BEFORE_M = 0.09
PAIR_M = 0.12  # handles nearer than this belong to two doors that meet
HANDLE_INTO_M = 0.004  # from the side of a handle that is seen to its middle
# where the depth is only guessed: rather too deep than too shallow, there is room behind it
GUESSED_INTO_M = 0.014
SHUT_BEHIND_M = 0.26  # from the worktop's edge to the handle of a shut door
MOVED_M = 0.08
ALIGNED_M = 0.015


def open_door(scene: Scene) -> Asking:
    """One decision of opening a cabinet's door."""
    words = OPEN.search(scene.page.instruction)
    assert words is not None
    name = words[1].lower()
    side = HINGES[name]
    if scene.page.word == "holding" and scene.forward() and 0.008 < scene.page.opening_m < 0.035:
        asks = front.ask(scene)
        answers = (yield asks) if asks else {}
        return _draw(scene, side, front.fit(answers))
    bars = {
        v.camera: sorted(looks.upright_handles(v)[:4], key=lambda b: b.centre[0])
        for v in scene.views.values()
    }
    asks = [
        *front.ask(scene),
        *matching.ask(
            scene,
            "handle",
            {c: [_spots(b) for b in row] for c, row in bars.items()},
            HANDLE_HEIGHT_M,
        ),
    ]
    answers = (yield asks) if asks else {}
    edge = front.fit(answers)
    into = edge.into if edge is not None else np.array([1.0, 0.0, 0.0])
    handles = matching.places(answers, "handle", _handle, HANDLE_HEIGHT_M, 0.045)
    handle = _moved(handles, edge)
    if handle is None:
        handle = _named(scene, handles, name)
    if handle is None:
        return _look(scene, name)
    handle = handle + (HANDLE_INTO_M if scene.brief.locate else GUESSED_INTO_M) * into
    door = Door.through(handle, into, side, _opening(handle, edge))
    if drive := line_up(
        scene, door.handle(0.0) - STAND_M * into + side * BESIDE_M * door.left, into, 0.08
    ):
        return Intent(f"Drive in front of the {name} cabinet and face it.", drive=drive)
    return _take(scene, handle, door)


@dataclass(frozen=True)
class Door:
    """A door on an upright hinge: where that is, the level direction into the cabinet, and the side
    that it hangs on (1: left).
    """

    hinge: Array
    into: Array
    side: float

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
        flat = (now + earlier)[:2] / 2 + math.sqrt(
            max(LEAF_M**2 + HANDLE_OUT_M**2 - half**2, 0.0)
        ) * across
        return cls(np.array([flat[0], flat[1], now[2]]), into, side)

    @property
    def left(self) -> Array:
        """The level direction along the front, to the left."""
        return np.array([-self.into[1], self.into[0], 0.0])

    def handle(self, angle: float) -> Array:
        """Where the handle is at an opening."""
        shut = -self.side * LEAF_M * self.left - HANDLE_OUT_M * self.into
        return np.asarray(self.hinge + yaw_matrix(-self.side * angle) @ shut)

    def angle(self, handle: Array) -> float:
        """The opening at which the handle is nearest to a place."""
        offset, shut = (handle - self.hinge)[:2], (self.handle(0.0) - self.hinge)[:2]
        return self.side * math.atan2(
            float(offset[0] * shut[1] - offset[1] * shut[0]), float(offset @ shut)
        )

    def arc(self, angle: float, height_m: float) -> list[Move]:
        """The handle's way from an opening on, the hand kept forward."""
        steps = max(1, math.ceil((OPEN_RAD - angle) / STEP_RAD))
        openings = [angle + (OPEN_RAD - angle) * (k + 1) / steps for k in range(steps)]
        return [
            Move(at(np.array([*self.handle(a)[:2], height_m]), self.forward), True)
            for a in openings
        ]

    @property
    def forward(self) -> Orientation:
        """The hand forward, square to the front."""
        roll, pitch, yaw = tilted_forward(0.0, math.atan2(self.into[1], self.into[0]))
        return round(roll), round(pitch), round(yaw)


def _spots(bar: Shape) -> list[Pixel]:
    return [bar.along(f) for f in (-0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75)]


def _handle(found: Found) -> Array | None:
    """A handle's middle: its spots at the right height, those that fell on the door behind it left
    out.
    """
    points = [p for p in found.all() if abs(p[2] - HANDLE_HEIGHT_M) < 0.14 and 0.2 < p[0] < 1.6]
    if len(points) < 2:
        return None
    nearest = float(np.sort([p[0] for p in points])[min(1, len(points) - 1)])
    flat = np.mean([p for p in points if abs(p[0] - nearest) < 0.03], axis=0)
    return np.array([flat[0], flat[1], float(np.median([p[2] for p in points]))])


def _named(scene: Scene, handles: Sequence[Array], name: str) -> Array | None:
    """The handle of the left, middle or right cabinet: the last two are side by side, the first
    stands alone.
    """
    pairs = [
        (a, b)
        for a, b in itertools.pairwise(handles)
        if float(np.linalg.norm((a - b)[:2])) < PAIR_M
    ]
    if len(handles) >= 3:
        return handles[("left", "middle", "right").index(name)]
    if pairs:
        return None if name == "left" else pairs[-1][name == "right"]
    if len(handles) == 2 and name != "right":
        return handles[("left", "middle").index(name)]
    goals = [
        np.array(w.target_cm) / 100
        for w in scene.page.since_base_motion()
        if w.target_cm is not None
    ]
    known = [h for h in handles if any(float(np.linalg.norm((g - h)[:2])) < 0.06 for g in goals)]
    if known:
        return known[0]
    return handles[0] if handles and name == "left" else None


def _ahead(handle: Array, edge: Front | None) -> float:
    """How far before the place of a shut door's handle another is, seen from the worktop's edge."""
    return 0.0 if edge is None else SHUT_BEHIND_M - (float(handle @ edge.into) - edge.distance_m)


def _moved(handles: Sequence[Array], edge: Front | None) -> Array | None:
    """A handle that stands far before the others' place: that of the door that was begun."""
    moved = [h for h in handles if _ahead(h, edge) > MOVED_M]
    return max(moved, key=lambda h: _ahead(h, edge)) if moved else None


def _opening(handle: Array, edge: Front | None) -> float:
    """How far a door is open, from how far its handle has come forward."""
    ahead = _ahead(handle, edge)
    if ahead < MOVED_M:
        return 0.0
    options = np.linspace(0.0, 1.4, 141)
    return float(
        options[
            int(
                np.argmin(
                    np.abs(LEAF_M * np.sin(options) + HANDLE_OUT_M * (np.cos(options) - 1) - ahead)
                )
            )
        ]
    )


def _take(scene: Scene, handle: Array, door: Door) -> Intent:
    """Before the handle, fingers open to both sides of it, forward, close, and along the arc."""
    tip, into, forward = scene.tip, door.into, door.forward
    before = handle - BEFORE_M * into
    aside = float(np.linalg.norm((tip - handle) - float((tip - handle) @ into) * into))
    gap = float((handle - tip) @ into)
    moves: list[Move] = []
    if scene.page.opening_m < 0.07:
        moves.append(Move(at(tip, "keep", "open")))
    if (
        aside < (ALIGNED_M if gap > BEFORE_M - 0.02 else 2 * ALIGNED_M)
        and gap > -0.02
        and scene.forward()
    ):
        moves += (
            [Move(at(tip, forward, "close"), True)]
            if gap < 0.012
            else line(tip, handle, forward, "close", True)
        )
    else:
        back = tip - max(0.0, float((tip - before) @ into)) * into
        beside = before - max(0.0, float((before - back) @ into)) * into
        way = [p for p in (back, beside) if float(np.linalg.norm(before - tip)) > 0.05]
        moves += [
            *path(tip, [*way, before], forward),
            *line(before, handle, forward, "close", True),
        ]
    why = "Take the handle with the hand forward, close, and draw the door open along its arc."
    return Intent(why, (*moves, *door.arc(door.angle(handle), handle[2])))


def _draw(scene: Scene, side: float, edge: Front | None) -> Intent:
    """The handle is held: on along its arc."""
    tip, ahead = scene.tip, scene.page.rotation[:2, 2] / np.linalg.norm(scene.page.rotation[:2, 2])
    into = np.array([ahead[0], ahead[1], 0.0])
    told = [w for w in scene.page.since_base_motion() if w.target_cm is not None]
    goals = [np.array(w.target_cm) / 100 for w in told]
    taken = max((k for k, w in enumerate(told) if w.gripper in ("close", "reclose")), default=None)
    if taken is not None:
        door = Door.through(goals[taken], into, side, _opening(goals[taken], edge))
    elif goals and float(np.linalg.norm((tip - goals[0])[:2])) > 0.05:
        door = Door.between(goals[0], tip, into, side)
    else:
        door = Door.through(tip, into, side, _opening(tip, edge))
    return Intent(
        "I hold the handle: draw the door further along its arc.",
        tuple(door.arc(door.angle(tip), tip[2])),
    )


def _look(scene: Scene, name: str) -> Intent:
    """Not seen: lower the hand and draw it back, out of the line of sight."""
    aside = 0.10 if len(scene.page.acts) and scene.page.acts[-1].number % 2 else -0.10
    goal = np.array([0.36, aside, 0.62])
    return Intent(
        f"I do not see the handle of the {name} cabinet: move the hand aside and look.",
        tuple(path(scene.tip, [goal], "forward")),
    )
