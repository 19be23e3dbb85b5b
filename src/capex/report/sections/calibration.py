"""Stated and calibrated confidence against outcomes."""

from __future__ import annotations

from collections.abc import Sequence

from capex.report import plots
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
from capex.report.sections.section import Section
from capex.report.sources import Source
from capex.report.tables import MISSING, Row, Table, number, percent, raw_tally, success


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
    section.figures.append(plots.reliability_figure(found))
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
    section.figures.append(plots.truncation_figure(cut))
    section.tables.append(_truncation_table(cut))
    for c in found:
        paths = weight_paths(c.source)
        if paths:
            section.figures.append(plots.weights_figure(c.source, paths))
    swept = [(c.source, tau_sweep(c.source)) for c in found]
    section.figures.append(plots.tau_figure(swept))
    section.tables.append(_tau_table(swept))
    return section


def _calibration_table(found: Sequence[Calibration]) -> Table:
    rows, raw = [], []
    for c in found:
        for j in c.predictors:
            told = (
                f"{c.n:,}",
                percent(c.reached),
                number(j.mean),
                number(j.ece, 3),
                number(j.auroc, 3),
                number(j.brier, 3),
            )
            rows.append(Row((c.source.label, j.name, *told)))
            raw.append(
                {
                    "source": c.source.label,
                    "prediction": j.name,
                    "waypoints": c.n,
                    "reached": c.reached,
                    "mean": j.mean,
                    "ece": j.ece,
                    "auroc": j.auroc,
                    "brier": j.brier,
                    "stated_at_0.8_or_more": c.high,
                    "stated_below_tau": c.below_tau,
                }
            )
    caption = (
        "Predictions of whether an executed waypoint is reached, made before its episode: expected"
        " calibration error in ten bins of equal width, area under the ROC curve, Brier score."
        " Stated at 0.8 or more: "
        + "; ".join(f"{c.source.label} {percent(c.high)}" for c in found)
        + "."
    )
    head = ("Source", "Prediction", "Waypoints", "Reached", "Mean", "ECE", "AUROC", "Brier")
    return Table(
        "calibration",
        caption,
        head,
        "llrrrrrr",
        tuple(rows),
        tuple(raw),
        tuple(c.source for c in found),
    )


def _bins_table(found: Sequence[Calibration]) -> Table:
    rows, raw = [], []
    for c in found:
        for j in c.predictors:
            rows.append(Row((f"{c.source.label}: {j.name}",), "group"))
            for b in j.bins:
                name = f"{b.low:.1f} to {b.high:.1f}"
                rows.append(Row((name, f"{b.count:,}", number(b.predicted), number(b.reached))))
                raw.append({"source": c.source.label, "prediction": j.name, **vars(b)})
    caption = "The reliability diagrams in numbers."
    head = ("Confidence", "Waypoints", "Mean predicted", "Share reached")
    return Table(
        "reliability",
        caption,
        head,
        "lrrr",
        tuple(rows),
        tuple(raw),
        tuple(c.source for c in found),
        "folded",
    )


def _truncation_table(found: Sequence[tuple[Source, Sequence[Truncated]]]) -> Table:
    rows, raw = [], []
    for source, bins in found:
        for b in bins:
            rows.append(Row((source.label, b.name, success(b.plans))))
            raw.append(
                {
                    "source": source.label,
                    "labels_from": b.low,
                    "labels_to": b.high,
                    **raw_tally(b.plans),
                }
            )
    caption = (
        "Plans of which a tail was deferred for low confidence, by reach labels seen before the"
        " episode, with 95 % Wilson intervals."
    )
    sources = tuple(s for s, _ in found)
    return Table(
        "truncated",
        caption,
        ("Source", "Labels seen", "Plans truncated"),
        "lll",
        tuple(rows),
        tuple(raw),
        sources,
        "folded",
    )


def _tau_table(found: Sequence[tuple[Source, Sequence[Swept]]]) -> Table:
    rows, raw = [], []
    for source, sweep in found:
        rows.append(Row((source.label,), "group"))
        for s in sweep:
            right = percent(s.right / s.judged) if s.judged >= CUTS_AT_LEAST else MISSING
            rows.append(
                Row(
                    (
                        f"{s.tau:.2f}",
                        f"{s.cut:,}/{s.plans:,}  {percent(s.cut / s.plans)}",
                        f"{s.deferred:,}/{s.waypoints:,}  {percent(s.deferred / s.waypoints)}",
                        right,
                        f"{s.right} / {s.wrong} / {s.unknown}",
                    )
                )
            )
            raw.append({"source": source.label, **vars(s)})
    caption = (
        "The recorded plans under other thresholds. A cut is right when the waypoint at which it"
        " cuts was executed and not reached, wrong when it was reached, unknown when it was not"
        " executed."
    )
    head = ("τ", "Plans cut", "Waypoints deferred", "Right", "Right / wrong / unknown")
    return Table(
        "tau", caption, head, "rrrrr", tuple(rows), tuple(raw), tuple(s for s, _ in found), "folded"
    )
