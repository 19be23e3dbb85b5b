"""What people ask of an attempt while it runs, looked at before each of its decisions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from capex.campaign.core import Lease
from capex.run import requests
from capex.run.requests import IN_RECORD, Word


@dataclass
class Asking:
    """One attempt's ear: it stands still where a pause is asked for, and passes on what the
    operator says to the model. `recorded`: what a recording says was told, in place of files.
    """

    run: Path
    chain: str
    start: int
    lease: Lease
    paused: Callable[[], None]  # told that the attempt stands still
    resumed: bool  # whether it continues a cut-off attempt
    recorded: Sequence[dict[str, Any]] | None = None
    _told: list[tuple[int, Word]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.resumed and self.recorded is None:
            requests.forget_words(*self._place)

    @property
    def _place(self) -> tuple[Path, str, int]:
        return self.run, self.chain, self.start

    def heed(self, decision: int) -> str:
        """Wait while a pause is asked for; then what the operator says before this decision."""
        if self.recorded is not None:
            rows = [row for row in self.recorded if row["decision"] == decision]
            self._told += [(decision, Word(row["words"], row["by"], "")) for row in rows]
            return " ".join(row["words"] for row in rows)
        if self._pause_asked():
            self.paused()
            self.lease.hold(self._pause_asked)
        words, told = requests.said(*self._place), requests.told(*self._place)
        told_before = told[: len(words)]
        new = [decision] * (len(words) - len(told_before))
        if new and decision > max(told_before, default=0):
            told_before += new
            requests.keep_told(*self._place, told_before)
        rows_now = [w for w, d in zip(words, told_before, strict=False) if d == decision]
        self._told += [(decision, word) for word in rows_now]
        return " ".join(word.words for word in rows_now)

    def note(self) -> dict[str, Any]:
        """What a record says of it; nothing where nothing was said."""
        rows = [{"decision": d, "words": w.words, "by": w.by} for d, w in self._told]
        return {IN_RECORD: rows} if rows else {}

    def over(self) -> None:
        """The attempt is whole, and its record tells what was said."""
        if self._told and self.recorded is None:
            requests.forget_words(*self._place)

    def _pause_asked(self) -> bool:
        return requests.requested(self.run, "pause") is not None
