"""Forks: episodes that go on from a saved state of another one. Which state that was, how it is
written, and what a record says of it.

A fork's folder is numbered by state and repetition, not by its start: forks of one state share
the start. Its record holds the decisions of its origin up to the state, and its steps begin at the
start, so that it is a whole episode to whoever plays it back; what is counted begins at the state.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from capex.errors import CapexError
from capex.method.record import EpisodeRecord, require_count

KEY = "fork"  # in a record
ORIGINS = "origins"  # the records of the episodes that were forked, in the run of their forks
TIMES_MAX = 1000  # forks of one state
FORM = "CHAIN/EPISODE@DECISION, for example kitchen--CloseFridge--capex/7@3"


@dataclass(frozen=True, order=True)
class SavedState:
    """The world before a decision of an episode."""

    chain: str  # WORLD--TASK--ARM
    episode: int
    decision: int  # from 1

    def __str__(self) -> str:
        return f"{self.chain}/{self.episode}@{self.decision}"

    @property
    def record_name(self) -> str:
        """Where the run of its forks keeps the record of its episode."""
        return f"{ORIGINS}/{self.chain}/{self.episode:04d}.json"


def parse_state(text: str) -> SavedState:
    """A state as a user writes it; the path of an episode's folder will do for CHAIN/EPISODE."""
    found = re.fullmatch(r"(?:.*/)?([^/]+)/(?:episodes/)?(\d+)@(\d+)", text.strip())
    if found is None or int(found[3]) < 1:
        raise CapexError(f"'{text}' names no state; write {FORM}, where decisions count from 1")
    return SavedState(found[1], int(found[2]), int(found[3]))


@dataclass(frozen=True)
class Fork:
    """Which state an episode goes on from, and which of its forks it is."""

    run: str  # the name of the run that holds the state
    chain: str
    episode: int
    decision: int
    step: int  # control steps before the state
    state: int  # the state's number in the run of its forks, from 0
    repetition: int  # from 0
    seed: int  # how far the model's own seed is shifted

    @property
    def number(self) -> int:
        """The number of its folder."""
        return fork_number(self.state, self.repetition)

    @property
    def origin(self) -> SavedState:
        """Where it goes on from."""
        return SavedState(self.chain, self.episode, self.decision)

    def as_json(self) -> dict[str, Any]:
        """As a record holds it."""
        return asdict(self)


def fork_number(state: int, repetition: int) -> int:
    """Of a fork's folder: more repetitions and more states leave those that exist as they are."""
    return TIMES_MAX * state + repetition


def fork_of(record: EpisodeRecord) -> Fork | None:
    """Of a fork where it goes on from; None for any other episode. ValueError, KeyError or
    TypeError where that is garbled.
    """
    told = record.extra.get(KEY)
    return None if told is None else read_fork(told, record)


def read_fork(told: Mapping[str, Any], record: EpisodeRecord) -> Fork:
    """What a record says of its origin, checked."""
    fork = Fork(**{name: told[name] for name in Fork.__dataclass_fields__})
    for name in ("run", "chain"):
        value = getattr(fork, name)
        if not isinstance(value, str) or not value or Path(value).name != value:
            raise ValueError(f"the {name} of a fork is {str(value)[:80]!r}; a name is right")
    for name in ("episode", "decision", "step", "state", "repetition", "seed"):
        require_count(f"{name} of a fork", getattr(fork, name))
    if not 1 <= fork.decision <= max(1, len(record.turns) + 1) or fork.step > record.steps:
        raise ValueError(f"it is a fork at decision {fork.decision} of {len(record.turns)}")
    return fork


def own_part(record: EpisodeRecord) -> EpisodeRecord:
    """The record of a fork from its state on; any other record as it is."""
    fork = fork_of(record)
    if fork is None:
        return record
    return replace(record, turns=record.turns[fork.decision - 1 :], steps=record.steps - fork.step)


def with_own_labels(record: EpisodeRecord) -> EpisodeRecord:
    """The record of a fork without the labels of its origin's waypoints, which all forks of a state
    would repeat; any other record as it is.
    """
    fork = fork_of(record)
    if fork is None:
        return record
    turns = [
        replace(t, waypoints=tuple(replace(w, label=None) for w in t.waypoints))
        for t in record.turns[: fork.decision - 1]
    ]
    return replace(record, turns=(*turns, *record.turns[fork.decision - 1 :]))


def find_state(run: Path, state: SavedState) -> Path:
    """The folder of a state's episode in a run, or a sentence."""
    chains = run / "chains"
    if not (chains / state.chain).is_dir():
        known = sorted(p.name for p in chains.iterdir() if p.is_dir()) if chains.is_dir() else []
        raise CapexError(f"{run} has no chain {state.chain}; it has {', '.join(known) or 'none'}")
    folder = chains / state.chain / "episodes" / f"{state.episode:04d}"
    if not folder.is_dir():
        held = sorted(int(p.name) for p in folder.parent.glob("[0-9]*"))
        raise CapexError(
            f"{state.chain} of {run} has no episode {state.episode}; it has"
            f" {', '.join(map(str, held[:20])) or 'none'}{' and more' if len(held) > 20 else ''}"
        )
    return folder
