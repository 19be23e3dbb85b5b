"""What the plans would have done if nothing had been deferred."""

from __future__ import annotations

from collections.abc import Sequence

from capex.analysis import counterfactual_plots as plots
from capex.analysis.counterfactual_numbers import (
    Bias,
    Deferrals,
    Found,
    Selection,
    deferrals,
    find,
    selections,
)
from capex.analysis.thresholds import SweptExactly, TauChoice, choices, sweep
from capex.report import show
from capex.report.sections.section import Section, SectionInput
from capex.report.tables import Column, Row, Table, group_row

SCORES = ("ece", "auroc", "brier")
SCORE_NAMES = {"ece": "ECE", "auroc": "AUROC", "brier": "Brier"}


def counterfactual_section(given: SectionInput) -> list[Section]:
    """Nothing where no episode was executed whole (`capex counterfactual`)."""
    sources = given.sources
    found = [f for f in map(find, sources) if f is not None]
    told = [f for f in found if f.source.tau is not None and len(f.whole.plan)]
    if not told:
        return []
    section = Section("counterfactual", "Plans executed whole")
    section.text.append(
        "capex counterfactual executed every plan again from its saved state, the deferred tail"
        " included, until something stopped it. So low confidences have outcomes, too, and every"
        " threshold can be replayed on the recorded plans."
    )
    judged = [(f, selections(f)) for f in told]
    swept = [(f, sweep(f.whole)) for f in told]
    chosen = [(f, choices(f)) for f in told]
    section.text += [_checked(f) for f in told]
    section.figures += [plots.selection_figure(judged), plots.sweep_figure(swept)]
    section.tables += [
        selection_table(judged),
        deferral_table([(f, deferrals(f.whole)) for f in told]),
        sweep_table(swept),
        choice_table(chosen),
    ]
    return [section]


def _checked(found: Found) -> str:
    rest = len(found.source.episodes) - len(found.episodes)
    text = (
        f"{found.source.label}: {show.counted(len(found.episodes), 'episode')}; the committed part"
        f" came out as recorded in {found.agreed:,} of {show.counted(found.decisions, 'decision')}."
    )
    if found.agreed < found.decisions:
        text += " The others are left out."
    return text + (f" {show.counted(rest, 'episode')} not executed again." if rest else "")


def selection_table(judged: Sequence[tuple[Found, Sequence[Selection]]]) -> Table:
    """Scores over executed waypoints, over all planned ones, and the difference."""
    columns = (
        Column(csv="source"),
        Column("Prediction", "prediction", align="l"),
        Column("Waypoints", "waypoints", align="l"),
        Column("n", "n", show.count),
        Column("Reached", "reached", show.percent),
        Column("Mean", "mean", show.number),
        *(Column(SCORE_NAMES[s], (s, f"{s}_low", f"{s}_high"), _score, "r") for s in SCORES),
    )
    rows = []
    for found, parts in judged:
        rows.append(group_row(found.source.label))
        for s in parts:
            for k, (name, j) in enumerate((("executed", s.executed), ("all planned", s.planned))):
                scores = [(getattr(j, score), None, None) for score in SCORES]
                facts = s.name, name, s.n[k], s.reached[k], j.mean
                rows.append(Row((found.source.label, *facts, *scores)))
            off = [_triple(s.bias[score]) for score in SCORES]
            shift = s.reached[0] - s.reached[1], s.executed.mean - s.planned.mean
            rows.append(Row((found.source.label, s.name, "difference", None, *shift, *off)))
    caption = (
        "Predictions of whether a waypoint is reached, on the waypoints that were executed and on"
        " all that their plans get to when nothing is deferred. The difference is the bias of"
        " judging confidences by what they let through, with 95 % bootstrap intervals over"
        " episodes. Taught by all: the calibrator fitted before each episode as the method does, to"
        " the labels of whole plans."
    )
    return Table("selection", caption, columns, rows, [f.source for f, _ in judged])


def _triple(bias: Bias) -> tuple[float | None, float | None, float | None]:
    low, high = bias.interval or (None, None)
    return bias.value, low, high


def _score(value: tuple[float | None, float | None, float | None]) -> str:
    middle, low, high = value
    if low is None or high is None:
        return show.three_digits(middle)
    return f"{middle:+.3f} ({low:+.3f} to {high:+.3f})".replace("-", show.MINUS)


def deferral_table(rows: Sequence[tuple[Found, Deferrals]]) -> Table:
    """How often a deferral was right."""
    columns = (
        Column("Source", "source", align="l"),
        Column("Plans cut", ("plans", "cut"), show.part),
        Column("Right / wrong / moot", ("right", "wrong", "moot"), show.slashed),
        Column("Right", "share_right", show.percent),
        Column("Deferred", "deferred", show.count),
        Column("Reached / missed / untried", ("reached", "missed", "untried"), show.slashed),
        Column("Solve", "solved", show.count),
    )
    shown = []
    for found, d in rows:
        known = d.right + d.wrong
        cut = (d.plans, d.cut), (d.right, d.wrong, d.moot), d.right / known if known else None
        tail = d.waypoints, (d.reached, d.missed, d.unknown), d.solved
        shown.append(Row((found.source.label, *cut, *tail)))
    caption = (
        "The deferred tails, executed. A cut is right when its waypoint is then not reached, wrong"
        " when it is or the task is solved in it, moot when the plan stops before it or it has no"
        " label. Then the waypoints of the tails: those behind a stop or a solved task stay"
        " untried. Last: tails that solve the task."
    )
    return Table("deferrals", caption, columns, shown, [f.source for f, _ in rows])


def sweep_table(swept: Sequence[tuple[Found, Sequence[SweptExactly]]]) -> Table:
    """What each threshold executes, reaches, wastes and hits."""
    columns = (
        Column(csv="source"),
        Column("τ", "tau", show.number),
        Column(csv="plans"),
        Column("Cut", "cut", show.count),
        Column("Run", "executed", show.count),
        Column("Reached", "reached", show.count),
        Column("Missed", "missed", show.count),
        Column("Hit", "hit", show.count),
        Column(csv="steps"),
        Column("Wasted", "wasted_steps", show.count),
        Column("Solved", "solved", show.count),
        Column("Needless", "needless", show.count),
        Column("Spared", "spared", show.count),
        Column("Net", "net", show.count),
    )
    rows, written = [], []
    for found, line in swept:
        plans = show.counted(found.whole.plans, "plan")
        rows.append(group_row(f"{found.source.label}, {plans}"))
        for s in line:
            run = s.plans, s.cut, s.executed, s.reached, s.missed, s.hit, s.steps, s.wasted
            rest = s.solved, s.needless, s.spared, s.reached + s.solved - s.missed
            written.append(Row((found.source.label, s.tau, *run, *rest)))
            if rows[-1].kind == "group" or rows[-1].values[2:] != written[-1].values[2:]:
                rows.append(written[-1])
    caption = (
        "The commit rule at other thresholds, exactly, on the recorded plans: plans cut; waypoints"
        " executed (run), reached, missed and stopped by a contact (hit); control steps that went"
        " into missed waypoints (wasted); plans that solve the task; deferred waypoints that would"
        " have been reached (needless) or missed (spared); reached plus solved less missed (net). A"
        " threshold that is not shown does what the one above it does; what the model would have"
        " planned after another cut is not known."
    )
    sources = [f.source for f, _ in swept]
    data = Table("tau-exact", caption, columns, written, sources)
    return Table("tau-exact", caption, columns, rows, sources, data=data)


def choice_table(chosen: Sequence[tuple[Found, Sequence[TauChoice]]]) -> Table:
    """The threshold per task."""
    columns = (
        Column(csv="source"),
        Column("Task", "task", align="l"),
        Column("Episodes", "episodes", show.count),
        Column("Plans", "plans", show.count),
        Column("Used", "used", show.number),
        Column("Best (95 %)", ("best", "best_low", "best_high"), _with_interval),
        Column("Gain, held out (95 %)", ("gain", "gain_low", "gain_high"), _score),
        Column("Choice", "chosen", show.number),
    )
    rows = []
    for found, line in chosen:
        rows.append(group_row(found.source.label))
        for c in line:
            gain = (c.gain, *(c.gain_interval or (None, None)))
            facts = c.episodes, c.plans, c.used, (c.best, *c.interval), gain, c.chosen
            row = (found.source.label, c.task or "all tasks", *facts)
            rows.append(Row(row, "body" if c.task else "total"))
    caption = (
        "The threshold with the highest net of waypoints, reached plus solved less missed, among 0,"
        " 0.05, .. 0.95; its interval is that of the best when episodes are drawn anew. The gain is"
        " what choosing on the other episodes brings on each one, against the threshold used, in"
        " waypoints a plan. The choice changes only where that gain is above 0 with its whole"
        " interval, in at least five episodes."
    )
    return Table("tau-choice", caption, columns, rows, [f.source for f, _ in chosen])


def _with_interval(values: tuple[float, float, float]) -> str:
    best, low, high = values
    return f"{best:.2f} ({low:.2f} to {high:.2f})"
