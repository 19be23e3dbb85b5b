"""What memory did: the same starts with memory and with memory cleared before each episode."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from capex.report.compare import Pairs, Tally, count_pairs, tally
from capex.report.rows import EpisodeRow
from capex.report.sources import Source, differences
from capex.run.stats import SignTest, sign_test

MEMORY_ALONE = ("arm.memory", "arm.name")  # in these the two arms of the comparison may differ
WINDOW = 5  # episodes of the learning curve's sliding window


@dataclass(frozen=True)
class Measure:
    """One quantity on the starts solved by both: medians and the sign test of the pairs."""

    name: str
    with_memory: float
    cleared: float
    test: SignTest


@dataclass(frozen=True)
class Experience:
    """Memory against cleared memory, each task's first episode left out; it sees an empty memory in
    both.
    """

    kept: Source
    cleared: Source
    everything: Pairs
    after_success: Pairs  # a success was already in memory
    before_success: Pairs
    left_out: int
    # of those left out: equal in outcome and steps, as they must be for a model that repeats itself
    identical: int
    measures: tuple[Measure, ...]  # empty where no start was solved by both
    also_differ: tuple[str, ...]  # settings besides memory that differ between the two

    @property
    def splits(self) -> tuple[tuple[str, Pairs], ...]:
        """The pairs by what was in memory, in words; the arm with cleared memory is the first."""
        return (
            ("All pairs", self.everything),
            ("A success already in memory", self.after_success),
            ("Only failures in memory", self.before_success),
        )


def experiences(sources: Sequence[Source]) -> list[Experience]:
    """Every arm with memory beside the arm of the same model whose memory is cleared."""
    kept = [s for s in sources if s.memory == "chain" and s.scorable]
    cleared = [s for s in sources if s.memory == "fresh" and s.scorable]
    found = [experience(a, b) for a in kept for b in cleared if a.model == b.model]
    return [e for e in found if e.everything.n]


def experience(kept: Source, cleared: Source) -> Experience:
    """Pair the two on their starts."""
    other = {e.key: e for e in cleared.scorable}
    after: list[tuple[bool, bool]] = []
    before: list[tuple[bool, bool]] = []
    both: list[tuple[EpisodeRow, EpisodeRow]] = []
    left_out = identical = 0
    for chain in chains(kept):
        first_success = min((e.position for e in chain if e.success), default=math.inf)
        for episode in chain:
            twin = other.get(episode.key)
            if twin is None or episode.success is None:
                continue
            round_began = episode.position - episode.position % kept.round_size
            if chain[0].position >= round_began:
                left_out += 1
                identical += (episode.success, episode.steps) == (twin.success, twin.steps)
                continue
            cell = bool(twin.success), bool(episode.success)
            (after if first_success < round_began else before).append(cell)
            if all(cell):
                both.append((episode, twin))
    changed = [
        name for name in differences(kept.settings, cleared.settings) if name not in MEMORY_ALONE
    ]
    return Experience(
        kept,
        cleared,
        count_pairs([*after, *before]),
        count_pairs(after),
        count_pairs(before),
        left_out,
        identical,
        _measures(both),
        tuple(changed),
    )


def _measures(both: Sequence[tuple[EpisodeRow, EpisodeRow]]) -> tuple[Measure, ...]:
    if not both:
        return ()
    columns: dict[str, Callable[[EpisodeRow], float]] = {
        "control steps": lambda e: e.steps,
        "model requests": lambda e: e.requests,
        "wall time, s": lambda e: e.seconds,
    }
    found = []
    for name, value in columns.items():
        kept, cleared = [value(a) for a, _ in both], [value(b) for _, b in both]
        found.append(
            Measure(
                name, statistics.median(kept), statistics.median(cleared), sign_test(kept, cleared)
            )
        )
    return tuple(found)


def chains(source: Source) -> list[list[EpisodeRow]]:
    """The source's episodes chain by chain, each in the order in which it ran."""
    found: dict[tuple[int, str], list[EpisodeRow]] = {}
    for episode in source.episodes:
        found.setdefault((episode.run, episode.chain), []).append(episode)
    return [sorted(rows, key=lambda e: (e.position, e.start)) for rows in found.values()]


@dataclass(frozen=True)
class CurvePoint:
    """Success of the episodes around one place in the chains, all tasks pooled."""

    number: int  # of the episode in its chain, from 1
    tally: Tally
    requests: float  # median


def learning_curve(source: Source, window: int = WINDOW) -> list[CurvePoint]:
    """A centred sliding window over the place in the chain; at the ends it holds fewer places."""
    places: dict[int, list[EpisodeRow]] = {}
    for chain in chains(source):
        for place, episode in enumerate(chain, start=1):
            if episode.success is not None:
                places.setdefault(place, []).append(episode)
    points = []
    for number in range(1, max(places, default=0) + 1):
        near = [
            e
            for place in range(number - window // 2, number + window // 2 + 1)
            for e in places.get(place, ())
        ]
        if near:
            points.append(
                CurvePoint(number, tally(near), float(np.median([e.requests for e in near])))
            )
    return points
