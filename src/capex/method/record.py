"""What an attempt leaves behind: the record of its decisions, written to record.json and read back
for memory and the calibrator.

Metres and radians in the base frame of the moment; Euler orientations in degrees, as requested.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from capex.method.executor import Outcome
from capex.plan import ArmTarget, BaseMotion, Waypoint
from capex.pose import quaternion_xyzw


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
    features: tuple[float, ...] | None = (
        None  # what the calibrator saw; None where a waypoint has no motion or no confidence
    )
    clamped_m: Mapping[str, tuple[float, float, float]] = field(
        default_factory=dict
    )  # by arm, where it was really sent
    tips: Mapping[str, Mapping[str, Any]] = field(
        default_factory=dict
    )  # by arm, position_m and quaternion_xyzw afterwards
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
    base: tuple[float, float, float] | None = (
        None  # base pose (x, y, yaw) on the floor when the plan began
    )
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
    end: str = ""  # success, horizon, silent, decisions, steps, cost, time, done
    error: str | None = None
    images: Mapping[str, str] = field(
        default_factory=dict
    )  # exterior camera -> sha256 of its start image
    stand_in: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)  # ledger totals and settings

    def as_json(self) -> dict[str, Any]:
        """record.json; the first keys are the ones a reader wants first."""
        return {
            "task": self.task,
            "arm": self.arm,
            "start": {"index": self.start, "seed": self.seed},
            "model": self.model,
            "success": self.success,
            "steps": self.steps,
            "decisions": len(self.turns),
            "requests": self.requests,
            "cost_usd": self.cost_usd,
            "world": self.world,
            "instruction": self.instruction,
            "horizon": self.horizon,
            "scene": self.scene,
            "end": self.end,
            "error": self.error,
            "stand_in": self.stand_in,
            "images": dict(self.images),
            **self.extra,
            "turns": [_turn_json(t) for t in self.turns],
        }


KNOWN = frozenset(
    [
        "task",
        "arm",
        "start",
        "model",
        "success",
        "steps",
        "decisions",
        "requests",
        "cost_usd",
        "world",
        "instruction",
        "horizon",
        "scene",
        "end",
        "error",
        "stand_in",
        "images",
        "turns",
    ]
)


def from_json(data: Mapping[str, Any]) -> EpisodeRecord:
    """Read record.json back. What would garble a number it enters is refused: KeyError, TypeError,
    ValueError or AttributeError.
    """
    record = EpisodeRecord(
        world=data["world"],
        task=data["task"],
        arm=data["arm"],
        start=data["start"]["index"],
        seed=data["start"]["seed"],
        model=data["model"],
        success=data["success"],
        steps=data["steps"],
        requests=data["requests"],
        cost_usd=data["cost_usd"],
        instruction=data["instruction"],
        horizon=data["horizon"],
        turns=tuple(_turn(t) for t in data["turns"]),
        scene=data.get("scene", ""),
        end=data.get("end", ""),
        error=data.get("error"),
        images=data.get("images", {}),
        stand_in=data.get("stand_in", False),
        extra={k: v for k, v in data.items() if k not in KNOWN},
    )
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


def _triple(values: Any) -> tuple[float, float, float]:
    x, y, z = values
    return (float(x), float(y), float(z))


def _turn_json(turn: Turn) -> dict[str, Any]:
    return {
        "decision": turn.decision,
        "step": turn.step,
        "calls": turn.calls,
        "committed": turn.committed,
        "base": list(turn.base) if turn.base else None,
        "reasoning": turn.reasoning,
        "mended": list(turn.mended),
        "spent": turn.spent,
        "located": [
            {
                "camera": p.camera,
                "u": p.u,
                "v": p.v,
                "position_m": list(p.position_m) if p.position_m else None,
                "text": p.text,
            }
            for p in turn.located
        ],
        "waypoints": [_waypoint_json(w) for w in turn.waypoints],
    }


def _waypoint_json(row: WaypointRecord) -> dict[str, Any]:
    waypoint = row.waypoint
    base = waypoint.base
    return {
        "targets": {
            name: {
                "position_m": None if t.position_m is None else list(t.position_m),
                "orientation": (
                    t.orientation if isinstance(t.orientation, str) else list(t.orientation)
                ),
                "gripper": t.gripper,
            }
            for name, t in waypoint.targets.items()
        },
        "base": (
            None
            if base is None
            else {"forward_m": base.forward_m, "left_m": base.left_m, "turn_rad": base.turn_rad}
        ),
        "stated": waypoint.confidence,
        "calibrated": row.calibrated,
        "features": list(row.features) if row.features is not None else None,
        "status": row.status,
        "report": row.report,
        "label": row.label,
        "steps": row.steps,
        "clamped": {n: list(p) for n, p in row.clamped_m.items()},
        "tips": {n: dict(p) for n, p in row.tips.items()},
        "base_moved": None if row.base_moved is None else list(row.base_moved),
    }


def _turn(data: Mapping[str, Any]) -> Turn:
    return Turn(
        decision=data["decision"],
        step=data["step"],
        calls=data["calls"],
        committed=data["committed"],
        waypoints=tuple(_waypoint(w) for w in data["waypoints"]),
        located=tuple(
            LocatedPoint(
                p["camera"],
                p["u"],
                p["v"],
                _triple(p["position_m"]) if p["position_m"] else None,
                p["text"],
            )
            for p in data["located"]
        ),
        base=_triple(data["base"]) if data["base"] else None,
        reasoning=data["reasoning"],
        mended=tuple(data["mended"]),
        spent=data["spent"],
    )


def _waypoint(data: Mapping[str, Any]) -> WaypointRecord:
    targets = {
        name: ArmTarget(
            _triple(t["position_m"]) if t["position_m"] else None,
            t["orientation"] if isinstance(t["orientation"], str) else _triple(t["orientation"]),  # type: ignore[arg-type]
            t["gripper"],
        )
        for name, t in data["targets"].items()
    }
    return WaypointRecord(
        waypoint=Waypoint(
            targets, BaseMotion(**data["base"]) if data["base"] else None, data["stated"]
        ),
        status=data["status"],
        report=data["report"],
        label=data["label"],
        steps=data["steps"],
        calibrated=data["calibrated"],
        features=tuple(data["features"]) if data["features"] is not None else None,
        clamped_m={n: _triple(p) for n, p in data["clamped"].items()},
        tips=data["tips"],
        base_moved=_triple(data["base_moved"]) if data["base_moved"] else None,
    )
