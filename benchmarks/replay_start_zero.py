"""Do the starts differ? Replays the expert's waypoints of start 0, unchanged, on the starts 1 to 19
of each kitchen task.

A demonstrator that does not look would score what this prints.
`python benchmarks/replay_start_zero.py [WORLD:TASK[,TASK..|all]]`
"""

from __future__ import annotations

import sys

from rich.console import Console
from rich.table import Table

from capex import worlds
from capex.campaign.names import parse_names
from capex.method.executor import Executor
from capex.plan import PLAN_MAX, Waypoint
from capex.worlds import Env, Start

STARTS = range(1, 20)


def solve_start_zero(env: Env) -> list[list[Waypoint]]:
    """The expert's plans on start 0."""
    env.reset(Start(env.spec.task, 0))
    plan, executor = worlds.expert(env.spec.world), Executor(env)
    plans: list[list[Waypoint]] = []
    while not env.success() and executor.steps_left > 0:
        plans.append(list(plan(env, len(plans)))[:PLAN_MAX])
        executor.execute(plans[-1])
    return plans


def replay(env: Env, plans: list[list[Waypoint]], index: int) -> bool:
    """Whether the same waypoints, run one by one so that a stall does not end them, solve another
    start.
    """
    env.reset(Start(env.spec.task, index))
    executor = Executor(env)
    for waypoint in (w for plan in plans for w in plan):
        if env.success() or executor.steps_left <= 0:
            break
        executor.execute([waypoint])
    return bool(env.success())


def main() -> None:
    names = sys.argv[1] if len(sys.argv) > 1 else "kitchen:all"
    table = Table(title="start 0's waypoints replayed on the starts 1 to 19")
    table.add_column("task")
    table.add_column("solved", justify="right")
    for world, task in parse_names(names):
        env = worlds.make(f"{world}:{task}")
        plans = solve_start_zero(env)
        table.add_row(task, f"{sum(replay(env, plans, i) for i in STARTS)}/{len(STARTS)}")
        env.close()
    Console().print(table)


if __name__ == "__main__":
    main()
