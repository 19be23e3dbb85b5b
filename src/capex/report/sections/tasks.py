"""Success and cost of every task and family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from capex.report import plots
from capex.report.compare import Tally, TaskKey, by_family, by_task
from capex.report.data import Data, Episode, Invalid, families
from capex.report.sections.section import Section
from capex.report.sources import Source
from capex.report.tables import MISSING, Row, Table, raw_tally, significant
from capex.run.stats import per_success


def by_task_section(data: Data, sources: Sequence[Source]) -> Section:
    """Success and cost of every task and family."""
    section = Section("tasks", "By task and family")
    family_of = families(data.episodes)
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
        plots.success_figure(
            sources,
            overall,
            {name: [found.get(name) for found in pooled] for name in names},
            {key: [found.get(key) for found in scored] for key in order},
            family_of,
        )
    )
    section.tables.append(_task_table(sources, order, family_of, scored, overall))
    return section


def dollars(attempts: Sequence[Episode | Invalid], end: int) -> list[float | None]:
    """What attempts cost: the known part (0), or the most that it can be (1)."""
    return [None if r.usd is None else r.usd[end] for r in attempts]


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

    def amount(attempts: Sequence[Episode | Invalid], successes: int) -> str:
        if not priced:
            return significant(per_success([float(r.requests) for r in attempts], successes))
        low, most = (significant(per_success(dollars(attempts, end), successes)) for end in (0, 1))
        return low if low == most else f"{low} to {most}"

    rows, raw = [], []
    last = ""
    for key in order:
        if family_of[key] != last:
            last = family_of[key]
            rows.append(Row((last,), "group"))
        cells, prices = [], []
        for source, found in zip(sources, scored, strict=True):
            tally = found.get(key, Tally(0, 0))
            tried = [r for r in source.attempts if (r.world, r.task) == key]
            cells.append(f"{tally.successes}/{tally.n}" if tally.n else MISSING)
            prices.append(amount(tried, tally.successes))
            raw.append(
                {
                    "family": last,
                    "world": key[0],
                    "task": key[1],
                    "source": source.label,
                    **raw_tally(tally),
                    "usd_per_success": per_success(dollars(tried, 0), tally.successes),
                    "usd_per_success_at_most": per_success(dollars(tried, 1), tally.successes),
                    "requests_per_success": per_success(
                        [float(r.requests) for r in tried], tally.successes
                    ),
                    "minutes_per_success": per_success(
                        [r.seconds / 60 for r in tried], tally.successes
                    ),
                }
            )
        rows.append(Row((f"{key[0]}: {key[1]}" if several else key[1], *cells, *prices)))
    last_cells = [f"{t.successes}/{t.n}" if t.n else MISSING for t in overall]
    last_prices = [amount(s.attempts, t.successes) for s, t in zip(sources, overall, strict=True)]
    rows.append(Row(("All", *last_cells, *last_prices), "total"))
    head = ("Task", *(s.label for s in sources), *(f"{unit} / success: {s.label}" for s in sources))
    counted = "dollars" if priced else "requests, since no price is known,"
    caption = (
        f"Successes of scorable starts by task, and the {counted} of all attempts per success."
    )
    return Table(
        "tasks",
        caption,
        head,
        "l" + "r" * (2 * len(sources)),
        tuple(rows),
        tuple(raw),
        tuple(sources),
    )
