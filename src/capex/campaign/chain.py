"""A chain: one arm at one task, start after start. Which start comes next, at which place, and what memory it sees.

Places are numbered from 0 in the order of the starts. They fall into rounds of `round_size`; the episodes of a round all see memory as it
was when the round began: what the places before the round left, and nothing else. So a record depends on its place alone, never on how
many workers there were, who finished first, or how often the campaign was killed. A round size of 1 is the paper's algorithm.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from capex import pictures
from capex.errors import CapexError
from capex.memory import Memory
from capex.memory.record import EpisodeRecord, from_json
from capex.store import Chain, read_json

ATTEMPTS = 2  # an invalidated attempt is rerun once


@dataclass(frozen=True)
class Place:
    """A start at its place in the chain."""

    start: int
    position: int


@dataclass(frozen=True)
class _Settled:
    """What became of a place: an episode's record, or nothing where its start was recorded as invalid."""

    start: int
    record: EpisodeRecord | None


class ChainPlan:
    """The order of a chain, as far as it has come. Every answer follows from the run directory and the starts that were asked for."""

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
    ):
        """`remembers`: whether the arm is shown memory. `further`: with `until_successes`, starts below this number follow those given."""
        self.chain, self._round_size, self._remembers = chain, round_size, remembers
        self._until, self._max_starts = until_successes, max_starts
        self._settled = _read_settled(chain, retry_invalid)
        held = {s.start for s in self._settled.values()}
        beyond = range(max(starts, default=-1) + 1, further) if until_successes is not None else ()
        self._free = deque(i for i in (*starts, *beyond) if i not in held)
        self._places: dict[int, int] = {p: s.start for p, s in self._settled.items()}
        self._last_held = max(self._settled, default=-1)
        self._base = 0  # first place of the present round
        self._running: set[int] = set()
        self._memory, self._snapshot = Memory(), Memory().snapshot()
        self._learned_successes = 0
        self._advance()

    @property
    def memory(self) -> Memory:
        """What the present round's episodes are shown; frozen."""
        return self._snapshot

    @property
    def done(self) -> bool:
        """Whether nothing is left to run and nothing is running."""
        return not self._running and not self.ready()

    @property
    def successes(self) -> int:
        """Successes so far, the present round's included."""
        return sum(s.record is not None and s.record.success is True for s in self._settled.values())

    @property
    def invalid(self) -> int:
        """Starts that are recorded as invalid."""
        return sum(s.record is None for s in self._settled.values())

    def ready(self) -> list[Place]:
        """The places of the present round that may run now, in order."""
        if self._reached():
            return []
        open_ = [p for p in self._round() if p not in self._settled and p not in self._running]
        return [Place(self._places[p], p) for p in open_]

    def begin(self, place: Place) -> None:
        """A place is being run."""
        self._running.add(place.position)

    def drop(self, place: Place) -> None:
        """Its run came to nothing; it may run again."""
        self._running.discard(place.position)

    def settle(self, place: Place) -> EpisodeRecord:
        """Its episode is in the run directory."""
        record = _read(self.chain, place.start)
        self._running.discard(place.position)
        self._settled[place.position] = _Settled(place.start, record)
        self._advance()
        return record

    def give_up(self, place: Place) -> None:
        """Its start is recorded as invalid."""
        self._running.discard(place.position)
        self._settled[place.position] = _Settled(place.start, None)
        self._advance()

    def remaining(self) -> int | None:
        """Starts still to run, those running included; None where successes decide."""
        if self._until is not None:
            return None
        return len(self._free) + sum(p not in self._settled for p in self._places)

    def _reached(self) -> bool:
        return self._until is not None and self._learned_successes >= self._until

    def _round(self) -> list[int]:
        """The places of the present round that have a start."""
        found = []
        for position in range(self._base, self._base + self._round_size):
            more = self._free and (self._max_starts is None or len(self._places) < self._max_starts)
            if position not in self._places and more:
                self._places[position] = self._free.popleft()
            if position in self._places:
                found.append(position)
        return found

    def _advance(self) -> None:
        """Let memory learn from every round that is over, in order, and freeze it for the next one."""
        while not self._reached():
            places = self._round()
            if any(p not in self._settled for p in places) or (not places and self._base > self._last_held):
                break
            for position in places:
                self._learn(self._settled[position])
            self._base += self._round_size
        self._snapshot = self._memory.snapshot() if self._remembers else Memory().snapshot()

    def _learn(self, settled: _Settled) -> None:
        if settled.record is None:
            return
        self._learned_successes += settled.record.success is True
        if self._remembers:
            folder = self.chain.episode(settled.start) / pictures.IMAGES
            self._memory.add(settled.record, {sha: pictures.find(folder, sha) for sha in settled.record.images.values()})


def _read_settled(chain: Chain, retry_invalid: bool) -> dict[int, _Settled]:
    """What the run directory holds, by place."""
    found: dict[int, _Settled] = {}
    for index in chain.finished():
        record = _read(chain, index)
        place = int(record.extra.get("position", index))
        if place in found:
            raise CapexError(f"{chain.path} is damaged: the starts {found[place].start} and {index} both stand at place {place}")
        found[place] = _Settled(index, record)
        chain.forget_unfinished(index)
    for start, place in _recorded_invalid(chain).items() if not retry_invalid else ():
        found.setdefault(place, _Settled(start, None))
    return found


def _recorded_invalid(chain: Chain) -> dict[int, int]:
    """Starts whose attempts are used up, with their places."""
    counted: dict[int, list[int]] = {}
    finished = set(chain.finished())
    for folder in chain.invalid():
        record = read_json(folder / "record.json")
        start = record["start"]["index"]
        if record.get("counts") and start not in finished:
            counted.setdefault(start, []).append(int(record["position"]))
    return {start: places[-1] for start, places in counted.items() if len(places) >= ATTEMPTS}


def counted_attempts(chain: Chain, start: int) -> int:
    """Invalidated attempts at a start that count: those that an error cut short after the model had begun to answer."""
    return sum(bool(read_json(folder / "record.json").get("counts")) for folder in chain.invalid(start))


def _read(chain: Chain, index: int) -> EpisodeRecord:
    return from_json(read_json(chain.episode(index) / "record.json"))


def load_memory(chain: Chain, indices: Sequence[int]) -> Memory:
    """What the whole episodes of a chain left, in the order in which they ran."""
    memory = Memory()
    for index in indices:
        record = _read(chain, index)
        folder = chain.episode(index) / pictures.IMAGES
        memory.add(record, {sha: pictures.find(folder, sha) for sha in record.images.values()})
    return memory


def chain_order(chain: Chain) -> list[int]:
    """The starts that a chain holds, in the order in which they ran."""
    place = {index: read_json(chain.episode(index) / "record.json").get("position", index) for index in chain.finished()}
    return sorted(place, key=lambda index: (place[index], index))
