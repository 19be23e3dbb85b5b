"""Drawers and racks: what their starts draw."""

from __future__ import annotations

import functools

from capex.worlds import TaskInfo
from capex.worlds.kitchen.expert import drawers as skills
from capex.worlds.kitchen.furniture import (
    DISHWASHER_M,
    DRAWER_TRAVEL_M,
    RACK_TRAVEL_M,
    SIDES,
    add_dishwasher,
)
from capex.worlds.kitchen.scene import Kitchen
from capex.worlds.kitchen.situation import Draw, Fitted, Situation, draw_light, draw_posture
from capex.worlds.kitchen.tasks import criteria
from capex.worlds.kitchen.tasks.setting import clutter, drawer_counter
from capex.worlds.kitchen.tasks.task import Task

FAMILY = "Drawers and racks"


def drawers(draw: Draw, kitchen: Kitchen, verb: str, out: tuple[float, float]) -> Situation:
    """Two drawers side by side, one of them named; it stands out by a drawn fraction of its travel,
    the other by another.
    """
    counter = kitchen.workbench
    side = draw.choice(SIDES)
    part, other = f"{side} drawer", f"{SIDES[1 - SIDES.index(side)]} drawer"
    joints = {
        part: DRAWER_TRAVEL_M * draw.uniform(*out),
        other: DRAWER_TRAVEL_M * draw.uniform(*out),
    }
    robot = (
        counter.x - draw.uniform(0.62, 0.95),
        counter.y + draw.uniform(-0.30, 0.30),
        draw.uniform(-0.25, 0.25),
    )
    posture = draw_posture(draw, "down")
    return Situation(
        f"{verb} the {side} drawer, of the two drawers with steel knobs.",
        robot,
        posture,
        clutter(draw, kitchen, counter, 3, draw.choice((1.0, -1.0))),
        joints,
        {"part": part},
        draw_light(draw),
        (drawer_counter(counter),),
    )


def rack(draw: Draw, kitchen: Kitchen) -> Situation:
    """A dishwasher with its door open; the upper rack is to go out or in, by the instruction."""
    bench = kitchen.workbench
    side = 1.0 if kitchen.fixture("sink").y > bench.y else -1.0  # it stands beside the sink
    y = bench.y + side * (bench.width - DISHWASHER_M) / 2
    way = draw.choice(("out", "in"))
    stands = draw.uniform(0.0, 0.15) if way == "out" else draw.uniform(0.80, 1.0)
    joints = {
        "upper rack": RACK_TRAVEL_M * stands,
        "lower rack": RACK_TRAVEL_M * draw.uniform(0.0, 0.35),
    }
    back = draw.uniform(0.74, 1.00) if way == "out" else draw.uniform(1.00, 1.25)
    robot = (bench.x - back, y + draw.uniform(-0.25, 0.25), draw.uniform(-0.20, 0.20))
    posture = draw_posture(draw, "down")
    return Situation(
        f"Slide the upper rack of the dishwasher all the way {way}.",
        robot,
        posture,
        clutter(draw, kitchen, bench, 2, draw.choice((1.0, -1.0))),
        joints,
        {"part": "upper rack", "way": way},
        draw_light(draw),
        (
            Fitted(
                bench.name,
                functools.partial(add_dishwasher, name=bench.name, width=bench.width, side=side),
            ),
        ),
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
        skill=skills.slide,
    ),
)
