"""What a fork goes on from, as a worker is told of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capex.analysis.fork_origin import KEY, Fork
from capex.method.prefix import Prefix
from capex.method.record import EpisodeRecord
from capex.models import pictures
from capex.models.exchanges import LOG, read_log
from capex.run import read_record
from capex.run.steps import read_steps
from capex.untrusted import read_bytes

# Where the observation's page holds the model's notes.
NOTES, AFTER_NOTES = "\nYour notes: ", "\nYour last acts"


@dataclass(frozen=True)
class Begun:
    """The folder of an episode, and a state of it."""

    episode: Path
    fork: Fork

    def prefix(self, *, notes: bool = False) -> Prefix:
        """The episode up to the state, with what the model had noted for itself by then."""
        record, decision = read_record(self.episode), self.fork.decision
        noted = self._notes(record) if notes else ""
        return Prefix(record, read_steps(self.episode), decision, noted)

    def note(self, folder: Path, record: EpisodeRecord) -> dict[str, Any]:
        """Put the pictures of the start beside the fork; what its record says of its origin."""
        for sha256 in record.images.values():
            kept = pictures.find(self.episode / pictures.IMAGES, sha256)
            copied = folder / pictures.IMAGES / kept.name
            if kept.is_file() and not copied.exists():
                copied.parent.mkdir(exist_ok=True)
                copied.write_bytes(read_bytes(kept))
        return {KEY: self.fork.as_json()}

    def _notes(self, record: EpisodeRecord) -> str:
        """The model's notes: they stand on the page of the decision's first request."""
        log = self.episode / LOG
        if not log.is_file():
            return ""
        before = sum(turn.calls for turn in record.turns[: self.fork.decision - 1])
        asked = [line["request"] for line in read_log(log) if line["number"] == 1]
        if before >= len(asked):
            return ""
        texts = [
            part["text"]
            for part in asked[before]["messages"][0].get("user", ())
            if "text" in part and NOTES in part["text"]
        ]
        return texts[0].partition(NOTES)[2].rpartition(AFTER_NOTES)[0] if texts else ""
