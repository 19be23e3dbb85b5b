"""What is solved without skill: by the demonstrations' mean action, by random actions, and by
networks that were never trained, on starts that no demonstration used.

    capex expert kitchen:all --starts 0:20 --out runs/expert
    python benchmarks/task_floor.py runs/expert [--starts 1000:1020] [--tasks NAME ..]
        [--networks act diffusion] [--small] [--size 256] [--device auto] [--parallel 0]

A student that does not beat this has learned nothing of its task. Random actions are drawn between
the demonstrations' smallest and largest and held for eight steps, so that they lead somewhere.
Networks have the paper's sizes, unless --small; ACT's actions are scaled as the demonstrations'.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
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


def untrained(
    policy: str,
    name: str,
    starts: Sequence[int],
    numbers: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]],
    given: argparse.Namespace,
) -> int:
    """How many starts a network with fresh weights solves."""
    from rollout_speed import write_policy

    from capex.students.evaluate import Rollouts, evaluate

    env = worlds.make(name)
    spec = env.spec
    env.close()
    with tempfile.TemporaryDirectory() as scratch:
        kind = {"size": given.size, "small": given.small}
        folder = write_policy(Path(scratch, policy), policy, spec, numbers, **kind)
        where = {"parallel": given.parallel, "device": given.device}
        job = Rollouts(folder, name, tuple(starts), Path(scratch, "run"), **where)
        return sum(rollout.success is True for rollout in evaluate(job))


def main() -> None:
    """Print a line per task of the run."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("run", type=Path)
    options.add_argument("--starts", default="1000:1020")
    options.add_argument("--tasks", nargs="+", default=[])
    options.add_argument("--networks", nargs="+", default=[])
    options.add_argument("--small", action="store_true")
    options.add_argument("--size", type=int, default=256)
    options.add_argument("--device", default="auto")
    options.add_argument("--parallel", type=int, default=0)
    given = options.parse_args()
    starts = parse_starts(given.starts)
    heads = "".join(f"{name:>12s}" for name in ("mean action", "random", *given.networks))
    print(f"{'task':36s}{'demonstrations':>16s}{heads}")
    for chain in find_run(given.run).chains():
        if given.tasks and chain.path.name.split("--")[1] not in given.tasks:
            continue
        episodes = [chain.episode(i) for i in chain.finished()]
        records = [read_json(e / "record.json") for e in episodes]
        solutions = [read_steps(e) for e, r in zip(episodes, records, strict=True) if r["success"]]
        actions = [steps["actions"] for steps in solutions]
        if not actions:
            continue
        every, name = np.concatenate(actions), f"{records[0]['world']}:{records[0]['task']}"
        env = worlds.make(name)
        mean = every.mean(axis=0)
        still = sum(solved(env, i, mean, mean) for i in starts)
        wild = sum(solved(env, i, every.min(axis=0), every.max(axis=0)) for i in starts)
        env.close()
        numbers = np.concatenate([steps["proprio"][:-1] for steps in solutions]), every
        counts = [still, wild]
        counts += [untrained(policy, name, starts, numbers, given) for policy in given.networks]
        cells = "".join(f"{f'{count}/{len(starts)}':>12s}" for count in counts)
        print(f"{name:36s}{len(actions):16d}{cells}", flush=True)


if __name__ == "__main__":
    main()
