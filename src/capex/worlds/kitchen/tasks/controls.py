"""Buttons, knobs, levers: what their starts draw."""

from __future__ import annotations

import functools

from capex.worlds import TaskInfo
from capex.worlds.kitchen.appliances import add_kettle
from capex.worlds.kitchen.furniture import (
    HANDLE_Y_M,
    KNOB_ORDER,
    add_working_sink,
    add_working_stove,
    knob_y,
)
from capex.worlds.kitchen.materials import Colour
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
from capex.worlds.kitchen.tasks.task import Task, around, clutter, expert_skill, pair

FAMILY = "Buttons, knobs, levers"
ORDINALS = ("first", "second", "third", "fourth")
KETTLES: dict[str, Colour] = {
    "black": (0.13, 0.13, 0.14),
    "white": (0.93, 0.93, 0.91),
    "blue": (0.16, 0.33, 0.62),
    "green": (0.22, 0.45, 0.30),
}


def turn_on_microwave(draw: Draw, kitchen: Kitchen) -> Situation:
    microwave = kitchen.fixture("microwave")
    counter = kitchen.counter_under(microwave)
    x, y = counter.x - draw.uniform(0.30, 0.44), microwave.y + draw.uniform(-0.24, 0.04)
    robot, posture = (x, y, draw.within(0.15)), draw_posture(draw, "forward")
    things = clutter(draw, kitchen, counter, 2, 1.0 if microwave.y < counter.y else -1.0)
    instruction, roles = "Press the start button on the microwave.", {"button": "start button"}
    return Situation(instruction, robot, posture, things, {}, roles, draw_light(draw))


def turn_off_stove(draw: Draw, kitchen: Kitchen) -> Situation:
    """One or two burners are on; the instruction names one by burner and knob."""
    stove = kitchen.fixture("stove")
    first, second = draw.shuffled(KNOB_ORDER)[:2]
    lit = (first, second) if draw.uniform(0, 1) < 0.6 else (first,)
    joints = {f"{burner} knob": draw.uniform(0.75, 1.10) for burner in lit}
    k = KNOB_ORDER.index(first)
    robot = draw_robot(draw, stove.x, stove.y + knob_y(k), (0.48, 0.85), 0.25, 0.20)
    posture = draw_posture(draw, "down")
    things = clutter(draw, kitchen, kitchen.counter_beside(stove, draw.side()), 2, draw.side())
    return Situation(
        f"Turn off the {first} burner of the stove: its knob is the {ORDINALS[k]} from the left.",
        robot,
        posture,
        things,
        joints,
        {"part": f"{first} knob"},
        draw_light(draw),
        (Fitted("stove", functools.partial(add_working_stove, width=stove.width)),),
    )


def turn_on_faucet(draw: Draw, kitchen: Kitchen) -> Situation:
    """The faucet has two handles; the instruction names one."""
    sink = kitchen.fixture("sink")
    side = draw.choice(("left", "right"))
    y = sink.y + (HANDLE_Y_M if side == "left" else -HANDLE_Y_M)
    robot = draw_robot(draw, sink.x, y, (0.20, 0.45), 0.20, 0.20)
    posture = draw_posture(draw, "down")
    things = clutter(draw, kitchen, kitchen.counter_beside(sink, draw.side()), 2, draw.side())
    colour = "red" if side == "left" else "blue"
    return Situation(
        f"Turn on the sink faucet: swing its {side} handle, the one with the {colour} cap, outwards"
        f" to the {side}.",
        robot,
        posture,
        things,
        {},
        {"part": f"{side} handle"},
        draw_light(draw),
        (Fitted("sink", functools.partial(add_working_sink, width=sink.width)),),
    )


def turn_on_kettle(draw: Draw, kitchen: Kitchen) -> Situation:
    """Two kettles of different colours; the instruction names one."""
    bench = kitchen.workbench
    kettles, colour, y = pair(
        draw, bench, "kettle", KETTLES, add_kettle, (0.18, 0.27), (0.16, 0.30), 0.5
    )
    robot = draw_robot(draw, bench.x, y, (0.22, 0.50), 0.25, 0.20)
    posture = draw_posture(draw, "down")
    things = clutter(draw, kitchen, bench, 2, draw.side(), around(kettles, 0.0, 0.14))
    instruction = f"Turn on the {colour} kettle: press its red switch lever down."
    roles = {"part": f"{colour} kettle switch"}
    return Situation(instruction, robot, posture, things, {}, roles, draw_light(draw), kettles)


TASKS = (
    Task(
        TaskInfo(
            "TurnOffStove",
            FAMILY,
            750,
            "Turn off the NAMED burner of the stove: its knob is the NTH from the left.",
            "that burner's knob within 0.35 rad of off",
        ),
        turn_off_stove,
        criteria.turned_off,
        skill=expert_skill("controls:operate", push="sideways", to=0.0, stand_m=0.52),
    ),
    Task(
        TaskInfo(
            "TurnOnElectricKettle",
            FAMILY,
            450,
            "Turn on the COLOUR kettle: press its red switch lever down.",
            "switch lever pressed to at least 0.95 of its range",
        ),
        turn_on_kettle,
        criteria.switched,
        skill=expert_skill("controls:operate", push="down", to=1.0, stand_m=0.50, half_m=0.006),
    ),
    Task(
        TaskInfo(
            "TurnOnMicrowave",
            FAMILY,
            450,
            "Press the start button on the microwave.",
            "start button pressed; gripper then over 15 cm from it",
        ),
        turn_on_microwave,
        criteria.started,
        criteria.pressed,
        expert_skill("controls:press"),
    ),
    Task(
        TaskInfo(
            "TurnOnSinkFaucet",
            FAMILY,
            600,
            "Turn on the sink faucet: swing its SIDE handle outwards.",
            "handle at an angle in (0.40, pi) rad: water runs",
        ),
        turn_on_faucet,
        criteria.water_runs,
        skill=expert_skill("controls:operate", push="sideways", to=0.5, stand_m=0.60),
    ),
)
