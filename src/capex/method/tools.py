"""The model's tools: `act` and `locate_pixel`; JSON schemas made from what the parser reads.

One table of fields serves both directions: `schemas` shows it to the model, `capex.method.reading`
reads replies by it. The schema follows the world's spec: a robot with one arm has its fields at the
top, one with several arms has a group of them per arm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from capex.method.presets import MethodSettings
from capex.models import Tool
from capex.plan import BASE_TRANSLATION_MAX_M, GRIPPER_WORDS, ORIENTATION_WORDS
from capex.worlds import Spec

Kind = Literal["text", "numbers", "orientation", "gripper", "confidence", "number", "flag", "chunk"]
REASONING_WORDS = 60
NOTES_CHARACTERS = 600


@dataclass(frozen=True)
class Field:
    """One argument of `act`: its kind decides the schema and how it is read."""

    name: str
    kind: Kind
    description: str


_DELTA = "instead of target_cm: relative to the previous waypoint's target (the first: to the tip)"
_TURNS = "keep (default), down, forward, or [roll, pitch, yaw] in degrees"
_SURE = "probability in [0, 1] that this waypoint is reached without a stop"
_LONGEST = f"at most {round(100 * BASE_TRANSLATION_MAX_M)} cm in all"
BASE_FIELDS = (
    Field(
        "base_forward_cm",
        "number",
        f"drive the base forward; alone, without target or chunk; {_LONGEST}",
    ),
    Field("base_left_cm", "number", "drive the base to its left"),
    Field("base_turn_deg", "number", "turn the base to its left; at most 90 degrees"),
)


@dataclass(frozen=True)
class Interface:
    """What the model may do in this world with a method's settings."""

    # what one arm is told at one waypoint
    target_fields: ClassVar[tuple[Field, ...]] = (
        Field(
            "target_cm", "numbers", "absolute tip position [x, y, z] in the base frame, centimetres"
        ),
        Field("delta_cm", "numbers", f"{_DELTA}, centimetres"),
        Field("orientation", "orientation", _TURNS),
        Field("gripper", "gripper", "runs after the motion; keep is the default"),
    )

    arms: tuple[str, ...]
    cameras: Mapping[str, tuple[int, int]]  # those that locate_pixel knows: width, height
    plan_max: int
    confidence: bool
    locate: bool
    base_motion: bool
    done: bool
    notes: bool

    @property
    def waypoint_fields(self) -> tuple[Field, ...]:
        """What a waypoint has beside its arms' targets."""
        text = f"{_SURE}, given that all before it were"
        return (Field("confidence", "confidence", text),) if self.confidence else ()

    @property
    def act_fields(self) -> tuple[Field, ...]:
        """What a call has beside its first waypoint."""
        fields = [Field("reasoning", "text", f"why, in at most {REASONING_WORDS} words")]
        if self.plan_max > 1:
            text = "further waypoints, executed in order without a new look"
            fields.append(Field("chunk", "chunk", f"{text}; at most {self.plan_max} in all"))
        if self.base_motion:
            fields += BASE_FIELDS
        if self.done:
            fields.append(Field("done", "flag", "true ends the attempt without moving"))
        if self.notes:
            text = f"working notes for your next call, at most {NOTES_CHARACTERS} characters"
            fields.append(Field("notes", "text", text))
        return tuple(fields)


def interface(spec: Spec, method: MethodSettings) -> Interface:
    """The interface of a world under a method's settings."""
    return Interface(
        arms=tuple(a.name for a in spec.arms),
        cameras={
            c.name: c.fitted(method.image_size) for c in spec.cameras if spec.depth and c.depth
        },
        plan_max=method.plan_max,
        confidence=method.confidence,
        locate=method.locate and spec.depth,
        base_motion=method.base_motion and spec.base is not None,
        done=method.done or spec.success == "operator",
        notes=method.notes,
    )


def schemas(face: Interface) -> tuple[Tool, ...]:
    """The tools as the model gets them; the same bytes for the same interface."""
    does = "Command the robot. It ends the reply: later calls are ignored."
    reasoning, *others = face.act_fields
    properties = _properties([reasoning], face) | _waypoint_properties(face)
    act = Tool("act", does, _object(properties | _properties(others, face), ["reasoning"]))
    if not face.locate:
        return (act,)
    properties = {
        "camera": {"type": "string", "enum": list(face.cameras)},
        "u": {"type": "number", "description": f"pixels from the left edge, {_bounds(face, 0)}"},
        "v": {"type": "number", "description": f"pixels from the top edge, {_bounds(face, 1)}"},
    }
    seen = "the surface seen at a pixel of the current image of a camera"
    does = f"Base-frame position in centimetres of {seen}."
    return (Tool("locate_pixel", does, _object(properties, ["camera", "u", "v"])), act)


def _bounds(face: Interface, side: int) -> str:
    """0 to 511; where cameras differ, 0 to 639 (front, wrist) or 0 to 511 (side)."""
    cameras: dict[int, list[str]] = {}
    for name, size in face.cameras.items():
        cameras.setdefault(size[side] - 1, []).append(name)
    if len(cameras) == 1:
        return f"0 to {next(iter(cameras))}"
    return " or ".join(f"0 to {last} ({', '.join(names)})" for last, names in cameras.items())


def _waypoint_properties(face: Interface) -> dict[str, Any]:
    targets = _properties(face.target_fields, face)
    if len(face.arms) > 1:
        group = _object(targets, [])
        hold = "leave out to hold still"
        targets = {
            name: {**group, "description": f"what the arm '{name}' does; {hold}"}
            for name in face.arms
        }
    return targets | _properties(face.waypoint_fields, face)


def _properties(fields: Sequence[Field], face: Interface) -> dict[str, Any]:
    return {field.name: _field_schema(field, face) for field in fields}


def _field_schema(field: Field, face: Interface) -> dict[str, Any]:
    kinds: Mapping[Kind, dict[str, Any]] = {
        "text": {"type": "string"},
        "number": {"type": "number"},
        "flag": {"type": "boolean"},
        "confidence": {"type": "number", "minimum": 0, "maximum": 1},
        "numbers": _triple(),
        "gripper": {"type": "string", "enum": list(GRIPPER_WORDS)},
        "orientation": {"anyOf": [{"type": "string", "enum": list(ORIENTATION_WORDS)}, _triple()]},
    }
    if field.kind == "chunk":
        schema = {"type": "array", "items": _object(_waypoint_properties(face), [])}
    else:
        schema = kinds[field.kind]
    return {**schema, "description": field.description}


def _triple() -> dict[str, Any]:
    return {"type": "array", "items": {"type": "number"}, "minItems": 3, "maxItems": 3}


def _object(properties: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
    content = {"properties": dict(properties), "required": required}
    return {"type": "object", **content, "additionalProperties": False}
