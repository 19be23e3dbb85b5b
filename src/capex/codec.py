"""Dataclasses to JSON values and back, by the annotations of their fields (msgspec)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np

T = TypeVar("T")

# Numbers of a file, as annotations.
Count = Annotated[int, msgspec.Meta(ge=0)]
Amount = Annotated[float, msgspec.Meta(ge=0)]  # of dollars or seconds
Probability = Annotated[float, msgspec.Meta(ge=0, le=1)]


def to_json(value: Any) -> Any:
    """A dataclass as JSON values: its fields in their order."""
    return _lists(msgspec.to_builtins(value, enc_hook=_encode, str_keys=True))


def _lists(value: Any) -> Any:
    """The same with lists for tuples, as JSON is read back."""
    if isinstance(value, dict):
        return {key: _lists(inner) for key, inner in value.items()}
    return [_lists(inner) for inner in value] if isinstance(value, list | tuple) else value


def from_json(data: Any, kind: type[T], at: str = "") -> T:
    """The inverse of `to_json`; unknown keys are ignored. ValueError with the field where a value
    is missing, has another type or is no finite number. `at`: the name of the field that these data
    are of.
    """
    require_finite(data)
    return convert(data, kind, at)


def convert(data: Any, kind: type[T], at: str = "") -> T:
    """The same for data that may hold NaN, such as a server's."""
    try:
        return _complete(msgspec.convert(data, kind))
    except (msgspec.ValidationError, RecursionError) as error:
        message, _, path = str(error).replace("`", "'").partition(" - at '$")
        where = f"{at}{path}".strip(".'")
        raise ValueError(f"{where}: {message}" if where else message) from None


def _complete(value: T) -> T:
    """The same with all fields of each dataclass in its `vars`: msgspec leaves those out that have
    their default, and so does its encoder then.
    """
    open_: list[Any] = [value]
    while open_:
        found = open_.pop()
        kind: Any = type(found)
        if kind is dict:
            held = found.values()
        elif kind is tuple or kind is list:
            held = found
        elif defaults := _defaults(kind):
            own = vars(found)
            if len(own) < len(defaults):
                given = defaults | own
                own.clear()
                own.update(given)
            held = own.values()
        else:
            held = found.values() if isinstance(found, Mapping) else ()
        open_ += [inner for inner in held if type(inner) not in _PLAIN]
    return value


_PLAIN = frozenset((str, int, float, bool, type(None)))


@cache
def _defaults(kind: Any) -> dict[str, Any]:
    """The fields of a dataclass in their order, with their defaults; nothing for another type."""
    return {f.name: f.default for f in fields(kind)} if is_dataclass(kind) else {}


class Line(msgspec.Struct, frozen=True, tag_field="line"):
    """A line of a file with lines of several kinds; its field `line` names the kind."""


def encoded_line(line: Line) -> bytes:
    """A line as JSON, with its end."""
    return msgspec.json.encode(line) + b"\n"


def decode_lines(lines: Sequence[bytes], kind: Any) -> list[Any]:
    """Lines of these kinds, parsed in one go, which is several times faster; ValueError where one
    of them is none.
    """
    try:
        found: list[Any] = msgspec.json.decode(b"[" + b",".join(lines) + b"]", type=list[kind])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    if len(found) != len(lines):
        raise ValueError(f"{len(lines)} lines hold {len(found)} values")
    return found


def require_finite(data: Any) -> None:
    """ValueError where JSON values hold NaN or infinity, which Python's parser lets through."""
    open_ = [data]
    while open_:
        value = open_.pop()
        if isinstance(value, float):
            if not math.isfinite(value):
                raise ValueError(f"a number is {value}; a finite one is right")
        elif isinstance(value, dict):
            open_ += value.values()
        elif isinstance(value, list | tuple):
            open_ += value


def _encode(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not written to JSON")
