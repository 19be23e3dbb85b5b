"""Which starts each method solved, with the exact test on pairs."""

from __future__ import annotations

from collections.abc import Sequence

from capex.report import show
from capex.report.compare import Comparison, compared_sources
from capex.report.plots.success import starts_figure
from capex.report.sections.section import Section, SectionInput
from capex.report.sources import Source
from capex.report.tables import (
    ACROSS_TASKS,
    ROWS_SHOWN,
    Column,
    Row,
    Table,
    file_table,
    group_row,
    tally_names,
)


def pairs_section(given: SectionInput) -> list[Section]:
    """Which starts each method solved, and per task the exact test on the pairs."""
    sources, compared = given.sources, given.compared
    section = Section("pairs", "The same starts")
    if not any(s.scorable for s in sources):
        section.notes.append("No start has a verdict yet.")
        return [section]
    section.figures.append(starts_figure([s for s in sources if s.scorable]))
    section.tables.append(_starts_table(sources))
    if paired := [c for c in compared if c.pairs.n]:
        section.tables.append(_pairs_table(paired))
    elif not compared:
        section.notes.append("There is one source only, so there is nothing to pair.")
    if unpaired := [c for c in compared if c.unpaired]:
        section.tables.append(_unpaired_table(unpaired))
    return [section]


def _starts_table(sources: Sequence[Source]) -> Table:
    solved = [{e.key: e.success for e in s.episodes} for s in sources]
    shown = 5 if any(s.resumed for s in sources) else 4  # without the state where none resumed
    rows = [
        Row(
            (*key[:shown], *(None if (v := found.get(key)) is None else int(v) for found in solved))
        )
        for key in sorted({key for found in solved for key in found})
    ]
    facts = ("world", "task", "start", "seed", "state")
    names = (*facts[:shown], *(s.label for s in sources))
    return file_table("starts", "Which starts each source solved.", names, rows, sources)


def _pairs_table(compared: Sequence[Comparison]) -> Table:
    columns = (
        Column(csv=("first", "second")),
        Column("Task", "task", align="l"),
        Column("Pairs", "pairs"),
        Column("Both", "both"),
        Column("Only first", "only_first"),
        Column("Only second", "only_second"),
        Column("Neither", "neither"),
        Column("p", "mcnemar_p", show.p_value),
    )
    rows = []
    for c in compared:
        names = c.first.label, c.second.label
        rows.append(group_row("First: {}; second: {}".format(*names)))
        by_task = [(task, pairs, False) for (_, task), pairs in c.tasks.items()]
        for task, p, total in [*by_task, *([("All", c.pairs, True)] if len(by_task) > 1 else [])]:
            values = (names, task, p.n, p.both, p.only_first, p.only_second, p.neither, p.p)
            rows.append(Row(values, "total" if total else "body"))
    caption = (
        "Starts with a valid episode in both sources: solved by both, by one alone, by neither;"
        " exact McNemar test, two-sided."
    )
    folded = len(rows) > ROWS_SHOWN
    sources = compared_sources(compared)
    return Table("pairs", caption, columns, rows, sources, "folded" if folded else "open")


def _unpaired_table(compared: Sequence[Comparison]) -> Table:
    columns = (
        Column(csv=("first", "second", "world")),
        Column("Task", "task", align="l"),
        Column("First", tally_names("first_"), show.fraction),
        Column("Second", tally_names("second_"), show.fraction),
        Column("p", "fisher_p", show.p_value),
    )
    rows = []
    for c in compared:
        rows.append(group_row(f"First: {c.first.label}; second: {c.second.label}"))
        for (world, task), (a, b, p) in c.unpaired.items():
            rows.append(Row(((c.first.label, c.second.label, world), task, a, b, p)))
        if c.across:
            rows.append(Row(((), ACROSS_TASKS, "", "", c.across.p), "total", written=False))
    caption = (
        "Sources without a start in common: Fisher's exact test per task, Cochran-Mantel-Haenszel"
        " without continuity correction across tasks."
    )
    return Table("unpaired", caption, columns, rows, compared_sources(compared))
