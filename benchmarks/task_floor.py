"""What is solved without looking: the demonstrations' mean action, and random actions, on starts
that no demonstration used.

    capex expert kitchen:all --starts 0:20 --out runs/expert
    python benchmarks/task_floor.py runs/expert [--starts 1000:1020]

A student that does not beat this has learned nothing of its task. Random actions are drawn between
the demonstrations' smallest and largest and held for eight steps, so that they lead somewhere.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import numpy.typing as npt

from capex import worlds
from capex.campaign.names import parse_starts
from capex.errors import PhysicsDiverged
from capex.run.files import read_json
from capex.run.steps import read_steps
from capex.run.store import find_run
from capex.worlds import Env, Start

HELD = 8  # steps


def solved(
    env: Env, index: int, low: npt.NDArray[np.float64], high: npt.NDArray[np.float64]
) -> bool:
    """Whether random actions between two limits solve a start; equal limits give a
    constant action.
    """
    rng = np.random.default_rng(index)
    env.reset(Start(env.spec.task, index))
    action = low
    for step in range(env.spec.horizon):
        if step % HELD == 0:
            action = rng.uniform(low, high)
        try:
            env.apply(action)
        except PhysicsDiverged:
            return False
        if env.success():
            return True
    return False


def main() -> None:
    """Print a line per task of the run."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("run", type=Path)
    options.add_argument("--starts", default="1000:1020")
    given = options.parse_args()
    starts = parse_starts(given.starts)
    print(f"{'chain':52s} {'demonstrations':>14s} {'mean action':>12s} {'random':>8s}")
    for chain in find_run(given.run).chains():
        episodes = [chain.episode(i) for i in chain.finished()]
        records = [read_json(e / "record.json") for e in episodes]
        actions = [
            read_steps(e)["actions"] for e, r in zip(episodes, records, strict=True) if r["success"]
        ]
        if not actions:
            continue
        every, name = np.concatenate(actions), f"{records[0]['world']}:{records[0]['task']}"
        env = worlds.make(name)
        mean = every.mean(axis=0)
        still = sum(solved(env, i, mean, mean) for i in starts)
        wild = sum(solved(env, i, every.min(axis=0), every.max(axis=0)) for i in starts)
        env.close()
        print(
            f"{chain.path.name:52s} {len(actions):14d} {f'{still}/{len(starts)}':>12s}"
            f" {f'{wild}/{len(starts)}':>8s}",
            flush=True,
        )


if __name__ == "__main__":
    main()
