"""`rehearsal.slow:SECONDS,MODEL`: another model's answers, each after a wait, as if it thought
elsewhere.
"""

from __future__ import annotations

import time

from capex import models
from capex.models import AttemptObserver, Reply, Request


class Slow:
    """Waits, then answers. The wait keeps no core busy, as with a model across the network."""

    def __init__(self, rest: str):
        seconds, _, inner = rest.partition(",")
        self._seconds, self._model = float(seconds), models.make(inner)
        self.name, self.price_name, self.stand_in = (
            f"rehearsal.slow:{rest}",
            self._model.price_name,
            self._model.stand_in,
        )

    def complete(self, request: Request, observer: AttemptObserver | None = None) -> Reply:
        time.sleep(self._seconds)
        return self._model.complete(request, observer)


def make(rest: str) -> Slow:
    return Slow(rest)
