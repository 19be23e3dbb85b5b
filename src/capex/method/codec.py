"""Dataclasses to JSON and back, by the annotations of their fields.

A function is built once for each class, so that loading ten thousand records costs no more than
with functions written by hand. Fields may hold dataclasses, tuples, mappings by name, a union of
one of these with None or a literal, and whatever JSON holds itself; a tuple of fixed length is
three numbers.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

Convert = Callable[[Any], Any]
Keys = Mapping[type, str]
INLINE = "*"


def encoder(cls: type, keys: Keys) -> Convert:
    """The function that turns a value of a class into JSON.

    `keys` gives the JSON keys of a class in their order, each with `=ATTRIBUTE` where the
    attribute has another name; `*=ATTRIBUTE` puts the keys of its value in its place. A class that
    is not in `keys` is written field by field.
    """
    rows = _rows(cls, keys, encoder)

    def encode(value: Any) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key, name, convert in rows:
            content = getattr(value, name)
            if convert is not None:
                content = convert(content)
            if key == INLINE:
                data |= content
            else:
                data[key] = content
        return data

    return encode


def decoder(cls: type, keys: Keys) -> Convert:
    """The inverse of encoder. What cannot be read, or is of another type than its field, raises
    KeyError, TypeError, ValueError or AttributeError.
    """
    plain = get_type_hints(cls)
    rows = [
        (key, name, convert, _plain(plain.get(name)) if convert is None else None)
        for key, name, convert in _rows(cls, keys, decoder)
    ]
    check = getattr(cls, "__post_init__", None)

    def decode(data: Mapping[str, Any]) -> Any:
        made: Any = object.__new__(cls)
        values = made.__dict__  # the __init__ of a frozen dataclass would cost more than all else
        for key, name, convert, right in rows:
            content = data if key == INLINE else data[key]
            if right is not None and type(content) not in right:
                raise _wrong(key, content, right)
            values[name] = content if convert is None else convert(content)
        if check is not None:
            check(made)
        return made

    return decode


WORDS = {float: "a number", int: "a whole number", str: "a text", bool: "true or false"}
WORDS |= {dict: "a table", tuple: "a list", types.NoneType: "null"}


def _wrong(name: str, content: Any, right: frozenset[type]) -> ValueError:
    kinds = right - {int} if float in right else right
    words = " or ".join(word for kind, word in WORDS.items() if kind in kinds)
    return ValueError(f"{name} is {repr(content)[:80]}; {words} is right")


def _plain(kind: Any) -> frozenset[type] | None:
    """The types that a value of a kind has in JSON; None where any is right."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return frozenset(map(type, parts))
    if origin in (Union, types.UnionType):
        inner = [_plain(part) for part in parts]
        return None if None in inner else frozenset().union(*(p for p in inner if p is not None))
    if origin is Mapping:
        return frozenset((dict,))
    if kind is float:
        return frozenset((float, int))
    return frozenset((kind,)) if kind in (int, str, bool, types.NoneType) else None


def _rows(
    cls: Any, keys: Keys, build: Callable[[type, Keys], Convert]
) -> list[tuple[str, str, Convert | None]]:
    """Key, attribute and conversion of everything that a class writes."""
    kinds = get_type_hints(cls)
    words = keys[cls].split() if cls in keys else [f.name for f in fields(cls)]
    pairs = [(key, name or key) for key, _, name in (word.partition("=") for word in words)]
    return [(key, name, _convert(kinds.get(name), keys, build)) for key, name in pairs]


def _convert(kind: Any, keys: Keys, build: Callable[[type, Keys], Convert]) -> Convert | None:
    """What turns a value of a type into JSON, or back; None where it is JSON already."""
    origin, parts = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        return build(kind, keys)  # type: ignore[arg-type]
    if origin is Mapping:
        of = _convert(parts[1], keys, build)
        if of is None:
            return dict if build is encoder else _each_plain(parts[1], dict)
        return lambda value: {name: of(v) for name, v in value.items()}
    if origin is tuple:
        whole: Convert = list if build is encoder else tuple
        if parts[-1] is not Ellipsis:
            return list if build is encoder else _three
        each = _convert(parts[0], keys, build)
        if each is None:
            return list if build is encoder else _each_plain(parts[0], tuple)
        return lambda value: whole([each(v) for v in value])
    if origin in (Union, types.UnionType):
        converts = [(part, _convert(part, keys, build)) for part in parts]
        plain = tuple(str if get_origin(p) is Literal else p for p, c in converts if c is None)
        for _, convert in converts:
            if convert is not None:
                return _unless(plain, convert)
    return None


def _each_plain(kind: Any, whole: type) -> Convert:
    """Reads a list as a tuple, or an object, whose values are of a kind."""
    right = _plain(kind)

    def convert(value: Any) -> Any:
        if not isinstance(value, dict if whole is dict else (list, tuple)):
            raise _wrong("a field", value, frozenset((whole,)))
        for content in list(value.values()) if isinstance(value, dict) else value:
            if right is not None and type(content) not in right:
                raise _wrong("a value", content, right)
        return value if whole is dict else tuple(value)

    return convert


def _unless(plain: tuple[type, ...], convert: Convert) -> Convert:
    return lambda value: value if isinstance(value, plain) else convert(value)


def _three(values: Any) -> tuple[float, float, float]:
    x, y, z = values
    return (float(x), float(y), float(z))
