"""What becomes of a deferral: what the next decision does about the waypoint that was deferred.

    python benchmarks/deferred_again.py RUN [RUN..]

By arm: how many plans were cut, whether the next plan asks for the same again (the same arms and
gripper words, within 3 cm: `planned_again` below), and how that ended. Reads the
record.json of every episode and nothing else of a run.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from capex.method.record import EpisodeRecord, WaypointRecord, from_json
from capex.plan import Waypoint

ENDS = ("deferred again", "reached", "not reached", "no label", "asks for something else")


SAME_M = 0.03  # two waypoints this near are the same


def planned_again(plan: Sequence[Waypoint], deferred: Sequence[Waypoint]) -> set[int]:
    """Places of waypoints that the decision before deferred, and that are asked for again: the same
    arms, the same words to their grippers, within SAME_M.
    """
    return {k for k, waypoint in enumerate(plan) if any(_same(waypoint, d) for d in deferred)}


def _same(one: Waypoint, other: Waypoint) -> bool:
    if not one.targets or one.targets.keys() != other.targets.keys():
        return False
    for arm, target in one.targets.items():
        before = other.targets[arm]
        if target.gripper != before.gripper or target.position_m is None:
            return False
        if before.position_m is None or math.dist(target.position_m, before.position_m) > SAME_M:
            return False
    return True


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
