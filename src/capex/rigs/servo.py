"""The servo of an arm: steps relative to the measured tip in, goals for the driver out.

A step on the measured pose never lifts an arm that sags: the goal m + s lies lower than what the
arm needs to stay where it is. So the servo keeps a goal of its own,

    g = p + b,

the reference p, which walks to where the steps lead, and the bias b, what has to be added so that
the arm stands at its reference. With m the measured tip, v its motion over the last tick, s the
step that is asked for and c the largest one:

    p moves towards m + s by at most c    where |s| < c: the end of the motion is in sight; along
                                          each axis by STEADY s at most, or steps to the side drift
    p moves by s, at most `walk` from m   otherwise
    b grows by GAIN of what is missing, p - m, less LAG_TICKS v: what a lag explains is no bias;
      it gives back by RELEASE, and stays below BIAS_PART of the lead

and |g - m| stays within the lead. The same holds for turns, written as rotation vectors about m.
Nothing here depends on time: equal readings and steps give equal goals. Step responses:
`benchmarks/servo_response.py`. An arm whose answer comes two ticks late or more overshoots by up to
two steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from capex.pose import Array, Pose, angle_between, rotation_matrix, rotation_vector
from capex.rigs.shapes import length
from capex.worlds import ArmCommand

LEAD_STEPS = 2.5  # of the reference, in steps: an arm that lags by three ticks keeps 70 % of speed
LEAD_PART = 0.4  # and at most this part of the lead, but one step: large steps overshoot sooner
LAG_TICKS = 3.0  # a lag up to so many ticks is not taken for a sag
STEADY = 2.0  # times the step: a part of it that is nearly 0 leaves the reference where it is
GAIN = 0.12  # times LAG_TICKS below 1/2, or the bias rings
RELEASE = 0.3  # a bias that was learned against an obstacle goes faster than it came
BIAS_PART = 0.7  # of the lead; the rest is left for moving


@dataclass(frozen=True)
class ServoLimits:
    """What one command may carry, how far a goal may stand ahead of the measured pose, and how far
    it may move in a tick.
    """

    step_m: float
    step_rad: float
    lead_m: float
    lead_rad: float
    goal_step_m: float = math.inf
    goal_step_rad: float = math.inf


class _Channel:
    """Three numbers, of position or of turning; everything relative to the measured pose."""

    def __init__(self, step: float, lead: float):
        self._step, self._lead = step, lead
        self._walk = max(step, min(LEAD_STEPS * step, LEAD_PART * lead))
        self.bias: Array = np.zeros(3)

    def advance(self, ahead: Array, moved: Array, wanted: Array, *, pressing: bool) -> Array:
        """The reference's new place ahead of the measured pose; the bias learns on the way."""
        wanted = shortened(wanted, self._step)
        if length(wanted) < self._step * (1 - 1e-6):
            back = shortened(wanted - ahead, self._step)
            ahead = ahead + np.clip(back, -STEADY * np.abs(wanted), STEADY * np.abs(wanted))
        else:
            ahead = shortened(ahead + wanted, self._walk)
        self._learn(ahead, moved, pressing)
        return ahead

    def _learn(self, ahead: Array, moved: Array, pressing: bool) -> None:
        side = np.sign(ahead)
        missing = np.maximum(0.0, np.abs(ahead) - LAG_TICKS * np.maximum(0.0, moved * side))
        gives_back = side * self.bias < 0.0
        gain = np.where(gives_back, RELEASE, 0.0 if pressing else GAIN)
        self.bias = shortened(self.bias + gain * missing * side, BIAS_PART * self._lead)


class Servo:
    """Goals of one arm. `goal` is what was last let through; None before the first command."""

    def __init__(self, limits: ServoLimits):
        self._limits = limits
        self._move = _Channel(limits.step_m, limits.lead_m)
        self._turn = _Channel(limits.step_rad, limits.lead_rad)
        self._reference: Pose | None = None
        self._measured: Pose | None = None
        self.goal: Pose | None = None

    def propose(
        self, command: ArmCommand, measured: Pose, *, pressing: bool = False
    ) -> Pose | None:
        """The goal for this tick, or None to hold the last one. While the hand presses on
        something, no bias is learned.
        """
        before, self._measured = self._measured or measured, measured
        if command.step_m is None:
            return None
        last, lead = self.goal or measured, (self._limits.lead_m, self._limits.lead_rad)
        if moved_away(last, measured, *lead):
            self.rest()
            before = measured
        self._measured = measured
        reference = self._reference or measured
        ahead_m = self._move.advance(
            reference.position_m - measured.position_m,
            measured.position_m - before.position_m,
            np.asarray(command.step_m, dtype=np.float64),
            pressing=pressing,
        )
        ahead_rad = self._turn.advance(
            rotation_vector(reference.rotation @ measured.rotation.T),
            rotation_vector(measured.rotation @ before.rotation.T),
            np.asarray(command.step_rad, dtype=np.float64),
            pressing=pressing,
        )
        self._reference = _beyond(measured, ahead_m, ahead_rad)
        lead_m = shortened(ahead_m + self._move.bias, self._limits.lead_m)
        lead_rad = shortened(ahead_rad + self._turn.bias, self._limits.lead_rad)
        return self._near_last(_beyond(measured, lead_m, lead_rad))

    def _near_last(self, goal: Pose) -> Pose:
        """A goal that is no farther from the last one than a tick allows."""
        if (last := self.goal) is None:
            return goal
        move = shortened(goal.position_m - last.position_m, self._limits.goal_step_m)
        turn = rotation_vector(goal.rotation @ last.rotation.T)
        return _beyond(last, move, shortened(turn, self._limits.goal_step_rad))

    def sent(self, goal: Pose) -> None:
        """The goal as it was let through: a reference beyond it is taken back."""
        self.goal = goal
        turn = rotation_matrix(-self._turn.bias)
        self._reference = Pose(goal.position_m - self._move.bias, turn @ goal.rotation)

    def rest(self, *, forget_bias: bool = False) -> None:
        """Begin the next motion from the measured pose: after a stop, when the arm was moved by
        others. A bias that was learned against an obstacle is forgotten.
        """
        self._reference = self._measured = self.goal = None
        if forget_bias:
            self._move.bias, self._turn.bias = np.zeros(3), np.zeros(3)


def shortened(vector: Array, limit: float) -> Array:
    """A vector of at most that length."""
    long = length(vector)
    return vector if long <= limit else np.asarray(vector * (limit / long))


def moved_away(goal: Pose, tip: Pose, lead_m: float, lead_rad: float) -> bool:
    """Whether an arm is so far from its goal, twice the lead, that someone else must have moved it.
    The next motion then begins at the tip: a goal near the old one would pull it back at once.
    """
    return (
        length(goal.position_m - tip.position_m) > 2 * lead_m
        or angle_between(goal.rotation, tip.rotation) > 2 * lead_rad
    )


def _beyond(pose: Pose, move_m: Array, turn_rad: Array) -> Pose:
    return Pose(pose.position_m + move_m, rotation_matrix(turn_rad) @ pose.rotation)
