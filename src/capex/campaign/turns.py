"""Whose turn it is: of all chains the slot that runs next.

Only chains of which something was heard are looked at again, so that a look costs the same with
ten chains and with a thousand.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from capex.campaign.chain import Slot
from capex.campaign.settings import Order

if TYPE_CHECKING:
    from capex.campaign.driver import ChainRun

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
