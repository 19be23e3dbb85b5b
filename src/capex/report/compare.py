"""Does it work, what did it cost, is the difference real? Per source, per task, and paired."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from capex.report.rows import CostRow
from capex.report.sources import Source
from capex.run import stats
from capex.run.summary import StartKey, Summary

SIGNIFICANT = 0.05
ALL_PAIRS_UP_TO = 5  # sources; with more, those of one model, and each with the first
TaskKey = tuple[str, str]  # world, task
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


def grouped(rows: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Rows by their key, in the order in which they come."""
    groups: dict[K, list[T]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def _number(row: Summary | CostRow) -> int:
    """Of the folder at which attempts belong together."""
    return row.number if isinstance(row, Summary) else row.start


def task_of(row: Summary | CostRow) -> TaskKey:
    """World and task."""
    return row.world, row.task


@dataclass(frozen=True)
class Tally:
    """Successes of scorable starts."""

    successes: int
    n: int

    @property
    def share(self) -> float | None:
        """Successes / n."""
        return self.successes / self.n if self.n else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's 95 % interval; None when nothing was tried."""
        return stats.wilson(self.successes, self.n) if self.n else None


def tally(episodes: Iterable[Summary]) -> Tally:
    """Count the scorable ones."""
    verdicts = [e.success for e in episodes if e.success is not None]
    return Tally(sum(verdicts), len(verdicts))


def tallies(source: Source, key: Callable[[Summary], K]) -> dict[K, Tally]:
    """Success of a source by task, or by whatever else the key says."""
    return {k: tally(rows) for k, rows in grouped(source.episodes, key).items()}


@dataclass(frozen=True)
class Rate:
    """An amount per success: a number, infinite, or None where it is not known; with its bootstrap
    interval.

    `most` is larger than `value` where part of the amount is known only to lie below a worst case:
    the interval then reaches from the lower end for the one to the upper end for the other.
    """

    value: float | None
    interval: tuple[float, float] | None
    per_attempt: float | None
    most: float | None = None


@dataclass(frozen=True)
class SourceTotals:
    """One line of the headline table."""

    source: Source
    tally: Tally
    unjudged: int
    invalid: int
    usd: Rate
    requests: Rate
    minutes: Rate


def totals(source: Source) -> SourceTotals:
    """Every attempt counts: failed, not yet judged and invalidated ones, and what left no record.

    Attempts at one start belong together, so the bootstrap draws starts.
    """
    rows = list(grouped(source.attempts, lambda row: (row.run, row.chain, _number(row))).values())
    solved = [any(isinstance(r, Summary) and r.success is True for r in row) for row in rows]
    strata = [task_of(row[0]) for row in rows]
    Amount = Callable[[Summary | CostRow], float | None]

    def sums(amount: Amount) -> list[float | None]:
        parts = [[amount(r) for r in row] for row in rows]
        return [
            None if None in row else math.fsum(a for a in row if a is not None) for row in parts
        ]

    def rate(amount: Amount, at_most: Amount | None = None) -> Rate:
        low = sums(amount)
        high = low if at_most is None else sums(at_most)
        whole, n = stats.per_success(low, 1), sum(solved)
        interval = stats.per_success_interval(low, solved, strata)
        if high != low and interval is not None:
            upper = stats.per_success_interval(high, solved, strata)
            interval = None if upper is None else (interval[0], upper[1])
        each = None if whole is None else whole / max(1, len(source.recorded))
        return Rate(stats.per_success(low, n), interval, each, stats.per_success(high, n))

    return SourceTotals(
        source=source,
        tally=tally(source.episodes),
        unjudged=sum(e.success is None for e in source.episodes),
        invalid=len(source.invalid),
        usd=rate(lambda r: r.usd and r.usd[0], lambda r: r.usd and r.usd[1]),
        requests=rate(lambda r: r.requests),
        minutes=rate(lambda r: r.seconds / 60),
    )


@dataclass(frozen=True)
class Pairs:
    """Two sources on the starts that both have a verdict on, with the exact McNemar test."""

    both: int
    only_first: int
    only_second: int
    neither: int

    @property
    def n(self) -> int:
        """Pairs."""
        return self.both + self.only_first + self.only_second + self.neither

    @property
    def first(self) -> Tally:
        """What the first solved."""
        return Tally(self.both + self.only_first, self.n)

    @property
    def second(self) -> Tally:
        """What the second solved."""
        return Tally(self.both + self.only_second, self.n)

    @property
    def difference(self) -> float | None:
        """Share of the second minus share of the first."""
        return (self.only_second - self.only_first) / self.n if self.n else None

    @property
    def p(self) -> float | None:
        """Two-sided; None without pairs."""
        return stats.mcnemar(self.only_first, self.only_second) if self.n else None


def count_pairs(pairs: Iterable[tuple[bool, bool]]) -> Pairs:
    """The four cells."""
    rows = list(pairs)
    return Pairs(*(rows.count((a, b)) for a in (True, False) for b in (True, False)))


def verdicts(source: Source) -> dict[StartKey, bool]:
    """Success by start."""
    return {e.key: bool(e.success) for e in source.scorable}


@dataclass(frozen=True)
class TaskCounts:
    """In how many tasks the second solves a larger share than the first, a smaller one, and how
    many of either are significant at 5 %.
    """

    tasks: int
    better: int
    better_significantly: int
    worse: int
    worse_significantly: int


@dataclass(frozen=True)
class Comparison:
    """Second against first: paired where they share starts, else tested per task and across."""

    first: Source
    second: Source
    pairs: Pairs
    tasks: dict[TaskKey, Pairs]
    # Tallies and Fisher's p; empty where starts are shared.
    unpaired: dict[TaskKey, tuple[Tally, Tally, float]]
    across: stats.Stratified | None  # Cochran-Mantel-Haenszel

    @property
    def by_task(self) -> TaskCounts:
        """Exact McNemar on pairs, Fisher's exact test where no start is shared."""
        paired = [(p.difference or 0.0, p.p) for p in self.tasks.values()]
        apart = [(y.successes / y.n - x.successes / x.n, p) for x, y, p in self.unpaired.values()]
        tested = [(d, p is not None and p < SIGNIFICANT) for d, p in (*paired, *apart)]
        up, down = [s for d, s in tested if d > 0], [s for d, s in tested if d < 0]
        return TaskCounts(len(tested), len(up), sum(up), len(down), sum(down))


def compare(first: Source, second: Source) -> Comparison:
    """On the same starts if there are any."""
    a, b = verdicts(first), verdicts(second)
    shared = grouped((key for key in a if key in b), lambda key: key[:2])
    tasks = {task: count_pairs((a[key], b[key]) for key in keys) for task, keys in shared.items()}
    whole = count_pairs((a[key], b[key]) for keys in shared.values() for key in keys)
    if shared:
        return Comparison(first, second, whole, tasks, {}, None)
    unpaired: dict[TaskKey, tuple[Tally, Tally, float]] = {}
    strata = []
    theirs = tallies(second, task_of)
    for task, x in tallies(first, task_of).items():
        y = theirs.get(task, Tally(0, 0))
        if x.n and y.n:
            unpaired[task] = x, y, stats.fisher(x.successes, x.n, y.successes, y.n)
            strata.append((y.successes, y.n, x.successes, x.n))
    across = stats.cochran_mantel_haenszel(strata) if strata else None
    return Comparison(first, second, whole, tasks, unpaired, across)


def leading(compared: Iterable[Comparison], main: Source | None) -> list[Comparison]:
    """What the report's first sentences compare its main source with: the base method, else the
    first other source.
    """
    about = [c for c in compared if main in (c.first, c.second)]
    return [c for c in about if c.first.arm == "base"] or about[:1]


def compared_sources(compared: Iterable[Comparison]) -> list[Source]:
    """Every source that is part of a comparison, once."""
    return list(dict.fromkeys(s for c in compared for s in (c.first, c.second)))


def comparisons(sources: Sequence[Source]) -> list[Comparison]:
    """Every pair of sources; with many sources those of one model, and each against the first."""
    with_data = [s for s in sources if s.scorable]
    few = len(with_data) <= ALL_PAIRS_UP_TO
    return [
        compare(a, b)
        for a, b in itertools.combinations(with_data, 2)
        if few or a is with_data[0] or a.model == b.model
        if a.resumed == b.resumed  # what begins in the middle is not compared with a whole episode
    ]
