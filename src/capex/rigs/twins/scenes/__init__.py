"""What stands in a simulated room: a robot at a table, objects, cameras, and who can say from the
truth whether a task is done. One module a scene; a rig file chooses it by `[room] scene`.

The world's frame is the base frame of the rig: origin at the arm's mount, midway between the mounts
of two, x forward over the table, y left, z up. A start is an arrangement of the objects; a seed
says how exactly a person's hand has put them there.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import mujoco

from capex.errors import UnknownName
from capex.plan import Waypoint

SCENES = {
    "blocks": "capex.rigs.twins.scenes.blocks",
    "franka": "capex.rigs.twins.scenes.franka",
    "yam": "capex.rigs.twins.scenes.yam",
}
DEFAULT = "blocks"


@dataclass(frozen=True)
class SceneCamera:
    """A camera: what a rig file says of it, and where the simulation puts it."""

    kind: Literal["exterior", "wrist"]
    size: tuple[int, int]
    fovy_deg: float  # a RealSense D435's colour has 42, its depth 58
    view: str  # for the prompt
    # In the base frame, or in the hand's of one on the wrist; None: where the arm has it.
    position_m: tuple[float, float, float] | None = None
    target_m: tuple[float, float, float] = (0.0, 0.0, 0.0)


class Arranges(Protocol):
    """Homes the arm, opens the fingers, and puts the objects where a start has them, each up to
    `jitter_m` off; how far follows from the seed.
    """

    def __call__(
        self,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        task: str,
        start: int,
        seed: int = 0,
        jitter_m: float = 0.0,
    ) -> None: ...


@dataclass(frozen=True)
class Handling:
    """How the expert does a task: what it grasps and lifts, and where it lets go of it."""

    thing: str
    grasp_m: float  # of the tip above the thing's underside
    faces: bool = False  # whether the fingers must meet flat sides; a round thing needs no turning
    support: str | None = None  # None: it is held up
    release_m: float = 0.0  # of the thing's underside above the support's


class AttemptWatch(Protocol):
    """Made when objects were arranged: remembers what a task's rules say about the way there."""

    def see(self) -> None:
        """Look at the present state, every 10 ms of the room's clock."""

    def judge(self) -> tuple[bool, str]:
        """Whether the task is achieved now and no rule was broken, and why."""


# What an expert does next, given where everything is.
Plans = Callable[[mujoco.MjModel, mujoco.MjData], list[Waypoint]]


@dataclass(frozen=True)
class RoomScene:
    """One scene: its module has it as `SCENE`."""

    tasks: Mapping[str, tuple[str, ...]]  # task -> the objects on the table; words are in TOML
    cameras: Mapping[str, SceneCamera]
    build: Callable[[str], mujoco.MjModel]  # with a task's objects; `arrange` puts them in place
    arrange: Arranges
    judge: Callable[[mujoco.MjModel, mujoco.MjData, str], tuple[bool, str]]  # achieved now, and why
    expert: Mapping[str, Handling | Plans] = field(default_factory=dict)  # by task; or none at all
    # Judges instead, in scenes whose rules are also about the way there.
    watch: Callable[[mujoco.MjModel, mujoco.MjData, str], AttemptWatch] | None = None


def scene_name(room: Mapping[str, Any]) -> str:
    """The scene that a rig file's table `room` names."""
    return str(room.get("scene", DEFAULT))


def load_scene(name: str) -> RoomScene:
    """A scene by its name in a rig file."""
    if name not in SCENES:
        raise UnknownName("scene", name, SCENES, where=" for a simulated room")
    scene: RoomScene = importlib.import_module(SCENES[name]).SCENE
    return scene
