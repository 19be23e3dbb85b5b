"""A run directory as typed values: `capex.load_run("runs/NAME")`.

Reads what is there and changes nothing, also while a campaign is still writing. A record that
cannot be read is listed as damaged, never raised: a report on a thousand episodes does not fail on
one.

    run = capex.load_run("runs/first")
    for episode in run.episodes:
        print(episode.chain, episode.index, episode.success, episode.record.cost_usd,
        episode.path)
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from capex import codec
from capex.errors import DamagedFile
from capex.method.record import EpisodeRecord, from_json
from capex.models import LedgerTotals
from capex.models.cassette import read_requests
from capex.models.exchanges import LOG, Exchange, read_log
from capex.run.files import read_json
from capex.run.manifest import Manifest, Origin
from capex.run.steps import STEPS, check_steps, read_steps
from capex.run.store import EPISODES, Chain, find_run
from capex.run.verdicts import Verdict, effective_success, read_verdict, read_verdicts, standing
from capex.run.writing import InvalidNote, Timing
from capex.untrusted import damage, loads, opened, read_bytes, require_plain

DIGESTED = ("record.json", STEPS)
HEAD_BYTES = 8 * 2**10  # of a record.json: everything before its decisions, and more
TURNS = b'"turns": ['  # cannot be part of a text, whose quotes are escaped


class Depth(Enum):
    """How much of an episode is read. One that resumed from a saved state keeps its decisions."""

    HEADS = "heads"  # all but the decisions, by the beginning of the record alone
    BRIEF = "brief"  # read and checked whole; decisions are not kept
    WHOLE = "whole"


@dataclass(frozen=True)
class LoadedEpisode:
    """One whole attempt: its record, its wall times, and where the rest of it lies."""

    chain: str  # WORLD--TASK--ARM
    path: Path
    record: EpisodeRecord
    timing: Timing
    verdicts: tuple[Verdict, ...] = ()  # of people, where the world does not judge; oldest first

    @property
    def verdict(self) -> Verdict | None:
        """The verdict that stands; None where nobody judged, or the world did."""
        return standing(self.verdicts)

    @property
    def success(self) -> bool | None:
        """The success that counts, by the world or by a verdict; None while it is unjudged."""
        return effective_success(self.record.success, self.verdict)

    @property
    def index(self) -> int:
        """The number of its folder: the start's index, or its own where it resumed from a saved
        state.
        """
        resumed = self.record.resumed
        return self.record.start if resumed is None else resumed.number

    @property
    def position(self) -> int:
        """The place in the chain's order: memory learned from those before it."""
        return self.index if self.record.position is None else self.record.position

    @property
    def seconds(self) -> float:
        """Wall time of the attempt without its reset; 0 where it was not kept."""
        return self.timing.episode_s

    @property
    def verdicts_seen(self) -> dict[str, dict[str, str] | None]:
        """By start, the verdicts that its memory had learned from, with their times; None where
        there was none yet.
        """
        at = self.timing.verdicts_seen_at
        return {
            start: None if verdict is None else {"verdict": verdict, "at": at.get(start, "")}
            for start, verdict in (self.record.verdicts_seen or {}).items()
        }

    def steps(self) -> dict[str, Any]:
        """The arrays of steps.npz: native actions, complete states and proprioception at 20 Hz."""
        return read_steps(self.path)

    def exchanges(self) -> Iterator[Exchange]:
        """Every attempt at the model in order; empty for the expert, which asks none."""
        log = self.path / LOG
        return read_log(log) if log.is_file() else iter(())


# Episodes that were read before, by their folders: those that the world judged stay as they are.
Held = MutableMapping[Path, LoadedEpisode]


@dataclass(frozen=True)
class InvalidAttempt:
    """An attempt that a model or simulator error invalidated, or a person's verdict. It counts as
    no episode; what it cost is in the run's spend.jsonl.
    """

    chain: str
    path: Path
    note: InvalidNote
    timing: Timing
    verdict: Verdict | None = None  # the one that invalidated it

    @property
    def index(self) -> int:
        """The index of its start."""
        return self.note.start

    @property
    def error(self) -> str:
        """Why it was invalidated."""
        return self.note.error

    @property
    def undoable(self) -> bool:
        """Whether it still stands among the episodes: its start has not been run again."""
        return self.path.parent.name == EPISODES


@dataclass(frozen=True)
class Damaged:
    """Something that should be readable and is not."""

    path: Path
    reason: str

    @property
    def start(self) -> int | None:
        """The start whose episode it is; None for an attempt that counts as none anyway."""
        return int(self.path.name) if self.path.parent.name == EPISODES else None


@dataclass(frozen=True)
class LoadedChain:
    """One arm at one task: its episodes in the order in which memory saw them."""

    name: str
    world: str
    task: str
    arm: str
    path: Path
    episodes: tuple[LoadedEpisode, ...]
    invalid: tuple[InvalidAttempt, ...]
    damaged: tuple[Damaged, ...]

    @property
    def successes(self) -> int:
        """Episodes that achieved the task."""
        return sum(e.success is True for e in self.episodes)


@dataclass(frozen=True)
class LoadedRun:
    """A whole run directory."""

    path: Path
    manifest: Manifest
    chains: tuple[LoadedChain, ...]

    @property
    def episodes(self) -> tuple[LoadedEpisode, ...]:
        """All whole attempts, chain by chain."""
        return tuple(e for c in self.chains for e in c.episodes)

    @property
    def invalid(self) -> tuple[InvalidAttempt, ...]:
        """All invalidated attempts."""
        return tuple(a for c in self.chains for a in c.invalid)

    @property
    def damaged(self) -> tuple[Damaged, ...]:
        """Everything that could not be read."""
        return tuple(d for c in self.chains for d in c.damaged)

    def chain(self, world: str, task: str, arm: str) -> LoadedChain | None:
        """The chain of an arm at a task; None when it has not begun."""
        return next(
            (c for c in self.chains if (c.world, c.task, c.arm) == (world, task, arm)), None
        )


def load_run(path: str | Path, depth: Depth = Depth.WHOLE, held: Held | None = None) -> LoadedRun:
    """A run directory with all its episodes; a folder that is none is refused with a sentence."""
    run = find_run(Path(path))
    chains = tuple(load_chain(chain, depth, held) for chain in run.chains())
    return LoadedRun(run.path, run.manifest, chains)


@contextlib.contextmanager
def _without_collecting() -> Iterator[None]:
    """Records hold no cycles, but while thousands are made Python would search all of them for
    some, again and again.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@_without_collecting()
def load_chain(chain: Chain, depth: Depth = Depth.WHOLE, held: Held | None = None) -> LoadedChain:
    """One chain of a run."""
    episodes: list[LoadedEpisode] = []
    invalid: list[InvalidAttempt] = []
    damaged: list[Damaged] = []
    name = chain.path.name
    places: dict[int, int] = {}  # place -> start
    for index in chain.finished():
        folder = chain.episode(index)
        try:
            episode = load_episode(folder, depth, held)
            if depth is not Depth.HEADS:
                check_steps(folder)
            if episode.verdict is not None and episode.verdict.verdict == "invalid":
                invalid.append(read_invalid(folder))
                continue
        except DamagedFile as fault:
            damaged.append(Damaged(folder, f"{fault.path.name} is damaged: {fault.reason}"))
            continue
        if (other := places.setdefault(episode.position, index)) != index:
            damaged.append(
                Damaged(
                    folder, f"it stands at place {episode.position}, where start {other} stands"
                )
            )
            continue
        episodes.append(episode)
    for folder in chain.invalid():
        try:
            invalid.append(read_invalid(folder))
        except DamagedFile as fault:
            damaged.append(Damaged(folder, f"{fault.path.name} is damaged: {fault.reason}"))
    for log in chain.unfinished_logs():
        if not readable(log) and log.is_file():  # its attempt may be whole by now
            damaged.append(
                Damaged(
                    log,
                    "the exchanges of a cut-off attempt cannot be read; its start is paid for"
                    " again",
                )
            )
    episodes.sort(key=lambda e: (e.position, e.index))
    world, task, arm = (*name.split("--", 2), "", "")[:3]
    world = episodes[0].record.world if episodes else world  # a folder does not name a path exactly
    return LoadedChain(
        name, world, task, arm, chain.path, tuple(episodes), tuple(invalid), tuple(damaged)
    )


def read_record(episode: Path) -> EpisodeRecord:
    """The record of an episode; DamagedFile where it is missing, unreadable or holds what no record
    holds.
    """
    path = episode / "record.json"
    with damage(path):
        return from_json(read_json(path))


def read_judged(episode: Path) -> EpisodeRecord:
    """The record of an episode with the success that counts; DamagedFile like `read_record`."""
    record = read_record(episode)
    if record.success is not None:
        return record
    return replace(record, success=effective_success(None, read_verdict(episode)))


def digests(episode: Path) -> dict[str, str]:
    """SHA-256 of the files that make an episode: what is said of it beside them is void once they
    change.
    """
    contents = {name: read_bytes(episode / name) for name in DIGESTED}
    return {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}


def load_episode(
    folder: Path, depth: Depth = Depth.WHOLE, held: Held | None = None
) -> LoadedEpisode:
    """One episode of a chain by its folder; DamagedFile like `read_record`."""
    known = None if held is None else held.get(folder)
    if known is not None and known.record.success is not None:
        return known
    with damage(folder):
        require_plain(folder)
    record = _head(folder) if depth is Depth.HEADS else None
    record = record or read_record(folder)
    verdicts = () if record.success is not None else tuple(read_verdicts(folder))
    chain = folder.parent.parent.name
    episode = LoadedEpisode(chain, folder, record, _read_timing(folder), verdicts)
    if episode.index != int(folder.name):
        raise DamagedFile(folder / "record.json", f"it is the record of {episode.index}")
    if depth is not Depth.WHOLE and record.turns:
        episode = briefly(episode)
    if held is not None:
        held[folder] = episode
    return episode


def _head(folder: Path) -> EpisodeRecord | None:
    """The record without its decisions, by its beginning; None where that does not suffice."""
    try:
        with opened(folder / "record.json") as file:
            beginning, found, _ = file.read(HEAD_BYTES).partition(TURNS)
        raw = loads(beginning.rstrip().removesuffix(b",") + b"}")
        return from_json({**raw, "turns": []}) if found else None
    except (OSError, ValueError, TypeError):
        return None


def briefly(episode: LoadedEpisode) -> LoadedEpisode:
    """An episode without its decisions, which are most of it. One that resumed from a saved state
    keeps them.
    """
    if episode.record.resumed is not None:
        return episode
    return replace(episode, record=replace(episode.record, turns=()))


def read_invalid(folder: Path) -> InvalidAttempt:
    """An attempt that an error or a verdict invalidated; DamagedFile like `read_record`."""
    path = folder / "record.json"
    with damage(path):
        require_plain(folder)
        raw = read_json(path)
        if "error" in raw:
            note, verdict = codec.from_json(raw, InvalidNote), None
        else:
            note, verdict = _judged_invalid(from_json(raw), read_verdict(folder))
        return InvalidAttempt(
            folder.parent.parent.name, folder, note, _read_timing(folder), verdict
        )


def _judged_invalid(
    record: EpisodeRecord, verdict: Verdict | None
) -> tuple[InvalidNote, Verdict | None]:
    """A whole attempt that a person judged invalid, as the note of an invalid one."""
    error = "it was not judged invalid"
    if verdict is not None:
        error = f"judged invalid by {verdict.by}" + (f" ({verdict.words})" if verdict.words else "")
    totals = record.ledger or LedgerTotals()
    totals = replace(totals, cost_usd=record.cost_usd, requests=record.requests)
    return (
        InvalidNote(
            task=record.task,
            arm=record.arm,
            start=record.start,
            seed=record.seed,
            model=record.model,
            error=error,
            position=record.position,
            ledger=totals,
            extensions=record.extensions,
        ),
        verdict,
    )


def readable(log: Path) -> bool:
    """Whether the exchanges of an attempt can be read; a last line that a kill tore is none of
    them.
    """
    try:
        with damage(log):
            for recorded in read_requests(log, torn_end=True):
                recorded.attempts()
    except DamagedFile:
        return False
    return True


def _read_timing(folder: Path) -> Timing:
    path = folder / "timing.json"
    with damage(path):
        return codec.from_json(read_json(path), Timing)


def parts(chain: LoadedChain, lineage: Sequence[Origin]) -> list[LoadedChain]:
    """A chain by who made its attempts: the run itself first, then those that it descends from, in
    the order of the lineage.
    """
    own_parts = []
    for origin in lineage:
        starts = frozenset(origin.episodes.get(chain.name, ()))
        names = frozenset(origin.invalid.get(chain.name, ()))
        copied = {
            a.path
            for a in chain.invalid
            if (a.index in starts if a.undoable else a.path.name in names)
        }
        own, inherited = (
            replace(
                chain,
                episodes=tuple(e for e in chain.episodes if (e.index in starts) is old),
                invalid=tuple(a for a in chain.invalid if (a.path in copied) is old),
            )
            for old in (False, True)
        )
        own_parts.append(own)
        chain = inherited
    return [*own_parts, chain]
