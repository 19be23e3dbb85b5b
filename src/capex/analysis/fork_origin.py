"""Forks: episodes that continue from a saved state of another one; how a state is written, and its
place in a record.

A fork's folder is numbered by state and repetition, not by its start: forks of one state share
the start. Its record holds the decisions of its origin up to the state, and its steps begin at the
start, so that it can be played back whole; numbers count from the state on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capex import codec
from capex.codec import Count
from capex.errors import CapexError, ErrorCode
from capex.method.record import EpisodeRecord, Resumed

KEY = "fork"  # in the extensions of a record
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
        raise CapexError(
            f"'{text}' names no state; write {FORM}, where decisions count from 1",
            code=ErrorCode.BAD_SETTING,
        )
    return SavedState(found[1], int(found[2]), int(found[3]))


@dataclass(frozen=True)
class Fork:
    """Which state an episode goes on from, and which of its forks it is."""

    run: str  # the name of the run that holds the state
    chain: str
    episode: Count
    decision: Count
    step: Count  # control steps before the state
    state: Count  # the state's number in the run of its forks, from 0
    repetition: Count  # from 0
    seed: Count  # how far the model's own seed is shifted

    @property
    def number(self) -> int:
        """The number of its folder."""
        return fork_number(self.state, self.repetition)

    @property
    def origin(self) -> SavedState:
        """Where it goes on from."""
        return SavedState(self.chain, self.episode, self.decision)

    @property
    def resumed(self) -> Resumed:
        """As the core knows it."""
        state = f"{self.origin}#{self.repetition:03d}"
        return Resumed(self.number, state, self.decision - 1, self.step)


def fork_number(state: int, repetition: int) -> int:
    """Of a fork's folder: more repetitions and more states leave those that exist as they are."""
    return TIMES_MAX * state + repetition


def fork_in(extensions: Mapping[str, Any]) -> Fork | None:
    """The fork among the extensions of a record or summary; None where there is none, or where it
    is garbled: run and chain must be names, not paths.
    """
    try:
        fork = codec.from_json(extensions.get(KEY), Fork)
    except ValueError:
        return None
    named = all(value and Path(value).name == value for value in (fork.run, fork.chain))
    return fork if named else None


def fork_of(record: EpisodeRecord) -> Fork | None:
    """Of a fork, the state that it continues from; None for any other episode."""
    return fork_in(record.extensions)


def find_state(run: Path, state: SavedState) -> Path:
    """The folder of a state's episode in a run, or a sentence."""
    chains = run / "chains"
    if not (chains / state.chain).is_dir():
        known = sorted(p.name for p in chains.iterdir() if p.is_dir()) if chains.is_dir() else []
        raise CapexError(
            f"{run} has no chain {state.chain}; it has {', '.join(known) or 'none'}",
            code=ErrorCode.NOT_FOUND,
        )
    folder = chains / state.chain / "episodes" / f"{state.episode:04d}"
    if not folder.is_dir():
        held = sorted(int(p.name) for p in folder.parent.glob("[0-9]*"))
        raise CapexError(
            f"{state.chain} of {run} has no episode {state.episode}; it has"
            f" {', '.join(map(str, held[:20])) or 'none'}{' and more' if len(held) > 20 else ''}",
            code=ErrorCode.NOT_FOUND,
        )
    return folder
