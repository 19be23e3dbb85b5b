"""Episodes an hour with a model that answers after five seconds, by the number of chains that run
at once.

`python benchmarks/throughput.py [SECONDS_OF_THE_MODEL] [PROCESSES] [kitchen|tiny]`

Every chain runs the same number of short episodes of the pilot, made slow. While some wait for it,
others simulate. In the kitchen two cores also draw and simulate; `tiny` is a world that costs
nearly nothing, with a stand-in of its own (`rehearsal`): what it shows is the campaign alone, and
32 chains must do at least 28 times what one does.
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
LEVELS = {"kitchen": (1, 4, 16), "tiny": (1, 8, 32)}
PROMISED = {32: 28.0}  # chains at once in the tiny world: times one chain
os.environ["REHEARSAL_REQUESTS"] = str(DECISIONS)  # of an episode there


def campaign(world: str, chains: int, delay_s: float) -> dict[str, str]:
    """Tasks, arms and the model of so many chains."""
    if world == "tiny":
        walks = ",".join(f"Walk{k:03d}" for k in range(chains))
        return {"names": f"rehearsal.tiny:{walks}", "model": f"rehearsal.paced:{delay_s},"}
    tasks, arms = TASKS[: max(1, chains // len(ARMS))], ARMS[: min(chains, len(ARMS))]
    slow = f"rehearsal.slow:{delay_s},pilot"
    return {"names": f"kitchen:{','.join(tasks)}", "arm": ",".join(arms), "model": slow}


def measure(
    world: str, chains: int, delay_s: float, processes: int, folder: Path
) -> tuple[int, float, float, float]:
    """Episodes, seconds from the first episode's beginning to the last one's end, and the mean
    seconds of an episode and in its model.
    """
    began: list[float] = []
    ended: list[float] = []

    def watch(event: object, board: object) -> None:
        if type(event).__name__ == "EpisodeMoved" and not began:
            began.append(time.monotonic())
        if type(event).__name__ == "EpisodeEnded":
            ended.append(time.monotonic())

    run = capex.collect(
        **campaign(world, chains, delay_s),
        starts=range(STARTS),
        decisions=DECISIONS,
        out=folder / f"{chains}",
        parallel=processes,
        slots=max(chains, processes),
        watch=watch,
    )
    mean_s = sum(e.seconds for e in run.episodes) / len(run.episodes)
    model_s = sum(e.timing.model_s for e in run.episodes) / len(run.episodes)
    return len(run.episodes), ended[-1] - began[0], mean_s, model_s


def main() -> int:
    delay_s = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    processes = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    world = sys.argv[3] if len(sys.argv) > 3 else "kitchen"
    table = Table(
        title=(
            f"{world}: a model that answers after {delay_s:g} s; {processes} processes on"
            f" {os.cpu_count()} cores"
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
    one, kept = 0.0, True
    with tempfile.TemporaryDirectory() as folder:
        for chains in LEVELS[world]:
            count, seconds, mean_s, model_s = measure(
                world, chains, delay_s, processes, Path(folder)
            )
            rate = 3600 * count / seconds
            one = one or rate
            kept = kept and (world != "tiny" or rate / one >= PROMISED.get(chains, 0.0))
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
    if not kept:
        print(f"promised: {PROMISED[32]:g} times one chain with 32 chains")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
