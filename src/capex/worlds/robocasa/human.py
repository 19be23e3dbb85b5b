"""What a person did from a start: the pair of a demonstration collected from the same one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.parquet as parquet

from capex.errors import CapexError, ErrorCode
from capex.pose import Array
from capex.worlds.robocasa.dataset import AGAIN, RobocasaDataset
from capex.worlds.robocasa.fresh import KitchenStarts
from capex.worlds.robocasa.order import to_environment
from capex.worlds.robocasa.restored import RecordedStarts
from capex.worlds.robosuite.env import SuiteEnv


@dataclass(frozen=True)
class HumanEpisode:
    """A recorded demonstration: T actions in the environment's order, a flat state before each."""

    episode: int
    actions: Array
    states: Array
    meta: dict[str, Any]


def read_human(dataset: RobocasaDataset, episode: int) -> HumanEpisode:
    """A demonstration of a dataset; actions and states must be equally many."""
    files = sorted(dataset.path.glob(f"data/*/episode_{episode:06d}.parquet"))
    if not files:
        raise CapexError(
            f"{dataset.path} has no data/*/episode_{episode:06d}.parquet; {AGAIN}",
            code=ErrorCode.DAMAGED_FILE,
        )
    column = parquet.read_table(files[0], columns=["action"]).column("action").to_pylist()
    actions = to_environment(np.array(column, dtype=np.float64), dataset.action_order)
    states = dataset.states(episode)
    if len(actions) != len(states):
        raise CapexError(
            f"demonstration {episode} of {dataset.path} has {len(actions)} actions and"
            f" {len(states)} states; they must be as many",
            code=ErrorCode.DAMAGED_FILE,
        )
    return HumanEpisode(episode, actions, states, dataset.meta(episode))


def human_of(env: SuiteEnv, index: int) -> HumanEpisode:
    """What the person did from a start of an environment."""
    source = env.start_source
    starts = source.recorded if isinstance(source, KitchenStarts) else source
    assert isinstance(starts, RecordedStarts)
    if not 0 <= index < starts.count:
        none = f"nobody demonstrated start {index} of {env.spec.name}"
        raise CapexError(
            f"{none}; recorded are 0 to {starts.count - 1}", code=ErrorCode.UNKNOWN_START
        )
    return read_human(starts.dataset, starts.episodes[index])


def follow(env: SuiteEnv, human: HumanEpisode) -> Iterator[Array]:
    """Show, in an environment at the start, the state after each action; yields that action.

    Nothing is simulated but the last action, whose end was not recorded: open-loop replay of
    recorded actions drifts.
    """
    for action, after in zip(human.actions, human.states[1:], strict=False):
        env.show(after)
        yield action
    env.apply(np.clip(human.actions[-1], -1.0, 1.0))
    yield human.actions[-1]
