"""Success and cost of every task and family."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from capex import worlds
from capex.errors import CapexError
from capex.report import show
from capex.report.compare import Tally, TaskKey, tallies, tally, task_of
from capex.report.plots.success import success_figure
from capex.report.rows import CostRow, RunData
from capex.report.sections.section import Section
from capex.report.sources import Source
from capex.report.tables import Column, Row, Table, file_table, group_row, tally_names
from capex.run.stats import per_success
from capex.run.summary import Summary


def by_task_section(data: RunData, sources: Sequence[Source]) -> Section:
    """Success and cost of every task and family."""
    section = Section("tasks", "By task and family")
    family_of = _families(data.episodes)
    scored = [tallies(s, task_of) for s in sources]
    order = sorted(
        {key for found in scored for key in found},
        key=lambda k: (list(family_of.values()).index(family_of[k]), k),
    )
    if not order:
        section.notes.append("No episode was finished, so there is nothing to compare by task.")
        return section
    pooled = [tallies(s, lambda e: family_of[task_of(e)]) for s in sources]
    families = {
        name: [found.get(name) for found in pooled]
        for name in dict.fromkeys(family_of[k] for k in order)
    }
    overall = [tally(s.episodes) for s in sources]
    tasks = {key: [found.get(key) for found in scored] for key in order}
    section.figures.append(success_figure(sources, overall, families, tasks, family_of))
    section.tables.append(_task_table(sources, tasks, family_of, overall))
    return section


def _families(episodes: Sequence[Summary]) -> dict[TaskKey, str]:
    """The family of each (world, task); a world that cannot be asked here has none."""
    families: dict[TaskKey, str] = {}
    for world in dict.fromkeys(e.world for e in episodes):
        try:
            known = worlds.tasks(world)
        except (CapexError, ImportError):
            known = {}
        for task in dict.fromkeys(e.task for e in episodes if e.world == world):
            families[world, task] = known[task].family if task in known else "No family"
    return families


@dataclass(frozen=True)
class _Score:
    """One source at one task, or at all of them: its successes, and what one took."""

    tally: Tally
    usd: tuple[float | None, float | None]  # per success: the known part, and at most
    requests: float | None
    minutes: float | None


def _score(attempts: Sequence[Summary | CostRow], tally: Tally) -> _Score:
    def each(amount: Callable[[Summary | CostRow], float | None]) -> float | None:
        return per_success([amount(r) for r in attempts], tally.successes)

    usd = each(lambda r: r.usd and r.usd[0]), each(lambda r: r.usd and r.usd[1])
    return _Score(tally, usd, each(lambda r: float(r.requests)), each(lambda r: r.seconds / 60))


def _task_table(
    sources: Sequence[Source],
    tasks: Mapping[TaskKey, Sequence[Tally | None]],
    family_of: Mapping[TaskKey, str],
    overall: Sequence[Tally],
) -> Table:
    several = len({world for world, _ in tasks}) > 1
    priced = any(r.usd is not None for s in sources for r in s.episodes)

    def cells(scores: Sequence[_Score]) -> tuple[Tally | str, ...]:
        amounts = (
            show.spread(*map(show.significant, s.usd)) if priced else show.significant(s.requests)
            for s in scores
        )
        return *(s.tally for s in scores), *amounts

    rows: list[Row] = []
    written: list[Row] = []
    for key, found in tasks.items():
        family = family_of[key]
        if not written or written[-1].values[0] != family:
            rows.append(group_row(family))
        scores = [
            _score([r for r in s.attempts if task_of(r) == key], t or Tally(0, 0))
            for s, t in zip(sources, found, strict=True)
        ]
        rows.append(Row((f"{key[0]}: {key[1]}" if several else key[1], *cells(scores))))
        written += [
            Row((family, *key, source.label, s.tally, s.usd, s.requests, s.minutes))
            for source, s in zip(sources, scores, strict=True)
        ]
    whole = [_score(s.attempts, t) for s, t in zip(sources, overall, strict=True)]
    rows.append(Row(("All", *cells(whole)), "total"))
    unit, counted = (
        ("$", "dollars") if priced else ("Requests", "requests, since no price is known,")
    )
    columns = (
        Column("Task", align="l"),
        *(Column(s.label, show=show.fraction) for s in sources),
        *(Column(f"{unit} / success: {s.label}") for s in sources),
    )
    names = (
        *("family", "world", "task", "source", tally_names()),
        ("usd_per_success", "usd_per_success_at_most"),
        *("requests_per_success", "minutes_per_success"),
    )
    caption = (
        f"Successes of scorable starts by task, and the {counted} of all attempts per success."
    )
    data = file_table("tasks", caption, names, written, sources)
    return Table("tasks", caption, columns, rows, sources, data=data)
