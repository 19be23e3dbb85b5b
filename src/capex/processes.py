"""Processes of our own: spawned, not forked. Each watches its parent and ends with it, so that none
outlives a parent that was killed, and one that dies is an error with a sentence.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from capex import trust
from capex.errors import CapexError, ErrorCode


class WorkerDied(CapexError):
    """A process ended before its job was done."""

    code = ErrorCode.WORKER_DIED


@dataclass(frozen=True)
class Worker:
    """A process and the parent's end of its pipe."""

    process: BaseProcess
    pipe: Connection

    def receive(self) -> Any:
        """The answer to the job that was sent. A sentence of the worker's is raised as the
        CapexError it was there, its death as WorkerDied, and a bug as a RuntimeError with the
        worker's traceback.
        """
        try:
            kind, content = self.pipe.recv()
        except (EOFError, OSError):
            raise self._death() from None
        if kind == "bug":
            raise RuntimeError(f"a worker failed:\n{content}")
        if kind == "error":
            raise content
        return content

    def send(self, job: Any) -> None:
        """Send a job; WorkerDied where nobody is there to take it."""
        try:
            self.pipe.send(job)
        except OSError:
            raise self._death() from None

    def _death(self) -> WorkerDied:
        return WorkerDied(f"its process died ({ending(self.process)}) before it was done")

    def stop(self) -> None:
        """End the process at once."""
        self.pipe.close()
        self.process.terminate()
        self.process.join()


def ending(process: BaseProcess) -> str:
    """How a process ended, for a sentence."""
    process.join()
    code = process.exitcode
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        return f"{name}, perhaps for lack of memory" if name == "SIGKILL" else name
    return f"exit code {code}"


def set_niceness(niceness: int) -> int:
    """How far the calling thread gives way to others (on Linux; elsewhere its process); below 0 it
    comes before them, where the system lets us say so. Returns what it was; threads and processes
    that it starts inherit it. Between sessions Linux may weigh whole sessions alone (autogroup), so
    that a process that leads one says it for its session, too.
    """
    before = 0
    with contextlib.suppress(OSError, AttributeError):
        before = os.getpriority(os.PRIO_PROCESS, 0)
        os.setpriority(os.PRIO_PROCESS, 0, niceness)
        if os.getsid(0) == os.getpid():
            Path("/proc/self/autogroup").write_text(str(niceness))
    return before


# A Python process that is started with this looks for no module in the current folder, which may be
# a stranger's run; without it the folder would come before everything else.
SAFE_PATH = {"PYTHONSAFEPATH": "1"}


_guard, _inside = threading.Lock(), 0
_before: dict[str, str | None] = {}


@contextlib.contextmanager
def safe_path() -> Iterator[None]:
    """For processes that others start in our name, multiprocessing or a package as it is imported:
    their environment is ours.
    """
    global _inside
    with _guard:  # of several threads the first one in and the last one out change the environment
        if _inside == 0:
            _before.update({name: os.environ.get(name) for name in SAFE_PATH})
            os.environ.update(SAFE_PATH)
        _inside += 1
    try:
        yield
    finally:
        with _guard:
            _inside -= 1
            for name, value in _before.items() if _inside == 0 else ():
                os.environ.pop(name, None) if value is None else os.environ.update({name: value})


def spawn(target: Callable[..., None], *args: Any, daemon: bool = True) -> Worker:
    """Run `target(pipe, *args)` in a new process; a daemon cannot have processes of its own."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(
        target=_enter,
        args=(trust.held(), target, theirs, *args),
        name="capex worker",
        daemon=daemon,
    )
    with safe_path():
        process.start()
    theirs.close()  # so that the end of the worker closes the pipe
    return Worker(process, ours)


def _enter(allowed: trust.Trust, target: Callable[..., None], *args: Any) -> None:
    """What every worker does first."""
    trust.hold(allowed)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent acts
    threading.Thread(target=_end_with_parent, daemon=True).start()
    target(*args)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
