"""Success and cost of every task and family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from capex import worlds
from capex.errors import CapexError
from capex.report.compare import Tally, TaskKey, by_family, by_task
from capex.report.plots.success import success_figure
from capex.report.rows import CostRow, EpisodeRow, RunData
from capex.report.sections.section import Section
from capex.report.sources import Source
from capex.report.tables import Column, Row, Table, fraction, group_row, significant, tally_names
from capex.run.stats import per_success


def by_task_section(data: RunData, sources: Sequence[Source]) -> Section:
    """Success and cost of every task and family."""
    section = Section("tasks", "By task and family")
    family_of = _families(data.episodes)
    scored = [by_task(s) for s in sources]
    order = sorted(
        {key for found in scored for key in found},
        key=lambda k: (list(family_of.values()).index(family_of[k]), k),
    )
    if not order:
        section.notes.append("No episode was finished, so there is nothing to compare by task.")
        return section
    pooled = [by_family(s, family_of) for s in sources]
    names = list(dict.fromkeys(family_of[k] for k in order))
    overall = [
        Tally(sum(t.successes for t in found.values()), sum(t.n for t in found.values()))
        for found in scored
    ]
    section.figures.append(
        success_figure(
            sources,
            overall,
            {name: [found.get(name) for found in pooled] for name in names},
            {key: [found.get(key) for found in scored] for key in order},
            family_of,
        )
    )
    section.tables.append(_task_table(sources, order, family_of, scored, overall))
    return section


def _families(episodes: Sequence[EpisodeRow]) -> dict[TaskKey, str]:
    """The family of each (world, task); a world that cannot be asked here has none."""
    found: dict[TaskKey, str] = {}
    for world in dict.fromkeys(e.world for e in episodes):
        try:
            known = worlds.tasks(world)
        except (CapexError, ImportError):
            known = {}
        for task in dict.fromkeys(e.task for e in episodes if e.world == world):
            found[world, task] = known[task].family if task in known else "No family"
    return found


@dataclass(frozen=True)
class _Score:
    """One source at one task, or at all of them: its successes, and what one took."""

    tally: Tally
    usd: tuple[float | None, float | None]  # per success: the known part, and at most
    requests: float | None
    minutes: float | None

    @property
    def dollars(self) -> str:
        """As shown."""
        low, most = map(significant, self.usd)
        return low if low == most else f"{low} to {most}"


def _score(attempts: Sequence[EpisodeRow | CostRow], tally: Tally) -> _Score:
    def each(amounts: Sequence[float | None]) -> float | None:
        return per_success(amounts, tally.successes)

    return _Score(
        tally,
        (
            each([r.usd and r.usd[0] for r in attempts]),
            each([r.usd and r.usd[1] for r in attempts]),
        ),
        each([float(r.requests) for r in attempts]),
        each([r.seconds / 60 for r in attempts]),
    )


def _task_table(
    sources: Sequence[Source],
    order: Sequence[TaskKey],
    family_of: Mapping[TaskKey, str],
    scored: Sequence[Mapping[TaskKey, Tally]],
    overall: Sequence[Tally],
) -> Table:
    several = len({world for world, _ in order}) > 1
    priced = any(r.usd is not None for s in sources for r in s.episodes)
    unit = "$" if priced else "Requests"

    def cells(scores: Sequence[_Score]) -> tuple[Tally | str, ...]:
        amounts = (s.dollars if priced else significant(s.requests) for s in scores)
        return *(s.tally for s in scores), *amounts

    rows: list[Row] = []
    written: list[Row] = []
    for key in order:
        family = family_of[key]
        if not written or written[-1].values[0] != family:
            rows.append(group_row(family))
        scores = [
            _score([r for r in s.attempts if (r.world, r.task) == key], found.get(key, Tally(0, 0)))
            for s, found in zip(sources, scored, strict=True)
        ]
        rows.append(Row((f"{key[0]}: {key[1]}" if several else key[1], *cells(scores))))
        written += [
            Row((family, *key, source.label, s.tally, s.usd, s.requests, s.minutes))
            for source, s in zip(sources, scores, strict=True)
        ]
    whole = [_score(s.attempts, t) for s, t in zip(sources, overall, strict=True)]
    rows.append(Row(("All", *cells(whole)), "total"))
    columns = (
        Column("Task", align="l"),
        *(Column(s.label, show=fraction) for s in sources),
        *(Column(f"{unit} / success: {s.label}") for s in sources),
    )
    names = (
        *("family", "world", "task", "source", tally_names()),
        ("usd_per_success", "usd_per_success_at_most"),
        *("requests_per_success", "minutes_per_success"),
    )
    counted = "dollars" if priced else "requests, since no price is known,"
    caption = (
        f"Successes of scorable starts by task, and the {counted} of all attempts per success."
    )
    data = Table("tasks", caption, tuple(Column(csv=n) for n in names), written, sources, "file")
    return Table("tasks", caption, columns, rows, sources, data=data)
