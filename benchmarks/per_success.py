"""What a success took, by task and arm: requests, decisions, waypoints and control steps of every
attempt, divided by the successes.

`python benchmarks/per_success.py RUN` prints the table, how many plans were cut for low confidence,
and the tasks in which capex and capex-fresh took the same course at every start.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

import capex
from capex.method.record import EpisodeRecord

COLUMNS = ("task", "arm", "success", "requests", "decisions", "waypoints", "steps")


def amounts(records: Sequence[EpisodeRecord]) -> list[str]:
    """Successes, and each amount per success."""
    solved = sum(bool(r.success) for r in records)
    totals = [
        sum(r.requests for r in records),
        sum(len(r.turns) for r in records),
        sum(len(t.waypoints) for r in records for t in r.turns),
        sum(r.steps for r in records),
    ]
    return [
        f"{solved}/{len(records)}",
        *(f"{total / solved:.1f}" if solved else "inf" for total in totals),
    ]


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python benchmarks/per_success.py RUN")
    run = capex.load_run(sys.argv[1])
    held = {(c.task, c.arm): [e.record for e in c.episodes] for c in run.chains}
    table = Table(*COLUMNS)
    for (task, arm), records in sorted(held.items()):
        table.add_row(task, arm, *amounts(records))
    for arm in sorted({a for _, a in held}):
        table.add_row(
            "together",
            arm,
            *amounts([r for (_, a), records in held.items() if a == arm for r in records]),
        )
    console = Console()
    console.print(table)
    plans = [
        t
        for (_, arm), records in held.items()
        if arm == "capex"
        for r in records
        for t in r.turns
        if t.waypoints
    ]
    cut = sum(any(w.status == "deferred" for w in t.waypoints) for t in plans)
    console.print(f"capex: {cut:,} of {len(plans):,} plans were cut")
    course = {
        key: [(r.start, r.success, r.requests, r.steps) for r in records]
        for key, records in held.items()
    }
    same = sorted(
        task
        for task, arm in held
        if arm == "capex" and course[task, arm] == course.get((task, "capex-fresh"))
    )
    console.print(
        f"the same course with and without memory in {len(same)} tasks: {', '.join(same)}"
    )


if __name__ == "__main__":
    main()
