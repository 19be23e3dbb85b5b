"""What becomes of a deferral: what the next decision does about the waypoint that was deferred.

    python benchmarks/deferred_again.py RUN [RUN..]

By arm: how many plans were cut, whether the next plan asks for the same again (the same arms and
gripper words, within 3 cm: `capex.method.commit.planned_again`), and how that ended. Reads the
record.json of every episode and nothing else of a run.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections import Counter, defaultdict
from pathlib import Path

from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from capex.method.commit import planned_again
from capex.method.record import EpisodeRecord, WaypointRecord, from_json

ENDS = ("deferred again", "reached", "not reached", "no label", "asks for something else")


def followed(record: EpisodeRecord) -> Counter[str]:
    """How the deferrals of an episode went on; the last decision's have nothing after them."""
    turns = [turn for turn in record.turns if turn.waypoints]
    count: Counter[str] = Counter()
    for turn, after in itertools.pairwise(turns):
        first = next((row for row in turn.waypoints if row.status == "deferred"), None)
        if first is not None:
            plan = [row.waypoint for row in after.waypoints]
            again = sorted(planned_again(plan, [first.waypoint]))
            count[_end(after.waypoints[again[0]]) if again else ENDS[-1]] += 1
    return count


def _end(row: WaypointRecord) -> str:
    if row.status == "deferred":
        return ENDS[0]
    return ENDS[3] if row.label is None else ENDS[1] if row.label else ENDS[2]


def main(paths: list[Path]) -> None:
    """Print the table."""
    arms: dict[str, Counter[str]] = defaultdict(Counter)
    for path in paths:
        for file in sorted(path.glob("chains/*/episodes/*/record.json")):
            record = from_json(json.loads(file.read_text(encoding="utf-8")))
            arms[record.arm] += followed(record)
    table = Table("arm", "plans cut", *ENDS, box=MARKDOWN)
    for arm, count in arms.items():
        cut = count.total()
        shares = (f"{count[end]} ({count[end] / cut:.0%})" if cut else "" for end in ENDS)
        table.add_row(arm, f"{cut}", *shares)
    Console(width=150).print(table)


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
