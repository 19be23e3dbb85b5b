"""The poster's bars: success, and what a success cost, each with its interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from matplotlib.axes import Axes

from capex.report import show
from capex.report.compare import Rate, SourceTotals
from capex.report.figures import INK, MUTED, Figure, Panel, colour
from capex.report.plots.axes import bar_axes, interval, name_above

SHOWN = 6  # sources; the table has all
LINE_IN, FOOT_IN = 0.36, 0.34


def poster_figure(lines: Sequence[SourceTotals]) -> Figure | None:
    """Success and cost per success, a bar per source; None where nothing has a verdict."""
    drawn = [line for line in lines if line.tally.n][:SHOWN]
    if not drawn:
        return None
    panels = [_success(drawn), *_cost(drawn)]
    left = sum(bool(line.tally.n) for line in lines) - len(drawn)
    caption = (
        "Success with 95 % Wilson intervals, and what a success cost, failed attempts included,"
        " with 95 % bootstrap intervals."
        + (f" {left} more sources are in the table." if left else "")
    )
    return Figure("poster", caption, panels, [line.source for line in drawn])


def _success(lines: Sequence[SourceTotals]) -> Panel:
    def draw(ax: Axes) -> None:
        for y, line in enumerate(lines):
            name_above(ax, y - 0.28, line.source.label)
            share, ends = line.tally.successes / line.tally.n, line.tally.interval
            ax.barh(y, share, height=0.5, color=colour(line.source), linewidth=0)
            interval(ax, share, ends or (share, share), y)
            _beside(ax, y, show.fraction(line.tally))
        ax.set_xlim(0, 1)
        ax.set_xticks([0, 0.25, 0.5, 0.75, 1.0], ["0", "25", "50", "75", "100 %"])
        _rows(ax, len(lines))

    return Panel("Success", draw, height_in=LINE_IN * len(lines) + FOOT_IN)


def _cost(lines: Sequence[SourceTotals]) -> list[Panel]:
    """In the dearest unit that is known: dollars, else requests, else time; none without any."""
    shown: tuple[tuple[str, Callable[[SourceTotals], Rate], Callable[[Rate], str]], ...] = (
        ("Dollars per success", lambda line: line.usd, lambda r: f"${show.significant(r.value)}"),
        ("Requests per success", lambda line: line.requests, lambda r: show.significant(r.value)),
        ("Time per success", lambda line: line.minutes, lambda r: show.duration(r.value)),
    )
    for title, pick, text in shown:
        rates = [pick(line) for line in lines]
        if any(r.value for r in rates):
            return [_amounts(title, lines, rates, text)]
    return []


def _amounts(
    title: str, lines: Sequence[SourceTotals], rates: Sequence[Rate], text: Callable[[Rate], str]
) -> Panel:
    values = [r.value for r in rates if r.value is not None and math.isfinite(r.value)]
    ends = [e for r in rates for e in (r.interval or ()) if math.isfinite(e) and r.value in values]
    most = 1.05 * max((*values, *ends), default=0.0) or 1.0

    def draw(ax: Axes) -> None:
        for y, (line, rate) in enumerate(zip(lines, rates, strict=True)):
            name_above(ax, y - 0.28, line.source.label)
            if rate.value is None or math.isinf(rate.value):
                why = "no price is known" if rate.value is None else "no success: ∞"
                ax.text(0.01 * most, y, why, color=MUTED, fontsize=7.5, va="center")
                continue
            ax.barh(y, rate.value, height=0.5, color=colour(line.source), linewidth=0)
            low, high = rate.interval or (rate.value, rate.value)
            interval(ax, rate.value, (low, min(high, most)), y)
            if math.isinf(high):
                ax.plot(most, y, color=INK, marker=">", markersize=4, clip_on=False)
            _beside(ax, y, text(rate))
        ax.set_xlim(0, most)
        ax.locator_params(axis="x", nbins=5)
        _rows(ax, len(lines))

    return Panel(title, draw, height_in=LINE_IN * len(lines) + FOOT_IN)


def _beside(ax: Axes, y: float, text: str) -> None:
    place = (1.03, y)
    ax.text(*place, text, transform=ax.get_yaxis_transform(), fontsize=8, color=INK, va="center")


def _rows(ax: Axes, count: int) -> None:
    ax.set_ylim(count - 0.55, -0.72)
    bar_axes(ax)
