"""How many episodes a comparison takes: unpaired, paired by start, paired by saved state.

Two stand-ins that differ in their eyes are compared on whole episodes from the same starts, and on
forks: from a decision of the first one's episodes both go on, with other noise than the origin
had. For every outcome, counted from the start or from the state on, the table has the variance of
the difference between one episode of each, its ratio to that of pairs of starts, and the pairs that
a two-sided test at 5 % needs for a power of 80 %: for a difference of a given size, and for the one
that was seen.

    python benchmarks/fork_power.py --out runs/fork-power
    python benchmarks/fork_power.py --out runs/fork-power --tasks OpenDrawer --starts 0:12 --times 3
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

import capex
from capex.campaign.names import parse_starts
from capex.run import LoadedEpisode, LoadedRun, load_run

FIRST, SECOND = "pilot:0", "pilot:0,blur=10"
ARM = "capex-fresh"  # no memory: episodes of different starts are independent
Z = NormalDist().inv_cdf(0.975) + NormalDist().inv_cdf(0.8)
BOOTSTRAP = 2000
COLUMNS = (
    *("outcome", "compared from", "difference", "variance", "ratio", "95 %"),
    *("pairs for a difference of", "pairs for the one seen"),
)
Values = npt.NDArray[np.float64]
# Outcome -> its value, and the difference to be found.
OUTCOMES: dict[str, tuple[Callable[[LoadedEpisode], float], float]] = {
    "control steps": (lambda e: float(e.record.own_part().steps), 50.0),
    "requests": (lambda e: float(e.record.requests), 3.0),
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
    x, y = ({(e.record.start, e.index): e for e in run.episodes} for run in forks)
    wanted = set(parse_starts(given.starts))
    starts = sorted(a.keys() & b.keys() & wanted)
    numbers = sorted(pair for pair in x.keys() & y.keys() if pair[0] in wanted)
    title = f"{task}: {len(starts)} starts; {len(numbers)} pairs of forks at {given.decision}"
    compared = [[s[i] for i in starts] for s in (a, b)] + [[s[i] for i in numbers] for s in (x, y)]
    told = ", ".join(f"{sum(bool(e.success) for e in es)}/{len(es)}" for es in compared)
    table = Table(title=f"{title}; solved {told}", title_justify="left")
    for column in COLUMNS:
        table.add_column(column, justify="left" if column in COLUMNS[:2] else "right")
    for name, (value, size) in OUTCOMES.items():
        wholes = Sample(
            np.array([value(a[i]) for i in starts]),
            np.array([value(b[i]) for i in starts]),
            np.array(starts),
        )
        states = Sample(
            np.array([value(x[i]) for i in numbers]),
            np.array([value(y[i]) for i in numbers]),
            np.array([start for start, _ in numbers]),
        )
        for where, sample in (("start", wholes), ("state", states)):
            for paired in (False, True):
                design = f"{where}, {'paired' if paired else 'unpaired'}"
                low, high = ratio_interval(wholes, sample, paired)
                table.add_row(
                    name,
                    design,
                    f"{sample.difference.mean():.1f}",
                    f"{sample.variance(paired):.0f}",
                    f"{sample.variance(paired) / wholes.variance(True):.2f}",
                    f"{low:.2f} to {high:.2f}",
                    f"{size:g}: {needed(sample.variance(paired), size)}",
                    str(needed(sample.variance(paired), sample.difference.mean())),
                )
    Console(width=120).print(table)


@dataclass(frozen=True)
class Sample:
    """An outcome of the first and of the second in every pair, and the start that it belongs to."""

    first: Values
    second: Values
    starts: Values

    @property
    def difference(self) -> Values:
        """Second minus first."""
        return self.second - self.first

    def variance(self, paired: bool) -> float:
        """Of the difference between one episode of the second and one of the first."""
        if paired:
            return float(self.difference.var(ddof=1))
        return float(self.first.var(ddof=1) + self.second.var(ddof=1))

    def drawn(self, starts: Values) -> Sample:
        """With the pairs of these starts."""
        rows = np.concatenate([np.flatnonzero(self.starts == start) for start in starts])
        return Sample(self.first[rows], self.second[rows], self.starts[rows])


def ratio_interval(wholes: Sample, sample: Sample, paired: bool) -> tuple[float, float]:
    """The 95 % interval of a variance over that of pairs of starts: bootstrap over starts."""
    random, ratios = np.random.default_rng(0), []
    common = np.intersect1d(wholes.starts, sample.starts)
    for _ in range(BOOTSTRAP):
        starts = random.choice(common, len(common))
        reference = wholes.drawn(starts).variance(True)
        if reference:
            ratios.append(sample.drawn(starts).variance(paired) / reference)
    low, high = np.quantile(ratios, (0.025, 0.975)) if ratios else (math.nan, math.nan)
    return float(low), float(high)


def needed(variance: float, size: float) -> int | str:
    """Pairs, or episodes of each, for a power of 80 % at 5 %."""
    return max(2, math.ceil(Z**2 * variance / size**2)) if size else "-"


if __name__ == "__main__":
    main()
