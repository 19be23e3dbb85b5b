"""RoboCasa's kitchens: the paper's 18 tasks, from the starts of human demonstrations, through
robosuite's adapter.

`make` takes the dataset's folder and the kitchen; by default the newest target dataset below
RoboCasa's own dataset folder, and the paper's kitchen. `capex doctor --world robocasa` says what is
missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

from capex.errors import CapexError
from capex.pose import Array
from capex.worlds.robocasa.dataset import LAYOUT, STYLE, find_dataset, open_dataset
from capex.worlds.robocasa.expert import plan
from capex.worlds.robocasa.fresh import KitchenSettings, KitchenStarts
from capex.worlds.robocasa.needs import DATASETS_VARIABLE, INSTALL, datasets_base, examine_needs
from capex.worlds.robocasa.restored import RecordedStarts
from capex.worlds.robocasa.tasks import TASKS
from capex.worlds.robosuite.env import SuiteEnv
from capex.worlds.robosuite.packages import import_quietly, import_robosuite
from capex.worlds.robosuite.robots import MOBILE

__all__ = [
    "DATASETS_VARIABLE",
    "TASKS",
    "WORKSPACE_M",
    "examine_needs",
    "follow_human",
    "make",
    "plan",
]

WORKSPACE_M = ((-0.30, -0.85, -0.70), (0.95, 0.85, 1.20))


def make(
    world: str,
    task: str,
    *,
    dataset: str | Path | None = None,
    layout: int | None = LAYOUT,
    style: int | None = STYLE,
    objects: Literal["target", "pretrain", "all"] = "target",
    clutter: bool = True,
    generated_textures: bool = False,
    random_cameras: bool = False,
    horizon: int | None = None,
    stepping: str = "fast",
    shadows: bool = False,
) -> SuiteEnv:
    """The environment of a task. `dataset` is a folder named lerobot, `layout` and `style` choose
    the kitchen (None: any); `objects`, `clutter`, `generated_textures` and `random_cameras` are
    those of fresh starts. Without a dataset there are only fresh ones.
    """
    robosuite = import_robosuite()
    import_quietly("robocasa", INSTALL)
    settings = KitchenSettings(layout, style, objects, clutter, generated_textures, random_cameras)
    recorded: RecordedStarts | CapexError
    if dataset is not None:
        recorded = RecordedStarts(robosuite, open_dataset(Path(dataset)), layout, style)
    else:
        try:
            found = find_dataset(datasets_base(), task)
            recorded = RecordedStarts(robosuite, found, layout, style)
        except CapexError as error:
            recorded = error
    starts = KitchenStarts(robosuite, task, settings, recorded)
    info = TASKS[task] if horizon is None else replace(TASKS[task], horizon=horizon)
    drawing = {"shadows": shadows, "sites": True}
    return SuiteEnv(world, info, MOBILE, starts, WORKSPACE_M, stepping=stepping, **drawing)


def follow_human(env: SuiteEnv, index: int) -> Iterator[Array]:
    """What the person of a start did. The only way to it: no environment and no prompt reads it."""
    from capex.worlds.robocasa.human import follow, human_of

    return follow(env, human_of(env, index))
