"""Tables of a TOML file, read key by key; each mistake is one sentence that names the file, the
key, what was given and what would be right.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from capex.errors import CapexError, ErrorCode, closest_first
from capex.pose import DOWN, FORWARD, Array, Pose, euler_to_matrix, quaternion_matrix

ORIENTATIONS = {"down": DOWN, "forward": FORWARD}
TURNS = ("orientation", "euler_deg", "quaternion_xyzw")


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """A TOML file as a mapping, or a sentence why not."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CapexError(
            f"the {what} {path} cannot be read: {reason}", code=ErrorCode.UNREADABLE_FILE
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise CapexError(
            f"the {what} {path} is not TOML: {error}", code=ErrorCode.UNREADABLE_FILE
        ) from None


class TomlTable:
    """One table. `of` names it in sentences; `end` refuses the keys that nobody asked for."""

    def __init__(self, path: Path, of: str, values: Any):
        self.path, self.of = path, of
        self._asked: list[str] = []
        if not isinstance(values, Mapping):
            raise CapexError(
                f"{path}: {of} is {values!r}; it must be a table of keys",
                code=ErrorCode.BAD_SETTING,
            )
        self.values = values

    def wrong(self, key: str, right: str) -> CapexError:
        """The error for a key whose value is not right, or is not there."""
        given = f"is {self.values[key]!r}" if key in self.values else "is missing"
        return CapexError(
            f"{self.path}: {self._named(key)} {given}; it must be {right}",
            code=ErrorCode.BAD_SETTING,
        )

    def _named(self, key: str) -> str:
        return f"{self.of}.{key}" if self.of else key

    def given(self, key: str) -> bool:
        """Whether the file has the key."""
        self._asked.append(key)
        return key in self.values

    def end(self) -> None:
        """Nothing more is asked for: a key that is left is a mistake."""
        for key in self.values:
            if key not in self._asked:
                valid = ", ".join(closest_first(key, set(self._asked)))
                of = f" in {self.of}" if self.of else ""
                raise CapexError(
                    f"{self.path}: there is no key '{key}'{of}; valid: {valid}",
                    code=ErrorCode.UNKNOWN_NAME,
                )

    def text(self, key: str, default: str | None = None) -> str:
        """A text; without a default it must be there and not be empty."""
        if not self.given(key) and default is not None:
            return default
        value = self.values.get(key)
        if not isinstance(value, str) or (default is None and not value.strip()):
            raise self.wrong(key, "a text" if default is not None else "a text that is not empty")
        return value.strip()

    def choice(self, key: str, words: Sequence[str], default: str | None = None) -> str:
        """One of a few words."""
        value = self.values[key] if self.given(key) else default
        if value not in words:
            raise self.wrong(key, f"one of {', '.join(words)}")
        return str(value)

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self.values[key] if self.given(key) else default
        if not isinstance(value, bool):
            raise self.wrong(key, "true or false")
        return value

    def number(
        self, key: str, default: float | None = None, *, least: float = 0.0, most: float = math.inf
    ) -> float:
        """A finite number above `least` (0: positive) and at most `most`."""
        value: Any = self.values[key] if self.given(key) else default
        if not _is_number(value) or not least < value <= most:
            bounds = {f"above {least:g}": least, f"at most {most:g}": most}
            which = " and ".join(text for text, bound in bounds.items() if math.isfinite(bound))
            raise self.wrong(key, f"a number {which}".rstrip())
        return float(value)

    def whole(self, key: str, default: int | None = None) -> int:
        """A whole number of at least 1."""
        value = self.values[key] if self.given(key) else default
        if type(value) is not int or value < 1:
            raise self.wrong(key, "a whole number of at least 1")
        return value

    def vector(self, key: str, length: int = 3) -> Array:
        """So many finite numbers."""
        value = self.values.get(key) if self.given(key) else None
        if not _are_numbers(value, length):
            raise self.wrong(key, f"{length} numbers, as in {[0.5] * length}")
        return np.array(value, dtype=np.float64)

    def corner(self, key: str) -> tuple[float, float, float]:
        """Three numbers, metres."""
        x, y, z = (float(v) for v in self.vector(key))
        return x, y, z

    def table(self, key: str, default: Mapping[str, Any] | None = None) -> TomlTable:
        """A table within."""
        if not self.given(key):
            if default is None:
                raise self.wrong(key, "a table of keys")
            return TomlTable(self.path, self._named(key), default)
        return TomlTable(self.path, self._named(key), self.values[key])

    def tables(self, key: str) -> list[TomlTable]:
        """Tables of an array, as in [[arms]]; each is named by its name once it has one."""
        rows = self.values[key] if self.given(key) else []
        if not isinstance(rows, list):
            raise self.wrong(key, f"an array of tables, each begun by [[{self._named(key)}]]")
        named = []
        for number, row in enumerate(rows, 1):
            name = row.get("name") if isinstance(row, Mapping) else None
            of = f"{self._named(key)} '{name}'" if isinstance(name, str) else ""
            named.append(TomlTable(self.path, of or f"{self._named(key)} number {number}", row))
        return named

    def pose(self, key: str, *, turned: bool = True) -> Pose:
        """{position_m, and one of orientation, euler_deg, quaternion_xyzw}. Where it need not be
        `turned`, leaving out all three means no turn.
        """
        table = self.table(key)
        position = table.vector("position_m")
        given = [name for name in TURNS if table.given(name)]
        table.end()
        if len(given) > 1 or (turned and not given):
            which = " and ".join(given) or "none"
            right = "position_m and one of orientation, euler_deg and quaternion_xyzw"
            raise CapexError(
                f"{self.path}: {table.of} has {which}; it must have {right}",
                code=ErrorCode.BAD_SETTING,
            )
        return Pose(position, _rotation(table, given[0]) if given else np.eye(3))


def _rotation(table: TomlTable, key: str) -> Array:
    """The orientation of a pose: down, forward, Euler degrees or a quaternion."""
    if key == "orientation":
        return ORIENTATIONS[table.choice(key, tuple(ORIENTATIONS))]
    if key == "euler_deg":
        return euler_to_matrix(table.corner(key))
    xyzw = table.vector(key, 4)
    length = float(np.linalg.norm(xyzw))
    if not 0.99 < length < 1.01:
        raise table.wrong(key, f"a quaternion of length 1; this one has length {length:.3g}")
    return quaternion_matrix(xyzw / length)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _are_numbers(value: Any, length: int) -> bool:
    return isinstance(value, list) and len(value) == length and all(map(_is_number, value))
