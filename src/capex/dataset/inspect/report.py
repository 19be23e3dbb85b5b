"""What a check of a dataset found, rule by rule, as a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from rich.table import Table
from rich.text import Text

from capex.dataset.inspect.model import Findings
from capex.errors import CapexError, ErrorCode

Status = Literal["ok", "warning", "failed", "not claimed"]
SHOWN = 5  # findings of a rule in the table
COLOURS = {"ok": "green", "failed": "red", "warning": "yellow", "not claimed": "yellow"}
# rule: what it asks for, in the order of the table
RULES = {
    "files": "every file that the metadata names is there and can be read",
    "counts": "episodes, frames and tasks are as many as stated, and as expected",
    "features": "columns, types, shapes and names are those declared",
    "order": "episodes, frames and tasks are numbered without gaps",
    "timestamps": "every frame stands at its time, within 0.1 ms",
    "numbers": "no NaN and no infinity",
    "pictures": "every picture decodes, has the declared size, and none is missing",
    "statistics": "recomputed from all frames, they are those stated",
    "duplicates": "no episode is there twice",
    "certificates": "every demonstration of ours names its record, and is certified or judged",
}


@dataclass(frozen=True)
class DatasetFinding:
    """What one rule found: sentences about what is wrong, or one about what is right."""

    rule: str
    status: Status
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class DatasetReport:
    """The findings of one check, in the order of `RULES`; `rich.print` shows them as a table."""

    name: str
    format: str
    findings: tuple[DatasetFinding, ...]

    @property
    def failed(self) -> tuple[DatasetFinding, ...]:
        """The findings of rules that do not hold."""
        return tuple(f for f in self.findings if f.status == "failed")

    @property
    def ok(self) -> bool:
        """Whether every rule holds; warnings do not count."""
        return not self.failed

    def raise_if_failed(self) -> None:
        """CapexError that lists what is wrong."""
        if self.failed:
            lines = "".join(f"\n  {f.rule}: {s}" for f in self.failed for s in f.sentences)
            raise CapexError(f"{self.name} is not in order:{lines}", code=ErrorCode.CONTRACT_BROKEN)

    def table(self, shown: int | None = SHOWN) -> Table:
        """Every rule with its status; at most so many sentences of each."""
        table = Table(title=Text(f"{self.name}: {self.format}"), show_lines=not self.ok)
        for column in ("rule", "status", "detail"):
            table.add_column(column, overflow="fold", no_wrap=column != "detail")
        for f in self.findings:
            told = list(f.sentences[:shown])
            if len(f.sentences) > len(told):
                told.append(f"and {len(f.sentences) - len(told)} more; --all shows them")
            table.add_row(f.rule, Text(f.status, COLOURS[f.status]), Text("\n".join(told)))
        return table

    def __rich__(self) -> Table:
        return self.table()


def report(
    name: str, format: str, findings: Findings, fine: Mapping[str, tuple[Status, str]]
) -> DatasetReport:
    """One row per rule: what was found, or else what `fine` says."""
    rows = []
    for rule in RULES:
        found = sorted(findings.rows.get(rule, ()), key=lambda row: row[0] != "failed")
        if found:
            rows.append(DatasetFinding(rule, found[0][0], tuple(sentence for _, sentence in found)))
        else:
            status, sentence = fine[rule]
            rows.append(DatasetFinding(rule, status, (sentence,)))
    return DatasetReport(name, format, tuple(rows))
