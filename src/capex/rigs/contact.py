"""From what an arm measures to what the method is told, by the thresholds of the rig file.

Contact is a measured force; holding is fingers that were told to close and stay open. Nothing else
is known: the thing is unnamed (""), and a force while something is held counts as that thing's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from capex.pose import Array
from capex.rigs.drivers import ArmFacts, ArmReading
from capex.rigs.lastcheck import joints_in_margin
from capex.rigs.rigfile import ArmEntry, GuardPolicy
from capex.rigs.shapes import length
from capex.worlds import ArmState, Contact

HAND = Contact("hand")
FINGERS_STILL_S, FINGERS_STILL_M = 0.15, 0.0005
# Grippers begin to move late: before they have moved, or so long after the command, nothing is
# said about holding.
FINGERS_BEGIN_S, FINGERS_MOVED_M = 0.6, 0.001
TARE_MOST_N = 12.0  # a larger bias is a load that the robot was not told of
TARE_CHANGE_N = 3.0  # from the last one: by more, something has begun to pull at the hand
DRIFT = 1e-4  # s/s: two clocks may drift apart by so much


class Senses:
    """What one arm feels; remembers what the gripper was told and how the fingers moved."""

    def __init__(self, entry: ArmEntry, facts: ArmFacts, policy: GuardPolicy):
        self._entry, self._facts, self._policy = entry, facts, policy
        self._closing_since: tuple[float, float] | None = None  # robot's time, opening
        self._openings: list[tuple[float, float]] = []
        self._contact_n = facts.contact_n if entry.contact_n is None else entry.contact_n
        self._bias_n: Array = np.zeros(3)  # base frame, of free air
        self._tared = False  # whether the next tare is compared with this one
        self._refused = False  # the last tare

    def told(self, opening_m: float, reading: ArmReading) -> None:
        """The gripper was told to go to an opening."""
        closes = opening_m < reading.opening_m
        self._closing_since = (reading.time_s, reading.opening_m) if closes else None

    def feel(self, reading: ArmReading) -> ArmState:
        """The arm's state in the base frame."""
        now_s, latest = reading.time_s, self._openings
        if not latest or now_s > latest[-1][0]:
            latest.append((now_s, reading.opening_m))
            while len(latest) > 2 and latest[1][0] <= now_s - FINGERS_STILL_S:
                del latest[0]
        holds = self._holds(reading)
        force = self.force_n(reading)
        touches = force is not None and length(force) > self._contact_n
        return ArmState(
            T_base_tip=self._entry.T_base_mount @ reading.T_mount_tip,
            opening_m=reading.opening_m,
            hand_contacts=frozenset({HAND} if touches else ()),
            finger_contact=holds,
            held=frozenset({HAND.thing} if holds else ()),
            joints_at_limit=tuple(joints_in_margin(self._policy, self._facts, reading.joints_rad)),
        )

    def tare(self, forces_n: Sequence[Array]) -> str:
        """The median of forces (3,), as `raw_force_n` gives them at rest with free fingers, becomes
        the bias; or why it may not.
        """
        bias_n = np.median(np.array(forces_n), axis=0)
        changed_n, self._refused = length(bias_n - self._bias_n), True
        if length(bias_n) > TARE_MOST_N:
            return (
                f"at rest with free fingers it measures {length(bias_n):.1f} N, more than"
                f" {TARE_MOST_N:g} N; see that nothing touches the hand, and tell the robot its"
                " load (hand, camera, bracket)"
            )
        if self._tared and changed_n > TARE_CHANGE_N:
            return (
                f"at rest with free fingers the force it measures has changed by {changed_n:.1f} N"
                f" since the last attempt, more than {TARE_CHANGE_N:g} N; see that nothing touches"
                " or pulls at the hand"
            )
        self._bias_n, self._tared, self._refused = bias_n, True, False
        return ""

    def accept_any_tare(self) -> None:
        """A person has looked at the robot after a tare was refused: the next need not be like the
        one before that.
        """
        self._tared = self._tared and not self._refused

    def force_n(self, reading: ArmReading) -> Array | None:
        """The external force in the base frame without its bias, where it is measured."""
        raw_n = self.raw_force_n(reading)
        return None if raw_n is None else raw_n - self._bias_n

    def raw_force_n(self, reading: ArmReading) -> Array | None:
        """The external force in the base frame as the robot measures it."""
        if reading.force_n is None or not self._facts.senses_force:
            return None
        return np.asarray(self._entry.T_base_mount.rotation @ np.asarray(reading.force_n))

    def _holds(self, reading: ArmReading) -> bool:
        if self._closing_since is None or reading.opening_m <= self._entry.held_gap_m:
            return False
        told_s, from_m = self._closing_since
        moved = from_m - reading.opening_m > FINGERS_MOVED_M
        if not moved and reading.time_s - told_s < FINGERS_BEGIN_S:
            return False
        # A gripper that never left its stop is stuck or has not begun; it holds nothing.
        if reading.opening_m > self._facts.max_opening_m - FINGERS_MOVED_M:
            return False
        openings = [opening for time_s, opening in self._openings if time_s >= told_s]
        long_enough = reading.time_s - self._openings[0][0] >= FINGERS_STILL_S * (1 - 1e-6)
        return long_enough and max(openings) - min(openings) < FINGERS_STILL_M


class StateAge:
    """How old a robot's state is, by its own clock: only the smallest offset to ours is known.

    age = now - time - offset, where offset = min(now - time) so far, drifting up slowly. A frozen
    state grows old with time, a delayed one at once.
    """

    def __init__(self) -> None:
        self._offset_s, self._at_s = math.inf, 0.0

    def age_s(self, now_s: float, time_s: float) -> float:
        """The age of a state that was read at `now_s` of our clock."""
        if math.isfinite(self._offset_s):
            self._offset_s += DRIFT * (now_s - self._at_s)
        self._at_s = now_s
        self._offset_s = min(self._offset_s, now_s - time_s)
        return now_s - time_s - self._offset_s
