"""What memory did."""

from __future__ import annotations

from collections.abc import Sequence

from capex.report import show
from capex.report.experience import Experience, experiences, learning_curve
from capex.report.plots.success import experience_figure
from capex.report.sections.section import Section, SectionInput
from capex.report.sources import Source
from capex.report.tables import Column, Row, Table, group_row, tally_names


def experience_section(given: SectionInput) -> list[Section]:
    """What memory did."""
    sources = [s for s in given.sources if not s.resumed]  # those learn nothing from each other
    if not sources:
        return []
    section = Section("experience", "Learning from experience")
    compared = experiences(sources)
    if not compared:
        section.notes.append(
            "To see what memory does, collect the same starts with an arm that keeps memory (capex)"
            " and one whose memory is cleared before each episode (capex-fresh). These runs do not"
            " have both."
        )
        return [section]
    for item in compared:
        curves = {s.number: learning_curve(s) for s in (item.kept, item.cleared)}
        section.figures.append(experience_figure(item, curves))
        section.text.append(
            f"{item.kept.label}: {item.left_out} first episodes are left out, because they see an"
            f" empty memory in both arms; {item.identical} of them ended alike."
        )
        if item.also_differ:
            section.notes.append(
                f"The two arms also differ in {', '.join(item.also_differ)}: the comparison is not"
                " of memory alone."
            )
    section.tables.append(_experience_table(compared))
    if measured := [item for item in compared if item.measures]:
        section.tables.append(_medians_table(measured))
    else:
        without = "No start was solved with and without memory, so that lengths cannot be compared."
        section.notes.append(without)
    return [section]


def _experience_table(compared: Sequence[Experience]) -> Table:
    columns = (
        Column(csv=("source", "cleared")),
        Column("Starts", "split", align="l"),
        Column("Pairs", "pairs"),
        Column("Cleared", tally_names("cleared_"), show.success, "l"),
        Column("With memory", tally_names("memory_"), show.success, "l"),
        Column("Only memory / cleared", ("only_memory", "only_cleared"), show.slashed),
        Column("p", "mcnemar_p", show.p_value),
    )
    rows = []
    for item in compared:
        names = item.kept.label, item.cleared.label
        rows.append(group_row(" and ".join(names)))
        for split, pairs in item.splits:
            only = pairs.only_second, pairs.only_first
            rows.append(Row((names, split, pairs.n, pairs.first, pairs.second, only, pairs.p)))
    caption = (
        "Success on the same starts with memory cleared before each episode and with memory kept;"
        " exact McNemar test."
    )
    return Table("experience", caption, columns, rows, _sources(compared))


def _medians_table(measured: Sequence[Experience]) -> Table:
    compared = "less_with_memory", "more_with_memory", "equal"
    columns = (
        Column(csv=("source", "cleared_source")),
        Column("Per episode", "measure", align="l"),
        Column("Cleared", "median_cleared", show.significant),
        Column("With memory", "median_memory", show.significant),
        Column("Change", show=show.change),
        Column("Lower / higher / equal", compared, show.slashed),
        Column("p", "sign_test_p", show.p_value),
    )
    rows = []
    for item in measured:
        names = item.kept.label, item.cleared.label
        rows.append(group_row(" and ".join(names)))
        for m in item.measures:
            change = (m.with_memory - m.cleared) / m.cleared if m.cleared else None
            test = m.test.smaller, m.test.larger, m.test.equal
            rows.append(Row((names, m.name, m.cleared, m.with_memory, change, test, m.test.p)))
    n = measured[0].everything.both
    caption = (
        f"Medians on the starts solved by both ({n} of the first pair): on how many it is lower,"
        " higher or equal with memory; two-sided sign test."
    )
    return Table("medians", caption, columns, rows, _sources(measured))


def _sources(compared: Sequence[Experience]) -> list[Source]:
    return [s for item in compared for s in (item.kept, item.cleared)]
