"""The report's sections: what is said, tabled and drawn. Missing data gets a sentence instead."""

from __future__ import annotations

from collections.abc import Sequence

from capex.report.compare import ALL_PAIRS_UP_TO, Comparison, SourceTotals, comparisons, totals
from capex.report.rows import RunData
from capex.report.sections.arrangements import arrangements_section
from capex.report.sections.calibration import calibration_section
from capex.report.sections.cost import cost_section
from capex.report.sections.counterfactual import counterfactual_section
from capex.report.sections.experience import experience_section
from capex.report.sections.forks import forks_section
from capex.report.sections.pairs import pairs_section
from capex.report.sections.rig import rig_section
from capex.report.sections.section import Section
from capex.report.sections.students import students_section
from capex.report.sections.summary import summary
from capex.report.sections.tasks import by_task_section
from capex.report.sections.verdicts import verdicts_section
from capex.report.sources import Source
from capex.report.tables import Row, Table, file_table

__all__ = ["Section", "build", "episodes_table", "results"]

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
    from_starts = [s for s in sources if not s.forked]  # forks learn nothing from each other
    return [
        summary(lines, compared),
        *students_section(data, sources),
        by_task_section(data, sources),
        *forks_section(data, sources),
        *verdicts_section(data, sources),
        pairs_section(sources, compared),
        *arrangements_section(sources),
        *rig_section(sources),
        *([experience_section(from_starts)] if from_starts else []),
        calibration_section(sources),
        *counterfactual_section(sources),
        cost_section(data, sources),
    ]


def episodes_table(data: RunData, sources: Sequence[Source]) -> Table:
    """Every episode, as CSV."""
    rows = [
        Row((s.label, *(getattr(e, n) for n in EPISODE_FACTS), data.place(e) / "record.json"))
        for s in sources
        for e in s.episodes
    ]
    names = ("source", *EPISODE_FACTS, "record")
    return file_table("episodes", "Every episode.", names, rows, sources)
