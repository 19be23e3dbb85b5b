"""What people ask of an attempt while it runs, looked at before each of its decisions: that it
stands still, that its model is told something, that they drive for a while.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from capex.campaign.core import Lease
from capex.campaign.takeover import Line, Takeover, recorded
from capex.method.executor import Tick
from capex.method.hooks import Person
from capex.method.record import TAKEOVERS
from capex.run import requests
from capex.run.requests import IN_RECORD, Word
from capex.worlds import Command, Env

DRIVING = "driving"  # the phase of an attempt that a person drives


@dataclass(frozen=True)
class Steered:
    """What a recording says of people: what they told its model, and what they drove."""

    words: Sequence[dict[str, Any]] = ()
    takeovers: Sequence[Mapping[str, Any]] = ()


@dataclass
class Asking:
    """One attempt's ear. `again`: what a recording says, in place of files."""

    run: Path
    chain: str
    start: int
    lease: Lease
    tell: Callable[..., None]  # watchers, of what is heeded
    resumed: bool  # whether it continues a cut-off attempt
    again: Steered | None = None
    end_now: Callable[[], bool] = lambda: False
    _told: list[tuple[int, Word]] = field(default_factory=list)
    _driven: list[dict[str, Any]] = field(default_factory=list)
    _before: list[Mapping[str, Any]] = field(default_factory=list)  # still to be driven again

    def __post_init__(self) -> None:
        if self.again is not None:
            self._before += self.again.takeovers
        elif self.resumed:
            self._before += requests.driven(*self._place)
        else:
            requests.forget_attempt(*self._place)

    @property
    def _place(self) -> tuple[Path, str, int]:
        return self.run, self.chain, self.start

    def heed(self, decision: int) -> str:
        """What the operator says before this decision."""
        if self.again is not None:
            rows = [row for row in self.again.words if row["decision"] == decision]
            self._told += [(decision, Word(row["words"], row["by"], "")) for row in rows]
            return " ".join(row["words"] for row in rows)
        words, told = requests.said(*self._place), requests.told(*self._place)
        told_before = told[: len(words)]
        new = [decision] * (len(words) - len(told_before))
        if new and decision > max(told_before, default=0):
            told_before += new
            requests.keep_told(*self._place, told_before)
        rows_now = [w for w, d in zip(words, told_before, strict=False) if d == decision]
        self._told += [(decision, word) for word in rows_now]
        return " ".join(word.words for word in rows_now)

    def take_over(self, decision: int) -> Person | None:
        """Wait while a pause is asked for; who drives before this decision: as it was recorded, as
        it was before the attempt was cut off, or whoever asks for it.
        """
        if self._before and self._before[0]["decision"] <= decision:
            return self._person(recorded(self._before.pop(0)))
        if self.again is not None:
            return None
        self._stand_still()
        if (wish := requests.take_wish(*self._place)) is None:
            return None
        try:
            line = Line(wish)
        except OSError:  # they are gone, or on another machine
            return None
        return self._person(Takeover(decision, wish, lambda: line.wheel, self.end_now), line)

    def _person(self, takeover: Takeover, line: Line | None = None) -> Person:
        def person(
            env: Env, grips: dict[str, float], steps_left: int, carry_out: Callable[[Command], Tick]
        ) -> int:
            began = time.monotonic()
            if line is not None:
                self.lease.phase(DRIVING)
                self.tell("taken", by=takeover.wish.by, step=env.spec.horizon - steps_left)
            try:
                steps = takeover(env, grips, steps_left, carry_out)
            finally:
                if line is not None:
                    line.close()
            self._driven.append(takeover.row)
            if line is not None:
                self._handed_back(takeover, time.monotonic() - began)
            return steps

        return person

    def _handed_back(self, takeover: Takeover, seconds: float) -> None:
        """A person's time is not the attempt's; whoever vanished leaves it standing still."""
        self.lease.queued_s += seconds
        self.lease.phase("simulating")
        requests.keep_driven(*self._place, takeover.row)
        self.tell("returned", by=takeover.wish.by, steps=takeover.row["steps"])
        if takeover.ended == "leave":
            requests.request(self.run, "pause", f"{takeover.wish.by}, whose page is gone,")

    def note(self) -> dict[str, Any]:
        """What a record says of it; nothing where nobody asked for anything."""
        rows = [{"decision": d, "words": w.words, "by": w.by} for d, w in self._told]
        words = {IN_RECORD: rows} if rows else {}
        return words | ({TAKEOVERS: self._driven} if self._driven else {})

    def over(self) -> None:
        """The attempt is whole, and its record tells what was said and driven."""
        if (self._told or self._driven) and self.again is None:
            requests.forget_attempt(*self._place)

    def _stand_still(self) -> None:
        if self._paused():
            self.tell("paused")
            self.lease.hold(self._paused)

    def _paused(self) -> bool:
        asked = requests.requested(self.run, "pause") is not None
        return asked and not requests.wished(*self._place)
