"""Tables as values: each is stated once and shown in HTML, written as CSV (numbers, one quantity a
column) and as LaTeX (what is shown, with booktabs).

A table names its sources, so that a stand-in is labelled in all three forms by construction.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from capex.errors import as_cell
from capex.report.compare import Rate, Tally
from capex.report.show import INFINITE, MINUS, MISSING
from capex.report.sources import Source

ROWS_SHOWN = 40  # a longer table is folded
ACROSS_TASKS = "Across tasks (Cochran-Mantel-Haenszel)"
STAND_IN_SENTENCE = (
    "Stand-in: {}. What a stand-in does says nothing about any foundation model or person."
)
LINES = r"p{0.3\linewidth}"  # of a column of sentences
LATEX = {
    **{sign: f"\\{sign}" for sign in "{}$&%#_"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "…": r"\dots{}", MISSING: "---"},
    **{INFINITE: r"$\infty$", MINUS: "$-$", "Δ": r"$\Delta$", "τ": r"$\tau$"},
    **{"≥": r"$\ge$", "±": r"$\pm$", "·": r"$\cdot$"},
}


@dataclass(frozen=True)
class Column:
    """One fact of every row: the heading above it, its names in the CSV, and how it is shown.

    Without a heading it is in the CSV alone, without names on the page alone. A value with several
    names is written as several numbers (`numbers`).
    """

    head: str = ""
    csv: str | tuple[str, ...] = ()
    show: Callable[[Any], str] = str
    align: Literal["l", "r"] = "r"
    sentences: bool = False  # long text, broken into lines

    @property
    def names(self) -> tuple[str, ...]:
        """Its names in the CSV."""
        return (self.csv,) if isinstance(self.csv, str) else self.csv


@dataclass(frozen=True)
class Row:
    """One value per column. A `group` has one text, a heading over the rows below it; a `total`
    stands out.
    """

    values: tuple[Any, ...]
    kind: Literal["body", "group", "total"] = "body"
    written: bool = True  # to the CSV, which has no group in any case


@dataclass(frozen=True)
class Table:
    """A table with its caption; page, Markdown, LaTeX and CSV are made from the same values."""

    name: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    sources: Sequence[Source]
    shown: Literal["open", "folded", "file"] = "open"  # on the page; `file`: as CSV alone
    data: Table | None = None  # what the CSV holds, where it has one row per cell of this table

    @property
    def stand_in(self) -> str:
        """The sentence that names the stand-ins; empty without one."""
        return stand_in_sentence(self.sources)

    @property
    def head(self) -> list[Column]:
        """The columns that are shown."""
        return [c for c in self.columns if c.head]

    def cells(self, row: Row) -> list[str]:
        """A row as shown: a group's one text, else a cell per column of the head, text as it is."""
        if row.kind == "group":
            return list(row.values)
        return [
            value if isinstance(value, str) else column.show(value)
            for column, value in zip(self.columns, row.values, strict=True)
            if column.head
        ]

    def csv(self) -> str:
        """Numbers as numbers; missing ones empty, infinite ones inf."""
        if self.data is not None:
            return self.data.csv()
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(name for column in self.columns for name in column.names)
        for row in self.rows:
            if row.written and row.kind != "group":
                writer.writerow(
                    "" if v is None or (isinstance(v, float) and math.isnan(v)) else as_cell(v)
                    for column, value in zip(self.columns, row.values, strict=True)
                    for v in (numbers(value) if column.csv else ())
                )
        return out.getvalue()

    def markdown(self) -> str:
        """What is shown, for documentation; the caption and the stand-ins' sentence below."""
        head = self.head
        lines = [[c.head for c in head], ["---:" if c.align == "r" else "---" for c in head]]
        lines += [cells + [""] * (len(head) - len(cells)) for cells in map(self.cells, self.rows)]
        table = "\n".join("| " + " | ".join(map(_markdown, cells)) + " |" for cells in lines)
        return "\n\n".join(filter(None, (table, self.caption, self.stand_in))) + "\n"

    def latex(self) -> str:
        """A table environment for a paper that loads booktabs."""
        head = self.head
        lines = [
            r"\begin{table}[t]",
            r"\centering",
            rf"\caption{{{latex(' '.join(filter(None, (self.caption, self.stand_in))))}}}",
            rf"\label{{tab:{self.name}}}",
            rf"\begin{{tabular}}{{{''.join(LINES if c.sentences else c.align for c in head)}}}",
            r"\toprule",
            " & ".join(latex(c.head) for c in head) + r" \\",
            r"\midrule",
        ]
        for row in self.rows:
            cells = [latex(cell) for cell in self.cells(row)]
            if row.kind == "group":
                cells = [rf"\multicolumn{{{len(head)}}}{{l}}{{\textit{{{cells[0]}}}}}"]
            lines += [r"\midrule"] if row.kind == "total" else []
            lines.append(" & ".join(cells) + r" \\")
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def file_table(
    name: str,
    caption: str,
    names: Sequence[str | tuple[str, ...]],
    rows: Sequence[Row],
    sources: Sequence[Source],
) -> Table:
    """A table that is written as CSV alone: names in place of columns."""
    return Table(name, caption, [Column(csv=n) for n in names], rows, sources, "file")


def group_row(text: str) -> Row:
    """A heading over the rows below it."""
    return Row((text,), "group")


def numbers(value: Any) -> tuple[Any, ...]:
    """A value as the numbers under its names in a CSV."""
    if isinstance(value, Tally):
        return value.successes, value.n, value.share, *(value.interval or (None, None))
    if isinstance(value, Rate):
        return value.value, *(value.interval or (None, None)), value.per_attempt
    return value if isinstance(value, tuple) else (value,)


def tally_names(prefix: str = "") -> tuple[str, ...]:
    """The names of a tally's numbers."""
    return tuple(f"{prefix}{name}" for name in ("successes", "n", "share", "low", "high"))


def rate_names(name: str) -> tuple[str, ...]:
    """The names of an amount per success."""
    return f"{name}_per_success", f"{name}_low", f"{name}_high", f"{name}_per_attempt"


def _markdown(text: str) -> str:
    """Plain text in a cell of a Markdown table: it ends no cell and begins no tag."""
    return re.sub(r"<(?=[A-Za-z!/?])", "&lt;", " ".join(text.split())).replace("|", "\\|")


def latex(text: str) -> str:
    """Plain text in LaTeX."""
    return "".join(LATEX.get(c, c) for c in text)


def stand_in_sentence(sources: Sequence[Source]) -> str:
    """Which of the sources are stand-ins."""
    names = list(dict.fromkeys(s.model for s in sources if s.stand_in))
    return STAND_IN_SENTENCE.format(", ".join(names)) if names else ""
