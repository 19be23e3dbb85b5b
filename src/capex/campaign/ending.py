"""How an attempt ends that leaves no record: kept as invalid, or dropped but for its exchanges.

What a robot has begun is always kept, with its frames, its cost and its time: a note in the
attempt's folder, written anew with each answer, survives even a kill.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from capex.campaign.core import Stopped
from capex.campaign.ledger import Ledger
from capex.errors import RigFault
from capex.method.hooks import Event, Replied
from capex.models.redact import scrub
from capex.operators import Operator, OperatorLeft
from capex.run.files import write_json
from capex.run.writing import BEGUN, EpisodeWriter
from capex.worlds import Env
from capex.worlds.robots import person_stops, recover

Stops = Sequence[Mapping[str, Any]]  # who stopped the arms, and after which step


@dataclass
class Ending:
    """Of one attempt. Its seconds count from `begin`, or from its making before that."""

    writer: EpisodeWriter
    facts: Mapping[str, Any]  # task, arm, start, model
    position: int
    ledger: Ledger
    clock: Callable[[], float]
    robot: bool
    _since: float = field(init=False)
    _began: bool = False

    def __post_init__(self) -> None:
        self._since = self.clock()

    @property
    def seconds(self) -> float:
        """How long the attempt took so far."""
        return self.clock() - self._since

    def begin(self) -> None:
        """The scene is arranged: from here on the robot may move."""
        if self.robot:
            self._since, self._began = self.clock(), True
            self._keep_note()

    def hear(self, event: Event) -> None:
        """What was paid for is noted at once."""
        if self._began and isinstance(event, Replied):
            self._keep_note()

    def committed(self, attempt_dir: Path) -> Path:
        """The attempt is whole: its note has done its work."""
        (attempt_dir / BEGUN).unlink(missing_ok=True)
        return attempt_dir

    def invalid(
        self,
        error: str,
        counts: bool,
        continues: bool,
        answered_s: float,
        stops: Stops = (),
        *,
        final: bool = False,
    ) -> Path:
        """Keep it as an invalid attempt; `continues`: the next one begins with its exchanges;
        `final`: there is no next one.
        """
        times = self._times() | {"answered_s": answered_s}
        note = self._note(error, counts, continues, stops) | ({"final": True} if final else {})
        return self.committed(self.writer.commit_invalid(note, times, {}, continues=continues))

    def early(self, why: str, stops: Stops = ()) -> Path | None:
        """It was cut off: keep what a robot has begun, of any other attempt the exchanges, with
        which the next one continues.
        """
        if not self.robot:
            self.writer.cut_off()
        elif not self._began:
            self.writer.discard()
        elif self.writer.folder.is_dir():
            with contextlib.suppress(OSError):  # on a full disk; the next command keeps it
                note = self._note(why, counts=False, continues=False, stops=stops)
                return self.committed(self.writer.commit_invalid(note, self._times(), {}))
        return None

    def untried(self) -> None:
        """Nobody answered: nothing was tried."""
        if self.robot:
            self.writer.discard()
        else:
            self.writer.cut_off()

    def _times(self) -> dict[str, float]:
        return {"episode_s": self.seconds, "unix_time": time.time()}

    def _keep_note(self) -> None:
        note = self._note("killed", counts=False, continues=False)
        write_json(self.writer.folder / BEGUN, note | {"timing": self._times()})

    def _note(self, error: str, counts: bool, continues: bool, stops: Stops = ()) -> dict[str, Any]:
        what: dict[str, Any] = {"error": error, "counts": counts, "continues": continues}
        if stops:
            what["rig"] = {"stops": list(stops)}  # where a record has them, too
        rest = {"position": self.position, "ledger": self.ledger.as_json()}
        note: dict[str, Any] = scrub({**self.facts, **what, **rest})
        return note


def recovered(
    env: Env, operator: Operator | None, fault: RigFault, check: Callable[[], None]
) -> bool:
    """Whether the rig is fine again: somebody says so, and nothing contradicts. What a person has
    stopped, also before this attempt, no stand-in lets go on.
    """
    with contextlib.suppress(Stopped, OperatorLeft):
        while operator is not None:
            if operator.stand_in and (fault.stop is not None or person_stops(env)):
                return False
            if not operator.recover(fault, check):
                return False
            try:
                recover(env)
                return True
            except RigFault as again:
                fault = again
    return False
