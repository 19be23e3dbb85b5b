"""What memory did."""

from __future__ import annotations

from collections.abc import Sequence

from capex.report import plots
from capex.report.compare import Tally
from capex.report.experience import Experience, experiences, learning_curve
from capex.report.sections.section import Section
from capex.report.sources import Source
from capex.report.tables import Row, Table, p_value, percent, raw_tally, significant, success


def experience_section(sources: Sequence[Source]) -> Section:
    """What memory did."""
    section = Section("experience", "Learning from experience")
    found = experiences(sources)
    if not found:
        section.notes.append(
            "To see what memory does, collect the same starts with an arm that keeps memory (capex)"
            " and one whose memory is cleared before each episode (capex-fresh). These runs do not"
            " have both."
        )
        return section
    for item in found:
        curves = {s.number: learning_curve(s) for s in (item.kept, item.cleared)}
        section.figures.append(plots.experience_figure(item, curves))
        section.text.append(
            f"{item.kept.label}: {item.left_out} first episodes are left out, because they see an"
            f" empty memory in both arms; {item.identical} of them ended alike."
        )
        if item.also_differ:
            section.notes.append(
                f"The two arms also differ in {', '.join(item.also_differ)}: the comparison is not"
                " of memory alone."
            )
    section.tables.append(_experience_table(found))
    if any(item.measures for item in found):
        section.tables.append(_medians_table([item for item in found if item.measures]))
    else:
        section.notes.append(
            "No start was solved with and without memory, so that lengths cannot be compared."
        )
    return section


def _experience_table(found: Sequence[Experience]) -> Table:
    rows, raw = [], []
    for item in found:
        if len(found) > 1:
            rows.append(Row((f"{item.kept.label} and {item.cleared.label}",), "group"))
        for name, cells in (
            ("All pairs", item.everything),
            ("A success already in memory", item.after_success),
            ("Only failures in memory", item.before_success),
        ):
            kept, cleared = (
                Tally(cells.both + cells.only_second, cells.n),
                Tally(cells.both + cells.only_first, cells.n),
            )
            change = f"{cells.only_second} / {cells.only_first}"
            rows.append(
                Row((name, str(cells.n), success(cleared), success(kept), change, p_value(cells.p)))
            )
            both = {**raw_tally(cleared, "cleared_"), **raw_tally(kept, "memory_")}
            only = {
                "only_memory": cells.only_second,
                "only_cleared": cells.only_first,
                "mcnemar_p": cells.p,
            }
            raw.append(
                {
                    "source": item.kept.label,
                    "cleared": item.cleared.label,
                    "split": name,
                    "pairs": cells.n,
                    **both,
                    **only,
                }
            )
    caption = (
        "Success on the same starts with memory cleared before each episode and with memory kept;"
        " exact McNemar test."
    )
    head = ("Starts", "Pairs", "Cleared", "With memory", "Only memory / cleared", "p")
    sources = tuple(dict.fromkeys(s for i in found for s in (i.kept, i.cleared)))
    return Table("experience", caption, head, "lrllrr", tuple(rows), tuple(raw), sources)


def _medians_table(found: Sequence[Experience]) -> Table:
    rows, raw = [], []
    for item in found:
        if len(found) > 1:
            rows.append(Row((f"{item.kept.label} and {item.cleared.label}",), "group"))
        for m in item.measures:
            change = (m.with_memory - m.cleared) / m.cleared if m.cleared else None
            shown = percent(change, 0) if change is None or change < 0 else f"+{percent(change, 0)}"
            tested = f"{m.test.smaller} / {m.test.larger} / {m.test.equal}"
            rows.append(
                Row(
                    (
                        m.name,
                        significant(m.cleared),
                        significant(m.with_memory),
                        shown,
                        tested,
                        p_value(m.test.p),
                    )
                )
            )
            raw.append(
                {
                    "source": item.kept.label,
                    "cleared_source": item.cleared.label,
                    "measure": m.name,
                    "median_cleared": m.cleared,
                    "median_memory": m.with_memory,
                    "less_with_memory": m.test.smaller,
                    "more_with_memory": m.test.larger,
                    "equal": m.test.equal,
                    "sign_test_p": m.test.p,
                }
            )
    n = found[0].everything.both
    caption = (
        f"Medians on the starts solved by both ({n} of the first pair): less, more or equal with"
        " memory; two-sided sign test."
    )
    head = ("Per episode", "Cleared", "With memory", "Change", "Less / more / equal", "p")
    sources = tuple(dict.fromkeys(s for i in found for s in (i.kept, i.cleared)))
    return Table("medians", caption, head, "lrrrrr", tuple(rows), tuple(raw), sources)
