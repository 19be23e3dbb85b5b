"""What scenes with arms at the edge of a table share: the room around it, how objects are put on
the table, and what a judge reads from contacts.

The table's top is at `TABLE_TOP_M`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import mujoco
import numpy as np

from capex.errors import UnknownName
from capex.pose import Pose
from capex.rigs.twins.scenes import SceneCamera
from capex.worlds import CameraModel
from capex.worlds.kitchen import robot as panda
from capex.worlds.kitchen.materials import STYLES, Materials
from capex.worlds.kitchen.parts import Builder
from capex.worlds.kitchen.robot import (
    BOX,
    DARK,
    FINGER_TRAVEL_M,
    GREY,
    THING,
    add_arm,
    look_at,
    set_physics,
)
from capex.worlds.kitchen.situation import Draw
from capex.worlds.render import intrinsics

TABLE_TOP_M = 0.0  # the arm is mounted level with the table
TABLE_M = ((0.10, -0.60), (0.95, 0.60))  # corners of the top
HOME_RAD = (0.0, -0.4906, 0.0, -2.4269, 0.0, 1.9363, math.pi / 4)  # (0.40, 0, 0.38) pointing down
# Where objects are put: two corners, in reach of a hand pointing down.
Area = tuple[tuple[float, float], tuple[float, float]]
AREA_M: Area = ((0.36, -0.20), (0.58, 0.20))
TURN_RAD = 0.7  # at most, of an object's yaw
APART_M = 0.05  # between the outlines of two objects: room for the open fingers
DRAWS_MAX = 1000  # of one arrangement; the area has room for three objects many times over
LIFTED_M = 0.08  # of a thing's underside above the table
STILL_M_S = 0.02  # slower is at rest
ON_M = 0.006  # how far contacts let a thing sink, or a tilted one stand up
FINGERS = frozenset({"finger_left", "finger_right"})
HAND = FINGERS | {"hand"}

FRONT = SceneCamera(
    "exterior",
    (640, 360),
    42.0,
    "stands across the table, about 1.2 m in front of the robot's mount and 0.7 m above"
    " the table, and faces the robot: the left side of its image is -y, the right side"
    " +y, and what is lower in the image is farther from the robot (larger x)",
    (1.22, 0.03, 0.68),
    (0.40, 0.0, 0.12),
)

Judgement = tuple[bool, str]


@dataclass(frozen=True)
class SceneObject:
    """A free object: how it is built, and how it stands on the table."""

    add: Callable[[Builder, Any], None]  # its parts, to a body
    radius_m: float  # of the circle around it, seen from above
    height_m: float
    origin_m: float = 0.0  # height of its frame above what it stands on


def block(
    half_m: tuple[float, float, float], rgba: tuple[float, float, float, float], mass_kg: float
) -> SceneObject:
    """A box by its half edges, its frame in its middle."""

    def add(_: Builder, body: Any) -> None:
        body.add_geom(type=BOX, size=half_m, rgba=rgba, mass=mass_kg, **THING)

    around_m = math.hypot(half_m[0], half_m[1])
    return SceneObject(add, around_m, 2 * half_m[2], half_m[2])


def _add_panda(spec: mujoco.MjSpec) -> None:
    add_arm(spec, spec.worldbody)


def _home_panda(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    for joint, angle in zip(panda.JOINTS, HOME_RAD, strict=True):
        data.joint(joint).qpos[0] = angle
    for finger in ("finger_left", "finger_right"):
        data.joint(finger).qpos[0] = FINGER_TRAVEL_M
        data.ctrl[model.actuator(finger).id] = FINGER_TRAVEL_M


@dataclass(frozen=True)
class TableScene:
    """Objects on the table before the arms, by task, and the cameras around them."""

    name: str  # what its starts are drawn from
    tasks: Mapping[str, tuple[str, ...]]
    objects: Mapping[str, SceneObject]
    cameras: Mapping[str, SceneCamera]
    areas_m: Mapping[str, Area] = field(default_factory=dict)  # of objects that have their own
    add_arms: Callable[[mujoco.MjSpec], None] = _add_panda
    home: Callable[[mujoco.MjModel, mujoco.MjData], None] = _home_panda  # fingers open

    def require_task(self, task: str) -> None:
        """Refuse an unknown task with the list."""
        if task not in self.tasks:
            raise UnknownName("task", task, list(self.tasks), where=" in the simulated room")

    def build(self, task: str) -> mujoco.MjModel:
        """The room with a task's objects; `arrange` puts everything in its place."""
        self.require_task(task)
        spec = mujoco.MjSpec()
        spec.modelname = "room"
        set_physics(spec)
        self.furnish(spec, task, lambda: self.add_arms(spec))
        return spec.compile()

    def furnish(self, spec: mujoco.MjSpec, task: str, add_arm: Callable[[], None]) -> None:
        """Everything but the arm, which `add_arm` puts there: also one that is not ours. It must
        have the camera `wrist` on its body `hand`, and the bodies of `FINGERS`.
        """
        self.require_task(task)
        _set_look(spec)
        _add_furniture(spec)
        add_arm()
        for name, camera in self.cameras.items():
            _add_camera(spec, name, camera)
        builder = Builder(spec, Materials(spec, STYLES[0], textures=False))
        for name in self.tasks[task]:
            body = spec.worldbody.add_body(name=name)
            body.add_freejoint(name=name)
            self.objects[name].add(builder, body)

    def arrange(
        self,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        task: str,
        start: int,
        seed: int = 0,
        jitter_m: float = 0.0,
    ) -> None:
        """Home the arms, open the fingers, and put the objects where the start has them, each up to
        `jitter_m` off; how far follows from the seed.
        """
        mujoco.mj_resetData(model, data)
        self.home(model, data)
        self.put(data, task, start, seed, jitter_m)
        mujoco.mj_forward(model, data)

    def put(
        self, data: mujoco.MjData, task: str, start: int, seed: int = 0, jitter_m: float = 0.0
    ) -> None:
        """Set the objects alone: where the start has them, upright and at rest."""
        hand = Draw(self.name, task, start, seed, "jitter")
        for name, (x, y, yaw) in self.places(task, start).items():
            angle, off = hand.uniform(0.0, math.tau), jitter_m * hand.uniform(0.0, 1.0)
            x, y = x + off * math.cos(angle), y + off * math.sin(angle)
            yaw += hand.within(5.0 * jitter_m)  # 1 cm beside comes with 3 degrees
            z = TABLE_TOP_M + self.objects[name].origin_m
            data.joint(name).qpos[:] = (x, y, z, math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2))
            data.joint(name).qvel[:] = 0.0

    def places(self, task: str, start: int) -> dict[str, tuple[float, float, float]]:
        """x, y and yaw of every object at a start, before anyone's hand is inexact."""
        self.require_task(task)
        names = self.tasks[task]
        draw = Draw(self.name, task, start)
        for _ in range(DRAWS_MAX):
            drawn = {n: self._drawn(draw, n) for n in names}
            if all(
                math.dist(drawn[a][:2], drawn[b][:2])
                > self.objects[a].radius_m + self.objects[b].radius_m + APART_M
                for a, b in itertools.combinations(names, 2)
            ):
                return drawn
        raise AssertionError(f"no room for {', '.join(names)}")

    def _drawn(self, draw: Draw, name: str) -> tuple[float, float, float]:
        (x0, y0), (x1, y1) = self.areas_m.get(name, AREA_M)
        return draw.uniform(x0, x1), draw.uniform(y0, y1), draw.within(TURN_RAD)

    def camera_model(self, data: mujoco.MjData, camera: str) -> CameraModel:
        """The truth about a camera at the present pose: what a calibration would find."""
        at = data.camera(camera)
        # MuJoCo's camera looks along -z with y up; ours along +z with y down.
        rotation = at.xmat.reshape(3, 3) * np.array([1.0, -1.0, -1.0])
        entry = self.cameras[camera]
        return CameraModel(intrinsics(entry.fovy_deg, entry.size), Pose(at.xpos.copy(), rotation))

    def top_m(self, data: mujoco.MjData, name: str) -> float:
        """The height of an object's top while it stands."""
        thing = self.objects[name]
        return float(data.body(name).xpos[2]) - thing.origin_m + thing.height_m

    def judge_lifted(self, model: mujoco.MjModel, data: mujoco.MjData, name: str) -> Judgement:
        """Whether both fingers hold an object clear of the table."""
        if not touched_by(model, data, name) >= FINGERS:
            return False, f"the gripper does not hold the {name}"
        height_m = underside_m(model, data, name) - TABLE_TOP_M
        return height_m >= LIFTED_M, f"the {name} is held {100 * height_m:.0f} cm above the table"

    def judge_on(
        self, model: mujoco.MjModel, data: mujoco.MjData, name: str, support: str
    ) -> Judgement:
        """Whether an object rests on top of another alone, let go and still."""
        if undone := not_at_rest(model, data, name, support):
            return False, undone
        if underside_m(model, data, name) < self.top_m(data, support) - ON_M:
            return False, f"the {name} leans on the {support}"
        return True, f"the {name} rests on the {support}"


def not_at_rest(model: mujoco.MjModel, data: mujoco.MjData, name: str, support: str) -> str:
    """Why an object does not rest on another alone, let go and still; empty where it does."""
    touched = touched_by(model, data, name)
    if touched & HAND:
        return f"the gripper still touches the {name}"
    if touched != {support}:
        where = " and ".join(sorted(touched)) or "nothing"
        return f"the {name} lies on {where}, not on the {support} alone"
    if float(np.linalg.norm(data.joint(name).qvel[:3])) > STILL_M_S:
        return f"the {name} still moves"
    return ""


def underside_m(model: mujoco.MjModel, data: mujoco.MjData, name: str) -> float:
    """The height of an object's lowest point."""
    body = model.body(name)
    first, count = int(body.geomadr[0]), int(body.geomnum[0])
    felt = [g for g in range(first, first + count) if model.geom_contype[g]]
    rows = data.geom_xmat[felt].reshape(-1, 3, 3)[:, 2]  # the world's z in each geom's frame
    centre_m, half_m = model.geom_aabb[felt, :3], model.geom_aabb[felt, 3:]
    low_m = data.geom_xpos[felt, 2] + (rows * centre_m).sum(1) - (np.abs(rows) * half_m).sum(1)
    return float(low_m.min())


def touched_by(model: mujoco.MjModel, data: mujoco.MjData, body: str) -> set[str]:
    """The bodies in contact with a body."""
    i = model.body(body).id
    pairs = model.geom_bodyid[data.contact.geom].tolist()
    others = {b if a == i else a for a, b in pairs if i in (a, b)}
    return {model.body(k).name for k in others}


def _add_camera(spec: mujoco.MjSpec, name: str, camera: SceneCamera) -> None:
    if camera.position_m is None:
        spec.camera(name).fovy = camera.fovy_deg
        return
    position, target = np.array(camera.position_m), np.array(camera.target_m)
    if camera.kind == "exterior":
        spec.worldbody.add_camera(name=name, pos=position, quat=look_at(position, target))
    else:  # instead of where the arm has it, and its housing with it
        spec.camera(name).pos = position
        spec.camera(name).quat = look_at(position, target, up=(1, 0, 0))
        spec.geom(name).pos = position + 0.015 * (position - target) / np.linalg.norm(
            position - target
        )
    spec.camera(name).fovy = camera.fovy_deg


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
