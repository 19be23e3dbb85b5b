"""Reliability with and without selection, and what each threshold executes."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from capex.analysis.counterfactual_numbers import Found, Selection
from capex.analysis.thresholds import SweptExactly
from capex.report.calibration import Judged
from capex.report.figures import INK, MUTED, Draw, Figure, Key, Panel, colour
from capex.report.plots.axes import level_axes, reliability_axes
from capex.run.stats import wilson


def selection_figure(judged: Sequence[tuple[Found, Sequence[Selection]]]) -> Figure:
    """Reliability over executed waypoints beside that over all planned ones."""
    panels = [
        Panel(f"{found.source.arm}: {s.name}", _diagrams(s, colour(found.source)), height_in=3.2)
        for found, parts in judged
        for s in parts
    ]
    caption = (
        "Share of waypoints reached against the confidence predicted for them, in ten bins of equal"
        " width: those that were executed, and all that the plans get to when nothing is deferred;"
        " 95 % Wilson intervals. Grey bars: all planned waypoints in the bin."
    )
    keys = (Key("all planned", INK, "line"), Key("executed", MUTED, "dashes"))
    return Figure("selection", caption, panels, [f.source for f, _ in judged], keys)


def _diagrams(selection: Selection, own: str) -> Draw:
    def draw(ax: Axes) -> None:
        reliability_axes(ax, selection.planned.bins, selection.name)
        _line(ax, selection.executed, MUTED, "--")
        _line(ax, selection.planned, own, "-")

    return draw


def _line(ax: Axes, judged: Judged, ink: str, style: str) -> None:
    rows = [b for b in judged.bins if b.count]
    for b in rows:
        ends = wilson(round(b.reached * b.count), b.count)
        ax.vlines(b.predicted, *ends, color=ink, linewidth=0.8)
    x, y = [b.predicted for b in rows], [b.reached for b in rows]
    ax.plot(x, y, color=ink, linestyle=style, marker="o", markersize=3.5, clip_on=False)


def sweep_figure(swept: Sequence[tuple[Found, Sequence[SweptExactly]]]) -> Figure:
    """Executed, reached, missed and hit against the threshold, per plan."""
    panels = [Panel(found.source.label, _curves(found, line)) for found, line in swept]
    keys = (
        Key("executed", MUTED, "line"),
        Key("reached", INK, "line"),
        Key("missed", INK, "dashes"),
        Key("reached and solved less missed", INK, "dots"),
    )
    plans = ", ".join(f"{f.source.label}: {line[0].plans:,} plans" for f, line in swept)
    caption = f"Waypoints a plan at other thresholds, exactly ({plans})."
    return Figure("tau-exact", caption, panels, [f.source for f, _ in swept], keys)


def _curves(found: Found, line: Sequence[SweptExactly]) -> Draw:
    def draw(ax: Axes) -> None:
        taus, own = [s.tau for s in line], colour(found.source)
        for ink, style, values in (
            (MUTED, "-", [s.executed / s.plans for s in line]),
            (own, "-", [s.reached / s.plans for s in line]),
            (own, "--", [s.missed / s.plans for s in line]),
            (INK, ":", [s.score / s.plans for s in line]),
        ):
            ax.plot(taus, values, color=ink, linestyle=style, marker="o", markersize=2.5)
        tau = found.source.tau
        if tau is not None and not found.source.task_tau:
            ax.axvline(tau, color=MUTED, linewidth=0.7)
            ax.text(tau + 0.01, ax.get_ylim()[1], "τ used", fontsize=7, color=MUTED, va="top")
        ax.set_xlim(0, 1)
        level_axes(ax, "threshold τ", bottom=min(0.0, *(s.score / s.plans for s in line)))
        ax.set_ylabel("waypoints a plan")

    return draw
