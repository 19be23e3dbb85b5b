"""What a chain does after an attempt: go on, try again, pause because the model is down, or stop.

| the attempt | the chain |
|---|---|
| finished | goes on |
| invalidated by the simulator, or after the model had begun to answer | reruns it once; then the start is recorded as invalid |
| got no answer at all: the model is down | waits and tries the same start again, as often as it takes, in growing intervals |
| got no answer for a reason that will not pass (a key, a quota) | stops, and the start stays open |

After any error of the model the chain pauses before its next attempt; the intervals shrink back once an episode is finished.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from capex.campaign.attempt import Finished, Invalid
from capex.campaign.chain import ATTEMPTS
from capex.models import ModelError


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
class Verdict:
    """What to do next, after a pause."""

    step: Literal["go on", "again", "give up", "stop"]
    pause_s: float = 0.0


class Patience:
    """The memory of a chain for its failures."""

    def __init__(self, pauses: Pauses):
        self._pauses = pauses
        self.failures = 0  # of the model since the last finished episode

    def judge(self, outcome: Finished | Invalid, counted: int) -> Verdict:
        """The next step; `counted` are the invalidated attempts at this start that count, this one included."""
        if isinstance(outcome, Finished):
            self.failures = 0
            return Verdict("go on")
        if outcome.lasting and not outcome.counts:
            return Verdict("stop")
        pause_s = 0.0
        if isinstance(outcome.error, ModelError) and not outcome.lasting:
            pause_s = self._pauses.seconds(self.failures)
            self.failures += 1
        return Verdict("give up" if outcome.counts and counted >= ATTEMPTS else "again", pause_s)
