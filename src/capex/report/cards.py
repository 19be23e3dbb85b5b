"""Which episodes are shown in full: a sample over sources, tasks and outcomes, and pairs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from capex.method.record import EpisodeRecord
from capex.report.compare import grouped, task_of
from capex.report.sources import LAST, Source, main_source
from capex.report.strips import Filmer, Strip
from capex.run import read_record
from capex.run.summary import Summary

SHOWN = 48  # strips on a page unless told otherwise; about 0.11 MB each
PAIRED_TASKS, PAIRED_PARTNERS = 8, 2
Pick = tuple[Source, Summary]


@dataclass(frozen=True)
class Card:
    """An episode with everything that the page shows of it."""

    source: Source
    episode: Summary
    record: EpisodeRecord
    strip: Strip

    @property
    def outcome(self) -> str:
        """In words."""
        return {True: "solved", False: "not solved", None: "not judged"}[self.episode.success]


@dataclass(frozen=True)
class Twins:
    """Two sources from the same start."""

    first: Pick
    second: Pick
    median_steps: float
    both: int  # starts that both solved

    @property
    def caption(self) -> str:
        """What is seen and how it was chosen."""
        source, e = self.first
        among = (
            f"of {self.both} starts that both solved,"
            if self.both
            else "no start was solved by both;"
        )
        return (
            f"{e.task}, start {e.start}: “{e.instruction}” Chosen: {among} the one nearest to the"
            f" median length of {source.label}'s successes ({self.median_steps:.0f} steps)."
        )


def sample(sources: Sequence[Source], limit: int) -> list[Pick]:
    """At most `limit` episodes in order: turn by turn one from each source, task and outcome,
    evenly spread over its starts.
    """
    strata = grouped(
        ((s, e) for s in sources for e in s.episodes),
        lambda pick: (pick[0].number, task_of(pick[1]), pick[1].success),
    )
    longest = max(map(len, strata.values()), default=0)
    turns = [key for k in range(longest) for key, rows in strata.items() if k < len(rows)][:limit]
    chosen = []
    for key, rows in strata.items():
        n = turns.count(key)
        chosen += [rows[(2 * k + 1) * len(rows) // (2 * n)] for k in range(n)]
    return sorted(chosen, key=_order)


def _order(pick: Pick) -> tuple[str, str, int, int]:
    source, episode = pick
    return episode.world, episode.task, episode.start, source.number


def choose_twins(sources: Sequence[Source]) -> list[Twins]:
    """For each task the method with memory (or the most successful one) beside up to two others,
    at its median length.
    """
    main = main_source(sources)
    if main is None:
        return []
    others = sorted(
        (s for s in sources if s is not main and s.scorable),
        key=lambda s: (s.arm not in LAST, s.number),
    )
    chosen = []
    for tried in list(grouped(main.scorable, task_of).values())[:PAIRED_TASKS]:
        solved = [e for e in tried if e.success]
        for other in others[:PAIRED_PARTNERS]:
            theirs = {e.key: e for e in other.scorable}
            shared = [e for e in solved if e.key in theirs]
            both = [e for e in shared if theirs[e.key].success]
            if shared:
                median = statistics.median(e.steps for e in solved)
                best = min(both or shared, key=lambda e: (abs(e.steps - median), e.start))
                chosen.append(Twins((main, best), (other, theirs[best.key]), median, len(both)))
    return chosen


def film(
    chosen: Sequence[Pick], twins: Sequence[Twins]
) -> tuple[list[Card], list[tuple[Card, Card]]]:
    """Render what was chosen, each episode once, task by task."""
    filmer = Filmer()
    picks = {e.path: (s, e) for s, e in (*chosen, *(p for t in twins for p in (t.first, t.second)))}
    cards: dict[Path, Card] = {}
    for source, episode in sorted(picks.values(), key=_order):
        record = read_record(episode.path)  # again: only a sample is ever shown in full
        cards[episode.path] = Card(source, episode, record, filmer.strip(episode, record))
    filmer.close()
    pairs = [(cards[t.first[1].path], cards[t.second[1].path]) for t in twins]
    return [cards[e.path] for _, e in chosen], pairs
