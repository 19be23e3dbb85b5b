"""Campaigns on disks that fill up, fail, turn read-only or take seconds, with files that cannot be
read, and under a wall clock that jumps.

    python benchmarks/disk_faults.py [FAULTS [SEED]]      default 300 and 0; needs gcc

Each campaign meets one fault, at a random moment, under its own feet: a library before the C
library (rehearsal/faulty_disk.c) lets a random call fail, half-written where it writes; where
mounting is allowed, some campaigns get a real disk that is too small. It must end with a sentence,
or not have needed what failed. Nothing may be half-written, and the same command, on a sound disk,
must end with the records of an undisturbed campaign and no request paid for twice but those in
flight. Prints the table; exit status 1 where that was not so. SIGTERM ends it early with its table.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

import capex
from capex import cli
from capex.campaign import api  # before the first fork, and not after each
from capex.campaign.engines import threads
from capex.run.spend import Spend

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from lab import model, world
from lab.campaigns import contents, flags, price_file

HERE = Path(__file__).resolve().parent
IMPORTED = (api, threads, model, world)

LIBRARY = "CAPEX_FAULTY_DISK"  # where the compiled library lies, in the process behind it
SLOTS, BUDGET_USD = 2, 30.0
WAIT_S = 120.0  # that a campaign may take before it counts as hanging


@dataclass(frozen=True)
class Fault:
    """What a process meets: from the call `at` on, or only there."""

    calls: str = ""  # w: what writes, r: opening to read
    error: int = 0
    lasting: bool = True
    slow_ms: int = 0
    clock_s: int = 0


FAULTS = {
    "disk full": Fault("w", errno.ENOSPC),
    "quota used up": Fault("w", errno.EDQUOT),
    "turns read-only": Fault("w", errno.EROFS),
    "disk fails for good": Fault("w", errno.EIO),
    "one call fails": Fault("w", errno.EIO, lasting=False),
    "one file cannot be read": Fault("r", errno.EIO, lasting=False),
    "no right to read one file": Fault("r", errno.EACCES, lasting=False),
    "fsync takes up to a second": Fault(slow_ms=1000),
    "clock jumps by up to a year": Fault(clock_s=365 * 86_400),
}
SMALL_DISK = "a real disk of 20 to 400 kB"
READERS = (["status"], ["forecast"], ["repair", "--dry-run"])
SOUND = Fault()
RARE_ONCE_IN = 5  # turns: those that take long
RARE = ("fsync takes up to a second", "clock jumps by up to a year")


@dataclass
class Told:
    """What became of the campaigns with one kind of fault."""

    campaigns: int = 0
    sentences: int = 0
    unharmed: int = 0  # ended as if nothing had happened
    broken: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    status: int
    said: str
    calls: int  # of the kind that could have failed


def command(words: list[str], under: Path, fault: Fault = SOUND, at: int = 0) -> Ended:
    """Run a command of ours in a process of its own, which meets a fault under a folder."""
    said, counted = under.parent / "said.txt", under.parent / "calls.txt"
    counted.write_text("0")
    child = os.fork()
    if child == 0:
        status = 70
        try:
            status = _child(words, under, said, counted, fault, at)
        finally:
            os._exit(status)
    until = time.monotonic() + WAIT_S
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.005)
    status = os.waitstatus_to_exitcode(ended[1])
    return Ended(status, said.read_text(encoding="utf-8"), int(counted.read_text()))


def _child(words: list[str], under: Path, said: Path, counted: Path, fault: Fault, at: int) -> int:
    out = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(out, 1)
    os.dup2(out, 2)
    library, place = ctypes.CDLL(os.environ[LIBRARY]), str(under).encode()
    library.rehearse(
        place, fault.calls.encode(), at, fault.error, fault.lasting, fault.slow_ms, fault.clock_s
    )
    sys.argv = ["capex", *words]
    try:
        cli.main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
        status = 70
    sys.stdout.flush()
    sys.stderr.flush()
    counted.write_text(str(library.rehearse(b"", b"", 0, 0, 0, 0, 0)))
    return status


class Bench:
    """Runs campaigns with faults and compares them with an undisturbed one."""

    def __init__(self, folder: Path, seed: int):
        self._folder, self._rng = folder, random.Random(seed)
        self._prices = price_file(folder)
        self.calm = folder / "calm"
        ended = command(self._collect(self.calm), self.calm, Fault("w"), 10**9)
        reads = command(self._collect(self.calm), self.calm, Fault("r"), 10**9)
        assert ended.status == reads.status == 0, ended.said + reads.said
        self.writes, self.reads = ended.calls, reads.calls
        self._calm = contents(self.calm)

    def _collect(self, out: Path) -> list[str]:
        return flags(out, starts="0:2", slots=SLOTS, prices=self._prices, campaign_usd=BUDGET_USD)

    def meet(self, kind: str, told: Told) -> None:
        """One campaign with one fault, and what it leaves."""
        told.campaigns += 1
        run = self._folder / "run"
        shutil.rmtree(run, ignore_errors=True)
        if kind == SMALL_DISK:
            self._small_disk(run, told)
        elif FAULTS[kind].calls == "r":
            self._unreadable(run, FAULTS[kind], told)
        else:
            at = self._rng.randint(1, self.writes)
            ended = command(self._collect(run), run, FAULTS[kind], at)
            self._judge(ended, told, f"at call {at}")
            self._go_on(run, told, f"at call {at}")

    def _small_disk(self, run: Path, told: Told) -> None:
        size_kb = self._rng.randint(20, 400)
        disk = self._folder / "disk"
        disk.mkdir(exist_ok=True)
        with mounted(disk, f"size={size_kb}k"):
            ended = command(self._collect(disk / "run"), disk / "run")
            self._judge(ended, told, f"of {size_kb} kB")
            if (disk / "run").exists():
                shutil.copytree(disk / "run", run)
        self._go_on(run, told, f"of {size_kb} kB")

    def _unreadable(self, run: Path, fault: Fault, told: Told) -> None:
        """Commands that read a run, and the campaign going on: no command may end in a traceback,
        and what was whole stays whole.
        """
        shutil.copytree(self.calm, run)
        words = self._rng.choice([*([w, *more] for w, *more in READERS), self._collect(run)])
        words = words if words[0] == "collect" else [words[0], str(run), *words[1:]]
        at = self._rng.randint(1, self.reads)
        ended = command(words, run, fault, at)
        self._judge(ended, told, f"{words[0]}, at call {at}")
        if contents(run) != self._calm:
            told.broken.append(f"{words[0]} changed the run, at call {at}")

    def _judge(self, ended: Ended, told: Told, when: str) -> None:
        said = " ".join(ended.said.split())
        if ended.status == 0 and "Traceback" not in said:
            told.unharmed += 1
        elif ended.status in (1, 2) and "Traceback" not in said and "capex: " in said:
            told.sentences += 1
        else:
            told.broken.append(f"{when}: exit status {ended.status}: {ended.said[-1500:]}")

    def _go_on(self, run: Path, told: Told, when: str) -> None:
        """What is there is whole, and the same command on a sound disk ends as if nothing had
        happened.
        """
        if (run / "manifest.json").exists() and (damaged := capex.load_run(run).damaged):
            told.broken.append(f"{when}: {damaged}")
        ended = command(self._collect(run), run)
        if ended.status != 0:
            told.broken.append(f"{when}: does not go on: {ended.said[-1500:]}")
            return
        if contents(run) != self._calm:
            told.broken.append(f"{when}: the records differ from an undisturbed campaign's")
        if left := list(run.rglob(".writing-*")):
            told.broken.append(f"{when}: {left[0]} is left half-written")
        account = Spend(run / "spend.jsonl").account()
        recorded = sum(e.record.ledger.attempts for e in capex.load_run(run).episodes)
        if not recorded <= account.attempts <= recorded + 2 * SLOTS:
            told.broken.append(f"{when}: {account.attempts} attempts for {recorded} recorded")
        if account.total_usd > BUDGET_USD or account.overruns:
            told.broken.append(f"{when}: ${account.total_usd} of ${BUDGET_USD}")


@contextlib.contextmanager
def mounted(place: Path, options: str) -> Iterator[None]:
    """A file system in memory at a place, where we may mount one."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def may_mount(folder: Path) -> bool:
    """Whether this user may mount a file system."""
    try:
        with mounted(folder, "size=8k"):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


def show(told: dict[str, Told], seconds: float) -> None:
    """The table."""
    table = Table(title="Campaigns on failing disks", title_justify="left")
    table.add_column("fault")
    for name in ("campaigns", "ended with a sentence", "did not need it", "broken"):
        table.add_column(name, justify="right")
    for kind, t in told.items():
        counts = (t.campaigns, t.sentences, t.unharmed, len(t.broken))
        table.add_row(kind, *(str(n) for n in counts))
    console = Console(width=110)
    console.print(table)
    console.print(f"{seconds:.0f} s")


def main() -> None:
    """So many faults, the kinds in turn."""
    faults = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    began, stopped = time.monotonic(), []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
    shm = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=shm) as folder:
        bench = Bench(Path(folder), seed)
        kinds = [k for k in FAULTS if k not in RARE] * RARE_ONCE_IN + list(RARE)
        (Path(folder) / "disk").mkdir()
        kinds += [SMALL_DISK] * RARE_ONCE_IN * may_mount(Path(folder) / "disk")
        random.Random(seed).shuffle(kinds)
        told = {kind: Told() for kind in sorted(kinds, key=[*FAULTS, SMALL_DISK].index)}
        console = Console(stderr=True)
        for number in track(range(faults), "campaigns", console=console):
            if stopped:
                break
            kind = kinds[number % len(kinds)]
            before = len(told[kind].broken)
            bench.meet(kind, told[kind])
            for why in told[kind].broken[before:]:
                print(f"{kind}, {why}", file=sys.stderr, flush=True)
    show(told, time.monotonic() - began)
    sys.exit(1 if any(t.broken for t in told.values()) else 0)


def preload() -> None:
    """Compile the library and begin this script again behind it."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "faulty_disk.so"
        source = HERE / "rehearsal" / "faulty_disk.c"
        build = ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
        subprocess.run(build, check=True)
        env = {**os.environ, "LD_PRELOAD": str(library), LIBRARY: str(library)}
        behind = subprocess.Popen([sys.executable, *sys.argv], env=env)
        signal.signal(signal.SIGTERM, lambda *_: behind.terminate())
        sys.exit(behind.wait())


if __name__ == "__main__":
    main() if LIBRARY in os.environ else preload()
