"""The first screen: what the run is, its result in one sentence, and which episodes play there."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from capex.report import show
from capex.report.cards import Pick
from capex.report.compare import Comparison, SourceTotals, leading, task_of
from capex.report.figures import Figure
from capex.report.films import PosterFilm
from capex.report.sources import STAND_IN, Source, main_source, plain
from capex.run.summary import Summary

NAMED = 3  # tasks, methods or models; more are counted
NAME_CHARACTERS, TITLE_CHARACTERS = 40, 160


@dataclass(frozen=True)
class Poster:
    """What the first screen shows."""

    title: str
    sentence: str
    figure: Figure | None
    films: Sequence[PosterFilm]

    @property
    def one_start(self) -> bool:
        """Whether the films are of one start, so that its task is said once."""
        return len({film.card.episode.key for film in self.films}) == 1


def title(sources: Sequence[Source]) -> str:
    """What the run is: methods, models and tasks. `capex against base with pilot (stand-in) on
    CloseFridge`.
    """
    acting = [s for s in sources if s.episodes]
    if not acting:
        return "No episode yet"
    main = main_source(acting) or acting[0]
    students = sum(s.student for s in acting)
    asked = [main, *(s for s in acting if s is not main and not s.student)]
    methods = list(dict.fromkeys(_method(s) for s in asked if not s.student))
    who = _against(methods, "method") if methods else ""
    if students:
        who = " and ".join(filter(None, (who, show.counted(students, "student"))))
    models = dict.fromkeys(_model(s) for s in asked if not s.student and s.arm != s.model)
    by = f" with {_listed(list(models), 'model')}" if models else ""
    return plain(f"{who}{by} on {_tasks(acting)}", TITLE_CHARACTERS)


def _method(source: Source) -> str:
    stand_in = f" ({STAND_IN})" if source.stand_in and source.arm == source.model else ""
    return plain(source.arm, NAME_CHARACTERS) + stand_in


def _model(source: Source) -> str:
    return plain(source.model, NAME_CHARACTERS) + (f" ({STAND_IN})" if source.stand_in else "")


def _against(methods: Sequence[str], noun: str) -> str:
    if len(methods) == 1:
        return methods[0]
    return f"{methods[0]} against {_listed(methods[1:], f'other {noun}')}"


def _listed(names: Sequence[str], noun: str) -> str:
    if len(names) > NAMED:
        return show.counted(len(names), noun)
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _tasks(sources: Sequence[Source]) -> str:
    keys = dict.fromkeys(task_of(e) for s in sources for e in s.episodes)
    worlds = list(dict.fromkeys(world for world, _ in keys))
    if len(keys) <= NAMED:
        return _listed([plain(task, NAME_CHARACTERS) for _, task in keys], "task")
    where = worlds[0] if len(worlds) == 1 else f"{len(worlds)} worlds'"
    return f"{len(keys)} {plain(where, NAME_CHARACTERS)} tasks"


def sentence(lines: Sequence[SourceTotals], compared: Sequence[Comparison]) -> str:
    """The result: what the main source solved beside what it is compared with, and at what cost."""
    main = main_source([line.source for line in lines])
    by_number = {line.source.number: line for line in lines}
    if main is None:
        return "No start has a verdict yet."
    mine = by_number[main.number]
    found = leading(compared, main)
    if not found:
        return f"{_name(main, [main])} solved {_of(mine)}{_at(mine, None)}."
    (pair, *_) = found
    other = pair.first if pair.second is main else pair.second
    theirs = by_number[other.number]
    a, b = (_name(s, [main, other]) for s in (main, other))
    if not pair.pairs.n:
        return f"{a} solved {_of(mine)}, {b} {_of(theirs)}{_at(mine, theirs)}."
    first, second = pair.pairs.first, pair.pairs.second
    own, its = (second, first) if pair.second is main else (first, second)
    return (
        f"{a} solved {own.successes} of {show.counted(own.n, 'start')}, {b} {its.successes} of the"
        f" same {its.n}{_at(mine, theirs)}."
    )


def _name(source: Source, among: Sequence[Source]) -> str:
    """By method alone where that tells them apart."""
    alone = len({s.arm for s in among}) == len(among) and len({s.model for s in among}) == 1
    return _method(source) if alone or source.arm == source.model else source.label


def _of(line: SourceTotals) -> str:
    return f"{line.tally.successes} of {show.counted(line.tally.n, 'start')}"


def _at(mine: SourceTotals, theirs: SourceTotals | None) -> str:
    """, at $0.98 instead of $4.10 per success; dollars where they are known, else requests."""

    def amount(line: SourceTotals) -> tuple[str, str] | None:
        usd, requests, minutes = line.usd.value, line.requests.value, line.minutes.value
        if usd and math.isfinite(usd):
            return "$", f"${show.significant(usd)}"
        if requests and math.isfinite(requests):
            return "requests", f"{show.brief(requests)} requests"
        known = minutes and math.isfinite(minutes) and not requests
        return ("time", show.duration(minutes)) if known else None

    own = amount(mine)
    if own is None:
        return ""
    its = amount(theirs) if theirs is not None else None
    if its is None or its[0] != own[0]:
        return f", at {own[1]} per success"
    return f", at {own[1].removesuffix(' requests')} instead of {its[1]} per success"


def choose_films(sources: Sequence[Source], compared: Sequence[Comparison]) -> list[Pick]:
    """A success and a failure: of the main source and of what it is compared with from one start
    where there is such a start, else of whoever has them; the success of about median length.
    """
    main = main_source(sources)
    if main is None:
        return []
    pairs = leading(compared, main)
    other = next((c.first if c.second is main else c.second for c in pairs), None)
    solved = [e for e in main.scorable if e.success]
    if other is not None and solved:
        failed = {e.key: e for e in other.scorable if not e.success}
        if shared := [e for e in solved if e.key in failed]:
            best = _typical(shared)
            return [(main, best), (other, failed[best.key])]
    order = [main, *(s for s in sources if s is not main)]
    chosen: list[Pick] = []
    for verdict in (True, False):
        every = [(s, [e for e in s.scorable if bool(e.success) is verdict]) for s in order]
        found = next(((s, rows) for s, rows in every if rows), None)
        if found is not None:
            source, rows = found
            alike = [e for e in rows if chosen and task_of(e) == task_of(chosen[0][1])]
            chosen.append((source, _typical(alike or rows)))
    return chosen


def _typical(episodes: Sequence[Summary]) -> Summary:
    median = statistics.median(e.steps for e in episodes)
    return min(episodes, key=lambda e: (abs(e.steps - median), e.start))
