"""How well a rig kept its ticks, and what its guard had to do, since a reset."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from capex.rigs.link import RigReading

LATE_SHARE = 0.01  # of the ticks may begin more than a period late
_NUMBER = re.compile(r"\s+-?\d+(?:\.\d+)?(?:\s+(?:mm|cm|m|deg|rad|N|ms|s))?\b")
_DANGLING = re.compile(r"\s+(?:to|at|of|by)$")


@dataclass(frozen=True)
class Lateness:
    """How far past their deadlines ticks began, seconds."""

    ticks: int
    median_s: float = 0.0
    p99_s: float = 0.0
    worst_s: float = 0.0
    late: int = 0  # ticks that began more than a period late

    def sentence(self, control_hz: float) -> str:
        """What to say to someone whose rig cannot keep up; empty where it can."""
        period_s = 1.0 / control_hz
        if self.p99_s <= 0.5 * period_s and self.late <= LATE_SHARE * self.ticks:
            return ""
        return (
            f"this machine cannot keep the rig's {control_hz:g} Hz: of {self.ticks} ticks"
            f" {self.late} began more than a period late, 1 in 100 by more than"
            f" {1000 * self.p99_s:.0f} ms; close other programs or lower control_hz"
        )


@dataclass
class RigTally:
    """Counts over the ticks since a reset."""

    late_s: list[float] = field(default_factory=list)
    guard: Counter[str] = field(default_factory=Counter)  # ticks, by what the guard did
    seconds: float = 0.0  # of the rig's clock, from the first tick to the last
    _began_s: float = math.nan

    def add(self, tick: RigReading) -> None:
        """One more tick."""
        self.late_s.append(tick.late_s)
        self._began_s = tick.time_s if math.isnan(self._began_s) else self._began_s
        # Rounded: the clock counts from when the room began, and its last digits follow from that.
        self.seconds = round(tick.time_s - self._began_s, 6)
        self.guard.update({kind(phrase) for phrase in tick.guard})
        if tick.stopped:
            self.guard[f"stop: {kind(tick.stopped)}"] += 1

    def lateness(self, control_hz: float) -> Lateness:
        """The ticks' lateness in a few numbers."""
        if not self.late_s:
            return Lateness(0)
        median, p99 = (float(v) for v in np.percentile(self.late_s, (50, 99)))
        late = sum(value > 1.0 / control_hz for value in self.late_s)
        return Lateness(len(self.late_s), median, p99, max(self.late_s), late)


def kind(phrase: str) -> str:
    """What a phrase of the guard is counted as: its words without the numbers, "step cut" for "step
    cut to 20 mm".
    """
    return _DANGLING.sub("", _NUMBER.sub("", phrase))
