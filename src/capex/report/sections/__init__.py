"""The report's sections: what is said, tabled and drawn for the sources at hand. Missing data gets
a sentence in its place.
"""

from __future__ import annotations

from collections.abc import Sequence

from capex.report.compare import ALL_PAIRS_UP_TO, comparisons, totals
from capex.report.data import Data, Episode
from capex.report.sections.calibration import calibration_section
from capex.report.sections.cost import cost_section
from capex.report.sections.experience import experience_section
from capex.report.sections.pairs import pairs_section
from capex.report.sections.section import Section
from capex.report.sections.students import students_section
from capex.report.sections.summary import summary
from capex.report.sections.tasks import by_task_section
from capex.report.sources import Source
from capex.report.tables import Table

__all__ = ["Section", "build", "episodes_table"]


def build(data: Data, sources: Sequence[Source]) -> list[Section]:
    """All sections with numbers; strips are added by the page."""
    if not sources:
        return []
    lines = [totals(s) for s in sources]
    study = (
        sum(s.student for s in sources) > ALL_PAIRS_UP_TO
    )  # dozens of students: their own table has the tests between them
    compared = comparisons([s for s in sources if not (study and s.student)])
    return [
        summary(lines, compared),
        *students_section(data, sources),
        by_task_section(data, sources),
        pairs_section(sources, compared),
        experience_section(sources),
        calibration_section(sources),
        cost_section(data, sources),
    ]


def episodes_table(data: Data, sources: Sequence[Source]) -> Table:
    """Every episode, as CSV."""
    raw = [
        {"source": s.label, **_episode_row(e), "record": data.place(e) / "record.json"}
        for s in sources
        for e in s.episodes
    ]
    return Table("episodes", "Every episode.", (), "", (), tuple(raw), tuple(sources), "file")


def _episode_row(e: Episode) -> dict[str, object]:
    names = (
        "world",
        "task",
        "arm",
        "model",
        "start",
        "seed",
        "position",
        "success",
        "end",
        "steps",
        "decisions",
        "requests",
        "cost_usd",
    )
    return {
        name: getattr(e, name)
        for name in (*names, "seconds", "plans", "truncated", "labels_before")
    }
