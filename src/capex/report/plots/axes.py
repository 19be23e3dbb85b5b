"""What several figures draw alike: legends of sources, bars of success, intervals and axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from capex.report.compare import Tally
from capex.report.figures import INK, LINE, MUTED, PAPER, Key, Panel, colour
from capex.report.sources import Source, plain
from capex.run.stats import Bin

NAME_CHARACTERS = 44  # what fits above the marks


def source_keys(sources: Sequence[Source], style: str = "box") -> list[Key]:
    """One legend entry per source."""
    return [Key(s.label, colour(s), style) for s in sources]


def level_axes(ax: Axes, x_label: str, bottom: float = 0.0, top: float | None = None) -> None:
    """Level grid lines above a named axis; with a top, the vertical axis has shares in percent."""
    ax.set_xlabel(x_label)
    ax.set_ylim(bottom, top)
    if top is not None:
        ax.set_yticks([0, 0.5, 1], ["0", "50", "100 %"])
    ax.grid(axis="y")


def reliability_axes(ax: Axes, bins: Sequence[Bin], name: str) -> float:
    """Predicted against reached, the diagonal, and how many a bin holds as grey bars; returns the
    bars' height for one.
    """
    one = 0.22 / max(b.count for b in bins)
    for b in bins:
        ax.bar(b.low + 0.05, one * b.count, width=0.094, color=LINE, linewidth=0)
    ax.plot([0, 1], [0, 1], color=MUTED, linewidth=0.7, linestyle=(0, (4, 3)))
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1.02)
    ax.set_aspect("equal")
    ax.set_xlabel(f"{name} confidence")
    ax.set_ylabel("share reached")
    return one


def whole_numbers(ax: Axes, name: str) -> None:
    """A level axis that counts episodes or decisions."""
    ax.set_xlabel(name)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))


def bar_axes(ax: Axes) -> None:
    """Upright grid lines behind horizontal bars, which have their names above them."""
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    ax.grid(axis="x")
    ax.set_axisbelow(True)


def name_above(ax: Axes, y: float, name: str) -> None:
    """The name of the bars below it."""
    ax.text(0, y, plain(name, NAME_CHARACTERS), ha="left", va="bottom", fontsize=8)


def interval(
    ax: Axes, point: float, ends: tuple[float, float], at: float, *, upright: bool = False
) -> None:
    """A point with its interval, dark on a lighter ground, so that both are seen inside a bar and
    outside; a point at 0 has no bar and is seen all the same.
    """
    line: tuple[Sequence[float], Sequence[float]] = (ends, (at, at))
    dot: tuple[Sequence[float], Sequence[float]] = ((point,), (at,))
    if upright:
        line, dot = line[::-1], dot[::-1]
    ax.plot(*line, color=PAPER, linewidth=2.0, solid_capstyle="butt")
    ax.plot(*line, color=INK, linewidth=0.9, solid_capstyle="butt")
    look: dict[str, Any] = {"markeredgecolor": PAPER, "markeredgewidth": 0.7, "clip_on": False}
    ax.plot(*dot, color=INK, marker="o", markersize=4.2, zorder=5, **look)


def success_bars(
    title: str, groups: Sequence[tuple[str, Sequence[Tally | None]]], sources: Sequence[Source]
) -> Panel:
    """Horizontal bars of success with Wilson whiskers: a group per name, a bar per source."""
    thick, gap = 0.8, 1.1
    beside: dict[str, Any] = {"ha": "left", "va": "center"}

    def draw(ax: Axes) -> None:
        y = 0.0
        for name, tallies in groups:
            name_above(ax, y - 0.15, name)
            for tally, source in zip(tallies, sources, strict=True):
                y += 1
                if tally is None or tally.share is None or tally.interval is None:
                    ax.text(0.01, y - 0.5, "no data", color=MUTED, fontsize=6.5, **beside)
                    continue
                ax.barh(y - 0.5, tally.share, height=thick, color=colour(source), linewidth=0)
                interval(ax, tally.share, tally.interval, y - 0.5)
                counts = f"{tally.successes}/{tally.n}"
                ax.text(1.03, y - 0.5, counts, fontsize=7, color=INK, clip_on=False, **beside)
            y += gap
        ax.set_ylim(y - gap + 0.4, -0.9)
        ax.set_xlim(0, 1)
        ax.set_xticks([0, 0.25, 0.5, 0.75, 1.0], ["0", "25", "50", "75", "100 %"])
        bar_axes(ax)

    lines = sum(len(t) for _, t in groups) + gap * len(groups)
    return Panel(title, draw, height_in=0.155 * lines + 0.45)
