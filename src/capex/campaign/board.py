"""Where a campaign stands: numbers per chain and in all, from the run directory and from the events that follow.

The same board serves the progress display, `capex status` and the forecast; it computes, others draw.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from capex.campaign import events as ev
from capex.run import LoadedChain
from capex.stats import wilson

FORECAST_AFTER = 3
Z = 1.959964  # of a 95 % interval


@dataclass
class Line:
    """One chain, or all of them together."""

    chain: str
    wanted: int | None = None  # starts in all; None where successes decide
    until: int | None = None
    episodes: int = 0
    successes: int = 0
    judged: int = 0  # episodes with a verdict: on a real robot a person gives it later
    invalid: int = 0
    requests: int = 0
    steps: int = 0
    seconds: float = 0.0
    costs: list[float] = field(default_factory=list)  # of episodes whose cost is known
    unknown_costs: int = 0
    invalid_usd: float = 0.0
    now: dict[int, ev.EpisodeMoved] = field(default_factory=dict)  # by start, the attempts under way
    state: str = ""  # paused, done, stopped, with the reason
    paused_until: float | None = None  # unix time

    @property
    def usd(self) -> float | None:
        """Dollars of all attempts; None when one of them is not known."""
        return None if self.unknown_costs else sum(self.costs) + self.invalid_usd

    @property
    def usd_per_success(self) -> float | None:
        """Cost of all attempts over the successes; infinite without one."""
        if self.usd is None or not self.episodes:
            return None
        return self.usd / self.successes if self.successes else math.inf

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the success rate."""
        return wilson(self.successes, self.judged)

    @property
    def left(self) -> float | None:
        """Episodes still to run; expected ones where successes decide, None where nothing can be expected."""
        if self.state.startswith(("done", "stopped")):
            return 0
        if self.until is not None:
            rate = self.successes / self.episodes if self.episodes else 0.0
            return (self.until - self.successes) / rate if rate else None
        return None if self.wanted is None else max(0, self.wanted - self.episodes - self.invalid)

    def add(self, success: bool | None, requests: int, steps: int, seconds: float, cost_usd: float | None) -> None:
        """One more whole episode."""
        self.episodes += 1
        self.judged += success is not None
        self.successes += success is True
        self.requests += requests
        self.steps += steps
        self.seconds += seconds
        if cost_usd is None:
            self.unknown_costs += 1
        else:
            self.costs.append(cost_usd)


class Board:
    """The lines of a campaign. Feed it events; it is cheap to ask at any moment."""

    def __init__(self, chains: Iterable[LoadedChain] = ()):
        self.lines: dict[str, Line] = {}
        self.began = time.monotonic()
        self.given_hours_left: float | None = None  # what a driver elsewhere says
        self._fresh_episodes, self._fresh_seconds = 0, 0.0  # of this command: what time left goes by
        for chain in chains:
            self.add_chain(chain)

    def add_chain(self, chain: LoadedChain, wanted: int | None = None, until: int | None = None) -> None:
        """A chain as the run directory holds it."""
        line = self.lines[chain.name] = Line(chain.name, wanted, until)
        for episode in chain.episodes:
            r = episode.record
            line.add(r.success, r.requests, r.steps, episode.seconds, r.cost_usd)
        for attempt in chain.invalid:
            self._invalid(line, attempt.record)

    @staticmethod
    def _invalid(line: Line, record: Mapping[str, Any]) -> None:
        line.invalid += bool(record.get("counts"))
        if not record.get("continues"):  # otherwise its cost is part of the episode that continued it
            line.invalid_usd += record.get("ledger", {}).get("known_cost_usd") or 0.0

    def __call__(self, event: ev.Event) -> None:
        """Take an event in."""
        line = self.lines.get(getattr(event, "chain", ""))
        if line is None:
            return
        if isinstance(event, ev.EpisodeBegan):
            line.state, line.paused_until = "", None
            line.now[event.start] = ev.EpisodeMoved(event.chain, event.start, "starting", 0, 0, 0, None)
        elif isinstance(event, ev.EpisodeMoved):
            line.now[event.start] = event
        elif isinstance(event, ev.EpisodeEnded):
            line.now.pop(event.start, None)
            line.add(event.success, event.requests, event.steps, event.seconds, event.cost_usd)
            self._fresh_episodes += 1
            self._fresh_seconds += event.seconds
        elif isinstance(event, ev.AttemptInvalid):
            line.now.pop(event.start, None)
            line.invalid += event.then == "recorded as invalid"
        elif isinstance(event, ev.AttemptCutOff):
            line.now.pop(event.start, None)
        elif isinstance(event, ev.ChainPaused):
            line.state, line.paused_until = f"paused: {event.reason}", time.time() + event.seconds
        elif isinstance(event, ev.ChainEnded):
            line.state = f"stopped: {event.error}" if event.error else f"done: {event.why}"

    @property
    def total(self) -> Line:
        """All chains together."""
        total = Line("total")
        for line in self.lines.values():
            for name in ("episodes", "successes", "judged", "invalid", "requests", "steps", "seconds", "unknown_costs", "invalid_usd"):
                setattr(total, name, getattr(total, name) + getattr(line, name))
            total.costs += line.costs
        wanted = [line.wanted for line in self.lines.values()]
        total.wanted = None if None in wanted else sum(w or 0 for w in wanted)
        return total

    @property
    def hours_left(self) -> float | None:
        """Wall time left at the pace of this command; the longest chain alone bounds it from below."""
        if self.given_hours_left is not None:
            return self.given_hours_left
        left = [line.left for line in self.lines.values()]
        if not self._fresh_episodes or any(n is None for n in left):
            return None
        numbers = [n or 0.0 for n in left]
        elapsed, mean_s = time.monotonic() - self.began, self._fresh_seconds / self._fresh_episodes
        pace_s = elapsed / self._fresh_episodes
        return max(sum(numbers) * min(pace_s, mean_s), max(numbers, default=0.0) * mean_s) / 3600

    def forecast(self) -> ev.Forecast | None:
        """What a success and the rest will cost, once there are three episodes.

        Cost per success is C / p with the mean cost C of an episode and the success rate p. Its interval joins Wilson's for p with the
        normal one for the mean of C, on the logarithmic scale; without a success only a lower bound is known.
        """
        total = self.total
        if total.episodes < FORECAST_AFTER:
            return None
        hours = self.hours_left
        if total.usd is None or not total.costs:
            return ev.Forecast(total.episodes, total.successes, None, None, None, None, None, None, hours)
        n, mean = total.episodes, total.usd / total.episodes
        spread = math.sqrt(sum((c - mean) ** 2 for c in total.costs) / max(1, n - 1))
        error = Z * spread / math.sqrt(n)
        p_low, p_high = total.interval
        p = total.successes / n
        relative = error / mean if mean else 0.0
        low = high = middle = None
        if mean:
            middle = mean / p if p else None
            rate = p or p_high
            low = mean / rate * math.exp(-math.hypot(relative, math.log(p_high / rate)))
            high = mean / p * math.exp(math.hypot(relative, math.log(p / p_low))) if p else None
        left = [line.left for line in self.lines.values()]
        rest = None if any(x is None for x in left) else sum(x or 0.0 for x in left)
        return ev.Forecast(
            episodes=n,
            successes=total.successes,
            usd_per_success=middle,
            usd_per_success_low=low,
            usd_per_success_high=high,
            rest_usd=None if rest is None else rest * mean,
            rest_usd_low=None if rest is None else max(0.0, rest * (mean - error)),
            rest_usd_high=None if rest is None else rest * (mean + error),
            hours_left=hours,
        )
