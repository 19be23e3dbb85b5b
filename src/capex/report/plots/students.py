"""Students: success against the training budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from capex.report.figures import MUTED, SOURCE_COLOURS, Figure, Key, Panel
from capex.report.plots.axes import percent_ticks
from capex.report.sources import Source
from capex.report.students import BudgetPoint


def budget_figure(
    found: Mapping[str, Mapping[str, Sequence[BudgetPoint]]],
    floors: Mapping[str, float],
    names: Sequence[str],
    sources: Sequence[Source],
) -> Figure:
    """Success of students against their training budget, a panel per policy, a line per source of
    demonstrations; `floors`: untrained.
    """
    colours = {name: SOURCE_COLOURS[(k + 1) % len(SOURCE_COLOURS)] for k, name in enumerate(names)}
    budgets = sorted(
        {p.budget for by_source in found.values() for points in by_source.values() for p in points}
    )

    def panel(title: str, by_source: Mapping[str, Sequence[BudgetPoint]]) -> Panel:
        def draw(ax: Axes) -> None:
            for k, (name, points) in enumerate(by_source.items()):
                # aside, so that whiskers do not hide each other
                aside = 0.012 * max(budgets) * (k - (len(by_source) - 1) / 2)
                x = [p.budget + aside for p in points]
                y = [p.mean for p in points]
                ends = (
                    [max(0.0, p.mean - p.low) for p in points],
                    [max(0.0, p.high - p.mean) for p in points],
                )
                ax.errorbar(
                    x,
                    y,
                    yerr=ends,
                    marker="o",
                    markersize=3.5,
                    capsize=2.5,
                    linewidth=1.4,
                    color=colours[name],
                )
            if title in floors:
                ax.axhline(floors[title], color=MUTED, linestyle="--", linewidth=1.0)
            ax.set_xlim(0, 1.1 * max(budgets))
            ax.set_xticks(budgets, [f"{b / 1000:g}k" for b in budgets])
            ax.set_xlabel("training steps")
            ax.set_ylim(-0.02, 1.02)
            percent_ticks(ax)
            ax.grid(axis="y")

        return Panel(title, draw)

    keys = tuple(Key(f"trained on {name}", colours[name], "line") for name in names)
    keys += (Key("untrained", MUTED, "dashes"),) if floors else ()
    caption = (
        "Success against training budget, the mean over tasks and training seeds; whiskers: 95 %"
        " Wilson intervals of the pooled rollouts."
    )
    return Figure(
        "students", caption, tuple(panel(t, b) for t, b in found.items()), tuple(sources), keys
    )
