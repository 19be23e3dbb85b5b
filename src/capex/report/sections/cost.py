"""Where tokens and dollars went."""

from __future__ import annotations

from collections.abc import Sequence

from capex.report import plots
from capex.report.costs import Bill, Books, bill, books, decision_curve
from capex.report.data import Data
from capex.report.sections.section import Section
from capex.report.sources import Source, plain
from capex.report.tables import MISSING, Row, Table, percent


def cost_section(data: Data, sources: Sequence[Source]) -> Section:
    """Where tokens and dollars went."""
    section = Section("cost", "Cost")
    bills = [bill(s) for s in sources]
    with_tokens = [b for b in bills if b.tokens is not None and sum(vars(b.tokens).values())]
    if not with_tokens:
        section.notes.append(
            "No tokens were recorded: the sources asked no model, or kept no ledger."
        )
    else:
        section.figures.append(plots.tokens_figure(with_tokens))
        curves = [
            c for c in (decision_curve(b.source, data.runs) for b in with_tokens) if c is not None
        ]
        if curves:
            section.figures.append(plots.decisions_figure(curves))
        else:
            section.notes.append(
                "No exchange log is there, so that cost per decision is not known."
            )
    section.tables.append(_bill_table(bills))
    for b in bills:
        for error, count in sorted(b.errors.items(), key=lambda item: -item[1])[:5]:
            section.notes.append(f"{b.source.label}: {count} invalidated by: {plain(error, 200)}")
        if b.tokens is not None and b.without_tokens:
            section.notes.append(
                f"{b.source.label}: the tokens of {b.without_tokens} attempts are not known."
            )
    kept = books(data.runs, sources)
    if kept:
        section.tables.append(_books_table(kept, sources))
    return section


def _bill_table(bills: Sequence[Bill]) -> Table:
    rows, raw = [], []
    for b in bills:
        t = b.tokens
        kinds = (
            (None,) * 5 if t is None else (t.fresh, t.cached, t.cache_write, t.output, t.reasoning)
        )
        retries = b.wire_attempts - b.requests
        shown = (*(MISSING if k is None else f"{k:,}" for k in kinds), percent(b.cache_hits))
        rows.append(
            Row(
                (
                    b.source.label,
                    *shown,
                    f"{b.requests:,}",
                    f"{retries:,}",
                    str(b.invalid),
                    f"{b.spent} / {b.decisions:,}",
                )
            )
        )
        names = ("fresh", "cached", "cache_write", "output", "reasoning")
        counts = {
            "requests": b.requests,
            "attempts_without_reply": retries,
            "invalid_attempts": b.invalid,
        }
        spent = {"decisions": b.decisions, "decisions_without_motion": b.spent}
        raw.append(
            {
                "source": b.source.label,
                **dict(zip(names, kinds, strict=True)),
                "cache_hit_rate": b.cache_hits,
                **counts,
                **spent,
            }
        )
    caption = (
        "Billed tokens of all attempts; reasoning is part of output; cache hits are cached over all"
        " input tokens. Retries: requests on the wire that brought no reply. Idle: decisions that"
        " passed without motion."
    )
    head = (
        "Source",
        "Fresh",
        "Cached",
        "Cache write",
        "Output",
        "Reasoning",
        "Cache hits",
        "Requests",
        "Retries",
        "Invalid",
        "Idle / decisions",
    )
    return Table(
        "cost",
        caption,
        head,
        "l" + "r" * 10,
        tuple(rows),
        tuple(raw),
        tuple(b.source for b in bills),
    )


def _books_table(kept: Sequence[Books], sources: Sequence[Source]) -> Table:
    rows, raw = [], []
    for b in kept:
        account = b.account
        amounts = (
            account.settled_usd,
            account.held_usd,
            b.recorded,
            account.settled_usd - b.recorded,
        )
        shown = (
            tuple(f"{usd:.4f}" for usd in amounts) if account.priced else (MISSING,) * len(amounts)
        )
        rows.append(Row((b.run, *shown, f"{account.attempts:,}", f"{b.open:,}")))
        raw.append(
            {
                "run": b.run,
                "settled_usd": account.settled_usd if account.priced else None,
                "held_usd": account.held_usd if account.priced else None,
                "recorded_usd": b.recorded if account.priced else None,
                "attempts": account.attempts,
                "requests": account.requests,
                "unsettled": account.unsettled,
                "unknown": account.unknown,
            }
        )
    caption = (
        "The campaign's own books (spend.jsonl): settled, and held for attempts whose cost is not"
        " known; beside it the known part of the records. The difference was paid for attempts that"
        " left no record, because they were cut off. Open: attempts of unknown cost."
    )
    head = ("Run", "Settled $", "Held $", "In records $", "Difference $", "Attempts", "Open")
    return Table("books", caption, head, "lrrrrrr", tuple(rows), tuple(raw), tuple(sources))
