"""The starts of a robosuite environment: built from a seed here, restored in RoboCasa's world.

Seeds. Every reset builds a new environment from one seed: sizes, places and the arm's noise come
from its generator, and nothing of the episode before can leak through robosuite's Python objects.
robosuite leaves things hanging in the air; ten control steps of zeros let them come to rest.
`robosuite.make(TASK, seed=[SEED, INDEX], ...)` and ten such steps are the same start without this
package.
"""

from __future__ import annotations

import copy
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import mujoco

from capex.worlds import Start
from capex.worlds.robosuite.cameras import MOVED, MOVED_OF_TWO
from capex.worlds.robosuite.packages import import_robosuite
from capex.worlds.robosuite.robots import Robot
from capex.worlds.robosuite.tasks import Arena, RobosuiteTask

CONTROL_HZ = 20
SETTLE_STEPS = 10
ROBOMIMIC_ROBOSUITE = 1  # robomimic's number for robosuite's environments
# What an environment of ours never does: rendering is capex.worlds.render's, observables are not
# used, and no horizon ends an episode.
QUIET: dict[str, Any] = {
    "ignore_done": True,
    "use_camera_obs": False,
    "has_renderer": False,
    "has_offscreen_renderer": False,
    "renderer": "mujoco",
}


@dataclass(frozen=True)
class BuiltStart:
    """A robosuite environment that stands at a start, and what is known of it."""

    env: Any
    instruction: str
    scene: str
    header: Mapping[str, Any]  # what a saved state belongs to
    model_xml: Callable[[], str]
    env_args: Mapping[str, Any]  # robomimic's: env_name, type, env_kwargs, env_version
    episode_meta: Mapping[str, Any]
    cameras: Mapping[str, str] = field(default_factory=lambda: MOVED)  # our name -> the model's
    settle: int = 0  # control steps of zeros before the episode begins
    arena: Arena | None = None  # where two cameras are moved to; None where they stand well


class StartSource(Protocol):
    """Where starts come from."""

    exact: bool  # whether the actions of an episode lead to the same bits again
    fresh: int  # how many are drawn anew, beside recorded ones

    @property
    def count(self) -> int:
        """How many there are."""

    @property
    def unrecorded(self) -> str:
        """Why none is recorded, where some could be."""

    def build(self, start: Start) -> BuiltStart:
        """The start, anew."""


class SeededStarts:
    """robosuite's own starts, drawn from a seed and an index."""

    exact = True
    count, fresh, unrecorded = 10_000, 0, ""

    def __init__(self, task: RobosuiteTask, robot: Robot):
        self._robosuite, self._task, self._robot = import_robosuite(), task, robot

    def build(self, start: Start) -> BuiltStart:
        """A new environment from robosuite, seeded with the start."""
        kwargs = {
            **self._robot.placing,
            "controller_configs": self._robot.controllers(self._robosuite),
            "control_freq": CONTROL_HZ,
            "use_object_obs": False,
            **QUIET,
        }
        seed = [start.seed, start.index]  # goes to numpy's default_rng
        info, version = self._task.info, self._robosuite.__version__
        # Robosuite writes into what it is given.
        env = self._robosuite.make(info.name, seed=seed, **copy.deepcopy(kwargs))
        robots = " and ".join([self._robot.name] * len(self._robot.arms))
        header = {"robot": robots, "start": start.index, "seed": start.seed}
        env_args = {"env_name": info.name, "env_version": version, "type": ROBOMIMIC_ROBOSUITE}
        return BuiltStart(
            env=env,
            instruction=info.instruction,
            scene="robosuite",
            header={**header, "robosuite": version, "mujoco": mujoco.__version__},
            model_xml=lambda: composed_xml(env, self._task.moved),
            env_args={**env_args, "env_kwargs": kwargs},
            episode_meta={"lang": info.instruction, "seed": seed},
            settle=SETTLE_STEPS,
            arena=self._task.arena,
            cameras=MOVED if len(self._robot.arms) == 1 else MOVED_OF_TWO,
        )


def composed_xml(env: Any, moved: Sequence[str]) -> str:
    """The XML that robosuite composed, with bodies that it moved afterwards where they now stand.

    Not what MuJoCo saves of the compiled model: that does not come back the same (a base drives
    otherwise, a door is harder to close).
    """
    text: str = env.model.get_xml()
    if not moved:
        return text
    root = ET.fromstring(text)
    for body in root.iter("body"):
        if body.get("name") in moved:
            stands = env.sim.model._model.body(body.get("name"))
            body.set("pos", " ".join(repr(float(v)) for v in stands.pos))
            body.set("quat", " ".join(repr(float(v)) for v in stands.quat))
    return ET.tostring(root, encoding="unicode")
