"""The two outer cameras and the wrist camera of a robosuite scene.

robosuite's arenas have cameras that look at the robot from the front. Two of them are moved behind
the arm, to its left and right, looking forward over the workspace, and ride with a mobile base.
RoboCasa's kitchens have such cameras already; they are used as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import mujoco
import numpy as np

from capex.pose import Array, Pose
from capex.worlds import CameraModel, CameraSpec, DepthImage, Spec
from capex.worlds.render import Renderer, Shot, intrinsics
from capex.worlds.robosuite.anatomy import Anatomy
from capex.worlds.robosuite.tasks import Arena

OUTER = ("left", "right")
SPECS = (*(CameraSpec(name, "exterior") for name in OUTER), CameraSpec("wrist", "wrist", arm="arm"))
# Ours -> robosuite's.
MOVED = {"left": "frontview", "right": "agentview", "wrist": "robot0_eye_in_hand"}
# Over two arms one camera stands, and each hand carries its own.
SPECS_OF_TWO = (
    CameraSpec("front", "exterior"),
    *(CameraSpec(f"{arm}_wrist", "wrist", arm=arm) for arm in ("left", "right")),
)
MOVED_OF_TWO = {
    "front": "frontview",
    "left_wrist": "robot1_eye_in_hand",
    "right_wrist": "robot0_eye_in_hand",
}
VISUAL_GROUP = 1  # robosuite and RoboCasa draw this group of shapes; 0 holds the collision shapes
MAX_SHAPES = 10_000
_OPENCV = np.diag([1.0, -1.0, -1.0])  # MuJoCo's cameras look along -z with y up


def move_cameras(anatomy: Anatomy, arena: Arena, names: Mapping[str, str]) -> None:
    """Move the arena's outer cameras behind the robot, to its left and right where there are two;
    they ride with its base.
    """
    model, data = anatomy.model, anatomy.data
    mujoco.mj_kinematics(model, data)
    mount = anatomy.mount
    bases = [body for body in range(model.nbody) if model.body(body).name == "mobilebase0_base"]
    carrier = bases[0] if bases else 0
    T_world_carrier = Pose(data.xpos[carrier], data.xmat[carrier].reshape(3, 3))
    outer = [theirs for theirs in names.values() if not theirs.endswith("eye_in_hand")]
    for name, side in zip(outer, (1.0, -1.0), strict=False):
        position_m = np.array(arena.camera_m) * (1.0, side, 1.0)
        look_at_m = np.array(arena.look_at_m)
        T_mount_camera = Pose(position_m, _looking(position_m, look_at_m))
        T_carrier_camera = T_world_carrier.inverse() @ (mount @ T_mount_camera)
        camera = model.camera(name)
        model.cam_bodyid[camera.id] = carrier
        camera.pos = T_carrier_camera.position_m
        mujoco.mju_mat2Quat(camera.quat, T_carrier_camera.rotation.ravel())
        camera.fovy = arena.fovy_deg


def _looking(from_m: Array, to_m: Array) -> Array:
    """Rotation of a MuJoCo camera that looks from one place to another, world up being image up."""
    z = (from_m - to_m) / np.linalg.norm(from_m - to_m)
    x = np.cross((0.0, 0.0, 1.0), z)
    x /= np.linalg.norm(x)
    return np.stack([x, np.cross(z, x), z], axis=1)


class Cameras:
    """Images, depth and models of the three cameras; looking changes nothing."""

    def __init__(self, spec: Spec, anatomy: Anatomy, names: Mapping[str, str], **drawing: bool):
        self._spec, self._anatomy, self._drawing = spec, anatomy, drawing
        self._model, self._data = anatomy.model, anatomy.data
        self._ids = {ours: int(self._model.camera(theirs).id) for ours, theirs in names.items()}
        self._renderer: Renderer | None = None

    def shot(self, cameras: Sequence[str], size: tuple[int, int] | None) -> Shot:
        """The views of these cameras, to be drawn."""
        chosen = [self._spec.camera(name) for name in cameras]
        views = {c.name: (self._ids[c.name], size or c.size) for c in chosen}
        return Shot(self._draws(), self._data, views)

    def model_of(self, camera: str, size: tuple[int, int] | None) -> CameraModel:
        """Exact intrinsics and pose of a camera."""
        spec = self._spec.camera(camera)
        number = self._ids[camera]
        rotation = self._data.cam_xmat[number].reshape(3, 3) @ _OPENCV
        pose = self._anatomy.in_base(self._data.cam_xpos[number], rotation)
        return CameraModel(intrinsics(float(self._model.cam_fovy[number]), size or spec.size), pose)

    def depth(self, camera: str, size: tuple[int, int] | None) -> DepthImage:
        """Metric depth along the optical axis, infinite where nothing is seen."""
        model, size = self.model_of(camera, size), size or self._spec.camera(camera).size
        return DepthImage(self._draws().depth(self._data, self._ids[camera], size), model)

    def _draws(self) -> Renderer:
        if self._renderer is None:
            self._renderer = Renderer(
                self._model, groups=(VISUAL_GROUP,), max_geoms=MAX_SHAPES, **self._drawing
            )
        return self._renderer

    def close(self) -> None:
        """Free the GL side."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None
