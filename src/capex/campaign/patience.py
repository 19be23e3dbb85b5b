"""What a chain does after an attempt: go on, try again, pause because the model is down, or stop.

- finished: the chain goes on; if like the first ones of its chain the model never called a tool, it
  stops after three, while no episode ended otherwise
- invalidated by the simulator, or after the model had begun to answer: it is rerun once; then the
  start is recorded as invalid
- got no answer at all, because the model is down: the chain waits and tries the same start again,
  as often as it takes, in growing intervals; a model that has never answered gets three tries, and
  then the campaign ends
- invalidated because requests without an answer used its budget up: the start is recorded as
  invalid
- got no answer for a reason that will not pass (a key, a quota): the chain stops, and the start
  stays open

After any error of the model the chain pauses before its next attempt; the intervals shrink back
once an episode is finished.

A chain that stopped because its model calls no tool tries one start when it is continued, and stops
again if that ends like the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from capex.campaign.attempt import Invalid
from capex.campaign.chain import ATTEMPTS
from capex.models import ModelError
from capex.run.summary import Summary

TRIES = 3  # of a model that has never answered
SILENT_EPISODES = 3  # that may end because the model calls nothing, before its chain stops


@dataclass(frozen=True)
class Pauses:
    """How long a chain waits for its model: 15 s, 30 s, a minute, up to a quarter of an hour."""

    first_s: float = 15.0
    growth: float = 2.0
    longest_s: float = 900.0

    def seconds(self, number: int) -> float:
        """The pause after the failure of that number, from 0."""
        return min(self.longest_s, self.first_s * self.growth ** min(number, 64))


@dataclass(frozen=True)
class NextStep:
    """What to do next, after a pause."""

    step: Literal["go on", "again", "give up", "stop", "end"]  # end: the campaign
    pause_s: float = 0.0


class Patience:
    """The memory of a chain for its failures."""

    def __init__(self, pauses: Pauses, ends: Iterable[str] = ()):
        """`ends`: how the chain's episodes so far ended."""
        self._pauses = pauses
        self.failures = 0  # of the model since the last finished episode
        # Episodes that ended in silence; whether one ever ended otherwise.
        self._silent, self._spoke = (0, False)
        for end in ends:
            self._hear(end)

    @property
    def wary(self) -> bool:
        """Whether the chain's model has never called a tool so far: then one attempt at a time is
        enough.
        """
        return self._silent >= SILENT_EPISODES and not self._spoke

    def _hear(self, end: str) -> None:
        self._silent += end == "silent"
        self._spoke = self._spoke or end != "silent"

    def judge(
        self,
        outcome: Summary | Invalid,
        counted: int,
        *,
        paused: bool = False,
        answered: bool = True,
    ) -> NextStep:
        """The next step; `counted` are the invalidated attempts at this start that count, this one
        included. A paused chain stays so. `answered`: whether the model ever did.
        """
        if isinstance(outcome, Summary):
            self.failures = 0
            self._hear(outcome.end)
            return NextStep("stop" if self.wary else "go on")
        if outcome.lasting and not outcome.counts:
            return NextStep("stop")
        pause_s = 0.0
        if isinstance(outcome.error, ModelError) and not outcome.lasting and not paused:
            pause_s = self._pauses.seconds(self.failures)
            self.failures += 1
            if not answered and self.failures >= TRIES:
                return NextStep("end")
        used_up = outcome.final or (outcome.counts and counted >= ATTEMPTS)
        return NextStep("give up" if used_up else "again", pause_s)
