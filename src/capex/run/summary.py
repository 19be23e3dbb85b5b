"""An episode in numbers: what chains, status, report, selection and evaluations share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capex.analysis.fork_origin import Fork, own_part
from capex.method.record import Turn
from capex.models import Usage
from capex.operators.inbox import IN_RECORD
from capex.pose import Array
from capex.run.accounts import Taken, of_episode
from capex.run.reading import LoadedEpisode
from capex.run.verdicts import Verdict, standing

NO_LABEL = -1
# In a student's record, beside what is known of it: how it came by the instruction's embedding.
HEARD = "instruction_embedding"
StartKey = tuple[str, str, int, int, str]  # world, task, index, seed, state of a fork
# Known, and at most: requests that may have been billed count with their worst case.
DollarSpan = tuple[float, float]
# From the record to its summary.
COPIED = (
    *("world", "task", "arm", "model", "stand_in", "start", "seed"),
    *("end", "steps", "cost_usd", "instruction"),
)


@dataclass(frozen=True, slots=True)
class WaypointColumns:
    """All waypoints of an episode's plans in order, as columns (n,)."""

    plan: npt.NDArray[np.int32]  # which plan of the episode, from 0
    place: npt.NDArray[np.int32]  # k, from 1
    stated: Array  # nan where none was stated
    calibrated: Array  # as predicted before the episode; nan where nothing was
    committed: npt.NDArray[np.bool_]  # whether it was committed to
    label: npt.NDArray[np.int8]  # 1, 0 or NO_LABEL


@dataclass(frozen=True, slots=True)
class Summary:
    """One whole attempt, without its words and arrays."""

    chain: str  # WORLD--TASK--ARM
    path: Path
    world: str
    task: str
    arm: str
    model: str
    stand_in: bool
    start: int
    seed: int
    position: int  # slot in the chain's order
    success: bool | None  # that counts: by the world or by a verdict
    end: str
    steps: int
    decisions: int
    spent: int  # decisions that passed without motion
    requests: int
    wire_attempts: int  # requests with their retries
    cost_usd: float | None  # as recorded; None where part of it is not known
    usd: DollarSpan | None  # None where there is no price
    tokens: Usage | None
    seconds: float
    unix_time: float | None
    instruction: str
    labels_before: int
    weights: tuple[float, ...] | None
    plans: int
    truncated: int
    calls: tuple[int, ...]  # replies that each decision took
    waypoints: WaypointColumns
    student: Mapping[str, Any] | None  # what is known of the trained policy that acted, if one did
    run: int = 0  # index of its run, where several are read together
    by_person: bool = False  # whether a person judges it, not the world
    verdicts: tuple[Verdict, ...] = ()  # of people, oldest first
    # By start, which verdict its memory had learned from; None where the world judges, or there is
    # no memory.
    verdicts_seen: Mapping[str, Any] = field(default_factory=dict)
    rig: Mapping[str, Any] | None = None  # of a rig: clock, lateness, what the guard did
    fork: Fork | None = None  # where it goes on from, if it is one
    words_said: int = 0  # by the operator to the model: it was told what others were not
    driven_steps: int = 0  # by a person who took the attempt over: its outcome is not the model's

    @property
    def verdict(self) -> Verdict | None:
        """The verdict that stands."""
        return standing(self.verdicts)

    @property
    def claimed_done(self) -> bool:
        """Whether the model said that it was done: a claim, which decides nothing."""
        return self.end == "done"

    @property
    def number(self) -> int:
        """The number of its folder: its start's, of a fork its own."""
        return self.start if self.fork is None else self.fork.number

    @property
    def key(self) -> StartKey:
        """What two methods must share to be paired: the start, of forks the state and which
        repetition it is.
        """
        state = "" if self.fork is None else f"{self.fork.origin}#{self.fork.repetition:03d}"
        return self.world, self.task, self.start, self.seed, state

    @property
    def confidence(self) -> float | None:
        """Mean confidence, calibrated where it is, of the waypoints that got a label."""
        w = self.waypoints
        values = np.where(np.isnan(w.calibrated), w.stated, w.calibrated)[w.label != NO_LABEL]
        known = [float(v) for v in values if not np.isnan(v)]
        return sum(known) / len(known) if known else None


def summarize(episode: LoadedEpisode, run: int = 0) -> Summary:
    """The numbers of an episode; of a fork those from its state on."""
    record, extra = own_part(episode.record), episode.record.extra
    weights, student = extra.get("weights"), extra.get("student")
    if isinstance(student, Mapping) and HEARD in extra:
        student = {**student, HEARD: extra[HEARD]}
    planned = [t for t in record.turns if t.waypoints]
    return Summary(
        run=run,
        path=episode.path,
        chain=episode.chain,
        position=episode.position,
        success=episode.success,
        by_person=record.success is None,
        verdicts=episode.verdicts,
        verdicts_seen=episode.verdicts_seen,
        rig=extra.get("rig"),
        **{name: getattr(record, name) for name in COPIED},
        **amounts(of_episode(episode)),
        decisions=len(record.turns),
        spent=sum(bool(t.spent) for t in record.turns),
        unix_time=episode.timing.get("unix_time"),
        labels_before=int(extra.get("labels_before", 0)),
        weights=None if weights is None else tuple(float(w) for w in weights),
        plans=len(planned),
        truncated=sum(t.committed < len(t.waypoints) for t in planned),
        calls=tuple(t.calls for t in record.turns),
        waypoints=_columns(planned),
        fork=episode.fork,
        words_said=len(extra.get(IN_RECORD) or ()),
        driven_steps=record.driven_steps,
        student=student if isinstance(student, Mapping) else None,
    )


def amounts(taken: Taken) -> dict[str, Any]:
    """What an attempt took, as a summary's fields."""
    return {
        "requests": taken.requests,
        "wire_attempts": taken.attempts,
        "usd": None if taken.usd is None else (float(taken.usd[0]), float(taken.usd[1])),
        "tokens": taken.tokens,
        "seconds": taken.seconds,
    }


def _columns(planned: Sequence[Turn]) -> WaypointColumns:
    waypoints = [w for turn in planned for w in turn.waypoints]
    places = [(i, k + 1) for i, turn in enumerate(planned) for k in range(len(turn.waypoints))]
    labels = [NO_LABEL if w.label is None else w.label for w in waypoints]
    return WaypointColumns(
        plan=np.array([i for i, _ in places], dtype=np.int32),
        place=np.array([k for _, k in places], dtype=np.int32),
        stated=np.array([w.waypoint.confidence for w in waypoints], dtype=np.float64),
        calibrated=np.array([w.calibrated for w in waypoints], dtype=np.float64),
        committed=np.array([k <= planned[i].committed for i, k in places], dtype=np.bool_),
        label=np.array(labels, dtype=np.int8),
    )
