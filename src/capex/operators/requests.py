"""What people ask of an attempt while it runs, looked at before each of its decisions: that it
stands still, that its model is told something, that they drive for a while.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from capex.campaign.core import HOLD_S, Lease
from capex.method.executor import Tick
from capex.method.hooks import Person
from capex.method.record import TAKEOVERS
from capex.operators import inbox as requests
from capex.operators.inbox import IN_RECORD, Word
from capex.operators.takeover import Line, Takeover, recorded
from capex.operators.teleop_channel import Wheel
from capex.operators.teleoperation import Asked
from capex.worlds import Command, Env

DRIVING = "driving"  # the phase of an attempt that a person drives
IDLE_S = 1.0  # after a second without a key others may have the core
GONE_S = 60.0  # how long a simulated attempt waits for somebody after its driver's page vanished


@dataclass(frozen=True)
class Steered:
    """What a recording says of people: what they told its model, and what they drove."""

    words: Sequence[dict[str, Any]] = ()
    takeovers: Sequence[Mapping[str, Any]] = ()


@dataclass
class Sharing:
    """A page's controls in a simulated world: while nobody drives, others may have the core."""

    wheel: Wheel
    lease: Lease
    _heard_s: float = field(default_factory=time.monotonic)

    def take(self, wait_s: float) -> Asked | None:
        """The next move."""
        if not self.wheel.heard(wait_s):
            if time.monotonic() - self._heard_s < IDLE_S:
                return None
            self.lease.hold(lambda: not self.wheel.heard(HOLD_S), DRIVING)
            self.lease.phase(DRIVING)
        self._heard_s = time.monotonic()
        return self.wheel.take(0.0)

    def show(self, env: Env, tick: int) -> None:
        """The present state."""
        self.wheel.show(env, tick)


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
    _gone: str = ""  # whose page vanished while they drove
    _gone_until_s: float = math.inf
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
        while True:
            self._stand_still()
            if (wish := requests.take_wish(*self._place)) is not None:
                try:
                    line = Line(wish)
                except OSError:  # they are gone, or on another machine
                    continue
                self._gone = ""
                turn = Takeover(decision, wish, line.wheel, self.end_now)
                return self._person(turn, line)
            if not self._paused():  # a wish that was withdrawn ends no pause
                return None

    def _person(self, takeover: Takeover, line: Line | None = None) -> Person:
        def person(
            env: Env, grips: dict[str, float], steps_left: int, carry_out: Callable[[Command], Tick]
        ) -> int:
            began, queued_s = time.monotonic(), self.lease.queued_s
            if line is not None:
                self.lease.phase(DRIVING)
                if not env.spec.real_time:
                    takeover.controls = Sharing(line.wheel, self.lease)
                self.tell("taken", by=takeover.wish.by, step=env.spec.horizon - steps_left)
            try:
                steps = takeover(env, grips, steps_left, carry_out)
            finally:
                if line is not None:
                    line.close()
            if steps:
                self._driven.append(takeover.row)
            if line is not None:
                # A person's time is not the attempt's.
                self.lease.queued_s = queued_s + time.monotonic() - began
                self._handed_back(takeover, env.spec.real_time)
            return steps

        return person

    def _handed_back(self, takeover: Takeover, real_time: bool) -> None:
        """Whoever vanished leaves this attempt standing still: a simulated one for a while, a robot
        until somebody takes it over again, pauses the run and lets it go on, or ends the attempt.
        """
        self.lease.phase("simulating")
        if takeover.row["steps"]:
            requests.keep_driven(*self._place, takeover.row)
        self.tell("returned", by=takeover.wish.by, steps=takeover.row["steps"])
        if takeover.ended == "leave":
            self._gone = takeover.wish.by
            self._gone_until_s = math.inf if real_time else time.monotonic() + GONE_S

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
            left_s = self._gone_until_s - time.monotonic()
            until = time.time() + left_s if self._gone and math.isfinite(left_s) else None
            self.tell("paused", gone=self._gone, until=until)
            self.lease.hold(self._paused, look=self.lease.may_wait)

    def _paused(self) -> bool:
        asked = requests.requested(self.run, "pause") is not None
        if self._gone and (asked or self.end_now() or time.monotonic() > self._gone_until_s):
            self._gone = ""  # from now on somebody else decides
        return (asked or bool(self._gone)) and not requests.wished(*self._place)
