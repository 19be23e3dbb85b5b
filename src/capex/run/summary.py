"""An episode in numbers: what chains, status, report, selection and evaluations share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capex.method.record import EndReason, Resumed, Turn
from capex.models import Usage
from capex.pose import Array
from capex.run.accounts import Taken, of_episode
from capex.run.reading import LoadedEpisode
from capex.run.verdicts import Verdict, standing

NO_LABEL = -1
# In the extensions of a student's record: the policy, the source of the instruction's embedding.
STUDENT = "student"
HEARD = "instruction_embedding"
StartKey = tuple[str, str, int, int, str]  # world, task, index, seed, saved state
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
    end: EndReason
    steps: int
    decisions: int
    skipped: int  # decisions that passed without motion
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
    resumed: Resumed | None = None  # where it resumed from a saved state of another one
    messages: int = 0  # of people to the model: it knew more than others
    human_steps: int = 0  # by a person: its outcome is not the model's
    extensions: Mapping[str, Any] = field(default_factory=dict)  # of its record

    @property
    def verdict(self) -> Verdict | None:
        """The verdict that stands."""
        return standing(self.verdicts)

    @property
    def claimed_done(self) -> bool:
        """Whether the model said that it was done: a claim, which decides nothing."""
        return self.end is EndReason.DONE

    @property
    def number(self) -> int:
        """The number of its folder: its start's, or its own where it resumed from a state."""
        return self.start if self.resumed is None else self.resumed.number

    @property
    def key(self) -> StartKey:
        """Equal for episodes of two methods that can be paired: the start, and the saved state
        that they resumed from.
        """
        state = "" if self.resumed is None else self.resumed.state
        return self.world, self.task, self.start, self.seed, state

    @property
    def confidence(self) -> float | None:
        """Mean confidence, calibrated where it is, of the waypoints that got a label."""
        w = self.waypoints
        values = np.where(np.isnan(w.calibrated), w.stated, w.calibrated)[w.label != NO_LABEL]
        known = [float(v) for v in values if not np.isnan(v)]
        return sum(known) / len(known) if known else None


def summarize(episode: LoadedEpisode, run: int = 0) -> Summary:
    """The numbers of an episode, from its saved state on where it resumed from one."""
    record = episode.record.own_part()
    student = record.extensions.get(STUDENT)
    if isinstance(student, Mapping) and HEARD in record.extensions:
        student = {**student, HEARD: record.extensions[HEARD]}
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
        **{name: getattr(record, name) for name in COPIED},
        **amounts(of_episode(episode)),
        decisions=record.decisions,
        skipped=sum(bool(t.skipped_reason) for t in record.turns),
        unix_time=episode.timing.unix_time,
        labels_before=record.labels_before or 0,
        weights=record.weights,
        plans=len(planned),
        truncated=sum(t.committed < len(t.waypoints) for t in planned),
        calls=tuple(t.calls for t in record.turns),
        waypoints=_columns(planned),
        resumed=record.resumed,
        messages=len(record.messages),
        human_steps=record.human_steps,
        extensions=record.extensions,
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
