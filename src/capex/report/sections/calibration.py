"""Stated and calibrated confidence against outcomes."""

from __future__ import annotations

from collections.abc import Sequence

from capex.report.calibration import (
    CUTS_AT_LEAST,
    EITHER_LABEL_AT_LEAST,
    Calibration,
    Swept,
    Truncated,
    calibration,
    tau_sweep,
    truncation,
    weight_paths,
)
from capex.report.plots.calibration import (
    reliability_figure,
    tau_figure,
    truncation_figure,
    weights_figure,
)
from capex.report.sections.section import Section
from capex.report.sources import Source
from capex.report.tables import (
    Column,
    Row,
    Table,
    count,
    group_row,
    number,
    percent,
    slashed,
    success,
    tally_names,
    three_digits,
)


def calibration_section(sources: Sequence[Source]) -> Section:
    """Stated and calibrated confidence against outcomes."""
    section = Section("calibration", "Confidence and calibration")
    found = [c for c in (calibration(s) for s in sources) if c is not None]
    if not found:
        section.notes.append(
            "No executed waypoint carries a stated confidence, so there is nothing to calibrate."
        )
        return section
    section.text.append(
        "A waypoint's confidence is judged by the executor's own report: reached, or not. Waypoints"
        " that were deferred or never executed have no label, so that low confidences are seen"
        " mostly on first waypoints, which always run."
    )
    section.figures.append(reliability_figure(found))
    section.tables += [_calibration_table(found), _bins_table(found)]
    for c in found:
        if c.predictors[0].auroc is None:
            missed = round(c.n * (1 - c.reached))
            counts = f"{c.n - missed:,} waypoints reached and {missed:,} not"
            section.notes.append(
                f"{c.source.label}: {counts}; an AUROC needs {EITHER_LABEL_AT_LEAST} of either."
            )
        if len(c.predictors) == 1:
            section.notes.append(
                f"{c.source.label} commits on the stated confidence: it learned no calibration that"
                " could be judged."
            )
    cut = [(c.source, truncation(c.source)) for c in found]
    section.figures.append(truncation_figure(cut))
    section.tables.append(_truncation_table(cut))
    for c in found:
        paths = weight_paths(c.source)
        if paths:
            section.figures.append(weights_figure(c.source, paths))
    swept = [(c.source, tau_sweep(c.source)) for c in found]
    section.figures.append(tau_figure(swept))
    section.tables.append(_tau_table(swept))
    return section


def _calibration_table(found: Sequence[Calibration]) -> Table:
    columns = (
        Column("Source", "source", align="l"),
        Column("Prediction", "prediction", align="l"),
        Column("Waypoints", "waypoints", count),
        Column("Reached", "reached", percent),
        Column("Mean", "mean", number),
        Column("ECE", "ece", three_digits),
        Column("AUROC", "auroc", three_digits),
        Column("Brier", "brier", three_digits),
        Column(csv=("stated_at_0.8_or_more", "stated_below_tau")),
    )
    rows = [
        Row(
            (
                *(c.source.label, j.name, c.n, c.reached, j.mean, j.ece, j.auroc, j.brier),
                (c.high, c.below_tau),
            )
        )
        for c in found
        for j in c.predictors
    ]
    caption = (
        "Predictions of whether an executed waypoint is reached, made before its episode: expected"
        " calibration error in ten bins of equal width, area under the ROC curve, Brier score."
        " Stated at 0.8 or more: "
        + "; ".join(f"{c.source.label} {percent(c.high)}" for c in found)
        + "."
    )
    return Table("calibration", caption, columns, rows, [c.source for c in found])


def _bins_table(found: Sequence[Calibration]) -> Table:
    columns = (
        Column(csv=("source", "prediction")),
        Column("Confidence", ("low", "high"), lambda ends: f"{ends[0]:.1f} to {ends[1]:.1f}", "l"),
        Column("Waypoints", "count", count),
        Column("Mean predicted", "predicted", number),
        Column("Share reached", "reached", number),
    )
    rows = []
    for c in found:
        for j in c.predictors:
            names = c.source.label, j.name
            rows.append(group_row(": ".join(names)))
            rows += [Row((names, (b.low, b.high), b.count, b.predicted, b.reached)) for b in j.bins]
    caption = "The reliability diagrams in numbers."
    return Table("reliability", caption, columns, rows, [c.source for c in found], "folded")


def _truncation_table(found: Sequence[tuple[Source, Sequence[Truncated]]]) -> Table:
    columns = (
        Column("Source", "source", align="l"),
        Column("Labels seen", align="l"),
        Column(csv=("labels_from", "labels_to")),
        Column("Plans truncated", tally_names(), success, "l"),
    )
    rows = [
        Row((source.label, b.name, (b.low, b.high), b.plans))
        for source, bins in found
        for b in bins
    ]
    caption = (
        "Plans of which a tail was deferred for low confidence, by reach labels seen before the"
        " episode, with 95 % Wilson intervals."
    )
    return Table("truncated", caption, columns, rows, [s for s, _ in found], "folded")


def _tau_table(found: Sequence[tuple[Source, Sequence[Swept]]]) -> Table:
    columns = (
        Column(csv="source"),
        Column("τ", "tau", number),
        Column("Plans cut", ("plans", "cut"), _part),
        Column("Waypoints deferred", ("waypoints", "deferred"), _part),
        Column("Right", show=percent),
        Column("Right / wrong / unknown", ("right", "wrong", "unknown"), slashed),
    )
    rows = []
    for source, sweep in found:
        rows.append(group_row(source.label))
        for s in sweep:
            whole, deferred = (s.plans, s.cut), (s.waypoints, s.deferred)
            right = s.right / s.judged if s.judged >= CUTS_AT_LEAST else None
            outcomes = s.right, s.wrong, s.unknown
            rows.append(Row((source.label, s.tau, whole, deferred, right, outcomes)))
    caption = (
        "The recorded plans under other thresholds. A cut is right when the waypoint at which it"
        " cuts was executed and not reached, wrong when it was reached, unknown when it was not"
        " executed."
    )
    return Table("tau", caption, columns, rows, [s for s, _ in found], "folded")


def _part(counts: tuple[int, int]) -> str:
    whole, part = counts
    return f"{part:,}/{whole:,}  {percent(part / whole)}"
