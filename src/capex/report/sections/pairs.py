"""Which starts each arm solved, with the exact test on pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from capex.report import plots
from capex.report.compare import Comparison, Pairs
from capex.report.sections.section import Section
from capex.report.sources import Source
from capex.report.tables import Row, Table, p_value, raw_tally

ROWS_SHOWN = 40  # a longer table is folded


def pairs_section(sources: Sequence[Source], compared: Sequence[Comparison]) -> Section:
    """Which starts each arm solved, and per task the exact test on the pairs."""
    section = Section("pairs", "The same starts")
    if not any(s.scorable for s in sources):
        section.notes.append("No start has a verdict yet.")
        return section
    tasks = list(dict.fromkeys((e.world, e.task) for s in sources for e in s.scorable))
    section.figures.append(plots.starts_figure([s for s in sources if s.scorable], tasks))
    section.tables.append(_starts_table(sources))
    paired = [c for c in compared if c.pairs.n]
    if paired:
        section.tables.append(_pairs_table(paired))
    elif len(compared) == 0:
        section.notes.append("There is one source only, so there is nothing to pair.")
    unpaired = [c for c in compared if c.unpaired]
    if unpaired:
        section.tables.append(_unpaired_table(unpaired))
    return section


def _starts_table(sources: Sequence[Source]) -> Table:
    found = {s.number: {e.key: e.success for e in s.episodes} for s in sources}
    keys = sorted({k for rows in found.values() for k in rows})
    raw = [
        {
            "world": k[0],
            "task": k[1],
            "start": k[2],
            "seed": k[3],
            **{s.label: {True: 1, False: 0}.get(found[s.number].get(k)) for s in sources},  # type: ignore[arg-type]
        }
        for k in keys
    ]
    return Table(
        "starts", "Which starts each source solved.", (), "", (), tuple(raw), tuple(sources), "file"
    )


def _pairs_table(compared: Sequence[Comparison]) -> Table:
    rows, raw = [], []
    for c in compared:
        rows.append(Row((f"{c.first.label} and {c.second.label}",), "group"))
        whole: list[tuple[str, Pairs]] = [(task, cells) for (_, task), cells in c.tasks.items()]
        for name, cells in [*whole, *([("All", c.pairs)] if len(whole) > 1 else [])]:
            shown = (cells.n, cells.both, cells.only_first, cells.only_second, cells.neither)
            rows.append(
                Row(
                    (name, *(str(v) for v in shown), p_value(cells.p)),
                    "total" if name == "All" else "body",
                )
            )
            names = ("pairs", "both", "only_first", "only_second", "neither")
            raw.append(
                {
                    "first": c.first.label,
                    "second": c.second.label,
                    "task": name,
                    **dict(zip(names, shown, strict=True)),
                    "mcnemar_p": cells.p,
                }
            )
    caption = (
        "Starts with a valid episode in both sources: solved by both, by one alone, by neither;"
        " exact McNemar test, two-sided."
    )
    head = ("Task", "Pairs", "Both", "Only first", "Only second", "Neither", "p")
    sources = tuple(dict.fromkeys(s for c in compared for s in (c.first, c.second)))
    unfolded: Literal["open", "folded"] = "folded" if len(rows) > ROWS_SHOWN else "open"
    return Table("pairs", caption, head, "lrrrrrr", tuple(rows), tuple(raw), sources, unfolded)


def _unpaired_table(compared: Sequence[Comparison]) -> Table:
    rows, raw = [], []
    for c in compared:
        rows.append(Row((f"{c.first.label} and {c.second.label}",), "group"))
        for (world, task), (a, b, p) in c.unpaired.items():
            rows.append(Row((task, f"{a.successes}/{a.n}", f"{b.successes}/{b.n}", p_value(p))))
            both = {**raw_tally(a, "first_"), **raw_tally(b, "second_")}
            raw.append(
                {
                    "first": c.first.label,
                    "second": c.second.label,
                    "world": world,
                    "task": task,
                    **both,
                    "fisher_p": p,
                }
            )
        if c.across:
            rows.append(
                Row(
                    ("Across tasks (Cochran-Mantel-Haenszel)", "", "", p_value(c.across.p)), "total"
                )
            )
    caption = (
        "Sources without a start in common: Fisher's exact test per task, Cochran-Mantel-Haenszel"
        " without continuity correction across tasks."
    )
    sources = tuple(dict.fromkeys(s for c in compared for s in (c.first, c.second)))
    return Table(
        "unpaired",
        caption,
        ("Task", "First", "Second", "p"),
        "lrrr",
        tuple(rows),
        tuple(raw),
        sources,
    )
