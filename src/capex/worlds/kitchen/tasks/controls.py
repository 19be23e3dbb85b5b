"""Buttons, knobs, levers: what their starts draw."""

from __future__ import annotations

from capex.worlds import TaskInfo
from capex.worlds.kitchen.expert import controls as skills
from capex.worlds.kitchen.scene import Kitchen
from capex.worlds.kitchen.situation import Draw, Situation, draw_light, draw_posture
from capex.worlds.kitchen.tasks import criteria
from capex.worlds.kitchen.tasks.setting import clutter
from capex.worlds.kitchen.tasks.task import Task

FAMILY = "Buttons, knobs, levers"


def turn_on_microwave(draw: Draw, kitchen: Kitchen) -> Situation:
    microwave = kitchen.fixture("microwave")
    counter = kitchen.counter_under(microwave)
    robot = (counter.x - draw.uniform(0.30, 0.44), microwave.y + draw.uniform(-0.24, 0.04), draw.uniform(-0.15, 0.15))
    posture = draw_posture(draw, "forward")
    things = clutter(draw, kitchen, counter, 2, 1.0 if microwave.y < counter.y else -1.0)
    roles = {"button": "start button"}
    return Situation("Press the start button on the microwave.", robot, posture, things, {}, roles, draw_light(draw))


TASKS = (
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
        skills.press,
    ),
)
