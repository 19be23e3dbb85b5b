"""Does it work, what did it cost, is the difference real? Numbers per source, per task and per
family, and paired comparisons.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from capex.report.rows import CostRow, EpisodeRow, StartKey
from capex.report.sources import Source
from capex.run.stats import (
    Stratified,
    cochran_mantel_haenszel,
    fisher,
    mcnemar,
    per_success,
    per_success_interval,
    wilson,
)

ALL_PAIRS_UP_TO = 5  # sources; with more, each is compared with the first alone
TaskKey = tuple[str, str]  # world, task


@dataclass(frozen=True)
class Tally:
    """Successes of scorable starts with the 95 % Wilson interval; low and high are None when
    nothing was tried.
    """

    successes: int
    n: int

    @property
    def share(self) -> float | None:
        """Successes / n."""
        return self.successes / self.n if self.n else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's interval."""
        return wilson(self.successes, self.n) if self.n else None


def tally(episodes: Iterable[EpisodeRow]) -> Tally:
    """Count the scorable ones."""
    verdicts = [e.success for e in episodes if e.success is not None]
    return Tally(sum(verdicts), len(verdicts))


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
class Totals:
    """One line of the headline table."""

    source: Source
    tally: Tally
    unjudged: int
    invalid: int
    usd: Rate
    requests: Rate
    minutes: Rate


def totals(source: Source) -> Totals:
    """Every attempt counts: failed, not yet judged and invalidated ones, and what left no record.

    Attempts at one start belong together, so the bootstrap draws starts.
    """
    starts: dict[tuple[int, str, int], list[EpisodeRow | CostRow]] = {}
    for row in source.attempts:
        starts.setdefault((row.run, row.chain, row.start), []).append(row)
    rows = list(starts.values())
    solved = [any(isinstance(r, EpisodeRow) and r.success is True for r in row) for row in rows]
    strata = [(row[0].world, row[0].task) for row in rows]

    def sums(amount: Callable[[EpisodeRow | CostRow], float | None]) -> list[float | None]:
        parts = [[amount(r) for r in row] for row in rows]
        return [
            None if None in row else math.fsum(a for a in row if a is not None) for row in parts
        ]

    def rate(amounts: Sequence[float | None], most: Sequence[float | None] | None = None) -> Rate:
        whole = per_success(amounts, 1)
        interval = per_success_interval(amounts, solved, strata)
        high = amounts if most is None else most
        if high != amounts and interval is not None:
            upper = per_success_interval(high, solved, strata)
            interval = None if upper is None else (interval[0], upper[1])
        each = None if whole is None else whole / max(1, len(source.recorded))
        return Rate(
            per_success(amounts, sum(solved)), interval, each, per_success(high, sum(solved))
        )

    return Totals(
        source=source,
        tally=tally(source.episodes),
        unjudged=sum(e.success is None for e in source.episodes),
        invalid=len(source.invalid),
        usd=rate(sums(lambda r: r.usd and r.usd[0]), sums(lambda r: r.usd and r.usd[1])),
        requests=rate(sums(lambda r: r.requests)),
        minutes=rate(sums(lambda r: r.seconds / 60)),
    )


def by_task(source: Source) -> dict[TaskKey, Tally]:
    """Success of each task."""
    found: dict[TaskKey, list[EpisodeRow]] = {}
    for episode in source.episodes:
        found.setdefault((episode.world, episode.task), []).append(episode)
    return {key: tally(rows) for key, rows in found.items()}


def by_family(source: Source, families: Mapping[TaskKey, str]) -> dict[str, Tally]:
    """Success of each family, its tasks pooled."""
    found: dict[str, list[EpisodeRow]] = {}
    for episode in source.episodes:
        found.setdefault(families[episode.world, episode.task], []).append(episode)
    return {family: tally(rows) for family, rows in found.items()}


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
        """Share of the second less share of the first."""
        return (self.only_second - self.only_first) / self.n if self.n else None

    @property
    def p(self) -> float | None:
        """Two-sided; None without pairs."""
        return mcnemar(self.only_first, self.only_second) if self.n else None


def count_pairs(pairs: Iterable[tuple[bool, bool]]) -> Pairs:
    """The four cells."""
    rows = list(pairs)
    return Pairs(
        rows.count((True, True)),
        rows.count((True, False)),
        rows.count((False, True)),
        rows.count((False, False)),
    )


def verdicts(source: Source) -> dict[StartKey, bool]:
    """Success by start."""
    return {e.key: bool(e.success) for e in source.scorable}


@dataclass(frozen=True)
class Comparison:
    """Second against first: paired where they share starts; otherwise Fisher per task and
    Cochran-Mantel-Haenszel across tasks.
    """

    first: Source
    second: Source
    pairs: Pairs
    tasks: dict[TaskKey, Pairs]
    # Tallies and Fisher's p; empty where starts are shared.
    unpaired: dict[TaskKey, tuple[Tally, Tally, float]]
    across: Stratified | None


def compare(first: Source, second: Source) -> Comparison:
    """On the same starts if there are any."""
    a, b = verdicts(first), verdicts(second)
    shared = [key for key in a if key in b]
    cells: dict[TaskKey, list[tuple[bool, bool]]] = {}
    for key in shared:
        cells.setdefault(key[:2], []).append((a[key], b[key]))
    unpaired: dict[TaskKey, tuple[Tally, Tally, float]] = {}
    across = None
    if not shared:
        mine, theirs = by_task(first), by_task(second)
        for task in (t for t in mine if t in theirs and mine[t].n and theirs[t].n):
            x, y = mine[task], theirs[task]
            unpaired[task] = x, y, fisher(x.successes, x.n, y.successes, y.n)
        if unpaired:
            across = cochran_mantel_haenszel(
                [(y.successes, y.n, x.successes, x.n) for x, y, _ in unpaired.values()]
            )
    whole = count_pairs((a[key], b[key]) for key in shared)
    return Comparison(
        first, second, whole, {t: count_pairs(c) for t, c in cells.items()}, unpaired, across
    )


def compared_sources(compared: Iterable[Comparison]) -> list[Source]:
    """Every source that is part of a comparison, once."""
    return list(dict.fromkeys(s for c in compared for s in (c.first, c.second)))


def comparisons(sources: Sequence[Source]) -> list[Comparison]:
    """Every pair of sources; with many sources, each against the first."""
    with_data = [s for s in sources if s.scorable]
    firsts = with_data if len(with_data) <= ALL_PAIRS_UP_TO else with_data[:1]
    return [compare(a, b) for i, a in enumerate(firsts) for b in with_data[i + 1 :]]
