"""Jobs in processes of their own: results as they come, and a process that dies is an error with a
sentence.
"""

from __future__ import annotations

import contextlib
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import Connection, wait
from typing import TypeVar

from capex import worlds
from capex.errors import CapexError, ErrorCode
from capex.processes import Worker, spawn

Job = TypeVar("Job")
Result = TypeVar("Result")


def start(work: Callable[[Job], Result], *, daemon: bool = True) -> Worker:
    """A process that answers each job it is sent with `work(job)`, until its pipe closes."""
    return spawn(_serve, work, daemon=daemon)


def run_jobs(
    work: Callable[[Job], Result], jobs: Sequence[Job], parallel: int, *, fresh: bool = False
) -> Iterator[tuple[int, Result | CapexError]]:
    """Yield (index in `jobs`, result) as the jobs finish, at most `parallel` at a time.

    `fresh` gives each job a process that did nothing before; otherwise workers are kept, and a
    single one is this process itself. A job that fails with a sentence yields it as a CapexError;
    so does one whose process dies. Any other exception is a bug and is raised.
    """
    if parallel < 1:
        raise CapexError(
            f"--parallel is {parallel}; it must be at least 1", code=ErrorCode.BAD_SETTING
        )
    if parallel == 1 and not fresh:
        for index, job in enumerate(jobs):
            try:
                result: Result | CapexError = work(job)
            except CapexError as error:
                result = error
            yield index, result
        return
    waiting = deque(enumerate(jobs))
    busy: dict[Connection, tuple[Worker, int]] = {}
    idle: list[Worker] = []

    def hand_out() -> None:
        while waiting and len(busy) < parallel:
            worker = idle.pop() if idle else start(work)
            index, job = waiting.popleft()
            worker.pipe.send(job)
            busy[worker.pipe] = (worker, index)

    try:
        hand_out()
        while busy:
            finished: list[tuple[int, Result | CapexError]] = []
            for pipe in wait(list(busy)):
                assert isinstance(pipe, Connection)
                worker, index = busy.pop(pipe)
                try:
                    finished.append((index, worker.receive()))
                except CapexError as error:
                    finished.append((index, error))
                if fresh or not worker.process.is_alive():
                    worker.stop()
                else:
                    idle.append(worker)
            hand_out()  # before the caller looks at the results, so that nobody waits for it
            yield from finished
    finally:
        for worker in [*idle, *(worker for worker, _ in busy.values())]:
            worker.stop()


class Lane:
    """Jobs one after another, each in a process that did nothing before and may have processes of
    its own.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._lock = threading.Lock()
        self._worker: Worker | None = None
        self._closed = False

    def submit(self, work: Callable[[Job], Result], job: Job) -> Future[Result]:
        """Queue a job; its errors are those of `Worker.receive`."""
        return self._thread.submit(self._run, work, job)

    def _run(self, work: Callable[[Job], Result], job: Job) -> Result:
        with self._lock:
            if self._closed:
                raise CapexError("the job was not begun", code=ErrorCode.WORKER_DIED)
            self._worker = start(work, daemon=False)
        try:
            self._worker.pipe.send(job)
            result: Result = self._worker.receive()
            return result
        finally:
            self._worker.stop()

    def close(self) -> None:
        """End the job under way and begin no other."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            self._closed = True
            if self._worker is not None:
                self._worker.process.terminate()


def _serve(pipe: Connection, work: Callable[[Job], Result]) -> None:
    """The worker's side: jobs in, answers out, until the pipe closes."""
    worlds.draw_on_one_core()
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            job = pipe.recv()
            try:
                answer: tuple[str, object] = ("result", work(job))
            except CapexError as error:
                answer = ("error", error)
            except Exception:
                answer = ("bug", traceback.format_exc())
            pipe.send(answer)
