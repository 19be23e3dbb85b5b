"""Random fault sequences in process: does any campaign count more than the maximum it announced?

    python benchmarks/budget_faults.py [SEQUENCES [SEED]] [--processes N]

By default 100,000 and 0; processes share the sequences, each with a seed of its own.

Each sequence is a small campaign with random budgets, played to its end (tests/budget_storm.py): a
provider that fails in every way, usage that is missing, zero, absurd or above what a request can
have, kills around every line of spend.jsonl, in flight and after an attempt, interrupts during
waits, and the command given again after each. After every command the sums of known and possible
cost are compared with the announced maximum, the campaign's budget, each start's budget and what
the provider charged. Only what a server claims beyond a request's worst case may exceed a maximum;
it is counted apart. Prints the table; exit status 1 where a promise was broken. SIGTERM ends it
early.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import tempfile
import time
from collections import Counter
from decimal import Decimal
from pathlib import Path

from rehearsal.shares import Tick, share
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from budget_storm import Storm, Tally

COLLECT_EVERY = 200  # sequences, in the place of the collector's own pace
SHOWN = 10  # broken promises that are printed


def play(sequences: int, seed: int, tick: Tick) -> Tally:
    """So many sequences, in a folder of its own."""
    shm = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None
    gc.disable()
    with tempfile.TemporaryDirectory(dir=shm) as folder:
        storm = Storm(Path(folder), seed)
        for number in range(sequences):
            if number % COLLECT_EVERY == 0:
                gc.collect()
                if not tick(number):
                    break
            storm.sequence(number)
    return storm.tally


def show(tallies: list[Tally], seconds: float) -> None:
    """The tables."""
    console = Console(width=100)
    seen: Counter[str] = sum((t.seen for t in tallies), Counter())
    table = Table(title="What happened", title_justify="left")
    table.add_column("what")
    table.add_column("times", justify="right")
    for what, times in seen.most_common():
        table.add_row(what, f"{times:,}")
    console.print(table)
    broken = [why for t in tallies for why in t.broken]
    claimed = max((t.above_usd for t in tallies), default=Decimal(0))
    rows = {
        "sequences": f"{sum(t.sequences for t in tallies):,}",
        "commands": f"{sum(t.commands for t in tallies):,}",
        "requests": f"{sum(t.requests for t in tallies):,}",
        "most that a server claimed beyond worst cases": f"${claimed:.4f}",
        "promises broken": str(len(broken)),
    }
    summary = Table(title="Budgets", title_justify="left", show_header=False)
    for name, value in rows.items():
        summary.add_row(name, value)
    console.print(summary)
    for why in broken[:SHOWN]:
        console.print(why, markup=False)
    console.print(f"{seconds:.0f} s, {len(tallies)} processes")


def main() -> None:
    """Play the sequences, and show what became of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sequences", nargs="?", type=int, default=100_000)
    parser.add_argument("seed", nargs="?", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    given, began = parser.parse_args(), time.monotonic()
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("sequences", total=given.sequences)

        def tick(done: int) -> None:
            bar.update(task, completed=done)
            print(f"{done} sequences", file=sys.stderr, flush=True)

        tallies = share(play, given.sequences, given.seed, given.processes, tick)
    show(tallies, time.monotonic() - began)
    sys.exit(1 if any(tally.broken for tally in tallies) else 0)


if __name__ == "__main__":
    main()
