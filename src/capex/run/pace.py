"""A provider's limits on requests and tokens a minute, kept by all attempts of a campaign together.

pace.json in the run directory holds what was sent in the last minute; whoever sends looks there
first, under a lock. Times are seconds of the machine's clock that never goes back, so that a wall
clock that jumps changes nothing. On a Ray cluster the actor beside the driver keeps it for all
nodes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from capex.errors import CapexError, ErrorCode
from capex.run.files import lock
from capex.untrusted import loads, no_links

T = TypeVar("T")
PACE = "pace.json"
MINUTE_S = 60.0
LOCK_S = 30.0  # that others may hold the file
UNSENT = "no request is sent without it"


@dataclass(frozen=True)
class Rate:
    """What may be sent in any sixty seconds; None: no limit."""

    requests: int | None = None
    tokens: int | None = None


@dataclass(frozen=True)
class Turn:
    """Whether one may send now (`wait_s` is 0), and since when it counts."""

    wait_s: float
    at: float


class Pace:
    """What a campaign sent in the last minute."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic):
        self._path, self._clock = path, clock

    def turn(self, rate: Rate, tokens: int) -> Turn:
        """Count a request of so many tokens now, or say how long to wait. One that alone exceeds
        the limit on tokens goes when nothing else counts.
        """

        def count(sent: list[list[float]]) -> Turn:
            now = self._clock()
            wait_s = _wait_s(sent, rate, tokens, now)
            if wait_s == 0.0:
                sent.append([now, 1, tokens])
            return Turn(wait_s, now)

        return self._with_sent(count)

    def used(self, turn: Turn, more: int) -> None:
        """Count more tokens (or fewer, where negative) for a request, now that they are known."""
        self._with_sent(lambda sent: sent.append([turn.at, 0, more]))

    def _with_sent(self, do: Callable[[list[list[float]]], T]) -> T:
        try:
            with open(self._path, "a+", encoding="ascii", opener=no_links) as file:
                if not lock(file, patience_s=LOCK_S):
                    raise CapexError(
                        f"{self._path} is held by another process; {UNSENT}", code=ErrorCode.IN_USE
                    )
                file.seek(0)
                now = self._clock()
                sent = [row for row in _rows(file.read()) if now - MINUTE_S < row[0] <= now]
                before = len(sent)
                result = do(sent)
                if len(sent) > before:  # who only waits leaves the file as it is
                    file.seek(0)
                    file.truncate()
                    file.write(json.dumps(sent))
        except OSError as error:
            raise CapexError(
                f"{self._path} cannot be written ({error.strerror}); {UNSENT}",
                code=ErrorCode.CANNOT_WRITE,
            ) from error
        return result


def _rows(text: str) -> list[list[float]]:
    """What a file holds; nothing where a kill tore it."""
    try:
        rows = loads(text or "[]")
        return [[float(at), float(n), float(tokens)] for at, n, tokens in rows]
    except (ValueError, TypeError):
        return []


def _wait_s(sent: list[list[float]], rate: Rate, tokens: int, now: float) -> float:
    """Seconds until so much of what was sent is a minute old that the request fits."""
    requests, used, wait_s = sum(r[1] for r in sent), sum(r[2] for r in sent), 0.0
    for at, n, more in sorted(sent):
        fits = rate.requests is None or requests + 1 <= rate.requests
        if fits and (rate.tokens is None or used + tokens <= rate.tokens):
            break
        requests, used = requests - n, used - more
        wait_s = max(at + MINUTE_S - now, 0.001)
    return wait_s
