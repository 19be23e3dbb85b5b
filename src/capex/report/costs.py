"""Where the money went: tokens by kind, cache hits, cost per decision, retries, failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from itertools import zip_longest

import numpy as np

from capex.errors import CapexError
from capex.models import NO_TOKENS, Usage
from capex.models.exchanges import LOG, Exchange, read_log
from capex.models.prices import Price, cost
from capex.report.rows import RunInfo
from capex.report.sources import Source
from capex.run.spend import Account, Spend
from capex.run.store import SPEND
from capex.run.summary import Summary

KINDS = ("fresh", "cached", "cache_write", "output", "reasoning")
LOGS_AT_MOST = 120  # exchange logs read per source; more would tell no more and take minutes
EPISODES_AT_LEAST = 3  # behind each point of the curve
QUARTILES = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class Bill:
    """A source's tokens and attempts, invalidated attempts included."""

    source: Source
    tokens: Usage | None  # None where nobody kept a ledger
    without_tokens: int  # attempts whose tokens are not known
    requests: int
    wire_attempts: int
    decisions: int
    spent: int  # decisions that passed without motion
    invalid: int
    errors: Mapping[str, int]  # of invalid attempts, by their sentence

    @property
    def cache_hits(self) -> float | None:
        """Cached input tokens over all input tokens."""
        if self.tokens is None:
            return None
        whole = self.tokens.fresh + self.tokens.cached + self.tokens.cache_write
        return self.tokens.cached / whole if whole else None


def bill(source: Source) -> Bill:
    """Sum up."""
    rows = source.attempts
    known = [r.tokens for r in rows if r.tokens is not None]
    return Bill(
        source=source,
        tokens=reduce(Usage.plus, known, NO_TOKENS) if known else None,
        without_tokens=len(rows) - len(known),
        requests=sum(r.requests for r in rows),
        wire_attempts=sum(r.wire_attempts for r in rows),
        decisions=sum(e.decisions for e in source.episodes),
        spent=sum(e.skipped for e in source.episodes),
        invalid=len(source.invalid),
        errors=Counter(attempt.error for attempt in source.invalid),
    )


@dataclass(frozen=True)
class DecisionCost:
    """What the n-th decision of an episode took, over the episodes that came so far: quartiles."""

    number: int
    low: float
    median: float
    high: float


@dataclass(frozen=True)
class DecisionCurve:
    """Cost per decision in dollars, or in tokens where there is no price."""

    source: Source
    unit: str  # "$" or "tokens"
    points: Sequence[DecisionCost]
    read: int  # episodes whose log fits their record
    of: int  # episodes with a log


def decision_curve(source: Source, runs: Sequence[RunInfo]) -> DecisionCurve | None:
    """From the exchange logs of a sample spread evenly over the episodes; None without any."""
    with_log = [e for e in source.episodes if e.requests and (e.path / LOG).is_file()]
    sample = with_log[:: max(1, -(-len(with_log) // LOGS_AT_MOST))]
    prices = {i: runs[i].manifest.price for i in {e.run for e in sample}}
    priced = None not in prices.values()
    spent = [_per_decision(e, prices[e.run] if priced else None) for e in sample]
    known = [amounts for amounts in spent if amounts is not None]
    points = []
    for number, column in enumerate(zip_longest(*known), start=1):
        amounts = [a for a in column if a is not None]
        if len(amounts) >= min(EPISODES_AT_LEAST, len(known)):
            points.append(DecisionCost(number, *map(float, np.quantile(amounts, QUARTILES))))
    unit = "$" if priced else "tokens"
    return DecisionCurve(source, unit, points, len(known), len(with_log)) if points else None


def _per_decision(episode: Summary, price: Price | None) -> list[float] | None:
    """Dollars (or tokens, without a price) of each decision; None where the log does not fit the
    record or a cost is not known.
    """
    amounts = [0.0] * len(episode.calls)
    ends = np.cumsum(episode.calls)
    replies = 0
    try:
        for line in read_log(episode.path / LOG):
            decision = int(np.searchsorted(ends, replies, side="right"))
            amount = _amount(line, price)
            if amount is None or (amount and decision >= len(amounts)):
                return None
            # what cost nothing may follow the last reply: a request that outgrew the context
            if amount:
                amounts[decision] += amount
            replies += line.replied
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return amounts if replies == sum(episode.calls) else None


def _amount(line: Exchange, price: Price | None) -> float | None:
    if line.billed == "no":
        return 0.0
    if (usage := line.usage) is None:
        return None
    if price is None:
        return float(usage.fresh + usage.cached + usage.cache_write + usage.output)
    spent = cost(usage, price)
    return None if spent is None else float(spent)


@dataclass(frozen=True)
class Books:
    """A run's spend.jsonl beside its records; the rest was paid for attempts without a record."""

    run: str
    account: Account
    recorded: Decimal  # the known part

    @property
    def open(self) -> int:
        """Attempts whose cost is not known, though there is a price."""
        return self.account.unsettled + (self.account.unknown if self.account.priced else 0)


def books(runs: Sequence[RunInfo], sources: Sequence[Source]) -> list[Books]:
    """For every run that kept a spend.jsonl."""
    recorded = [row for s in sources for row in s.recorded if row.usd is not None]
    kept = []
    for number, run in enumerate(runs):
        path = run.path / SPEND
        if run.inherited is not None or not path.is_file():
            continue
        try:
            account = Spend(path).account()
        except CapexError:  # said where the run was read
            continue
        known = (Decimal(str(row.usd[0])) for row in recorded if row.run == number and row.usd)
        kept.append(Books(run.name, account, sum(known, Decimal(0))))
    return kept
