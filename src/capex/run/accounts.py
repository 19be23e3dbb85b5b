"""What the attempts of a chain took, every request counted once: records, invalidated attempts and
spend.jsonl brought together.

An attempt that continues a cut-off one begins with the answers that were paid for, and its record
counts them. So an invalidated attempt that was continued counts only the time that it spent on
something else. Whatever spend.jsonl knows and no record tells (requests in flight at a kill,
retries of an outage) is `unrecorded`. With it, the sums over a chain equal spend.jsonl's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from pathlib import Path

from capex.models import NO_TOKENS, LedgerTotals, Usage
from capex.models.cassette import read_requests
from capex.run import InvalidAttempt, LoadedChain, LoadedEpisode, Origin, parts, readable
from capex.run.spend import Account, ChainStart, Slots
from capex.run.store import Chain

ZERO = Decimal(0)
ROUNDING_USD = Decimal("1e-9")  # records hold sums as floats
TOKENS = tuple(f.name for f in fields(Usage))
# Known, and at most: attempts that may have been billed count with their worst case.
Dollars = tuple[Decimal, Decimal]


@dataclass(frozen=True)
class Taken:
    """What one attempt took, or several together."""

    requests: int = 0  # that returned a reply
    attempts: int = 0  # on the wire
    usd: Dollars | None = (ZERO, ZERO)  # None where there is no price
    tokens: Usage | None = None  # None where nobody kept a ledger
    seconds: float = 0.0  # wall time without resets

    def __add__(self, other: Taken) -> Taken:
        usd = (
            None
            if self.usd is None or other.usd is None
            else (self.usd[0] + other.usd[0], self.usd[1] + other.usd[1])
        )
        return Taken(
            self.requests + other.requests,
            self.attempts + other.attempts,
            usd,
            _sum(self.tokens, other.tokens),
            self.seconds + other.seconds,
        )

    @property
    def nothing(self) -> bool:
        """Whether there is nothing to count."""
        return not (self.requests or self.attempts or any(self.usd or ()) or self.seconds)


def of_episode(episode: LoadedEpisode) -> Taken:
    """A whole attempt, answers from before it was cut off included."""
    record = episode.record
    totals = record.ledger or LedgerTotals(attempts=record.requests)
    totals = replace(totals, requests=record.requests, cost_usd=record.cost_usd)
    return _taken(totals, episode.seconds)


def of_invalid(attempt: InvalidAttempt, *, continued: bool) -> Taken:
    """An invalidated attempt. If it was continued, its requests and the time that its answers took
    are part of the one that did.
    """
    seconds = attempt.timing.episode_s
    if continued:
        return Taken(tokens=NO_TOKENS, seconds=max(0.0, seconds - attempt.timing.answered_s))
    return _taken(attempt.note.ledger or LedgerTotals(), seconds)


def of_account(account: Account, seconds: float = 0.0) -> Taken:
    """What spend.jsonl says of a start."""
    usd = (account.settled_usd, account.total_usd) if account.priced else None
    return Taken(account.requests, account.attempts, usd, account.tokens, seconds)


def invalid_attempts(chain: LoadedChain) -> list[tuple[InvalidAttempt, Taken]]:
    """The invalidated attempts of a chain with what each took by itself."""
    last: dict[int, InvalidAttempt] = {a.index: a for a in chain.invalid}
    finished = {e.index for e in chain.episodes}
    return [
        (
            a,
            of_invalid(
                a, continued=a.note.continues and (a.index in finished or last[a.index] is not a)
            ),
        )
        for a in chain.invalid
    ]


def unrecorded(chain: LoadedChain, slots: Mapping[ChainStart, Account]) -> dict[int, Taken]:
    """By start, what spend.jsonl has beyond the records; starts without a difference are
    left out.
    """
    return _beyond(_recorded(chain), chain.name, slots)


def _beyond(
    recorded: Mapping[int, Taken], chain: str, slots: Mapping[ChainStart, Account]
) -> dict[int, Taken]:
    rest_by_start = {}
    for start, account in _of_chain(slots, chain).items():
        rest = _difference(of_account(account), recorded.get(start, Taken(tokens=NO_TOKENS)))
        if not rest.nothing:
            rest_by_start[start] = rest
    return rest_by_start


def _of_chain(slots: Mapping[ChainStart, Account], chain: str) -> Mapping[int, Account]:
    if isinstance(slots, Slots):  # no look at all others: a campaign may have a thousand chains
        return slots.of_chain(chain)
    return {start: account for (name, start), account in slots.items() if name == chain}


def forgotten(
    chain: LoadedChain, slots: Mapping[ChainStart, Account], lineage: Sequence[Origin] = ()
) -> dict[int, Taken]:
    """By start, what the records of a chain and the exchanges of its cut-off attempts hold beyond
    spend.jsonl. Each request is entered there before it is sent, and each reply when it came, so
    that there is nothing unless lines of the file are lost. Replies are compared too, because the
    retries of an outage are in the file and in no record. Of exchanges without a record only their
    number counts here.
    """
    own = parts(chain, lineage)[0]
    recorded = _recorded(own)
    for start in Chain(chain.path).unfinished_starts():
        requests, sent = _sent(Chain(chain.path).unfinished(start))
        before = recorded.get(start, Taken(tokens=NO_TOKENS))
        recorded[start] = replace(
            before, requests=max(before.requests, requests), attempts=max(before.attempts, sent)
        )
    lacking, accounts = {}, _of_chain(slots, own.name)
    for start, held in sorted(recorded.items()):
        account = accounts.get(start, Account())
        usd = ZERO if held.usd is None else held.usd[0] - account.total_usd
        # A model that lets nobody watch has replies in its records, and attempts nowhere.
        replies = min(held.requests, held.attempts) - account.requests - account.unsettled
        if held.attempts > account.attempts or replies > 0 or usd > ROUNDING_USD:
            lacking[start] = _lacking(held, account, replies)
    return lacking


def _lacking(held: Taken, account: Account, replies: int) -> Taken:
    """What records have beyond spend.jsonl: known dollars in full, whatever else that holds."""
    rest = _difference(held, of_account(account))
    rest = replace(rest, attempts=max(rest.attempts, replies))
    if rest.usd is None or held.usd is None:
        return rest
    known = max(ZERO, held.usd[0] - account.settled_usd)
    return replace(rest, usd=(known, max(known, rest.usd[1])))


def _sent(log: Path) -> tuple[int, int]:
    """Replies and attempts in the exchanges of a cut-off attempt; 0 where they cannot be read."""
    if not readable(log):
        return 0, 0
    requests = read_requests(log, torn_end=True)
    attempts = [attempt for request in requests for attempt in request.attempts()]
    return sum(attempt.replied for attempt in attempts), len(attempts)


def by_start(
    chain: LoadedChain, slots: Mapping[ChainStart, Account], lineage: Sequence[Origin] = ()
) -> dict[int, Taken]:
    """By start, everything that its attempts took, those from before a branch included."""
    own = parts(chain, lineage)[0]
    recorded = _recorded(own)
    rest = _beyond(recorded, own.name, slots)
    return _joined(recorded, rest, before_branch(chain, lineage))


def before_branch(chain: LoadedChain, lineage: Sequence[Origin]) -> dict[int, Taken]:
    """By start, what the attempts took that a branch began with: spend.jsonl of the branch knows
    nothing of them.
    """
    return _joined(*(_recorded(part) for part in parts(chain, lineage)[1:]))


def _recorded(chain: LoadedChain) -> dict[int, Taken]:
    return _joined(
        *({e.index: of_episode(e)} for e in chain.episodes),
        *({a.index: taken} for a, taken in invalid_attempts(chain)),
    )


def _joined(*tables: Mapping[int, Taken]) -> dict[int, Taken]:
    joined: dict[int, Taken] = {}
    for table in tables:
        for start, taken in table.items():
            joined[start] = joined[start] + taken if start in joined else taken
    return joined


def _taken(totals: LedgerTotals, seconds: float) -> Taken:
    """From the totals of a record: the cost if that is known, otherwise from the known part to the
    highest possible one.
    """
    low = totals.known_cost_usd if totals.cost_usd is None else totals.cost_usd
    usd = None
    if low is not None:
        exact = Decimal(str(low))
        usd = exact, exact + Decimal(str(totals.held_usd))
    return Taken(totals.requests, totals.attempts, usd, totals.tokens, seconds)


def _difference(more: Taken, less: Taken) -> Taken:
    """What one has beyond the other; where that has more, nothing."""
    usd = more.usd
    if usd is not None and less.usd is not None:
        low, high = max(ZERO, usd[0] - less.usd[0]), max(ZERO, usd[1] - less.usd[1])
        usd = min(low, high), high
    tokens = None
    if more.tokens is not None and less.tokens is not None:
        tokens = Usage(
            **{n: max(0, getattr(more.tokens, n) - getattr(less.tokens, n)) for n in TOKENS}
        )
    return Taken(
        max(0, more.requests - less.requests), max(0, more.attempts - less.attempts), usd, tokens
    )


def _sum(a: Usage | None, b: Usage | None) -> Usage | None:
    return b if a is None else a.plus(b)
