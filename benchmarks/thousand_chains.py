"""What a campaign costs beside its model and its world, from one chain to a thousand.

`python benchmarks/thousand_chains.py [CHAINS..] [--requests N] [--episodes N] [--rate R]
[--parallel N] [--folder DIR]`

The driver, the store and the spend log are the real ones; the world is tiny and the model a
stand-in (`rehearsal`) with the paper's figures: a success takes 37 requests and 6.6 minutes. Time
is compressed so that every row sends as many requests a second as a thousand chains at the paper's
pace, and only the number of chains differs. Each row is a process of its own.

Overhead is processor time: what other work on the machine takes does not count. The wall times
stand beside it, with what the machine gave. The runs lie in memory (/dev/shm) unless a folder is
given, so that a slow disk does not hide what the code does.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from rehearsal.paced import Asked, read_times
from rich.console import Console
from rich.table import Table

CHAINS = (1, 10, 100, 1000)
REQUESTS, SUCCESS_S = 37, 6.6 * 60  # of a success in the paper
RATE = 1000 * REQUESTS / SUCCESS_S  # requests a second of a thousand chains
CPU_MS = 10.0
FLAT = 1.5  # the most that a row may cost of what ten chains cost
HERE = Path(__file__).resolve().parent


class Watcher(threading.Thread):
    """Memory, handles and threads of this process, every half second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.over = threading.Event()
        self.most = dict.fromkeys(("memory_mb", "handles", "threads"), 0.0)

    def run(self) -> None:
        while not self.over.wait(0.5):
            for name, value in usage().items():
                self.most[name] = max(self.most[name], value)


def usage(process: int | None = None) -> dict[str, float]:
    """Memory in MB, open handles and threads of a process."""
    proc = Path(f"/proc/{process or os.getpid()}")
    pages = int((proc / "statm").read_text().split()[1])
    return {
        "memory_mb": pages * os.sysconf("SC_PAGE_SIZE") / 1e6,
        "handles": len(os.listdir(proc / "fd")),
        "threads": len(os.listdir(proc / "task")),
    }


def tasks(chains: int) -> str:
    return "rehearsal.tiny:" + ",".join(f"Walk{k:03d}" for k in range(chains))


def child(out: Path, times: Path, chains: int, seconds: float, engine: dict[str, Any]) -> None:
    """One campaign in this process; prints what it took as JSON."""
    import capex

    episodes = engine.pop("episodes")
    ended: list[float] = []
    began: list[tuple[float, float]] = []
    watcher = Watcher()

    def watch(event: object, board: object) -> None:
        if type(event).__name__ == "CampaignBegan":
            began.append((time.monotonic(), time.process_time()))
        if type(event).__name__ == "EpisodeEnded":
            ended.append(time.monotonic())

    before, asked = usage(), time.monotonic()
    watcher.start()
    capex.collect(
        tasks(chains),
        model=f"rehearsal.paced:{seconds:.6f},{times}",
        starts=range(episodes),
        out=out,
        watch=watch,
        **engine,
    )
    watcher.over.set()
    numbers = {
        "episodes": len(ended),
        "start_s": began[0][0] - asked,
        "seconds": ended[-1] - began[0][0],
        "driver_cpu_s": time.process_time() - began[0][1],
        "memory_before_mb": before["memory_mb"],
        **watcher.most,
    }
    print(json.dumps(numbers))


def campaign(
    folder: Path, chains: int, *, rate: float = RATE, requests: int = REQUESTS, **engine: Any
) -> dict[str, float]:
    """Run a row in a process of its own and reduce what it wrote to numbers."""
    times, out = folder / f"times-{chains}", folder / f"run-{chains}"
    times.mkdir(parents=True)
    engine.setdefault("episodes", 1)
    command = [sys.executable, __file__, "child", str(out), str(times)]
    command += [str(chains), str(chains / rate), json.dumps(engine)]
    env = os.environ | {"REHEARSAL_REQUESTS": str(requests), "OMP_NUM_THREADS": "1"}
    env["PYTHONPATH"] = os.pathsep.join([str(HERE), env.get("PYTHONPATH", "")])
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True, text=True)
    numbers: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return numbers | {"chains": chains} | reduce(list(read_times(times)), numbers)


def reduce(rows: list[Asked], numbers: dict[str, float]) -> dict[str, float]:
    """Overheads of requests, episodes and chains from when the model was asked."""
    attempts: dict[tuple[str, int], list[Asked]] = defaultdict(list)
    chains: dict[int, list[float]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.asked):
        attempts[row.process, row.thread].append(row)
    cpu, books, waits = [], [], []
    for asked in attempts.values():
        for one, other in pairwise(asked):
            if other.thread_cpu_s < one.thread_cpu_s or other.chain != one.chain:
                continue  # another attempt in a thread of the same number
            cpu.append(other.thread_cpu_s - one.thread_cpu_s)
            books.append(other.sent - other.asked + other.done - other.ready)
            waits.append(other.sent - one.ready)
            chains[other.chain].append(other.sent - one.ready)
    last = {row.process: row.process_cpu_s for row in rows}
    first = {row.process: row.process_cpu_s for row in reversed(rows)}
    workers = sum(last[name] - first[name] for name in last) if len(last) > 1 else 0.0
    driver = numbers["driver_cpu_s"] - (0.0 if workers else sum(cpu))
    each = [float(np.mean(own)) for own in chains.values()]
    found = {
        "requests": len(rows),
        "rest_ms": 1e3 * max(0.0, driver) / numbers["episodes"],
        "fairness": max(each) / float(np.median(each)),
        "given": (numbers["driver_cpu_s"] + workers) / numbers["seconds"],
    }
    for name, values in (("cpu", cpu), ("books", books), ("wall", waits)):
        found |= {
            f"{name}_p50_ms": 1e3 * float(np.median(values)),
            f"{name}_p95_ms": 1e3 * float(np.percentile(values, 95)),
        }
    return found


COLUMNS = {
    "chains": "{chains:.0f}",
    "episodes": "{episodes:.0f}",
    "requests": "{requests:.0f}",
    "requests/s": "{rps:.1f}",
    "cpu a request, ms (p95)": "{cpu_p50_ms:.1f} ({cpu_p95_ms:.1f})",
    "driver, begin and end of an episode, cpu ms": "{rest_ms:.0f}",
    "wall a request, ms (p95)": "{wall_p50_ms:.0f} ({wall_p95_ms:.0f})",
    "cores given": "{given:.2f}",
    "slowest chain / median": "{fairness:.2f}",
    "start, s": "{start_s:.1f}",
    "driver MB": "{memory_mb:.0f}",
    "handles": "{handles:.0f}",
    "threads": "{threads:.0f}",
}


def show(rows: list[dict[str, float]], title: str) -> None:
    table = Table(title=title, title_justify="left")
    for column in COLUMNS:
        table.add_column(column, justify="right")
    for row in rows:
        values = row | {"rps": row["requests"] / row["seconds"]}
        table.add_row(*(text.format(**values) for text in COLUMNS.values()))
    Console(width=150).print(table)


def broken(rows: list[dict[str, float]]) -> list[str]:
    """The promises that the rows break, as sentences."""
    said = []
    base = next((row for row in rows if row["chains"] >= 10), rows[0])
    for row in rows:
        if row["cpu_p95_ms"] >= CPU_MS:
            said.append(
                f"{row['chains']:.0f} chains: {row['cpu_p95_ms']:.1f} ms of a core a request at the"
                f" 95th percentile; under {CPU_MS:g} ms were promised"
            )
        for name, what in (("cpu_p50_ms", "a request"), ("rest_ms", "an episode beside them")):
            if row["chains"] > base["chains"] and row[name] > FLAT * base[name]:
                said.append(
                    f"{row['chains']:.0f} chains: {row[name]:.1f} ms of a core {what},"
                    f" {base[name]:.1f} ms with {base['chains']:.0f}; at most {FLAT:g} times that"
                    " was promised"
                )
    return said


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("chains", nargs="*", type=int, default=CHAINS)
    parser.add_argument("--requests", type=int, default=REQUESTS)
    parser.add_argument("--episodes", type=int, default=1)
    parser.add_argument("--rate", type=float, default=RATE)
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    rows = []
    with tempfile.TemporaryDirectory(dir=given.folder or memory, prefix="capex-chains-") as folder:
        for chains in given.chains:
            engine = {"slots": chains, "parallel": given.parallel, "episodes": given.episodes}
            rows.append(
                campaign(Path(folder), chains, rate=given.rate, requests=given.requests, **engine)
            )
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    show(rows, f"{given.rate:.0f} requests a second at most; {given.parallel} processes")
    for sentence in (faults := broken(rows)):
        print(sentence)
    return 1 if faults else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        child(
            Path(sys.argv[2]),
            Path(sys.argv[3]),
            int(sys.argv[4]),
            float(sys.argv[5]),
            json.loads(sys.argv[6]),
        )
    else:
        sys.exit(main())
