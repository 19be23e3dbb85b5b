"""How an episode of a robosuite environment begins: built from a seed here, restored from a recorded demonstration in RoboCasa's world.

Seeds. Every reset builds a new environment from one seed: sizes, places and the arm's noise come from its generator, and nothing of the
episode before can leak through robosuite's Python objects. `robosuite.make(TASK, seed=[SEED, INDEX], ...)` is the same start without
this package.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import mujoco

from capex.worlds import NativeStart, Start
from capex.worlds.robosuite.cameras import MOVED
from capex.worlds.robosuite.packages import import_robosuite
from capex.worlds.robosuite.robots import Robot
from capex.worlds.robosuite.tasks import Arena, Task

CONTROL_HZ = 20
# What an environment of ours never does: rendering is capex.worlds.render's, observables are not used, and no horizon ends an episode.
QUIET: dict[str, Any] = {
    "ignore_done": True,
    "use_camera_obs": False,
    "has_renderer": False,
    "has_offscreen_renderer": False,
    "renderer": "mujoco",
}


@dataclass(frozen=True)
class Beginning:
    """A robosuite environment that stands at a start, and what is known of it."""

    env: Any
    instruction: str
    scene: str
    header: Mapping[str, Any]  # what a saved state belongs to
    native: NativeStart
    cameras: Mapping[str, str] = field(default_factory=lambda: MOVED)  # our name -> the model's
    arena: Arena | None = None  # where two cameras are moved to; None where they stand well


class Beginnings(Protocol):
    """Where starts come from."""

    @property
    def count(self) -> int:
        """How many there are."""

    def build(self, start: Start) -> Beginning:
        """The start, anew."""


class Seeded:
    """robosuite's own starts, drawn from a seed and an index."""

    count = 10_000

    def __init__(self, task: Task, robot: Robot):
        self._robosuite, self._task, self._robot = import_robosuite(), task, robot

    def build(self, start: Start) -> Beginning:
        """A new environment from robosuite, seeded with the start."""
        kwargs = {
            "robots": self._robot.name,
            "controller_configs": self._robot.controllers(self._robosuite),
            "control_freq": CONTROL_HZ,
            "seed": [start.seed, start.index],  # goes to numpy's default_rng
        }
        env = self._robosuite.make(self._task.info.name, use_object_obs=False, **kwargs, **QUIET)
        versions = {"robosuite": self._robosuite.__version__, "mujoco": mujoco.__version__}
        return Beginning(
            env=env,
            instruction=self._task.info.instruction,
            scene="robosuite",
            header={"robot": self._robot.name, "start": start.index, "seed": start.seed, **versions},
            native=NativeStart(
                env_args={"env_name": self._task.info.name, "env_version": self._robosuite.__version__, "type": 1, "env_kwargs": kwargs},
                # As the model stands now: robosuite moves the door after it has composed its XML. Nothing else is compiled in between.
                model_xml=env.sim.model.get_xml(),
                episode_meta={"lang": self._task.info.instruction},
            ),
            arena=self._task.arena,
        )
