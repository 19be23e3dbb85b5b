"""A chain: one method at one task, start after start. Which start comes next, in which slot, and
what memory it sees.

Slots are numbered from 0 in the order of the starts. They fall into rounds of `round_size`; the
episodes of a round all see memory as it was when the round began: what the slots before the round
left, and nothing else. So a record depends on its slot alone, never on how many workers there were,
who finished first, or how often the campaign was killed. A round size of 1 is the paper's
algorithm.

A damaged episode keeps a slot of its own, so that the others keep theirs, and leaves nothing to
memory. An attempt that a person judged invalid leaves its slot open: its start runs there again.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from capex.errors import DamagedFile
from capex.method.memory import Memory
from capex.method.record import EpisodeRecord
from capex.models import pictures
from capex.run import (
    Depth,
    InvalidAttempt,
    LoadedChain,
    LoadedEpisode,
    briefly,
    load_chain,
    load_episode,
    read_invalid,
    read_record,
)
from capex.run.store import Chain
from capex.run.verdicts import Verdict, effective_success, read_verdict

ATTEMPTS = 2  # an invalidated attempt is rerun once


@dataclass(frozen=True)
class Slot:
    """A start at its place in the chain's order."""

    start: int
    position: int


@dataclass(frozen=True)
class _Settled:
    """An episode, or a start that was recorded as invalid or whose episode is damaged."""

    start: int
    whole: bool  # there is an episode
    success: bool | None = None  # the one that counts
    by_person: bool = False  # a person judges it
    verdict: Verdict | None = None
    # Until memory has learned from it; a campaign has more of them than fit into memory.
    record: EpisodeRecord | None = None
    driven: bool = False  # by a person: its outcome is not the model's

    @property
    def counts(self) -> bool:
        """Whether it is a success of the demonstrator's own."""
        return self.whole and self.success is True and not self.driven


class ChainPlan:
    """The order of a chain, as far as it has come. Every answer follows from the run directory and
    the starts that were asked for.
    """

    def __init__(
        self,
        chain: Chain,
        starts: Sequence[int],
        *,
        round_size: int = 1,
        remembers: bool = True,
        until_successes: int | None = None,
        further: int = 0,
        max_starts: int | None = None,
        retry_invalid: bool = False,
        waits: bool = False,
        begins_with: Memory | None = None,
    ):
        """`remembers`: the method is shown memory. `further`: with `until_successes`, starts
        below this number follow those given. `waits`: a round is over when its episodes are judged.
        `begins_with`: what memory holds before the first of them.
        """
        self._begins_with = begins_with or Memory()
        self.chain, self._round_size, self._remembers = chain, round_size, remembers
        self._until, self._max_starts, self._waits = until_successes, max_starts, waits
        loaded = load_chain(chain, Depth.WHOLE if remembers else Depth.BRIEF)
        self._settled = _settled(chain, loaded, starts, retry_invalid)
        again = _to_run_again(loaded, self._settled)
        held = {s.start for s in self._settled.values()} | set(again.values())
        beyond = range(max(starts, default=-1) + 1, further) if until_successes is not None else ()
        self._free = deque(i for i in (*starts, *beyond) if i not in held)
        self._starts: dict[int, int] = again | {p: s.start for p, s in self._settled.items()}
        self._last_held = max(self._settled, default=-1)
        self._base = 0  # first slot of the present round
        self._running: set[int] = set()
        self._memory, self._snapshot = self._begins_with.thawed(), Memory().snapshot()
        self._learned_successes = 0
        self._seen: dict[str, dict[str, str] | None] = {}
        self._size = self.window  # slots of the present round
        self._advance()
        # As it was when the plan was made, without decisions; None once it was taken.
        self._loaded: LoadedChain | None = replace(
            loaded, episodes=tuple(briefly(e) for e in loaded.episodes)
        )

    def take_loaded(self) -> LoadedChain:
        """The chain as it was when the plan was made, without the decisions of its episodes. It is
        given away, once: the plan does not keep it.
        """
        loaded, self._loaded = self._loaded, None
        assert loaded is not None
        return loaded

    @property
    def window(self) -> int:
        """Episodes that may run at once. Without memory they are independent of each other: all of
        them, or as many as successes are still wanted, since each of those is run in any case.
        """
        if self._remembers or self._waits:
            return self._round_size
        if self._until is None:
            held = max(len(self._starts), self._last_held + 1)
            return max(self._round_size, len(self._free) + held)
        return max(self._round_size, self._until - self._learned_successes)

    @property
    def remembers(self) -> bool:
        """Whether its episodes are shown what those before them left."""
        return self._remembers

    @property
    def memory(self) -> Memory:
        """What the present round's episodes are shown; frozen."""
        return self._snapshot

    @property
    def verdicts_seen(self) -> dict[str, Any]:
        """By start, the verdicts that this memory has learned from; null where there was none."""
        return dict(self._seen)

    @property
    def outcomes(self) -> dict[int, bool | None]:
        """By start, the success of its episode that counts; None while it is unjudged."""
        return {s.start: s.success for s in self._settled.values() if s.whole}

    @property
    def unjudged(self) -> list[int]:
        """The starts whose episodes wait for a person's verdict."""
        return [s.start for s in self._settled.values() if _unjudged(s)]

    @property
    def waits_for_verdicts(self) -> bool:
        """Whether the chain cannot go on, or end, before somebody judges."""
        return self._waits and bool(self.unjudged)

    @property
    def done(self) -> bool:
        """Whether nothing is left to run and nothing is running."""
        return not self._running and not self.ready()

    @property
    def running(self) -> int:
        """Slots that are being run."""
        return len(self._running)

    @property
    def successes(self) -> int:
        """Successes so far, the present round's included."""
        return sum(s.counts for s in self._settled.values())

    @property
    def invalid(self) -> int:
        """Starts without a record that are not run: recorded as invalid, or damaged."""
        return sum(not s.whole for s in self._settled.values())

    @property
    def open_starts(self) -> set[int]:
        """The starts that are still to run, as far as they are known."""
        begun = (start for p, start in self._starts.items() if p not in self._settled)
        return {*self._free, *begun}

    def ready(self) -> list[Slot]:
        """The slots of the present round that may run now, in order."""
        if self._reached():
            return []
        open_ = [p for p in self._round() if p not in self._settled and p not in self._running]
        return [Slot(self._starts[p], p) for p in open_]

    def begin(self, slot: Slot) -> None:
        """It is being run."""
        self._running.add(slot.position)

    def drop(self, slot: Slot) -> None:
        """Its run came to nothing; it may run again."""
        self._running.discard(slot.position)

    def settle(self, slot: Slot) -> EpisodeRecord:
        """Its episode is in the run directory."""
        settled = _settle(episode := load_episode(self.chain.episode(slot.start)))
        self._running.discard(slot.position)
        self._settled[slot.position] = settled
        if settled.by_person:
            self._refresh()
        self._advance()
        return episode.record

    def give_up(self, slot: Slot) -> None:
        """Its start is recorded as invalid."""
        self._running.discard(slot.position)
        self._settled[slot.position] = _Settled(slot.start, whole=False)
        self._advance()

    def remaining(self) -> int | None:
        """Starts still to run, those running included; None where successes decide."""
        if self._until is not None:
            return None
        return len(self._free) + sum(p not in self._settled for p in self._starts)

    def _reached(self) -> bool:
        return self._until is not None and self._learned_successes >= self._until

    def _round(self) -> list[int]:
        """The positions of the present round that have a start."""
        positions = []
        for position in range(self._base, self._base + self._size):
            more = self._free and (self._max_starts is None or len(self._starts) < self._max_starts)
            if position not in self._starts and more:
                self._starts[position] = self._free.popleft()
            if position in self._starts:
                positions.append(position)
        return positions

    def _advance(self) -> None:
        """Let memory learn from every finished round, in order, and freeze it for the next."""
        while not self._reached():
            positions = self._round()
            over = not positions and self._base > self._last_held
            if over or not all(self._over(p) for p in positions):
                break
            for position in positions:
                self._learn(self._settled[position])
                self._settled[position] = replace(self._settled[position], record=None)
            self._base += self._size
            self._size = self.window
        self._snapshot = self._memory.snapshot() if self._remembers else Memory().snapshot()

    def _refresh(self) -> None:
        """Take in what people judged since, and what they changed: memory is then made anew."""
        relearn = False
        for position, held in list(self._settled.items()):
            if not held.whole or not held.by_person:
                continue
            verdict = held.verdict
            with contextlib.suppress(DamagedFile):
                verdict = read_verdict(self.chain.episode(held.start))
            if verdict == held.verdict:
                continue
            relearn = relearn or position < self._base
            if verdict is not None and verdict.verdict == "invalid":
                del self._settled[position]
            else:
                success = effective_success(None, verdict)
                self._settled[position] = replace(held, success=success, verdict=verdict)
        if relearn:
            self._memory, self._base = self._begins_with.thawed(), 0
            self._learned_successes = 0
            self._seen = {}
            self._size = self.window

    def _over(self, position: int) -> bool:
        """Whether memory may learn from a slot."""
        settled = self._settled.get(position)
        return settled is not None and not (self._waits and _unjudged(settled))

    def _learn(self, settled: _Settled) -> None:
        if not settled.whole:
            return
        self._learned_successes += settled.counts
        if self._remembers:
            if settled.by_person:
                v = settled.verdict
                seen = None if v is None else {"verdict": v.verdict, "at": v.at}
                self._seen[str(settled.start)] = seen
            folder = self.chain.episode(settled.start)
            record = settled.record or read_record(folder)
            learn(self._memory, replace(record, success=settled.success), folder)


def learn(memory: Memory, record: EpisodeRecord, episode_dir: Path) -> None:
    """Add an episode to memory, its start images as files."""
    folder = episode_dir / pictures.IMAGES
    record = record.with_own_labels()
    memory.add(record, {sha: pictures.find(folder, sha) for sha in record.images.values()})


def _settled(
    chain: Chain, loaded: LoadedChain, starts: Sequence[int], retry_invalid: bool
) -> dict[int, _Settled]:
    """What the run directory holds, by position."""
    settled = {e.position: _settle(e) for e in loaded.episodes}
    for start in chain.unfinished_starts() & {e.index for e in loaded.episodes}:
        chain.forget_unfinished(start)
    for start, position in _recorded_invalid(loaded).items() if not retry_invalid else ():
        settled.setdefault(position, _Settled(start, whole=False))
    usual = {start: position for position, start in enumerate(starts)}
    damaged = (d.start for d in loaded.damaged if d.start is not None)
    for start in sorted(damaged, key=lambda s: (usual.get(s, len(usual)), s)):
        free = next(p for p in range(len(settled) + 1) if p not in settled)
        # Where its start stands among those given, unless another stands there.
        position = usual.get(start, free)
        settled[free if position in settled else position] = _Settled(start, whole=False)
    return settled


def _settle(episode: LoadedEpisode) -> _Settled:
    by_person, record = episode.record.success is None, episode.record
    driven = bool(record.human_steps)
    return _Settled(
        episode.index, True, episode.success, by_person, episode.verdict, record, driven
    )


def _unjudged(settled: _Settled) -> bool:
    return settled.whole and settled.success is None and not settled.driven


def _to_run_again(loaded: LoadedChain, settled: Mapping[int, _Settled]) -> dict[int, int]:
    """Position -> start of the attempts that a person judged invalid and nobody ran again."""
    held = {s.start for s in settled.values()}
    again = {_place(a): a.index for a in loaded.invalid if a.verdict}
    return {p: start for p, start in again.items() if start not in held and p not in settled}


def _place(attempt: InvalidAttempt) -> int:
    position = attempt.note.position
    return attempt.index if position is None else position


def _recorded_invalid(loaded: LoadedChain) -> dict[int, int]:
    """Starts whose attempts or dollars are used up, with their positions."""
    counted: dict[int, list[int]] = {}
    held = {e.index for e in loaded.episodes} | {d.start for d in loaded.damaged}
    final: set[int] = set()
    for attempt in loaded.invalid:
        if attempt.note.counts and attempt.index not in held:
            counted.setdefault(attempt.index, []).append(_place(attempt))
            final |= {attempt.index} if attempt.note.final else set()
    over = {start for start, at in counted.items() if len(at) >= ATTEMPTS} | final
    return {start: at[-1] for start, at in counted.items() if start in over}


def counted_attempts(chain: Chain, start: int) -> int:
    """Invalidated attempts at a start that count: those that an error cut short after the model had
    begun to answer.
    """
    count = 0
    for folder in chain.invalid(start):
        with contextlib.suppress(DamagedFile):
            count += read_invalid(folder).note.counts
    return count


def silent_sentence(name: str, record: EpisodeRecord) -> str:
    """Why a chain stops whose model never calls a tool, with the model's own words."""
    said = record.silent.last_words if record.silent is not None else ""
    quoted = f"it said: {' '.join(said.split())!r}" if said else "it said nothing at all"
    advice = (
        "check the model and how its server reads tool calls (capex doctor --model), or turn the"
        " limit off with --silent-decisions 0"
    )
    return (
        f"{record.model} has not made a valid tool call in any episode of {name}; {quoted};"
        f" {advice}"
    )
