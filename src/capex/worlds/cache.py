"""Environments that are kept for the next use: building one takes longer than a reset."""

from __future__ import annotations

import threading

from capex import worlds
from capex.worlds import Env


class Environments:
    """Environments at rest, the latest used last, at most `size` of them; safe among threads."""

    def __init__(self, size: int = 1):
        self._size = size
        self._lock = threading.Lock()
        self._resting: list[Env] = []

    def take(self, name: str) -> Env:
        """An environment WORLD:TASK that nobody else has; made where none rests."""
        with self._lock:
            for k, env in enumerate(self._resting):
                if env.spec.name == name:
                    return self._resting.pop(k)
        self._close_beyond(self._size - 1)
        return worlds.make(name)

    def give(self, env: Env) -> None:
        """Put an environment to rest; the oldest beyond `size` is closed."""
        with self._lock:
            self._resting.append(env)
        self._close_beyond(self._size)

    def keep(self, name: str) -> Env:
        """An environment for one user at a time, who need not give it back."""
        env = self.take(name)
        self.give(env)
        return env

    def close(self) -> None:
        """Close what rests."""
        self._close_beyond(0)

    def _close_beyond(self, count: int) -> None:
        with self._lock:
            surplus = self._resting[: max(0, len(self._resting) - count)]
            del self._resting[: len(surplus)]
        for env in surplus:
            env.close()


OF_THIS_PROCESS = Environments()  # for a worker with many episodes of one task after another
