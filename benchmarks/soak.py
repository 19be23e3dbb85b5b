"""A campaign that runs for an hour with faults: do memory, handles, threads and temporary files
stay where they are?

`python benchmarks/soak.py [MINUTES] [--folder DIR]`

Eight chains in two processes against a loopback server with the faults of `fault_campaign.py` in
one request of twenty; every five minutes a worker is killed, always the younger one. World and
model are tiny stand-ins (`rehearsal`), so that an hour holds about as many requests as a week of
one chain at the paper's pace (37 requests in 6.6 minutes). What grows with the episodes by design
(the run directory, what the driver knows of each start) is counted and given per episode.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from fault_campaign import KINDS, Provider
from rehearsal.paced import stride
from rich.console import Console
from rich.table import Table
from thousand_chains import HERE, tasks, usage

from capex.pilot.serve import read_responses

sys.path.insert(0, str(HERE.parent / "tests"))
from wire_server import Turn

CHAINS, PROCESSES, SHARE = 8, 2, 0.05
STARTS = 20_000  # more than an hour holds
WEEK_REQUESTS = 7 * 24 * 60 / 6.6 * 37
PACE_S = 0.35  # a request: with its overhead, a week's requests in an hour
KILL_EVERY_MIN = 5.0
# What may be more in the last quarter than in the second. Memory beside what a start costs the
# driver, by which it may grow.
MOST = {"memory_mb": 8.0, "handles": 4.0, "threads": 2.0, "temporary": 4.0}
START_KB = 8.0


class Server(Provider):
    """Strides and faults without an end, and no books that grow."""

    def __init__(self, share: float):
        super().__init__(sys.maxsize, share)
        self.bodies = deque(maxlen=1)  # type: ignore[assignment]
        self.headers = deque(maxlen=1)  # type: ignore[assignment]

    def take(self) -> Turn:
        turn = super().take()
        return turn if turn.fault or turn.incomplete else Turn(calls=_walk, usage=turn.usage)

    def account(self, turn: Turn) -> None:
        """Nobody asks this server."""

    def __enter__(self) -> Server:
        super().__enter__()
        self._server.handle_error = lambda *_: None  # a killed client leaves half a request
        return self


def _walk(body: dict[str, Any]) -> list[tuple[str, Any]]:
    time.sleep(PACE_S)
    return [("act", stride(read_responses(body)))]


@dataclass
class Samples:
    """What a process held at each look."""

    seconds: list[float] = field(default_factory=list)
    rows: dict[str, list[float]] = field(default_factory=dict)

    def add(self, seconds: float, row: dict[str, float]) -> None:
        self.seconds.append(seconds)
        for name, value in row.items():
            self.rows.setdefault(name, []).append(value)

    def quarter(self, name: str, number: int) -> float:
        """The median in a quarter of the time, from 1."""
        values = self.rows[name]
        size = max(1, len(values) // 4)
        return float(np.median(values[(number - 1) * size : number * size if number < 4 else None]))


def child(out: str, url: str, hours: float, starts: int) -> None:
    """The campaign's process."""
    import capex
    from capex.campaign.scheduling import Pauses
    from capex.run import Depth

    capex.collect(
        tasks(CHAINS),
        model=f"rehearsal.faulty:{url}",
        starts=range(starts),
        out=out,
        parallel=PROCESSES,
        slots=CHAINS,
        campaign_hours=hours,
        campaign_usd=1_000_000_000,
        keep_images="start",
        pauses=Pauses(0.05, longest_s=0.2),
        depth=Depth.HEADS,
    )


def children(process: int) -> list[int]:
    """The worker processes of a driver, oldest first."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if int(fields[1]) == process and b"spawn_main" in command:
                found.append((int(fields[19]), int(entry.name)))
    return [number for _, number in sorted(found)]


def temporary(run: Path, scratch: Path) -> int:
    """Temporary files and folders: of the run, and in the folder for temporary files."""
    patterns = (".writing-*", "*/.writing-*", "chains/*/.writing-*", "chains/*/unfinished/*")
    inside = sum(1 for pattern in patterns for _ in run.glob(pattern))
    writing = sum(1 for _ in run.glob("chains/*/episodes/.writing-*"))
    return inside + writing + sum(1 for _ in scratch.rglob("*"))


def soak(
    folder: Path, minutes: float, starts: int = STARTS, every_s: float = 0.0
) -> tuple[dict[str, Samples], Counter[str], int, int, int]:
    """Run the campaign until the time is over or every start has run, and look at it all the time;
    samples by process, faults, requests, kills and how it ended. `every_s`: between two looks.
    """
    run, scratch = folder / "run", folder / "tmp"
    scratch.mkdir()
    looked: dict[str, Samples] = {"driver": Samples(), "older worker": Samples()}
    looked |= {"run": Samples()}
    env = {"REHEARSAL_REQUESTS": "37", **os.environ, "TMPDIR": str(scratch), "OMP_NUM_THREADS": "1"}
    env["PYTHONPATH"] = os.pathsep.join([str(HERE), env.get("PYTHONPATH", "")])
    rng, killed, requests = random.Random(0), 0, int(env["REHEARSAL_REQUESTS"])
    with Server(SHARE) as server:
        command = [sys.executable, __file__, "child", str(run), server.url]
        command += [str(minutes / 60), str(starts)]
        log = open(folder / "driver.log", "wb")  # noqa: SIM115  as long as the process
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
        while process.poll() is None and server.requests == 0:
            time.sleep(0.2)
        began = time.monotonic()
        every_s = every_s or max(0.5, 60 * minutes / 400)
        while process.poll() is None:
            at = time.monotonic() - began
            workers = children(process.pid)
            try:
                looked["driver"].add(at, usage(process.pid))
                if workers:
                    looked["older worker"].add(at, usage(workers[0]))
                looked["run"].add(at, {"temporary": temporary(run, scratch)})
            except OSError:  # it has just ended
                break
            kills = max(1, round(minutes / KILL_EVERY_MIN))
            done = max(at / (60 * minutes), server.requests / (starts * CHAINS * requests))
            due = killed < kills and done > (killed + 1) / (kills + 1)
            if due and len(workers) == PROCESSES:
                time.sleep(rng.uniform(0, every_s / 2))
                with contextlib.suppress(ProcessLookupError):  # it has just ended
                    os.kill(workers[-1], signal.SIGKILL)
                    killed += 1
            _say(at, minutes, server, killed)
            time.sleep(every_s)
        code = process.wait()
        log.close()
        print(file=sys.stderr)
        return looked, server.injected, server.requests, killed, code


def _say(at: float, minutes: float, server: Server, killed: int) -> None:
    told = f"{at / 60:.1f} of {minutes:g} min, {server.requests} requests"
    told += f", {sum(server.injected.values())} faults, {killed} kills "
    print(f"\r{told}", end="", file=sys.stderr, flush=True)


def report(folder: Path, minutes: float) -> int:
    """Soak, print the table, and say what grew."""
    looked, faults, requests, killed, code = soak(folder, minutes)
    episodes = sum(1 for _ in (folder / "run").glob("chains/*/episodes/[0-9]*"))
    title = f"{minutes:g} minutes: {episodes} episodes, {requests} requests"
    title += f" ({requests / WEEK_REQUESTS:.2f} weeks of a chain), {sum(faults.values())} faults of"
    title += f" {len(KINDS)} kinds, {killed} workers killed"
    table = Table(title=title, title_justify="left")
    for column in ("who", "what", "2nd quarter", "last quarter", "most", "growth", "promised"):
        table.add_column(column, justify="left" if column in ("who", "what") else "right")
    said = (folder / "driver.log").read_text(errors="replace")[-1000:]
    grown = [] if code == 0 else [f"the campaign ended with exit code {code}: {said}"]
    half = episodes / 2  # from the middle of the second quarter to that of the last
    for who, samples in looked.items():
        for name, values in samples.rows.items():
            before, after = samples.quarter(name, 2), samples.quarter(name, 4)
            most = MOST[name]
            if name == "memory_mb" and who == "driver":
                most += START_KB * half / 1000
            table.add_row(
                who,
                name.replace("_mb", ", MB"),
                f"{before:.1f}",
                f"{after:.1f}",
                f"{max(values):.1f}",
                f"{after - before:+.1f}",
                f"below {most:.1f}",
            )
            if after - before >= most:
                grown.append(f"{name} of the {who} grew from {before:.1f} to {after:.1f}")
    Console(width=110).print(table)
    for sentence in grown:
        print(sentence)
    return 1 if grown else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("minutes", nargs="?", type=float, default=60.0)
    parser.add_argument("--folder", type=Path, help="where the run lies; by default in memory")
    given = parser.parse_args()
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=given.folder or memory, prefix="capex-soak-") as folder:
        return report(Path(folder), given.minutes)


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        child(sys.argv[2], sys.argv[3], float(sys.argv[4]), int(sys.argv[5]))
    else:
        sys.exit(main())
