"""A section of the report as a value, and the numbers that it is made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from capex.report.compare import Comparison, SourceTotals
from capex.report.figures import Figure
from capex.report.rows import RunData
from capex.report.sources import Source
from capex.report.tables import Table


@dataclass(frozen=True)
class Still:
    """A picture with its caption."""

    caption: str
    jpeg: bytes


@dataclass
class Section:
    """A heading with what stands under it."""

    anchor: str
    title: str
    text: list[str] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    stills: list[Still] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what is missing, or how to read it


@dataclass(frozen=True)
class SectionInput:
    """All that a section may use: the runs, their episodes by source, totals and comparisons."""

    data: RunData
    sources: Sequence[Source]
    totals: Sequence[SourceTotals] = ()
    compared: Sequence[Comparison] = ()
