"""The record of an attempt: its decisions, written to record.json and read back for memory and the
calibrator.

Metres and radians in the base frame of the moment; Euler orientations in degrees, as requested.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal

import numpy as np

from capex import codec
from capex.codec import Amount, Count, Probability
from capex.method.executor import Outcome
from capex.method.motion import GripperResult
from capex.models import LedgerTotals
from capex.plan import Waypoint, WaypointStatus
from capex.pose import Pose, quaternion_matrix, quaternion_xyzw
from capex.worlds import Env, Start

Triple = tuple[float, float, float]


class EndReason(StrEnum):
    """Why an episode ended."""

    SUCCESS = "success"
    HORIZON = "horizon"
    SILENT = "silent"  # decisions in a row without a valid tool call
    DECISIONS = "decisions"
    STEPS = "steps"
    COST = "cost"
    TIME = "time"
    DONE = "done"  # the model's claim, which decides nothing
    OPERATOR = "operator"
    RECORDED = "recorded"  # the recording ended
    ERROR = "error"  # the simulator diverged under a student
    UNKNOWN = ""


@dataclass(frozen=True)
class LocatedPoint:
    """A grounded pixel: where the surface was, in the base frame at that time, or a sentence why
    not.
    """

    camera: str
    u: float
    v: float
    position_m: Triple | None
    text: str = ""


@dataclass(frozen=True)
class TipPose:
    """Where a tip was, in the base frame."""

    position_m: Triple
    quaternion_xyzw: tuple[float, float, float, float]

    @classmethod
    def of(cls, pose: Pose) -> TipPose:
        """A pose as a record holds it."""
        x, y, z, w = (float(v) for v in quaternion_xyzw(pose.rotation))
        return cls(_triple(pose.position_m), (x, y, z, w))

    @property
    def pose(self) -> Pose:
        """As a pose."""
        return Pose(np.array(self.position_m), quaternion_matrix(np.array(self.quaternion_xyzw)))


@dataclass(frozen=True)
class WaypointRecord:
    """One requested waypoint with its stated and calibrated confidence and its outcome."""

    waypoint: Waypoint  # stated confidence included
    status: WaypointStatus
    report: str
    label: Literal[0, 1] | None
    steps: Count
    calibrated: Probability | None = None
    # the calibrator's input; None where a waypoint has no motion or no confidence
    features: tuple[float, ...] | None = None
    # by arm, the target after clamping
    clamped_m: Mapping[str, Triple] = field(default_factory=dict)
    tips: Mapping[str, TipPose] = field(default_factory=dict)  # by arm, afterwards
    base_moved: Triple | None = None
    # by arm whose gripper command ran and was not skipped
    grippers: Mapping[str, GripperResult] = field(default_factory=dict)


@dataclass(frozen=True)
class Turn:
    """One decision: its model calls, located points, plan, committed prefix and outcomes."""

    decision: Count  # from 1
    step: Count  # control steps used before it
    calls: Count  # model replies in this decision
    waypoints: tuple[WaypointRecord, ...]
    committed: Count
    located: tuple[LocatedPoint, ...] = ()
    base: Triple | None = None  # x, y, yaw on the floor when the plan began
    reasoning: str = ""
    notes: str = ""  # for the model's next decisions, by the model
    repairs: tuple[str, ...] = ()
    skipped_reason: str = ""  # why the decision passed without motion, if it did

    @property
    def silent(self) -> bool:
        """Whether the decision counts as one without a valid tool call."""
        return bool(self.skipped_reason) and not self.waypoints and not self.located


@dataclass(frozen=True)
class Silence:
    """Why an episode ended without valid tool calls, and the model's last words."""

    reason: str
    last_words: str


@dataclass(frozen=True)
class Resumed:
    """The episode continues from a saved state of another one, whose decisions come first."""

    number: Count  # of the episode's folder
    state: str  # names the state; equal states can be paired
    decisions: Count  # made before the state
    steps: Count  # control steps before the state


@dataclass(frozen=True)
class Message:
    """A person's message to the model."""

    decision: Count  # the first one that saw it
    text: str
    by: str


@dataclass(frozen=True, kw_only=True)
class EpisodeRecord:
    """A whole attempt. Fields in the order of record.json."""

    task: str
    arm: str
    start: Count
    seed: Count
    model: str
    success: bool | None
    steps: Count
    decisions: Count = 0  # those that passed without motion included
    requests: Count = 0
    cost_usd: Amount | None = None
    world: str
    instruction: str
    horizon: Count
    scene: str = ""  # starts with equal scenes share the kitchen
    end: EndReason = EndReason.UNKNOWN
    stand_in: bool = False
    position: Count | None = None  # slot in the chain's order
    images: Mapping[str, str] = field(default_factory=dict)  # exterior camera -> sha256 at start
    labels_before: Count | None = None  # that the calibrator had learned from
    weights: tuple[float, ...] | None = None
    prior_mean: tuple[float, ...] | None = None
    ledger: LedgerTotals | None = None
    silent: Silence | None = None
    verdicts_seen: Mapping[str, str | None] | None = None  # by start, that memory learned from
    recorded: bool = False  # a person's recording: of each state only what was recorded
    human_steps: Count = 0  # control steps that a person drove
    messages: tuple[Message, ...] = ()
    resumed: Resumed | None = None
    extensions: Mapping[str, Any] = field(default_factory=dict)  # fields of extensions, by name
    turns: tuple[Turn, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """record.json, without the optional fields that say nothing."""
        data: dict[str, Any] = codec.to_json(self)
        return {k: v for k, v in data.items() if k not in OPTIONAL or v != OPTIONAL[k]}

    def own_part(self) -> EpisodeRecord:
        """The record from its saved state on, where it resumed from one."""
        if self.resumed is None:
            return self
        own = self.turns[self.resumed.decisions :]
        steps = self.steps - self.resumed.steps
        return replace(self, turns=own, decisions=len(own), steps=steps)

    def with_own_labels(self) -> EpisodeRecord:
        """The record without the labels of decisions before its saved state, which would count
        twice.
        """
        if self.resumed is None:
            return self
        before = self.resumed.decisions
        turns = [
            replace(t, waypoints=tuple(replace(w, label=None) for w in t.waypoints))
            for t in self.turns[:before]
        ]
        return replace(self, turns=(*turns, *self.turns[before:]))


# Fields that are left out of record.json where they have these values.
OPTIONAL: dict[str, Any] = {
    **dict.fromkeys(("prior_mean", "silent", "verdicts_seen", "resumed")),
    "recorded": False,
    "human_steps": 0,
    "messages": [],
    "extensions": {},
}


def from_json(data: Any) -> EpisodeRecord:
    """Read record.json back; ValueError where something is missing or would corrupt a statistic."""
    record = codec.from_json(data, EpisodeRecord)
    begun = record.resumed
    if begun is not None and (begun.decisions > len(record.turns) or begun.steps > record.steps):
        raise ValueError(f"it resumed after decision {begun.decisions} of {len(record.turns)}")
    return record


def record_episode(
    env: Env, start: Start, images: Mapping[str, bytes], **known: Any
) -> EpisodeRecord:
    """The record of an attempt: the fields that the world knows, and those given. `images` are all
    of the start, PNG by camera; the exterior ones are named.
    """
    spec = env.spec
    exterior = {camera.name for camera in spec.cameras if camera.kind == "exterior"}
    of_world: dict[str, Any] = {
        "world": spec.world,
        "task": spec.task,
        "start": start.index,
        "seed": start.seed,
        "instruction": env.instruction,
        "horizon": spec.horizon,
        "scene": env.scene,
        "images": {n: hashlib.sha256(p).hexdigest() for n, p in images.items() if n in exterior},
    }
    known.setdefault("decisions", len(known.get("turns", ())))
    return EpisodeRecord(**(of_world | known))


def record_waypoints(
    waypoints: Sequence[Waypoint],
    outcomes: Sequence[Outcome],
    calibrated: Sequence[float | None] | None = None,
    features: Sequence[Sequence[float] | None] | None = None,
) -> tuple[WaypointRecord, ...]:
    """Join requested waypoints with their outcomes."""
    rows = []
    for k, (waypoint, outcome) in enumerate(zip(waypoints, outcomes, strict=True)):
        chosen = features[k] if features is not None else None
        rows.append(
            WaypointRecord(
                waypoint=waypoint,
                status=outcome.status,
                report=outcome.report,
                label=outcome.label,
                steps=outcome.steps,
                calibrated=calibrated[k] if calibrated is not None else None,
                features=tuple(float(v) for v in chosen) if chosen is not None else None,
                clamped_m={n: _triple(t.position_m) for n, t in outcome.targets.items()},
                tips={n: TipPose.of(p) for n, p in outcome.tips.items()},
                base_moved=outcome.base_moved,
                grippers=dict(outcome.grippers),
            )
        )
    return tuple(rows)


def past_outcome(row: WaypointRecord) -> Outcome:
    """The outcome of a recorded waypoint, as far as later decisions depend on it."""
    return Outcome(
        row.status,
        row.report,
        row.label,
        row.steps,
        {},
        {name: tip.pose for name, tip in row.tips.items()},
        base_moved=row.base_moved,
        grippers=row.grippers,
    )


def _triple(values: Any) -> tuple[float, float, float]:
    x, y, z = values
    return (float(x), float(y), float(z))
