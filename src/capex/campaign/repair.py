"""`capex repair`: damaged attempts are moved out of their chains, so that `capex collect` runs
their starts again, and what spend.jsonl lacks is entered from the records.

Nothing is deleted: an episode goes to `damaged/` beside the others of its chain, whole as it is.
Its exchanges, where they can still be read, answer the attempt that replaces it, so that nothing is
paid for twice; what they cost stands in spend.jsonl already. The start comes to the place that it
had, because that is the first one free. Of a spend.jsonl with lost lines the old file is kept.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from capex import worlds
from capex.campaign.ledger import Totals
from capex.campaign.manifest import disown
from capex.campaign.names import start_text, starts_text
from capex.campaign.settings import resolve
from capex.codec import encoded_line
from capex.errors import CapexError, DamagedFile, ErrorCode
from capex.models import NO_TOKENS
from capex.models.cassette import read_requests
from capex.models.prices import Price
from capex.run import Damaged, load_chain, readable
from capex.run.files import bytes_of, write_bytes
from capex.run.manifest import Manifest
from capex.run.spend import Account, Reservation, Settlement, SpendLine, salvage
from capex.run.steps import read_steps
from capex.run.store import EXCHANGE_TIMES, EXCHANGES, SPEND, Chain, Run, find_run
from capex.run.summary import ZERO, Taken, forgotten
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


@dataclass(frozen=True)
class MovedAside:
    """A damaged attempt, where it lies now (None: nothing was moved), and what was wrong
    with it.
    """

    path: Path
    to: Path | None
    reason: str


@dataclass(frozen=True)
class Repaired:
    """What was wrong with a run, and what was done about it."""

    moved: list[MovedAside]
    spend: SpendRepair | None  # None: spend.jsonl has all that the records hold


def repair(path: Path, *, dry_run: bool = False) -> Repaired:
    """Move every damaged attempt of a run aside and enter what spend.jsonl lacks; `dry_run` only
    finds both. A run that is being written is refused.

    Unlike other commands this reads every array of every episode, and so finds what they would only
    meet when they open it.
    """
    run = find_run(path)
    chains = run.chains()
    with contextlib.ExitStack() as stack:
        for chain in chains if not dry_run else ():
            try:
                stack.enter_context(chain.owned())
            except CapexError as error:
                raise CapexError(
                    f"{path} cannot be repaired while it is written: {error}", code=ErrorCode.IN_USE
                ) from None
        damaged = [(chain, damage) for chain in chains for damage in find_damage(chain)]
        moved = [
            MovedAside(d.path, None if dry_run else _move_aside(run, chain, d), d.reason)
            for chain, d in damaged
        ]
        return Repaired(moved, repair_spend(run, dry_run=dry_run))


def find_damage(chain: Chain) -> list[Damaged]:
    """Everything of a chain that cannot be read, arrays included."""
    loaded = load_chain(chain)
    damaged = list(loaded.damaged)
    for episode in loaded.episodes:
        try:
            read_steps(episode.path)
        except DamagedFile as damage:
            damaged.append(Damaged(episode.path, f"{damage.path.name} is damaged: {damage.reason}"))
    return sorted(damaged, key=lambda d: d.path)


def _move_aside(run: Run, chain: Chain, damage: Damaged) -> Path:
    disown(run, damage.path)
    place = chain.move_aside(damage.path)
    if damage.start is not None and readable(log := place / EXCHANGES):
        times = place / EXCHANGE_TIMES
        chain.leave(damage.start, read_bytes(log), bytes_of(times))
    return place


def left_out_sentence(run: Run, damaged: Sequence[Damaged]) -> str:
    """What is damaged in a run and what to do about it; nothing where nothing is."""
    if not damaged:
        return ""
    listed = "; ".join(f"{os.path.relpath(d.path, run.path)}: {d.reason}" for d in damaged[:3])
    more = f"; and {len(damaged) - 3} more" if len(damaged) > 3 else ""
    count = "1 damaged attempt is" if len(damaged) == 1 else f"{len(damaged)} damaged attempts are"
    return (
        f"{count} left out ({listed}{more}); `capex repair {run.path}` moves them aside, and"
        " collect then runs their starts again"
    )


def refuse_forgotten(run: Run, lacking: Mapping[str, Mapping[int, Taken]]) -> None:
    """Refuse to go on where spend.jsonl lacks what records hold: its budgets would forget it."""
    if lacking:
        raise CapexError(forgotten_sentence(run, lacking), code=ErrorCode.SPENT_UNKNOWN)


def forgotten_sentence(run: Run, lacking: Mapping[str, Mapping[int, Taken]]) -> str:
    """What spend.jsonl lacks, and how to enter it; nothing where it has everything."""
    starts = [(chain, start) for chain, held in lacking.items() for start in held]
    if not starts:
        return ""
    taken = sum((t for held in lacking.values() for t in held.values()), Taken())
    usd = f" (${taken.usd[0]:.2f})" if taken.usd is not None and taken.usd[0] else ""
    state = "lacks" if (run.path / SPEND).is_file() else "is missing, and with it"
    requests = "1 request" if taken.attempts == 1 else f"{taken.attempts} requests"
    chain, start = starts[0]
    return (
        f"{run.path / SPEND} {state} {requests}{usd} that the records of"
        f" {len(starts)} {'start' if len(starts) == 1 else 'starts'} hold (the first is start"
        f" {start_text(start)} of {chain}), so what the run has spent is not known: put the whole"
        f" file back, or let `capex repair {run.path}` enter what the records hold"
    )


def collect_command(run: Run) -> str | None:
    """The command that continues a run of `capex collect`; None where its settings cannot be told
    from the manifest in a few flags.
    """
    manifest = run.manifest
    settings, plan = manifest.recorded, manifest.plan
    try:
        words: dict[str, Any] = {
            "arm": ",".join(settings.arms),
            "model": settings.model,
            "starts": starts_text(plan.starts),
        }
        words |= {
            "until_successes": plan.until_successes,
            "max_starts": plan.max_starts,
            "campaign_usd": plan.campaign_usd,
        }
        words |= {"seed": settings.seed or None, "out": str(run.path)}
        taus = {arm.tau for arm in settings.arms.values() if arm.confidence}
        ways = [words, *({**words, "tau": tau} for tau in taus if len(taus) == 1)]
        chosen = next((way for way in ways if _identity(manifest, way) == manifest.settings), None)
        if chosen is None:
            return None
    except (CapexError, KeyError, TypeError, ValueError):
        return None
    tasks: dict[str, list[str]] = {}
    for name in settings.tasks:
        world, task = worlds.split_name(name)
        tasks.setdefault(world, []).append(task)
    flags = [
        part
        for name, value in chosen.items()
        if value is not None
        for part in (f"--{name.replace('_', '-')}", str(value))
    ]
    return shlex.join(
        [
            "capex",
            "collect",
            *(f"{world}:{','.join(names)}" for world, names in tasks.items()),
            *flags,
        ]
    )


def _identity(manifest: Manifest, words: Mapping[str, Any]) -> Any:
    """The settings of a campaign that is begun with these flags, as the manifest has them."""
    usd = words["campaign_usd"]
    given = {**words, "campaign_usd": None if usd is None else float(usd)}
    settings = resolve(manifest.recorded.tasks, given).as_begun(manifest)
    return json.loads(json.dumps(settings.identity))
