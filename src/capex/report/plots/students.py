"""Students: success against the training budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes

from capex.report.figures import DASHES, MUTED, SOURCE_COLOURS, Figure, Key, Panel
from capex.report.plots.axes import level_axes
from capex.report.sources import Source
from capex.report.students import FLOORS, Block, BudgetPoint, curves, floors

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

    def panel(title: str, by_source: Mapping[str, Sequence[BudgetPoint]]) -> Panel:
        def draw(ax: Axes) -> None:
            for k, (name, points) in enumerate(by_source.items()):
                # aside, so that whiskers do not hide each other
                aside = 0.012 * max(budgets) * (k - (len(by_source) - 1) / 2)
                x, y = [p.budget + aside for p in points], [p.mean for p in points]
                below = [max(0.0, p.mean - p.low) for p in points]
                above = [max(0.0, p.high - p.mean) for p in points]
                ax.errorbar(x, y, yerr=(below, above), color=colours[name], **MARKS)
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
