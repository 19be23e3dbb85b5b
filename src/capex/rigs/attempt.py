"""The attempt of a rig: its process is announced, its behaviour on a disconnect is noted, and its
notes enter the record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from capex.campaign.extensions import Attempt, CampaignExtension
from capex.method.record import EpisodeRecord
from capex.operators.inbox import announce_rig
from capex.run.files import write_json
from capex.worlds import Env, Start
from capex.worlds.robots import RigEnv

RIG = "rig"  # in the extensions of a record
LOCK_STEP = "lock-step"
RIG_FACTS = "rig.json"  # of a run: the behaviour of its arms when our processes end unexpectedly


class RobotAttempt(CampaignExtension):
    """Joins every attempt by a robot."""

    def __init__(self, attempt: Attempt):
        self._attempt = attempt
        self._rig = attempt.env if isinstance(attempt.env, RigEnv) else None

    def before_reset(self, env: Env, start: Start) -> None:
        if self._rig is not None:  # a person's stop must reach it before anything moves
            announce_rig(self._attempt.run_dir, *self._rig.rig_process())

    def prepare(self, env: Env, start: Start) -> None:
        path = self._attempt.run_dir / RIG_FACTS
        behaviour = {} if self._rig is None else dict(self._rig.disconnect_behaviour())
        if behaviour and not path.exists():
            write_json(path, {"disconnect_behaviour": behaviour})
        self._attempt.begun()

    def record_fields(self, record: EpisodeRecord) -> EpisodeRecord:
        if self._rig is None:
            return record
        notes = dict(self._rig.rig_notes())
        return replace(record, extensions={**record.extensions, RIG: notes})

    def note_fields(self) -> Mapping[str, Any]:
        stops = list(self._rig.person_stops()) if self._rig is not None else []
        return {RIG: {"stops": stops}} if stops else {}

    def duration_s(self, record: EpisodeRecord, model_s: float) -> float | None:
        """In lock-step the twin's own time, and the waiting for the model."""
        notes = record.extensions.get(RIG, {})
        return float(notes["robot_s"]) + model_s if notes.get("clock") == LOCK_STEP else None
