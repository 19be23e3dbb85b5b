"""Does it work, what did it cost, is the difference real?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from capex.report.compare import Comparison, Totals
from capex.report.experience import Experience, experiences
from capex.report.sections.section import Section
from capex.report.sources import differences, main_source
from capex.report.tables import (
    MISSING,
    Row,
    Table,
    number,
    p_value,
    points,
    rate,
    raw_rate,
    raw_tally,
    significant,
    success,
)


def summary(lines: Sequence[Totals], compared: Sequence[Comparison]) -> Section:
    """Does it work, what did it cost, is the difference real?"""
    section = Section("summary", "Summary")
    main = main_source([line.source for line in lines])
    section.text += [_verdict(line) for line in lines if line.source is main]
    about = [c for c in compared if main in (c.first, c.second)]
    section.text += [
        _difference(c) for c in [c for c in about if c.first.arm == "base"] or about[:1]
    ]
    section.text += [
        _memory(e) for e in experiences([line.source for line in lines]) if e.kept is main
    ]
    sources = tuple(line.source for line in lines)
    rows, raw = [], []
    for line in lines:
        cells = (
            line.source.label,
            success(line.tally),
            rate(line.usd),
            rate(line.requests),
            rate(line.minutes),
            str(line.invalid),
        )
        rows.append(Row(cells))
        raw.append(
            {
                "source": line.source.label,
                **raw_tally(line.tally),
                **raw_rate(line.usd, "usd"),
                "usd_per_success_at_most": line.usd.most,
                **raw_rate(line.requests, "requests"),
                **raw_rate(line.minutes, "minutes"),
                "unjudged": line.unjudged,
                "invalid_attempts": line.invalid,
            }
        )
    caption = (
        "Success over scorable starts with 95 % Wilson intervals. Dollars, requests and minutes of"
        " every attempt, failed and invalidated ones included, divided by the successes, with 95 %"
        " bootstrap intervals; ∞ marks no success, — an unknown price. Two amounts: the known cost,"
        " and the cost if everything that may have been billed was."
    )
    head = (
        "Source",
        "Success (95 % CI)",
        "$ / success",
        "Requests / success",
        "Min. / success",
        "Invalid",
    )
    section.tables.append(
        Table("headline", caption, head, "llrrrr", tuple(rows), tuple(raw), sources)
    )
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
    return (
        [f"{found.second.label} and {found.first.label} also differ in {', '.join(changed)}."]
        if changed
        else []
    )


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
    cells = found.everything
    kept, cleared = cells.both + cells.only_second, cells.both + cells.only_first
    return (
        f"Memory: {kept} of {cells.n} starts solved with it, {cleared} with memory cleared each"
        f" time, {_p(cells.p)} (exact McNemar)."
    )


def _p(p: float | None) -> str:
    shown = p_value(p)
    return f"p {shown}" if shown.startswith("<") else f"p = {shown}"


def _differences(compared: Sequence[Comparison], lines: Mapping[int, Totals]) -> Table:
    rows, raw = [], []
    for c in compared:
        a, b = lines[c.first.number], lines[c.second.number]
        ratios = [
            _ratio(x.value, y.value)
            for x, y in ((a.usd, b.usd), (a.requests, b.requests), (a.minutes, b.minutes))
        ]
        if c.pairs.n:
            shown = (
                str(c.pairs.n),
                points(c.pairs.difference),
                f"{c.pairs.only_second} / {c.pairs.only_first}",
                p_value(c.pairs.p),
            )
        else:
            apart = (
                None
                if a.tally.share is None or b.tally.share is None
                else b.tally.share - a.tally.share
            )
            shown = (
                "none",
                points(apart),
                MISSING,
                f"{p_value(c.across.p)} (CMH)" if c.across else MISSING,
            )
        rows.append(Row((c.second.label, c.first.label, *shown, *(_times(r) for r in ratios))))
        raw.append(
            {
                "first": c.first.label,
                "second": c.second.label,
                "pairs": c.pairs.n,
                "difference": c.pairs.difference,
                "only_first": c.pairs.only_first,
                "only_second": c.pairs.only_second,
                "mcnemar_p": c.pairs.p,
                "cmh_p": c.across.p if c.across else None,
                "usd_ratio": ratios[0],
                "requests_ratio": ratios[1],
                "minutes_ratio": ratios[2],
            }
        )
    caption = (
        "Differences on the starts valid in both, in percentage points, with the exact McNemar test"
        " on the starts that only one of them solved; and how amounts per success compare. p-values"
        " are not adjusted for their number."
    )
    head = (
        "Source",
        "Less",
        "Pairs",
        "Δ success",
        "Only it / the other",
        "p",
        "$ ratio",
        "Requests ratio",
        "Min. ratio",
    )
    sources = tuple(dict.fromkeys(s for c in compared for s in (c.first, c.second)))
    return Table("differences", caption, head, "llrrrrrrr", tuple(rows), tuple(raw), sources)


def _ratio(first: float | None, second: float | None) -> float | None:
    if (
        first is None
        or second is None
        or not math.isfinite(first)
        or not math.isfinite(second)
        or 0 in (first, second)
    ):
        return None
    return second / first


def _times(ratio: float | None) -> str:
    return MISSING if ratio is None else f"{ratio:.2f}x"
