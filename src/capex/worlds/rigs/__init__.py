"""Robots in a room: worlds that a person resets and judges, `rig:FILE:TASK`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from capex.errors import CapexError
from capex.worlds import RIG, Env, TaskInfo


@dataclass(frozen=True)
class RigWorld:
    """One rig file as a world: what `worlds` asks of a world's module."""

    TASKS: dict[str, TaskInfo]

    def make(self, world: str, task: str, **options: Any) -> Env:
        """The rig at one of its tasks; its robot is held from the first reset on."""
        raise CapexError(f"{world}:{task} cannot be opened yet")


def rig_world(world: str) -> RigWorld:
    """The world of a rig file, by rig:FILE."""
    raise CapexError(f"there is no rig file '{world.removeprefix(RIG)}'")
