"""Tables as values: shown in HTML, written as CSV (numbers, one quantity a column) and as LaTeX
(what is shown, with booktabs).

A table names its sources, so that a stand-in is labelled in all three forms by construction.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from capex.report.compare import Rate, Tally
from capex.report.sources import Source

MISSING = "—"
INFINITE = "∞"
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
class Row:
    """One line: cells as shown. A `group` has one cell, a heading over the lines below it; a
    `total` stands out.
    """

    cells: tuple[str, ...]
    kind: Literal["body", "group", "total"] = "body"


@dataclass(frozen=True)
class Table:
    """A table with its caption; `align` has one of l and r per column, `raw` the same facts as
    numbers.
    """

    name: str
    caption: str
    head: tuple[str, ...]
    align: str
    rows: tuple[Row, ...]
    raw: tuple[Mapping[str, Any], ...]
    sources: tuple[Source, ...]
    shown: Literal["open", "folded", "file"] = "open"  # on the page; `file`: as CSV alone

    @property
    def stand_in(self) -> str:
        """The sentence that names the stand-ins; empty without one."""
        return stand_in_sentence(self.sources)

    def csv(self) -> str:
        """Numbers as numbers; missing ones empty, infinite ones inf."""
        out = io.StringIO()
        columns = list(dict.fromkeys(key for row in self.raw for key in row))
        writer = csv.DictWriter(out, columns, lineterminator="\n")
        writer.writeheader()
        for row in self.raw:
            writer.writerow(
                {
                    k: "" if v is None or (isinstance(v, float) and math.isnan(v)) else v
                    for k, v in row.items()
                }
            )
        return out.getvalue()

    def markdown(self) -> str:
        """What is shown, for a page of documentation; the stand-ins' sentence and the caption
        below.
        """
        lines = [self.head, tuple("---:" if a == "r" else "---" for a in self.align)]
        lines += [(*row.cells, *[""] * (len(self.head) - len(row.cells))) for row in self.rows]
        table = "\n".join(
            "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |" for cells in lines
        )
        return "\n\n".join(filter(None, (table, self.caption, self.stand_in))) + "\n"

    def latex(self) -> str:
        """A table environment for a paper that loads booktabs."""
        lines = [
            r"\begin{table}[t]",
            r"\centering",
            rf"\caption{{{latex(' '.join(filter(None, (self.caption, self.stand_in))))}}}",
        ]
        lines += [rf"\label{{tab:{self.name}}}", rf"\begin{{tabular}}{{{self.align}}}", r"\toprule"]
        lines += [" & ".join(latex(h) for h in self.head) + r" \\", r"\midrule"]
        for row in self.rows:
            if row.kind == "group":
                lines.append(
                    rf"\multicolumn{{{len(self.head)}}}{{l}}{{\textit{{{latex(row.cells[0])}}}}} \\"
                )
                continue
            lines += [r"\midrule"] if row.kind == "total" else []
            lines.append(" & ".join(latex(c) for c in row.cells) + r" \\")
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


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


def success(tally: Tally) -> str:
    """k/n with percent and interval."""
    if tally.share is None or tally.interval is None:
        return MISSING
    low, high = tally.interval
    return (
        f"{tally.successes}/{tally.n}  {100 * tally.share:.1f} % ({100 * low:.1f} to"
        f" {100 * high:.1f})"
    )


def number(value: float | None, digits: int = 2) -> str:
    """A number; infinite and missing ones as signs."""
    if value is None or math.isnan(value):
        return MISSING
    return INFINITE if math.isinf(value) else f"{value:,.{digits}f}"


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


def raw_tally(tally: Tally, prefix: str = "") -> dict[str, Any]:
    """The columns of a tally in a CSV."""
    low, high = tally.interval or (None, None)
    names = ("successes", "n", "share", "low", "high")
    return {
        f"{prefix}{k}": v
        for k, v in zip(names, (tally.successes, tally.n, tally.share, low, high), strict=True)
    }


def raw_rate(found: Rate, name: str) -> dict[str, Any]:
    """The columns of an amount per success in a CSV."""
    low, high = found.interval or (None, None)
    return {
        f"{name}_per_success": found.value,
        f"{name}_low": low,
        f"{name}_high": high,
        f"{name}_per_attempt": found.per_attempt,
    }
