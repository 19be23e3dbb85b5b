"""The ledger: what every attempt cost, and budgets that hold because the worst case of a request is
reserved before it is sent.

One `Ledger` watches the attempts of one episode and enters them in the campaign's spend.jsonl
(`capex.run.spend`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Protocol

from capex.errors import BudgetExceeded, CapexError, ErrorCode, Scope, dollars
from capex.models import NO_TOKENS, LedgerTotals, Request, RequestAttempt, Usage, prices
from capex.models.prices import Price, cost, worst_case
from capex.run.pace import Rate, Turn
from capex.run.spend import ChainStart

LOOK_S = 0.25  # how often a request that waits looks whether it may go on waiting


def _exact(value: Decimal | int | float) -> Decimal:
    return Decimal(str(value))


@dataclass(frozen=True)
class Budget:
    """A limit in dollars. `typed` is true when the user asked for it, false for a default."""

    limit: Decimal | int | float
    scope: Scope = "episode"
    typed: bool = False

    def __post_init__(self) -> None:
        if not (limit := _exact(self.limit)).is_finite() or limit < 0:
            raise CapexError(
                f"a budget of {self.limit} dollars is no limit; give a number of at least 0",
                code=ErrorCode.BAD_SETTING,
            )

    def check(self, spent: Decimal, asked: Decimal, lost: Decimal = Decimal(0)) -> None:
        """Raise BudgetExceeded when `asked` more would exceed the limit; `lost` of `spent` brought
        no answer.
        """
        if spent + asked > _exact(self.limit):
            raise BudgetExceeded(spent, _exact(self.limit), self.scope, asked, lost)


def budgets_for(model: str, price: Price | None, budgets: Sequence[Budget]) -> tuple[Budget, ...]:
    """The budgets that can hold for a model: without a price, default ones fall away and typed ones
    are refused.
    """
    if price is not None:
        return tuple(budgets)
    for budget in budgets:
        if budget.typed:
            raise CapexError(
                f"a budget of {dollars(_exact(budget.limit))} per {budget.scope} cannot hold for"
                f" {model}, which has no price; give its price in a file like the package's"
                " prices.toml, or limit decisions or wall time instead",
                code=ErrorCode.NO_PRICE,
            )
    return ()


def attempt_cost(attempt: RequestAttempt, price: Price | None) -> Decimal | None:
    """Dollars that an attempt cost; None when it was or may have been billed and its usage or price
    is not known.
    """
    return Decimal(0) if attempt.billed == "no" else cost(attempt.usage, price)


@dataclass(frozen=True)
class Totals:
    """Sums over attempts. Requests are attempts that returned a reply."""

    requests: int = 0
    attempts: int = 0
    tokens: Usage = NO_TOKENS
    known_usd: Decimal = Decimal(0)  # of the attempts whose cost is known
    unpriced: int = 0  # billed, usage known, no price
    missing_usage: int = 0  # billed, but no usage came back
    unknown_billing: int = 0  # accepted perhaps, and nothing came back

    @property
    def cost_usd(self) -> Decimal | None:
        """The cost of all attempts; None as soon as that of one is not known."""
        return (
            None if self.unpriced or self.missing_usage or self.unknown_billing else self.known_usd
        )

    def add(self, attempt: RequestAttempt, price: Price | None) -> Totals:
        """The totals with one more attempt."""
        spent = attempt_cost(attempt, price)
        usage = attempt.usage if attempt.billed != "no" else None
        lost = attempt.billed if attempt.usage is None else "no"
        return Totals(
            self.requests + attempt.replied,
            self.attempts + 1,
            self.tokens.plus(usage),
            self.known_usd + (spent or 0),
            self.unpriced + (usage is not None and spent is None),
            self.missing_usage + (lost == "yes"),
            self.unknown_billing + (lost == "unknown"),
        )


class Spending(Protocol):
    """Where reservations and settlements go: the campaign's `Spend`, or a desk on another machine
    that writes it.
    """

    def reserve(
        self, usd: Decimal | None, *, limit: Decimal | None = None, start: ChainStart | None = None
    ) -> str:
        """Set aside the worst case of an attempt; refuse when that would exceed the limit."""

    def settle(
        self, ticket: str, usd: Decimal | None, usage: Usage | None = None, *, reply: bool = False
    ) -> None:
        """Replace a reservation with the actual cost."""

    def turn(self, rate: Rate, tokens: int) -> Turn:
        """Count a request against the provider's limits, or say how long to wait."""

    def used(self, turn: Turn, more: int) -> None:
        """Count more tokens for a request, or fewer."""


@dataclass
class Ledger:
    """Watches the attempts of one episode: reserves before each send, settles after it, and keeps
    the totals.

    `budgets` are those that hold for the model (`budgets_for`). A campaign's dollar budget needs
    the campaign's `spend`. A cost that is not known counts at its worst case against the budgets,
    and as unknown in the totals. The totals are those of the record. The episode's budget counts
    more: `carried_usd`, which is all that earlier attempts at this start took, retries of an outage
    and requests in flight at a kill included.
    """

    price: Price | None
    budgets: Sequence[Budget] = ()
    spend: Spending | None = None
    # Chain and episode, written with each reservation.
    start: ChainStart | None = None
    carried_usd: Decimal = Decimal(0)  # known or possible, by spend.jsonl
    # The provider's limits, and what is looked at while a request waits for them.
    rate: Rate | None = None
    check: Callable[[], None] = lambda: None
    totals: Totals = field(default=Totals(), init=False)
    overruns: int = field(default=0, init=False)  # attempts that cost more than their worst case
    _held: Decimal = field(default=Decimal(0), init=False)
    _sent: Decimal = field(default=Decimal(0), init=False)  # known or possible, of what was sent
    _answered: Decimal = field(default=Decimal(0), init=False)  # the same, of the model's answers
    _turn: tuple[Turn, int] | None = field(default=None, init=False)
    _pending: tuple[str | None, Decimal | None] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.budgets and self.price is None:
            raise ValueError("budgets need a price; ask budgets_for which ones hold")
        limits = [_exact(b.limit) for b in self.budgets if b.scope == "campaign"]
        if limits and self.spend is None:
            raise ValueError("a campaign's dollar budget needs the campaign's Spend")
        self._campaign_limit = min(limits, default=None)

    def recorded(self) -> LedgerTotals:
        """The totals for a record."""
        totals = self.totals
        whole, known = totals.cost_usd, None if totals.unpriced else totals.known_usd
        return LedgerTotals(
            totals.requests,
            totals.attempts,
            totals.missing_usage,
            totals.unknown_billing,
            totals.tokens,
            None if whole is None else float(whole),
            None if known is None else float(known),
            float(self._held),
        )

    @property
    def spent_usd(self) -> Decimal | None:
        """Dollars of the totals, known or possible; None without a price. They repeat when an
        episode is continued, which what the budget counts does not.
        """
        return None if self.price is None else self.totals.known_usd + self._held

    @property
    def counted_usd(self) -> Decimal:
        """Dollars that count against the episode's budget."""
        return max(self.carried_usd + self._sent, self.totals.known_usd + self._held)

    def before(self, request: Request, number: int) -> None:
        """Wait for the provider's limits and reserve the worst case, or raise BudgetExceeded."""
        worst = worst_case(request, self.price)
        if worst is not None:
            counted = self.counted_usd
            for budget in self.budgets:
                if budget.scope == "episode":
                    budget.check(counted, worst, counted - self._answered)
        ticket = None
        self._turn = self._wait(prices.tokens(request) + request.sampling.max_output_tokens)
        if self.spend is not None:
            ticket = self.spend.reserve(worst, limit=self._campaign_limit, start=self.start)
        self._held += worst or 0
        self._sent += worst or 0
        self._pending = ticket, worst

    def after(self, request: Request, number: int, attempt: RequestAttempt) -> None:
        """Settle at the actual cost; where that is not known the worst case stays held."""
        if self._pending is None:
            raise ValueError(
                "an attempt ended that was not announced; call before() ahead of each send"
            )
        (ticket, worst), self._pending = self._pending, None
        spent = attempt_cost(attempt, self.price)
        self.totals = self.totals.add(attempt, self.price)
        if spent is not None and worst is not None:
            self._held -= worst
            self._sent += spent - worst
            self.overruns += spent > worst
        if attempt.replied:
            self._answered += (worst if spent is None else spent) or 0
        if self.spend is not None and ticket is not None:
            usage = attempt.usage if attempt.billed != "no" else None
            self.spend.settle(ticket, spent, usage, reply=attempt.replied)
        # Last: what came is settled even where the provider's limits cannot be written down.
        if self.spend is not None and self._turn is not None and attempt.usage is not None:
            turn, counted = self._turn
            u = attempt.usage
            self.spend.used(turn, u.fresh + u.cached + u.cache_write + u.output - counted)

    def _wait(self, tokens: int) -> tuple[Turn, int] | None:
        """Wait until the provider's limits leave room for so many tokens, and count them."""
        if self.rate is None or self.spend is None:
            return None
        while (turn := self.spend.turn(self.rate, tokens)).wait_s > 0:
            until = time.monotonic() + turn.wait_s
            while (left_s := until - time.monotonic()) > 0:
                self.check()
                time.sleep(min(left_s, LOOK_S))
        return turn, tokens

    def again(self, request: Request, number: int, attempt: RequestAttempt) -> None:
        """Count an attempt that was paid for before the episode was cut off; its reservation and
        settlement stand in the spend already.
        """
        self.totals = self.totals.add(attempt, self.price)
        spent = attempt_cost(attempt, self.price)
        possible = (worst_case(request, self.price) if spent is None else spent) or Decimal(0)
        self._held += possible if spent is None else 0
        self._answered += possible if attempt.replied else 0

    def waiting(self) -> None:
        """Whether the campaign still lets an attempt wait."""
        self.check()
