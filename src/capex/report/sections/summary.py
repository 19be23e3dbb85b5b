"""Does it work, what did it cost, is the difference real?"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence

from capex.report import show
from capex.report.compare import (
    SIGNIFICANT,
    Comparison,
    Rate,
    SourceTotals,
    TaskCounts,
    compared_sources,
    leading,
)
from capex.report.experience import Experience, experiences
from capex.report.sections.section import Section, SectionInput
from capex.report.sources import differences, main_source
from capex.report.tables import Column, Row, Table, rate_names, tally_names

TASK_COUNTS = (
    *("tasks", "tasks_better", "tasks_better_significantly"),
    *("tasks_worse", "tasks_worse_significantly"),
)


def summary(given: SectionInput) -> list[Section]:
    """Does it work, what did it cost, is the difference real?"""
    lines, compared = given.totals, given.compared
    section = Section("summary", "Summary")
    sources = [line.source for line in lines]
    main = main_source(sources)
    section.text += [_verdict(line) for line in lines if line.source is main]
    against = leading(compared, main)
    section.text += [_difference(c) for c in against]
    section.text += [text for c in against if (text := _tasks_won(c))]
    section.text += [_memory(e) for e in experiences(sources) if e.kept is main]
    section.tables += [_headline(lines), _attempts_table(lines)]
    if compared:
        section.tables.append(_differences(compared, {line.source.number: line for line in lines}))
    section.notes += [note for c in compared for note in _unlike(c)]
    section.notes += [note for line in lines for note in _notes(line)]
    return [section]


def _notes(line: SourceTotals) -> Iterator[str]:
    """How to read a source's line."""
    source, label, attempts = line.source, line.source.label, line.source.attempts
    if line.unjudged:
        waiting = f"{label}: {line.unjudged} episodes await a person's verdict"
        yield f"{waiting} and are not scorable yet."
    if line.tally.n and not line.tally.successes:
        tried = f"{label} has no success in {line.tally.n} starts"
        yield f"{tried}: what a success costs is infinite so far."
    if doubtful := sum(row.usd is not None and row.usd[0] < row.usd[1] for row in attempts):
        yield (
            f"{label}: the bill of requests in {doubtful} of its attempts is not known; its dollars"
            " reach from what is known to what they may have cost at most."
        )
    if source.lost:
        yield (
            f"{label}: requests that left no record (in flight at a kill, retried in an outage, or"
            f" cut off) at {len(source.lost)} starts are counted as spend.jsonl has them."
        )
    if line.usd.value is None and attempts and not source.student:
        asked = any(row.requests for row in attempts)
        why = "the price of its model is not known" if asked else "it asked no model"
        yield f"{label}: {why}, so there is no cost per success."


def _unlike(compared: Comparison) -> list[str]:
    """What two sources differ in besides method and model, of the settings both runs know."""
    a, b = compared.first.settings, compared.second.settings
    both = a.keys() & b.keys() - {"model"}
    changed = [k for k in differences(a, b) if k in both and not k.startswith("arm.")]
    names = f"{compared.second.label} and {compared.first.label}"
    return [f"{names} also differ in {', '.join(changed)}."] if changed else []


def _verdict(line: SourceTotals) -> str:
    low, high = line.tally.interval or (0.0, 1.0)
    text = (
        f"{line.source.label} solved {line.tally.successes} of {line.tally.n} starts"
        f" ({100 * low:.0f} to {100 * high:.0f} %)"
    )
    costs = []
    if line.usd.value is not None and math.isfinite(line.usd.value):
        costs.append(show.spread(*(f"${show.number(v)}" for v in (line.usd.value, line.usd.most))))
    if line.requests.value and math.isfinite(line.requests.value):
        costs.append(f"{show.brief(line.requests.value)} requests")
    if line.minutes.value and math.isfinite(line.minutes.value):
        costs.append(show.duration(line.minutes.value))
    return f"{text}, at {', '.join(costs)} per success." if costs else f"{text}."


def _difference(compared: Comparison) -> str:
    names = f"{compared.second.label} against {compared.first.label}"
    pairs, across = compared.pairs, compared.across
    if pairs.n:
        where = f"points on the {pairs.n} starts valid in both"
        return f"{names}: {show.points(pairs.difference)} {where}, {_p(pairs.p)} (exact McNemar)."
    if across is None:
        return f"{names}: no task in common."
    if math.isnan(across.p):
        return (
            f"{names}: no start in common, and each task is solved always or never by both, so"
            " that no test can tell them apart."
        )
    return f"{names}: no start in common; across tasks {_p(across.p)} (Cochran-Mantel-Haenszel)."


def _tasks_won(compared: Comparison) -> str:
    """In how many tasks the second is better; empty for a single task."""
    n = compared.by_task
    if n.tasks < 2:
        return ""
    test = "exact McNemar" if compared.pairs.n else "Fisher's exact test"
    worse = f"; it is worse in {n.worse}, significantly in {n.worse_significantly}"
    return (
        f"{compared.second.label} is better than {compared.first.label} in {n.better} of"
        f" {n.tasks} tasks, significantly in {n.better_significantly} of them (p < {SIGNIFICANT},"
        f" {test}){worse if n.worse else ''}."
    )


def _memory(experience: Experience) -> str:
    pairs = experience.everything
    return (
        f"Memory: {pairs.second.successes} of {pairs.n} starts solved with it,"
        f" {pairs.first.successes} with memory cleared each time, {_p(pairs.p)} (exact McNemar)."
    )


def _p(p: float | None) -> str:
    shown = show.p_value(p)
    return f"p {shown}" if shown.startswith("<") else f"p = {shown}"


def _headline(lines: Sequence[SourceTotals]) -> Table:
    columns = (
        Column("Source", "source", align="l"),
        Column("Success (95 % CI)", tally_names(), show.success, "l"),
        Column("$ / success", rate_names("usd"), show.rate),
        Column(csv="usd_per_success_at_most"),
        Column("Requests / success", rate_names("requests"), show.rate),
        Column("Time / success", rate_names("minutes"), show.time_rate),
        Column(csv="unjudged"),
        Column("Invalid", "invalid_attempts"),
    )
    rows = []
    for line in lines:
        amounts = line.usd, line.usd.most, line.requests, line.minutes
        rows.append(Row((line.source.label, line.tally, *amounts, line.unjudged, line.invalid)))
    caption = (
        "Success over scorable starts with 95 % Wilson intervals. Dollars, requests and time of"
        " every attempt, failed and invalidated ones included, divided by the successes, with 95 %"
        " bootstrap intervals; ∞ marks no success, — an unknown price. Two amounts: the known cost,"
        " and the cost if everything that may have been billed was."
    )
    return Table("headline", caption, columns, rows, [line.source for line in lines])


def _attempts_table(lines: Sequence[SourceTotals]) -> Table:
    columns = (
        Column("Source", "source", align="l"),
        Column("Attempts", "attempts", show.count),
        Column("$ / attempt", "usd_per_attempt", show.number),
        Column("Requests / attempt", "requests_per_attempt", show.significant),
        Column("Time / attempt", "minutes_per_attempt", show.duration),
        Column("$ / request", "usd_per_request", show.three_digits),
    )
    rows = []
    for line in lines:
        usd, requests, minutes = (r.per_attempt for r in (line.usd, line.requests, line.minutes))
        each = usd / requests if usd is not None and requests else None
        attempts = len(line.source.recorded)
        rows.append(Row((line.source.label, attempts, usd, requests, minutes, each)))
    caption = (
        "What an attempt took, whether it succeeded or not: cheaper attempts and more frequent"
        " success both lower the amounts per success."
    )
    return Table("attempts", caption, columns, rows, [line.source for line in lines])


def _differences(compared: Sequence[Comparison], lines: Mapping[int, SourceTotals]) -> Table:
    columns = (
        Column(csv="first"),
        Column("Source", "second", align="l"),
        Column("Against", align="l"),
        Column("Pairs", "pairs", lambda n: str(n) if n else "none"),
        Column("Δ success", show=show.points),
        Column("Solved by it / the other alone"),
        Column(csv=("difference", "only_first", "only_second")),
        Column("p", ("mcnemar_p", "cmh_p"), show.paired_or_across),
        Column("Tasks better, worse (significantly)", TASK_COUNTS, _won_and_lost),
        Column("Success ratio", "success_ratio", show.times),
        Column("$ ratio", "usd_ratio", show.times),
        Column("Requests ratio", "requests_ratio", show.times),
        Column("Time ratio", "minutes_ratio", show.times),
    )
    rows = []
    for c in compared:
        a, b, pairs = lines[c.first.number], lines[c.second.number], c.pairs
        first, second = (pairs.first, pairs.second) if pairs.n else (a.tally, b.tally)
        apart = more = None
        if first.share is not None and second.share is not None:
            apart = second.share - first.share
            more = second.share / first.share if first.share else None
        only = show.slashed((pairs.only_second, pairs.only_first)) if pairs.n else show.MISSING
        values = (
            *(c.first.label, c.second.label, c.first.label, pairs.n, apart, only),
            (pairs.difference, pairs.only_first, pairs.only_second),
            (pairs.p, c.across and c.across.p),
            *(dataclasses.astuple(c.by_task), more),
            *(_ratio(a.usd, b.usd), _ratio(a.requests, b.requests), _ratio(a.minutes, b.minutes)),
        )
        rows.append(Row(values))
    caption = (
        "Differences on the starts valid in both, in percentage points, with the exact McNemar test"
        " on the starts that only one of them solved; in how many tasks the source solves more and"
        " fewer of them, and in how many of these p is below 0.05; and how shares and amounts per"
        " success compare, the source's over the other's. p-values are not adjusted for their"
        " number."
    )
    return Table("differences", caption, columns, rows, compared_sources(compared))


def _won_and_lost(counts: tuple[int, ...]) -> str:
    """14 (11), 2 (0) of 18."""
    n = TaskCounts(*counts)
    better = f"{n.better} ({n.better_significantly})"
    return f"{better}, {n.worse} ({n.worse_significantly}) of {n.tasks}"


def _ratio(first: Rate, second: Rate) -> float | None:
    a, b = first.value, second.value
    return b / a if a and b and math.isfinite(a) and math.isfinite(b) else None
