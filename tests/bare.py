"""A kitchen task for tests: the robot before an empty counter, with only the things a test asks for. It never succeeds."""

from __future__ import annotations

from capex.worlds import TaskInfo
from capex.worlds.kitchen.env import KitchenEnv
from capex.worlds.kitchen.situation import POSTURES, Placed, Situation
from capex.worlds.kitchen.tasks import Task

TOP_M = 0.90  # of the counter
ROBOT_X_M = -0.23  # the mount, before the counter's front


def bare_kitchen(
    *things: tuple[str, object, tuple[float, float]], height_m: float = 0.021
) -> KitchenEnv:
    """Things as (name, build function, (x, y) on the counter, y from the robot's midline)."""

    def compose(draw, kitchen):
        counter = kitchen.fixture("counter 2")
        placed = tuple(
            Placed(name, build, (x, counter.y + y, TOP_M + height_m))
            for name, build, (x, y) in things
        )
        return Situation("Hold still.", (ROBOT_X_M, counter.y, 0.0), POSTURES["down"], placed)

    return KitchenEnv(
        "kitchen",
        Task(TaskInfo("Bare", "test", 3000, "Hold still.", "never"), compose, lambda facts: False),
    )
