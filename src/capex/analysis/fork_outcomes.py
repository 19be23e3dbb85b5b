"""Forks of one state side by side: what became of each, what became of their origin, and where a
fork parts from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from capex.analysis.fork_origin import SavedState, fork_in
from capex.errors import CapexError
from capex.method.record import EpisodeRecord, Turn, WaypointRecord, from_json
from capex.report.rows import RunData
from capex.report.sources import Source
from capex.run import read_record
from capex.run.files import read_json
from capex.run.summary import Summary

What = Literal["plan", "commitment", "outcome", "end"]


@dataclass(frozen=True)
class Parting:
    """The first difference between a fork and its origin."""

    decision: int
    step: int  # control steps of the episode before that decision
    what: What  # another plan, more or less of it, another course of the same waypoints, an end


@dataclass(frozen=True)
class ForkRow:
    """One fork, or, without a source, what its origin did from the state on."""

    state: SavedState
    source: Source | None
    success: bool | None
    steps: int
    decisions: int
    requests: int
    parting: Parting | None = None  # None: the same course to the end
    compared: bool = True  # whether the origin's record was there to compare with
    episode: Summary | None = None


def fork_rows(data: RunData, sources: Sequence[Source]) -> dict[SavedState, list[ForkRow]]:
    """Every state that was forked: its origin first, where its record is at hand, then the forks
    of each source.
    """
    rows: dict[SavedState, list[ForkRow]] = {}
    for source in sources:
        for episode in source.episodes:
            if (fork := fork_in(episode.extensions)) is None:
                continue
            state = fork.origin
            origin = _origin(data.runs[episode.run].path, state)
            if state not in rows:
                rows[state] = [] if origin is None else [_origin_row(state, origin)]
            parting = None if origin is None else parting_of(origin, episode, fork.decision - 1)
            amounts = episode.success, episode.steps, episode.decisions, episode.requests
            rows[state].append(
                ForkRow(state, source, *amounts, parting, origin is not None, episode)
            )
    return dict(sorted(rows.items()))


def _origin(run: Path, state: SavedState) -> EpisodeRecord | None:
    try:
        return from_json(read_json(run / state.record_name))
    except (CapexError, OSError, KeyError, TypeError, ValueError, AttributeError):
        return None


def _origin_row(state: SavedState, origin: EpisodeRecord) -> ForkRow:
    rest = origin.turns[state.decision - 1 :]
    steps = origin.steps - (rest[0].step if rest else origin.steps)
    requests = sum(turn.calls for turn in rest)
    return ForkRow(state, None, origin.success, steps, len(rest), requests)


def parting_of(origin: EpisodeRecord, episode: Summary, first: int) -> Parting | None:
    """The decision at which a fork parts from its origin; `first`: how many they share."""
    fork = read_record(episode.path)
    for a, b in zip(origin.turns[first:], fork.turns[first:], strict=False):
        if what := _difference(a, b):
            return Parting(a.decision, a.step, what)
    if len(origin.turns) != len(fork.turns):
        longer = max(origin.turns, fork.turns, key=len)
        turn = longer[min(len(origin.turns), len(fork.turns))]
        return Parting(turn.decision, turn.step, "end")
    return None


def _difference(a: Turn, b: Turn) -> What | None:
    if [w.waypoint for w in a.waypoints] != [w.waypoint for w in b.waypoints]:
        return "plan"
    if a.committed != b.committed:
        return "commitment"
    return None if list(map(_course, a.waypoints)) == list(map(_course, b.waypoints)) else "outcome"


def _course(row: WaypointRecord) -> tuple[object, ...]:
    return row.status, row.report, row.steps, row.tips
