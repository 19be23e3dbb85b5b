"""Robots in a room: worlds that a person resets and judges, `rig:FILE:TASK`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capex import trust
from capex.errors import CapexError, ErrorCode
from capex.rigs.parse import PACKAGED, find_rig, read_rig
from capex.rigs.rigfile import RigFile
from capex.worlds import Env, Need, Planner, TaskInfo

RIG = "rig:"  # a world of one rig: then the path of a rig file, or the name of one in the package


@dataclass(frozen=True)
class RigWorld:
    """One rig file as a world: what `worlds` asks of a world's module."""

    rig: RigFile
    TASKS: dict[str, TaskInfo]

    def make(self, world: str, task: str, **options: Any) -> Env:
        """The rig at one of its tasks; its robot is held from the first reset on."""
        from capex.rigs.env import RigFileEnv

        if options:
            raise CapexError(
                f"{world}:{task} has no option '{next(iter(options))}'; it has none",
                code=ErrorCode.UNKNOWN_NAME,
            )
        return RigFileEnv(world, self.rig, task)

    @property
    def plan(self) -> Planner:
        """The expert of a rig with a simulated room whose scene has one; of no other, so that no
        other rig has this attribute.
        """
        from capex.rigs.twins.scenes import load_scene, scene_name

        scene = load_scene(scene_name(self.rig.room)) if self.rig.room else None
        if scene is None or not self.TASKS.keys() <= scene.expert.keys():
            raise AttributeError(f"the rig '{self.rig.name}' has no expert")
        from capex.rigs.twins.expert import plan

        return plan

    def examine_needs(self) -> list[Need]:
        """What can be said of a rig without touching it: its file is right."""
        arms, cameras = len(self.rig.arms), len(self.rig.cameras)
        found = f"{self.rig.path} is right: arms {arms}, cameras {cameras}"
        return [Need("", True, f"{found}, tasks {', '.join(self.rig.tasks)}; nothing was touched")]


_WORLDS: dict[tuple[tuple[str, int], ...], RigWorld] = {}  # by files and when they last changed
_BESIDE: dict[str, tuple[Path, ...]] = {}  # the files that a rig file named when it was read


def rig_world(world: str) -> RigWorld:
    """The world of a rig file, by rig:FILE; read again when one of its files has changed. A file
    that is not part of the package must have been permitted: it names programs and modules.
    """
    path = find_rig(world.removeprefix(RIG)).resolve()
    if path.parent != PACKAGED.resolve():
        trust.require_file(path, "rig file", "--rig")
    key = _stamps(path)
    if key not in _WORLDS:
        rig = read_rig(path)
        _BESIDE[str(path)] = rig.beside
        _WORLDS[_stamps(path)] = RigWorld(rig, {name: _info(rig, name) for name in rig.tasks})
        key = _stamps(path)
    return _WORLDS[key]


def _stamps(path: Path) -> tuple[tuple[str, int], ...]:
    files = (path, *_BESIDE.get(str(path), ()))
    return tuple((str(f), f.stat().st_mtime_ns if f.is_file() else 0) for f in files)


def _info(rig: RigFile, name: str) -> TaskInfo:
    task = rig.tasks[name]
    return TaskInfo(name, rig.name, task.steps, task.instruction, task.success, task.rules)
