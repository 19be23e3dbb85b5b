"""The guard's rule for a hand: how far it may tilt, and that no part of it comes below the floor or
into a keep-out, at a goal and on the way there. Pure, for one arm and one tick.

A part that is already below or inside (the arm was pushed there) may only come out, and while it
was measured there its goal comes no nearer: an arm that sags is not led deeper.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from capex.pose import Array, Pose, angle_between
from capex.rigs.rigfile import GuardPolicy
from capex.rigs.shapes import hull_of, length, less_tilted, poses_between, tilt_rad

LOOK_M = 0.005  # between two looks at a hand that passes a keep-out
PARTS = (0.5, 0.25, 0.125)  # of a tick that is blocked, tried in turn
TOLERANCE = 1e-9


class HandRule:
    """Where the hand of an arm may be next, from the last goal and the measured tip. What joints
    were solved for is right but for `slack_m` and `slack_rad`.
    """

    def __init__(
        self,
        policy: GuardPolicy,
        arm: str,
        start: Pose,
        tip: Pose,
        slack_m: float = 0.0,
        slack_rad: float = 0.0,
    ):
        self._policy, self._start, self._tip, self._slack_m = policy, start, tip, slack_m
        self._hull, self._floor_m = hull_of(policy.hand(arm)), policy.floor(arm)
        most_rad = math.radians(policy.max_tilt_deg) + slack_rad
        self._most_rad = max(most_rad, tilt_rad(start.rotation))
        at_m = np.array([start.position_m, tip.position_m])
        gaps = self._gaps(at_m, np.array([start.rotation, tip.rotation]))
        self._at_start, self._at_tip = gaps
        # What is not known exactly cannot be held against a pose below the floor, only against it.
        below = (self._at_tip < 0.0) & (slack_m == 0.0)
        self._least = np.where(below, self._at_start, np.minimum(self._at_start, 0.0))

    def upright(self, rotation: Array) -> Array:
        """The rotation, turned back where it tilts too far; the same object where it does not."""
        return less_tilted(rotation, self._most_rad)

    @property
    def tilt_held(self) -> str:
        """The note for a tilt that was cut."""
        return f"tilt held at {self._policy.max_tilt_deg:g} deg"

    def raised(self, rotation: Array) -> tuple[float, str]:
        """How high the tip must be, with this rotation, for the hand to be above the floor, and the
        note about the part that needs it.
        """
        lowest_m, part = self._hull.lowest_m(rotation)
        floor_m = self._floor_m
        if self._at_tip[0].min() < 0.0:
            floor_m += max(0.0, float(self._at_start[0].min()))
        return floor_m - lowest_m, f"{part} held above the floor"

    def blocked(self, goal: Pose) -> str:
        """Why the hand may not go to a goal, as a note, or nothing."""
        start = self._start
        if tilt_rad(goal.rotation) > self._most_rad + TOLERANCE:
            return self.tilt_held
        moves = [_moved(start, goal), _moved(self._tip, goal)]
        if sum(moves[0]) < TOLERANCE:
            return ""
        at_goal = self._gaps(goal.position_m[None], goal.rotation[None])[0]
        if (short := at_goal - self._least).min() < -TOLERANCE:
            return self._note(short)
        # Straight ways between two poses above the floor stay above it, but for the arc of a turn:
        # less than a millimetre. A keep-out needs looks on the way where it is that near.
        for pose, gaps, (move_m, turn_rad) in zip(
            (start, self._tip), (self._at_start, self._at_tip), moves, strict=True
        ):
            way_m = move_m + turn_rad * self._hull.reach_m
            looks = math.ceil(way_m / LOOK_M)
            if looks < 2 or (gaps + at_goal)[1:].min(initial=math.inf) >= way_m:
                continue
            way = poses_between(pose, goal, np.arange(1, looks) / looks)
            least = np.minimum(np.minimum(gaps, self._at_start), 0.0)
            short = (self._gaps(*way) - least).min(axis=0)
            short[0] = 0.0
            if short.min() < -TOLERANCE:
                return self._note(short)
        return ""

    def _gaps(self, at_m: Array, rotations: Array) -> Array:
        gaps = self._hull.gaps_m(self._floor_m, self._policy.keep_out, at_m, rotations)
        return gaps + self._slack_m

    def _note(self, short: Array) -> str:
        """Which part is kept from what: where most is missing."""
        row, part = np.unravel_index(int(short.argmin()), short.shape)
        name = self._hull.names[part]
        if row == 0:
            return f"{name} held above the floor"
        return f"{name} kept out of {self._policy.keep_out[row - 1].name}"


def as_far_as(goal: Pose, start: Pose, blocked: Callable[[Pose], str]) -> tuple[Pose, list[str]]:
    """The goal, or as much of the tick as is not blocked: a part of the way, the move without the
    turn, the turn without the move, or nothing; and the note why.
    """
    if not (note := blocked(goal)):
        return goal, []
    at_m, rotations = poses_between(start, goal, np.array(PARTS))
    parts = [Pose(a, r) for a, r in zip(at_m, rotations, strict=True)]
    alone = Pose(goal.position_m, start.rotation), Pose(start.position_m, goal.rotation)
    return next((tried for tried in (*parts, *alone) if not blocked(tried)), start), [note]


def _moved(one: Pose, other: Pose) -> tuple[float, float]:
    return length(other.position_m - one.position_m), angle_between(one.rotation, other.rotation)
