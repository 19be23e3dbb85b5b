"""The built-in kitchen: a mobile arm, fixtures and food in pure MuJoCo, built in code."""

from __future__ import annotations

from capex.plan import Waypoint
from capex.worlds import TaskInfo
from capex.worlds.kitchen.env import KitchenEnv
from capex.worlds.kitchen.tasks import BY_NAME

__all__ = ["TASKS", "make", "plan"]

TASKS: dict[str, TaskInfo] = {name: task.info for name, task in BY_NAME.items()}


def make(world: str, task: str, *, shadows: bool = False) -> KitchenEnv:
    """The environment of one task."""
    return KitchenEnv(world, BY_NAME[task], shadows=shadows)


def plan(env: KitchenEnv, decision: int) -> list[Waypoint]:
    """The next plan of the privileged expert (`worlds.kitchen.expert`)."""
    from capex.worlds.kitchen import expert

    return expert.plan(env, decision)
