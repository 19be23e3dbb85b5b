"""What a user writes to name tasks, arms, starts, dollars and files, read with a sentence for every
slip.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from capex import worlds
from capex.errors import CapexError, ErrorCode
from capex.method.prompts import read_hints

STARTS_EXAMPLE = "write 0:20 for the starts 0 to 19, 7 for one, 1,4,9 for some"
RESOURCES_EXAMPLE = "write CPU=0.25 or CPU=0.5,GPU=0.1, names as the cluster has them"
_FRESH = "fresh:"


def parse_starts(text: str) -> list[int]:
    """Start indices from "0:20", "7" or "1,4,9", and from "fresh:0:50" those that a world with
    recorded starts draws anew; anything else is refused with a sentence.
    """
    indices: list[int] = []
    for piece in (piece.strip() for piece in text.split(",")):
        first = worlds.FRESH if piece.startswith(_FRESH) else 0
        low, colon, high = piece.removeprefix(_FRESH).partition(":")
        try:
            numbers = list(range(int(low), int(high))) if colon else [int(low)]
        except ValueError:
            raise CapexError(
                f"'{text}' names no starts; {STARTS_EXAMPLE}", code=ErrorCode.BAD_SETTING
            ) from None
        if not numbers or min(numbers) < 0:
            raise CapexError(
                f"'{text}' holds an empty or negative range; {STARTS_EXAMPLE}",
                code=ErrorCode.BAD_SETTING,
            )
        indices += [first + number for number in numbers]
    return list(dict.fromkeys(indices))


def read_starts(value: Any) -> tuple[int, ...]:
    """Start indices as a text, a number or a list of numbers."""
    if isinstance(value, str):
        return tuple(parse_starts(value))
    listed = list(value) if isinstance(value, Sequence) else [value]
    if not listed or not all(type(i) is int and i >= 0 for i in listed):
        raise CapexError(f"{value!r} names no starts; {STARTS_EXAMPLE}", code=ErrorCode.BAD_SETTING)
    return tuple(dict.fromkeys(listed))


def starts_text(starts: Sequence[int]) -> str:
    """Starts as a user would write them: runs as ranges."""
    pieces: list[list[int]] = []
    for index in starts:
        if pieces and index == pieces[-1][-1] + 1:
            pieces[-1].append(index)
        else:
            pieces.append([index])
    return ",".join(_range_text(piece) for piece in pieces)


def start_text(index: int) -> str:
    """One start as a user would write it."""
    return f"{_FRESH}{index - worlds.FRESH}" if _is_fresh(index) else str(index)


def _is_fresh(index: int) -> bool:
    return worlds.FRESH <= index < 2 * worlds.FRESH


def _range_text(run: Sequence[int]) -> str:
    if len(run) <= 2:
        return ",".join(map(start_text, run))
    after = run[-1] + 1 - (worlds.FRESH if _is_fresh(run[0]) else 0)
    return f"{start_text(run[0])}:{after}"


def parse_names(text: str | Iterable[str]) -> list[tuple[str, str]]:
    """(world, task) pairs from WORLD:TASK[,TASK..|all], or from several of those; every name is
    checked before anything runs.
    """
    pairs: list[tuple[str, str]] = []
    for piece in [text] if isinstance(text, str) else text:
        world, rest = worlds.split_name(piece)
        known = worlds.tasks(world)
        names = (
            list(known)
            if rest.strip() == "all"
            else [t.strip() for t in rest.split(",") if t.strip()]
        )
        if not names:
            raise CapexError(
                f"'{piece}' names no task; write {world}:{next(iter(known))} or {world}:all",
                code=ErrorCode.BAD_SETTING,
            )
        for name in names:
            if name not in known:
                raise worlds.unknown_task(world, name)
        pairs += [(world, name) for name in names]
    return list(dict.fromkeys(pairs))


def listed_names(value: Any) -> Any:
    """Names with commas, from a text or a list of texts."""
    listed = isinstance(value, Sequence) and not isinstance(value, str)
    return ",".join(str(v) for v in value) if listed else value


def read_dollars(value: Any) -> Any:
    """Dollars, exact, from a number or its text."""
    try:
        return value if isinstance(value, bool | Decimal) else Decimal(str(float(value)))
    except (TypeError, ValueError, OverflowError):
        return value


def readable(what: str) -> Callable[[Any], Any]:
    """Reads the path of a text file of some kind, which must be there."""

    def read(value: Any) -> Any:
        if not isinstance(value, str | os.PathLike):
            return value
        path = Path(value)
        try:
            path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise CapexError(
                f"the {what} file {path} cannot be read: {reason}", code=ErrorCode.UNREADABLE_FILE
            ) from None
        return path

    return read


def parse_resources(text: str) -> dict[str, float]:
    """What an attempt takes of a cluster, from "CPU=0.25,GPU=0.1"."""
    pairs = [piece.partition("=") for piece in text.split(",")]
    try:
        taken = {name.strip(): float(amount) for name, _, amount in pairs}
    except ValueError:
        taken = {}
    if not taken or not all(name and 0 < v < float("inf") for name, v in taken.items()):
        raise CapexError(
            f"'{text}' names no resources; {RESOURCES_EXAMPLE}", code=ErrorCode.BAD_SETTING
        )
    if "object_store_memory" in taken:
        raise CapexError(
            f"'{text}' names object_store_memory, which Ray gives out itself; leave it out",
            code=ErrorCode.BAD_SETTING,
        )
    return taken


def checked_resources(value: Any) -> Any:
    """The same as it was written, once it can be read."""
    if isinstance(value, str):
        parse_resources(value)
    return value


def checked_hints(value: Any) -> Any:
    """The path of a file of hints, which must be there and short enough."""
    if isinstance(value, str | os.PathLike):
        read_hints(value := Path(value))
    return value
