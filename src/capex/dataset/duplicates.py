"""Exact duplicates among demonstrations: the same start, states and actions, to the bit.

They come from a run that was given twice, from a branch beside its origin, or from two methods that
do not differ yet (with and without memory, before there is any). A learner would see the same
demonstration twice. Two demonstrations of one start that differ in a single bit are both kept.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from capex.run.steps import read_steps
from capex.run.summary import Summary


class Motions:
    """The motions taken so far, by start and length; arrays are read only where both agree."""

    def __init__(self) -> None:
        self._taken: dict[tuple[Any, int], list[Summary]] = defaultdict(list)
        self._digests: dict[Path, str] = {}

    def twin(self, attempt: Summary) -> Summary | None:
        """The attempt taken before that this one repeats."""
        return next((t for t in self._alike(attempt) if self._same(t, attempt)), None)

    def add(self, attempt: Summary) -> None:
        """Note an attempt that is taken."""
        self._alike(attempt).append(attempt)

    def _alike(self, attempt: Summary) -> list[Summary]:
        return self._taken[attempt.key[:4], attempt.steps]  # resumed ones repeat origins

    def _same(self, one: Summary, other: Summary) -> bool:
        same_file = one.path.resolve() == other.path.resolve()
        return same_file or self._digest(one) == self._digest(other)

    def _digest(self, attempt: Summary) -> str:
        path = attempt.path
        if path not in self._digests:
            steps = read_steps(path)
            arrays = (np.ascontiguousarray(steps[n]) for n in ("actions", "states", "proprio"))
            content = b"".join(str(a.shape).encode() + a.tobytes() for a in arrays)
            self._digests[path] = hashlib.sha256(content).hexdigest()
        return self._digests[path]
