"""Confidence: reliability, plans truncated, the calibrator's weights, and other thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
from capex.report.figures import DASHES, INK, MUTED, Draw, Figure, Key, Panel, colour
from capex.report.plots.axes import (
    interval,
    level_axes,
    reliability_axes,
    source_keys,
    whole_numbers,
)
from capex.report.show import number
from capex.report.sources import Source
from capex.run.stats import wilson

SMALL_IN = 2.15


def reliability_figure(calibrations: Sequence[Calibration]) -> Figure:
    """Reliability diagrams before and after calibration."""
    panels = []
    for c in calibrations:
        for j in c.predictors:
            scores = f"ECE {j.ece:.3f}, AUROC {number(j.auroc, 3)}, Brier {j.brier:.3f}"
            title = f"{c.source.arm}: {j.name}. {scores}"
            panels.append(Panel(title, _diagram(j, colour(c.source)), height_in=3.2))
    caption = (
        "Share of executed waypoints reached against the confidence predicted for them, in ten bins"
        " of equal width, with 95 % Wilson intervals; grey bars and numbers: waypoints in the bin."
        " Every prediction was made before its episode."
    )
    sources = [c.source for c in calibrations]
    return Figure("reliability", caption, panels, sources, source_keys(sources))


def _diagram(judged: Judged, own: str) -> Draw:
    def draw(ax: Axes) -> None:
        rows = [b for b in judged.bins if b.count]
        one = reliability_axes(ax, rows, judged.name)
        for b in rows:
            _count(ax, b.low + 0.05, one * b.count + 0.01, b.count)
        bounds = [wilson(round(b.reached * b.count), b.count) for b in rows]
        x, y = [b.predicted for b in rows], [b.reached for b in rows]
        ax.vlines(x, *zip(*bounds, strict=True), color=INK, linewidth=0.8)
        ax.plot(x, y, color=own, marker="o", markersize=4, clip_on=False)

    return draw


def _count(ax: Axes, x: float, y: float, n: int) -> None:
    ax.text(x, y, f"{n}", ha="center", va="bottom", fontsize=6, color=MUTED)


def truncation_figure(truncations: Sequence[tuple[Source, Sequence[Truncated]]]) -> Figure:
    """Plans truncated against labels seen."""
    sources = [s for s, _ in truncations]
    names = dict(sorted({t.low: t.name for _, rows in truncations for t in rows}.items()))

    def draw(ax: Axes) -> None:
        width = 0.8 / len(truncations)
        for i, (source, rows) in enumerate(truncations):
            for row in rows:
                x = list(names).index(row.low) + (i + 0.5) * width - 0.4
                successes, n = row.plans.successes, row.plans.n
                ax.bar(x, successes / n, width=0.9 * width, color=colour(source), linewidth=0)
                low, high = wilson(successes, n)
                interval(ax, successes / n, (low, high), x, upright=True)
                _count(ax, x, high + 0.015, n)
        ax.set_xticks(range(len(names)), [n.replace(" to ", "\nto ") for n in names.values()])
        level_axes(ax, "reach labels seen before the episode", top=1.05)
        ax.set_axisbelow(True)

    caption = (
        "Share of plans of which a tail was deferred for low confidence, with 95 % Wilson"
        " intervals; numbers: plans."
    )
    panel = Panel("Plans truncated", draw)
    return Figure("truncated", caption, [panel], sources, source_keys(sources), columns=1)


def weights_figure(source: Source, paths: Sequence[WeightPath]) -> Figure:
    """The calibrator's weights over time, one small panel each."""
    own = colour(source)
    few = len(paths) <= len(DASHES)
    names = list(DASHES)[: len(paths)] if few else ["line"] * len(paths)
    look: dict[str, Any] = {"linewidth": 1.2 if few else 0.8, "alpha": 1 if few else 0.6}

    def panel(j: int) -> Panel:
        def draw(ax: Axes) -> None:
            ax.axhline(PRIOR_MEAN[j], color=MUTED, linewidth=0.7, linestyle=(0, (2, 2)))
            for path, name in zip(paths, names, strict=True):
                ax.plot(path.numbers, path.weights[:, j], color=own, linestyle=DASHES[name], **look)
            whole_numbers(ax, "episode")
            ax.margins(y=0.15)

        return Panel(FEATURES[j], draw, width_in=SMALL_IN, height_in=1.6)

    keys = [Key("one line per task", own, "line")]
    if few:
        keys = [Key(path.task, own, name) for path, name in zip(paths, names, strict=True)]
    keys.append(Key("prior", MUTED, "dots"))
    caption = f"{source.label}: the calibrator's eight weights before each episode of a chain."
    panels, name = [panel(j) for j in range(len(FEATURES))], f"weights-{source.number}"
    return Figure(name, caption, panels, [source], keys, columns=4, small=True)


def tau_figure(sweeps: Sequence[tuple[Source, Sequence[Swept]]]) -> Figure:
    """What other thresholds would have deferred."""

    def panel(source: Source, rows: Sequence[Swept]) -> Panel:
        def draw(ax: Axes) -> None:
            taus, own = [r.tau for r in rows], colour(source)
            known = [r for r in rows if r.judged >= CUTS_AT_LEAST]
            for x, y, ink, style in (
                (taus, [r.cut / r.plans for r in rows], own, "-"),
                (taus, [r.deferred / r.waypoints for r in rows], own, "--"),
                ([r.tau for r in known], [r.right / r.judged for r in known], INK, ":"),
            ):
                ax.plot(x, y, color=ink, linestyle=style, marker="o", markersize=2.5)
            if source.tau is not None and not source.task_tau:
                ax.axvline(source.tau, color=MUTED, linewidth=0.7)
                ax.text(source.tau + 0.01, 1.0, "τ used", fontsize=7, color=MUTED, va="top")
            ax.set_xlim(0, 1)
            level_axes(ax, "threshold τ", top=1.02)

        return Panel(source.label, draw)

    keys = (
        Key("plans cut", INK, "line"),
        Key("waypoints deferred", INK, "dashes"),
        Key("cuts that were right, where the outcome is known", INK, "dots"),
    )
    recorded = ", ".join(f"{s.label}: {rows[0].plans:,}" for s, rows in sweeps if rows)
    caption = (
        f"The recorded plans ({recorded}) under other thresholds: how much would have been"
        " deferred, and how often the waypoint at which a plan is cut was in fact not reached,"
        f" where at least {CUTS_AT_LEAST} such waypoints were executed; the table has the counts."
    )
    return Figure("tau", caption, [panel(*item) for item in sweeps], [s for s, _ in sweeps], keys)
