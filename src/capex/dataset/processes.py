"""Jobs in processes of their own: at most so many at a time, results as they come, and a process
that dies is an error with a sentence.

A worker waits on a pipe that only its parent holds, so that none outlives a parent that was killed.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import TypeVar

from capex import worlds
from capex.errors import CapexError, DamagedFile

Job = TypeVar("Job")
Result = TypeVar("Result")


@dataclass
class _Worker:
    """A process and the parent's end of its pipe."""

    process: BaseProcess
    pipe: Connection

    def stop(self) -> None:
        self.pipe.close()
        self.process.terminate()
        self.process.join()


def run_jobs(
    work: Callable[[Job], Result], jobs: Sequence[Job], parallel: int, *, fresh: bool = False
) -> Iterator[tuple[int, Result | CapexError]]:
    """Yield (place in `jobs`, result) as the jobs finish.

    `fresh` gives each job a process that did nothing before; otherwise workers are kept, and a
    single one is this process itself. A job that fails with a sentence yields it as a CapexError;
    so does one whose process dies. Any other exception is a bug and is raised.
    """
    if parallel < 1:
        raise CapexError(f"--parallel is {parallel}; it must be at least 1")
    if parallel == 1 and not fresh:
        for number, job in enumerate(jobs):
            try:
                result: Result | CapexError = work(job)
            except CapexError as error:
                result = error
            yield number, result
        return
    waiting = deque(enumerate(jobs))
    busy: dict[Connection, tuple[_Worker, int]] = {}
    idle: list[_Worker] = []

    def hand_out() -> None:
        while waiting and len(busy) < parallel:
            worker = idle.pop() if idle else _start(work)
            number, job = waiting.popleft()
            worker.pipe.send(job)
            busy[worker.pipe] = (worker, number)

    try:
        hand_out()
        while busy:
            finished: list[tuple[int, Result | CapexError]] = []
            for pipe in wait(list(busy)):
                assert isinstance(pipe, Connection)
                worker, number = busy.pop(pipe)
                alive, result = _answer(worker)
                finished.append((number, result))
                if alive and not fresh:
                    idle.append(worker)
                else:
                    worker.stop()
            hand_out()  # before the caller looks at the results, so that nobody waits for it
            yield from finished
    finally:
        for worker in [*idle, *(worker for worker, _ in busy.values())]:
            worker.stop()


def _start(work: Callable[[Job], Result]) -> _Worker:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(work, theirs), daemon=True)
    process.start()
    theirs.close()  # so that the end of the worker closes the pipe
    return _Worker(process, ours)


def _answer(worker: _Worker) -> tuple[bool, Result | CapexError]:
    """What a worker sent, and whether it still lives."""
    try:
        kind, content = worker.pipe.recv()
    except (EOFError, OSError):
        worker.process.join()
        return False, CapexError(
            f"its process ended with exit code {worker.process.exitcode} before it was done"
        )
    if kind == "bug":
        raise RuntimeError(f"a worker failed:\n{content}")
    return True, content


def _serve(work: Callable[[Job], Result], pipe: Connection) -> None:
    """The worker's side: jobs in, answers out, until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the parent's business
    worlds.draw_on_one_core()
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            job = pipe.recv()
            answer: tuple[str, object]
            try:
                answer = ("result", work(job))
            except CapexError as error:
                answer = (
                    "result",
                    error if isinstance(error, DamagedFile) else CapexError(str(error)),
                )
            except Exception:
                answer = ("bug", traceback.format_exc())
            pipe.send(answer)
