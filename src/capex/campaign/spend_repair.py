"""A spend.jsonl that has lost lines: what the records hold beyond it is entered again.

Lines that can be read stay. For every start whose records hold more, rows are added that bring
requests, tokens and dollars to what the records say. Requests of a cut-off attempt whose cost is
not known take what is left of its start's budget. What was in flight at a kill, and stood in the
lost lines alone, cannot be known again.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

from capex.campaign.ledger import Totals
from capex.codec import encoded_line
from capex.errors import DamagedFile
from capex.models import NO_TOKENS
from capex.models.cassette import read_requests
from capex.models.prices import Price
from capex.run import load_chain
from capex.run.accounts import ZERO, Taken, forgotten
from capex.run.files import write_bytes
from capex.run.spend import Account, Reservation, Settlement, SpendLine, salvage
from capex.run.store import SPEND, Chain, Run
from capex.untrusted import read_bytes


@dataclass(frozen=True)
class SpendRepair:
    """What was entered into a spend.jsonl, or would be."""

    unreadable: int  # lines that were left out
    requests: int  # on the wire, that were entered
    starts: int
    usd: Decimal | None  # of them, at most; None without a price
    kept: Path | None  # where the old file is; None where there was none, or nothing was changed

    @property
    def sentence(self) -> str:
        """What spend.jsonl lacked."""
        parts = []
        if self.unreadable:
            lines = "1 line" if self.unreadable == 1 else f"{self.unreadable} lines"
            parts.append(f"{lines} cannot be read")
        if self.starts:
            dollars = "" if self.usd is None else f" (at most ${self.usd:.4f})"
            starts = "1 start" if self.starts == 1 else f"{self.starts} starts"
            requests = "1 request" if self.requests == 1 else f"{self.requests} requests"
            are = "is" if self.requests == 1 else "are"
            parts.append(f"{requests}{dollars} of {starts} {are} in the records alone")
        kept = f"; they are entered now, and the old file is {self.kept}" if self.kept else ""
        return f"spend.jsonl: {' and '.join(parts)}{kept}"


def repair_spend(run: Run, *, dry_run: bool) -> SpendRepair | None:
    """Enter what the records of a run hold beyond its spend.jsonl; None where that has it all."""
    path = run.path / SPEND
    held = salvage(path)
    manifest = run.manifest
    price = manifest.price
    rows: list[bytes] = []
    entered: list[Taken] = []
    for chain in run.chains():
        loaded = load_chain(chain)
        for start, lacking in forgotten(loaded, held.slots, manifest.origins).items():
            account = held.slots.of_chain(chain.path.name).get(start, Account())
            method = manifest.recorded.arms.get(loaded.arm)
            budget_usd = None if method is None else method.episode_usd
            whole = _with_cut_off(chain, start, lacking, account, price, budget_usd)
            entered.append(whole)
            rows += map(encoded_line, _rows(chain.path.name, start, whole))
    if not rows and not held.unreadable:
        return None
    kept = None
    if not dry_run:
        if path.is_file():
            kept = _unused(path)
            write_bytes(kept, read_bytes(path))
        write_bytes(path, b"".join([*(line + b"\n" for line in held.lines), *rows]))
    total = sum(entered, Taken())
    usd = None if total.usd is None or price is None else total.usd[1]
    return SpendRepair(held.unreadable, total.attempts, len(entered), usd, kept)


def _with_cut_off(
    chain: Chain,
    start: int,
    lacking: Taken,
    account: Account,
    price: Price | None,
    budget_usd: float | None,
) -> Taken:
    """What a start lacks, with what its cut-off attempt took: that has exchanges and no record."""
    totals = _totals(chain.unfinished(start), price)
    replies = totals.requests - account.requests - account.unsettled
    if price is None or (totals.attempts <= account.attempts and replies <= 0):
        return lacking
    known = max(ZERO, totals.known_usd - account.settled_usd)
    low, high = lacking.usd or (ZERO, ZERO)
    low, high = max(low, known), max(high, known)
    if totals.cost_usd is None and budget_usd is not None:
        high = max(high, Decimal(str(budget_usd)) - account.total_usd)
    return replace(lacking, usd=(low, high), tokens=lacking.tokens or totals.tokens)


def _totals(log: Path, price: Price | None) -> Totals:
    """The exchanges of a cut-off attempt summed up; nothing where they cannot be read."""
    totals = Totals()
    try:
        for request in read_requests(log, torn_end=True) if log.is_file() else ():
            for attempt in request.attempts():
                totals = totals.add(attempt, price)
    except (OSError, DamagedFile, KeyError, TypeError, ValueError):
        return Totals()
    return totals


def _rows(chain: str, start: int, taken: Taken) -> Iterator[SpendLine]:
    """Reservations and settlements that add up to what was taken: all that is known on the first
    request, all that may have been billed on the last.
    """
    low, high = taken.usd or (None, None)
    held = None if low is None or high is None else high - low
    count = max(taken.attempts, 1 + bool(held))
    for number in range(count):
        first, last = number == 0, number == count - 1
        usd = low if first or low is None else held if last and held else ZERO
        unknown = low is None or (last and bool(held))
        tokens = (taken.tokens or NO_TOKENS) if first else None
        ticket = secrets.token_hex(8)
        yield Reservation(ticket=ticket, usd=usd, chain=chain, episode=start)
        settled = None if unknown else usd
        reply = number < taken.requests
        yield Settlement(ticket=ticket, usd=settled, tokens=tokens, reply=reply)


def _unused(path: Path) -> Path:
    """spend-1.jsonl, or the next name that is free."""
    number = 1
    while os.path.lexists(beside := path.with_name(f"{path.stem}-{number}{path.suffix}")):
        number += 1
    return beside
