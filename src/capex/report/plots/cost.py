"""Cost: tokens by kind, and what each decision took."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from capex.report.costs import KINDS, Bill, DecisionCurve
from capex.report.figures import KIND_COLOURS, Figure, Key, Panel, colour
from capex.report.plots.axes import bar_axes, level_axes, name_above, source_keys


def tokens_figure(bills: Sequence[Bill]) -> Figure:
    """Tokens per attempt by kind."""

    def draw(ax: Axes) -> None:
        most = 0.0
        for y, item in enumerate(bills):
            assert item.tokens is not None
            parts = {k: getattr(item.tokens, k) for k in KINDS}
            parts["output"] -= parts["reasoning"]
            attempts = sum(bool(r.requests) and r.tokens is not None for r in item.source.recorded)
            left = 0.0
            for kind, own in zip(KINDS, KIND_COLOURS, strict=True):
                size = parts[kind] / (attempts or 1) / 1000
                ax.barh(y, size, left=left, height=0.42, color=own, linewidth=0)
                left += size
            name_above(ax, y - 0.3, item.source.label)
            most = max(most, left)
        ax.set_ylim(len(bills) - 0.5, -0.85)
        ax.set_xlim(0, most * 1.02 or 1)
        ax.set_xlabel("thousand tokens per attempt")
        bar_axes(ax)

    names = ("fresh input", "cached input", "cache write", "output", "reasoning (part of output)")
    keys = [Key(n, c) for n, c in zip(names, KIND_COLOURS, strict=True)]
    caption = (
        "Where the tokens went: mean per attempt that got an answer, invalidated ones included; a"
        " continued one counts once."
    )
    panel = Panel("Tokens per attempt", draw, height_in=0.5 * len(bills) + 0.6)
    return Figure("tokens", caption, [panel], [b.source for b in bills], keys, columns=1)


def decisions_figure(curves: Sequence[DecisionCurve]) -> Figure:
    """Cost of each decision over the episode."""

    def panel(unit: str) -> Panel:
        def draw(ax: Axes) -> None:
            scale = 1.0 if unit == "$" else 1e-3
            for curve in (c for c in curves if c.unit == unit):
                x, own = [p.number for p in curve.points], colour(curve.source)
                quartiles = np.array([(p.low, p.median, p.high) for p in curve.points]).T * scale
                low, mid, high = quartiles
                ax.fill_between(x, low, high, color=own, alpha=0.18, linewidth=0)
                if len(x) == 1:  # a band of one decision has no width
                    ax.vlines(x, low, high, color=own, linewidth=0.9)
                ax.plot(x, mid, color=own, marker="o", markersize=3 if len(x) < 10 else 2)
            level_axes(ax, "decision of the episode")
            ax.set_ylabel("dollars" if unit == "$" else "thousand tokens")

        without = "Tokens per decision (no price is known)"
        return Panel("Cost per decision" if unit == "$" else without, draw)

    sources = [c.source for c in curves]
    panels = [panel(unit) for unit in dict.fromkeys(c.unit for c in curves)]
    read = "; ".join(f"{c.source.label}: {c.read} of {c.of} episodes" for c in curves)
    caption = (
        "What each decision of an episode took, median and quartiles over the episodes that came"
        f" so far. Read: {read}."
    )
    keys = source_keys(sources, "line")
    return Figure("decisions", caption, panels, sources, keys, columns=1)
