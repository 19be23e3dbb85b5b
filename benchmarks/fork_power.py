"""How many episodes a comparison takes: unpaired, paired by start, paired by saved state.

Two stand-ins that differ in their eyes are compared on whole episodes from the same starts, and on
forks: from a decision of the first one's episodes both go on, with other noise than the origin
had. For every outcome the table has the variance of the difference within a pair, and the pairs
that a two-sided test at 5 % needs for a power of 80 %, for a difference of a given size.

    python benchmarks/fork_power.py --out runs/fork-power
    python benchmarks/fork_power.py --out runs/fork-power --tasks OpenDrawer --starts 0:12 --times 3
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import NormalDist

import numpy as np

import capex
from capex.run import LoadedEpisode, LoadedRun, load_run
from capex.run.forks import own_part

FIRST, SECOND = "pilot:0", "pilot:0,blur=10"
ARM = "capex-fresh"  # no memory: episodes of different starts are independent
Z = NormalDist().inv_cdf(0.975) + NormalDist().inv_cdf(0.8)
# Outcome -> its value, and the difference to be found.
OUTCOMES: dict[str, tuple[Callable[[LoadedEpisode], float], float]] = {
    "control steps": (lambda e: float(own_part(e.record).steps), 50.0),
    "requests": (lambda e: float(e.record.requests), 3.0),
    "success": (lambda e: float(bool(e.success)), 0.1),
}


def main() -> None:
    """Collect, fork, print the table; what is there already is not run again."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tasks", default="OpenDrawer,PickPlaceSinkToCounter")
    parser.add_argument("--starts", default="0:8")
    parser.add_argument("--decision", type=int, default=2)
    parser.add_argument("--times", type=int, default=2)
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("--table", action="store_true", help="only print what is there")
    given = parser.parse_args()
    for task in given.tasks.split(","):
        whole, forks = [
            [given.out / f"{task}-{kind}-{who}" for who in ("first", "second")]
            for kind in ("whole", "forks")
        ]
        if not given.table:
            make(task, whole, forks, given)
        print_table(task, [load_run(p) for p in whole], [load_run(p) for p in forks], given)


def make(
    task: str, whole: Sequence[Path], forks: Sequence[Path], given: argparse.Namespace
) -> None:
    """Whole episodes by both, then forks of the first one's by both."""
    for model, out in zip((FIRST, SECOND), whole, strict=True):
        capex.collect(
            f"kitchen:{task}",
            arm=ARM,
            model=model,
            starts=given.starts,
            out=out,
            parallel=given.parallel,
        )
    chain = f"kitchen--{task}--{ARM}"
    origins = load_run(whole[0]).episodes
    states = [
        f"{chain}/{e.index}@{given.decision}"
        for e in origins
        if len(e.record.turns) >= given.decision
    ]
    for model, out in zip((FIRST, SECOND), forks, strict=True):
        capex.fork(
            whole[0],
            states,
            model=model,
            times=given.times,
            seed=1,  # with 0 the first fork of the first would be its origin again
            out=out,
            parallel=given.parallel,
        )


def print_table(
    task: str, whole: Sequence[LoadedRun], forks: Sequence[LoadedRun], given: argparse.Namespace
) -> None:
    """Of every outcome and design: the difference, its variance within a pair, pairs needed."""
    a, b = ({e.index: e for e in run.episodes} for run in whole)
    starts = sorted(a.keys() & b.keys())
    x, y = ({e.index: e for e in run.episodes} for run in forks)
    numbers = sorted(x.keys() & y.keys())
    states = len({e.fork.state for e in x.values() if e.fork is not None})
    print(f"\n{task}: {len(starts)} starts, {states} states before decision {given.decision}")
    head = f"{'outcome':14} {'what':18} {'pairs':>5} {'mean':>8} {'variance':>9} {'ratio':>6}"
    print(f"{head} {'needed':>7}  (for a difference of)")
    for name, (value, size) in OUTCOMES.items():
        first, second = (np.array([value(s[i]) for i in starts]) for s in (a, b))
        one, two = (np.array([value(s[i]) for i in numbers]) for s in (x, y))
        rows = {
            "start, unpaired": (second - first, first.var(ddof=1) + second.var(ddof=1)),
            "start, paired": (second - first, (second - first).var(ddof=1)),
            "state, unpaired": (two - one, one.var(ddof=1) + two.var(ddof=1)),
            "state, paired": (two - one, (two - one).var(ddof=1)),
        }
        reference = rows["start, unpaired"][1]
        for design, (difference, variance) in rows.items():
            ratio = variance / reference if reference else math.nan
            needed = math.ceil(Z**2 * variance / size**2) if variance else 2
            print(
                f"{name:14} {design:18} {len(difference):5d} {difference.mean():8.2f}"
                f" {variance:9.2f} {ratio:6.2f} {max(2, needed):7d}  ({size:g})"
            )


if __name__ == "__main__":
    main()
