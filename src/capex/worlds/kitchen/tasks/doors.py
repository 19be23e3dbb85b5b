"""Doors and lids: what their starts draw."""

from __future__ import annotations

import functools

from capex.pose import PlanarPose
from capex.worlds import TaskInfo
from capex.worlds.kitchen.appliances import add_blender, add_mixer
from capex.worlds.kitchen.fixtures import COUNTER_HEIGHT_M
from capex.worlds.kitchen.furniture import CUPBOARDS, cupboard_y
from capex.worlds.kitchen.materials import Colour
from capex.worlds.kitchen.objects import LID_PLUG_M, add_lid
from capex.worlds.kitchen.scene import Kitchen
from capex.worlds.kitchen.situation import (
    Draw,
    Fitted,
    Placed,
    Situation,
    draw_light,
    draw_posture,
    draw_robot,
)
from capex.worlds.kitchen.tasks import criteria
from capex.worlds.kitchen.tasks.task import Task, around, clutter, cupboards, expert_skill, pair

FAMILY = "Doors and lids"
LIFT = "lift it by the bar at its nose until it stays up."
LIDS: dict[str, Colour] = {
    "red": (0.80, 0.12, 0.12),
    "blue": (0.15, 0.35, 0.70),
    "green": (0.20, 0.55, 0.30),
    "black": (0.14, 0.14, 0.15),
}
MIXERS: dict[str, Colour] = {
    "red": (0.72, 0.08, 0.08),
    "white": (0.93, 0.92, 0.88),
    "blue": (0.35, 0.58, 0.72),
    "green": (0.40, 0.58, 0.36),
}


def close_fridge(draw: Draw, kitchen: Kitchen) -> Situation:
    fridge = kitchen.fixture("fridge")
    side = -1.0 if kitchen.layout.fridge_hinge == "right" else 1.0
    joints = {"fridge door": draw.uniform(0.35, 1.05)}
    x = fridge.x - draw.uniform(0.60, 1.10)
    # Rather on the hinge's side, where the open door leaves room.
    y = fridge.y + side * draw.uniform(-0.18, 0.26)
    posture = draw_posture(draw, "forward right" if side < 0 else "forward left")
    robot = (x, y, draw.within(0.45))
    things = clutter(draw, kitchen, kitchen.counter_beside(fridge, side), 3, -side)
    instruction, roles = "Close the fridge door.", {"part": "fridge door"}
    return Situation(instruction, robot, posture, things, joints, roles, draw_light(draw))


def close_toaster_oven(draw: Draw, kitchen: Kitchen) -> Situation:
    oven = kitchen.fixture("toaster oven")
    counter = kitchen.counter_under(oven)
    joints = {"toaster oven door": draw.uniform(0.45, 1.25)}
    robot = draw_robot(draw, counter.x, oven.y, (0.46, 0.85), 0.28, 0.35)
    posture = draw_posture(draw, "forward")
    things = clutter(draw, kitchen, counter, 3, 1.0 if oven.y < counter.y else -1.0)
    instruction, roles = "Close the toaster oven door.", {"part": "toaster oven door"}
    return Situation(instruction, robot, posture, things, joints, roles, draw_light(draw))


def close_blender_lid(draw: Draw, kitchen: Kitchen) -> Situation:
    """A blender between two lids of different colours; the instruction names one."""
    bench = kitchen.workbench
    x, y = bench.x + draw.uniform(0.14, 0.18), bench.y + draw.within(0.12)
    blender = PlanarPose(x, y, draw.within(0.6))
    colour, other = draw.shuffled(sorted(LIDS))[:2]
    side = draw.side()
    things = []
    for lid, where in ((colour, side), (other, -side)):
        x, y = bench.x + draw.uniform(0.10, 0.20), blender.y + where * draw.uniform(0.20, 0.29)
        build = functools.partial(add_lid, name=f"{lid} lid", colour=LIDS[lid])
        spot = (x, y, COUNTER_HEIGHT_M + LID_PLUG_M + 0.001)
        things.append(Placed(f"{lid} lid", build, spot, draw.within(0.6)))
    things += clutter(draw, kitchen, bench, 2, draw.side())
    robot = draw_robot(draw, bench.x, blender.y, (0.19, 0.40), 0.15, 0.15)
    posture = draw_posture(draw, "down")
    body = draw.choice(((0.75, 0.75, 0.77), (0.20, 0.20, 0.22), (0.86, 0.85, 0.80)))
    return Situation(
        f"Put the {colour} lid on the blender jug.",
        robot,
        posture,
        tuple(things),
        {},
        {"object": f"{colour} lid"},
        draw_light(draw),
        (Fitted("blender", functools.partial(add_blender, colour=body), blender),),
    )


def open_cabinet(draw: Draw, kitchen: Kitchen) -> Situation:
    """Three cupboards side by side; the instruction names one."""
    bench = kitchen.workbench
    column = draw.choice(CUPBOARDS)
    y, fixtures = bench.y + cupboard_y(column, bench.width), (cupboards(bench),)
    robot = draw_robot(draw, bench.x, y, (0.30, 0.75), 0.25, 0.25)
    posture = draw_posture(draw, "forward")
    things = clutter(draw, kitchen, bench, 3, draw.side())
    instruction = f"Open the {column} cabinet, of the three cabinets with steel handles."
    roles = {"part": f"{column} cabinet door"}
    return Situation(instruction, robot, posture, things, {}, roles, draw_light(draw), fixtures)


def open_mixer_head(draw: Draw, kitchen: Kitchen) -> Situation:
    """Two stand mixers of different colours; the instruction names one."""
    bench = kitchen.workbench
    mixers, colour, y = pair(
        draw, bench, "stand mixer", MIXERS, add_mixer, (0.10, 0.17), (0.17, 0.27), 0.25
    )
    robot = draw_robot(draw, bench.x, y, (0.42, 0.75), 0.25, 0.25)
    posture = draw_posture(draw, "forward")
    things = clutter(draw, kitchen, bench, 2, draw.side(), around(mixers, 0.16, 0.18))
    instruction = f"Open the head of the {colour} stand mixer: {LIFT}"
    roles = {"part": f"{colour} stand mixer head"}
    return Situation(instruction, robot, posture, things, {}, roles, draw_light(draw), mixers)


TASKS = (
    Task(
        TaskInfo(
            "CloseBlenderLid",
            FAMILY,
            900,
            "Put the COLOUR lid on the blender jug.",
            "lid within 4 cm of its closed place, tilted by less than 7 degrees; gripper over 15 cm"
            " from the lid",
        ),
        close_blender_lid,
        criteria.covered,
        skill=expert_skill("pick_place:cover"),
    ),
    Task(
        TaskInfo(
            "CloseFridge",
            FAMILY,
            900,
            "Close the fridge door.",
            "every fridge door joint at most 0.005 of its range",
        ),
        close_fridge,
        criteria.closed,
        skill=expert_skill("doors:close_door"),
    ),
    Task(
        TaskInfo(
            "CloseToasterOvenDoor",
            FAMILY,
            450,
            "Close the toaster oven door.",
            "door joint at most 0.005 of its range",
        ),
        close_toaster_oven,
        criteria.closed,
        skill=expert_skill("doors:close_flap"),
    ),
    Task(
        TaskInfo(
            "OpenCabinet",
            FAMILY,
            1050,
            "Open the NAMED cabinet, of the three cabinets with steel handles.",
            "every door joint of that cabinet at least 0.90 of its range",
        ),
        open_cabinet,
        criteria.opened,
        skill=expert_skill("doors:open_door"),
    ),
    Task(
        TaskInfo(
            "OpenStandMixerHead",
            FAMILY,
            450,
            f"Open the head of the COLOUR stand mixer: {LIFT}",
            "head joint over 0.99 of its range",
        ),
        open_mixer_head,
        criteria.lifted,
        skill=expert_skill("controls:operate", push="up", to=1.0, stand_m=0.55),
    ),
)
