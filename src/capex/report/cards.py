"""Which episodes are shown in full: a sample spread over sources, tasks and outcomes, and pairs of
sources from the same start.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from capex.method.record import EpisodeRecord
from capex.report.compare import TaskKey
from capex.report.rows import EpisodeRow
from capex.report.sources import LAST, Source, main_source
from capex.report.strips import Filmer, Strip
from capex.run import read_record

SHOWN = 48  # strips on a page unless told otherwise; about 0.11 MB each
PAIRED_TASKS, PAIRED_PARTNERS = 8, 2


@dataclass(frozen=True)
class Card:
    """An episode with everything that the page shows of it."""

    source: Source
    episode: EpisodeRow
    record: EpisodeRecord
    strip: Strip

    @property
    def outcome(self) -> str:
        """In words."""
        return {True: "solved", False: "not solved", None: "not judged"}[self.episode.success]


@dataclass(frozen=True)
class Twins:
    """Two sources from the same start."""

    task: TaskKey
    first: Card
    second: Card
    median_steps: float
    both: int  # starts that both solved

    @property
    def caption(self) -> str:
        """What is seen and how it was chosen."""
        e = self.first.episode
        chosen = (
            f"the one nearest to the median length of {self.first.source.label}'s successes"
            f" ({self.median_steps:.0f} steps)"
        )
        among = (
            f"of {self.both} starts that both solved, {chosen}"
            if self.both
            else f"no start was solved by both; {chosen}"
        )
        return f"{self.task[1]}, start {e.start}: “{e.instruction}” Chosen: {among}."


def sample(sources: Sequence[Source], limit: int) -> list[tuple[Source, EpisodeRow]]:
    """At most `limit` episodes: turn by turn one from each source, task and outcome, evenly spread
    over its starts; in order.
    """
    strata: dict[tuple[int, str, str, bool | None], list[tuple[Source, EpisodeRow]]] = {}
    for source in sources:
        for episode in source.episodes:
            strata.setdefault(
                (source.number, episode.world, episode.task, episode.success), []
            ).append((source, episode))
    wanted = dict.fromkeys(strata, 0)
    left = min(limit, sum(len(rows) for rows in strata.values()))
    while left > 0:
        for key, rows in strata.items():
            if left > 0 and wanted[key] < len(rows):
                wanted[key] += 1
                left -= 1
    chosen = []
    for key, rows in strata.items():
        n = wanted[key]
        chosen += [rows[(2 * k + 1) * len(rows) // (2 * n)] for k in range(n)]
    return sorted(
        chosen, key=lambda pair: (pair[1].world, pair[1].task, pair[1].start, pair[0].number)
    )


@dataclass(frozen=True)
class Choice:
    """Twins before they are filmed."""

    task: TaskKey
    first: tuple[Source, EpisodeRow]
    second: tuple[Source, EpisodeRow]
    median_steps: float
    both: int


def choose_twins(sources: Sequence[Source]) -> list[Choice]:
    """For each task the arm with memory (or the most successful one) beside up to two others, at
    its median length.
    """
    main = main_source(sources)
    if main is None:
        return []
    others = sorted(
        (s for s in sources if s is not main and s.scorable),
        key=lambda s: (s.arm not in LAST, s.number),
    )
    found = []
    for task in list(dict.fromkeys((e.world, e.task) for e in main.scorable))[:PAIRED_TASKS]:
        solved = [e for e in main.scorable if (e.world, e.task) == task and e.success]
        if not solved:
            continue
        median = statistics.median(e.steps for e in solved)
        for other in others[:PAIRED_PARTNERS]:
            theirs = {e.key: e for e in other.scorable}
            shared = [e for e in solved if e.key in theirs]
            both = [e for e in shared if theirs[e.key].success]
            if shared:
                best = min(both or shared, key=lambda e: (abs(e.steps - median), e.start))
                found.append(
                    Choice(task, (main, best), (other, theirs[best.key]), median, len(both))
                )
    return found


def film(
    chosen: Sequence[tuple[Source, EpisodeRow]], choices: Sequence[Choice]
) -> tuple[list[Card], list[Twins]]:
    """Render what was chosen, each episode once, task by task."""
    filmer = Filmer()
    wanted = {
        e.path: (s, e)
        for s, e in (*chosen, *(pair for c in choices for pair in (c.first, c.second)))
    }
    cards: dict[Path, Card] = {}
    for source, episode in sorted(
        wanted.values(), key=lambda pair: (pair[1].world, pair[1].task, pair[1].start)
    ):
        record = read_record(episode.path)  # again: only a sample is ever shown in full
        cards[episode.path] = Card(source, episode, record, filmer.strip(episode, record))
    filmer.close()
    twins = [
        Twins(c.task, cards[c.first[1].path], cards[c.second[1].path], c.median_steps, c.both)
        for c in choices
    ]
    return [cards[e.path] for _, e in chosen], twins
