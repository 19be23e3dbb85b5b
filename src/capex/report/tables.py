"""Tables as values: each is stated once and shown in HTML, written as CSV (numbers, one quantity a
column) and as LaTeX (what is shown, with booktabs).

A table names its sources, so that a stand-in is labelled in all three forms by construction.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from capex.report.compare import Rate, Tally
from capex.report.sources import Source

MISSING = "—"
INFINITE = "∞"
ACROSS_TASKS = "Across tasks (Cochran-Mantel-Haenszel)"
MINUS = "\N{MINUS SIGN}"
STAND_IN_SENTENCE = (
    "Stand-in: {}. What a stand-in does says nothing about any foundation model or person."
)
LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    MISSING: "---",
    INFINITE: r"$\infty$",
    "Δ": r"$\Delta$",
    "τ": r"$\tau$",
    MINUS: "$-$",
    "≥": r"$\ge$",
    "±": r"$\pm$",
    "·": r"$\cdot$",
    "…": r"\dots{}",
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
    columns: tuple[Column, ...]
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
        """A row as shown: one cell for a group, else one for each column of the head. Text is shown
        as it is.
        """
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
                    "" if v is None or (isinstance(v, float) and math.isnan(v)) else v
                    for column, value in zip(self.columns, row.values, strict=True)
                    for v in (numbers(value) if column.csv else ())
                )
        return out.getvalue()

    def markdown(self) -> str:
        """What is shown, for a page of documentation; the stand-ins' sentence and the caption
        below.
        """
        head = self.head
        lines = [[c.head for c in head], ["---:" if c.align == "r" else "---" for c in head]]
        lines += [cells + [""] * (len(head) - len(cells)) for cells in map(self.cells, self.rows)]
        table = "\n".join(
            "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |" for cells in lines
        )
        return "\n\n".join(filter(None, (table, self.caption, self.stand_in))) + "\n"

    def latex(self) -> str:
        """A table environment for a paper that loads booktabs."""
        head = self.head
        lines = [
            r"\begin{table}[t]",
            r"\centering",
            rf"\caption{{{latex(' '.join(filter(None, (self.caption, self.stand_in))))}}}",
            rf"\label{{tab:{self.name}}}",
            rf"\begin{{tabular}}{{{''.join(c.align for c in head)}}}",
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


def latex(text: str) -> str:
    """Plain text in LaTeX."""
    return "".join(LATEX.get(c, c) for c in text)


def stand_in_sentence(sources: Sequence[Source]) -> str:
    """Which of the sources are stand-ins."""
    names = list(dict.fromkeys(s.model for s in sources if s.stand_in))
    return STAND_IN_SENTENCE.format(", ".join(names)) if names else ""


def percent(share: float | None, digits: int = 1) -> str:
    """A share as percent."""
    return MISSING if share is None or math.isnan(share) else f"{100 * share:.{digits}f} %"


def count(value: int | None) -> str:
    """A whole number with its thousands apart."""
    return MISSING if value is None else f"{value:,}"


def slashed(values: Iterable[object]) -> str:
    """Counts that belong together: 3 / 1 / 0."""
    return " / ".join(map(str, values))


def fraction(tally: Tally) -> str:
    """k/n."""
    return f"{tally.successes}/{tally.n}" if tally.n else MISSING


def success(tally: Tally) -> str:
    """k/n with percent and interval."""
    if tally.share is None or tally.interval is None:
        return MISSING
    low, high = tally.interval
    return f"{fraction(tally)}  {percent(tally.share)} ({100 * low:.1f} to {100 * high:.1f})"


def number(value: float | None, digits: int = 2) -> str:
    """A number; infinite and missing ones as signs."""
    if value is None or math.isnan(value):
        return MISSING
    return INFINITE if math.isinf(value) else f"{value:,.{digits}f}"


def three_digits(value: float | None) -> str:
    """A number with three digits after the point."""
    return number(value, 3)


def significant(value: float | None) -> str:
    """A number with about three significant digits."""
    if value is None or math.isnan(value) or math.isinf(value):
        return number(value)
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}"


def rate(found: Rate, digits: int | None = None) -> str:
    """An amount per success with its interval."""
    show = significant if digits is None else lambda v: number(v, digits)
    if found.value is None:
        return MISSING
    if found.value == 0:
        return "0"
    value = show(found.value)
    if found.most is not None and show(found.most) != value:
        value = f"{value} to {show(found.most)}"
    if math.isinf(found.value) or found.interval is None:
        return value
    return f"{value} ({show(found.interval[0])} to {show(found.interval[1])})"


def p_value(p: float | None) -> str:
    """A p-value with two significant digits."""
    if p is None or math.isnan(p):
        return MISSING
    if p < 1e-4:
        return "< 0.0001"
    return f"{p:.4f}" if p < 0.01 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def points(difference: float | None) -> str:
    """A difference of shares in percentage points, with its sign."""
    if difference is None:
        return MISSING
    return f"{MINUS if difference < 0 else '+'}{abs(100 * difference):.1f}"
