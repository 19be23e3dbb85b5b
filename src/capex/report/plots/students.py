"""Students: success against the training budget and the number of demonstrations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes

from capex.report.figures import DASHES, MUTED, SOURCE_COLOURS, Figure, Key, Panel
from capex.report.plots.axes import level_axes
from capex.report.sources import Source
from capex.report.students import FLOORS, Block, Cell, CurvePoint, curves, data_curves, floors

STROKES = dict(zip(FLOORS, ("dashes", "dots"), strict=True))
MARKS: dict[str, Any] = {"marker": "o", "markersize": 3.5, "capsize": 2.5, "linewidth": 1.4}


def budget_figure(
    blocks: Sequence[Block], names: Sequence[str], sources: Sequence[Source]
) -> Figure:
    """Success of students against their training budget: a panel per policy, a line per source of
    demonstrations, the untrained network and what fine-tuning began from as level lines.
    """
    colours = {name: SOURCE_COLOURS[(k + 1) % len(SOURCE_COLOURS)] for k, name in enumerate(names)}
    levels = {name: known for name in FLOORS if (known := floors(blocks, name))}
    budgets = sorted({block.budget for block in blocks})

    def panel(title: str, by_source: Mapping[str, Sequence[CurvePoint]]) -> Panel:
        def draw(ax: Axes) -> None:
            _lines(ax, by_source, colours, lambda steps, k: steps + 0.012 * k * max(budgets))
            for name, known in levels.items():
                if title in known:
                    ax.axhline(
                        known[title], color=MUTED, linestyle=DASHES[STROKES[name]], linewidth=1
                    )
            ax.set_xlim(0, 1.1 * max(budgets))
            ax.set_xticks(budgets, [f"{b / 1000:g}k" for b in budgets])
            level_axes(ax, "training steps", -0.02, 1.02)

        return Panel(title, draw)

    keys = [Key(f"trained on {name}", colours[name], "line") for name in names]
    keys += [Key(name, MUTED, STROKES[name]) for name in levels]
    caption = (
        "Success against training budget, the mean over training seeds and the tasks that all"
        " budgets have; whiskers: 95 % Wilson intervals of the pooled rollouts."
    )
    panels = [panel(title, by_source) for title, by_source in curves(blocks).items()]
    return Figure("students", caption, panels, sources, keys, columns=3 if len(panels) == 3 else 2)


def data_figure(found: Sequence[Cell], sources: Sequence[Source]) -> Figure | None:
    """Success of students against the number of demonstrations: a panel per policy, budget and
    task, a line per demonstrator; None where nobody's numbers differ.
    """
    drawn = data_curves(found)
    makers = list(dict.fromkeys(name for by_maker in drawn.values() for name in by_maker))
    colours = {name: SOURCE_COLOURS[(k + 1) % len(SOURCE_COLOURS)] for k, name in enumerate(makers)}

    def panel(title: str, by_maker: Mapping[str, Sequence[CurvePoint]]) -> Panel:
        amounts = sorted({p.amount for points in by_maker.values() for p in points})

        def draw(ax: Axes) -> None:
            _lines(ax, by_maker, colours, lambda number, k: number * 1.03**k)
            ax.set_xscale("log")
            ax.set_xlim(0.8 * min(amounts), 1.25 * max(amounts))
            ax.set_xticks(amounts, [f"{n:,}" for n in amounts])
            ax.minorticks_off()
            level_axes(ax, "demonstrations", -0.02, 1.02)

        return Panel(title, draw)

    caption = (
        "Success against the number of demonstrations that were trained on, by who made them, the"
        " mean over training seeds; whiskers: 95 % Wilson intervals of the pooled rollouts."
    )
    keys = [Key(f"demonstrations of {name}", colours[name], "line") for name in makers]
    panels = [panel(title, by_maker) for title, by_maker in drawn.items()]
    return Figure("students-data", caption, panels, sources, keys, columns=2) if panels else None


def _lines(
    ax: Axes,
    lines: Mapping[str, Sequence[CurvePoint]],
    colours: Mapping[str, str],
    aside: Callable[[int, float], float],
) -> None:
    """Lines with whiskers, each a little aside, so that whiskers do not hide each other."""
    for k, (name, points) in enumerate(lines.items()):
        x = [aside(p.amount, k - (len(lines) - 1) / 2) for p in points]
        below = [max(0.0, p.mean - p.low) for p in points]
        above = [max(0.0, p.high - p.mean) for p in points]
        y = [p.mean for p in points]
        ax.errorbar(x, y, yerr=(below, above), color=colours[name], **MARKS)
