"""What a campaign costs beside its model and its world, from one chain to a thousand.

`python benchmarks/thousand_chains.py [CHAINS..] [--requests N] [--episodes N] [--rate R]
[--parallel N] [--ray NODES] [--slots N] [--folder DIR]`

The driver, the store and the spend log are the real ones; the world is tiny and the model a
stand-in (`rehearsal`) with the paper's figures: a success takes 37 requests and 6.6 minutes. Time
is compressed so that every row sends as many requests a second as a thousand chains at the paper's
pace, and only the number of chains differs. Each row is a process of its own.

Overhead is processor time: what other work on the machine takes does not count. A request costs
what its attempt's thread takes from one to the next, and its share of the driver's thread; an
episode beside its requests costs the rest of that thread: its beginning, its record, its files.
Both stay below 10 ms at the 95th percentile. The wall times stand beside it, with what the machine
gave. Over Ray, whose nodes are processes of this machine, an episode's rest is what its worker
process takes, Ray included, and the books are calls of the actor beside the driver: nothing is
promised of it. The runs lie in memory (/dev/shm) unless a folder is given, so that a slow disk does
not hide what the code does.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
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
EPISODES = 40  # of a row at least, so that there is a 95th percentile
CPU_MS = 10.0
FLAT = 1.5  # the most that a row may cost of what ten chains cost
HERE = Path(__file__).resolve().parent
# A busy machine answers late, which is no reason for Ray to give a node up.
PATIENT = {
    "RAY_gcs_server_request_timeout_seconds": "300",
    "RAY_gcs_rpc_server_connect_timeout_s": "120",
    "RAY_health_check_timeout_ms": "60000",
}


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


def note_ends(ends: list[tuple[int, int, float]]) -> None:
    """Note of every attempt's thread its number, its chain and its processor seconds in the end."""
    run = threading.Thread.run

    def noted(self: threading.Thread) -> None:
        run(self)
        if found := re.match(r"capex \S*Walk(\d+)", self.name):
            ends.append((threading.get_native_id(), int(found[1]), time.thread_time()))

    threading.Thread.run = noted  # type: ignore[method-assign]


def tasks(chains: int) -> str:
    return "rehearsal.tiny:" + ",".join(f"Walk{k:03d}" for k in range(chains))


def child(out: Path, times: Path, chains: int, seconds: float, engine: dict[str, Any]) -> None:
    """One campaign in this process; prints what it took as JSON."""
    import capex

    episodes = engine.pop("episodes")
    if (allowed := engine.pop("open_files", None)) is not None:  # at first, as a shell would
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    ended: list[float] = []
    began: list[tuple[float, float, float]] = []
    threads: list[tuple[int, int, float]] = []
    note_ends(threads)
    watcher = Watcher()

    def watch(event: object, board: object) -> None:
        if type(event).__name__ == "CampaignBegan":
            began.append((time.monotonic(), time.process_time(), time.thread_time()))
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
        "cpu_s": time.process_time() - began[0][1],  # of the process
        "driver_cpu_s": time.thread_time() - began[0][2],  # of its first thread
        "threads": threads,
        "memory_before_mb": before["memory_mb"],
        "most": watcher.most,
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
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    found = reduce(list(read_times(times)), told)
    del told["threads"]
    return told.pop("most") | told | {"chains": chains} | found


def reduce(rows: list[Asked], told: dict[str, Any]) -> dict[str, float]:
    """Overheads of requests, episodes and chains from when the model was asked."""
    cpu, books, waits, beside = [], [], [], []
    chains: dict[int, list[float]] = defaultdict(list)
    ends: dict[tuple[int, int], list[float]] = defaultdict(list)
    for thread, chain, cpu_s in told["threads"]:
        ends[thread, chain].append(cpu_s)
    for asked in attempts(rows):
        gaps = [other.thread_cpu_s - one.thread_cpu_s for one, other in pairwise(asked)]
        cpu += gaps
        for one, other in pairwise(asked):
            books.append(other.sent - other.asked + other.done - other.ready)
            waits.append(other.sent - one.ready)
            chains[other.chain].append(other.sent - one.ready)
        if gaps and (ended := ends[asked[0].thread, asked[0].chain]):
            beside.append(ended.pop(0) - len(asked) * float(np.mean(gaps)))
    last = {row.process: row.process_cpu_s for row in rows}
    first = {row.process: row.process_cpu_s for row in reversed(rows)}
    workers = sum(last[name] - first[name] for name in last) if len(last) > 1 else 0.0
    if not beside:  # attempts ran in other processes
        beside = [(workers - sum(cpu)) / told["episodes"]]
    each = [float(np.mean(own)) for own in chains.values()]
    driver_s = told["driver_cpu_s"] / len(rows)
    found = {
        "requests": len(rows),
        "driver_ms": 1e3 * driver_s,
        "fairness": max(each) / float(np.median(each)),
        "given": (told["cpu_s"] + workers) / told["seconds"],
    }
    for name, values in (
        ("cpu", np.array(cpu) + driver_s),
        ("beside", beside),
        ("books", books),
        ("wall", waits),
    ):
        found |= {
            f"{name}_p50_ms": 1e3 * float(np.median(values)),
            f"{name}_p95_ms": 1e3 * float(np.percentile(values, 95)),
        }
    return found


def attempts(rows: list[Asked]) -> list[list[Asked]]:
    """The requests of each attempt. A thread's processor time begins at nothing."""
    threads: dict[tuple[str, int, int], list[Asked]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.asked):
        threads[row.process, row.thread, row.chain].append(row)
    found = []
    for asked in threads.values():
        for row in asked:
            if row is asked[0] or row.thread_cpu_s < found[-1][-1].thread_cpu_s:
                found.append([])  # another attempt in a thread of the same number
            found[-1].append(row)
    return found


COLUMNS = {
    "chains": "{chains:.0f}",
    "episodes": "{episodes:.0f}",
    "requests": "{requests:.0f}",
    "requests/s": "{rps:.1f}",
    "cpu a request, ms (p95)": "{cpu_p50_ms:.1f} ({cpu_p95_ms:.1f})",
    "of it the driver": "{driver_ms:.2f}",
    "an episode beside them, cpu ms (p95)": "{beside_p50_ms:.1f} ({beside_p95_ms:.1f})",
    "wall a request, ms (p95)": "{wall_p50_ms:.0f} ({wall_p95_ms:.0f})",
    "of it the books": "{books_p50_ms:.0f} ({books_p95_ms:.0f})",
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
    Console(width=170).print(table)


def broken(rows: list[dict[str, float]]) -> list[str]:
    """The promises that the rows break, as sentences."""
    said = []
    base = next((row for row in rows if row["chains"] >= 10), rows[0])
    for row in rows:
        for name, what in (("cpu", "a request"), ("beside", "an episode beside its requests")):
            middle, most = row[f"{name}_p50_ms"], row[f"{name}_p95_ms"]
            if most >= CPU_MS:
                said.append(
                    f"{row['chains']:.0f} chains: {most:.1f} ms of a core {what} at the 95th"
                    f" percentile; under {CPU_MS:g} ms were promised"
                )
            flat = base[f"{name}_p50_ms"]
            if row["chains"] > base["chains"] and middle > FLAT * flat:
                said.append(
                    f"{row['chains']:.0f} chains: {middle:.1f} ms of a core {what}, {flat:.1f} ms"
                    f" with {base['chains']:.0f}; at most {FLAT:g} times that was promised"
                )
    return said


@contextlib.contextmanager
def nodes(number: int) -> Iterator[str]:
    """A Ray cluster with so many nodes, each a few processes of this machine; its address."""
    if not number:
        yield ""
        return
    os.environ |= PATIENT
    from ray.cluster_utils import Cluster

    small = {"num_cpus": 4, "object_store_memory": 80_000_000}
    cluster = Cluster(initialize_head=True, head_node_args={**small, "include_dashboard": False})
    for _ in range(number - 1):
        cluster.add_node(wait=False, **small)
    try:
        yield cluster.address
    finally:
        cluster.shutdown()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("chains", nargs="*", type=int, default=CHAINS)
    parser.add_argument("--requests", type=int, default=REQUESTS)
    parser.add_argument("--episodes", type=int, help="of a chain; by default 40 in all, or one")
    parser.add_argument("--rate", type=float, default=RATE)
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("--folder", type=Path)
    parser.add_argument(
        "--ray", type=int, default=0, help="nodes of a cluster that is started here"
    )
    parser.add_argument("--slots", type=int, help="by default one for each chain")
    given = parser.parse_args()
    os.environ["REHEARSAL_REQUESTS"] = str(given.requests)  # also on the nodes
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    rows = []
    with (
        tempfile.TemporaryDirectory(dir=given.folder or memory, prefix="capex-chains-") as folder,
        nodes(given.ray) as cluster,
    ):
        for chains in given.chains:
            episodes = given.episodes or max(1, EPISODES // chains)
            engine = {"slots": given.slots or chains, "episodes": episodes}
            engine |= {"ray": cluster} if cluster else {"parallel": given.parallel}
            rows.append(
                campaign(Path(folder), chains, rate=given.rate, requests=given.requests, **engine)
            )
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    where = f"{given.ray} nodes" if given.ray else f"{given.parallel} processes"
    show(rows, f"{given.rate:.0f} requests a second at most; {where}")
    for sentence in (faults := [] if given.ray else broken(rows)):
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
