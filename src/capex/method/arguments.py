"""The values of a call's arguments, however loosely a model typed them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from capex.plan import GRIPPER_WORDS, ORIENTATION_WORDS, Orientation

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
