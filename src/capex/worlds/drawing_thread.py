"""The thread that draws: a GL context belongs to one."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class DrawingThread:
    """Runs what it is given, one after the other, on the thread that holds the GL context."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def run(self, work: Callable[[], T]) -> T:
        """The result of `work`, or what it raised."""
        if self._thread is threading.current_thread():
            future = self.post(work)
            while not future.done():
                self._serve_next()
            return future.result()
        with self._starting:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(None, self._serve, "capex drawing", daemon=True)
                self._thread.start()
        return self.post(work).result()

    def be_this_one(self) -> None:
        """Draw on the calling thread; what others post is done when it draws next. Too late once
        another one has begun.
        """
        with self._starting:
            self._thread = self._thread or threading.current_thread()

    def post(self, work: Callable[[], T]) -> Future[T]:
        """The same without waiting; safe wherever the garbage collector may call it."""
        future: Future[T] = Future()
        self._work.put((future, work))
        return future

    def _serve(self) -> None:
        while True:
            self._serve_next()

    def _serve_next(self) -> None:
        future, work = self._work.get()
        try:
            future.set_result(work())
        except BaseException as error:  # whoever asked gets it
            future.set_exception(error)
