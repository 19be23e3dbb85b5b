"""What a rig's guard did and how well its ticks were kept, for attempts that a robot made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from capex.report import show
from capex.report.sections.section import Section, SectionInput
from capex.report.sources import Source, plain
from capex.report.tables import Column, Row, Table
from capex.rigs.attempt import LOCK_STEP, RIG


def rig_section(given: SectionInput) -> list[Section]:
    """Nothing where no source drove a rig."""
    sources = given.sources
    driven = [source for source in sources if _notes(source)]
    if not driven:
        return []
    section = Section("rig", "The rig")
    section.tables.append(_ticks(driven))
    if any(_guarded(source) for source in driven):
        section.tables.append(_guard(driven))
    virtual = [s.label for s in driven if any(n.get("clock") == LOCK_STEP for n in _notes(s))]
    if virtual:
        section.notes.append(
            f"{', '.join(virtual)}: a simulated room in lock-step. Its minutes are virtual robot"
            " time plus waiting for the model, and its ticks are never late."
        )
    slow = sorted({str(n["slow"]) for s in driven for n in _notes(s) if "slow" in n}, key=str)
    if slow:
        count = sum("slow" in n for s in driven for n in _notes(s))
        section.notes.append(
            f"In {count} attempts the rig could not keep up; the first: {slow[0]}."
        )
    return [section]


def _notes(source: Source) -> list[Mapping[str, Any]]:
    notes = (episode.extensions.get(RIG) for episode in source.episodes)
    return [note for note in notes if isinstance(note, Mapping) and "lateness" in note]


def _guarded(source: Source) -> Counter[str]:
    counts: Counter[str] = Counter()
    for note in _notes(source):
        counts.update({str(what): int(n) for what, n in note.get("guard", {}).items()})
    return counts


def _ticks(sources: Sequence[Source]) -> Table:
    columns = (
        Column("Source", "source", align="l"),
        Column("Clock", "clock", align="l"),
        Column("Ticks", "ticks", show.count),
        Column("More than a period late", "late_ticks", show.count),
        Column("Median ms", "median_ms", show.number),
        Column("Worst 99th percentile ms", "p99_ms", show.number),
        Column("Worst ms", "worst_ms", show.number),
    )
    rows = []
    for source in sources:
        late = [note["lateness"] for note in _notes(source)]
        medians = sorted(1000 * float(row["median_s"]) for row in late)
        clocks = ", ".join(sorted({str(note["clock"]) for note in _notes(source)}))
        counts = (sum(int(row[name]) for row in late) for name in ("ticks", "late"))
        worst = (1000 * max(float(row[name]) for row in late) for name in ("p99_s", "worst_s"))
        middle = medians[len(medians) // 2]
        rows.append(Row((source.label, clocks, *counts, middle, *worst)))
    caption = (
        "How late control ticks began: the median of the attempts' medians, and the largest of"
        " their 99th percentiles and of all ticks."
    )
    return Table("rig-ticks", caption, columns, rows, sources)


def _guard(sources: Sequence[Source]) -> Table:
    counted = [_guarded(source) for source in sources]
    names = [name for name, _ in sum(counted, start=Counter[str]()).most_common()]
    columns = (
        Column("What the guard did", "guard", align="l"),
        *(Column(s.label, f"ticks: {s.label}", show.count) for s in sources),
    )
    rows = [Row((plain(name), *(counts[name] for counts in counted))) for name in names]
    caption = "In how many ticks the guard changed a command, or stopped the motion."
    return Table("rig-guard", caption, columns, rows, sources)
