"""Kills a campaign of two tasks, two arms and ten starts with SIGKILL at random moments, and starts
it again each time.

`python benchmarks/kill_campaign.py [KILLS]`

After every kill what the run holds must be whole. In the end its records must equal those of an
undisturbed run, byte for byte but for times; nothing may have been paid for twice but what was in
flight at a kill, and that must stand in the ledger.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import capex
from capex.run.spend import Spend

TASKS = "kitchen:CloseFridge,TurnOnMicrowave"
SETTINGS = [
    "--arm",
    "capex,base",
    "--model",
    "pilot:price=gpt-6-astra",
    "--starts",
    "0:10",
    "--parallel",
    "2",
    "--slots",
    "4",
]
SETTINGS += ["--decisions", "8", "--image-size", "256"]
SLOTS = 4
TIMES = ("timing.json", "exchange_times.jsonl")


def campaign(out: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "capex.cli", "collect", TASKS, "--out", str(out), *SETTINGS]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def let_it_run(
    process: subprocess.Popen[bytes], run: Path, rng: random.Random, mean_s: float
) -> None:
    """Wait for a random moment: one in five before its first request, the others while it works."""
    if rng.random() < 0.2:
        time.sleep(rng.uniform(0.2, 2.5))
        return
    before = spent_bytes(run)
    while process.poll() is None and spent_bytes(run) == before:
        time.sleep(0.02)
    time.sleep(rng.uniform(0.0, 2 * mean_s))


def spent_bytes(run: Path) -> int:
    ledger = run / "spend.jsonl"
    return ledger.stat().st_size if ledger.exists() else 0


def contents(run: Path) -> dict[str, bytes]:
    files = (
        p
        for p in (run / "chains").rglob("*")
        if p.is_file() and p.name not in TIMES and not p.name.startswith(".")
    )
    return {str(p.relative_to(run)): p.read_bytes() for p in files}


def main() -> None:
    kills, rng = int(sys.argv[1]) if len(sys.argv) > 1 else 20, random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        calm, run = Path(folder) / "calm", Path(folder) / "run"
        began = time.monotonic()
        assert campaign(calm).wait() == 0
        calm_s = time.monotonic() - began
        print(
            f"undisturbed: {len(capex.load_run(calm).episodes)} episodes in {calm_s:.0f} s",
            flush=True,
        )
        waste = 0
        for number in range(1, kills + 1):
            process = campaign(run)
            let_it_run(process, run, rng, 0.7 * calm_s / kills)
            process.kill()
            process.wait()
            if (run / "manifest.json").exists():
                loaded = capex.load_run(run)
                assert not loaded.damaged, loaded.damaged
                paid = (
                    Spend(run / "spend.jsonl").account() if (run / "spend.jsonl").exists() else None
                )
                waste = paid.unsettled if paid else 0
                print(
                    f"kill {number:2d}: {len(loaded.episodes):2d} whole episodes, {waste} requests"
                    " lost in flight so far",
                    flush=True,
                )
        assert campaign(run).wait() == 0
        assert contents(run) == contents(calm), "the records differ"
        account, quiet = Spend(run / "spend.jsonl").account(), Spend(calm / "spend.jsonl").account()
        recorded = sum(e.record.extra["ledger"]["attempts"] for e in capex.load_run(run).episodes)
        twice = account.attempts - recorded
        assert recorded == quiet.attempts
        assert 0 <= twice <= kills * SLOTS
        print(
            f"\n{kills} kills: {len(contents(run))} files equal an undisturbed run's, byte for byte"
        )
        print(
            f"attempts at the model: {recorded} in the records, {account.attempts} in spend.jsonl;"
            f" {twice} paid twice, in flight at a kill"
        )
        settled, held = (
            f"${account.settled_usd:.4f} settled",
            f"${account.held_usd:.4f} held for what was lost",
        )
        print(f"dollars: ${quiet.total_usd:.4f} undisturbed, {settled} and {held}")


if __name__ == "__main__":
    main()
