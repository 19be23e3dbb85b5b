"""What the trained policies achieved: the paper's table and success against training budget."""

from __future__ import annotations

from collections.abc import Sequence

from capex.report.compare import Tally
from capex.report.plots.students import budget_figure
from capex.report.rows import RunData
from capex.report.sections.section import Section
from capex.report.sources import Source
from capex.report.students import (
    UNTRAINED,
    Block,
    Cell,
    Line,
    Score,
    blocks,
    cells,
    curves,
    floors,
    source_names,
)
from capex.report.tables import (
    ACROSS_TASKS,
    MISSING,
    Column,
    Row,
    Table,
    fraction,
    group_row,
    number,
    p_value,
    slashed,
    tally_names,
)

# The CSV has a row per task, policy and source.
WRITTEN = (
    Column(csv=("task", "policy", "initialisation", "steps", "source")),
    Column(csv=("demonstrations", "seeds", "mean", "deviation")),
    Column(csv=tally_names()),
    Column(csv=("fisher_p", "cmh_p")),
)


def students_section(data: RunData, sources: Sequence[Source]) -> list[Section]:
    """The section, where there are rollouts of trained or untrained policies."""
    found = cells(data)
    if not found:
        return []
    section = Section("students", "Students")
    acting = [s for s in sources if s.student]
    table = students_table(found, acting)
    if shown := blocks(found):
        section.tables.append(table)
        section.figures.append(
            budget_figure(curves(shown), floors(shown), source_names(found), acting)
        )
    lines = {(block.policy, line.task) for block in shown for line in block.lines}
    section.text += [
        _untrained(c) for c in found if c.source == UNTRAINED and (c.policy, c.task) not in lines
    ]
    if any(s.stand_in for s in acting):
        section.notes.append(
            "A student is marked as a stand-in when a stand-in's demonstrations are among those"
            " that it was trained on."
        )
    return [section]


def students_table(found: Sequence[Cell], sources: Sequence[Source]) -> Table:
    """Mean and deviation over training seeds per task, source and policy, with both tests."""
    names, shown = source_names(found), blocks(found)
    others = names[1:]
    fresh = any(line.untrained is not None for block in shown for line in block.lines)
    columns = (
        Column("Task (demonstrations)", align="l"),
        *(Column(name) for name in names),
        *([Column(UNTRAINED)] if fresh else []),
        *(Column(f"p: {other}", show=p_value) for other in others),
    )
    rows: list[Row] = []
    for block in shown:
        rows.append(
            group_row(
                f"{block.policy}, {block.budget:,} steps, initialisation: {block.initialisation}"
            )
        )
        for line in block.lines:
            best = max(s.mean for s in line.scores.values()) if others else None
            scores = (_shown(line.scores.get(name), best) for name in names)
            untrained = [_fresh(line.untrained)] if fresh else []
            ps = (line.p.get(other) for other in others)
            rows.append(Row((_named(line), *scores, *untrained, *ps)))
        if block.across:
            across = (block.across[o].p if o in block.across else None for o in others)
            rows.append(Row((ACROSS_TASKS, *[""] * (len(names) + fresh), *across), "total"))
    caption = (
        "Students: mean success and deviation over training seeds, and the rollouts they pool; the"
        " best source of a line is starred. Success counts if the criterion holds at any step."
    )
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
    data = Table("students", caption, WRITTEN, _written(found, shown), sources, "file")
    return Table("students", caption, columns, rows, sources, data=data)


def _written(found: Sequence[Cell], shown: Sequence[Block]) -> list[Row]:
    rows = []
    for block in shown:
        for line in block.lines:
            for name, s in line.scores.items():
                setting = line.task, block.policy, block.initialisation, block.budget, name
                score = s.demonstrations, s.seeds, s.mean, s.deviation
                across = block.across[name].p if name in block.across else None
                rows.append(Row((setting, score, s.tally, (line.p.get(name), across))))
    for cell in (c for c in found if c.source == UNTRAINED):
        setting = cell.task, cell.policy, "", 0, UNTRAINED
        rows.append(Row((setting, (None,) * 4, cell.tally, (None, None))))
    return rows


def _named(line: Line) -> str:
    counts = sorted({s.demonstrations for s in line.scores.values()})
    return f"{line.task} ({slashed(counts)})"


def _shown(score: Score | None, best: float | None) -> str:
    if score is None:
        return MISSING
    text = f"{score.mean:.2f}" + ("" if score.deviation is None else f" ± {score.deviation:.2f}")
    return f"{text}{'*' if score.mean == best else ''} ({fraction(score.tally)})"


def _fresh(tally: Tally | None) -> str:
    return MISSING if tally is None else f"{number(tally.share)} ({fraction(tally)})"


def _untrained(cell: Cell) -> str:
    return (
        f"Untrained {cell.policy} on {cell.task}: {cell.tally.successes} of {cell.tally.n} starts"
        " solved."
    )
