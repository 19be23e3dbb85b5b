"""What several figures draw alike: legends of sources, bars of success, whiskers and axes in
percent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.axes import Axes

from capex.report.compare import Tally
from capex.report.figures import INK, MUTED, PAPER, Key, colour
from capex.report.sources import Source, plain

NAME_CHARACTERS = 44  # what fits above the marks
Draw = Callable[[Axes], None]


def source_keys(sources: Sequence[Source], style: str = "box") -> tuple[Key, ...]:
    """One legend entry per source."""
    return tuple(Key(s.label, colour(s), style) for s in sources)


def percent_ticks(ax: Axes) -> None:
    """A vertical axis of shares."""
    ax.set_yticks([0, 0.5, 1], ["0", "50", "100 %"])


def whisker(ax: Axes, x: Sequence[float], y: Sequence[float]) -> None:
    """An interval: dark, on a lighter ground, so that it is seen inside a bar and outside."""
    ax.plot(x, y, color=PAPER, linewidth=2.0, solid_capstyle="butt")
    ax.plot(x, y, color=INK, linewidth=0.9, solid_capstyle="butt")


def bars(
    groups: Sequence[tuple[str, Sequence[Tally | None]]], palette: Sequence[str]
) -> tuple[Draw, float]:
    """Horizontal bars of success with Wilson whiskers, a group of them per name; the function and
    the height it needs in inches.
    """
    thick, gap = 0.8, 1.1
    beside: dict[str, Any] = {"ha": "left", "va": "center"}

    def draw(ax: Axes) -> None:
        y = 0.0
        for name, tallies in groups:
            ax.text(0, y - 0.15, plain(name, NAME_CHARACTERS), ha="left", va="bottom", fontsize=8)
            for tally, own in zip(tallies, palette, strict=True):
                y += 1
                if tally is None or tally.share is None or tally.interval is None:
                    ax.text(0.01, y - 0.5, "no data", color=MUTED, fontsize=6.5, **beside)
                    continue
                low, high = tally.interval
                ax.barh(y - 0.5, tally.share, height=thick, color=own, linewidth=0)
                whisker(ax, (low, high), (y - 0.5, y - 0.5))
                counts = f"{tally.successes}/{tally.n}"
                ax.text(1.03, y - 0.5, counts, fontsize=7, color=INK, clip_on=False, **beside)
            y += gap
        ax.set_ylim(y - gap + 0.4, -0.9)
        ax.set_xlim(0, 1)
        ax.set_yticks([])
        ax.set_xticks([0, 0.25, 0.5, 0.75, 1.0], ["0", "25", "50", "75", "100 %"])
        ax.spines["left"].set_visible(False)
        ax.grid(axis="x")
        ax.set_axisbelow(True)

    lines = sum(len(t) for _, t in groups) + gap * len(groups)
    return draw, 0.155 * lines + 0.45
