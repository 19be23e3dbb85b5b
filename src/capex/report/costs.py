"""Where the money went: tokens by kind, cache hits, cost per decision over the episode, retries and
invalid attempts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any

import numpy as np

from capex.errors import CapexError
from capex.models import Usage
from capex.models.exchanges import LOG
from capex.models.prices import Price, cost, parse_price
from capex.report.rows import EpisodeRow, RunInfo
from capex.report.sources import Source
from capex.run.spend import Account, Spend
from capex.run.store import SPEND

KINDS = ("fresh", "cached", "cache_write", "output", "reasoning")
LOGS_AT_MOST = 120  # exchange logs read per source; more would tell no more and take minutes
EPISODES_AT_LEAST = 3  # behind each point of the curve


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
    errors: dict[str, int] = {}
    for attempt in source.invalid:
        errors[attempt.error] = errors.get(attempt.error, 0) + 1
    return Bill(
        source=source,
        tokens=(
            Usage(**{f.name: sum(getattr(t, f.name) for t in known) for f in fields(Usage)})
            if known
            else None
        ),
        without_tokens=len(rows) - len(known),
        requests=sum(r.requests for r in rows),
        wire_attempts=sum(r.wire_attempts for r in rows),
        decisions=sum(e.decisions for e in source.episodes),
        spent=sum(e.spent for e in source.episodes),
        invalid=len(source.invalid),
        errors=errors,
    )


@dataclass(frozen=True)
class DecisionCost:
    """What the n-th decision of an episode took, over the episodes that came so far: quartiles."""

    number: int
    episodes: int
    low: float
    median: float
    high: float


@dataclass(frozen=True)
class DecisionCurve:
    """Cost per decision in dollars, or in tokens where there is no price; and from how many of how
    many episodes.
    """

    source: Source
    unit: str  # "$" or "tokens"
    points: tuple[DecisionCost, ...]
    read: int
    of: int


def decision_curve(source: Source, runs: Sequence[RunInfo]) -> DecisionCurve | None:
    """From the exchange logs of a sample spread evenly over the source's episodes; None where there
    are none.
    """
    with_log = [e for e in source.episodes if e.requests and (e.path / LOG).is_file()]
    stride = max(1, -(-len(with_log) // LOGS_AT_MOST))
    sample = with_log[::stride]
    prices = {i: _price(runs[i]) for i in {e.run for e in sample}}
    priced = bool(sample) and all(prices[e.run] is not None for e in sample)
    by_number: dict[int, list[float]] = {}
    read = 0
    for episode in sample:
        spent = _per_decision(episode, prices[episode.run] if priced else None)
        read += spent is not None
        for number, amount in enumerate(spent or (), start=1):
            by_number.setdefault(number, []).append(amount)
    points = [
        DecisionCost(number, len(found), *(float(v) for v in np.quantile(found, [0.25, 0.5, 0.75])))
        for number, found in sorted(by_number.items())
        if len(found) >= min(EPISODES_AT_LEAST, read)
    ]
    return (
        DecisionCurve(source, "$" if priced else "tokens", tuple(points), read, len(with_log))
        if points
        else None
    )


def _price(run: RunInfo) -> Price | None:
    row = run.manifest.get("price")
    if not isinstance(row, Mapping):
        return None
    try:
        return parse_price(row, f"the price in {run.path / 'manifest.json'}")
    except CapexError:
        return None


def _per_decision(episode: EpisodeRow, price: Price | None) -> list[float] | None:
    """Dollars (or tokens, without a price) of each decision; None where the log does not fit the
    record or a cost is not known.
    """
    amounts = [0.0] * len(episode.calls)
    ends = np.cumsum(episode.calls)
    replies = 0
    try:
        with open(episode.path / LOG, encoding="utf-8") as lines:
            for text in lines:
                line: dict[str, Any] = json.loads(text)
                decision = int(np.searchsorted(ends, replies, side="right"))
                amount = _amount(line, price)
                if amount is None or (amount and decision >= len(amounts)):
                    return None
                # what cost nothing may follow the last reply: a request that outgrew the context
                if amount:
                    amounts[decision] += amount
                replies += line["status"] in ("ok", "incomplete")
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return amounts if replies == sum(episode.calls) else None


def _amount(line: Mapping[str, Any], price: Price | None) -> float | None:
    if line["billed"] == "no":
        return 0.0
    if line["usage"] is None:
        return None
    usage = Usage(**line["usage"])
    if price is None:
        return float(usage.fresh + usage.cached + usage.cache_write + usage.output)
    spent = cost(usage, price)
    return None if spent is None else float(spent)


@dataclass(frozen=True)
class Books:
    """A run's spend.jsonl beside the sum of its records: the rest was paid for attempts that left
    no record.
    """

    run: str
    account: Account
    recorded: Decimal  # the known part

    @property
    def open(self) -> int:
        """Attempts whose cost is not known, though there is a price."""
        return self.account.unsettled + (self.account.unknown if self.account.priced else 0)


def books(runs: Sequence[RunInfo], sources: Sequence[Source]) -> list[Books]:
    """For every run that kept a spend.jsonl."""
    found = []
    for number, run in enumerate(runs):
        path = run.path / SPEND
        if run.inherited is not None or not path.is_file():
            continue
        try:
            account = Spend(path).account()
        except CapexError:  # said where the run was read
            continue
        known = [
            row.usd[0]
            for s in sources
            for row in s.recorded
            if row.run == number and row.usd is not None
        ]
        found.append(
            Books(run.name, account, sum((Decimal(str(usd)) for usd in known), Decimal(0)))
        )
    return found
