"""The paper's physical table, for worlds in which a person judges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple

from capex.report import show
from capex.report.compare import TaskKey, totals
from capex.report.sections.section import Section, SectionInput
from capex.report.sources import Source, plain
from capex.report.tables import Column, Row, Table, group_row, rate_names, tally_names
from capex.report.verdicts import (
    MANY,
    at_tasks,
    changed_verdicts,
    claims,
    failure_reasons,
    judged_by_people,
    judges,
)
from capex.run.agreement import agreements

WORDS = ("success", "failure", "invalid", "undo")


def verdicts_section(given: SectionInput) -> list[Section]:
    """Success by people's verdicts; nothing where the worlds judge."""
    data, sources = given.data, given.sources
    keys = judged_by_people(sources)
    if not keys:
        return []
    section = Section("physical", "Verdicts")
    judged = [at for s in sources if (at := at_tasks(s, keys)).attempts]
    section.tables.append(_physical(judged, keys))
    if any(failure_reasons(s) for s in judged):
        section.tables.append(_reasons(judged))
    if said := judges(data, judged):
        rows = [Row((plain(name), *(counts[w] for w in WORDS))) for name, counts in said.items()]
        heads = ("Success", "Failure", "Invalid", "Taken back")
        columns = [Column(h, w, show.count) for h, w in zip(heads, WORDS, strict=True)]
        caption = "Who judged, and how often each verdict was given, those taken back included."
        judge = Column("Judge", "judge", align="l")
        section.tables.append(Table("judges", caption, [judge, *columns], rows, judged))
    section.notes += _notes(judged)
    return [section]


def _physical(sources: Sequence[Source], keys: Sequence[TaskKey]) -> Table:
    columns = (
        Column("Source", "source", align="l"),
        Column(csv=("world", "task")),
        Column("Success (95 % CI)", tally_names(), show.success, "l"),
        Column("Time / success", rate_names("minutes"), show.time_rate),
        Column("Calls / success", rate_names("requests"), show.rate),
        Column("$ / success", rate_names("usd"), show.rate),
        Column(csv="usd_per_success_at_most"),
        Column("Claims rejected", ("claims", "claims_rejected"), _rejected),
        Column("Unjudged", "unjudged", show.count),
        Column("Invalid", "invalid_attempts", show.count),
    )
    rows: list[Row] = []
    for key in (*keys, *([None] if len(keys) > 1 else [])):
        rows.append(group_row("All tasks" if key is None else ": ".join(key)))
        for source in sources:
            line = totals(at_tasks(source, keys if key is None else [key]))
            if line.source.attempts:
                amounts = line.minutes, line.requests, line.usd, line.usd.most
                counts = astuple(claims(line.source)), line.unjudged, line.invalid
                values = (source.label, key or ("", ""), line.tally, *amounts, *counts)
                rows.append(Row(values, written=key is not None))
    caption = (
        "Success by the verdicts of whoever judged (named in a table below) with 95 % Wilson"
        " intervals; time, calls and dollars of every attempt, divided by the successes, with 95 %"
        " bootstrap intervals. Time runs from the start of an attempt to its end: resets, arranging"
        " and judging are left out. Claims rejected: of the judged attempts in which the model said"
        " that it was done, those in which the task was not."
    )
    return Table("physical", caption, columns, rows, sources)


def _rejected(counts: tuple[int, int]) -> str:
    made, rejected = counts
    return f"{rejected} of {made}" if made else show.MISSING


def _reasons(sources: Sequence[Source]) -> Table:
    found = [failure_reasons(s) for s in sources]
    names = [name for name, _ in sum(found, start=type(found[0])()).most_common()]
    columns = (
        Column("Reason", "reason", align="l"),
        *(Column(s.label, f"failures: {s.label}", show.count) for s in sources),
    )
    rows = [Row((name, *(counts[name] for counts in found))) for name in names]
    caption = "Failures by the reason that the judge chose."
    return Table("failure-reasons", caption, columns, rows, sources)


def _notes(sources: Sequence[Source]) -> list[str]:
    """How far judges agree, and which verdicts came too late for memory."""
    paths = dict.fromkeys(e.path for s in sources for e in s.episodes if e.by_person)
    notes = [f"Judging the same attempts blind, {row}." for row in agreements(paths)]
    if changed := changed_verdicts(sources):
        were = "verdict was" if len(changed) == 1 else "verdicts were"
        more = f"; and {len(changed) - MANY} more" if len(changed) > MANY else ""
        notes.append(
            f"{len(changed)} {were} changed after later episodes had learned from them; those"
            f" episodes stay as they are: {'; '.join(changed[:MANY])}{more}."
        )
    return notes
