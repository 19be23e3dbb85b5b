"""Whose turn it is: of all chains the slot that runs next.

Only chains of which something was heard are looked at again, so that a look costs the same with
ten chains and with a thousand.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from capex.campaign.attempt import Invalid
from capex.campaign.chain import ATTEMPTS, Slot
from capex.campaign.settings import Order
from capex.models import ModelError
from capex.run.summary import Summary

if TYPE_CHECKING:
    from capex.campaign.driver import ChainRun

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


Allows = Callable[["ChainRun", Slot], bool]


class Turns:
    """The chains of a campaign in the order in which they get slots: furthest behind first, or one
    after the other.
    """

    def __init__(self, chains: Sequence[ChainRun], order: Order, allows: Allows):
        self._chains, self._in_turn, self._allows = chains, order == "turn", allows
        self._place = {run.key: place for place, run in enumerate(chains)}
        self._changed = set(range(len(chains)))  # places of chains to look at again
        self._looked = set(self._changed)  # those that may be done
        self._paused: set[int] = set()
        self._first: list[Slot | None] = [None] * len(chains)  # the first slot that may run
        # Keys of slots that could run when they were entered; some may be outdated.
        self._queue: list[tuple[int, int, int]] = []

    def changed(self, run: ChainRun) -> None:
        """Something became of an attempt of this chain."""
        self._changed.add(self._place[run.key])

    def all_changed(self) -> None:
        """What may run was decided anew."""
        self._changed.update(range(len(self._chains)))

    def take(self) -> tuple[ChainRun, Slot] | None:
        """The slot that runs next, and its chain; None where none may run now."""
        self._look()
        while self._queue:
            *key, place = heapq.heappop(self._queue)
            slot = self._first[place]
            if slot is not None and key == self._key(place, slot):
                self._changed.add(place)
                return self._chains[place], slot
        return None

    def over(self) -> list[ChainRun]:
        """The chains that are done and were not asked about since."""
        self._look()
        runs = [self._chains[place] for place in sorted(self._looked)]
        self._looked.clear()
        return [run for run in runs if not run.ended and run.plan.done]

    def wait_s(self) -> float:
        """How long until the first paused chain may go on."""
        now = time.monotonic()
        waits = (self._chains[place].resume_at - now for place in self._paused)
        return max(0.0, min(waits, default=math.inf))

    def _look(self) -> None:
        now = time.monotonic()
        self._changed |= {p for p in self._paused if self._chains[p].resume_at <= now}
        for place in self._changed:
            run = self._chains[place]
            paused = not run.ended and now < run.resume_at
            (self._paused.add if paused else self._paused.discard)(place)
            slot = None if paused else self._first_slot(run)
            self._first[place] = slot
            if slot is not None:
                key = self._key(place, slot)
                heapq.heappush(self._queue, (key[0], key[1], place))
        self._looked |= self._changed
        self._changed.clear()

    def _first_slot(self, run: ChainRun) -> Slot | None:
        if run.ended or (run.patience.wary and run.plan.running):
            return None
        return next((slot for slot in run.plan.ready() if self._allows(run, slot)), None)

    def _key(self, place: int, slot: Slot) -> list[int]:
        return [place, slot.position] if self._in_turn else [slot.position, place]
