"""Work that processes share, each with a seed of its own."""

from __future__ import annotations

import multiprocessing as mp
import signal
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any

Tick = Callable[[int], bool]  # takes what is done so far, and says whether to go on
Work = Callable[[int, int, Tick], Any]  # takes a number, a seed and a tick


def share(work: Work, number: int, seed: int, processes: int, tick: Callable[[int], None]) -> list:
    """`work(part, seed + k, ..)` in each of several processes, or in this one if it is alone;
    returns what they returned. SIGTERM lets each end early by its tick.
    """
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
    if processes == 1:

        def alone(done: int) -> bool:
            tick(done)
            return not stopped

        return [work(number, seed, alone)]
    parts = [number // processes + (k < number % processes) for k in range(processes)]
    context, running, done, results = mp.get_context("spawn"), {}, {}, {}
    for k, part in enumerate(parts):
        hears, tells = context.Pipe(duplex=False)
        process = context.Process(target=_part, args=(work, part, seed + k, tells))
        process.start()
        tells.close()
        running[hears] = (k, process)
    told = False
    while running:
        if stopped and not told:
            told = True
            for _, process in running.values():
                process.terminate()  # SIGTERM, which each of them waits for
        for hears in wait(list(running), timeout=0.5):
            k, process = running[hears]
            try:
                kind, value = hears.recv()
            except EOFError:
                process.join()
                del running[hears]
                if k not in results:
                    raise SystemExit(f"process {k} ended with {process.exitcode}") from None
                continue
            (done if kind == "done" else results)[k] = value
            tick(sum(done.values()))
    return [results[k] for k in sorted(results)]


def _part(work: Work, number: int, seed: int, tells: Connection) -> None:
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))

    def tick(done: int) -> bool:
        with suppress(BrokenPipeError):
            tells.send(("done", done))
        return not stopped

    tells.send(("result", work(number, seed, tick)))
    tells.close()
