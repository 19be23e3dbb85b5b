"""Starts of a RoboCasa dataset: the world as a person found it, restored from what was recorded.

RoboCasa's own sequence: tell the environment what the episode was made of, reset it (which builds
fixtures and things), give it the recorded model, then the recorded state. Reloading draws again
from the environment's generator what was not recorded (for OpenDrawer the side), so the generator
is seeded with the start, and the instruction is the recorded one. It also draws again where
appliances stand on their counters, while the recorded model has them where they stood: RoboCasa's
Python objects are moved there before a task measures anything from them (where a blender's lid
belongs, where to stand before a toaster). The person's actions are not read here.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import pickle
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from capex.errors import CapexError, ErrorCode
from capex.pose import Array
from capex.worlds import Start
from capex.worlds.robocasa.dataset import RobocasaDataset
from capex.worlds.robocasa.needs import installed
from capex.worlds.robosuite.starts import QUIET, BuiltStart

CAMERAS = {
    "left": "robot0_agentview_left",
    "right": "robot0_agentview_right",
    "wrist": "robot0_eye_in_hand",
}
# People were shown a translucent robot while they collected.
OURS: dict[str, Any] = {**QUIET, "translucent_robot": False}


class RecordedStarts:
    """The starts of the demonstrations in one kitchen."""

    exact = True
    fresh, unrecorded = 0, ""

    def __init__(
        self,
        robosuite: Any,
        dataset: RobocasaDataset,
        layout: int | None,
        style: int | None,
        cameras: dict[str, str] | None = None,
    ):
        self._robosuite, self.dataset, self._cameras = robosuite, dataset, cameras or CAMERAS
        self.episodes = dataset.starts(layout, style)

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.episodes)

    def build(self, start: Start) -> BuiltStart:
        """A new environment from the dataset's own arguments, put into the recorded start."""
        dataset, episode = self.dataset, self.episodes[start.index]
        meta, xml = dataset.meta(episode), dataset.model_xml(episode)
        instruction = meta.get("lang")
        if not isinstance(instruction, str) or not instruction.strip():
            lacks = f"demonstration {episode} of {dataset.path} has no instruction"
            raise CapexError(
                f"{lacks} (lang in ep_meta.json); take another start", code=ErrorCode.NO_DATA
            )
        env = self._make()
        env.rng = np.random.default_rng([start.seed, episode])
        restore(env, meta, xml, dataset.states(episode)[0])
        header = {"dataset": "/".join(dataset.path.parts[-3:]), "demonstration": episode}
        versions = {name: installed(name) or "unknown" for name in ("robocasa", "robosuite")}
        versions["mujoco"] = mujoco.__version__
        return BuiltStart(
            env=env,
            instruction=instruction,
            scene=f"layout {meta.get('layout_id')}, style {meta.get('style_id')}",
            header={**header, "seed": start.seed, **versions},
            model_xml=lambda: xml,
            env_args=dataset.env_args,
            episode_meta=meta,
            cameras=self._cameras,
        )

    def _make(self) -> Any:
        kwargs = copy.deepcopy(self.dataset.env_args["env_kwargs"])
        kwargs.pop("env_name", None)
        ours = {name: value for name, value in OURS.items() if name in kwargs or name in QUIET}
        return self._robosuite.make(self.dataset.env_args["env_name"], **{**kwargs, **ours})


def restore(env: Any, meta: dict[str, Any], xml: str, flat_state: Array) -> None:
    """Put an environment into a recorded moment, as RoboCasa's playback does."""
    env.set_ep_meta(copy.deepcopy(meta))
    keep_places(env, xml)
    with settings_parsed_once():
        env.reset()
    reload(env, env.edit_model_xml(xml), flat_state)


def reload(env: Any, xml: str, flat_state: Array) -> None:
    """Give an environment a model and a state of it."""
    env.reset_from_xml_string(xml)
    env.sim.reset()
    env.sim.set_state_from_flattened(flat_state)
    env.sim.forward()
    env.update_state()
    for controller in env.robots[0].composite_controller.part_controllers.values():
        controller.new_update = True


@contextlib.contextmanager
def settings_parsed_once() -> Iterator[None]:
    """RoboCasa reads the settings of a kind of fixture from YAML for each fixture of that kind,
    135 times a kitchen and most of its time. Here each text is parsed once.
    """
    module: Any = sys.modules.get("robocasa.models.scenes.scene_utils")
    parser = getattr(module, "yaml", None)
    if parser is None or isinstance(parser, _ParsedOnce):
        yield
        return
    module.yaml = _ParsedOnce(parser)
    try:
        yield
    finally:
        module.yaml = parser


@dataclass(frozen=True)
class _ParsedOnce:
    """PyYAML, but for what it has parsed before."""

    parser: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.parser, name)

    def safe_load(self, stream: Any) -> Any:
        """A copy for each reader: RoboCasa writes into what it has read."""
        text = stream.read() if hasattr(stream, "read") else stream
        return pickle.loads(_parsed(self.parser.safe_load, text))


@functools.lru_cache(maxsize=256)
def _parsed(parse: Callable[[str], Any], text: str) -> bytes:
    return pickle.dumps(parse(text))


def keep_places(env: Any, xml: str) -> None:
    """Let the next reset put what RoboCasa places at random where a recorded model has it."""
    look_up = getattr(env, "_setup_kitchen_references", None)
    if look_up is None:
        return
    bodies = {body.get("name"): body for body in ET.fromstring(xml).iter("body")}

    def after_moving() -> None:
        for _, _, fixture in env.fxtr_placements.values():
            body = bodies.get(fixture.root_body)
            if body is not None:
                fixture.set_pos(_numbers(body, "pos"))
                fixture.set_euler([0.0, 0.0, _yaw(body)])
        look_up()

    env._setup_kitchen_references = after_moving


def _yaw(body: ET.Element) -> float:
    """The turn about the vertical of a body in MJCF, written as Euler angles or a quaternion."""
    if body.get("euler") is not None:
        return _numbers(body, "euler")[2]
    if body.get("quat") is None:
        return 0.0
    w, _, _, z = _numbers(body, "quat")
    return float(2.0 * np.arctan2(z, w))


def _numbers(body: ET.Element, attribute: str) -> list[float]:
    return [float(number) for number in body.get(attribute, "0 0 0").split()]
