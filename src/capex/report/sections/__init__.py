"""The report's sections: text, tables and figures. Missing data gets a sentence instead."""

from __future__ import annotations

from collections.abc import Sequence

from capex.registry import REPORT_SECTIONS, load
from capex.report.compare import ALL_PAIRS_UP_TO, Comparison, SourceTotals, comparisons, totals
from capex.report.rows import RunData
from capex.report.sections.section import Section, SectionInput
from capex.report.sources import Source
from capex.report.tables import Row, Table, file_table

__all__ = ["Section", "SectionInput", "build", "episodes_table", "results"]

# In episodes.csv, under these names.
EPISODE_FACTS = (
    *("world", "task", "arm", "model", "start", "seed", "position", "success", "end", "steps"),
    *("decisions", "requests", "cost_usd", "seconds", "plans", "truncated", "labels_before"),
)


def results(sources: Sequence[Source]) -> tuple[list[SourceTotals], list[Comparison]]:
    """What each source achieved and took, and how they compare."""
    # dozens of students: their own table has the tests between them
    study = sum(s.student for s in sources) > ALL_PAIRS_UP_TO
    compared = comparisons([s for s in sources if not (study and s.student)])
    return [totals(s) for s in sources], compared


def build(
    data: RunData,
    sources: Sequence[Source],
    lines: Sequence[SourceTotals],
    compared: Sequence[Comparison],
) -> list[Section]:
    """All sections with numbers; strips are added by the page."""
    if not sources:
        return []
    given = SectionInput(data, sources, lines, compared)
    return [section for name in REPORT_SECTIONS for section in load(name)(given)]


def episodes_table(data: RunData, sources: Sequence[Source]) -> Table:
    """Every episode, as CSV."""
    rows = [
        Row((s.label, *(getattr(e, n) for n in EPISODE_FACTS), data.place(e) / "record.json"))
        for s in sources
        for e in s.episodes
    ]
    names = ("source", *EPISODE_FACTS, "record")
    return file_table("episodes", "Every episode.", names, rows, sources)
