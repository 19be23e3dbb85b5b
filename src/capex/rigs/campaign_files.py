"""The rig files of a campaign: part of what its records depend on, and copied into its run."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from capex.campaign.world_files import TASKS
from capex.rigs import rig_world
from capex.rigs.rigfile import RigFile
from capex.run.files import write_bytes
from capex.run.manifest import WorldFile

WHAT = "the rig file"
RIG_COPY = "rig.toml"


def rig_of(world: str) -> RigFile:
    """The rig file of a world rig:FILE."""
    return rig_world(world).rig


def contents(tasks: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """What the rig files say of these (world, task), by world and file, so that a changed value can
    be named; those of tasks apart. Other tasks of the rig may change.
    """
    found: dict[str, Any] = {}
    for world in sorted({world for world, _ in tasks}):
        rig = rig_of(world)
        held = {path.name: tomllib.loads(path.read_text("utf-8")) for path in _files(world)}
        named = held[rig.path.name].pop("tasks", None)
        if isinstance(named, str):
            held.pop(Path(named).name, None)
        used = [task for of, task in tasks if of == world]
        found[world] = held | {TASKS: {task: asdict(rig.tasks[task]) for task in used}}
    return found


def texts(worlds: Sequence[str]) -> dict[str, WorldFile]:
    """The rig files as they are written, with a digest, for the manifest."""
    noted = {}
    for world in sorted(set(worlds)):
        files = {path.name: path.read_text("utf-8") for path in _files(world)}
        digest = hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()
        noted[world] = WorldFile(sha256=digest, files=files)
    return noted


def copy(run_dir: Path, worlds: Sequence[str]) -> None:
    """Keep the rig file, and the files of tasks and guard that it names, as they are at the begin
    of a run.
    """
    for world in sorted(set(worlds)):
        for number, path in enumerate(_files(world)):
            kept = run_dir / (RIG_COPY if number == 0 else f"rig-{path.name}")
            if not kept.exists():
                write_bytes(kept, path.read_bytes())


def _files(world: str) -> tuple[Path, ...]:
    rig = rig_of(world)
    return rig.path, *rig.beside
