"""Files that the records of a world depend on: their contents are settings of a run, and the run
keeps copies of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from capex.registry import ROBOT_FILES, load
from capex.run.manifest import WorldFile
from capex.worlds import robot_prefix

KEY = "world_files"  # in a manifest and in its settings
TASKS = "tasks"  # of a world's contents


class WorldFiles(Protocol):
    """The files of one kind of worlds, a module in `registry.ROBOT_FILES`."""

    WHAT: str  # their name in a sentence

    def contents(self, tasks: Sequence[tuple[str, str]]) -> dict[str, Any]:
        """The contents for these (world, task), by world and file, so that a changed value can be
        named; those of tasks under TASKS.
        """

    def texts(self, worlds: Sequence[str]) -> dict[str, WorldFile]:
        """By world, the files as they are written, with a digest."""

    def copy(self, run_dir: Path, worlds: Sequence[str]) -> None:
        """Copy the files into a run."""


def contents(tasks: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The contents of the files of these (world, task); empty for worlds without files."""
    found: dict[str, Any] = {}
    for prefix, files in _files(world for world, _ in tasks):
        found |= files.contents([task for task in tasks if robot_prefix(task[0]) == prefix])
    return found


def texts(worlds: Iterable[str]) -> dict[str, WorldFile]:
    """The files of these worlds as a manifest keeps them."""
    listed, found = list(worlds), dict[str, WorldFile]()
    for prefix, files in _files(listed):
        found |= files.texts([world for world in listed if robot_prefix(world) == prefix])
    return found


def copy(run_dir: Path, worlds: Iterable[str]) -> None:
    """Keep the files of these worlds as they are when the run begins."""
    listed = list(worlds)
    for prefix, files in _files(listed):
        files.copy(run_dir, [world for world in listed if robot_prefix(world) == prefix])


def what(setting: str) -> str:
    """What the files are called whose setting differs, WORLD and then the path within."""
    files: WorldFiles = load(ROBOT_FILES[robot_prefix(setting)])
    return files.WHAT


def extended(before: Mapping[str, Any], added: Mapping[str, Any]) -> dict[str, Any]:
    """The contents that a run has, with those of further worlds and tasks."""
    together: dict[str, Any] = {**added, **before}
    for world, now in added.items():
        together[world] = {**together[world], TASKS: {**now[TASKS], **together[world][TASKS]}}
    return together


def _files(worlds: Iterable[str]) -> list[tuple[str, WorldFiles]]:
    prefixes = {robot_prefix(world) for world in worlds} & ROBOT_FILES.keys()
    return [(prefix, load(ROBOT_FILES[prefix])) for prefix in sorted(prefixes)]
