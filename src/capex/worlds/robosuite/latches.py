"""State in Python objects: RoboCasa's fixtures remember there for how long a button was pressed.

`Kitchen.update_state` lets every fixture look at the simulation after each control step; a
microwave's start button or a kettle's switch sets an attribute that no MuJoCo state holds. Those
attributes are read into numbers and written back: the private ones, of fixtures with an
`update_state` of their own, that hold a truth value, a number or nothing, or a dictionary of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

import numpy as np

from capex.pose import Array

Holder = MutableMapping[Any, Any]


class Latches:
    """The latches of an environment's fixtures; an environment without fixtures has none."""

    def __init__(self, env: Any):
        fixtures = [fixture for _, fixture in sorted(getattr(env, "fixtures", {}).items())]
        keeping = [vars(fixture) for fixture in fixtures if _keeps_state(fixture)]
        self._slots = [(attributes, path) for attributes in keeping for path in _paths(attributes)]

    @property
    def size(self) -> int:
        """How many numbers they take."""
        return 2 * len(self._slots)

    @property
    def vector(self) -> Array:
        """Kind and value of every latch."""
        pairs = [_encoded(_holder(latch, path).get(path[-1])) for latch, path in self._slots]
        return np.array(pairs, dtype=np.float64).reshape(-1)

    @vector.setter
    def vector(self, numbers: Array) -> None:
        pairs = numbers.reshape(-1, 2).tolist()
        for (attributes, path), (kind, value) in zip(self._slots, pairs, strict=True):
            decode = _DECODE[int(kind)]
            if decode is not None:
                _holder(attributes, path)[path[-1]] = decode(value)


def _keeps_state(fixture: Any) -> bool:
    """Whether a class of its own, not the common base, updates its state from the simulation."""
    owner = next((c for c in type(fixture).__mro__ if "update_state" in vars(c)), None)
    return owner is not None and owner.__name__ != "Fixture"


def _paths(holder: Holder, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Keys from a fixture's attributes down to each latch."""
    for key in sorted(holder, key=str):
        if not above and not str(key).startswith("_"):
            continue
        value = holder[key]
        if isinstance(value, dict):
            yield from _paths(value, (*above, key))
        elif _encoded(value)[0]:
            yield (*above, key)


def _holder(attributes: Holder, path: tuple[Any, ...]) -> Holder:
    """The dictionary that holds a latch now; a fixture may replace one."""
    for key in path[:-1]:
        attributes = attributes[key]
    return attributes


def _encoded(value: Any) -> tuple[float, float]:
    """Kind and value: 0 anything else, 1 None, 2 a truth value, 3 an integer, 4 a number."""
    if value is None:
        return 1.0, 0.0
    if isinstance(value, (bool, np.bool_)):
        return 2.0, float(value)
    if isinstance(value, (int, np.integer)):
        return 3.0, float(value)
    if isinstance(value, (float, np.floating)) and np.isfinite(value):
        return 4.0, float(value)
    return 0.0, 0.0


_DECODE: tuple[Callable[[float], Any] | None, ...] = (None, lambda _: None, bool, int, float)
