"""A task of the kitchen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from capex.registry import load
from capex.worlds import TaskInfo
from capex.worlds.kitchen.ground_truth import GroundTruth
from capex.worlds.kitchen.scene import Kitchen
from capex.worlds.kitchen.situation import Draw, Situation

if TYPE_CHECKING:
    from capex.worlds.kitchen.env import KitchenEnv
    from capex.worlds.kitchen.expert.moves import Skill


@dataclass(frozen=True)
class Task:
    """One task: the row that `capex tasks` prints, what a start draws, a success rule read after
    every control step, for a momentary event such as a button's press a latch, and the expert's
    skill.
    """

    info: TaskInfo
    compose: Callable[[Draw, Kitchen], Situation]
    success: Callable[[GroundTruth], bool]
    latch: Callable[[GroundTruth], bool] | None = None
    skill: Skill | None = None


def expert_skill(name: str, **options: Any) -> Skill:
    """A skill of `worlds.kitchen.expert` by "module:function", imported when it first plans."""

    def plan(env: KitchenEnv, decision: int) -> Any:
        return load(f"capex.worlds.kitchen.expert.{name}")(env, decision, **options)

    return plan
