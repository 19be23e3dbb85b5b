"""The tasks of the kitchen, by family: what a start draws for each, and when it counts as done.
Criteria and horizons are the paper's.

A family's module composes its starts from shared fixtures and ends with its rows;
`docs/adding-a-task.md` adds one.
"""

from __future__ import annotations

from capex.worlds.kitchen.tasks import controls, doors, drawers, navigate, pick_place
from capex.worlds.kitchen.tasks.task import Task

BY_NAME: dict[str, Task] = {
    task.info.name: task
    for family in (pick_place, doors, drawers, controls, navigate)
    for task in family.TASKS
}
__all__ = ["BY_NAME", "Task"]
