"""A privileged planner: reads the simulator's truth and drives through the executor with waypoints,
like any demonstrator.

It is the upper bound of what the waypoint interface can do, the proof that each task is solvable,
and the stand-in for human demonstrations. Each task names its skill; a skill is a function from the
env's present state to the next plan. Nothing here reaches an interface that a model sees.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from capex.errors import CapexError, ErrorCode
from capex.plan import Waypoint, waypoints
from capex.worlds.kitchen.robot import ARM

if TYPE_CHECKING:
    from capex.worlds.kitchen.env import KitchenEnv


def plan(env: KitchenEnv, decision: int) -> list[Waypoint]:
    """The next plan for the env's task from its present state, after `decision` plans."""
    if env.task.skill is None:
        raise CapexError(
            f"the expert has no skill for {env.spec.name}; give its Task one, as"
            " docs/adding-a-task.md shows",
            code=ErrorCode.UNSUPPORTED,
        )
    return waypoints(ARM, env.task.skill(env, decision))
