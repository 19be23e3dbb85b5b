"""The example of a plan: stated and calibrated confidence, and what became of each waypoint."""

from __future__ import annotations

from capex.report import show
from capex.report.examples import ExamplePlan
from capex.report.tables import Column, Row, Table, file_table


def plan_table(plan: ExamplePlan) -> Table:
    """The paper's table: a column per waypoint; the CSV has a row per waypoint."""
    rows = plan.turn.waypoints
    stated, calibrated = [w.waypoint.confidence for w in rows], [w.calibrated for w in rows]
    outcomes = ["driven" if w.status == "base" else w.status for w in rows]
    columns = (
        Column("Waypoint k", align="l"),
        *(Column(str(k), show=show.number) for k in range(1, len(rows) + 1)),
    )
    shown = (
        Row(("Stated", *stated)),
        Row(("Calibrated", *calibrated)),
        Row(("Outcome", *outcomes)),
    )
    name, sources = f"plan-{plan.source.number}", [plan.source]
    written = [
        Row((plan.source.label, k, *row))
        for k, row in enumerate(zip(stated, calibrated, outcomes, strict=True), 1)
    ]
    names = ("source", "waypoint", "stated", "calibrated", "outcome")
    caption = _caption(plan)
    data = file_table(name, caption, names, written, sources)
    return Table(name, caption, columns, shown, sources, data=data)


def _caption(plan: ExamplePlan) -> str:
    e, turn, source = plan.episode, plan.turn, plan.source
    which = "The first plan" if plan.first else f"Plan {turn.decision}"
    n, cut = len(turn.waypoints), turn.committed + 1
    run = "waypoint 1" if turn.committed == 1 else f"waypoints 1 to {turn.committed}"
    rest = f"waypoint {n}" if cut == n else f"waypoints {cut} to {n}"
    why = (
        "The stated confidences would have run all of it; after calibration the"
        if plan.lowered
        else "The"
    )
    return (
        f"{which} of {e.task}, episode {plan.number} of its chain (start {e.start}),"
        f" {source.label}. {why} commit rule runs {run} and defers {rest}: waypoint {cut} is the"
        f" first below τ = {source.tau_of(e):g}."
    )
