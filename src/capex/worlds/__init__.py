"""The Env contract: what a world must offer so that the executor, the models and the exporters work
on it unchanged.

Every pose is in the base frame: origin at the arm's mount, x forward, y left, z up, riding with the
mobile base. Camera frames follow the image: x right, y down, z into the scene. Metres, radians,
seconds.
"""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from capex.errors import BadCommand, CapexError, GLUnavailable, UnknownName
from capex.plan import Waypoint
from capex.pose import Array, Pose

if TYPE_CHECKING:
    from capex.worlds.contract import Report

Image = npt.NDArray[np.uint8]
DEFAULT_IMAGE_SIZE = (512, 512)


@dataclass(frozen=True)
class CameraSpec:
    """A camera: `exterior` cameras look at the scene from the robot's back, a `wrist` camera rides
    on an arm's hand.
    """

    name: str
    kind: Literal["exterior", "wrist"]
    size: tuple[int, int] = DEFAULT_IMAGE_SIZE  # width, height
    arm: str = ""  # the arm a wrist camera rides on


@dataclass(frozen=True)
class ArmSpec:
    """One arm with its gripper and the largest pose step that one command may carry."""

    name: str
    max_opening_m: float
    max_step_m: float
    max_step_rad: float


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
    workspace_m: tuple[
        tuple[float, float, float], tuple[float, float, float]
    ]  # lower and upper corner, base frame
    action_names: tuple[str, ...]  # the native action, in order
    state_names: tuple[str, ...]  # RobotState.proprio, in order
    starts: int  # valid start indices are 0 .. starts-1
    base: BaseSpec | None = None
    depth: bool = False
    success: Literal["world", "operator"] = "world"
    can_reset: bool = True
    can_save: bool = True
    real_time: bool = False

    @property
    def name(self) -> str:
        """WORLD:TASK, what `worlds.make` takes."""
        return f"{self.world}:{self.task}"

    def camera(self, name: str) -> CameraSpec:
        """The camera of that name; an unknown one is refused with the list."""
        for camera in self.cameras:
            if camera.name == name:
                return camera
        raise UnknownName("camera", name, [c.name for c in self.cameras])


@dataclass(frozen=True)
class State:
    """A complete saved state: a header that says what it belongs to, and every number needed to
    continue bit for bit.
    """

    header: str
    vector: Array


@dataclass(frozen=True)
class Start:
    """Everything that fixes the beginning of an episode. No counter and no hidden reset stands
    beside it.
    """

    task: str
    index: int
    seed: int = 0
    state: State | None = None


@dataclass(frozen=True)
class ArmCommand:
    """One tick of one arm: a small pose step in the base frame, or None to hold the last goal;
    gripper -1 open, +1 close, 0 hold.
    """

    step_m: tuple[float, float, float] | None = None
    step_rad: tuple[float, float, float] = (0.0, 0.0, 0.0)  # axis-angle, applied on the left
    gripper: float = 0.0


@dataclass(frozen=True)
class Command:
    """One control tick: a command for each arm by name and, on a mobile robot, a base velocity
    (forward, left, yaw).
    """

    arms: Mapping[str, ArmCommand]
    base_velocity: tuple[float, float, float] | None = None


@dataclass(frozen=True)
class Contact:
    """A robot part touching a thing; on a real robot the thing may be unknown (empty)."""

    part: str
    thing: str = ""


@dataclass(frozen=True)
class ArmState:
    """What one arm measures: tip pose, opening, what its hand touches, what both fingers hold,
    joints at a limit.
    """

    T_base_tip: Pose
    opening_m: float
    hand_contacts: frozenset[Contact] = frozenset()
    finger_contact: bool = False
    held: frozenset[str] = frozenset()  # things that both fingers press between them
    joints_at_limit: tuple[str, ...] = ()


@dataclass(frozen=True)
class RobotState:
    """Proprioception, read every tick. `contacts` are those of parts other than a hand."""

    arms: Mapping[str, ArmState]
    contacts: frozenset[Contact] = frozenset()
    base: tuple[float, float, float] | None = None  # x, y, yaw in a frame fixed to the floor
    proprio: Array = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True)
class CameraModel:
    """Pinhole intrinsics (3,3) for a pixel grid whose first pixel's centre is (0.5, 0.5), and the
    camera's pose.
    """

    intrinsics: Array
    T_base_camera: Pose

    def project(self, point_m: Array) -> tuple[float, float, float]:
        """Pixel coordinates u (right), v (down) and depth of a base-frame point."""
        u, v, w = self.intrinsics @ self.T_base_camera.inverse().apply(point_m)
        return float(u / w), float(v / w), float(w)

    def unproject(self, u: float, v: float, depth_m: float) -> Array:
        """Base-frame point seen at pixel coordinates u, v at a depth along the optical axis."""
        fx, fy, cx, cy = (
            self.intrinsics[0, 0],
            self.intrinsics[1, 1],
            self.intrinsics[0, 2],
            self.intrinsics[1, 2],
        )
        p = np.array([(u - cx) / fx, (v - cy) / fy, 1.0]) * depth_m
        return self.T_base_camera.apply(p)


@dataclass(frozen=True)
class DepthImage:
    """Metric depth along the optical axis (height, width), infinite where nothing is seen, with its
    camera.
    """

    depth_m: npt.NDArray[np.float32]
    camera: CameraModel


class Env(Protocol):
    """A robot in a world. `robot_state`, `observe`, `depth` and `camera_model` never change the
    future.
    """

    @property
    def spec(self) -> Spec: ...

    def reset(self, start: Start) -> None:
        """Put the world into a start; the same start gives the same bits and pixels."""

    @property
    def instruction(self) -> str:
        """The task in words, for the current start."""

    def robot_state(self) -> RobotState:
        """Proprioception, cheap enough for every tick."""

    def step(self, command: Command) -> Array:
        """Turn a command into the native action, apply it for one tick and return it
        for recording.
        """

    def apply(self, action: Array) -> None:
        """Apply one native action for one tick: what replay and students use."""

    def success(self) -> bool | None:
        """Whether the task is achieved now, or None where a person judges."""

    def observe(
        self, cameras: Sequence[str] | None = None, size: tuple[int, int] | None = None
    ) -> dict[str, Image]:
        """Upright RGB images (height, width, 3) by camera name."""

    def camera_model(self, camera: str, size: tuple[int, int] | None = None) -> CameraModel:
        """Intrinsics and pose, or Unsupported for an uncalibrated camera."""

    def depth(self, camera: str, size: tuple[int, int] | None = None) -> DepthImage:
        """Metric depth, or Unsupported."""

    def save_state(self) -> State:
        """Everything needed to continue bit for bit, or Unsupported."""

    def load_state(self, state: State) -> None:
        """Continue from a saved state of the same world, task and start; any other is refused."""

    def close(self) -> None:
        """Free what the world holds."""


@dataclass(frozen=True)
class TaskInfo:
    """One row of `capex tasks`."""

    name: str
    family: str
    horizon: int
    instruction: str
    criterion: str


# A world is a module with `TASKS` (name -> TaskInfo) and `make(world, task)`; it is imported when
# first used.
WORLDS: dict[str, str] = {
    "kitchen": "capex.worlds.kitchen",
    "kitchen-mixed": "capex.worlds.kitchen",
    "robosuite": "capex.worlds.robosuite",
    "robosuite-panda": "capex.worlds.robosuite",
    "robocasa": "capex.worlds.robocasa",
}
ROBOSUITE_INSTALL = "capex install robosuite"
EXPERTS: dict[str, str] = {
    "kitchen": "capex.worlds.kitchen.expert",
    "kitchen-mixed": "capex.worlds.kitchen.expert",
    "robosuite": "capex.worlds.robosuite.expert",
    "robosuite-panda": "capex.worlds.robosuite.expert",
}


def tasks(world: str) -> dict[str, TaskInfo]:
    """The tasks of a world by name."""
    found: dict[str, TaskInfo] = _module(world).TASKS
    return found


def make(name: str, **options: Any) -> Env:
    """The environment WORLD:TASK. Unknown worlds and tasks are refused with the valid ones, closest
    first.

    Options are the world's own; the kitchen has `shadows=True`, which costs ten times the rest in
    software rendering.
    """
    world, separator, task = name.partition(":")
    module = _module(world)
    if not separator or not task:
        raise CapexError(
            f"'{name}' names no task; write WORLD:TASK, for example"
            f" {world}:{next(iter(module.TASKS))}"
        )
    if task not in module.TASKS:
        raise unknown_task(world, task)
    env: Env = module.make(world, task, **options)
    return env


def draw_on_one_core() -> None:
    """For a process that renders beside others: software OpenGL would otherwise start a thread per
    core in each of them.
    """
    os.environ.setdefault("LP_NUM_THREADS", "1")


def unknown_task(world: str, task: str) -> UnknownName:
    """The error for a task that a world does not have."""
    return UnknownName("task", task, tasks(world), where=f" in world '{world}'")


Planner = Callable[[Env, int], Sequence[Waypoint]]


def expert(world: str) -> Planner:
    """The privileged planner of a world: (env, decisions so far) -> the next waypoints."""
    _module(world)
    if world not in EXPERTS:
        raise CapexError(f"world '{world}' has no expert; those with one: {', '.join(EXPERTS)}")
    planner: Planner = importlib.import_module(EXPERTS[world]).plan
    return planner


GL_BACKENDS = ("egl", "osmesa", "glfw", "cgl")


def _module(world: str):  # type: ignore[no-untyped-def]
    """A world's module; a name with a dot in it is a module of the user's own, with TASKS and
    make(world, task).
    """
    if world not in WORLDS and "." not in world:
        raise UnknownName("world", world, WORLDS)
    asked = os.environ.get("MUJOCO_GL", "").strip().lower()
    if (
        asked and asked not in GL_BACKENDS
    ):  # MuJoCo itself would fail on it with a traceback, at its import
        raise GLUnavailable(
            f"MUJOCO_GL is '{asked}'; valid: {', '.join(GL_BACKENDS)}, or leave it unset"
        )
    if world in WORLDS:
        return importlib.import_module(WORLDS[world])
    try:
        return importlib.import_module(world)
    except ModuleNotFoundError as error:
        raise CapexError(
            f"the world '{world}' is named like a module, but it cannot be imported ({error}); is"
            " it on the path?"
        ) from None


def validate_command(spec: Spec, command: Command) -> None:
    """Refuse a command that is not finite, has a wrong shape or exceeds what the spec allows; the
    message names the field.
    """
    limits = {arm.name: arm for arm in spec.arms}
    if set(command.arms) != set(limits):
        raise BadCommand(
            f"arms: {sorted(command.arms)} given; this world needs exactly {sorted(limits)}"
        )
    for name, arm in command.arms.items():
        if arm.step_m is not None:
            _require_vector(f"arms['{name}'].step_m", arm.step_m, limits[name].max_step_m)
        _require_vector(f"arms['{name}'].step_rad", arm.step_rad, limits[name].max_step_rad)
        if not -1.0 <= arm.gripper <= 1.0:  # also false for NaN
            raise BadCommand(
                f"arms['{name}'].gripper is {arm.gripper}; it must lie between -1 (open) and 1"
                " (close)"
            )
    if command.base_velocity is not None:
        if spec.base is None:
            raise BadCommand("base_velocity: this robot has no mobile base; leave it None")
        _require_vector(
            "base_velocity[:2]", command.base_velocity[:2], spec.base.max_speed_m_s, length=2
        )
        _require_vector(
            "base_velocity[2:]", command.base_velocity[2:], spec.base.max_yaw_rate_rad_s, length=1
        )


def _require_vector(field_name: str, value: Sequence[float], limit: float, length: int = 3) -> None:
    if (
        type(value) is tuple
        and len(value) == length
        and all(type(v) is float for v in value)
        and math.hypot(*value) <= limit
    ):
        # what the executor sends, twenty times a second; everything else is looked at closely
        return
    try:
        vector = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadCommand(f"{field_name} is {value!r}; it must be {length} numbers") from None
    if vector.shape != (length,):
        raise BadCommand(f"{field_name} has shape {vector.shape}; it must have shape ({length},)")
    if not np.all(np.isfinite(vector)):
        raise BadCommand(f"{field_name} is {vector.tolist()}; every number must be finite")
    size = float(np.sqrt((vector * vector).sum()))
    if size > limit * (1 + 1e-9):
        raise BadCommand(f"{field_name} has length {size:.4g}; at most {limit:g} is allowed")


def check(env: Env, **options: Any) -> Report:
    """Run the contract on an environment; the report prints with rich. Options as in
    `capex.worlds.contract.check`.
    """
    from capex.worlds import contract

    return contract.check(env, **options)


def scene_of(env: Env) -> str:
    """What names the surroundings of the current start; starts with equal scenes share
    the kitchen.
    """
    return str(getattr(env, "scene", env.spec.world))


@dataclass(frozen=True)
class ModelFile:
    """A MuJoCo world for others to look into: its XML, how many of a saved state's first numbers
    are time, positions and velocities, and what robomimic keeps about an environment and RoboCasa
    about an episode.
    """

    xml: str
    state_size: int
    env_args: Mapping[str, Any]
    episode_meta: Mapping[str, Any] = field(default_factory=dict)


def model_file(env: Env) -> ModelFile | None:
    """The model of the current start, where the world has one to give."""
    give: Callable[[], ModelFile] | None = getattr(env, "model_file", None)
    return give() if give is not None else None


EnvFactory = Callable[[], Env]
