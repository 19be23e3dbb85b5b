"""How often processes that share a renderer draw an observation: view by view, and together.

`python benchmarks/drawing.py [PROCESSES ..] [--size 128] [--seconds 1]`

Each process draws the three views of kitchen:TurnOffStove from a start of its own. One by one, each
view is read back before the next is drawn; together, all of them are read at once, as `observe`
does. Fails where the pixels differ.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time

import numpy as np

from capex import worlds
from capex.worlds import Start

PROCESSES = (1, 6, 16)
TASK = "TurnOffStove"


def rates(job: tuple[int, int, float]) -> tuple[float, float, bool]:
    """Observations a second, one by one and together, and whether their pixels are equal."""
    start, side, seconds = job
    env = worlds.make(f"kitchen:{TASK}")
    env.reset(Start(TASK, start))
    names, size = [camera.name for camera in env.spec.cameras], (side, side)

    def alone() -> dict[str, np.ndarray]:
        return {name: env.observe([name], size)[name] for name in names}

    def together() -> dict[str, np.ndarray]:
        return env.observe(names, size)

    found = []
    for look in (alone, together):
        look()
        count, began = 0, time.perf_counter()
        while time.perf_counter() - began < seconds:
            look()
            count += 1
        found.append(count / (time.perf_counter() - began))
    one, all_of = alone(), together()
    return found[0], found[1], all(np.array_equal(one[name], all_of[name]) for name in names)


def main() -> int:
    """A line for each number of processes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("processes", nargs="*", type=int, default=PROCESSES)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--seconds", type=float, default=1.0)
    given, equal = parser.parse_args(), True
    for count in given.processes:
        jobs = [(start, given.size, given.seconds) for start in range(count)]
        with multiprocessing.get_context("spawn").Pool(count) as pool:
            rows = pool.map(rates, jobs, chunksize=1)
        one, together = (sum(row[k] for row in rows) for k in (0, 1))
        equal = equal and all(row[2] for row in rows)
        print(f"{count:3d} processes: one by one {one:.0f} a second, together {together:.0f}")
    print("pixels equal" if equal else "pixels DIFFER")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
