"""What memory did: the same starts with memory and with memory cleared before each episode."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from capex.report.compare import Pairs, Tally, count_pairs, grouped, tally
from capex.report.sources import Source, differences
from capex.run.stats import SignTest, sign_test
from capex.run.summary import Summary

MEMORY_ALONE = ("arm.memory", "arm.name")  # in these the two methods may differ
# Compared on starts solved by both, and the episode's field that holds it.
MEASURED = {"control steps": "steps", "model requests": "requests", "wall time, s": "seconds"}
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
    """Memory against cleared memory, without each task's first episode: it has none in both."""

    kept: Source
    cleared: Source
    everything: Pairs
    after_success: Pairs  # a success was already in memory
    before_success: Pairs
    left_out: int
    # of those left out: equal in outcome and steps, as they must be for a model that repeats itself
    identical: int
    measures: Sequence[Measure]  # empty where no start was solved by both
    also_differ: Sequence[str]  # settings besides memory that differ between the two

    @property
    def splits(self) -> tuple[tuple[str, Pairs], ...]:
        """The pairs by what was in memory, in words; the method with cleared memory is first."""
        return (
            ("All pairs", self.everything),
            ("A success already in memory", self.after_success),
            ("Only failures in memory", self.before_success),
        )


def experiences(sources: Sequence[Source]) -> list[Experience]:
    """Every method with memory beside the one of the same model whose memory is cleared."""
    kept = [s for s in sources if s.memory == "chain" and s.scorable]
    cleared = [s for s in sources if s.memory == "fresh" and s.scorable]
    compared = [experience(a, b) for a in kept for b in cleared if a.model == b.model]
    return [e for e in compared if e.everything.n]


def experience(kept: Source, cleared: Source) -> Experience:
    """Pair the two on their starts."""
    other = {e.key: e for e in cleared.scorable}
    after: list[tuple[bool, bool]] = []
    before: list[tuple[bool, bool]] = []
    both: list[tuple[Summary, Summary]] = []
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
    changed = [n for n in differences(kept.settings, cleared.settings) if n not in MEMORY_ALONE]
    pairs = count_pairs([*after, *before]), count_pairs(after), count_pairs(before)
    measures = [_measure(name, field, both) for name, field in MEASURED.items()] if both else []
    return Experience(kept, cleared, *pairs, left_out, identical, measures, tuple(changed))


def _measure(name: str, field: str, both: Sequence[tuple[Summary, Summary]]) -> Measure:
    kept, cleared = ([getattr(pair[k], field) for pair in both] for k in (0, 1))
    test = sign_test(kept, cleared)
    return Measure(name, statistics.median(kept), statistics.median(cleared), test)


def chains(source: Source) -> list[list[Summary]]:
    """The source's episodes chain by chain, each in the order in which it ran."""
    by_chain = grouped(source.episodes, lambda e: (e.run, e.chain))
    return [sorted(rows, key=lambda e: (e.position, e.start)) for rows in by_chain.values()]


@dataclass(frozen=True)
class CurvePoint:
    """Success of the episodes around one place in the chains, all tasks pooled."""

    number: int  # of the episode in its chain, from 1
    tally: Tally
    requests: float  # median


def learning_curve(source: Source, window: int = WINDOW) -> list[CurvePoint]:
    """A centred sliding window over the place in the chain; at the ends it holds fewer places."""
    numbered = [(k, e) for chain in chains(source) for k, e in enumerate(chain, start=1)]
    judged = grouped(
        (pair for pair in numbered if pair[1].success is not None), lambda pair: pair[0]
    )
    points = []
    for number in range(1, max(judged, default=0) + 1):
        around = range(number - window // 2, number + window // 2 + 1)
        if near := [e for k in around for _, e in judged.get(k, ())]:
            requests = float(np.median([e.requests for e in near]))
            points.append(CurvePoint(number, tally(near), requests))
    return points
