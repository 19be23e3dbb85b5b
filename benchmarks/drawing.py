"""How often processes that share a renderer draw an observation: view by view, and together.

`python benchmarks/drawing.py [PROCESSES ..] [--worlds 3] [--size 128] [--seconds 1]`

Each process draws the three views of kitchen:TurnOffStove in so many worlds, each from a start of
its own. One by one, each view is read back before the next is drawn; together, all views of a world
are read at once, as `observe` does; at once, those of all worlds, as rollouts do. Fails where the
pixels differ.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time

import numpy as np

from capex import worlds
from capex.students.rollouts import look
from capex.worlds import Start

PROCESSES = (1, 6, 16)
TASK = "TurnOffStove"


def rates(job: tuple[int, int, int, float]) -> tuple[list[float], bool]:
    """Observations a second in each way, and whether their pixels are equal."""
    first, count, side, seconds = job
    envs = [worlds.make(f"kitchen:{TASK}") for _ in range(count)]
    for start, env in enumerate(envs, start=first):
        env.reset(Start(TASK, start))
    names, size = [camera.name for camera in envs[0].spec.cameras], (side, side)

    def alone() -> list[dict[str, np.ndarray]]:
        return [{name: env.observe([name], size)[name] for name in names} for env in envs]

    def together() -> list[dict[str, np.ndarray]]:
        return [env.observe(names, size) for env in envs]

    def at_once() -> list[dict[str, np.ndarray]]:
        return look(envs, names, size)

    ways, found = (alone, together, at_once), []
    for way in ways:
        way()
        rounds, began = 0, time.perf_counter()
        while time.perf_counter() - began < seconds:
            way()
            rounds += 1
        found.append(rounds * count / (time.perf_counter() - began))
    one, *others = (np.stack([[seen[name] for name in names] for seen in way()]) for way in ways)
    return found, all(np.array_equal(one, other) for other in others)


def main() -> int:
    """A line for each number of processes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("processes", nargs="*", type=int, default=PROCESSES)
    parser.add_argument("--worlds", type=int, default=3)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--seconds", type=float, default=1.0)
    given, equal = parser.parse_args(), True
    for count in given.processes:
        starts = range(0, count * given.worlds, given.worlds)
        jobs = [(start, given.worlds, given.size, given.seconds) for start in starts]
        with multiprocessing.get_context("spawn").Pool(count) as pool:
            rows = pool.map(rates, jobs, chunksize=1)
        one, together, at_once = np.sum([found for found, _ in rows], axis=0)
        equal = equal and all(same for _, same in rows)
        print(
            f"{count:3d} processes of {given.worlds} worlds: one by one {one:.0f} a second,"
            f" together {together:.0f}, worlds at once {at_once:.0f}"
        )
    print("pixels equal" if equal else "pixels DIFFER")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
