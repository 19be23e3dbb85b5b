"""The beginning of a recorded episode, from which another one continues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from capex.method.record import EpisodeRecord, Turn
from capex.pose import Array
from capex.worlds import State


@dataclass(frozen=True)
class Prefix:
    """The decisions of an episode before one of them, and its steps."""

    record: EpisodeRecord
    steps: Mapping[str, Array]  # of steps.npz
    decision: int  # the first that is made anew, from 1

    @property
    def notes(self) -> str:
        """The model's notes for itself before that decision."""
        return self.turns[-1].notes if self.turns else ""

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The decisions before the state."""
        return self.record.turns[: self.decision - 1]

    @property
    def ticks(self) -> int:
        """Control steps that they took."""
        return self.record.turns[self.decision - 1].step

    @property
    def plans(self) -> int:
        """Plans that they began."""
        return sum(bool(turn.waypoints) for turn in self.turns)

    def state(self, tick: int) -> State:
        """The world after so many control steps."""
        return State(str(self.steps["header"]), self.steps["states"][tick])
