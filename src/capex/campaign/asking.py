"""What people ask of an attempt while it runs, looked at between its decisions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from capex.campaign.core import Lease
from capex.method.hooks import Deciding, Event
from capex.run.requests import requested


@dataclass(frozen=True)
class Asking:
    """A subscriber of one attempt: where a pause is asked for, it stands still at its next
    decision, before the model is asked.
    """

    run: Path
    lease: Lease

    def __call__(self, event: Event) -> None:
        if isinstance(event, Deciding):
            self.lease.hold(lambda: requested(self.run, "pause") is not None)
