"""What an attempt leaves behind: the record of its decisions, written to record.json and read back
for memory and the calibrator.

Metres and radians in the base frame of the moment; Euler orientations in degrees, as requested.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from capex.method.codec import INLINE, decoder, encoder
from capex.method.executor import Outcome
from capex.plan import Waypoint
from capex.pose import Pose, quaternion_matrix, quaternion_xyzw
from capex.worlds import Env, Start
from capex.worlds.robots import rig_notes

TAKEOVERS = "takeovers"  # where a record says which of its steps a person drove


@dataclass(frozen=True)
class LocatedPoint:
    """A grounded pixel: where the surface was, in the base frame at that time, or a sentence why
    not.
    """

    camera: str
    u: float
    v: float
    position_m: tuple[float, float, float] | None
    text: str = ""


@dataclass(frozen=True)
class WaypointRecord:
    """One requested waypoint with what was stated, predicted and what became of it."""

    waypoint: Waypoint  # stated confidence included
    status: str
    report: str
    label: Literal[0, 1] | None
    steps: int
    calibrated: float | None = None
    # what the calibrator saw; None where a waypoint has no motion or no confidence
    features: tuple[float, ...] | None = None
    # by arm, where it was really sent
    clamped_m: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)
    # by arm, position_m and quaternion_xyzw afterwards
    tips: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    base_moved: tuple[float, float, float] | None = None


@dataclass(frozen=True)
class Turn:
    """One decision: how many model calls it took, what it located, the plan, how much was
    committed, the outcomes.
    """

    decision: int  # from 1
    step: int  # control steps used before it
    calls: int  # model replies in this decision
    waypoints: tuple[WaypointRecord, ...]
    committed: int
    located: tuple[LocatedPoint, ...] = ()
    base: tuple[float, float, float] | None = None  # x, y, yaw on the floor when the plan began
    reasoning: str = ""
    mended: tuple[str, ...] = ()
    spent: str = ""  # why the decision passed without motion, if it did


@dataclass(frozen=True)
class EpisodeRecord:
    """A whole attempt."""

    world: str
    task: str
    arm: str
    start: int
    seed: int
    model: str
    success: bool | None
    steps: int
    requests: int
    cost_usd: float | None
    instruction: str
    horizon: int
    turns: tuple[Turn, ...]
    scene: str = ""  # starts with equal scenes share the kitchen
    end: str = ""  # success, horizon, silent, decisions, steps, cost, time, done, operator
    error: str | None = None
    images: Mapping[str, str] = field(default_factory=dict)  # exterior camera -> sha256 at start
    stand_in: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)  # ledger totals and settings

    @property
    def decisions(self) -> int:
        """How many there were, those that passed without motion included."""
        return len(self.turns)

    @property
    def driven_steps(self) -> int:
        """Control steps that a person drove, of those within a model's attempt."""
        return sum(int(row["steps"]) for row in self.extra.get(TAKEOVERS, ()))

    @property
    def start_with_seed(self) -> dict[str, int]:
        """The start as record.json names it."""
        return {"index": self.start, "seed": self.seed}

    def as_json(self) -> dict[str, Any]:
        """record.json; the first keys are the ones a reader wants first."""
        data: dict[str, Any] = _encode(self)
        return data


# The keys of record.json, whose names and order are frozen.
_PARTS = {
    Turn: "decision step calls committed base reasoning mended spent located waypoints",
    WaypointRecord: "*=waypoint calibrated features status report label steps clamped=clamped_m"
    " tips base_moved",
    Waypoint: "targets base stated=confidence",
}
_WHOLE = (
    "task arm start=start_with_seed model success steps decisions requests cost_usd world"
    " instruction horizon scene end error stand_in images *=extra turns"
)
_KEYS = frozenset(word.partition("=")[0] for word in _WHOLE.split()) - {INLINE}
_encode = encoder(EpisodeRecord, {**_PARTS, EpisodeRecord: _WHOLE})
_decode = decoder(EpisodeRecord, _PARTS)


def from_json(data: Mapping[str, Any]) -> EpisodeRecord:
    """Read record.json back. A value that would corrupt a statistic is refused: KeyError,
    TypeError, ValueError or AttributeError.
    """
    absent: dict[str, Any] = {
        "scene": "",
        "end": "",
        "error": None,
        "images": {},
        "stand_in": False,
    }
    values = {**absent, **data, "extra": {k: v for k, v in data.items() if k not in _KEYS}}
    if "start" in data:
        values |= {"start": data["start"]["index"], "seed": data["start"]["seed"]}
    record: EpisodeRecord = _decode(values)
    _require_sound(record)
    return record


def _require_sound(record: EpisodeRecord) -> None:
    if record.success is not None and not isinstance(record.success, bool):
        raise ValueError(f"success is {record.success!r}; true, false or null is right")
    for name in ("start", "seed", "steps", "requests", "horizon"):
        require_count(name, getattr(record, name))
    require_amount("cost_usd", record.cost_usd)
    for name in ("world", "task", "arm", "model", "instruction", "scene", "end"):
        if not isinstance(value := getattr(record, name), str):
            raise ValueError(f"{name} is {value!r}; a text is right")
    if not isinstance(record.images, Mapping) or not all(
        isinstance(sha, str) for sha in record.images.values()
    ):
        raise ValueError("images is no table of hashes")
    for name in ("position", "labels_before"):
        if name in record.extra:
            require_count(name, record.extra[name])
    for weight in record.extra.get("weights") or ():
        require_number("a weight", weight)
    require_ledger(record.extra.get("ledger"))
    for turn in record.turns:
        for name in ("decision", "step", "calls", "committed"):
            require_count(f"{name} of a decision", getattr(turn, name))
        for row in turn.waypoints:
            if row.label not in (0, 1, None):
                raise ValueError(f"a label is {row.label!r}; 0, 1 or null is right")
            for p in (row.waypoint.confidence, row.calibrated):
                if p is not None and not 0 <= p <= 1:
                    raise ValueError(
                        f"a confidence is {p!r}; a number between 0 and 1 or null is right"
                    )
            require_count("steps of a waypoint", row.steps)


def require_ledger(ledger: Any) -> None:
    """ValueError unless these are totals of a ledger; none at all is right, too."""
    if not ledger:
        return
    for name, value in ledger.items():
        if name == "tokens":
            for kind, count in (value or {}).items():
                require_count(f"{kind} tokens", count)
        elif name.endswith("_usd"):
            require_amount(name, value)
        elif name in ("requests", "attempts"):
            require_count(name, value)


def require_count(name: str, value: Any) -> None:
    """ValueError unless a value is a whole number of at least 0."""
    if type(value) is not int or value < 0:
        raise ValueError(f"{name} is {value!r}; a whole number of at least 0 is right")


def require_number(name: str, value: Any) -> None:
    """ValueError unless a value is a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name} is {value!r}; a number is right")


def require_amount(name: str, value: Any) -> None:
    """ValueError unless a value is a number of dollars of at least 0, or null."""
    if value is not None and not (type(value) in (int, float) and 0 <= value < math.inf):
        raise ValueError(f"{name} is {value!r}; a number of at least 0 or null is right")


def record_episode(
    env: Env, start: Start, images: Mapping[str, bytes], **known: Any
) -> EpisodeRecord:
    """The record of an attempt: what the world says of itself, and the fields that are known of the
    attempt. `images` are all of the start, PNG by camera; the exterior ones are named.
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
        "requests": 0,
        "cost_usd": None,
    }
    if notes := rig_notes(env):
        known = {**known, "extra": {**known.get("extra", {}), "rig": notes}}
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
                tips={
                    n: {
                        "position_m": list(_triple(p.position_m)),
                        "quaternion_xyzw": [float(v) for v in quaternion_xyzw(p.rotation)],
                    }
                    for n, p in outcome.tips.items()
                },
                base_moved=outcome.base_moved,
            )
        )
    return tuple(rows)


def past_outcome(row: WaypointRecord) -> Outcome:
    """What became of a recorded waypoint, as far as later decisions are told of it."""
    tips = {
        name: Pose(np.array(tip["position_m"]), quaternion_matrix(np.array(tip["quaternion_xyzw"])))
        for name, tip in row.tips.items()
    }
    return Outcome(
        row.status,  # type: ignore[arg-type]
        row.report,
        row.label,
        row.steps,
        {},
        tips,
        base_moved=row.base_moved,
    )


def _triple(values: Any) -> tuple[float, float, float]:
    x, y, z = values
    return (float(x), float(y), float(z))
