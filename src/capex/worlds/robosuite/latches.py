"""State that lives in Python objects: RoboCasa's fixtures remember there whether a button was
pressed, and for how long.

`Kitchen.update_state` lets every fixture look at the simulation after each control step; a
microwave's start button or a kettle's switch sets an attribute that no MuJoCo state holds. Those
attributes are read into numbers and written back: the private ones, of fixtures with an
`update_state` of their own, that hold a truth value, a number or nothing, or a dictionary of these.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

import numpy as np

from capex.pose import Array

_KINDS = ("other", "none", "bool", "int", "float")


class Latches:
    """The latches of an environment's fixtures; an environment without fixtures has none."""

    def __init__(self, env: Any):
        fixtures = getattr(env, "fixtures", {})
        keeping = [
            vars(fixtures[name]) for name in sorted(fixtures) if _keeps_state(fixtures[name])
        ]
        self._slots = [(attributes, path) for attributes in keeping for path in _paths(attributes)]

    @property
    def size(self) -> int:
        """How many numbers they take."""
        return 2 * len(self._slots)

    @property
    def vector(self) -> Array:
        """Kind and value of every latch."""
        numbers = [
            number
            for attributes, path in self._slots
            for number in _encoded(_holder(attributes, path).get(path[-1]))
        ]
        return np.array(numbers, dtype=np.float64)

    @vector.setter
    def vector(self, numbers: Array) -> None:
        for (attributes, path), (kind, value) in zip(
            self._slots, numbers.reshape(-1, 2).tolist(), strict=True
        ):
            word = _KINDS[int(kind)]
            if word != "other":
                _holder(attributes, path)[path[-1]] = {
                    "none": None,
                    "bool": bool(value),
                    "int": int(value),
                    "float": value,
                }[word]


def _keeps_state(fixture: Any) -> bool:
    """Whether a class of its own, not the common base, says how its state follows
    the simulation.
    """
    owner = next((c for c in type(fixture).__mro__ if "update_state" in vars(c)), None)
    return owner is not None and owner.__name__ != "Fixture"


def _paths(
    holder: MutableMapping[Any, Any], above: tuple[Any, ...] = ()
) -> Iterator[tuple[Any, ...]]:
    """Keys from a fixture's attributes down to each latch."""
    for key in sorted(holder, key=str):
        if not above and not str(key).startswith("_"):
            continue
        value = holder[key]
        if isinstance(value, dict):
            yield from _paths(value, (*above, key))
        elif _encoded(value)[0]:
            yield (*above, key)


def _holder(
    attributes: MutableMapping[Any, Any], path: tuple[Any, ...]
) -> MutableMapping[Any, Any]:
    """The dictionary that holds a latch now; a fixture may replace one."""
    for key in path[:-1]:
        attributes = attributes[key]
    return attributes


def _encoded(value: Any) -> tuple[float, float]:
    if value is None:
        return float(_KINDS.index("none")), 0.0
    if isinstance(value, (bool, np.bool_)):
        return float(_KINDS.index("bool")), float(value)
    if isinstance(value, (int, np.integer)):
        return float(_KINDS.index("int")), float(value)
    if isinstance(value, (float, np.floating)) and np.isfinite(value):
        return float(_KINDS.index("float")), float(value)
    return 0.0, 0.0
