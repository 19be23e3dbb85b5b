"""What a world claims: its arms, cameras, limits and capabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from capex.errors import UnknownName
from capex.pose import Array, Pose


@dataclass(frozen=True)
class CameraModel:
    """Pinhole intrinsics (3,3), the first pixel's centre being (0.5, 0.5), and a camera's pose."""

    intrinsics: Array
    T_base_camera: Pose

    @property
    def matrix(self) -> Array:
        """(3, 4): a base-frame point (x, y, z, 1) to (u w, v w, w), w its depth."""
        rotation = self.T_base_camera.rotation.T
        view = np.column_stack([rotation, -rotation @ self.T_base_camera.position_m])
        projection: Array = self.intrinsics @ view
        return projection

    def project(self, point_m: Array) -> tuple[float, float, float]:
        """Pixel coordinates u (right), v (down) and depth of a base-frame point."""
        u, v, w = self.intrinsics @ self.T_base_camera.inverse().apply(point_m)
        return float(u / w), float(v / w), float(w)

    def unproject(self, u: float, v: float, depth_m: float) -> Array:
        """Base-frame point seen at pixel coordinates u, v at a depth along the optical axis."""
        K = self.intrinsics
        p = np.array([(u - K[0, 2]) / K[0, 0], (v - K[1, 2]) / K[1, 1], 1.0]) * depth_m
        return self.T_base_camera.apply(p)


@dataclass(frozen=True)
class DepthImage:
    """Metric depth along the optical axis (height, width); infinite where nothing is seen."""

    depth_m: npt.NDArray[np.float32]
    camera: CameraModel


DEFAULT_IMAGE_SIZE = (512, 512)
# Where a world's first starts are recorded, those from here on are drawn anew; a user writes
# fresh:0 for the first of them.
FRESH = 1_000_000
Corner = tuple[float, float, float]


@dataclass(frozen=True)
class CameraSpec:
    """A camera: an `exterior` one stands beside the robot, a `wrist` one rides on a hand."""

    name: str
    kind: Literal["exterior", "wrist"]
    size: tuple[int, int] = DEFAULT_IMAGE_SIZE  # width, height
    arm: str = ""  # the arm a wrist camera rides on
    # Where it stands and how its image lies, in words for the prompt, as in "stands across the
    # table and faces the robot, so the left side of its image is -y". Empty: an exterior camera
    # that looks roughly along +x, a wrist camera that looks along its gripper.
    view: str = ""
    depth: bool = True  # where the world has depth: whether this camera measures it

    def fitted(self, limit: int | None = None) -> tuple[int, int]:
        """Width and height of its images where the longer side may have so many pixels: its own, or
        smaller ones of the same shape.
        """
        width, height = self.size
        shrink = 1.0 if limit is None else min(1.0, limit / max(self.size))
        return max(1, round(width * shrink)), max(1, round(height * shrink))


@dataclass(frozen=True)
class ArmSpec:
    """One arm with its gripper and the largest pose step that one command may carry."""

    name: str
    max_opening_m: float
    max_step_m: float
    max_step_rad: float
    # Whether contact is known apart from not moving on; where not, a stall within 1 cm of its
    # target counts as reached and the report says so.
    senses_contact: bool = True
    # Lower and upper corner of what this arm may reach, base frame; None: the world's own.
    workspace_m: tuple[Corner, Corner] | None = None


@dataclass(frozen=True)
class BaseSpec:
    """A mobile base and its largest velocity."""

    max_speed_m_s: float
    max_yaw_rate_rad_s: float


@dataclass(frozen=True)
class Spec:
    """What a world claims. `worlds.check` tests the claims and says what was not claimed."""

    world: str
    task: str
    horizon: int  # control steps
    control_hz: float
    arms: tuple[ArmSpec, ...]
    cameras: tuple[CameraSpec, ...]
    workspace_m: tuple[Corner, Corner]  # lower and upper corner, base frame
    action_names: tuple[str, ...]  # the native action, in order
    state_names: tuple[str, ...]  # RobotState.proprio, in order
    starts: int  # valid start indices are 0 .. starts-1, and `fresh` more from FRESH on
    base: BaseSpec | None = None
    fresh: int = 0
    unrecorded: str = ""  # why no start is recorded, where there could be
    depth: bool = False
    success: Literal["world", "operator"] = "world"
    can_reset: bool = True
    can_save: bool = True
    real_time: bool = False
    # A robot that there is once: one attempt at a time, none of them repeated from a log. A world
    # in real time is one.
    exclusive: bool = False
    exact_replay: bool = False  # on one machine, a start's actions lead to the same bits again
    # Its states cannot be drawn again, so every tick's pictures are recorded (`Env.record_frames`).
    records_frames: bool = False
    hints: str = ""  # passages about this embodiment for every prompt
    technique: str = ""  # how it grasps and the like: not for the base method, told interface only

    def __post_init__(self) -> None:
        object.__setattr__(self, "exclusive", self.exclusive or self.real_time)

    @property
    def name(self) -> str:
        """WORLD:TASK, what `worlds.make` takes."""
        return f"{self.world}:{self.task}"

    def has_start(self, index: int) -> bool:
        """Whether there is a start of that index."""
        return 0 <= index < self.starts or FRESH <= index < FRESH + self.fresh

    @property
    def valid_starts(self) -> str:
        """The starts there are, as a sentence about a wrong one ends."""
        recorded = [f"0 to {self.starts - 1}"] if self.starts else []
        fresh = [f"fresh:0 to fresh:{self.fresh - 1}"] if self.fresh else []
        why = f" (none is recorded: {self.unrecorded})" if self.unrecorded else ""
        return " and ".join(recorded + fresh) + why

    def workspace_of(self, arm: str) -> tuple[Corner, Corner]:
        """The box of an arm: its own, or that of the world."""
        (own,) = (a.workspace_m for a in self.arms if a.name == arm)
        return own or self.workspace_m

    def camera(self, name: str) -> CameraSpec:
        """The camera of that name; an unknown one is refused with the list."""
        for camera in self.cameras:
            if camera.name == name:
                return camera
        raise UnknownName("camera", name, [c.name for c in self.cameras])
