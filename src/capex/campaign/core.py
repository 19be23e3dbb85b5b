"""Sharing a processor core: of the episodes in a process one simulates at a time, and the others
wait for their models.

MuJoCo and Python keep one core busy, a model across the network keeps none. So an episode holds the
core except while its model thinks; more cores are more processes. It also means that worlds need
not be safe among threads: within a process they take turns.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from capex.models import AttemptObserver, Model, Reply, Request, Wrapped

HOLD_S = 0.2  # how often an attempt that stands still looks whether it may go on


class Stopped(BaseException):
    """The campaign stops, at once or because the episode only waits; the episode is cut off. Not an
    error: nothing that handles errors may swallow it.
    """


class Flag(Protocol):
    """Something that is set once, here or on another machine."""

    def is_set(self) -> bool:
        """Whether it is set."""


@dataclass
class Core:
    """A core, and the sign that all work on it is to stop. Who waits longest is next: with a
    thousand episodes on a core, chance would forget some of them for long.
    """

    stop: threading.Event = field(default_factory=threading.Event)
    # Episodes are finished, except those that wait for a model to be ready or for a pause to end.
    waits_over: Flag = field(default_factory=threading.Event)
    _guard: threading.Lock = field(default_factory=threading.Lock)
    busy: bool = False  # somebody has it
    _waiting: deque[threading.Lock] = field(default_factory=deque)  # released when it is theirs

    def take(self) -> None:
        """Wait for the core."""
        if self.take_now():
            return
        turn = threading.Lock()
        turn.acquire()
        with self._guard:
            if self.busy:
                self._waiting.append(turn)
            else:
                self.busy = True
                return
        turn.acquire()

    def take_now(self) -> bool:
        """Take the core if it is free."""
        with self._guard:
            free, self.busy = not self.busy, True
        return free

    def give(self) -> None:
        """Leave the core to others."""
        with self._guard:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self.busy = False


@dataclass
class Lease:
    """One episode's use of a core. Its clock stands still while the episode queues for the core,
    and runs on by what the model took when an answer comes from the log of a cut-off attempt: wall
    times, and what ends by them, depend neither on how many episodes share the core nor on how
    often the episode was cut off.
    """

    core: Core
    phase: Callable[[str], None] = lambda phase: None  # told: "queueing", "simulating", "waiting"
    queued_s: float = 0.0
    model_s: float = 0.0
    replayed_s: float = 0.0  # of model_s, what was waited for before this attempt

    def __enter__(self) -> Lease:
        self._take()
        return self

    def __exit__(self, *_: object) -> None:
        self.core.give()

    def clock(self) -> float:
        """Seconds, without those spent queueing and with those that replayed answers took when they
        were given.
        """
        return time.monotonic() - self.queued_s + self.replayed_s

    def replay(self, seconds: float) -> None:
        """An answer is taken from a log; the model took this long to give it."""
        self.replayed_s += seconds

    def hold(
        self,
        while_: Callable[[], bool],
        phase: str = "paused",
        look: Callable[[], None] = lambda: None,
    ) -> None:
        """Stand still, core and clock, for as long as somebody wants that, or until `look`
        raises.
        """
        if not while_():
            return
        self.core.give()
        self.phase(phase)
        began = time.monotonic()
        try:
            while while_() and not self.core.stop.wait(HOLD_S):
                look()
        finally:
            self.queued_s += time.monotonic() - began
            self._take()
        self.check()

    def check(self, *_: object) -> None:
        """Raise Stopped if the campaign stops at once."""
        if self.core.stop.is_set():
            raise Stopped

    def may_wait(self) -> None:
        """Raise Stopped if the campaign stops, or ends and waits no longer."""
        self.check()
        if self.core.waits_over.is_set():
            raise Stopped

    def _take(self) -> None:
        if not self.core.take_now():
            self.phase("queueing")
            asked = time.monotonic()
            self.core.take()
            self.queued_s += time.monotonic() - asked
        self.phase("simulating")


class Waiting(Wrapped):
    """A model for an episode that shares its core: the core is free while it thinks."""

    def __init__(self, model: Model, lease: Lease):
        super().__init__(model)
        self._lease = lease

    def complete(self, request: Request, observer: AttemptObserver | None = None) -> Reply:
        """Ask with the core given away, unless the model computes on it."""
        lease = self._lease
        lease.check()
        if self.computes_here:
            return self._model.complete(request, observer)
        lease.core.give()
        lease.phase("waiting")
        asked, replayed_s = time.monotonic(), lease.replayed_s
        try:
            return self._model.complete(request, observer)
        finally:
            lease.model_s += time.monotonic() - asked + lease.replayed_s - replayed_s
            lease._take()
