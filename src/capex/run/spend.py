"""spend.jsonl: a line before each request, a line after it, shared by all processes of a campaign.

A reservation counts as spent until it is settled, so a process killed in mid-request spends its
worst case.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from io import FileIO
from pathlib import Path
from typing import Any

from capex.errors import BudgetExceeded, CapexError, Unsupported
from capex.models import NO_TOKENS, Usage
from capex.run.files import flush_folder

if sys.platform != "win32":
    import fcntl


@dataclass(frozen=True)
class Account:
    """What a campaign, or one start of a chain, has spent, killed processes and discarded episodes
    included.
    """

    settled_usd: Decimal = Decimal(0)  # of attempts whose cost is known
    # Worst cases of the others: unsettled, or settled without a known cost.
    held_usd: Decimal = Decimal(0)
    attempts: int = 0
    unsettled: int = 0  # in flight, or lost to a kill
    unknown: int = 0  # settled without a known cost
    overruns: int = 0  # cost more than was reserved: the price or the bound on tokens is wrong
    tokens: Usage = NO_TOKENS
    requests: int = 0  # attempts that returned a reply
    priced: bool = False  # whether any attempt had a worst case in dollars

    @property
    def total_usd(self) -> Decimal:
        """What counts against the campaign's budget."""
        return self.settled_usd + self.held_usd

    def reserve(self, usd: Decimal | None) -> Account:
        """The account with one more attempt under way, of which this is the worst case (None: no
        price).
        """
        return replace(
            self,
            held_usd=self.held_usd + (usd or 0),
            attempts=self.attempts + 1,
            unsettled=self.unsettled + 1,
            priced=self.priced or usd is not None,
        )

    def settle(
        self, reserved: Decimal | None, usd: Decimal | None, usage: Usage | None, reply: bool
    ) -> Account:
        """The account after an attempt ended; one whose cost is not known stays held at its worst
        case.
        """
        known = usd is not None
        return replace(
            self,
            settled_usd=self.settled_usd + (usd or 0),
            held_usd=self.held_usd - ((reserved or 0) if known else 0),
            unsettled=self.unsettled - 1,
            unknown=self.unknown + (not known),
            overruns=self.overruns + (usd is not None and reserved is not None and usd > reserved),
            tokens=self.tokens.plus(usage),
            requests=self.requests + reply,
        )


ChainStart = tuple[str, int]  # a start of a chain: the chain's name and the start's index


class Spend:
    """An append-only spend.jsonl, safe among threads and processes of one machine or of one file
    system with locks.

    Every line is one write at the end of the file under an exclusive lock, flushed to disk before
    the call returns; those who write at the same time share a flush. A kill in mid-write leaves a
    torn last line. Readers stop before it and the next writer cuts it off: what it reserved was
    never sent, and what it settled stays reserved. Any other unreadable line is an
    error, because spending cannot be forgotten safely.
    """

    def __init__(self, path: Path):
        self.path = path
        self._guard = threading.Lock()
        self._read = 0  # bytes of whole lines taken into the account
        self._flush_guard = threading.Lock()
        self._flushed = 0  # bytes that this process knows to be on disk
        self._open: dict[str, tuple[Decimal | None, ChainStart | None]] = {}
        self._account = Account()
        self._slots: dict[ChainStart, Account] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Spend, (self.path,)

    def reserve(
        self,
        usd: Decimal | None,
        *,
        limit: Decimal | None = None,
        labels: Mapping[str, str | int] | None = None,
    ) -> str:
        """Set aside the worst case of an attempt (None: no price) and return its ticket; refuse
        when that would exceed the limit.
        """
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

    def settle(
        self, ticket: str, usd: Decimal | None, usage: Usage | None = None, *, reply: bool = False
    ) -> None:
        """Replace a reservation with the actual cost; None, not known, leaves the reserved amount
        counted. `reply`: the model answered.
        """
        if usd is not None:
            _check(usd)
        with self._exclusive() as file:
            if ticket not in self._open:
                raise ValueError(
                    f"reservation {ticket} was settled before or never made in {self.path}"
                )
            tokens = None if usage is None else vars(usage)
            self._append(
                file, {"settle": ticket, "usd": _text(usd), "tokens": tokens, "reply": reply}
            )

    def total(self) -> Decimal:
        """Dollars that count as spent, over all processes; reads only what was appended since the
        last look.
        """
        return self.account().total_usd

    def slots(self) -> Mapping[ChainStart, Account]:
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
                    raise CapexError(
                        f"{self.path} is gone, and with it what the campaign has spent; put it back"
                    ) from None
            return self._account

    @contextlib.contextmanager
    def _exclusive(self) -> Iterator[FileIO]:
        """The file, locked against every other writer, whole, and taken into the account to its
        end. What was appended is on disk when the block has ended; the flush waits for nobody's
        lock.
        """
        if sys.platform == "win32":
            raise Unsupported(
                "a campaign's spend.jsonl needs the file locks of Linux or macOS; run it there or"
                " in WSL"
            )
        try:
            with open(self.path, "a+b", buffering=0) as file:
                with self._guard:
                    # Released by closing, and by the kernel at a kill.
                    fcntl.flock(file, fcntl.LOCK_EX)
                    try:
                        if self._catch_up(file):
                            file.truncate(self._read)
                        yield file
                        end = self._read
                    finally:
                        fcntl.flock(file, fcntl.LOCK_UN)
                self._flush(file, end)
        except OSError as error:
            raise CapexError(
                f"{self.path} cannot be written ({error.strerror}); no request is sent without it"
            ) from error

    def _flush(self, file: FileIO, end: int) -> None:
        """Return when the file is on disk up to `end`: by a flush of our own, or by one that began
        after our line was written.
        """
        with self._flush_guard:
            if self._flushed >= end:
                return
            new, written = self._flushed == 0, self._read
            os.fsync(file.fileno())
            if new:
                flush_folder(self.path.parent)
            self._flushed = written

    def _append(self, file: FileIO, row: Mapping[str, Any]) -> None:
        line = json.dumps(row).encode() + b"\n"
        if (written := file.write(line)) != len(line):
            file.truncate(self._read)
            raise OSError(errno.ENOSPC, f"{written} of {len(line)} bytes fitted")
        self._catch_up(file)

    def _catch_up(self, file: FileIO) -> int:
        """Take whole new lines into the account; returns the bytes of a torn last line."""
        if os.fstat(file.fileno()).st_size < self._read:
            raise CapexError(
                f"{self.path} has shrunk, so what the campaign has spent is not known; put the"
                " whole file back"
            )
        file.seek(self._read)
        *lines, torn = file.readall().split(b"\n")
        for line in lines:
            try:
                self._take(json.loads(line))
            except (ValueError, KeyError, TypeError, ArithmeticError):
                fault = f"{line[:80]!r} makes no reservation and settles none"
                raise CapexError(
                    f"{self.path} is damaged at byte {self._read}: {fault}; put the whole file back"
                ) from None
            self._read += len(line) + 1
        return len(torn)

    def _take(self, row: Mapping[str, Any]) -> None:
        usd = None if row["usd"] is None else Decimal(row["usd"])
        if usd is not None:
            _check(usd)
        if "reserve" in row:
            slot = (
                (str(row["chain"]), int(row["episode"]))
                if "chain" in row and "episode" in row
                else None
            )
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


def _check(usd: Decimal) -> None:
    if not usd.is_finite() or usd < 0:
        raise ValueError(f"{usd} is no amount of dollars")


def _text(usd: Decimal | None) -> str | None:
    return None if usd is None else str(usd)
