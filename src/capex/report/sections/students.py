"""What the trained policies achieved: the paper's table and success against training budget."""

from __future__ import annotations

from collections.abc import Sequence

from capex.report import show
from capex.report import students as numbers
from capex.report.compare import Tally
from capex.report.plots.students import budget_figure
from capex.report.rows import RunData
from capex.report.sections.section import Section
from capex.report.sources import Source
from capex.report.students import UNTRAINED, Block, Cell, Score
from capex.report.tables import ACROSS_TASKS, Column, Row, Table, file_table, group_row, tally_names
from capex.worlds import RIG

# The CSV has a row per task, policy and source.
WRITTEN = (
    ("task", "policy", "initialisation", "steps", "source"),
    ("demonstrations", "seeds", "mean", "deviation"),
    tally_names(),
    ("fisher_p", "cmh_p"),
)


def students_section(data: RunData, sources: Sequence[Source]) -> list[Section]:
    """The section, where there are rollouts of trained or untrained policies."""
    rollouts = numbers.cells(data)
    if not rollouts:
        return []
    section = Section("students", "Students")
    acting = [s for s in sources if s.student]
    table = students_table(rollouts, acting)
    if shown := numbers.blocks(rollouts):
        section.tables.append(table)
        section.figures.append(budget_figure(shown, numbers.source_names(rollouts), acting))
        section.tables.append(_budgets_table(shown, acting))
    lines = {(block.policy, line.task) for block in shown for line in block.lines}
    section.text += [
        f"Untrained {c.policy} on {c.task}: {c.tally.successes} of {c.tally.n} starts solved."
        for c in rollouts
        if c.source == UNTRAINED and (c.policy, c.task) not in lines
    ]
    if any(s.stand_in for s in acting):
        section.notes.append(
            "A student is marked as a stand-in when a stand-in's demonstrations are among those"
            " that it was trained on."
        )
    return [section]


def students_table(rollouts: Sequence[Cell], sources: Sequence[Source]) -> Table:
    """Mean and deviation over training seeds per task, source and policy, with both tests."""
    names, shown = numbers.source_names(rollouts), numbers.blocks(rollouts)
    others = names[1:]
    fresh = any(line.untrained is not None for block in shown for line in block.lines)
    columns = (
        Column("Task (demonstrations)", align="l"),
        *(Column(name) for name in names),
        *([Column(UNTRAINED, show=_untrained)] if fresh else []),
        *(Column(f"p: {other}", show=show.p_value) for other in others),
    )
    rows: list[Row] = []
    for block in shown:
        began = f"initialisation: {block.initialisation}"
        rows.append(group_row(f"{block.policy}, {block.budget:,} steps, {began}"))
        for line in block.lines:
            best = max(s.mean for s in line.scores.values()) if others else None
            scores = (_shown(line.scores.get(name), best) for name in names)
            untrained = [line.untrained] if fresh else []
            ps = (line.p.get(other) for other in others)
            counts = sorted({s.demonstrations for s in line.scores.values()})
            task = f"{line.task} ({show.slashed(counts)})"
            rows.append(Row((task, *scores, *untrained, *ps)))
        if len(block.lines) > 1:
            rows.append(_average(block, names, fresh, len(others)))
        if block.across:
            across = (block.across[o].p if o in block.across else None for o in others)
            rows.append(Row((ACROSS_TASKS, *[""] * (len(names) + fresh), *across), "total"))
    caption = (
        "Students: mean success and deviation over training seeds, and the rollouts they pool; the"
        " best source of a line is starred. Success counts if the criterion holds at any step."
    )
    if any(c.task.startswith(RIG) for c in rollouts):
        caption += " On a rig it is what its operator judged at the end."
    if others:
        caption += (
            f" p: Fisher's exact test on pooled rollouts against {names[0]}, and"
            " Cochran-Mantel-Haenszel across tasks, unadjusted."
        )
    if fresh:
        caption += (
            " Untrained: the same network with fresh weights, ACT's actions still scaled as the"
            " first source's are; what it solves is not learned."
        )
    data = file_table("students", caption, WRITTEN, _written(rollouts, shown), sources)
    return Table("students", caption, columns, rows, sources, data=data)


def _average(block: Block, names: Sequence[str], fresh: bool, tests: int) -> Row:
    averages = block.averages
    best = max(averages.values(), default=None) if tests else None
    means = (
        show.MISSING if m is None else f"{m:.2f}{'*' if m == best else ''}"
        for m in map(averages.get, names)
    )
    untrained = [show.number(block.untrained)] if fresh else []
    return Row(("Average over tasks", *means, *untrained, *[""] * tests), "total")


def _budgets_table(blocks: Sequence[Block], sources: Sequence[Source]) -> Table:
    columns = (
        Column("Policy", "policy", align="l"),
        Column("Trained on", "source", align="l"),
        Column("Steps", "steps", show.count),
        Column("Tasks", "tasks", show.count),
        Column("Mean success", "mean", show.number),
        Column("95 % CI", ("low", "high"), lambda ends: f"{ends[0]:.2f} to {ends[1]:.2f}"),
    )
    rows = [
        Row((policy, source, p.budget, p.tasks, p.mean, (p.low, p.high)))
        for policy, by_source in numbers.curves(blocks).items()
        for source, points in by_source.items()
        for p in points
    ]
    caption = "The figure in numbers: means over the tasks that all budgets of a policy have."
    return Table("budgets", caption, columns, rows, sources, "folded")


def _written(rollouts: Sequence[Cell], shown: Sequence[Block]) -> list[Row]:
    rows = []
    for block in shown:
        for line in block.lines:
            for name, s in line.scores.items():
                setting = line.task, block.policy, block.initialisation, block.budget, name
                score = s.demonstrations, s.seeds, s.mean, s.deviation
                across = block.across[name].p if name in block.across else None
                rows.append(Row((setting, score, s.tally, (line.p.get(name), across))))
    for cell in (c for c in rollouts if c.source == UNTRAINED):
        setting = cell.task, cell.policy, "", 0, UNTRAINED
        rows.append(Row((setting, (None,) * 4, cell.tally, (None, None))))
    return rows


def _shown(score: Score | None, best: float | None) -> str:
    if score is None:
        return show.MISSING
    text = f"{score.mean:.2f}" + ("" if score.deviation is None else f" ± {score.deviation:.2f}")
    return f"{text}{'*' if score.mean == best else ''} ({show.fraction(score.tally)})"


def _untrained(tally: Tally | None) -> str:
    return show.MISSING if tally is None else f"{show.number(tally.share)} ({show.fraction(tally)})"
