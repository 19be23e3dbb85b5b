"""The rig files of a campaign: part of what its records depend on, and copied into its run."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from capex.campaign.manifest import RIG_TASKS
from capex.rigs.rigfile import RigFile
from capex.run.files import write_bytes
from capex.run.manifest import RigText
from capex.worlds import RIG

RIG_COPY = "rig.toml"


def rig_of(world: str) -> RigFile:
    """The rig file of a world rig:FILE."""
    from capex import rigs  # here: most campaigns have no rig

    return rigs.rig_world(world).rig


def rig_contents(tasks: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """What the rig files say of these (world, task), by world and file, so that a changed value can
    be named; empty without a rig. Other tasks of the rig may change.
    """
    contents: dict[str, Any] = {}
    for world in _rigs(world for world, _ in tasks):
        rig = rig_of(world)
        held = {path.name: tomllib.loads(path.read_text("utf-8")) for path in _files(world)}
        named = held[rig.path.name].pop("tasks", None)
        if isinstance(named, str):
            held.pop(Path(named).name, None)
        used = [task for of, task in tasks if of == world]
        contents[world] = held | {RIG_TASKS: {task: asdict(rig.tasks[task]) for task in used}}
    return contents


def rig_texts(worlds: Iterable[str]) -> dict[str, RigText]:
    """The rig files as they are written, with a digest, for the manifest."""
    noted = {}
    for world in _rigs(worlds):
        texts = {path.name: path.read_text("utf-8") for path in _files(world)}
        digest = hashlib.sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest()
        noted[world] = RigText(sha256=digest, files=texts)
    return noted


def copy_rigs(run_dir: Path, worlds: Iterable[str]) -> None:
    """Keep the rig file, and the files of tasks and guard that it names, as they are at the begin
    of a run.
    """
    for world in _rigs(worlds):
        for number, path in enumerate(_files(world)):
            copy = run_dir / (RIG_COPY if number == 0 else f"rig-{path.name}")
            if not copy.exists():
                write_bytes(copy, path.read_bytes())


def _rigs(worlds: Iterable[str]) -> list[str]:
    return sorted({world for world in worlds if world.startswith(RIG)})


def _files(world: str) -> tuple[Path, ...]:
    rig = rig_of(world)
    return rig.path, *rig.beside
