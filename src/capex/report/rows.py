"""The report's rows: one per episode, one per attempt that cost something and is no episode. Knows
nothing of tables, figures or pages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capex.method.record import Turn
from capex.models import Usage
from capex.pose import Array
from capex.run import InvalidAttempt, LoadedChain, LoadedEpisode, Origin
from capex.run.accounts import Taken, of_episode

NO_LABEL = -1
StartKey = tuple[str, str, int, int]  # world, task, index, seed
# Known, and at most: requests that may have been billed count with their worst case.
Dollars = tuple[float, float]
# From the record to an episode's row.
COPIED = (
    *("world", "task", "arm", "model", "stand_in", "start", "seed"),
    *("success", "end", "steps", "cost_usd", "instruction"),
)


@dataclass(frozen=True, slots=True)
class Waypoints:
    """All waypoints of an episode's plans in order, as columns (n,)."""

    plan: npt.NDArray[np.int32]  # which plan of the episode, from 0
    place: npt.NDArray[np.int32]  # k, from 1
    stated: Array  # nan where none was stated
    calibrated: Array  # as predicted before the episode; nan where nothing was
    label: npt.NDArray[np.int8]  # 1, 0 or NO_LABEL


@dataclass(frozen=True, slots=True)
class EpisodeRow:
    """One whole attempt."""

    run: int  # index into RunData.runs
    path: Path
    chain: str
    world: str
    task: str
    arm: str
    model: str
    stand_in: bool
    start: int
    seed: int
    position: int  # place in the chain's order
    success: bool | None
    end: str
    steps: int
    decisions: int
    spent: int  # decisions that passed without motion
    requests: int
    wire_attempts: int  # requests with their retries
    cost_usd: float | None  # as recorded; None where part of it is not known
    usd: Dollars | None  # None where there is no price
    tokens: Usage | None
    seconds: float
    unix_time: float | None
    instruction: str
    labels_before: int
    weights: tuple[float, ...] | None
    plans: int
    truncated: int
    calls: tuple[int, ...]  # replies that each decision took
    waypoints: Waypoints
    student: Mapping[str, Any] | None  # what is known of the trained policy that acted, if one did

    @property
    def key(self) -> StartKey:
        """What two arms must share to be paired."""
        return self.world, self.task, self.start, self.seed


@dataclass(frozen=True, slots=True)
class CostRow:
    """What was paid for and is no episode: an attempt that an error invalidated, or, without an
    error, what attempts at a start took that left no record. Whatever a later attempt took over is
    counted there.
    """

    run: int
    chain: str
    world: str
    task: str
    arm: str
    model: str
    stand_in: bool
    start: int
    error: str  # empty for what left no record
    requests: int
    wire_attempts: int
    usd: Dollars | None
    tokens: Usage | None
    seconds: float
    unix_time: float | None


@dataclass(frozen=True)
class RunInfo:
    """A run directory and what its manifest says; settings are None where it cannot be read."""

    name: str
    path: Path
    given: Path  # as the user wrote it
    settings: Mapping[str, Any] | None
    manifest: Mapping[str, Any]
    # for episodes that a fork began with: the run that made them, as its manifest tells
    inherited: Origin | None = None

    def arm(self, name: str) -> Mapping[str, Any]:
        """The settings of an arm as the manifest has them; empty where it does not say."""
        arms = (self.settings or {}).get("arms", {})
        found = arms.get(name, {}) if isinstance(arms, Mapping) else {}
        return found if isinstance(found, Mapping) else {}


@dataclass
class RunData:
    """Everything that the given runs hold."""

    runs: list[RunInfo] = field(default_factory=list)
    episodes: list[EpisodeRow] = field(default_factory=list)
    invalid: list[CostRow] = field(default_factory=list)
    lost: list[CostRow] = field(default_factory=list)  # what left no record
    problems: list[str] = field(default_factory=list)  # what is missing or unreadable: sentences
    origins: list[str] = field(default_factory=list)  # where the episodes of forks come from

    def place(self, episode: EpisodeRow) -> Path:
        """Where an episode lies, under the name by which the user knows its run."""
        run = self.runs[episode.run]
        return run.given / episode.path.relative_to(run.path)


def episode_row(found: LoadedEpisode, run: int) -> EpisodeRow:
    """A record, reduced to what the report counts."""
    record, extra = found.record, found.record.extra
    weights, student = extra.get("weights"), extra.get("student")
    planned = [t for t in record.turns if t.waypoints]
    return EpisodeRow(
        run=run,
        path=found.path,
        chain=found.chain,
        position=found.position,
        **{name: getattr(record, name) for name in COPIED},
        **_amounts(of_episode(found)),
        decisions=len(record.turns),
        spent=sum(bool(t.spent) for t in record.turns),
        unix_time=found.timing.get("unix_time"),
        labels_before=int(extra.get("labels_before", 0)),
        weights=None if weights is None else tuple(float(w) for w in weights),
        plans=len(planned),
        truncated=sum(t.committed < len(t.waypoints) for t in planned),
        calls=tuple(t.calls for t in record.turns),
        waypoints=_waypoints(planned),
        student=student if isinstance(student, Mapping) else None,
    )


def _waypoints(planned: Sequence[Turn]) -> Waypoints:
    rows = [
        (i, k, w) for i, turn in enumerate(planned) for k, w in enumerate(turn.waypoints, start=1)
    ]
    return Waypoints(
        plan=np.array([i for i, _, _ in rows], dtype=np.int32),
        place=np.array([k for _, k, _ in rows], dtype=np.int32),
        stated=np.array([w.waypoint.confidence for _, _, w in rows], dtype=np.float64),
        calibrated=np.array([w.calibrated for _, _, w in rows], dtype=np.float64),
        label=np.array(
            [NO_LABEL if w.label is None else w.label for _, _, w in rows], dtype=np.int8
        ),
    )


def cost_row(
    start: int,
    taken: Taken,
    chain: LoadedChain,
    run: int,
    info: RunInfo,
    attempt: InvalidAttempt | None = None,
) -> CostRow:
    """What an invalidated attempt took, or, without one, what attempts took that left no record."""
    note = attempt.record if attempt is not None else {}
    models = [
        *(e.record.model for e in chain.episodes),
        *(a.record.get("model") for a in chain.invalid),
        (info.settings or {}).get("model"),
    ]
    return CostRow(
        run=run,
        chain=chain.name,
        world=chain.world,
        task=chain.task,
        arm=chain.arm,
        model=str(note.get("model") or next(filter(None, models), "")),
        stand_in=bool(note.get("stand_in", info.manifest.get("stand_in"))),
        start=start,
        error=attempt.error if attempt is not None else "",
        unix_time=attempt.timing.get("unix_time") if attempt is not None else None,
        **_amounts(taken),
    )


def _amounts(taken: Taken) -> dict[str, Any]:
    return {
        "requests": taken.requests,
        "wire_attempts": taken.attempts,
        "usd": None if taken.usd is None else (float(taken.usd[0]), float(taken.usd[1])),
        "tokens": taken.tokens,
        "seconds": taken.seconds,
    }
