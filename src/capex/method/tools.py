"""The model's tools: `act` and `locate_pixel`, their JSON schemas generated from what the parser
reads.

One table of fields serves both directions: `schemas` shows it to the model, `capex.method.reading`
reads replies by it. The schema follows the world's spec: a robot with one arm has its fields at the
top, one with several arms has a group of them per arm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

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


@dataclass(frozen=True)
class Interface:
    """What the model may do in this world with this arm's settings."""

    arms: tuple[str, ...]
    cameras: tuple[str, ...]  # those that locate_pixel knows
    size: tuple[int, int]  # of the images, pixels
    plan_max: int
    confidence: bool
    locate: bool
    base_motion: bool
    done: bool
    notes: bool

    @property
    def target_fields(self) -> tuple[Field, ...]:
        """What one arm is told at one waypoint."""
        return (
            Field(
                "target_cm",
                "numbers",
                "absolute tip position [x, y, z] in the base frame, centimetres",
            ),
            Field(
                "delta_cm",
                "numbers",
                "instead of target_cm: relative to the previous waypoint's target (the first: to"
                " the tip), centimetres",
            ),
            Field(
                "orientation",
                "orientation",
                "keep (default), down, forward, or [roll, pitch, yaw] in degrees",
            ),
            Field("gripper", "gripper", "runs after the motion; keep is the default"),
        )

    @property
    def waypoint_fields(self) -> tuple[Field, ...]:
        """Beside the arms' targets."""
        if not self.confidence:
            return ()
        text = (
            "probability in [0, 1] that this waypoint is reached without a stop, given that all"
            " before it were"
        )
        return (Field("confidence", "confidence", text),)

    @property
    def act_fields(self) -> tuple[Field, ...]:
        """Beside the first waypoint."""
        fields = [Field("reasoning", "text", f"why, in at most {REASONING_WORDS} words")]
        if self.plan_max > 1:
            fields.append(
                Field(
                    "chunk",
                    "chunk",
                    "further waypoints, executed in order without a new look; at most"
                    f" {self.plan_max} in all",
                )
            )
        if self.base_motion:
            limit = round(100 * BASE_TRANSLATION_MAX_M)
            fields += [
                Field(
                    "base_forward_cm",
                    "number",
                    f"drive the base forward; alone, without target or chunk; at most {limit} cm"
                    " in all",
                ),
                Field("base_left_cm", "number", "drive the base to its left"),
                Field("base_turn_deg", "number", "turn the base to its left; at most 90 degrees"),
            ]
        if self.done:
            fields.append(Field("done", "flag", "true ends the attempt without moving"))
        if self.notes:
            fields.append(
                Field(
                    "notes",
                    "text",
                    f"working notes for your next call, at most {NOTES_CHARACTERS} characters",
                )
            )
        return tuple(fields)


def interface(spec: Spec, arm: MethodSettings) -> Interface:
    """The interface of a world under an arm's settings."""
    return Interface(
        arms=tuple(a.name for a in spec.arms),
        cameras=tuple(c.name for c in spec.cameras) if spec.depth else (),
        size=(arm.image_size, arm.image_size),
        plan_max=arm.plan_max,
        confidence=arm.confidence,
        locate=arm.locate and spec.depth,
        base_motion=arm.base_motion and spec.base is not None,
        done=arm.done or spec.success == "operator",
        notes=arm.notes,
    )


def schemas(face: Interface) -> tuple[Tool, ...]:
    """The tools as the model gets them; the same bytes for the same interface."""
    act = Tool(
        "act", "Command the robot. It ends the reply: later calls are ignored.", _act_schema(face)
    )
    if not face.locate:
        return (act,)
    width, height = face.size
    properties = {
        "camera": {"type": "string", "enum": list(face.cameras)},
        "u": {"type": "number", "description": f"pixels from the left edge, 0 to {width - 1}"},
        "v": {"type": "number", "description": f"pixels from the top edge, 0 to {height - 1}"},
    }
    locate = Tool(
        "locate_pixel",
        "Base-frame position in centimetres of the surface seen at a pixel of the current image of"
        " a camera.",
        _object(properties, ["camera", "u", "v"]),
    )
    return (locate, act)


def _act_schema(face: Interface) -> dict[str, Any]:
    properties = {f.name: _field_schema(f, face) for f in face.act_fields if f.name == "reasoning"}
    properties |= _waypoint_properties(face)
    properties |= {f.name: _field_schema(f, face) for f in face.act_fields if f.name != "reasoning"}
    return _object(properties, ["reasoning"])


def _waypoint_properties(face: Interface) -> dict[str, Any]:
    targets = {f.name: _field_schema(f, face) for f in face.target_fields}
    if len(face.arms) > 1:
        targets = {
            name: {
                **_object(targets, []),
                "description": f"what the arm '{name}' does; leave out to hold still",
            }
            for name in face.arms
        }
    return targets | {f.name: _field_schema(f, face) for f in face.waypoint_fields}


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
    schema = (
        kinds[field.kind]
        if field.kind != "chunk"
        else {"type": "array", "items": _object(_waypoint_properties(face), [])}
    )
    return {**schema, "description": field.description}


def _triple() -> dict[str, Any]:
    return {"type": "array", "items": {"type": "number"}, "minItems": 3, "maxItems": 3}


def _object(properties: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": required,
        "additionalProperties": False,
    }
