"""Episodes an hour with a model that answers after five seconds, by the number of chains that run
at once.

`python benchmarks/throughput.py [SECONDS_OF_THE_MODEL] [PROCESSES]`

Every chain runs the same number of short episodes of the pilot, made slow. While some wait for it,
others simulate.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

import capex

TASKS = ("CloseFridge", "CloseToasterOvenDoor", "TurnOnMicrowave", "PickPlaceCounterToStove")
ARMS = ("capex", "base", "capex-fresh", "capex-stated")
STARTS, DECISIONS = 3, 4


def measure(
    chains: int, delay_s: float, processes: int, folder: Path
) -> tuple[int, float, float, float]:
    """Episodes, seconds from the first episode's beginning to the last one's end, and the mean
    seconds of an episode and in its model.
    """
    tasks, arms = TASKS[: max(1, chains // len(ARMS))], ARMS[: min(chains, len(ARMS))]
    began: list[float] = []
    ended: list[float] = []

    def watch(event: object, board: object) -> None:
        if type(event).__name__ == "EpisodeMoved" and not began:
            began.append(time.monotonic())
        if type(event).__name__ == "EpisodeEnded":
            ended.append(time.monotonic())

    run = capex.collect(
        f"kitchen:{','.join(tasks)}",
        arm=",".join(arms),
        model=f"rehearsal.slow:{delay_s},pilot",
        starts=range(STARTS),
        decisions=DECISIONS,
        out=folder / f"{chains}",
        parallel=processes,
        watch=watch,
    )
    mean_s = sum(e.seconds for e in run.episodes) / len(run.episodes)
    model_s = sum(e.timing["model_s"] for e in run.episodes) / len(run.episodes)
    return len(run.episodes), ended[-1] - began[0], mean_s, model_s


def main() -> None:
    delay_s = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    processes = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    table = Table(
        title=(
            f"a model that answers after {delay_s:g} s; {processes} processes on {os.cpu_count()}"
            " cores"
        )
    )
    for column in (
        "chains at once",
        "episodes",
        "seconds",
        "episodes an hour",
        "times one chain",
        "episode, s",
        "of it model, s",
    ):
        table.add_column(column, justify="right")
    one = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for chains in (1, 4, 16):
            count, seconds, mean_s, model_s = measure(chains, delay_s, processes, Path(folder))
            rate = 3600 * count / seconds
            one = one or rate
            table.add_row(
                str(chains),
                str(count),
                f"{seconds:.0f}",
                f"{rate:.0f}",
                f"{rate / one:.1f}",
                f"{mean_s:.1f}",
                f"{model_s:.1f}",
            )
            print(f"{chains} chains: {rate:.0f} episodes an hour", flush=True)
    Console().print(table)


if __name__ == "__main__":
    main()
