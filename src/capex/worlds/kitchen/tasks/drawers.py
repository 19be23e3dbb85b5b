"""Drawers and racks: what their starts draw."""

from __future__ import annotations

import functools

from capex.worlds import TaskInfo
from capex.worlds.kitchen.furniture import (
    DISHWASHER_M,
    DRAWER_TRAVEL_M,
    RACK_TRAVEL_M,
    SIDES,
    add_dishwasher,
)
from capex.worlds.kitchen.scene import Kitchen
from capex.worlds.kitchen.situation import (
    Draw,
    Fitted,
    Situation,
    draw_light,
    draw_posture,
    draw_robot,
)
from capex.worlds.kitchen.tasks import criteria
from capex.worlds.kitchen.tasks.task import Task, clutter, drawer_counter, expert_skill

FAMILY = "Drawers and racks"


def drawers(draw: Draw, kitchen: Kitchen, verb: str, out: tuple[float, float]) -> Situation:
    """Two drawers, one of them named, each out by a fraction of its travel drawn from `out`."""
    counter = kitchen.workbench
    side = draw.choice(SIDES)
    named, other = f"{side} drawer", f"{SIDES[1 - SIDES.index(side)]} drawer"
    joints = {part: DRAWER_TRAVEL_M * draw.uniform(*out) for part in (named, other)}
    robot = draw_robot(draw, counter.x, counter.y, (0.62, 0.95), 0.30, 0.25)
    posture = draw_posture(draw, "down")
    things = clutter(draw, kitchen, counter, 3, draw.side())
    instruction = f"{verb} the {side} drawer, of the two drawers with steel knobs."
    roles, fixtures = {"part": named}, (drawer_counter(counter),)
    return Situation(instruction, robot, posture, things, joints, roles, draw_light(draw), fixtures)


def rack(draw: Draw, kitchen: Kitchen) -> Situation:
    """A dishwasher with its door open; the upper rack is to go out or in, by the instruction."""
    bench = kitchen.workbench
    side = 1.0 if kitchen.fixture("sink").y > bench.y else -1.0  # it stands beside the sink
    y = bench.y + side * (bench.width - DISHWASHER_M) / 2
    way = draw.choice(("out", "in"))
    stands, back = ((0.0, 0.15), (0.74, 1.00)) if way == "out" else ((0.80, 1.0), (1.00, 1.25))
    upper, lower = draw.uniform(*stands), draw.uniform(0.0, 0.35)
    joints = {"upper rack": RACK_TRAVEL_M * upper, "lower rack": RACK_TRAVEL_M * lower}
    robot = draw_robot(draw, bench.x, y, back, 0.25, 0.20)
    posture = draw_posture(draw, "down")
    things = clutter(draw, kitchen, bench, 2, draw.side())
    instruction = f"Slide the upper rack of the dishwasher all the way {way}."
    roles = {"part": "upper rack", "way": way}
    build = functools.partial(add_dishwasher, name=bench.name, width=bench.width, side=side)
    fixtures = (Fitted(bench.name, build),)
    return Situation(instruction, robot, posture, things, joints, roles, draw_light(draw), fixtures)


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
        skill=expert_skill("drawers:pull"),
    ),
    Task(
        TaskInfo(
            "SlideDishwasherRack",
            FAMILY,
            450,
            "Slide the upper rack of the dishwasher all the way OUT or IN.",
            "rack joint at least 0.95 of its range (out) or at most 0.05 (in)",
        ),
        rack,
        criteria.slid,
        skill=expert_skill("drawers:slide"),
    ),
)
