"""What the trained policies achieved: the paper's table and success against training budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from capex.report import plots
from capex.report.data import Data
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
from capex.report.tables import MISSING, Row, Table, p_value, raw_tally


def students_section(data: Data, sources: Sequence[Source]) -> list[Section]:
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
            plots.budget_figure(curves(shown), floors(shown), source_names(found), acting)
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
    fresh = any(line.untrained is not None for block in shown for line in block.lines)
    rows, raw = [], []
    for block in shown:
        rows.append(
            Row(
                (
                    (
                        f"{block.policy}, {block.budget:,} steps, initialisation:"
                        f" {block.initialisation}"
                    ),
                ),
                "group",
            )
        )
        for line in block.lines:
            best = max(s.mean for s in line.scores.values())
            values = [_shown(line.scores.get(name), best, len(names) > 1) for name in names]
            ps = (p_value(line.p.get(other)) for other in names[1:])
            rows.append(Row((_named(line), *values, *([_fresh(line)] if fresh else []), *ps)))
            raw += [_raw(block, line, name) for name in line.scores]
        if block.across:
            ps = (
                p_value(block.across[other].p) if other in block.across else MISSING
                for other in names[1:]
            )
            rows.append(
                Row(
                    ("Across tasks (Cochran-Mantel-Haenszel)", *[""] * (len(names) + fresh), *ps),
                    "total",
                )
            )
    raw += [
        {"task": c.task, "policy": c.policy, "steps": 0, "source": UNTRAINED, **raw_tally(c.tally)}
        for c in found
        if c.source == UNTRAINED
    ]
    caption = (
        "Students: mean success and deviation over training seeds, and the rollouts they pool; the"
        " best source of a line is starred. Success counts if the criterion holds at any step."
    )
    if len(names) > 1:
        caption += (
            f" p: Fisher's exact test on pooled rollouts against {names[0]}, and"
            " Cochran-Mantel-Haenszel across tasks, unadjusted."
        )
    if fresh:
        caption += (
            " Untrained: the same network with fresh weights, ACT's actions still scaled as the"
            " first source's are; what it solves is not learned."
        )
    head = (
        "Task (demonstrations)",
        *names,
        *([UNTRAINED] if fresh else []),
        *(f"p: {other}" for other in names[1:]),
    )
    return Table(
        "students",
        caption,
        head,
        "l" + "r" * (len(head) - 1),
        tuple(rows),
        tuple(raw),
        tuple(sources),
    )


def _named(line: Line) -> str:
    counts = sorted({s.demonstrations for s in line.scores.values()})
    return f"{line.task} ({' / '.join(map(str, counts))})"


def _shown(score: Score | None, best: float, several: bool) -> str:
    if score is None:
        return MISSING
    text = f"{score.mean:.2f}" + ("" if score.deviation is None else f" ± {score.deviation:.2f}")
    return (
        f"{text}{'*' if several and score.mean == best else ''}"
        f" ({score.tally.successes}/{score.tally.n})"
    )


def _fresh(line: Line) -> str:
    tally = line.untrained
    return (
        MISSING
        if tally is None
        else f"{tally.successes / tally.n:.2f} ({tally.successes}/{tally.n})"
    )


def _raw(block: Block, line: Line, name: str) -> dict[str, Any]:
    score = line.scores[name]
    return {
        "task": line.task,
        "policy": block.policy,
        "initialisation": block.initialisation,
        "steps": block.budget,
        "source": name,
        "demonstrations": score.demonstrations,
        "seeds": score.seeds,
        "mean": score.mean,
        "deviation": score.deviation,
        **raw_tally(score.tally),
        "fisher_p": line.p.get(name),
        "cmh_p": block.across[name].p if name in block.across else None,
    }


def _untrained(cell: Cell) -> str:
    return (
        f"Untrained {cell.policy} on {cell.task}: {cell.tally.successes} of {cell.tally.n} starts"
        " solved."
    )
