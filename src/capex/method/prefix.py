"""The beginning of a recorded episode, from which a fork goes on."""

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
    notes: str = ""  # that the model had left itself by then

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The decisions that are taken over."""
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

    def silent(self, turn: Turn) -> bool:
        """Whether a decision counts as one without a valid tool call, as far as its record tells:
        it brought no act and located nothing.
        """
        return bool(turn.spent) and not turn.waypoints and not turn.located
