"""The end of an attempt without a record: it is kept as invalid, or dropped but for its exchanges.

A robot's attempt is always kept, with its frames, its cost and its time: a note in the attempt's
folder, written anew with each answer, survives even a kill.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from capex import codec
from capex.campaign.core import Stopped
from capex.campaign.judging import Judge
from capex.campaign.ledger import Ledger
from capex.errors import OperatorLeft, RigFault
from capex.method.context import Event, Replied
from capex.models.redact import scrub
from capex.run.writing import EpisodeWriter, InvalidNote, Timing, forget_begun, note_begun
from capex.worlds import Env
from capex.worlds.robots import RigEnv


@dataclass
class AttemptCleanup:
    """Of one attempt. Its seconds count from `begin`, or from its making before that."""

    writer: EpisodeWriter
    facts: Mapping[str, Any]  # task, arm, start, seed, model, position: of its note
    ledger: Ledger
    clock: Callable[[], float]
    robot: bool
    note_fields: Callable[[], Mapping[str, Any]]  # of extensions
    _since: float = field(init=False)
    _began: bool = False

    def __post_init__(self) -> None:
        self._since = self.clock()

    @property
    def seconds(self) -> float:
        """How long the attempt took so far."""
        return self.clock() - self._since

    def begin(self) -> None:
        """The scene is ready: from here on the robot may move."""
        if self.robot:
            self._since, self._began = self.clock(), True
            self._keep_note()

    def on_event(self, event: Event) -> None:
        """Persist the cost after each reply."""
        if self._began and isinstance(event, Replied):
            self._keep_note()

    def committed(self, attempt_dir: Path) -> Path:
        """The attempt is whole: its note is not needed any more."""
        forget_begun(attempt_dir)
        return attempt_dir

    def invalid(
        self, error: str, answered_s: float, *, counts: bool, continues: bool, final: bool = False
    ) -> Path:
        """Keep it as an invalid attempt (`InvalidNote`)."""
        note = self._note(
            error, counts=counts, continues=continues, final=final, extensions=self.note_fields()
        )
        return self.committed(self.writer.commit_invalid(note, self._times(answered_s), {}))

    def early(self, why: str) -> Path | None:
        """It was cut off: keep a robot's attempt; of any other attempt the exchanges, with which
        the next one continues.
        """
        if not self.robot:
            self.writer.cut_off()
        elif not self._began:
            self.writer.discard()
        elif self.writer.folder.is_dir():
            with contextlib.suppress(OSError):  # on a full disk; the next command keeps it
                note = self._note(why, extensions=self.note_fields())
                return self.committed(self.writer.commit_invalid(note, self._times(), {}))
        return None

    def untried(self) -> None:
        """No request was answered: nothing was tried."""
        if self.robot:
            self.writer.discard()
        else:
            self.writer.cut_off()

    def _times(self, answered_s: float = 0.0) -> Timing:
        return Timing(episode_s=self.seconds, answered_s=answered_s, unix_time=time.time())

    def _keep_note(self) -> None:
        note_begun(self.writer.folder, self._note("killed"), self._times())

    def _note(self, error: str, **fields: Any) -> InvalidNote:
        note = InvalidNote(**self.facts, error=error, ledger=self.ledger.recorded(), **fields)
        return codec.from_json(scrub(codec.to_json(note)), InvalidNote)


def recovered(env: Env, judge: Judge | None, fault: RigFault, check: Callable[[], None]) -> bool:
    """Whether the robot is fine again: somebody confirms it, and nothing contradicts. A stop by a
    person, also before this attempt, is not cleared by a scripted operator.
    """
    rig = env if isinstance(env, RigEnv) else None
    with contextlib.suppress(Stopped, OperatorLeft):
        while judge is not None:
            stopped = fault.stop is not None or (rig is not None and rig.person_stops())
            if judge.stand_in and stopped:
                return False
            if not judge.recover(fault, check):
                return False
            try:
                if rig is not None:
                    rig.recover()
                return True
            except RigFault as again:
                fault = again
    return False
