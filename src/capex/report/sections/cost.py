"""Where tokens and dollars went."""

from __future__ import annotations

from collections.abc import Sequence

from capex.report import show
from capex.report.costs import KINDS, Bill, Books, bill, books, decision_curve
from capex.report.plots.cost import decisions_figure, tokens_figure
from capex.report.sections.section import Section, SectionInput
from capex.report.sources import Source, plain
from capex.report.tables import Column, Row, Table


def cost_section(given: SectionInput) -> list[Section]:
    """Where tokens and dollars went."""
    data, sources = given.data, given.sources
    section = Section("cost", "Cost")
    bills = [bill(s) for s in sources]
    with_tokens = [b for b in bills if b.tokens is not None and sum(vars(b.tokens).values())]
    if not with_tokens:
        section.notes.append(
            "No tokens were recorded: the sources asked no model, or kept no ledger."
        )
    else:
        section.figures.append(tokens_figure(with_tokens))
        curves = [decision_curve(b.source, data.runs) for b in with_tokens]
        if known := [c for c in curves if c is not None]:
            section.figures.append(decisions_figure(known))
        else:
            without = "No exchange log is there, so that cost per decision is not known."
            section.notes.append(without)
    section.tables.append(_bill_table(bills))
    for b in bills:
        for error, times in sorted(b.errors.items(), key=lambda item: -item[1])[:5]:
            section.notes.append(f"{b.source.label}: {times} invalidated by: {plain(error, 200)}")
        if b.tokens is not None and b.without_tokens:
            section.notes.append(
                f"{b.source.label}: the tokens of {b.without_tokens} attempts are not known."
            )
    if kept := books(data.runs, sources):
        section.tables.append(_books_table(kept, sources))
    return [section]


def _bill_table(bills: Sequence[Bill]) -> Table:
    decisions = "decisions", "decisions_without_motion"
    columns = (
        Column("Source", "source", align="l"),
        *(Column(k.replace("_", " ").capitalize(), k, show.count) for k in KINDS),
        Column("Cache hits", "cache_hit_rate", show.percent),
        Column("Requests", "requests", show.count),
        Column("Retries", "attempts_without_reply", show.count),
        Column("Invalid", "invalid_attempts"),
        Column("Idle / decisions", decisions, lambda both: f"{both[1]} / {both[0]:,}"),
    )
    rows = []
    for b in bills:
        tokens = (b.tokens and getattr(b.tokens, kind) for kind in KINDS)
        requests = b.cache_hits, b.requests, b.wire_attempts - b.requests
        counts = b.invalid, (b.decisions, b.spent)
        rows.append(Row((b.source.label, *tokens, *requests, *counts)))
    caption = (
        "Billed tokens of all attempts; reasoning is part of output; cache hits are cached over all"
        " input tokens. Retries: requests on the wire that brought no reply. Idle: decisions that"
        " passed without motion."
    )
    return Table("cost", caption, columns, rows, [b.source for b in bills])


def _books_table(kept: Sequence[Books], sources: Sequence[Source]) -> Table:
    columns = (
        Column("Run", "run", align="l"),
        Column("Settled $", "settled_usd", show.dollars),
        Column("Held $", "held_usd", show.dollars),
        Column("In records $", "recorded_usd", show.dollars),
        Column("Difference $", show=show.dollars),
        Column("Attempts", "attempts", show.count),
        Column(csv=("requests", "unsettled", "unknown")),
        Column("Open", show=show.count),
    )
    rows = []
    for b in kept:
        a = b.account
        amounts = a.settled_usd, a.held_usd, b.recorded, a.settled_usd - b.recorded
        known = amounts if a.priced else (None,) * len(amounts)
        counts = a.requests, a.unsettled, a.unknown
        rows.append(Row((b.run, *known, a.attempts, counts, b.open)))
    caption = (
        "The campaign's own books (spend.jsonl): settled, and held for attempts whose cost is not"
        " known; beside it the known part of the records. A positive difference was paid for"
        " attempts that left no record, because they were cut off; a negative one means that the"
        " file has lost lines. Open: attempts of unknown cost."
    )
    return Table("books", caption, columns, rows, sources)
