"""Blocks and a plate on a table before a Panda, three cameras: the scene of `rig:room`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import mujoco

from capex.rigs.twins.scenes import Handling, RoomScene, SceneCamera
from capex.rigs.twins.scenes.common import FRONT, Judgement, SceneObject, TableScene, block
from capex.worlds.kitchen.parts import HIDDEN, Builder
from capex.worlds.kitchen.robot import BOX, CYLINDER, VISUAL

PLATE_M = (0.08, 0.006)  # radius and half height
PLATE_RGBA = (0.12, 0.25, 0.75, 1.0)
PLATE_KG = 0.40


def _add_plate(_: Builder, body: Any) -> None:
    """A thin cylinder sinks into a box: two crossed squares carry what is drawn as a disc."""
    radius, half_height = PLATE_M
    body.add_geom(type=CYLINDER, size=(radius, half_height, 0.0), rgba=PLATE_RGBA, **VISUAL)
    half = (radius / math.sqrt(2), radius / math.sqrt(2), half_height)
    for yaw in (0.0, math.pi / 4):
        turn = (math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2))
        body.add_geom(type=BOX, size=half, quat=turn, mass=PLATE_KG / 2, **HIDDEN)


OBJECTS: Mapping[str, SceneObject] = MappingProxyType(
    {
        "red block": block((0.022, 0.022, 0.022), (0.80, 0.10, 0.10, 1.0), 0.10),
        "green block": block((0.018, 0.018, 0.03), (0.15, 0.55, 0.20, 1.0), 0.20),
        "blue plate": SceneObject(_add_plate, PLATE_M[0], 2 * PLATE_M[1], PLATE_M[1]),
    }
)
TASKS: Mapping[str, tuple[str, ...]] = {  # task -> the objects on the table; words: tasks.toml
    "LiftBlock": ("red block", "blue plate"),
    "BlockOnPlate": ("red block", "blue plate"),
    "StackBlocks": ("red block", "green block"),
}
CAMERAS: Mapping[str, SceneCamera] = MappingProxyType(
    {
        "front": FRONT,
        "wrist": SceneCamera("wrist", (640, 360), 58.0, ""),
        "side": SceneCamera(
            "exterior",
            (640, 360),
            42.0,
            "stands at the robot's right, about 1.1 m beside the middle of the table and 0.6 m"
            " above it, and looks along +y: the left side of its image is nearer to the robot,"
            " the right side farther from it (larger x)",
            (0.46, -1.12, 0.60),
            (0.46, 0.0, 0.10),
        ),
    }
)
TABLE = TableScene("room", TASKS, OBJECTS, CAMERAS)
build, arrange, places, camera_model = TABLE.build, TABLE.arrange, TABLE.places, TABLE.camera_model


def judge(model: mujoco.MjModel, data: mujoco.MjData, task: str) -> Judgement:
    """Whether the task is achieved now, and why or why not in words: the scripted operator's."""
    TABLE.require_task(task)
    if task == "LiftBlock":
        return TABLE.judge_lifted(model, data, "red block")
    support = "blue plate" if task == "BlockOnPlate" else "green block"
    return TABLE.judge_on(model, data, "red block", support)


EXPERT: Mapping[str, Handling] = {
    "LiftBlock": Handling("red block", 0.022, faces=True),
    "BlockOnPlate": Handling("red block", 0.022, True, "blue plate", 0.012),
    "StackBlocks": Handling("red block", 0.022, True, "green block", 0.06),
}
SCENE = RoomScene(TASKS, CAMERAS, build, arrange, judge, EXPERT)
