"""spend.jsonl: a line before each request, a line after it, shared by all processes of a campaign.

A reservation counts as spent until it is settled, so a process killed in mid-request spends its
worst case.
"""

from __future__ import annotations

import contextlib
import copy
import errno
import os
import secrets
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from io import FileIO
from pathlib import Path
from typing import Any

from capex.codec import Count, Line, decode_lines, encoded_line
from capex.errors import BudgetExceeded, CapexError, DamagedFile, ErrorCode, Unsupported
from capex.models import NO_TOKENS, Usage
from capex.run.files import bytes_of, flush_folder
from capex.run.pace import PACE, Pace, Rate, Turn
from capex.untrusted import no_links

if sys.platform != "win32":
    import fcntl

CHUNK_BYTES = 4 * 2**20  # of a file that may be larger than memory
LINE_MOST = 2**20  # bytes; a line has a few hundred
USD_MOST = 10**9  # of one request
HELD_MOST = 10**6  # reservations without a settlement, and starts


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
    overrun_usd: Decimal = Decimal(0)  # by which the overruns did

    @property
    def total_usd(self) -> Decimal:
        """What counts against the campaign's budget."""
        return self.settled_usd + self.held_usd


ChainStart = tuple[str, int]  # a start of a chain: the chain's name and the start's index


class Reservation(Line, frozen=True, tag="reserve", kw_only=True):
    """The line before a request: its worst case, None without a price."""

    ticket: str
    usd: Decimal | None
    chain: str | None = None
    episode: Count | None = None


class Settlement(Line, frozen=True, tag="settle", kw_only=True):
    """The line after a request: its cost, None where that is not known."""

    ticket: str
    usd: Decimal | None
    tokens: Usage | None = None
    reply: bool  # whether the model answered


SpendLine = Reservation | Settlement


class _Sums:
    """An account while lines are added to it: a campaign has millions of them."""

    __slots__ = (
        "attempts",
        "held_usd",
        "overrun_usd",
        "overruns",
        "priced",
        "requests",
        "settled_usd",
        "tokens",
        "unknown",
        "unsettled",
    )

    def __init__(self) -> None:
        self.settled_usd = self.held_usd = self.overrun_usd = Decimal(0)
        self.attempts = self.unsettled = self.unknown = self.overruns = self.requests = 0
        self.priced = False
        self.tokens = NO_TOKENS

    def reserve(self, usd: Decimal | None) -> None:
        """One more attempt is under way, of which this is the worst case (None: no price)."""
        self.attempts += 1
        self.unsettled += 1
        if usd is not None:
            self.held_usd += usd
            self.priced = True

    def settle(
        self, reserved: Decimal | None, usd: Decimal | None, tokens: Usage | None, reply: bool
    ) -> None:
        """An attempt ended; one whose cost is not known stays held at its worst case."""
        self.unsettled -= 1
        self.requests += reply
        self.tokens = self.tokens.plus(tokens)
        if usd is None:
            self.unknown += 1
            return
        self.settled_usd += usd
        if reserved is not None:
            self.held_usd -= reserved
            self.overruns += usd > reserved
            self.overrun_usd += max(Decimal(0), usd - reserved)

    @property
    def account(self) -> Account:
        """The sums as they are now."""
        return Account(**{name: getattr(self, name) for name in self.__slots__})


class Slots(Mapping[ChainStart, Account]):
    """What each start of each chain has spent."""

    def __init__(self) -> None:
        self._chains: dict[str, dict[int, _Sums]] = {}
        self._count = 0

    def sums(self, slot: ChainStart) -> _Sums:
        """The sums of a start, to add to."""
        starts = self._chains.setdefault(slot[0], {})
        if slot[1] not in starts:
            starts[slot[1]] = _Sums()
            self._count += 1
        return starts[slot[1]]

    def of_chain(self, name: str) -> dict[int, Account]:
        """The accounts of one chain, by start."""
        return {start: sums.account for start, sums in self._chains.get(name, {}).items()}

    def __getitem__(self, slot: ChainStart) -> Account:
        return self._chains[slot[0]][slot[1]].account

    def __iter__(self) -> Iterator[ChainStart]:
        return ((name, start) for name, starts in self._chains.items() for start in starts)

    def __len__(self) -> int:
        return self._count


@dataclass(frozen=True)
class Known:
    """What one process has read of a spend.jsonl, so that another need not read it again."""

    read: int  # bytes
    sums: _Sums
    open: Mapping[str, tuple[Decimal | None, ChainStart | None]]


class Spend:
    """An append-only spend.jsonl, safe among threads and processes of one machine or of one file
    system with locks.

    Every line is one write at the end of the file under an exclusive lock, flushed to disk before
    the call returns; those who write at the same time share a flush. A kill in mid-write leaves a
    torn last line. Readers stop before it and the next writer cuts it off: what it reserved was
    never sent, and what it settled stays reserved. Any other unreadable line is an
    error, because spending cannot be forgotten safely.
    """

    def __init__(self, path: Path, known: Known | None = None):
        """`known`: what was read before; `slots` then tells of later lines alone."""
        self.path = path
        self._guard = threading.Lock()
        known = known or Known(0, _Sums(), {})
        self._read = known.read  # bytes of whole lines taken into the account
        self._flush_guard = threading.Lock()
        self._flushed = 0  # bytes that this process knows to be on disk
        self._open = dict(known.open)
        self._sums, self._slots = copy.copy(known.sums), Slots()

    def __reduce__(self) -> tuple[Any, ...]:
        return Spend, (self.path,)

    def known(self) -> Known:
        """All but the accounts of single starts, for a process that only spends."""
        self._look()
        with self._guard:
            return Known(self._read, copy.copy(self._sums), dict(self._open))

    def reserve(
        self, usd: Decimal | None, *, limit: Decimal | None = None, start: ChainStart | None = None
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
            spent = self._sums.settled_usd + self._sums.held_usd
            if usd is not None and limit is not None and spent + usd > limit:
                raise BudgetExceeded(spent, limit, "campaign", usd)
            chain, episode = start or (None, None)
            row = Reservation(ticket=ticket, usd=usd, chain=chain, episode=episode)
            self._append(file, row)
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
            self._append(file, Settlement(ticket=ticket, usd=usd, tokens=usage, reply=reply))

    def turn(self, rate: Rate, tokens: int) -> Turn:
        """Count a request against a provider's limits, or say how long to wait."""
        return Pace(self.path.with_name(PACE)).turn(rate, tokens)

    def used(self, turn: Turn, more: int) -> None:
        """Count more tokens for a request, or fewer, now that they are known."""
        Pace(self.path.with_name(PACE)).used(turn, more)

    def total(self) -> Decimal:
        """Dollars that count as spent, over all processes; reads only what was appended since the
        last look.
        """
        self._look()
        return self._sums.settled_usd + self._sums.held_usd

    def slots(self) -> Slots:
        """The same for each start of each chain; it goes on to tell what is spent."""
        self._look()
        return self._slots

    def account(self) -> Account:
        """The same with its parts; needs no right to write."""
        self._look()
        with self._guard:
            return self._sums.account

    def _look(self) -> None:
        """Take in what was appended since the last look."""
        with self._guard:
            try:
                with open(self.path, "rb", buffering=0, opener=no_links) as file:
                    self._catch_up(file)
            except FileNotFoundError:
                if self._read:
                    raise CapexError(
                        f"{self.path} is gone, and with it what the campaign has spent; put it"
                        " back",
                        code=ErrorCode.SPENT_UNKNOWN,
                    ) from None

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
            with open(self.path, "a+b", buffering=0, opener=no_links) as file:
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
                f"{self.path} cannot be written ({error.strerror}); no request is sent without it",
                code=ErrorCode.SPENT_UNKNOWN,
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

    def _append(self, file: FileIO, row: SpendLine) -> None:
        line = encoded_line(row)
        if (written := file.write(line)) != len(line):
            file.truncate(self._read)
            raise OSError(errno.ENOSPC, f"{written} of {len(line)} bytes fitted")
        self._catch_up(file)

    def _catch_up(self, file: FileIO) -> int:
        """Take whole new lines into the account; returns the bytes of a torn last line."""
        if os.fstat(file.fileno()).st_size < self._read:
            raise CapexError(
                f"{self.path} has shrunk, so what the campaign has spent is not known; put the"
                " whole file back",
                code=ErrorCode.SPENT_UNKNOWN,
            )
        file.seek(self._read)
        torn = b""
        while chunk := file.read(CHUNK_BYTES):
            *lines, torn = (torn + chunk).split(b"\n")
            if len(torn) > LINE_MOST:
                raise CapexError(
                    f"{self.path} is damaged at byte {self._read}: a line has more than"
                    f" {LINE_MOST:,} bytes; put the whole file back",
                    code=ErrorCode.SPENT_UNKNOWN,
                )
            for line, row in zip(lines, _parsed(lines), strict=True):
                try:
                    self._take(_parsed_line(line) if row is None else row)
                except (ValueError, KeyError, ArithmeticError):
                    fault = f"{line[:80]!r} makes no reservation and settles none"
                    raise CapexError(
                        f"{self.path} is damaged at byte {self._read}: {fault}; put the whole file"
                        f" back, or let `capex repair {self.path.parent}` enter what the records"
                        " hold",
                        code=ErrorCode.SPENT_UNKNOWN,
                    ) from None
                self._read += len(line) + 1
        return len(torn)

    def _take(self, row: SpendLine) -> None:
        usd = row.usd
        if usd is not None:
            _check(usd)
        if isinstance(row, Reservation):
            slot = (
                (row.chain, row.episode)
                if row.chain is not None and row.episode is not None
                else None
            )
            self._open[row.ticket] = usd, slot
            if max(len(self._open), len(self._slots)) > HELD_MOST:
                raise ValueError("no campaign has so many")
            self._sums.reserve(usd)
            if slot is not None:
                self._slots.sums(slot).reserve(usd)
            return
        reserved, slot = self._open.pop(row.ticket)
        self._sums.settle(reserved, usd, row.tokens, row.reply)
        if slot is not None:
            self._slots.sums(slot).settle(reserved, usd, row.tokens, row.reply)


@dataclass(frozen=True)
class Salvaged:
    """The lines of a spend.jsonl that make sense, and what they say."""

    lines: Sequence[bytes]
    slots: Slots
    unreadable: int  # lines that make none


def salvage(path: Path) -> Salvaged:
    """Whatever can be read of a spend.jsonl, damaged or not; nothing where there is none. A last
    line that a kill tore is left out.
    """
    content = bytes_of(path) or b""
    if (count := content.count(b"\n")) > 4 * HELD_MOST:
        raise DamagedFile(path, f"it has {count:,} lines; no campaign has so many")
    *whole, _ = content.split(b"\n")
    spend, lines = Spend(path), []
    for line in whole:
        with contextlib.suppress(ValueError, KeyError, ArithmeticError):
            spend._take(_parsed_line(line))
            lines.append(line)
    return Salvaged(lines, spend._slots, len(whole) - len(lines))


def _parsed(lines: Sequence[bytes]) -> Sequence[SpendLine | None]:
    """Lines parsed in one go; None for each where one of them is none."""
    try:
        return decode_lines(lines, SpendLine)
    except ValueError:
        return [None] * len(lines)


def _parsed_line(line: bytes) -> SpendLine:
    (row,) = decode_lines([line], SpendLine)
    parsed: SpendLine = row
    return parsed


def _check(usd: Decimal) -> None:
    if not usd.is_finite() or not 0 <= usd <= USD_MOST:
        raise ValueError(f"{usd} is no amount of dollars")
