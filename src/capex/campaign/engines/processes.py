"""The engine with processes: each has a core of its own and runs several attempts, environments
built in it.

Processes are spawned. One that dies takes its attempts with it: the driver is told that
they are lost, and a new process takes its place. When the driver dies, its processes see the end of
their pipe and die too, in mid-request if need be.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from capex.campaign.attempt import AttemptJob, Progress
from capex.campaign.engines import Campaign, Lost, Message
from capex.campaign.engines.threads import Threads
from capex.errors import CapexError, ErrorCode
from capex.processes import ending, spawn

SILENT_DEATHS = 1  # processes in a row that may die without a word
END_WAITS = "end waits"  # to a worker, in the place of a job
ADVICE = (
    'a script that calls capex.collect with parallel must do so under `if __name__ == "__main__":`'
)


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Connection
    tickets: set[int] = field(default_factory=set)
    spoke: bool = False


class Processes:
    """Attempts in processes of this machine."""

    def __init__(self, campaign: Campaign, count: int, slots: int):
        self.slots = slots
        self._campaign = campaign.for_workers()
        self._messages: deque[Message] = deque()
        self._silent_deaths = 0
        self._stopped = False
        self._workers = [self._spawn() for _ in range(count)]

    def submit(self, ticket: int, job: AttemptJob) -> None:
        """Begin an attempt in the process with the fewest."""
        worker = min(self._workers, key=lambda w: len(w.tickets))
        worker.tickets.add(ticket)
        with contextlib.suppress(OSError):  # it has just died; `next` will find out
            worker.pipe.send((ticket, job))

    def next(self, timeout_s: float) -> Message | None:
        """The next message, or that a process has died."""
        if not self._messages:
            ready = set(wait([w.pipe for w in self._workers], timeout=max(0.0, timeout_s)))
            for worker in [w for w in self._workers if w.pipe in ready]:
                self._hear(worker)
        return self._messages.popleft() if self._messages else None

    def end_waits(self) -> None:
        """Cut off the attempts that only wait."""
        for worker in self._workers:
            with contextlib.suppress(OSError):  # it has just died
                worker.pipe.send(END_WAITS)

    def stop(self) -> None:
        """Cut off every attempt by ending the processes; what they had written is swept by the
        driver.
        """
        self._stopped = True
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.process.join()

    def close(self) -> None:
        """End the processes."""
        for worker in self._workers:
            worker.pipe.close()
        for worker in self._workers:
            worker.process.join(5)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()

    def _spawn(self) -> _Worker:
        worker = spawn(serve, self._campaign)
        return _Worker(worker.process, worker.pipe)

    def _hear(self, worker: _Worker) -> None:
        try:
            message: Message = worker.pipe.recv()
        except (EOFError, OSError):
            ended = ending(worker.process)
            worker.pipe.close()
            self._workers.remove(worker)
            if self._stopped:
                return
            self._silent_deaths = 0 if worker.spoke else self._silent_deaths + 1
            if self._silent_deaths > SILENT_DEATHS:
                raise CapexError(
                    f"worker processes die as they start ({ended}); {ADVICE}",
                    code=ErrorCode.WORKER_DIED,
                ) from None
            reason = f"the worker process died ({ended})"
            self._messages += [Message(ticket, Lost(reason)) for ticket in sorted(worker.tickets)]
            self._workers.append(self._spawn())
            return
        worker.spoke = True
        if not isinstance(message.what, Progress):
            worker.tickets.discard(message.ticket)
        self._messages.append(message)


def serve(pipe: Connection, campaign: Campaign) -> None:
    """What a worker process does until its driver is gone."""
    engine = Threads(campaign)
    threading.Thread(target=_report, args=(pipe, engine), daemon=True).start()
    while True:
        try:
            submitted: Any = pipe.recv()
        except (EOFError, OSError):
            # In mid-request if need be: an attempt that outlived its driver would be paid for
            # nothing.
            os._exit(0)
        if submitted == END_WAITS:
            engine.end_waits()
        else:
            engine.submit(*submitted)


def _report(pipe: Connection, engine: Threads) -> None:
    while True:
        if (message := engine.next(1.0)) is not None:
            try:
                pipe.send(message)
            except OSError:
                os._exit(0)
