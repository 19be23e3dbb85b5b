"""Navigation: what its starts draw."""

from __future__ import annotations

import math

from capex.worlds import TaskInfo
from capex.worlds.kitchen.scene import Kitchen
from capex.worlds.kitchen.situation import Draw, Situation, draw_light, draw_posture
from capex.worlds.kitchen.tasks import criteria
from capex.worlds.kitchen.tasks.task import Task, clutter, expert_skill

FAMILY = "Navigation"
PLACES = ("fridge", "toaster oven", "stove", "sink", "toaster", "microwave")
BEFORE_M = 0.50  # from the row's front to the mount of a robot that stands before a place


def navigate(draw: Draw, kitchen: Kitchen) -> Situation:
    """A place of the row, seen from across the room and from the side."""
    name = draw.choice(PLACES)
    goal = (-BEFORE_M, kitchen.fixture(name).y, 0.0)
    side = draw.side()
    x = goal[0] - draw.uniform(0.40, 1.00)
    y = goal[1] + side * draw.uniform(0.60, 1.50)
    if not kitchen.low_y - 0.4 < y < kitchen.high_y + 0.4:  # that side is the wall's
        y = goal[1] - (y - goal[1])
    # Turned towards the place, so that it is in view.
    towards = 0.8 * math.atan2(goal[1] - y, 0.20 - x)
    robot = (x, y, towards + draw.within(0.25))
    posture = draw_posture(draw, "down")
    things = clutter(draw, kitchen, kitchen.workbench, 3, draw.side())
    instruction = f"Drive to the {name} and stop right in front of it, facing it."
    light, roles, spots = draw_light(draw), {"place": name}, {"goal": goal}
    return Situation(instruction, robot, posture, things, {}, roles, light, spots=spots)


TASKS = (
    Task(
        TaskInfo(
            "NavigateKitchen",
            FAMILY,
            450,
            "Drive to the PLACE and stop right in front of it, facing it.",
            "base within 0.20 m of the pose before the place; cosine of the yaw error at least"
            " 0.98",
        ),
        navigate,
        criteria.arrived,
        skill=expert_skill("drive:go"),
    ),
)
