"""A RoboCasa dataset on disk: how its environment was made, and the beginnings of its human
demonstrations.

    meta/modality.json                   what the numbers of `action` are, in the dataset's order
    data/chunk-*/episode_000007.parquet  what the person did: read by `human` alone
    extras/dataset_meta.json             env_args: the environment's name and arguments
    extras/episode_000007/               ep_meta.json (kitchen, things, instruction),
                                         model.xml.gz, states.npz (one row before each action)

The environment is made from `env_args`, not from a split's defaults: the target split was recorded
with clutter that those leave out.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from capex.errors import CapexError, ErrorCode
from capex.pose import Array

LAYOUT, STYLE = 7, 7  # the paper's kitchen
AGAIN = "download the dataset again"
DOWNLOAD = "python -m robocasa.scripts.download_datasets"


@dataclass(frozen=True)
class RobocasaDataset:
    """One dataset folder, in RoboCasa's LeRobot layout."""

    path: Path

    @cached_property
    def env_args(self) -> dict[str, Any]:
        """env_name, env_kwargs, type and versions."""
        file = self.path / "extras" / "dataset_meta.json"
        args = _read(file).get("env_args")
        args = args if isinstance(args, dict) else {}
        if isinstance(args.get("env_name"), str) and isinstance(args.get("env_kwargs"), dict):
            return args
        raise CapexError(
            f"{file} has no env_args with env_name and env_kwargs; {AGAIN}",
            code=ErrorCode.DAMAGED_FILE,
        )

    @cached_property
    def action_order(self) -> dict[str, tuple[int, int]]:
        """Where each named part of an action stands in the dataset's own order."""
        file = self.path / "meta" / "modality.json"
        parts = _read(file).get("action")
        if not isinstance(parts, dict):
            raise CapexError(f"{file} names no action; {AGAIN}", code=ErrorCode.DAMAGED_FILE)
        return {name: (int(part["start"]), int(part["end"])) for name, part in parts.items()}

    @cached_property
    def episodes(self) -> tuple[int, ...]:
        """The numbers of its demonstrations, in order."""
        folders = [p.name for p in (self.path / "extras").glob("episode_*") if p.is_dir()]
        return tuple(sorted(int(name.removeprefix("episode_")) for name in folders))

    def meta(self, episode: int) -> dict[str, Any]:
        """What RoboCasa needs to build the kitchen again, and the instruction under "lang"."""
        return _read(self._folder(episode) / "ep_meta.json")

    def model_xml(self, episode: int) -> str:
        """The model as it was recorded."""
        file = self._folder(episode) / "model.xml.gz"
        try:
            return gzip.decompress(file.read_bytes()).decode("utf-8")
        except (EOFError, gzip.BadGzipFile, UnicodeDecodeError) as error:
            raise CapexError(
                f"{file} is damaged ({error}); {AGAIN}", code=ErrorCode.DAMAGED_FILE
            ) from None

    def states(self, episode: int) -> Array:
        """Flat states (time, positions, velocities), one row before each action."""
        file = self._folder(episode) / "states.npz"
        try:
            with np.load(file, allow_pickle=False) as archive:
                states = np.asarray(archive["states"], dtype=np.float64)
        except (ValueError, KeyError, EOFError) as error:
            raise CapexError(
                f"{file} is damaged ({error}); {AGAIN}", code=ErrorCode.DAMAGED_FILE
            ) from None
        if states.ndim != 2 or not len(states):
            shape = f"{file} holds states of shape {states.shape}"
            raise CapexError(
                f"{shape}; rows of flat states are needed", code=ErrorCode.DAMAGED_FILE
            )
        return states

    def starts(self, layout: int | None, style: int | None) -> tuple[int, ...]:
        """The demonstrations in one kitchen, in order: start N is the Nth. None takes any."""
        kitchen = {"layout_id": layout, "style_id": style}
        asked = [(key, number) for key, number in kitchen.items() if number is not None]
        episodes = [n for n in self.episodes if all(self.meta(n).get(k) == v for k, v in asked)]
        if not episodes:
            none = f"none in layout {layout} with style {style}"
            raise CapexError(
                f"{self.path} holds {len(self.episodes)} demonstrations, {none}",
                code=ErrorCode.NO_DATA,
            )
        return tuple(episodes)

    def _folder(self, episode: int) -> Path:
        return self.path / "extras" / f"episode_{episode:06d}"


def open_dataset(path: Path) -> RobocasaDataset:
    """The dataset in a folder, or in the folder `lerobot` inside it."""
    for folder in (path, path / "lerobot"):
        if (folder / "extras" / "dataset_meta.json").is_file():
            return RobocasaDataset(folder)
    lacks = f"{path} is no RoboCasa dataset: it has no extras/dataset_meta.json"
    raise CapexError(f"{lacks}; give the folder named lerobot", code=ErrorCode.NOT_FOUND)


def find_dataset(base: Path, task: str) -> RobocasaDataset:
    """The newest target dataset of a task below RoboCasa's dataset folder."""
    folders = sorted((base / "v1.0" / "target" / "atomic" / task).glob("*/lerobot"))
    if not folders:
        line = f"{DOWNLOAD} --tasks {task} --split target --source human"
        raise CapexError(
            f"there is no dataset of {task} below {base}; download it: {line}",
            code=ErrorCode.NOT_FOUND,
        )
    return open_dataset(folders[-1])


def _read(path: Path) -> dict[str, Any]:
    try:
        loaded = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CapexError(
            f"{path} is damaged ({error}); {AGAIN}", code=ErrorCode.DAMAGED_FILE
        ) from None
    except FileNotFoundError:
        raise CapexError(f"{path} is missing; {AGAIN}", code=ErrorCode.DAMAGED_FILE) from None
    if not isinstance(loaded, dict):
        raise CapexError(
            f"{path} is damaged: it holds no JSON object; {AGAIN}", code=ErrorCode.DAMAGED_FILE
        )
    return loaded
