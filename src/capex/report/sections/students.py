"""What the trained policies achieved: the paper's table, and success against training budget and
number of demonstrations.
"""

from __future__ import annotations

from collections.abc import Sequence

from capex.report import show
from capex.report import students as numbers
from capex.report.compare import Tally
from capex.report.plots.students import budget_figure, data_figure
from capex.report.sections.section import Section, SectionInput
from capex.report.sources import Source
from capex.report.students import FLOORS, UNADAPTED, UNTRAINED, Block, Cell, Score
from capex.report.tables import ACROSS_TASKS, Column, Row, Table, file_table, group_row, tally_names

AVERAGE = "Average over tasks"
# The CSV has a row per task, policy and source.
WRITTEN = (
    ("task", "policy", "initialisation", "steps", "source"),
    ("demonstrations", "seeds", "mean", "deviation"),
    tally_names(),
    ("fisher_p", "cmh_p"),
)


def students_section(given: SectionInput) -> list[Section]:
    """The section, where there are rollouts of trained or untrained policies."""
    data, sources = given.data, given.sources
    rollouts = numbers.cells(data)
    if not rollouts:
        return []
    section = Section("students", "Students")
    acting = [s for s in sources if s.student]
    table = students_table(rollouts, acting)
    if shown := numbers.blocks(rollouts):
        section.tables.append(table)
        if len({(block.policy, block.initialisation) for block in shown}) > 1:
            section.tables.append(policies_table(shown, numbers.source_names(rollouts), acting))
        section.figures.append(budget_figure(shown, numbers.source_names(rollouts), acting))
        section.tables.append(_budgets_table(shown, acting))
        if (figure := data_figure(rollouts, acting)) is not None:
            section.figures.append(figure)
    lines = {(block.policy, line.task) for block in shown for line in block.lines}
    section.text += [
        f"{c.source.capitalize()} {c.policy} on {c.task}: {c.tally.successes} of {c.tally.n} starts"
        " solved."
        for c in rollouts
        if c.source in FLOORS and (c.policy, c.task) not in lines
    ]
    section.notes += [
        f"{tally.successes} of {tally.n} rollouts of {name} had an instruction that it was not"
        " trained on, and acted on the mean embedding of those that it was."
        for name, tally in numbers.unheard(data).items()
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
    below = [n for n in FLOORS if any(n in line.floors for b in shown for line in b.lines)]
    columns = (
        Column("Task (demonstrations)", align="l"),
        *(Column(name) for name in names),
        *(Column(name, show=_floor) for name in below),
        *(Column(f"p: {other}", show=show.p_value) for other in others),
    )
    rows: list[Row] = []
    for block in shown:
        began = f"initialisation: {block.initialisation}"
        rows.append(group_row(f"{block.policy}, {block.budget:,} steps, {began}"))
        for line in block.lines:
            best = max(s.mean for s in line.scores.values()) if others else None
            scores = (_shown(line.scores.get(name), best) for name in names)
            floors = (line.floors.get(name) for name in below)
            ps = (line.p.get(other) for other in others)
            counts = sorted({s.demonstrations for s in line.scores.values()})
            task = f"{line.task} ({show.slashed(counts)})"
            rows.append(Row((task, *scores, *floors, *ps)))
        if len(block.lines) > 1:
            rows.append(_average(block, names, below, len(others)))
        if block.across:
            across = (block.across[o].p if o in block.across else None for o in others)
            rows.append(Row((ACROSS_TASKS, *[""] * len([*names, *below]), *across), "total"))
    caption = (
        "Students: mean success and deviation over training seeds, and the rollouts they pool; the"
        " best source of a line is starred. Success counts if the criterion holds at any step."
    )
    if any(e.by_person for source in sources for e in source.episodes):
        caption += " Where a person judges, it is the verdict at the end."
    if others:
        caption += (
            f" p: Fisher's exact test on pooled rollouts against {names[0]}, and"
            " Cochran-Mantel-Haenszel across tasks, unadjusted."
        )
    if UNTRAINED in below:
        caption += (
            " Untrained: the same network with fresh weights, ACT's actions still scaled as the"
            " first source's are; what it solves is not learned."
        )
    if UNADAPTED in below:
        caption += " Unadapted: the policy that fine-tuning began from, as it is."
    data = file_table("students", caption, WRITTEN, _written(rollouts, shown), sources)
    return Table("students", caption, columns, rows, sources, data=data)


def policies_table(
    shown: Sequence[Block], names: Sequence[str], sources: Sequence[Source]
) -> Table:
    """The paper's layout: a line per task, a column per policy and source, an average below."""
    panels = list(dict.fromkeys(numbers.panel_name(block, shown) for block in shown))
    keys = [(panel, name) for panel in panels for name in names]
    titles = [f"{panel}: {name}" for panel, name in keys]
    columns = (
        *(Column(csv="steps"), Column("Task", "task", align="l")),
        *(Column(title, title, show.number) for title in titles),
    )
    rows: list[Row] = []
    for budget in sorted({block.budget for block in shown}):
        rows.append(group_row(f"{budget:,} steps"))
        scores: dict[str, dict[tuple[str, str], float]] = {}
        averages: dict[tuple[str, str], float] = {}
        for block in (block for block in shown if block.budget == budget):
            panel = numbers.panel_name(block, shown)
            averages |= {(panel, name): mean for name, mean in block.averages.items()}
            for line in block.lines:
                by_key = scores.setdefault(line.task, {})
                by_key |= {(panel, name): score.mean for name, score in line.scores.items()}
        for task, by_key in sorted(scores.items()):
            rows.append(Row((budget, task, *map(by_key.get, keys))))
        if len(scores) > 1:
            means = map(averages.get, keys)
            rows.append(Row((budget, AVERAGE, *means), "total", written=False))
    caption = (
        "Students side by side: mean success over training seeds by policy and source; the average"
        " is over the tasks of each column."
    )
    return Table("students-by-policy", caption, columns, rows, sources)


def _average(block: Block, names: Sequence[str], below: Sequence[str], tests: int) -> Row:
    averages = block.averages
    best = max(averages.values(), default=None) if tests else None
    means = (
        show.MISSING if m is None else f"{m:.2f}{'*' if m == best else ''}"
        for m in map(averages.get, names)
    )
    floors = (show.number(block.floor(name)) for name in below)
    return Row((AVERAGE, *means, *floors, *[""] * tests), "total")


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
        Row((policy, source, p.amount, p.tasks, p.mean, (p.low, p.high)))
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
    for cell in (c for c in rollouts if c.source in FLOORS):
        began = "" if cell.source == UNTRAINED else cell.initialisation
        setting = cell.task, cell.policy, began, 0, cell.source
        rows.append(Row((setting, (None,) * 4, cell.tally, (None, None))))
    return rows


def _shown(score: Score | None, best: float | None) -> str:
    if score is None:
        return show.MISSING
    text = f"{score.mean:.2f}" + ("" if score.deviation is None else f" ± {score.deviation:.2f}")
    return f"{text}{'*' if score.mean == best else ''} ({show.fraction(score.tally)})"


def _floor(tally: Tally | None) -> str:
    return show.MISSING if tally is None else f"{show.number(tally.share)} ({show.fraction(tally)})"
