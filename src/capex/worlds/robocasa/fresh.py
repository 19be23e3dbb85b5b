"""Starts that RoboCasa draws anew, for students: the paper's kitchen with held-out objects.

The settings are named here with the paper's values: layout and style 7, objects of the target split
(the instances that no pretraining saw), the clutter with which the target demonstrations were
recorded, RoboCasa's own textures, cameras where they stand. A start is a seed and a number: the
same two give the same kitchen in any process. What was drawn is loaded once more from its model and
state, as RoboCasa's recorder does, so that its tools repeat an exported episode.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

import mujoco
import numpy as np

from capex.errors import CapexError, ErrorCode
from capex.worlds import FRESH, Start
from capex.worlds.robocasa.dataset import LAYOUT, STYLE
from capex.worlds.robocasa.restored import CAMERAS, RecordedStarts, reload, settings_parsed_once
from capex.worlds.robosuite.robots import MOBILE
from capex.worlds.robosuite.starts import CONTROL_HZ, QUIET, ROBOMIMIC_ROBOSUITE, BuiltStart

COUNT = 10_000
# Keeps a fresh start's generator apart from that of a recorded start of the same number.
_SALT = 365


@dataclass(frozen=True)
class KitchenSettings:
    """How fresh kitchens are drawn; the defaults are the paper's."""

    layout: int | None = LAYOUT  # None: any of RoboCasa's
    style: int | None = STYLE
    objects: Literal["target", "pretrain", "all"] = "target"
    clutter: bool = True
    generated_textures: bool = False
    random_cameras: bool = False

    def kitchen_kwargs(self, kitchen: Any) -> dict[str, Any]:
        """Arguments of RoboCasa's Kitchen, as this version names them; one that it does not know
        may only have the value that changes nothing.
        """
        known = inspect.signature(kitchen.__init__).parameters
        split = None if self.objects == "all" else self.objects
        wanted: dict[str, tuple[Any, Any]] = {  # name -> (value, the one that means "without")
            "layout_ids": (_listed(self.layout), None),
            "style_ids": (_listed(self.style), None),
            "obj_instance_split": (split, None),
            "clutter_mode": (int(self.clutter), 0),
            "generative_textures": ("100p" if self.generated_textures else None, None),
            "randomize_cameras": (self.random_cameras, False),
        }
        for name, (value, without) in wanted.items():
            if name not in known and value != without:
                lacks = f"this version of RoboCasa has no setting {name}, which was to be {value}"
                raise CapexError(
                    f"{lacks}; install RoboCasa 1.0.1: capex doctor --world robocasa",
                    code=ErrorCode.MISSING_PACKAGE,
                )
        return {name: value for name, (value, _) in wanted.items() if name in known}


class KitchenStarts:
    """Recorded starts, where there is a dataset, and fresh ones."""

    exact = True
    fresh = COUNT

    def __init__(
        self,
        robosuite: Any,
        task: str,
        settings: KitchenSettings,
        recorded: RecordedStarts | CapexError,
    ):
        self._robosuite, self._task, self._settings = robosuite, task, settings
        self._recorded = recorded

    @property
    def recorded(self) -> RecordedStarts:
        """The recorded starts, or the reason why there are none."""
        if isinstance(self._recorded, CapexError):
            raise self._recorded
        return self._recorded

    @property
    def count(self) -> int:
        """How many are recorded."""
        return 0 if isinstance(self._recorded, CapexError) else self._recorded.count

    @property
    def unrecorded(self) -> str:
        """Why no start is recorded; empty where some are."""
        return str(self._recorded) if isinstance(self._recorded, CapexError) else ""

    def build(self, start: Start) -> BuiltStart:
        """A recorded start, restored, or one drawn anew."""
        return self.recorded.build(start) if start.index < FRESH else self._draw(start)

    def _draw(self, start: Start) -> BuiltStart:
        robocasa = import_module("robocasa")
        kitchen = import_module("robocasa.environments.kitchen.kitchen").Kitchen
        kwargs = {
            "robots": MOBILE.name,
            "controller_configs": MOBILE.controllers(self._robosuite),
            "control_freq": CONTROL_HZ,
            "translucent_robot": False,
            **self._settings.kitchen_kwargs(kitchen),
        }
        seed = [_SALT, start.seed, start.index - FRESH]
        # Robosuite writes into what it is given.
        env = self._robosuite.make(self._task, seed=seed, **{**copy.deepcopy(kwargs), **QUIET})
        with _numpy_seeded(seed), _counters_in_order(), settings_parsed_once():
            env.reset()
        xml, meta = env.model.get_xml(), env.get_ep_meta()
        env.set_ep_meta(copy.deepcopy(meta))
        reload(env, xml, env.sim.get_state().flatten())
        versions = {"robocasa": robocasa.__version__, "robosuite": self._robosuite.__version__}
        versions["mujoco"] = mujoco.__version__
        env_args = {"env_name": self._task, "type": ROBOMIMIC_ROBOSUITE, "env_kwargs": kwargs}
        return BuiltStart(
            env=env,
            instruction=str(meta["lang"]),
            scene=f"layout {meta['layout_id']}, style {meta['style_id']}",
            header={"fresh": start.index - FRESH, "seed": start.seed, **versions},
            model_xml=lambda: xml,
            env_args={**env_args, "env_version": robocasa.__version__},
            episode_meta=meta,
            cameras=CAMERAS,
        )


@contextlib.contextmanager
def _numpy_seeded(seed: list[int]) -> Iterator[None]:
    """RoboCasa draws a few things (noise of cameras, colours) from numpy's global generator."""
    before = np.random.get_state()
    np.random.seed(seed)
    try:
        yield
    finally:
        np.random.set_state(before)


@contextlib.contextmanager
def _counters_in_order() -> Iterator[None]:
    """RoboCasa offers the places on a counter in the order of a set, which another process has
    otherwise; here they come by where they are.
    """
    module = sys.modules.get("robocasa.models.fixtures.counter")
    if module is None:
        yield
        return
    offered = module.Counter.get_reset_regions

    def in_order(counter: Any, *told: Any, **more: Any) -> dict[str, Any]:
        regions = offered(counter, *told, **more).items()
        return dict(sorted(regions, key=lambda region: [float(v) for v in region[1]["offset"]]))

    module.Counter.get_reset_regions = in_order
    try:
        yield
    finally:
        module.Counter.get_reset_regions = offered


def _listed(number: int | None) -> list[int] | None:
    return None if number is None else [number]
