"""Reading replies: tool calls in, plans or sentences out; nothing raises or is guessed silently.

A defect becomes one sentence that the model can act on: which waypoint, which field, what was
given, what is allowed. Harmless slips (a number as text, a stringified chunk, one waypoint instead
of a list) are repaired and noted. Centimetres and degrees come in, metres and radians go out: only
here they are converted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from capex.errors import closest_first
from capex.method.arguments import NOTES_SHOWN, Reader, load, missing, show
from capex.method.tools import NOTES_CHARACTERS, Interface
from capex.models import ToolCall
from capex.plan import BASE_TRANSLATION_MAX_M as TRANSLATION_MAX_M
from capex.plan import BASE_TURN_MAX_RAD, ArmTarget, BaseMotion, Plan, Waypoint
from capex.pose import Array

DEFECTS_SHOWN = 8
NOTHING = "act holds no target, no gripper command and no base motion."


@dataclass(frozen=True)
class Act:
    """A robot command that can be executed: a plan, or the word that the attempt is over."""

    plan: Plan | None
    reasoning: str = ""
    done: bool = False
    notes: str = ""
    repairs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Locate:
    """A pixel to be grounded."""

    camera: str
    u: float
    v: float
    repairs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Defects:
    """Why a call cannot be carried out, in sentences."""

    sentences: tuple[str, ...]

    def __str__(self) -> str:
        shown = self.sentences[:DEFECTS_SHOWN]
        more = len(self.sentences) - len(shown)
        return " ".join((*shown, f"(and {more} more)") if more else shown)


@dataclass(frozen=True)
class Read:
    """One call with what was made of it."""

    call: ToolCall
    meaning: Act | Locate | Defects


def read_calls(
    calls: Sequence[ToolCall], face: Interface, tips_m: Mapping[str, Array]
) -> tuple[Read, ...]:
    """The calls of one reply in order, up to and including its first robot command."""
    read = []
    for call in calls:
        if call.name == "act":
            read.append(Read(call, read_act(call.arguments, face, tips_m)))
            break
        if call.name == "locate_pixel" and face.locate:
            read.append(Read(call, read_locate(call.arguments, face)))
        else:
            offered = ", ".join(["locate_pixel", "act"] if face.locate else ["act"])
            sentence = f"There is no tool '{call.name[:60]}'; the tools are: {offered}."
            read.append(Read(call, Defects((sentence,))))
    return tuple(read)


def read_locate(arguments: str, face: Interface) -> Locate | Defects:
    """The arguments of locate_pixel."""
    reader = Reader()
    call = reader.object(arguments, "locate_pixel")
    if call is None:
        return Defects(tuple(reader.defects))
    camera = call.get("camera")
    sizes = set(face.cameras.values())
    if isinstance(camera, str) and camera in face.cameras:
        sizes = {face.cameras[camera]}
    else:
        listed = closest_first(str(camera)[:60], tuple(face.cameras))
        reader.defect(f"camera is {show(camera)}; it must be one of {', '.join(listed)}")
    u, v = (reader.number(call.get(name), name) for name in ("u", "v"))
    width, height = sizes.pop() if len(sizes) == 1 else (math.inf, math.inf)
    for name, value, size in (("u", u, width), ("v", v, height)):
        if value is not None and not 0 <= value < size:
            given = f"{name} is {value:g}; the image is {width}x{height}"
            reader.defect(f"{given}, so {name} must lie between 0 and {size - 1}")
    if reader.defects or u is None or v is None:
        return Defects(tuple(reader.defects))
    return Locate(str(camera), u, v, tuple(reader.repairs))


def read_act(arguments: str, face: Interface, tips_m: Mapping[str, Array]) -> Act | Defects:
    """The arguments of act; relative targets are resolved from where the tips are now."""
    reader = Reader()
    given = reader.object(arguments, "act")
    if given is None:
        return Defects(tuple(reader.defects))
    fields = {f.name for f in face.act_fields} | _waypoint_names(face)
    reader.unknown_fields(given, fields, "act")
    reasoning = reader.text(given.get("reasoning"), "reasoning")
    notes = reader.text(given.get("notes"), "notes")[:NOTES_CHARACTERS]
    if reader.flag(given.get("done"), "done"):
        if face.done:
            return Act(None, reasoning, True, notes, tuple(reader.repairs))
        reader.defect(
            "done is not offered: the world alone judges success and ends the episode; send a"
            " motion instead"
        )
    groups = _groups(reader, given, face)
    base = _read_base(reader, given, face)
    chunk = reader.chunk(given.get("chunk")) if face.plan_max > 1 else []
    if face.plan_max == 1 and not missing(given.get("chunk")):
        reader.defect("chunk is not offered: send one waypoint at a time")
    if base is not None:
        if chunk:
            reader.defect(
                "a base motion stands beside a chunk; it moves the frame of all targets, so send it"
                " in an act of its own"
            )
        for name in ("target_cm", "delta_cm", "orientation", "confidence"):
            if any(not missing(g.get(name)) for g in (given, *groups.values())):
                reader.note(f"{name} was ignored beside a base motion")
        words = {n: reader.gripper(g.get("gripper"), "gripper") for n, g in groups.items()}
        grippers = {n: ArmTarget(gripper=word) for n, word in words.items()}  # type: ignore[arg-type]
        waypoints = [Waypoint({n: t for n, t in grippers.items() if t.gripper != "keep"}, base)]
    else:
        waypoints = _read_waypoints(reader, [given, *chunk], face, tips_m)
    if not waypoints:
        reader.defects = reader.defects or [NOTHING]
    if reader.defects:
        return Defects(tuple(reader.defects))
    return Act(Plan(tuple(waypoints)), reasoning, False, notes, tuple(reader.repairs[:NOTES_SHOWN]))


def _waypoint_names(face: Interface) -> set[str]:
    """The fields that a waypoint may have."""
    targets = {f.name for f in face.target_fields} if len(face.arms) == 1 else set(face.arms)
    return targets | {f.name for f in face.waypoint_fields}


def _groups(
    reader: Reader, waypoint: Mapping[str, Any], face: Interface
) -> dict[str, Mapping[str, Any]]:
    """The fields of each arm at one waypoint."""
    if len(face.arms) == 1:
        return {face.arms[0]: waypoint}
    groups = {}
    known = {f.name for f in face.target_fields}
    for name in face.arms:
        group = waypoint.get(name)
        if isinstance(group, str) and not missing(group):
            group = load(group)
            reader.note(f"{name} was a JSON text")
        if isinstance(group, Mapping):
            reader.unknown_fields(group, known, name)
            groups[name] = group
        elif not missing(waypoint.get(name)):
            needed = "an object with target_cm, delta_cm, orientation or gripper"
            reader.defect(f"{name} is {show(waypoint.get(name))}; it must be {needed}")
    return groups


def _read_base(reader: Reader, given: Mapping[str, Any], face: Interface) -> BaseMotion | None:
    names = ("base_forward_cm", "base_left_cm", "base_turn_deg")
    values = [reader.number(given.get(name), name, default=0.0) or 0.0 for name in names]
    if not any(values):
        return None
    if not face.base_motion:
        reader.defect("base motion is not offered: this robot's base is fixed; use target_cm")
        return None
    forward, left, turn = values[0] / 100, values[1] / 100, math.radians(values[2])
    length = math.hypot(forward, left)
    if length > TRANSLATION_MAX_M:
        shortened = f"shortened to {100 * TRANSLATION_MAX_M:.0f} cm"
        reader.repairs.append(f"base translation of {100 * length:.0f} cm {shortened}")
        forward, left = (v * TRANSLATION_MAX_M / length for v in (forward, left))
    if abs(turn) > BASE_TURN_MAX_RAD:
        reader.repairs.append(f"base turn of {values[2]:.0f} degrees shortened to 90")
        turn = math.copysign(BASE_TURN_MAX_RAD, turn)
    return BaseMotion(forward, left, turn)


def _read_waypoints(
    reader: Reader, rows: list[Any], face: Interface, tips_m: Mapping[str, Array]
) -> list[Waypoint]:
    if len(rows) > face.plan_max:
        allowed = f"at most {face.plan_max} are allowed, the first included"
        reader.defect(f"the plan has {len(rows)} waypoints; {allowed}")
        return []
    previous = {name: tuple(float(v) for v in tip) for name, tip in tips_m.items()}
    waypoints = []
    for k, row in enumerate(rows, start=1):
        reader.where = f"waypoint {k}: " if len(rows) > 1 else ""
        if not isinstance(row, Mapping):
            reader.defect(f"{show(row)} is not an object with target_cm or delta_cm")
            continue
        if k > 1:
            reader.unknown_fields(row, _waypoint_names(face))
        targets = {}
        for name, group in _groups(reader, row, face).items():
            prefix = "" if len(face.arms) == 1 else f"{name}."
            target = _read_target(reader, group, prefix, previous[name])
            if target is None:
                continue
            targets[name] = target
            previous[name] = target.position_m or previous[name]
        confidence = None
        if face.confidence:
            moves = any(t.position_m for t in targets.values())
            confidence = reader.confidence(row.get("confidence"), moves)
        if targets:
            waypoints.append(Waypoint(targets, confidence=confidence))
        elif not reader.defects:
            reader.defect("nothing to do here; give target_cm, delta_cm or a gripper command")
    reader.where = ""
    return waypoints


def _read_target(
    reader: Reader, group: Mapping[str, Any], prefix: str, previous_m: tuple[float, ...]
) -> ArmTarget | None:
    absolute = reader.numbers(group.get("target_cm"), f"{prefix}target_cm")
    relative = reader.numbers(group.get("delta_cm"), f"{prefix}delta_cm")
    if absolute is not None and relative is not None:
        reader.defect(f"{prefix}target_cm and {prefix}delta_cm are both given; give one of them")
        return None
    position = None
    if absolute is not None:
        position = tuple(v / 100 for v in absolute)
    elif relative is not None:
        position = tuple(m + cm / 100 for m, cm in zip(previous_m, relative, strict=True))
    orientation = reader.orientation(group.get("orientation"), f"{prefix}orientation")
    gripper = reader.gripper(group.get("gripper"), f"{prefix}gripper")
    if position is None and orientation != "keep":
        position = previous_m  # an orientation alone turns the hand where it is
    if position is None and gripper == "keep":
        return None
    return ArmTarget(position, orientation, gripper)  # type: ignore[arg-type]
