"""Reading replies: tool calls in, plans or sentences out; nothing raises or is guessed silently.

A defect becomes one sentence that the model can act on: which waypoint, which field, what was
given, what is allowed. Harmless slips (a number as text, a stringified chunk, one waypoint instead
of a list) are repaired and noted. Centimetres and degrees come in, metres and radians go out: only
here they are converted.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from capex.errors import closest_first
from capex.method.tools import NOTES_CHARACTERS, Interface
from capex.models import ToolCall
from capex.plan import BASE_TRANSLATION_MAX_M as TRANSLATION_MAX_M
from capex.plan import (
    BASE_TURN_MAX_RAD,
    GRIPPER_WORDS,
    ORIENTATION_WORDS,
    ArmTarget,
    BaseMotion,
    Orientation,
    Plan,
    Waypoint,
)
from capex.pose import Array

ARGUMENTS_MAX = 200_000  # characters
MISSING_WORDS = ("", "null", "none", "undefined")
NOTES_SHOWN = 12


class Reader:
    """Reads loosely typed values; collects defects and notes instead of raising."""

    def __init__(self) -> None:
        self.defects: list[str] = []
        self.repairs: list[str] = []
        self.where = ""

    def defect(self, sentence: str) -> None:
        text = f"{self.where}{sentence}."
        if text not in self.defects:
            self.defects.append(text)

    def note(self, sentence: str) -> None:
        text = f"{self.where}{sentence}"
        if len(self.repairs) < NOTES_SHOWN and text not in self.repairs:
            self.repairs.append(text)

    def object(self, arguments: str, tool: str) -> Mapping[str, Any] | None:
        """The arguments as an object, or None with a defect."""
        if len(arguments) > ARGUMENTS_MAX:
            size = f"the arguments of {tool} are {len(arguments)} characters long"
            self.defect(f"{size}; at most {ARGUMENTS_MAX} are read")
            return None
        loaded = load(arguments)
        if isinstance(loaded, str):  # arguments wrapped in a string once more
            loaded = load(loaded)
            self.note("arguments were a JSON text inside a JSON text")
        if isinstance(loaded, list) and len(loaded) == 1 and isinstance(loaded[0], Mapping):
            loaded = loaded[0]
            self.note("arguments were a list of one object")
        if not isinstance(loaded, Mapping):
            self.defect(f"the arguments of {tool} are not a JSON object: {show(arguments)}")
            return None
        return loaded

    def unknown_fields(self, given: Mapping[str, Any], known: set[str], where: str = "") -> None:
        extra = [str(k)[:40] for k in given if k not in known and not missing(given[k])]
        if extra:
            within = f"{where}: " if where else ""
            self.note(f"{within}ignored unknown fields {', '.join(extra[:5])}")

    def text(self, value: Any, name: str) -> str:
        if missing(value):
            return ""
        if not isinstance(value, str):
            self.note(f"{name} was not text")
        return str(value)[:4000]

    def flag(self, value: Any, name: str) -> bool:
        if isinstance(value, str) and value.strip().lower() in ("true", "false"):
            self.note(f"{name} was the text {value}")
            return value.strip().lower() == "true"
        if missing(value) or isinstance(value, bool):
            return value is True
        self.defect(f"{name} is {show(value)}; it must be true or false")
        return False

    def number(self, value: Any, name: str, default: float | None = None) -> float | None:
        if default is not None and missing(value):
            return default
        number = _number(value)
        if number is None:
            self.defect(f"{name} is {show(value)}; it must be a finite number")
            return None
        if isinstance(value, str):
            self.note(f"{name} was a number as text")
        return number

    def numbers(self, value: Any, name: str) -> tuple[float, ...] | None:
        """Three finite numbers; None if missing or defective."""
        if missing(value):
            return None
        original = value
        if isinstance(value, str):
            loaded, words = load(value), re.findall(r"[^\s,;\[\]()]+", value[:400])
            value = loaded if isinstance(loaded, list | Mapping) else words
        if isinstance(value, Mapping) and {"x", "y", "z"} <= set(value):
            value = [value["x"], value["y"], value["z"]]
        listed = isinstance(value, list | tuple) and len(value) <= 16
        numbers = [_number(v) for v in value] if listed else []
        if len(numbers) != 3 or any(n is None or abs(n) > 1e6 for n in numbers):
            self.defect(f"{name} is {show(original)}; it must be three finite numbers [x, y, z]")
            return None
        if not isinstance(original, list) or any(isinstance(v, str) for v in original):
            self.note(f"{name} was not a list of numbers")
        return tuple(n for n in numbers if n is not None)

    def orientation(self, value: Any, name: str) -> Orientation:
        if missing(value):
            return "keep"
        if isinstance(value, str) and value.strip().lower() in ORIENTATION_WORDS:
            return value.strip().lower()  # type: ignore[return-value]
        before = len(self.defects)
        angles = self.numbers(value, name)
        if angles is None:
            del self.defects[before:]
            needed = f"{', '.join(ORIENTATION_WORDS)} or three Euler angles in degrees"
            self.defect(f"{name} is {show(value)}; it must be {needed}")
            return "keep"
        return (angles[0], angles[1], angles[2])

    def gripper(self, value: Any, name: str) -> str:
        if missing(value):
            return "keep"
        word = value.strip().lower() if isinstance(value, str) else ""
        if word not in GRIPPER_WORDS:
            self.defect(f"{name} is {show(value)}; it must be one of {', '.join(GRIPPER_WORDS)}")
            return "keep"
        return word

    def confidence(self, value: Any, needed: bool) -> float | None:
        if missing(value):
            if needed:
                self.defect("confidence is missing; every waypoint needs one between 0 and 1")
            return None
        number = _number(value)
        if number is None or not 0.0 <= number <= 1.0:
            self.defect(f"confidence is {show(value)}; it must be a number between 0 and 1")
            return None
        if isinstance(value, str):
            self.note("confidence was a number as text")
        return number

    def chunk(self, value: Any) -> list[Any]:
        if missing(value):
            return []
        if isinstance(value, str):
            value = load(value)
            self.note("chunk was a JSON text")
        if isinstance(value, Mapping):
            self.note("chunk was a single waypoint")
            return [value]
        if isinstance(value, list):
            return value
        self.defect(f"chunk is {show(value)}; it must be a list of waypoints")
        return []


def missing(value: Any) -> bool:
    """Whether a field counts as left out."""
    if isinstance(value, str):
        return value.strip().lower() in MISSING_WORDS
    return value is None or value == []


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def load(text: str) -> Any:
    """Parsed JSON; None if it cannot be parsed, also for excessive nesting or digits."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def show(value: Any) -> str:
    """What was given, short enough for a sentence."""
    if isinstance(value, str):
        text = value
    elif _shallow(value):
        text = json.dumps(value, default=str, ensure_ascii=False)
    else:
        text = f"a deep {type(value).__name__}"
    text = text if len(text) <= 80 else f"{text[:77]}..."
    return f"'{text}'" if isinstance(value, str) else text


def _shallow(value: Any, depth: int = 0) -> bool:
    if depth > 4:
        return False
    inside = list(value.values()) if isinstance(value, Mapping) else value
    if isinstance(inside, list):
        return len(inside) <= 20 and all(_shallow(v, depth + 1) for v in inside)
    return True


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
