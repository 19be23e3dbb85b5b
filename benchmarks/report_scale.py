"""The report of 10,000 episodes: how long it takes, how much memory, how large the page.

Records are synthetic, of the size and shape of a campaign's: six tasks, three arms. The episodes
that the page shows in full get the saved states of a real attempt by the expert at their start, so
that rendering is paid for as in a real report.

    python benchmarks/report_scale.py [EPISODES] [FOLDER]
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
import runs
from capex import worlds
from capex.method.executor import Executor
from capex.method.state import Recorder
from capex.plan import PLAN_MAX
from capex.report.cards import SHOWN, choose_twins, sample
from capex.report.data import load
from capex.report.poster import choose_films
from capex.report.sections import results
from capex.report.sources import group
from capex.worlds import Start

TASKS = (
    "CloseFridge",
    "CloseToasterOvenDoor",
    "TurnOnMicrowave",
    "PickPlaceCounterToStove",
    "PickPlaceToasterToCounter",
    "PickPlaceSinkToCounter",
)
ARMS = ("capex", "base", "capex-fresh")
WAYPOINTS, PLANS = 6, 6
LIMITS = {"seconds": 60.0, "memory, MB": 2000.0, "page, MB": 20.0}
REPORT = (
    "import sys; from pathlib import Path; from capex import report;"
    " report.write([Path(sys.argv[1])], Path(sys.argv[2]))"
)


def states(name: str, index: int) -> dict[str, np.ndarray]:
    """Steps of the expert's attempt at a start."""
    env = worlds.make(name)
    env.reset(Start(env.spec.task, index))
    recorder = Recorder(env)
    executor = Executor(env, subscribers=[recorder])
    planner = worlds.expert(env.spec.world)
    decisions = 0
    while not env.success() and executor.steps_left > 0 and decisions < PLANS:
        recorder.begin_plan()
        executor.execute(planner(env, decisions)[:PLAN_MAX])
        decisions += 1
    env.close()
    return recorder.steps


def add_states(path: Path) -> int:
    """Give saved states to the episodes that the report will render."""
    sources, _ = group(load([path]))
    wanted = {e.path: e for _, e in sample(sources, SHOWN)}
    wanted |= {e.path: e for c in choose_twins(sources) for _, e in (c.first, c.second)}
    wanted |= {e.path: e for _, e in choose_films(sources, results(sources)[1])}
    made: dict[tuple[str, int], dict[str, np.ndarray]] = {}
    for episode in wanted.values():
        key = (f"{episode.world}:{episode.task}", episode.start)
        if key not in made:
            made[key] = states(*key)
        np.savez_compressed(episode.path / "steps.npz", allow_pickle=False, **made[key])
    return len(wanted)


def main() -> int:
    """Make the run unless the folder holds it, report on it in a process of its own, print the
    table.
    """
    episodes = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    folder = (
        Path(sys.argv[2]) if len(sys.argv) > 2 else Path(tempfile.mkdtemp(prefix="capex-scale-"))
    )
    path, out = folder / "run", folder / "report"
    if not path.exists():
        runs.campaign(
            path,
            TASKS,
            ARMS,
            -(-episodes // (len(TASKS) * len(ARMS))),
            waypoints=WAYPOINTS,
            plans=PLANS,
        )
        add_states(path)
    held = sum(1 for _ in path.glob("chains/*/episodes/*/record.json"))
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", REPORT, str(path), str(out)], check=True)
    took = time.perf_counter() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    peak = used.ru_maxrss / (1024 if sys.platform != "darwin" else 1024**2)
    page = (out / "report.html").stat().st_size / 1e6
    table = Table(
        title=f"capex report, {held:,} synthetic episodes, records of {_mean_kb(path):.0f} kB"
    )
    for column in ("what", "measured", "promised"):
        table.add_column(column, justify="left" if column == "what" else "right")
    measured = {"seconds": took, "memory, MB": peak, "page, MB": page}
    for name, value in measured.items():
        table.add_row(name, f"{value:.1f}", f"below {LIMITS[name]:.0f}")
    table.add_row("of them processor seconds", f"{used.ru_utime + used.ru_stime:.1f}", "")
    Console().print(table)
    return 0 if all(value < LIMITS[name] for name, value in measured.items()) else 1


def _mean_kb(path: Path) -> float:
    some = list(path.glob("chains/*/episodes/000*/record.json"))
    return sum(p.stat().st_size for p in some) / len(some) / 1000


if __name__ == "__main__":
    sys.exit(main())
