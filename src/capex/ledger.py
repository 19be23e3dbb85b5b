"""The ledger: what every attempt cost, and budgets that hold because the worst case of a request is reserved before it is sent.

One `Ledger` watches the attempts of one episode. `Spend` is the campaign's spend.jsonl, shared by all its processes: a line before
each send, a line after it. A reservation counts as spent until it is settled, so a process killed in mid-request spends its worst case.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from io import FileIO
from pathlib import Path
from typing import Any, Literal, Protocol

from capex.errors import CapexError, Unsupported
from capex.models import Attempt, Request, Usage
from capex.prices import Price, PriceTable, cost, load_prices, parse_price, worst_case

if sys.platform != "win32":
    import fcntl

__all__ = [
    "Account",
    "Budget",
    "BudgetExceeded",
    "Ledger",
    "Price",
    "PriceTable",
    "Spend",
    "Spending",
    "Totals",
    "attempt_cost",
    "budgets_for",
    "cost",
    "load_prices",
    "parse_price",
    "worst_case",
]

Scope = Literal["episode", "campaign"]
NOTHING = Usage(0, 0, 0, 0)


def _exact(value: Decimal | int | float) -> Decimal:
    return Decimal(str(value))


class BudgetExceeded(CapexError):
    """The next request would exceed a budget. Dollars spent include what is held for attempts whose cost is not known."""

    def __init__(self, spent: Decimal, limit: Decimal, scope: Scope, asked: Decimal):
        self.spent, self.limit, self.scope, self.asked = spent, limit, scope, asked
        super().__init__(
            f"the {scope}'s budget of {_dollars(limit)} does not cover the next request, which may cost {_dollars(asked)}: "
            f"{_dollars(spent)} are spent or held"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return BudgetExceeded, (self.spent, self.limit, self.scope, self.asked)


@dataclass(frozen=True)
class Budget:
    """A limit in dollars. `typed` is true when the user asked for it, false for a default."""

    limit: Decimal | int | float
    scope: Scope = "episode"
    typed: bool = False

    def __post_init__(self) -> None:
        if not (limit := _exact(self.limit)).is_finite() or limit < 0:
            raise CapexError(f"a budget of {self.limit} dollars is no limit; give a number of at least 0")

    def check(self, spent: Decimal, asked: Decimal) -> None:
        """Raise BudgetExceeded when `asked` more would exceed the limit."""
        if spent + asked > _exact(self.limit):
            raise BudgetExceeded(spent, _exact(self.limit), self.scope, asked)


def budgets_for(model: str, price: Price | None, budgets: Sequence[Budget]) -> tuple[Budget, ...]:
    """The budgets that can hold for a model: without a price, default ones fall away and typed ones are refused."""
    if price is not None:
        return tuple(budgets)
    for budget in budgets:
        if budget.typed:
            raise CapexError(
                f"a budget of {_dollars(_exact(budget.limit))} per {budget.scope} cannot hold for {model}, which has no price; "
                "give its price in a file like the package's prices.toml, or limit decisions or wall time instead"
            )
    return ()


def attempt_cost(attempt: Attempt, price: Price | None) -> Decimal | None:
    """Dollars that an attempt cost; None when it was or may have been billed and its usage or price is not known."""
    return Decimal(0) if attempt.billed == "no" else cost(attempt.usage, price)


@dataclass(frozen=True)
class Totals:
    """Sums over attempts. Requests are attempts that returned a reply."""

    requests: int = 0
    attempts: int = 0
    tokens: Usage = NOTHING
    known_usd: Decimal = Decimal(0)  # of the attempts whose cost is known
    unpriced: int = 0  # billed, usage known, no price
    missing_usage: int = 0  # billed, but no usage came back
    unknown_billing: int = 0  # accepted perhaps, and nothing came back

    @property
    def cost_usd(self) -> Decimal | None:
        """The cost of all attempts; None as soon as that of one is not known."""
        return None if self.unpriced or self.missing_usage or self.unknown_billing else self.known_usd

    def add(self, attempt: Attempt, price: Price | None) -> Totals:
        """The totals with one more attempt."""
        spent = attempt_cost(attempt, price)
        usage = attempt.usage if attempt.billed != "no" else None
        lost = attempt.billed if attempt.usage is None else "no"
        return Totals(
            self.requests + attempt.replied,
            self.attempts + 1,
            _plus(self.tokens, usage),
            self.known_usd + (spent or 0),
            self.unpriced + (usage is not None and spent is None),
            self.missing_usage + (lost == "yes"),
            self.unknown_billing + (lost == "unknown"),
        )

    def as_json(self) -> dict[str, Any]:
        """For a record: cost_usd is a number, or null when it is not known; the known part stands beside it."""
        counts = {name: getattr(self, name) for name in ("requests", "attempts", "missing_usage", "unknown_billing")}
        whole, known = self.cost_usd, None if self.unpriced else self.known_usd
        return {
            **counts,
            "tokens": dict(vars(self.tokens)),
            "cost_usd": None if whole is None else float(whole),
            "known_cost_usd": None if known is None else float(known),
        }


@dataclass(frozen=True)
class Account:
    """What a campaign, or one start of a chain, has spent, killed processes and discarded episodes included."""

    settled_usd: Decimal = Decimal(0)  # of attempts whose cost is known
    held_usd: Decimal = Decimal(0)  # worst cases of the others: unsettled, or settled without a known cost
    attempts: int = 0
    unsettled: int = 0  # in flight, or lost to a kill
    unknown: int = 0  # settled without a known cost
    overruns: int = 0  # cost more than was reserved: the price or the bound on tokens is wrong
    tokens: Usage = NOTHING
    requests: int = 0  # attempts that returned a reply
    priced: bool = False  # whether any attempt had a worst case in dollars

    @property
    def total_usd(self) -> Decimal:
        """What counts against the campaign's budget."""
        return self.settled_usd + self.held_usd

    def reserve(self, usd: Decimal | None) -> Account:
        """The account with one more attempt under way, of which this is the worst case (None: no price)."""
        return replace(
            self,
            held_usd=self.held_usd + (usd or 0),
            attempts=self.attempts + 1,
            unsettled=self.unsettled + 1,
            priced=self.priced or usd is not None,
        )

    def settle(self, reserved: Decimal | None, usd: Decimal | None, usage: Usage | None, reply: bool) -> Account:
        """The account after an attempt ended; one whose cost is not known stays held at its worst case."""
        known = usd is not None
        return replace(
            self,
            settled_usd=self.settled_usd + (usd or 0),
            held_usd=self.held_usd - ((reserved or 0) if known else 0),
            unsettled=self.unsettled - 1,
            unknown=self.unknown + (not known),
            overruns=self.overruns + (usd is not None and reserved is not None and usd > reserved),
            tokens=_plus(self.tokens, usage),
            requests=self.requests + reply,
        )


Slot = tuple[str, int]  # a start of a chain: the chain's name and the start's index


class Spend:
    """An append-only spend.jsonl, safe among threads and processes of one machine or of one file system with locks.

    Every line is one write at the end of the file under an exclusive lock, flushed to disk before the call returns. A kill in mid-write
    leaves a torn last line. Readers stop before it and the next writer cuts it off: what it reserved was never sent, and what it settled
    stays reserved. Any other unreadable line is an error, because spending cannot be forgotten safely.
    """

    def __init__(self, path: Path):
        self.path = path
        self._guard = threading.Lock()
        self._read = 0  # bytes of whole lines taken into the account
        self._open: dict[str, tuple[Decimal | None, Slot | None]] = {}
        self._account = Account()
        self._slots: dict[Slot, Account] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Spend, (self.path,)

    def reserve(self, usd: Decimal | None, *, limit: Decimal | None = None, labels: Mapping[str, str | int] | None = None) -> str:
        """Set aside the worst case of an attempt (None: no price) and return its ticket; refuse when that would exceed the limit."""
        if usd is None and limit is not None:
            raise ValueError("a dollar limit needs the worst case of the attempt in dollars")
        if usd is not None:
            _check(usd)
        ticket = secrets.token_hex(8)
        with self._exclusive() as file:
            if usd is not None and limit is not None and self._account.total_usd + usd > limit:
                raise BudgetExceeded(self._account.total_usd, limit, "campaign", usd)
            self._append(file, {**(labels or {}), "reserve": ticket, "usd": _text(usd)})
        return ticket

    def settle(self, ticket: str, usd: Decimal | None, usage: Usage | None = None, *, reply: bool = False) -> None:
        """Replace a reservation with the actual cost; None, not known, leaves the reserved amount counted. `reply`: the model answered."""
        if usd is not None:
            _check(usd)
        with self._exclusive() as file:
            if ticket not in self._open:
                raise ValueError(f"reservation {ticket} was settled before or never made in {self.path}")
            tokens = None if usage is None else vars(usage)
            self._append(file, {"settle": ticket, "usd": _text(usd), "tokens": tokens, "reply": reply})

    def total(self) -> Decimal:
        """Dollars that count as spent, over all processes; reads only what was appended since the last look."""
        return self.account().total_usd

    def slots(self) -> Mapping[Slot, Account]:
        """The same for each start of each chain."""
        self.account()
        return self._slots

    def account(self) -> Account:
        """The same with its parts; needs no right to write."""
        with self._guard:
            try:
                with open(self.path, "rb", buffering=0) as file:
                    self._catch_up(file)
            except FileNotFoundError:
                if self._read:
                    raise CapexError(f"{self.path} is gone, and with it what the campaign has spent; put it back") from None
            return self._account

    @contextlib.contextmanager
    def _exclusive(self) -> Iterator[FileIO]:
        """The file, locked against every other writer, whole, and taken into the account to its end."""
        if sys.platform == "win32":
            raise Unsupported("a campaign's spend.jsonl needs the file locks of Linux or macOS; run it there or in WSL")
        with self._guard:
            try:
                with open(self.path, "a+b", buffering=0) as file:
                    fcntl.flock(file, fcntl.LOCK_EX)  # released by closing, and by the kernel at a kill
                    if self._catch_up(file):
                        file.truncate(self._read)
                    yield file
            except OSError as error:
                raise CapexError(f"{self.path} cannot be written ({error.strerror}); no request is sent without it") from error

    def _append(self, file: FileIO, row: Mapping[str, Any]) -> None:
        line = json.dumps(row).encode() + b"\n"
        new = self._read == 0
        if (written := file.write(line)) != len(line):
            file.truncate(self._read)
            raise OSError(errno.ENOSPC, f"{written} of {len(line)} bytes fitted")
        os.fsync(file.fileno())
        if new:
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        self._catch_up(file)

    def _catch_up(self, file: FileIO) -> int:
        """Take whole new lines into the account; returns the bytes of a torn last line."""
        if os.fstat(file.fileno()).st_size < self._read:
            raise CapexError(f"{self.path} has shrunk, so what the campaign has spent is not known; put the whole file back")
        file.seek(self._read)
        *lines, torn = file.readall().split(b"\n")
        for line in lines:
            try:
                self._take(json.loads(line))
            except (ValueError, KeyError, TypeError, ArithmeticError):
                fault = f"{line[:80]!r} makes no reservation and settles none"
                raise CapexError(f"{self.path} is damaged at byte {self._read}: {fault}; put the whole file back") from None
            self._read += len(line) + 1
        return len(torn)

    def _take(self, row: Mapping[str, Any]) -> None:
        usd = None if row["usd"] is None else Decimal(row["usd"])
        if usd is not None:
            _check(usd)
        if "reserve" in row:
            slot = (str(row["chain"]), int(row["episode"])) if "chain" in row and "episode" in row else None
            self._open[row["reserve"]] = usd, slot
            self._account = self._account.reserve(usd)
            if slot is not None:
                self._slots[slot] = self._slots.get(slot, Account()).reserve(usd)
            return
        usage = None if row["tokens"] is None else Usage(**row["tokens"])
        reply = bool(row.get("reply", usage is not None))  # older files do not say
        reserved, slot = self._open.pop(row["settle"])
        self._account = self._account.settle(reserved, usd, usage, reply)
        if slot is not None:
            self._slots[slot] = self._slots[slot].settle(reserved, usd, usage, reply)


class Spending(Protocol):
    """Where reservations and settlements go: the campaign's `Spend`, or a desk on another machine that writes it."""

    def reserve(self, usd: Decimal | None, *, limit: Decimal | None = None, labels: Mapping[str, str | int] | None = None) -> str:
        """Set aside the worst case of an attempt; refuse when that would exceed the limit."""

    def settle(self, ticket: str, usd: Decimal | None, usage: Usage | None = None, *, reply: bool = False) -> None:
        """Replace a reservation with the actual cost."""


@dataclass
class Ledger:
    """Watches the attempts of one episode: reserves before each send, settles after it, and keeps the totals.

    `budgets` are those that hold for the model (`budgets_for`). A campaign's dollar budget needs the campaign's `spend`. A cost that is
    not known counts at its worst case against the budgets, and as unknown in the totals.
    """

    price: Price | None
    budgets: Sequence[Budget] = ()
    spend: Spending | None = None
    labels: Mapping[str, str | int] = field(default_factory=dict)  # chain and episode, written with each reservation
    totals: Totals = field(default=Totals(), init=False)
    overruns: int = field(default=0, init=False)  # attempts that cost more than their worst case
    _held: Decimal = field(default=Decimal(0), init=False)
    _pending: tuple[str | None, Decimal | None] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.budgets and self.price is None:
            raise ValueError("budgets need a price; ask budgets_for which ones hold")
        limits = [_exact(b.limit) for b in self.budgets if b.scope == "campaign"]
        if limits and self.spend is None:
            raise ValueError("a campaign's dollar budget needs the campaign's Spend")
        self._campaign_limit = min(limits, default=None)

    def as_json(self) -> dict[str, Any]:
        """The totals for a record, and what is held at its worst case because its cost is not known, if anything is."""
        return self.totals.as_json() | ({"held_usd": float(self._held)} if self._held else {})

    @property
    def spent_usd(self) -> Decimal | None:
        """Dollars that count against the episode's budget; None without a price."""
        return None if self.price is None else self.totals.known_usd + self._held

    def before(self, request: Request, number: int) -> None:
        """Reserve the worst case, or raise BudgetExceeded."""
        worst = worst_case(request, self.price)
        if worst is not None:
            for budget in self.budgets:
                if budget.scope == "episode":
                    budget.check(self.totals.known_usd + self._held, worst)
        ticket = None
        if self.spend is not None:
            ticket = self.spend.reserve(worst, limit=self._campaign_limit, labels=self.labels)
        self._held += worst or 0
        self._pending = ticket, worst

    def after(self, request: Request, number: int, attempt: Attempt) -> None:
        """Settle at the actual cost; where that is not known the worst case stays held."""
        if self._pending is None:
            raise ValueError("an attempt ended that was not announced; call before() ahead of each send")
        (ticket, worst), self._pending = self._pending, None
        spent = attempt_cost(attempt, self.price)
        self.totals = self.totals.add(attempt, self.price)
        if spent is not None and worst is not None:
            self._held -= worst
            self.overruns += spent > worst
        if self.spend is not None and ticket is not None:
            usage = attempt.usage if attempt.billed != "no" else None
            self.spend.settle(ticket, spent, usage, reply=attempt.replied)

    def again(self, request: Request, number: int, attempt: Attempt) -> None:
        """Count an attempt that was paid for before the episode was cut off; its reservation and settlement stand in the spend already."""
        self.totals = self.totals.add(attempt, self.price)
        if attempt_cost(attempt, self.price) is None:
            self._held += worst_case(request, self.price) or 0


def _plus(tokens: Usage, more: Usage | None) -> Usage:
    return tokens if more is None else Usage(**{f.name: getattr(tokens, f.name) + getattr(more, f.name) for f in fields(Usage)})


def _check(usd: Decimal) -> None:
    if not usd.is_finite() or usd < 0:
        raise ValueError(f"{usd} is no amount of dollars")


def _text(usd: Decimal | None) -> str | None:
    return None if usd is None else str(usd)


def _dollars(value: Decimal) -> str:
    return f"${value:.4f}" if value % Decimal("0.01") else f"${value:.2f}"
