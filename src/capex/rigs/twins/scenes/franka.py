"""A can, cups or blocks before a Panda at the edge of a table, an exterior camera and one on the
wrist: the paper's three Franka tasks, simulated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import mujoco
import numpy as np

from capex.rigs.twins.scenes import Handling, RoomScene, SceneCamera
from capex.rigs.twins.scenes.common import (
    FRONT,
    HAND,
    STILL_M_S,
    Judgement,
    SceneObject,
    TableScene,
    block,
    not_at_rest,
    touched_by,
)
from capex.worlds.kitchen.materials import Colour
from capex.worlds.kitchen.objects import standing
from capex.worlds.kitchen.parts import Builder

CAN_RADIUS_M, CAN_HEIGHT_M, CAN_KG = 0.033, 0.115, 0.35  # 33 cl, full
# A tapered cup: radii outside at base and rim. Two nest with their rims 2 to 3 cm apart, and the
# base of one fits the mouth of the other with 8 mm to spare.
CUP_BASE_M, CUP_RIM_M, CUP_HEIGHT_M, CUP_WALL_M, CUP_KG = 0.023, 0.034, 0.095, 0.0025, 0.05
CUP_FLOOR_M = 0.005  # height of the floor's upper surface
UPRIGHT_RAD = math.radians(10.0)  # a cup that leans more than this does not stand
RED, WHITE, SILVER = (0.78, 0.04, 0.06, 0.6), (0.93, 0.93, 0.93, 0.6), (0.74, 0.75, 0.77, 0.8)
ORANGE, GREEN = (1.0, 0.38, 0.03), (0.10, 0.58, 0.22)
PLASTIC: dict[str, Any] = {"condim": 3, "friction": (0.4, 0.01, 0.0001), "solref": (0.008, 1)}


def _add_can(b: Builder, body: Any) -> None:
    """A red drink can with a white stripe around it and a silver lid."""
    r, h = CAN_RADIUS_M, CAN_HEIGHT_M
    standing(b, body, r, h, CAN_KG)
    b.turned(body, [(0.0, 0.001), (0.80 * r, 0.0), (r, 0.008), (r, 0.040)], RED)
    b.turned(body, [(r, 0.040), (r, 0.058)], WHITE)
    b.turned(body, [(r, 0.058), (r, h - 0.012), (0.86 * r, h - 0.003)], RED)
    lid = [(0.86 * r, h - 0.003), (0.86 * r, h), (0.80 * r, h), (0.78 * r, h - 0.003)]
    b.turned(body, [*lid, (0.0, h - 0.003)], SILVER)


def _add_cup(b: Builder, body: Any, colour: Colour) -> None:
    """A hollow plastic cup: its wall is a ring of leaning boxes, so that another fits in."""
    base, rim, height, wall = CUP_BASE_M, CUP_RIM_M, CUP_HEIGHT_M, CUP_WALL_M
    lean = math.atan2(rim - base, height)
    middle = (base + rim - wall) / 2
    b.ring(body, middle, 0.0, height, lean, 0.6 * CUP_KG, wall_m=wall, **PLASTIC)
    side, floor = 0.62 * base, (CUP_FLOOR_M - 0.002) / 2
    b.felt.box(body, (0, 0, 0.002 + floor), (side, side, floor), mass=0.3 * CUP_KG, **PLASTIC)
    b.feet(body, 0.7 * base, 0.1 * CUP_KG)
    outer = [(0.0, 0.001), (base, 0.0), (rim, height)]
    inner = [(rim - wall, height), (base - wall, CUP_FLOOR_M), (0.0, CUP_FLOOR_M)]
    outside, inside = (b.materials.lit(colour, glow, 0.4) for glow in (0.35, 0.15))
    b.turned(body, outer, outside)  # thin plastic: light shines through it
    b.turned(body, [(rim, height), (rim - wall, height)], outside)
    b.turned(body, inner, inside)


def _cup(colour: Colour) -> SceneObject:
    return SceneObject(lambda b, body: _add_cup(b, body, colour), CUP_RIM_M, CUP_HEIGHT_M)


OBJECTS: Mapping[str, SceneObject] = MappingProxyType(
    {
        "coke can": SceneObject(_add_can, CAN_RADIUS_M, CAN_HEIGHT_M),
        "orange cup": _cup(ORANGE),
        "green cup": _cup(GREEN),
        # of wood: 0.65 kg a litre
        "blue block": block((0.0225, 0.0225, 0.0225), (0.10, 0.25, 0.78, 1.0), 0.06),
        "green block": block((0.0275, 0.0275, 0.0275), (*GREEN, 1.0), 0.11),
    }
)
TASKS: Mapping[str, tuple[str, ...]] = {  # task -> the objects on the table; words: tasks.toml
    "PickCoke": ("coke can",),
    "StackCups": ("orange cup", "green cup"),
    "StackBlocks": ("blue block", "green block"),
}
WRIST_VIEW = (
    "sits on the hand, about 8 cm before the fingers and 15 cm above their tips, and looks along"
    " them onto what is below, tilted a little towards them; while the hand points down unturned,"
    " the top of its image is farther from the robot (larger x) and the left side is +y; the"
    " fingertips appear near its lower edge, one on each side of the middle, above the dark strip"
    " that is the hand, and close towards the middle"
)
CAMERAS: Mapping[str, SceneCamera] = MappingProxyType(
    {
        "front": FRONT,
        "wrist": SceneCamera(
            "wrist",
            (640, 360),
            42.0,
            WRIST_VIEW,
            (0.085, 0.0, -0.05),  # high enough that a D435's colour sees the fingertips
            (0.021, 0.0, 0.25),
        ),
    }
)
TABLE = TableScene("franka", TASKS, OBJECTS, CAMERAS)
build, arrange, places, camera_model = TABLE.build, TABLE.arrange, TABLE.places, TABLE.camera_model


def judge(model: mujoco.MjModel, data: mujoco.MjData, task: str) -> Judgement:
    """Whether the task is achieved now, and why or why not in words: the scripted operator's."""
    TABLE.require_task(task)
    if task == "PickCoke":
        return TABLE.judge_lifted(model, data, "coke can")
    if task == "StackBlocks":
        return TABLE.judge_on(model, data, "blue block", "green block")
    return _judge_cups(model, data)


def _judge_cups(model: mujoco.MjModel, data: mujoco.MjData) -> Judgement:
    cup, support = "orange cup", "green cup"
    if undone := not_at_rest(model, data, cup, support):
        return False, undone
    touched = touched_by(model, data, support)
    if touched & HAND:
        return False, f"the gripper still touches the {support}"
    if "table" not in touched or _tilt_rad(data, support) > UPRIGHT_RAD:
        return False, f"the {support} does not stand upright on the table"
    if float(np.linalg.norm(data.joint(support).qvel[:3])) > STILL_M_S:
        return False, f"the {support} still moves"
    if _tilt_rad(data, cup) > UPRIGHT_RAD:
        return False, f"the {cup} leans on the {support}"
    return True, f"the {cup} sits in the {support}"


def _tilt_rad(data: mujoco.MjData, name: str) -> float:
    return math.acos(max(-1.0, min(1.0, float(data.body(name).xmat[8]))))


EXPERT: Mapping[str, Handling] = {
    "PickCoke": Handling("coke can", 0.080),  # the palm stays clear of the lid
    # By the rim, and let go before the fingers reach the rim of the other: it slides the rest.
    "StackCups": Handling("orange cup", 0.083, False, "green cup", 0.036),
    "StackBlocks": Handling("blue block", 0.0225, True, "green block", 0.055),
}
SCENE = RoomScene(TASKS, CAMERAS, build, arrange, judge, EXPERT)
