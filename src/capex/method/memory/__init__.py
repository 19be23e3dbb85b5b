"""Memory: what earlier attempts left, and what the next episode's prompt gets of it.

`skeleton.py`, `references.py` and `failures.py` digest the record of an attempt as it comes in,
`context.py` makes prompt text of that.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from capex.errors import CapexError, ErrorCode
from capex.method.calibrator import Calibrator, prior_at
from capex.method.features import FEATURES
from capex.method.memory.failures import FAILURES_MAX, Failure, digest_failure
from capex.method.memory.references import REFERENCES_MAX, Reference, Source, digest
from capex.method.memory.skeleton import Skeleton
from capex.method.presets import MethodSettings
from capex.method.record import EpisodeRecord
from capex.pose import Array

_ROWS_AT_FIRST = 256


class Memory:
    """The accumulated state of one chain: calibration rows, skeleton, the latest successes and what
    stopped the latest failures.

    Attempts are digested one by one, in order, and not kept: an attempt costs what it is long,
    however many came before. One more success than references are shown is kept, from distinct
    starts, so that there are enough from other starts whichever start comes next.
    """

    def __init__(self) -> None:
        self._features: Array = np.empty((_ROWS_AT_FIRST, len(FEATURES)))
        self._labels: Array = np.empty(_ROWS_AT_FIRST)
        self._rows = 0
        self._calibrator: Calibrator | None = None  # in place of the rows
        self._skeleton = Skeleton()
        self._successes: tuple[Reference, ...] = ()
        self._failures: tuple[Failure, ...] = ()
        self._task = ""  # WORLD:TASK, once known
        self._frozen = False

    @property
    def attempts(self) -> int:
        """Attempts that were added."""
        return self._skeleton.attempts

    @property
    def labels(self) -> int:
        """Labelled waypoints."""
        return self._rows

    @property
    def skeleton(self) -> Skeleton:
        """The reliability summary so far."""
        return self._skeleton

    @property
    def successes(self) -> tuple[Reference, ...]:
        """The latest successes from distinct starts, oldest first."""
        return self._successes

    @property
    def failures(self) -> tuple[Failure, ...]:
        """What stopped the latest failed attempts, oldest first."""
        return self._failures

    def add(self, record: EpisodeRecord, images: Mapping[str, Source] | None = None) -> None:
        """Learn from one more attempt; a success needs its exterior start images by sha256.

        An attempt at another task is refused.
        """
        name = f"{record.world}:{record.task}"
        if self._frozen:
            instead = "add the attempt to the memory it was taken from"
            raise CapexError(
                f"a snapshot of memory does not learn; {instead}", code=ErrorCode.WRONG_ORDER
            )
        if self._task and name != self._task:
            other = f"an attempt at {name} does not belong in it"
            raise CapexError(f"this memory is about {self._task}; {other}", code=ErrorCode.MISMATCH)
        if record.human_steps:  # neither outcome is the model's
            record = replace(record, success=None)
        reference = digest(record, images or {}) if record.success else None
        self._append(record)
        self._task = name
        self._skeleton.add(record)
        if record.success is False:
            self._failures = (*self._failures, digest_failure(record))[-FAILURES_MAX:]
        if reference is not None:
            others = (r for r in self._successes if r.start != reference.start)
            self._successes = (*others, reference)[-1 - REFERENCES_MAX :]

    def labelled(self) -> tuple[Array, Array]:
        """Features (n, 8) and reach labels (n,) of the labelled waypoints in order, read-only."""
        assert self._calibrator is None, "a fitted snapshot has no rows"
        features, labels = self._features[: self._rows], self._labels[: self._rows]
        features.flags.writeable = labels.flags.writeable = False
        return features, labels

    def calibrator(self, method: MethodSettings, task: str) -> Calibrator:
        """What a method predicts with at WORLD:TASK after these labels."""
        if not method.calibrated:
            return Calibrator(None)
        if self._calibrator is not None:
            return self._calibrator
        return Calibrator.fit(*self.labelled(), prior_at(method.priors, task))

    def fitted(self, method: MethodSettings) -> Memory:
        """A snapshot for the episodes of a method, with its calibrator in place of the rows: what
        is sent to a worker does not grow with the attempts.
        """
        if not self._rows or self._calibrator is not None:
            return self.snapshot()
        frozen = copy.copy(self.snapshot())
        frozen._calibrator = self.calibrator(method, self._task)
        frozen._features, frozen._labels = np.empty((0, len(FEATURES))), np.empty(0)
        return frozen

    def snapshot(self) -> Memory:
        """Memory as it is now, for a round of episodes: it refuses new attempts.

        Rows that exist never change, so the arrays are shared, not copied.
        """
        if self._frozen:
            return self
        frozen = Memory()
        frozen._features, frozen._labels = self.labelled()
        frozen._rows = self._rows
        frozen._skeleton = copy.deepcopy(self._skeleton)
        frozen._successes, frozen._failures = self._successes, self._failures
        frozen._task, frozen._frozen = self._task, True
        return frozen

    def thawed(self) -> Memory:
        """A copy that learns."""
        own = copy.copy(self)
        own._features, own._labels = (rows.copy() for rows in self.labelled())
        own._skeleton, own._frozen = copy.deepcopy(self._skeleton), False
        return own

    def portable(self) -> Memory:
        """A snapshot that holds its pictures, for another machine."""
        frozen = copy.copy(self.snapshot())
        frozen._successes = tuple(
            replace(r, images=tuple(i.loaded() for i in r.images)) for r in self._successes
        )
        return frozen

    def _append(self, record: EpisodeRecord) -> None:
        waypoints = [w for t in record.turns for w in t.waypoints if w.label is not None]
        rows = [(w.features, w.label) for w in waypoints if w.features is not None]
        if wrong := {len(features) for features, _ in rows} - {len(FEATURES)}:
            features = f"a waypoint of start {record.start} has {min(wrong)} features"
            raise CapexError(
                f"{features}; the calibrator has {len(FEATURES)}", code=ErrorCode.MISMATCH
            )
        needed = self._rows + len(rows)
        if needed > len(self._labels):
            # doubling: an added row costs the same on average, however many there are
            size = max(needed, 2 * len(self._labels))
            grown, labels = np.empty((size, len(FEATURES))), np.empty(size)
            grown[: self._rows], labels[: self._rows] = self.labelled()
            self._features, self._labels = grown, labels
        if rows:
            self._features[self._rows : needed] = [features for features, _ in rows]
            self._labels[self._rows : needed] = [label for _, label in rows]
        self._rows = needed
