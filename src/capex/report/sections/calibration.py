"""Stated and calibrated confidence against outcomes."""

from __future__ import annotations

from collections.abc import Sequence

from capex.report import calibration, show
from capex.report.calibration import CUTS_AT_LEAST, Calibration, Growth, Swept, Truncated
from capex.report.examples import example_plan
from capex.report.plots import calibration as plots
from capex.report.sections.plans import plan_table
from capex.report.sections.section import Section, SectionInput
from capex.report.sources import Source
from capex.report.tables import Column, Row, Table, group_row, tally_names


def calibration_section(given: SectionInput) -> list[Section]:
    """How good confidences were, what they deferred, and what other thresholds would have."""
    sources = given.sources
    section = Section("calibration", "Confidence and calibration")
    calibrations = [c for c in map(calibration.calibration, sources) if c is not None]
    if not calibrations:
        section.notes.append(
            "No executed waypoint carries a stated confidence, so there is nothing to calibrate."
        )
        return [section]
    section.text.append(
        "A waypoint's confidence is judged by the executor's own report: reached, or not. Waypoints"
        " that were deferred or never executed have no label, so that low confidences are seen"
        " mostly on first waypoints, which always run."
    )
    section.figures.append(plots.reliability_figure(calibrations))
    section.tables += [_calibration_table(calibrations), _bins_table(calibrations)]
    for c in calibrations:
        if c.predictors[0].auroc is None:
            missed, needed = round(c.n * (1 - c.reached)), calibration.EITHER_LABEL_AT_LEAST
            section.notes.append(
                f"{c.source.label}: {c.n - missed:,} waypoints reached and {missed:,} not; an AUROC"
                f" needs {needed} of either."
            )
        if len(c.predictors) == 1:
            section.notes.append(
                f"{c.source.label} commits on the stated confidence: it learned no calibration that"
                " could be judged."
            )
    cut = [(c.source, calibration.truncation(c.source)) for c in calibrations]
    examples = [p for p in (example_plan(c.source) for c in calibrations) if p is not None]
    grown = [(c.source, calibration.growth(c.source)) for c in calibrations]
    section.text += [_grown(*item) for item in grown]
    if not examples:
        section.notes.append("No plan was cut for low confidence, so there is none to show.")
    swept = [(c.source, calibration.tau_sweep(c.source)) for c in calibrations]
    paths = [(c.source, calibration.weight_paths(c.source)) for c in calibrations]
    section.figures.append(plots.truncation_figure(cut))
    section.figures += [plots.weights_figure(source, chains) for source, chains in paths if chains]
    section.figures.append(plots.tau_figure(swept))
    section.tables += [
        *(plan_table(plan) for plan in examples),
        _growth_table(grown),
        _truncation_table(cut),
        _tau_table(swept),
    ]
    return [section]


def _grown(source: Source, grown: Growth) -> str:
    """How plans cut grew, in a sentence; what has no plan is left out."""
    where = (
        *("with no reach label seen", "with some"),
        *("in the first tenth of each chain's plans", "in the last"),
    )
    shares = zip(where, grown.rows, strict=True)
    parts = [f"{show.percent(plans.share)} {name}" for name, (_, plans) in shares if plans.n]
    return f"Plans cut for low confidence, {source.label}: {', '.join(parts)}."


def _growth_table(grown: Sequence[tuple[Source, Growth]]) -> Table:
    columns = (
        Column("Source", "source", align="l"),
        Column("Plans", "plans", align="l"),
        Column("Cut", tally_names(), show.success, "l"),
    )
    rows = [Row((source.label, name, plans)) for source, item in grown for name, plans in item.rows]
    caption = (
        "Plans of which a tail was deferred for low confidence: by reach labels seen before the"
        " episode, and in the first tenth of each chain's plans against the last (chains of at"
        f" least {calibration.PARTS} plans, pooled); 95 % Wilson intervals."
    )
    return Table("plans-cut", caption, columns, rows, [s for s, _ in grown])


def _calibration_table(calibrations: Sequence[Calibration]) -> Table:
    columns = (
        Column("Source", "source", align="l"),
        Column("Prediction", "prediction", align="l"),
        Column("Waypoints", "waypoints", show.count),
        Column("Reached", "reached", show.percent),
        Column("Mean", "mean", show.number),
        Column("ECE", "ece", show.three_digits),
        Column("AUROC", "auroc", show.three_digits),
        Column("Brier", "brier", show.three_digits),
        Column("At 0.8 or more, below τ", ("stated_at_0.8_or_more", "stated_below_tau"), _ends),
    )
    rows = []
    for c in calibrations:
        for j in c.predictors:
            judged = j.name, c.n, c.reached, j.mean, j.ece, j.auroc, j.brier
            rows.append(Row((c.source.label, *judged, (c.high, c.below_tau))))
    caption = (
        "Predictions of whether an executed waypoint is reached, made before its episode: expected"
        " calibration error in ten bins of equal width, area under the ROC curve, Brier score. Last"
        " column: the shares of waypoints stated at 0.8 or more and below the commit threshold."
    )
    return Table("calibration", caption, columns, rows, [c.source for c in calibrations])


def _ends(shares: tuple[float, float | None]) -> str:
    return ", ".join(map(show.percent, shares))


def _bins_table(calibrations: Sequence[Calibration]) -> Table:
    columns = (
        Column(csv=("source", "prediction")),
        Column("Confidence", ("low", "high"), lambda ends: f"{ends[0]:.1f} to {ends[1]:.1f}", "l"),
        Column("Waypoints", "count", show.count),
        Column("Mean predicted", "predicted", show.number),
        Column("Share reached", "reached", show.number),
    )
    rows = []
    for c in calibrations:
        for j in c.predictors:
            names = c.source.label, j.name
            rows.append(group_row(": ".join(names)))
            rows += [Row((names, (b.low, b.high), b.count, b.predicted, b.reached)) for b in j.bins]
    caption = "The reliability diagrams in numbers."
    return Table("reliability", caption, columns, rows, [c.source for c in calibrations], "folded")


def _truncation_table(truncations: Sequence[tuple[Source, Sequence[Truncated]]]) -> Table:
    columns = (
        Column("Source", "source", align="l"),
        Column("Labels seen", align="l"),
        Column(csv=("labels_from", "labels_to")),
        Column("Plans truncated", tally_names(), show.success, "l"),
    )
    rows = [
        Row((source.label, b.name, (b.low, b.high), b.plans))
        for source, bins in truncations
        for b in bins
    ]
    caption = (
        "Plans of which a tail was deferred for low confidence, by reach labels seen before the"
        " episode, with 95 % Wilson intervals."
    )
    return Table("truncated", caption, columns, rows, [s for s, _ in truncations], "folded")


def _tau_table(sweeps: Sequence[tuple[Source, Sequence[Swept]]]) -> Table:
    columns = (
        Column(csv="source"),
        Column("τ", "tau", show.number),
        Column("Plans cut", ("plans", "cut"), show.part),
        Column("Waypoints deferred", ("waypoints", "deferred"), show.part),
        Column("Right", show=show.percent),
        Column("Right / wrong / unknown", ("right", "wrong", "unknown"), show.slashed),
    )
    rows = []
    for source, sweep in sweeps:
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
    return Table("tau", caption, columns, rows, [s for s, _ in sweeps], "folded")
