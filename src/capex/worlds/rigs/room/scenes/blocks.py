"""Blocks and a plate before a Panda at the edge of a table, three cameras: the scene of `rig:room`.

The table's top is at `TABLE_TOP_M`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import mujoco
import numpy as np

from capex.errors import UnknownName
from capex.pose import Pose
from capex.worlds import CameraModel
from capex.worlds.kitchen import panda
from capex.worlds.kitchen.parts import HIDDEN
from capex.worlds.kitchen.robot import (
    BOX,
    CYLINDER,
    DARK,
    FINGER_TRAVEL_M,
    GREY,
    THING,
    VISUAL,
    add_arm,
    look_at,
    set_physics,
)
from capex.worlds.kitchen.situation import Draw
from capex.worlds.render import intrinsics
from capex.worlds.rigs.room.scenes import RoomScene, SceneCamera

TABLE_TOP_M = 0.0  # the arm is mounted level with the table
TABLE_M = ((0.10, -0.60), (0.95, 0.60))  # corners of the top
HOME_RAD = (0.0, -0.4906, 0.0, -2.4269, 0.0, 1.9363, math.pi / 4)  # (0.40, 0, 0.38) pointing down
AREA_M = ((0.36, -0.20), (0.58, 0.20))  # where objects are put: in reach of a hand pointing down
APART_M = 0.05  # between the outlines of two objects: room for the open fingers
DRAWS_MAX = 1000  # of one arrangement; the area has room for three objects many times over
LIFTED_M = 0.08  # of the block's underside above the table
STILL_M_S = 0.02  # slower is at rest
ON_M = 0.006  # how far contacts let a thing sink, or a tilted one stand up


@dataclass(frozen=True)
class RoomObject:
    """A free object: a box by its half edges, or a disc by its radius and half height."""

    shape: Literal["box", "disc"]
    half_m: tuple[float, float, float]
    rgba: tuple[float, float, float, float]
    mass_kg: float

    @property
    def radius_m(self) -> float:
        """Of the circle around it, seen from above."""
        flat = math.hypot(self.half_m[0], self.half_m[1])
        return flat if self.shape == "box" else self.half_m[0]

    @property
    def half_height_m(self) -> float:
        """Half its height as it is put."""
        return self.half_m[2]


_BLOCK = (0.022, 0.022, 0.022)
OBJECTS: Mapping[str, RoomObject] = MappingProxyType(
    {
        "red block": RoomObject("box", _BLOCK, (0.80, 0.10, 0.10, 1.0), 0.10),
        "green block": RoomObject("box", (0.018, 0.018, 0.03), (0.15, 0.55, 0.20, 1.0), 0.20),
        "blue plate": RoomObject("disc", (0.08, 0.08, 0.006), (0.12, 0.25, 0.75, 1.0), 0.40),
    }
)
TASKS: Mapping[str, tuple[str, ...]] = {  # task -> the objects on the table; words: tasks.toml
    "LiftBlock": ("red block", "blue plate"),
    "BlockOnPlate": ("red block", "blue plate"),
    "StackBlocks": ("red block", "green block"),
}


CAMERAS: Mapping[str, SceneCamera] = MappingProxyType(
    {
        "front": SceneCamera(
            "exterior",
            (640, 360),
            42.0,
            "stands across the table, about 1.2 m in front of the robot's mount and 0.7 m above"
            " the table, and faces the robot: the left side of its image is -y, the right side"
            " +y, and what is lower in the image is farther from the robot (larger x)",
            (1.22, 0.03, 0.68),
            (0.40, 0.0, 0.12),
        ),
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


def require_task(task: str) -> None:
    """Refuse an unknown task with the list."""
    if task not in TASKS:
        raise UnknownName("task", task, list(TASKS), where=" in the simulated room")


def build(task: str) -> mujoco.MjModel:
    """The room with a task's objects; `arrange` puts everything in its place."""
    require_task(task)
    objects = TASKS[task]
    spec = mujoco.MjSpec()
    spec.modelname = "room"
    set_physics(spec)
    _set_look(spec)
    _add_furniture(spec)
    add_arm(spec, spec.worldbody)
    for name, camera in CAMERAS.items():
        if camera.position_m is None:
            spec.camera(name).fovy = camera.fovy_deg
        else:
            turn = look_at(np.array(camera.position_m), np.array(camera.target_m))
            placed = {"pos": camera.position_m, "quat": turn, "fovy": camera.fovy_deg}
            spec.worldbody.add_camera(name=name, **placed)
    for name in objects:
        thing = OBJECTS[name]
        body = spec.worldbody.add_body(name=name)
        body.add_freejoint(name=name)
        _add_shape(body, thing)
    return spec.compile()


def _add_shape(body: mujoco.MjsBody, thing: RoomObject) -> None:
    if thing.shape == "box":
        solid = {"rgba": thing.rgba, "mass": thing.mass_kg, **THING}
        body.add_geom(type=BOX, size=thing.half_m, **solid)
        return
    # A thin cylinder sinks into a box: two crossed squares carry what is drawn as a disc.
    radius, _, half_height = thing.half_m
    body.add_geom(type=CYLINDER, size=(radius, half_height, 0.0), rgba=thing.rgba, **VISUAL)
    half = (radius / math.sqrt(2), radius / math.sqrt(2), half_height)
    for yaw in (0.0, math.pi / 4):
        turn = (math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2))
        solid = {"mass": thing.mass_kg / 2, **HIDDEN}
        body.add_geom(type=BOX, size=half, quat=turn, **solid)


def _set_look(spec: mujoco.MjSpec) -> None:
    """Few triangles, plain light, no shadows: the software renderer draws it in about 10 ms."""
    spec.stat.extent = 2.0
    spec.stat.center = (0.4, 0.0, 0.2)
    spec.visual.map.znear = 0.006
    spec.visual.map.zfar = 4.0
    spec.visual.quality.numslices = 16
    spec.visual.quality.numstacks = 8
    spec.visual.quality.numquads = 1
    spec.visual.headlight.ambient = (0.35, 0.35, 0.35)
    spec.visual.headlight.diffuse = (0.25, 0.25, 0.25)
    spec.visual.headlight.specular = (0.0, 0.0, 0.0)
    lamp = spec.worldbody.add_light(castshadow=False)
    lamp.pos, lamp.dir = (0.4, 0.3, 2.5), (0.0, -0.1, -1.0)
    lamp.diffuse, lamp.specular = (0.5, 0.5, 0.5), (0.0, 0.0, 0.0)


def _add_furniture(spec: mujoco.MjSpec) -> None:
    (x0, y0), (x1, y1) = TABLE_M
    middle, half = ((x0 + x1) / 2, (y0 + y1) / 2), ((x1 - x0) / 2, (y1 - y0) / 2)
    table = spec.worldbody.add_body(name="table")
    top = {"pos": (*middle, TABLE_TOP_M - 0.02), "size": (*half, 0.02)}
    table.add_geom(type=BOX, rgba=(0.66, 0.60, 0.52, 1.0), **top, **THING)
    for x, y in itertools.product((x0 + 0.05, x1 - 0.05), (y0 + 0.05, y1 - 0.05)):
        leg = {"pos": (x, y, TABLE_TOP_M - 0.38), "size": (0.025, 0.025, 0.34)}
        table.add_geom(type=BOX, rgba=GREY, **leg, **THING)
    room = spec.worldbody
    stand = {"pos": (-0.02, 0.0, -0.36), "size": (0.10, 0.12, 0.36)}
    room.add_geom(type=BOX, rgba=DARK, contype=0, conaffinity=0, **stand)
    floor = {"pos": (0.4, 0.0, -0.73), "size": (2.0, 2.0, 0.01)}
    room.add_geom(type=BOX, rgba=(0.45, 0.46, 0.48, 1.0), **floor, **THING)
    for pos, size in (((-1.2, 0.0, 0.5), (0.02, 2.0, 1.25)), ((0.4, 1.6, 0.5), (2.0, 0.02, 1.25))):
        wall = {"pos": pos, "size": size, "contype": 0, "conaffinity": 0}
        room.add_geom(type=BOX, rgba=(0.88, 0.88, 0.86, 1.0), **wall)


def arrange(
    model: mujoco.MjModel,
    data: mujoco.MjData,
    task: str,
    start: int,
    seed: int = 0,
    jitter_m: float = 0.0,
) -> None:
    """Home the arm, open the fingers, and put the objects where the start has them, each up to
    `jitter_m` off; how far follows from the seed.
    """
    mujoco.mj_resetData(model, data)
    for joint, angle in zip(panda.JOINTS, HOME_RAD, strict=True):
        data.joint(joint).qpos[0] = angle
    for finger in ("finger_left", "finger_right"):
        data.joint(finger).qpos[0] = FINGER_TRAVEL_M
        data.ctrl[model.actuator(finger).id] = FINGER_TRAVEL_M
    hand = Draw("room", task, start, seed, "jitter")
    for name, (x, y, yaw) in places(task, start).items():
        angle, off = hand.uniform(0.0, math.tau), jitter_m * hand.uniform(0.0, 1.0)
        x, y = x + off * math.cos(angle), y + off * math.sin(angle)
        yaw += hand.within(5.0 * jitter_m)  # 1 cm beside comes with 3 degrees
        z = TABLE_TOP_M + OBJECTS[name].half_height_m
        data.joint(name).qpos[:] = (x, y, z, math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2))
    mujoco.mj_forward(model, data)


def places(task: str, start: int) -> dict[str, tuple[float, float, float]]:
    """x, y and yaw of every object at a start, before anyone's hand is inexact."""
    require_task(task)
    names = TASKS[task]
    (x0, y0), (x1, y1) = AREA_M
    draw = Draw("room", task, start)
    for _ in range(DRAWS_MAX):
        drawn = {n: (draw.uniform(x0, x1), draw.uniform(y0, y1), draw.within(0.7)) for n in names}
        if all(
            math.dist(drawn[a][:2], drawn[b][:2])
            > OBJECTS[a].radius_m + OBJECTS[b].radius_m + APART_M
            for a, b in itertools.combinations(names, 2)
        ):
            return drawn
    raise AssertionError(f"no room for {', '.join(names)}")


def camera_model(data: mujoco.MjData, camera: str) -> CameraModel:
    """The truth about a camera at the present pose: what a calibration would find."""
    at = data.camera(camera)
    # MuJoCo's camera looks along -z with y up; ours along +z with y down.
    rotation = at.xmat.reshape(3, 3) * np.array([1.0, -1.0, -1.0])
    entry = CAMERAS[camera]
    return CameraModel(intrinsics(entry.fovy_deg, entry.size), Pose(at.xpos.copy(), rotation))


def judge(model: mujoco.MjModel, data: mujoco.MjData, task: str) -> tuple[bool, str]:
    """Whether the task is achieved now, and why or why not in words: the scripted operator's."""
    require_task(task)
    block = "red block"
    touched = _touched_by(model, data, block)
    held = {"finger_left", "finger_right"} <= touched
    if task == "LiftBlock":
        height_m = _underside_m(data, block) - TABLE_TOP_M
        if not held:
            return False, "the gripper does not hold the red block"
        up = f"the red block is held {100 * height_m:.0f} cm above the table"
        return height_m >= LIFTED_M, up
    support = "blue plate" if task == "BlockOnPlate" else "green block"
    if touched & {"finger_left", "finger_right", "hand"}:
        return False, "the gripper still touches the red block"
    if touched - {support} or support not in touched:
        where = " and ".join(sorted(touched)) or "nothing"
        return False, f"the red block lies on {where}, not on the {support} alone"
    if float(np.linalg.norm(data.joint(block).qvel[:3])) > STILL_M_S:
        return False, "the red block still moves"
    top_m = float(data.body(support).xpos[2]) + OBJECTS[support].half_height_m
    if _underside_m(data, block) < top_m - ON_M:
        return False, f"the red block leans on the {support}"
    return True, f"the red block rests on the {support}"


def _underside_m(data: mujoco.MjData, block: str) -> float:
    """The height of a block's lowest corner."""
    body = data.body(block)
    reach_m = float(np.abs(body.xmat.reshape(3, 3)[2]) @ np.array(OBJECTS[block].half_m))
    return float(body.xpos[2]) - reach_m


def _touched_by(model: mujoco.MjModel, data: mujoco.MjData, body: str) -> set[str]:
    """The bodies in contact with a body."""
    i = model.body(body).id
    pairs = model.geom_bodyid[data.contact.geom].tolist()
    others = {b if a == i else a for a, b in pairs if i in (a, b)}
    return {model.body(k).name for k in others}


SCENE = RoomScene(TASKS, CAMERAS, build, arrange, judge)
