"""Confidence: reliability, plans truncated, the calibrator's weights, and other thresholds."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from capex.method.calibrator import PRIOR_MEAN
from capex.method.features import FEATURES
from capex.report.calibration import (
    CUTS_AT_LEAST,
    Calibration,
    Judged,
    Swept,
    Truncated,
    WeightPath,
)
from capex.report.figures import INK, LINE, MUTED, Figure, Key, Panel, colour
from capex.report.plots.axes import Draw, percent_ticks, source_keys, whisker
from capex.report.sources import Source
from capex.report.tables import number
from capex.run.stats import wilson

SMALL_IN = 2.15
DASHES = (("line", "-"), ("dashes", "--"), ("dots", ":"), ("dashdot", "-."))


def reliability_figure(found: Sequence[Calibration]) -> Figure:
    """Reliability diagrams before and after calibration."""
    sources = tuple(c.source for c in found)
    panels = [
        Panel(
            f"{c.source.arm}: {j.name}. ECE {j.ece:.3f}, AUROC {number(j.auroc, 3)}, Brier"
            f" {j.brier:.3f}",
            _diagram(j, colour(c.source)),
            height_in=3.2,
        )
        for c in found
        for j in c.predictors
    ]
    caption = (
        "Share of executed waypoints reached against the confidence predicted for them, in ten bins"
        " of equal width, with 95 % Wilson intervals; grey bars and numbers: waypoints in the bin."
        " Every prediction was made before its episode."
    )
    return Figure("reliability", caption, tuple(panels), sources, source_keys(sources))


def _diagram(judged: Judged, own: str) -> Draw:
    def draw(ax: Axes) -> None:
        rows = [b for b in judged.bins if b.count]
        most = max(b.count for b in rows)
        for b in rows:
            ax.bar(b.low + 0.05, 0.22 * b.count / most, width=0.094, color=LINE, linewidth=0)
            _count(ax, b.low + 0.05, 0.22 * b.count / most + 0.01, b.count)
        ax.plot([0, 1], [0, 1], color=MUTED, linewidth=0.7, linestyle=(0, (4, 3)))
        bounds = [wilson(round(b.reached * b.count), b.count) for b in rows]
        x, y = [b.predicted for b in rows], [b.reached for b in rows]
        ax.vlines(x, [b[0] for b in bounds], [b[1] for b in bounds], color=INK, linewidth=0.8)
        ax.plot(x, y, color=own, marker="o", markersize=4)
        ax.set_xlim(0, 1)
        ax.set_ylim(0, 1.02)
        ax.set_aspect("equal")
        ax.set_xlabel(f"{judged.name} confidence")
        ax.set_ylabel("share reached")

    return draw


def _count(ax: Axes, x: float, y: float, n: int) -> None:
    ax.text(x, y, f"{n}", ha="center", va="bottom", fontsize=6, color=MUTED)


def truncation_figure(found: Sequence[tuple[Source, Sequence[Truncated]]]) -> Figure:
    """Plans truncated against labels seen."""
    sources = tuple(s for s, _ in found)
    lows = sorted({t.low for _, rows in found for t in rows})
    names = {t.low: t.name for _, rows in found for t in rows}

    def draw(ax: Axes) -> None:
        width = 0.8 / len(found)
        for i, (source, rows) in enumerate(found):
            for row in rows:
                x = lows.index(row.low) + (i + 0.5) * width - 0.4
                low, high = wilson(row.plans.successes, row.plans.n)
                ax.bar(
                    x,
                    row.plans.successes / row.plans.n,
                    width=0.9 * width,
                    color=colour(source),
                    linewidth=0,
                )
                whisker(ax, (x, x), (low, high))
                _count(ax, x, high + 0.015, row.plans.n)
        ax.set_xticks(range(len(lows)), [names[low].replace(" to ", "\nto ") for low in lows])
        ax.set_ylim(0, 1.05)
        percent_ticks(ax)
        ax.set_xlabel("reach labels seen before the episode")
        ax.grid(axis="y")
        ax.set_axisbelow(True)

    caption = (
        "Share of plans of which a tail was deferred for low confidence, with 95 % Wilson"
        " intervals; numbers: plans."
    )
    return Figure(
        "truncated",
        caption,
        (Panel("Plans truncated", draw),),
        sources,
        source_keys(sources),
        columns=1,
    )


def weights_figure(source: Source, paths: Sequence[WeightPath]) -> Figure:
    """The calibrator's weights over time, one small panel each."""
    own = colour(source)
    few = len(paths) <= len(DASHES)

    def panel(j: int) -> Panel:
        def draw(ax: Axes) -> None:
            ax.axhline(PRIOR_MEAN[j], color=MUTED, linewidth=0.7, linestyle=(0, (2, 2)))
            for i, path in enumerate(paths):
                style = DASHES[i][1] if few else "-"
                ax.plot(
                    path.numbers,
                    path.weights[:, j],
                    color=own,
                    linewidth=1.2 if few else 0.8,
                    linestyle=style,
                    alpha=1 if few else 0.6,
                )
            ax.set_xlabel("episode")
            ax.margins(y=0.15)

        return Panel(FEATURES[j], draw, width_in=SMALL_IN, height_in=1.6)

    keys = (
        [Key(p.task, own, DASHES[i][0]) for i, p in enumerate(paths)]
        if few
        else [Key("one line per task", own, "line")]
    )
    keys.append(Key("prior", MUTED, "dots"))
    caption = f"{source.label}: the calibrator's eight weights before each episode of a chain."
    panels = tuple(panel(j) for j in range(len(FEATURES)))
    return Figure(
        f"weights-{source.number}", caption, panels, (source,), tuple(keys), columns=4, small=True
    )


def tau_figure(found: Sequence[tuple[Source, Sequence[Swept]]]) -> Figure:
    """What other thresholds would have deferred."""
    sources = tuple(s for s, _ in found)

    def panel(source: Source, rows: Sequence[Swept]) -> Panel:
        def draw(ax: Axes) -> None:
            taus = [r.tau for r in rows]
            own = colour(source)
            known = [r for r in rows if r.judged >= CUTS_AT_LEAST]
            right = [r.right / r.judged for r in known]
            for x, y, ink, style in (
                (taus, [r.cut / r.plans for r in rows], own, "-"),
                (taus, [r.deferred / r.waypoints for r in rows], own, "--"),
                ([r.tau for r in known], right, INK, ":"),
            ):
                ax.plot(x, y, color=ink, linestyle=style, marker="o", markersize=2.5)
            if source.tau is not None:
                ax.axvline(source.tau, color=MUTED, linewidth=0.7)
                ax.text(source.tau + 0.01, 1.0, "τ used", fontsize=7, color=MUTED, va="top")
            ax.set_xlim(0, 1)
            ax.set_ylim(0, 1.02)
            percent_ticks(ax)
            ax.set_xlabel("threshold τ")
            ax.grid(axis="y")

        return Panel(source.label, draw)

    keys = (
        Key("plans cut", INK, "line"),
        Key("waypoints deferred", INK, "dashes"),
        Key("cuts that were right, where the outcome is known", INK, "dots"),
    )
    caption = (
        "The recorded plans"
        f" ({', '.join(f'{s.label}: {rows[0].plans:,}' for s, rows in found if rows)}) under other"
        " thresholds: how much would have been deferred, and how often the waypoint at which a"
        f" plan is cut was in fact not reached, where at least {CUTS_AT_LEAST} such waypoints were"
        " executed; the table has the counts."
    )
    return Figure("tau", caption, tuple(panel(s, rows) for s, rows in found), sources, keys)
