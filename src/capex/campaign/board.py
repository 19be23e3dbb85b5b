"""Where a campaign stands: numbers per chain and in all, from the run directory and from the events
that follow.

The same board serves the progress display, `capex status` and the forecast; it computes, others
draw.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import numpy as np

from capex.campaign import events as ev
from capex.campaign.prediction import AMOUNTS, History, Interval, Prediction, interval
from capex.pose import Array
from capex.run import LoadedChain, Origin
from capex.run.spend import Account, ChainStart, Spend
from capex.run.stats import wilson
from capex.run.summary import Summary, Taken, before_branch, by_start, forgotten, of_account

FORECAST_AFTER = 3
EVENT_LEVEL = 0.95  # of the intervals of an event


@dataclass
class ChainLine:
    """One chain, or all of them together."""

    chain: str
    wanted: int | None = None  # starts in all; None where successes decide
    until: int | None = None
    episodes: int = 0
    successes: int = 0
    judged: int = 0  # episodes with a verdict: on a real robot a person gives it later
    invalid: int = 0
    driven: int = 0  # episodes that a person drove in: nobody's success or failure
    steps: int = 0
    taken: dict[int, Taken] = field(default_factory=dict)  # by start, of attempts that are over
    # By start, whether its episode achieved the task, None while unjudged, and its place.
    outcomes: dict[int, bool | None] = field(default_factory=dict)
    places: dict[int, int] = field(default_factory=dict)
    driven_starts: set[int] = field(default_factory=set)
    per_dollar: float | None = None  # successes, where the budget is allocated by it
    learns: bool = False  # whether its method remembers earlier episodes
    # By start, the attempts under way.
    now: dict[int, ev.EpisodeMoved] = field(default_factory=dict)
    state: str = ""  # paused, done, stopped, with the reason
    paused_until: float | None = None  # unix time

    @property
    def all_taken(self) -> Taken:
        """What all attempts took together."""
        return sum(self.taken.values(), Taken())

    @property
    def usd(self) -> tuple[float, float] | None:
        """Dollars of all attempts: known, and at most if everything that may have been billed was;
        None where there is no price.
        """
        return _usd(self.all_taken)

    @property
    def usd_per_success(self) -> tuple[float, float] | None:
        """Cost of all attempts over the successes, from known to at most; infinite without one."""
        return self._each(self.usd)

    def _each(self, usd: tuple[float, float] | None) -> tuple[float, float] | None:
        if usd is None or not self.episodes:
            return None
        low, high = usd
        return (
            (low / self.successes, high / self.successes)
            if self.successes
            else (math.inf, math.inf)
        )

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the success rate."""
        return wilson(self.successes, self.judged)

    @property
    def left(self) -> float | None:
        """Episodes still to run; expected ones where successes decide, None where nothing can be
        expected.
        """
        if self.state.startswith(("done", "stopped")):
            return 0
        if self.until is not None:
            rate = self.successes / self.judged if self.judged else 0.0
            return (self.until - self.successes) / rate if rate else None
        return None if self.wanted is None else max(0, self.wanted - self.episodes - self.invalid)

    @property
    def unjudged(self) -> int:
        """Episodes that wait for a person's verdict."""
        return self.episodes - self.judged - self.driven

    @property
    def history(self) -> History:
        """Its whole attempts in order, for a prediction. What starts without one took is spread
        over those that have one.
        """
        starts = sorted(self.outcomes, key=lambda start: (self.places.get(start, start), start))
        rows = np.array([_row(self.taken.get(start, Taken())) for start in starts])
        rows = rows.reshape(len(starts), len(AMOUNTS))
        sums = rows.sum(axis=0)
        share = np.divide(_row(self.all_taken), sums, out=np.ones(len(AMOUNTS)), where=sums > 0)
        # What a person drove tells as little of the model as what nobody judged.
        solved = [None if start in self.driven_starts else self.outcomes[start] for start in starts]
        return History(self.chain, solved, rows * share, self.learns)

    def as_json(self) -> dict[str, Any]:
        """For machines and pages."""
        taken, left = self.all_taken, self.left  # thousands of attempts: summed once
        usd = _usd(taken)
        each = self._each(usd)
        return {
            "chain": self.chain,
            "episodes": self.episodes,
            "wanted": self.wanted,
            "until_successes": self.until,
            "successes": self.successes,
            "judged": self.judged,
            "unjudged": self.unjudged,
            "interval": list(self.interval),
            "invalid": self.invalid,
            "driven": self.driven,
            "left": left if left is None or math.isfinite(left) else None,
            "requests": taken.requests,
            "seconds": taken.seconds,
            "usd": None if usd is None else usd[0],
            "usd_at_most": None if usd is None else usd[1],
            "usd_per_success": None if each is None or math.isinf(each[0]) else each[0],
            "usd_per_success_at_most": None if each is None or math.isinf(each[1]) else each[1],
            "state": self.state,
            "now": [vars(moved) for moved in self.now.values()],
        }

    def rejudge(self, successes: Mapping[int, bool | None]) -> None:
        """What people judged since, by start."""
        self.episodes = len(successes)
        self.driven_starts &= successes.keys()
        self.driven = len(self.driven_starts)
        counted = [s for start, s in successes.items() if start not in self.driven_starts]
        self.judged = sum(success is not None for success in counted)
        self.successes = sum(success is True for success in counted)
        self.outcomes = dict(successes)

    def add(
        self, start: int, success: bool | None, steps: int, place: int, driven: bool = False
    ) -> None:
        """One more whole episode, at its place in the chain's order. `driven`: by a person, for a
        while.
        """
        self.episodes += 1
        if driven:
            self.driven_starts.add(start)
        else:
            self.driven_starts.discard(start)
            self.judged += success is not None
            self.successes += success is True
        self.driven = len(self.driven_starts)
        self.outcomes[start], self.places[start] = success, place
        self.steps += steps


class Board:
    """The lines of a campaign. Feed it events; it is cheap to ask at any moment."""

    def __init__(
        self,
        chains: Iterable[LoadedChain] = (),
        spend: Spend | None = None,
        lineage: Sequence[Origin] = (),
    ):
        """`spend`: the campaign's spend.jsonl, which knows what attempts cost that left no record.
        `lineage`: what it was branched from.
        """
        self.lines: dict[str, ChainLine] = {}
        # By chain and start, what records hold beyond spend.jsonl, which should have it all.
        self.forgotten: dict[str, dict[int, Taken]] = {}
        self.began = time.monotonic()
        self.given_hours_left: float | None = None  # what a driver elsewhere says
        self._spend, self._lineage = spend, lineage
        self._inherited: dict[
            ChainStart, Taken
        ] = {}  # what the attempts took that a branch began with
        self._overruns: dict[ChainStart, int] = {}  # that were told
        # Of this command: what time left goes by.
        self._fresh_episodes, self._fresh_seconds = (0, 0.0)
        slots = self._slots()
        for chain in chains:
            self.add_chain(chain, slots=slots)

    def add_chain(
        self,
        chain: LoadedChain,
        wanted: int | None = None,
        until: int | None = None,
        *,
        slots: Mapping[ChainStart, Account] | None = None,
    ) -> None:
        """A chain as the run directory holds it."""
        line = self.lines[chain.name] = ChainLine(chain.name, wanted, until)
        for episode in chain.episodes:
            record = episode.record
            steps, driven = record.own_part().steps, bool(record.human_steps)
            line.add(episode.index, episode.success, steps, episode.position, driven)
        line.invalid = sum(a.note.counts for a in chain.invalid)
        slots = self._slots() if slots is None else slots
        line.taken = by_start(chain, slots, self._lineage)
        if self._spend is not None and (lacking := forgotten(chain, slots, self._lineage)):
            self.forgotten[chain.name] = lacking
        self._inherited |= {
            (chain.name, start): taken
            for start, taken in before_branch(chain, self._lineage).items()
        }

    def _slots(self) -> Mapping[ChainStart, Account]:
        return {} if self._spend is None else self._spend.slots()

    def counted_usd(self, chain: str, start: int) -> Decimal:
        """Dollars that attempts at a start took so far, known or possible, by spend.jsonl."""
        account = self._slots().get((chain, start))
        return Decimal(0) if account is None else account.total_usd

    @property
    def answered(self) -> bool:
        """Whether the model ever answered a request of this run, as far as somebody counts."""
        return self._spend is None or self._spend.account().requests > 0

    def new_overruns(self, chain: str, start: int) -> tuple[int, float] | None:
        """Requests of a start that cost more than their worst case, since the last look, with the
        dollars by which all of the start did; None where there is no new one.
        """
        account = self._slots().get((chain, start))
        if account is None or account.overruns == self._overruns.get((chain, start), 0):
            return None
        new = account.overruns - self._overruns.get((chain, start), 0)
        self._overruns[chain, start] = account.overruns
        return new, float(account.overrun_usd)

    def _over(
        self, line: ChainLine, start: int, seconds: float = 0.0, ended: Summary | None = None
    ) -> None:
        """An attempt at a start is over: its start took what spend.jsonl says, or, without one,
        what the event says.
        """
        line.now.pop(start, None)
        before = line.taken.get(start, Taken())
        account = self._slots().get((line.chain, start))
        if account is not None:
            inherited = self._inherited.get((line.chain, start), Taken())
            line.taken[start] = of_account(account, before.seconds + seconds) + replace(
                inherited, seconds=0.0
            )
        elif ended is not None:
            usd = None if ended.cost_usd is None else (Decimal(str(ended.cost_usd)),) * 2
            line.taken[start] = before + Taken(ended.requests, ended.requests, usd, None, seconds)

    def __call__(self, event: ev.Event) -> None:
        """Take an event in."""
        if isinstance(event, ev.Allocated):
            for name, worth in event.worth.items():
                self.lines[name].per_dollar = worth
            return
        line = self.lines.get(getattr(event, "chain", ""))
        if line is None:
            return
        if isinstance(event, ev.EpisodeBegan):
            line.state, line.paused_until = "", None
            line.now[event.start] = ev.EpisodeMoved(
                event.chain, event.start, "starting", 0, 0, 0, None
            )
        elif isinstance(event, ev.EpisodeMoved):
            line.now[event.start] = event
        elif isinstance(event, ev.EpisodeEnded):
            ended = event.summary
            place, driven = ended.position, bool(ended.human_steps)
            line.add(ended.number, ended.success, ended.steps, place, driven)
            self._over(line, ended.number, ended.seconds, ended)
            self._fresh_episodes += 1
            self._fresh_seconds += ended.seconds
        elif isinstance(event, ev.AttemptInvalid):
            line.invalid += event.then == "recorded as invalid"
            self._over(line, event.start)
        elif isinstance(event, ev.AttemptCutOff):
            self._over(line, event.start)
        elif isinstance(event, ev.ChainPaused):
            line.state, line.paused_until = f"paused: {event.reason}", time.time() + event.seconds
        elif isinstance(event, ev.ChainEnded):
            line.state = f"stopped: {event.error}" if event.error else f"done: {event.why}"

    @property
    def unjudged(self) -> int:
        """Episodes of all chains that wait for a person's verdict."""
        return sum(line.unjudged for line in self.lines.values())

    @property
    def total(self) -> ChainLine:
        """All chains together."""
        total = ChainLine("total")
        for line in self.lines.values():
            for name in ("episodes", "successes", "judged", "invalid", "driven", "steps"):
                setattr(total, name, getattr(total, name) + getattr(line, name))
            total.taken[len(total.taken)] = line.all_taken
        wanted = [line.wanted for line in self.lines.values()]
        total.wanted = None if None in wanted else sum(w or 0 for w in wanted)
        return total

    @property
    def hours_left(self) -> float | None:
        """Wall time left at the pace of this command; the longest chain alone bounds it
        from below.
        """
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
        """What a success and the rest will cost, once there are three episodes, from draws over all
        attempts together (`campaign.prediction`).

        Without a success only a lower bound is known. Where the bill of some requests is not
        known, the lower end takes what is known, the upper end what they may have cost at most, and
        there is no middle.
        """
        total = self.total
        if total.episodes < FORECAST_AFTER:
            return None
        hours, n = self.hours_left, total.episodes
        if total.usd is None:
            unknown = (None,) * 6
            return ev.Forecast(n, total.successes, *unknown, hours, total.unjudged)
        known, most = (usd / n for usd in total.usd)
        sure = known == most
        histories = [line.history for line in self.lines.values()]
        solved = [s for h in histories for s in h.solved]
        pooled = History("total", solved, np.concatenate([h.taken for h in histories]))
        futures = Prediction(pooled)
        each = _dollars(futures.mean_taken / futures.rate()[:, None])
        left = [line.left for line in self.lines.values()]
        rest = None if any(x is None for x in left) else sum(x or 0.0 for x in left)
        to_come = None if rest is None else _dollars(futures.over(round(rest)).taken)
        won = total.successes
        return ev.Forecast(
            episodes=n,
            successes=won,
            usd_per_success=known * (n - total.unjudged) / won if won and sure and most else None,
            usd_per_success_low=each.low if most else None,
            usd_per_success_high=each.high if won and most else None,
            rest_usd=rest * known if rest is not None and sure else None,
            rest_usd_low=None if to_come is None else to_come.low,
            rest_usd_high=None if to_come is None else to_come.high,
            hours_left=hours,
            unjudged=total.unjudged,
        )


def _usd(taken: Taken) -> tuple[float, float] | None:
    return None if taken.usd is None else (float(taken.usd[0]), float(taken.usd[1]))


def _dollars(taken: Array) -> Interval:
    """The interval of draws of dollars, from known to at most."""
    return interval(taken[:, 0], taken[:, 1], EVENT_LEVEL)


def _row(taken: Taken) -> Array:
    """What attempts took, as columns AMOUNTS."""
    low, high = (math.nan, math.nan) if taken.usd is None else map(float, taken.usd)
    return np.array([low, high, taken.seconds, taken.requests], dtype=np.float64)
