"""Success and cost of every task and family."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from capex import worlds
from capex.errors import CapexError
from capex.report import show
from capex.report.compare import Tally, TaskKey, tallies, tally, task_of
from capex.report.plots.success import success_figure
from capex.report.rows import CostRow
from capex.report.sections.section import Section, SectionInput
from capex.report.sources import Source
from capex.report.tables import ROWS_SHOWN, Column, Row, Table, file_table, group_row, tally_names
from capex.run.stats import per_success
from capex.run.summary import Summary
from capex.worlds import TaskInfo


def by_task_section(given: SectionInput) -> list[Section]:
    """Success and cost of every task and family."""
    data, sources = given.data, given.sources
    section = Section("tasks", "By task and family")
    known = _known(data.episodes)
    family_of = {key: info.family if info else "No family" for key, info in known.items()}
    scored = [tallies(s, task_of) for s in sources]
    order = sorted(
        {key for found in scored for key in found},
        key=lambda k: (list(family_of.values()).index(family_of[k]), k),
    )
    if not order:
        section.notes.append("No episode was finished, so there is nothing to compare by task.")
        return [section]
    pooled = [tallies(s, lambda e: family_of[task_of(e)]) for s in sources]
    families = {
        name: [found.get(name) for found in pooled]
        for name in dict.fromkeys(family_of[k] for k in order)
    }
    overall = [tally(s.episodes) for s in sources]
    tasks = {key: [found.get(key) for found in scored] for key in order}
    section.figures.append(success_figure(sources, overall, families, tasks, family_of))
    scores = {
        key: [
            _score([r for r in s.attempts if task_of(r) == key], t or Tally(0, 0))
            for s, t in zip(sources, found, strict=True)
        ]
        for key, found in tasks.items()
    }
    whole = [_score(s.attempts, t) for s, t in zip(sources, overall, strict=True)]
    section.tables.append(_task_table(sources, known, scores, whole))
    section.tables.append(_cost_table(sources, scores, whole))
    return [section]


def _known(episodes: Sequence[Summary]) -> dict[TaskKey, TaskInfo | None]:
    """What the world says of each (world, task); None where it cannot be asked here."""
    found: dict[TaskKey, TaskInfo | None] = {}
    for world in dict.fromkeys(e.world for e in episodes):
        try:
            told = worlds.tasks(world)
        except (CapexError, ImportError):
            told = {}
        for task in dict.fromkeys(e.task for e in episodes if e.world == world):
            found[world, task] = told.get(task)
    return found


@dataclass(frozen=True)
class _Score:
    """One source at one task, or at all of them: its successes, and what one took."""

    tally: Tally
    usd: tuple[float | None, float | None]  # per success: the known part, and at most
    requests: float | None
    minutes: float | None

    @property
    def amounts(self) -> tuple[str, str, str]:
        """Dollars, requests and time as shown."""
        return (
            show.spread(*map(show.significant, self.usd)),
            show.significant(self.requests),
            show.duration(self.minutes),
        )


def _score(attempts: Sequence[Summary | CostRow], tally: Tally) -> _Score:
    def each(amount: Callable[[Summary | CostRow], float | None]) -> float | None:
        return per_success([amount(r) for r in attempts], tally.successes)

    usd = each(lambda r: r.usd and r.usd[0]), each(lambda r: r.usd and r.usd[1])
    return _Score(tally, usd, each(lambda r: float(r.requests)), each(lambda r: r.seconds / 60))


def _task_table(
    sources: Sequence[Source],
    known: Mapping[TaskKey, TaskInfo | None],
    scores: Mapping[TaskKey, Sequence[_Score]],
    whole: Sequence[_Score],
) -> Table:
    """The paper's table: horizon, criterion, successes and dollars (or requests) per success."""
    name = _namer(scores)
    amount = 0 if any(r.usd is not None for s in sources for r in s.episodes) else 1

    def cells(found: Sequence[_Score]) -> tuple[Tally | str, ...]:
        return *(s.tally for s in found), *(s.amounts[amount] for s in found)

    rows: list[Row] = []
    written: list[Row] = []
    for key, found in scores.items():
        info = known[key]
        family = info.family if info else "No family"
        told = (info.horizon, info.criterion) if info else (None, None)
        if not written or written[-1].values[0] != family:
            rows.append(group_row(family))
        rows.append(Row((name(key), *told, *cells(found))))
        written += [
            Row((family, *key, source.label, s.tally, s.usd, s.requests, s.minutes, told))
            for source, s in zip(sources, found, strict=True)
        ]
    rows.append(Row(("All", "", "", *cells(whole)), "total"))
    if len(scores) > 1:
        columns_of = zip(*scores.values(), strict=True)
        shares = [[v for s in found if (v := s.tally.share) is not None] for found in columns_of]
        means = (show.percent(statistics.fmean(v)) if v else show.MISSING for v in shares)
        rows.append(Row(("Average over tasks", "", "", *means, *[""] * len(sources)), "total"))
    unit, counted = (
        ("Requests", "requests, since no price is known,") if amount else ("$", "dollars")
    )
    columns = (
        Column("Task", align="l"),
        Column("Horizon", show=show.count),
        Column("Success criterion", show=lambda _: show.MISSING, align="l", sentences=True),
        *(Column(s.label, show=show.fraction) for s in sources),
        *(Column(f"{unit} / success: {s.label}") for s in sources),
    )
    names = (
        *("family", "world", "task", "source", tally_names()),
        ("usd_per_success", "usd_per_success_at_most"),
        *("requests_per_success", "minutes_per_success", ("horizon", "criterion")),
    )
    caption = (
        "Horizon in control steps; successes of scorable starts by task, and the"
        f" {counted} of all attempts per success. The average weighs every task alike."
    )
    data = file_table("tasks", caption, names, written, sources)
    return Table("tasks", caption, columns, rows, sources, data=data)


def _cost_table(
    sources: Sequence[Source], scores: Mapping[TaskKey, Sequence[_Score]], whole: Sequence[_Score]
) -> Table:
    """What a success took by task: a line per source below each task."""
    name = _namer(scores)
    columns = (
        Column("Source", "source", align="l"),
        Column(csv=("world", "task")),
        Column("Success (95 % CI)", tally_names(), show.success, "l"),
        Column("$ / success"),
        Column(csv=("usd_per_success", "usd_per_success_at_most")),
        Column("Requests / success", "requests_per_success", show.significant),
        Column("Time / success", "minutes_per_success", show.duration),
    )
    rows: list[Row] = []
    for key, found in (*scores.items(), *([(None, whole)] if len(scores) > 1 else ())):
        rows.append(group_row("All tasks" if key is None else name(key)))
        for source, s in zip(sources, found, strict=True):
            if s.tally.n or s.requests or s.minutes:
                values = (key or ("", ""), s.tally, s.amounts[0], s.usd, s.requests, s.minutes)
                rows.append(Row((source.label, *values), written=key is not None))
    caption = (
        "What a success took by task: dollars, requests and time of all attempts, divided by the"
        " successes; ∞ marks no success, — an unknown price."
    )
    folded = len(rows) > ROWS_SHOWN
    return Table("task-costs", caption, columns, rows, sources, "folded" if folded else "open")


def _namer(keys: Iterable[TaskKey]) -> Callable[[TaskKey], str]:
    """How tasks are called: with their world where there are several."""
    several = len({world for world, _ in keys}) > 1
    return lambda key: ": ".join(key) if several else key[1]
