"""Does it work, what did it cost, is the difference real?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from capex.report.compare import Comparison, Totals, compared_sources
from capex.report.experience import Experience, experiences
from capex.report.sections.section import Section
from capex.report.sources import differences, main_source
from capex.report.tables import (
    MISSING,
    Column,
    Row,
    Table,
    number,
    p_value,
    points,
    rate,
    rate_names,
    significant,
    slashed,
    success,
    tally_names,
)


def summary(lines: Sequence[Totals], compared: Sequence[Comparison]) -> Section:
    """Does it work, what did it cost, is the difference real?"""
    section = Section("summary", "Summary")
    main = main_source([line.source for line in lines])
    section.text += [_verdict(line) for line in lines if line.source is main]
    about = [c for c in compared if main in (c.first, c.second)]
    against = [c for c in about if c.first.arm == "base"] or about[:1]
    section.text += [_difference(c) for c in against]
    section.text += [
        _memory(e) for e in experiences([line.source for line in lines]) if e.kept is main
    ]
    section.tables.append(_headline(lines))
    if compared:
        section.tables.append(_differences(compared, {line.source.number: line for line in lines}))
    section.notes += [note for c in compared for note in _unlike(c)]
    for line in lines:
        if line.unjudged:
            section.notes.append(
                f"{line.source.label}: {line.unjudged} episodes await a person's verdict and are"
                " not scorable yet."
            )
        if not line.tally.successes and line.tally.n:
            section.notes.append(
                f"{line.source.label} has no success in {line.tally.n} starts: what a success costs"
                " is infinite so far."
            )
        if doubtful := sum(
            row.usd is not None and row.usd[0] < row.usd[1] for row in line.source.attempts
        ):
            section.notes.append(
                f"{line.source.label}: the bill of requests in {doubtful} of its attempts is not"
                " known; its dollars reach from what is known to what they may have cost at most."
            )
        if line.source.lost:
            section.notes.append(
                f"{line.source.label}: requests that left no record (in flight at a kill, retried"
                f" in an outage, or cut off) at {len(line.source.lost)} starts are counted as"
                " spend.jsonl has them."
            )
        if line.usd.value is None and line.source.attempts and not line.source.student:
            asked = any(row.requests for row in line.source.attempts)
            why = "the price of its model is not known" if asked else "it asked no model"
            section.notes.append(f"{line.source.label}: {why}, so there is no cost per success.")
    return section


def _unlike(found: Comparison) -> list[str]:
    """What two sources differ in besides arm and model, among the settings that both runs know."""
    a, b = found.first.settings, found.second.settings
    changed = [
        k
        for k in differences(a, b)
        if k in a and k in b and not k.startswith("arm.") and k != "model"
    ]
    names = f"{found.second.label} and {found.first.label}"
    return [f"{names} also differ in {', '.join(changed)}."] if changed else []


def _verdict(line: Totals) -> str:
    low, high = line.tally.interval or (0.0, 1.0)
    text = (
        f"{line.source.label} solved {line.tally.successes} of {line.tally.n} starts"
        f" ({100 * low:.0f} to {100 * high:.0f} %)"
    )
    costs = []
    if line.usd.value is not None and math.isfinite(line.usd.value):
        known, most = number(line.usd.value), number(line.usd.most)
        costs.append(f"${known}" if known == most else f"${known} to ${most}")
    if line.requests.value and math.isfinite(line.requests.value):
        costs.append(f"{significant(line.requests.value)} requests")
    if line.minutes.value and math.isfinite(line.minutes.value):
        costs.append(f"{significant(line.minutes.value)} minutes")
    return f"{text}, at {', '.join(costs)} per success." if costs else f"{text}."


def _difference(found: Comparison) -> str:
    names = f"{found.second.label} against {found.first.label}"
    if not found.pairs.n:
        if found.across is None:
            return f"{names}: no task in common."
        if math.isnan(found.across.p):
            return (
                f"{names}: no start in common, and each task is solved always or never by both, so"
                " that no test can tell them apart."
            )
        return (
            f"{names}: no start in common; across tasks {_p(found.across.p)}"
            " (Cochran-Mantel-Haenszel)."
        )
    where = f"on the {found.pairs.n} starts valid in both"
    return (
        f"{names}: {points(found.pairs.difference)} points {where}, {_p(found.pairs.p)} (exact"
        " McNemar)."
    )


def _memory(found: Experience) -> str:
    pairs = found.everything
    return (
        f"Memory: {pairs.second.successes} of {pairs.n} starts solved with it,"
        f" {pairs.first.successes} with memory cleared each time, {_p(pairs.p)} (exact McNemar)."
    )


def _p(p: float | None) -> str:
    shown = p_value(p)
    return f"p {shown}" if shown.startswith("<") else f"p = {shown}"


def _headline(lines: Sequence[Totals]) -> Table:
    columns = (
        Column("Source", "source", align="l"),
        Column("Success (95 % CI)", tally_names(), success, "l"),
        Column("$ / success", rate_names("usd"), rate),
        Column(csv="usd_per_success_at_most"),
        Column("Requests / success", rate_names("requests"), rate),
        Column("Min. / success", rate_names("minutes"), rate),
        Column(csv="unjudged"),
        Column("Invalid", "invalid_attempts"),
    )
    rows = [
        Row(
            (
                *(line.source.label, line.tally, line.usd, line.usd.most, line.requests),
                *(line.minutes, line.unjudged, line.invalid),
            )
        )
        for line in lines
    ]
    caption = (
        "Success over scorable starts with 95 % Wilson intervals. Dollars, requests and minutes of"
        " every attempt, failed and invalidated ones included, divided by the successes, with 95 %"
        " bootstrap intervals; ∞ marks no success, — an unknown price. Two amounts: the known cost,"
        " and the cost if everything that may have been billed was."
    )
    return Table("headline", caption, columns, rows, [line.source for line in lines])


def _differences(compared: Sequence[Comparison], lines: Mapping[int, Totals]) -> Table:
    columns = (
        Column(csv="first"),
        Column("Source", "second", align="l"),
        Column("Less", align="l"),
        Column("Pairs", "pairs", lambda n: str(n) if n else "none"),
        Column("Δ success", show=points),
        Column("Only it / the other"),
        Column(csv=("difference", "only_first", "only_second")),
        Column("p", ("mcnemar_p", "cmh_p"), _paired_or_across),
        Column("$ ratio", "usd_ratio", _times),
        Column("Requests ratio", "requests_ratio", _times),
        Column("Min. ratio", "minutes_ratio", _times),
    )
    rows = []
    for c in compared:
        a, b, pairs = lines[c.first.number], lines[c.second.number], c.pairs
        apart = pairs.difference
        if not pairs.n and a.tally.share is not None and b.tally.share is not None:
            apart = b.tally.share - a.tally.share
        rows.append(
            Row(
                (
                    *(c.first.label, c.second.label, c.first.label, pairs.n, apart),
                    slashed((pairs.only_second, pairs.only_first)) if pairs.n else MISSING,
                    (pairs.difference, pairs.only_first, pairs.only_second),
                    (pairs.p, c.across and c.across.p),
                    _ratio(a.usd.value, b.usd.value),
                    _ratio(a.requests.value, b.requests.value),
                    _ratio(a.minutes.value, b.minutes.value),
                )
            )
        )
    caption = (
        "Differences on the starts valid in both, in percentage points, with the exact McNemar test"
        " on the starts that only one of them solved; and how amounts per success compare. p-values"
        " are not adjusted for their number."
    )
    return Table("differences", caption, columns, rows, compared_sources(compared))


def _paired_or_across(p: tuple[float | None, float | None]) -> str:
    paired, across = p
    return p_value(paired) if across is None else f"{p_value(across)} (CMH)"


def _ratio(first: float | None, second: float | None) -> float | None:
    if not first or not second or not math.isfinite(first) or not math.isfinite(second):
        return None
    return second / first


def _times(ratio: float | None) -> str:
    return MISSING if ratio is None else f"{ratio:.2f}x"
