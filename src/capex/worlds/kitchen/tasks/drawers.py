"""Drawers and racks: what their starts draw."""

from __future__ import annotations

import functools

from capex.worlds import TaskInfo
from capex.worlds.kitchen.expert import drawers as skills
from capex.worlds.kitchen.furniture import DRAWER_TRAVEL_M, SIDES, add_drawers
from capex.worlds.kitchen.scene import Kitchen
from capex.worlds.kitchen.situation import Draw, Fitted, Situation, draw_light, draw_posture
from capex.worlds.kitchen.tasks import criteria
from capex.worlds.kitchen.tasks.setting import clutter
from capex.worlds.kitchen.tasks.task import Task

FAMILY = "Drawers and racks"


def drawers(draw: Draw, kitchen: Kitchen, verb: str, out: tuple[float, float]) -> Situation:
    """Two drawers side by side, one of them named; it stands out by a drawn fraction of its travel, the other by another."""
    counter = kitchen.workbench
    side = draw.choice(SIDES)
    part, other = f"{side} drawer", f"{SIDES[1 - SIDES.index(side)]} drawer"
    joints = {part: DRAWER_TRAVEL_M * draw.uniform(*out), other: DRAWER_TRAVEL_M * draw.uniform(*out)}
    robot = (counter.x - draw.uniform(0.62, 0.95), counter.y + draw.uniform(-0.30, 0.30), draw.uniform(-0.25, 0.25))
    posture = draw_posture(draw, "down")
    return Situation(
        f"{verb} the {side} drawer, of the two drawers with steel knobs.",
        robot,
        posture,
        clutter(draw, kitchen, counter, 3, draw.choice((1.0, -1.0))),
        joints,
        {"part": part},
        draw_light(draw),
        (Fitted(counter.name, functools.partial(add_drawers, name=counter.name, width=counter.width)),),
    )


TASKS = (
    Task(
        TaskInfo(
            "OpenDrawer",
            FAMILY,
            750,
            "Open the SIDE drawer, of the two drawers with steel knobs.",
            "drawer out by at least 0.95 of its travel (0.55 of its depth)",
        ),
        functools.partial(drawers, verb="Open", out=(0.0, 0.0)),
        criteria.slid_out,
        skill=skills.pull,
    ),
)
