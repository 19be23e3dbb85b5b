"""The Env contract: what a world must offer so that the executor, the models and the exporters work
on it unchanged.

Every pose is in the base frame: origin at the arm's mount, midway between the mounts of several, x
forward, y left, z up, riding with the mobile base. Camera frames follow the image: x right, y down,
z into the scene. Metres, radians, seconds.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from capex import trust
from capex.errors import CapexError, ErrorCode, GLUnavailable, UnknownName, Unsupported
from capex.plan import Waypoint
from capex.pose import Array, Pose
from capex.processes import safe_path
from capex.registry import ROBOT_NAMES, ROBOT_WORLDS, load
from capex.worlds.spec import DEFAULT_IMAGE_SIZE as DEFAULT_IMAGE_SIZE
from capex.worlds.spec import FRESH as FRESH
from capex.worlds.spec import ArmSpec as ArmSpec
from capex.worlds.spec import BaseSpec as BaseSpec
from capex.worlds.spec import CameraModel as CameraModel
from capex.worlds.spec import CameraSpec as CameraSpec
from capex.worlds.spec import DepthImage as DepthImage
from capex.worlds.spec import Spec as Spec

if TYPE_CHECKING:
    from capex.worlds.contract import CheckReport

Image = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class State:
    """A saved state: what it belongs to, and every number needed to continue bit for bit."""

    header: str
    vector: Array


@dataclass(frozen=True)
class Start:
    """Everything that fixes how an episode begins: no counter and no hidden reset beside it."""

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
    """What one arm measures."""

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
    guard: tuple[str, ...] = ()  # what a robot's guard changed in the last tick's command
    stopped: str = ""  # why the guard ended the motion; empty while it may go on


class FrameRecording(Protocol):
    """Pictures of an attempt, written while it runs and outside its control loop."""

    def mark(self) -> None:
        """The newest picture of each camera belongs to the present state: called once before the
        first tick and after each one.
        """

    def close(self) -> None:
        """Everything marked is on disk when this returns; a fault where something was lost."""


class Env(Protocol):
    """A robot in a world. Looking (robot_state, observe, depth, camera_model) changes nothing."""

    @property
    def spec(self) -> Spec: ...

    def reset(self, start: Start) -> None:
        """Put the world into a start; the same start gives the same bits and pixels."""

    @property
    def instruction(self) -> str:
        """The task in words, for the current start."""

    @property
    def scene(self) -> str:
        """Names the surroundings: starts with equal scenes share them; by default there is one."""
        return self.spec.world

    def robot_state(self) -> RobotState:
        """Proprioception, cheap enough for every tick."""

    def step(self, command: Command) -> Array:
        """Turn a command into the native action, apply it for one tick and return it."""

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

    def record_frames(self, folder: Path) -> FrameRecording:
        """Begin to record every camera into a new folder (layout: `capex.run.frames`), or
        Unsupported where states can be drawn again.
        """
        raise Unsupported(f"{self.spec.name} records no frames")

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
    # What may not happen on the way, where a person judges; part of the criterion's words.
    rules: tuple[str, ...] = ()


@dataclass(frozen=True)
class Need:
    """Something that a world needs on a machine; `fix` is the line for a shell that brings it."""

    what: str
    there: bool
    found: str
    fix: str = ""


# A world is a module, imported when first used. It has `TASKS` (name -> TaskInfo) and
# `make(world, task)`, and what else it can it says by having it: `plan`, a privileged expert
# (Planner); `follow_human`, what a person did from its starts (HumanDemonstration);
# `examine_needs`, which looks for what it needs on a machine (() -> list[Need]).
WORLDS: dict[str, str] = {
    "kitchen": "capex.worlds.kitchen",
    "kitchen-mixed": "capex.worlds.kitchen",
    "robosuite": "capex.worlds.robosuite",
    "robosuite-panda": "capex.worlds.robosuite",
    "robosuite-two": "capex.worlds.robosuite.two_arms",
    "robocasa": "capex.worlds.robocasa",
}
ROBOSUITE_INSTALL = "capex install robosuite"


def tasks(world: str) -> dict[str, TaskInfo]:
    """The tasks of a world by name."""
    by_name: dict[str, TaskInfo] = _module(world).TASKS
    return by_name


def make(name: str, **options: Any) -> Env:
    """The environment WORLD:TASK; unknown names are refused with the valid ones, closest first.

    Options are the world's own; the kitchen has `shadows=True`, which costs ten times the rest in
    software rendering.
    """
    world, task = split_name(name)
    module = _module(world)
    if not task:
        example = f"{world}:{next(iter(module.TASKS))}"
        raise CapexError(
            f"'{name}' names no task; write WORLD:TASK, for example {example}",
            code=ErrorCode.BAD_SETTING,
        )
    if task not in module.TASKS:
        raise unknown_task(world, task)
    env: Env = module.make(world, task, **options)
    if world not in WORLDS:
        _draw_without_display()
    return env


def split_name(name: str) -> tuple[str, str]:
    """WORLD:TASK as (world, task); the world of a robot is PREFIX:FILE, also where it may be named
    without the prefix. Without a task it is empty.
    """
    world, colon, task = name.partition(":")
    name = ROBOT_NAMES.get(world, world) + colon + task
    if prefix := robot_prefix(name):
        world, _, task = name.rpartition(":")
        return (world, task) if world.startswith(prefix) else (name, "")
    return world, task


def robot_prefix(world: str) -> str:
    """The prefix of a world that is a robot described by a file; empty for every other world."""
    return next((prefix for prefix in ROBOT_WORLDS if world.startswith(prefix)), "")


def allow(*names: str) -> None:
    """Permit worlds of the user's own by name, WORLD or WORLD:TASK: a module, or a file. Only for
    names that the user gave; built-in worlds need no permission.
    """
    for name in names:
        world = split_name(name)[0]
        if prefix := robot_prefix(world):
            trust.allow(files=[world.removeprefix(prefix)])
        elif world not in WORLDS:
            trust.allow(modules=[world])


def draw_on_one_core() -> None:
    """In a process that renders beside others: software OpenGL starts a thread per core."""
    os.environ.setdefault("LP_NUM_THREADS", "1")


def unknown_task(world: str, task: str) -> UnknownName:
    """The error for a task that a world does not have."""
    return UnknownName("task", task, tasks(world), where=f" in world '{world}'")


Planner = Callable[[Env, int], Sequence[Waypoint]]  # (env, decisions so far) -> next waypoints
# (env, start index) -> the recorded actions; each is yielded when the env, which stands at the
# start, shows the state after it
HumanDemonstration = Callable[[Env, int], Iterator[Array]]


def expert(world: str) -> Planner:
    """The privileged planner of a world."""
    planner: Planner = _offered(world, "plan", "expert; those with one")
    return planner


def human(world: str) -> HumanDemonstration:
    """The demonstrations that people recorded from a world's starts."""
    what = "human demonstrations; those with some"
    follow: HumanDemonstration = _offered(world, "follow_human", what)
    return follow


def needs(world: str) -> list[Need]:
    """What a world needs on this machine, in the order in which to bring it. A world that does not
    say is built: its first start is what was found, or the reason why there is none.
    """
    try:
        module = _module(world)
        if hasattr(module, "examine_needs"):
            return list(module.examine_needs())
        env = make(f"{world}:{next(iter(module.TASKS))}")
        env.reset(Start(env.spec.task, 0))
        env.close()
    except CapexError as error:
        return [Need("", False, str(error))]
    return [Need("", True, f"{env.spec.name} start 0 was built")]


def _offered(world: str, attribute: str, what: str) -> Any:
    if hasattr(module := _module(world), attribute):
        return getattr(module, attribute)
    having = [name for name in WORLDS if hasattr(_module(name), attribute)]
    raise CapexError(
        f"world '{world}' has no {what}: {', '.join(having)}", code=ErrorCode.UNSUPPORTED
    )


GL_BACKENDS = ("egl", "osmesa", "glfw", "cgl")


def _draw_without_display() -> None:
    """After foreign code: if it has loaded MuJoCo, it may draw on a machine without a display."""
    if "mujoco" in sys.modules:
        from capex.worlds import render

        render.serve_mujoco()


def _module(world: str):  # type: ignore[no-untyped-def]
    """A world's module. Every use of a world's name comes through here: what is not built in must
    have been permitted (`capex.trust`), because the name may come from somebody else's run.
    """
    world = ROBOT_NAMES.get(world, world)
    if prefix := robot_prefix(world):
        return load(ROBOT_WORLDS[prefix])(world)
    if world not in WORLDS and "." not in world:
        own = ", or a module of yours with a dot in its name, as in my_lab.table:Touch"
        raise UnknownName("world", world, WORLDS, also=own)
    backend = os.environ.get("MUJOCO_GL", "").strip().lower()
    # MuJoCo itself would fail on an unknown one with a traceback, at its import.
    if backend and backend not in GL_BACKENDS:
        valid = ", ".join(GL_BACKENDS)
        raise GLUnavailable(f"MUJOCO_GL is '{backend}'; valid: {valid}, or leave it unset")
    if world in WORLDS:
        with safe_path():  # of what it imports, glfw runs Python on the way
            return importlib.import_module(WORLDS[world])
    trust.require_module(world, "world")
    try:
        module = importlib.import_module(world)
    except ModuleNotFoundError as error:
        raise CapexError(
            f"the world '{world}' is named like a module, but it cannot be imported ({error}); is"
            " it on the path?",
            code=ErrorCode.NOT_FOUND,
        ) from None
    _draw_without_display()
    for name in ("TASKS", "make"):
        if not hasattr(module, name):
            needs = "TASKS (name -> TaskInfo) and make(world, task)"
            raise CapexError(
                f"the module {world} is no world: it has no {name}; it needs {needs}",
                code=ErrorCode.CONTRACT_BROKEN,
            )
    return module


def check(env: Env, **options: Any) -> CheckReport:
    """Run the contract on an environment (options: `capex.worlds.contract.check`)."""
    from capex.worlds import contract

    return contract.check(env, **options)


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
