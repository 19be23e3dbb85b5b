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

from capex.errors import CapexError
from capex.pose import Array

LAYOUT, STYLE = 7, 7  # the paper's kitchen


@dataclass(frozen=True)
class Dataset:
    """One dataset folder, in RoboCasa's LeRobot layout."""

    path: Path

    @cached_property
    def env_args(self) -> dict[str, Any]:
        """env_name, env_kwargs, type and versions."""
        args = _read(self.path / "extras" / "dataset_meta.json").get("env_args")
        if (
            not isinstance(args, dict)
            or not isinstance(args.get("env_name"), str)
            or not isinstance(args.get("env_kwargs"), dict)
        ):
            raise CapexError(
                f"{self.path}/extras/dataset_meta.json has no env_args with env_name and"
                " env_kwargs; download the dataset again"
            )
        return args

    @cached_property
    def action_order(self) -> dict[str, tuple[int, int]]:
        """Where each named part of an action stands in the dataset's own order."""
        parts = _read(self.path / "meta" / "modality.json").get("action")
        if not isinstance(parts, dict):
            raise CapexError(
                f"{self.path}/meta/modality.json names no action; download the dataset again"
            )
        return {name: (int(part["start"]), int(part["end"])) for name, part in parts.items()}

    @cached_property
    def episodes(self) -> tuple[int, ...]:
        """The numbers of its demonstrations, in order."""
        return tuple(
            sorted(
                int(p.name.removeprefix("episode_"))
                for p in (self.path / "extras").glob("episode_*")
                if p.is_dir()
            )
        )

    def meta(self, episode: int) -> dict[str, Any]:
        """What RoboCasa needs to build the kitchen again, and the instruction under "lang"."""
        return _read(self._folder(episode) / "ep_meta.json")

    def model_xml(self, episode: int) -> str:
        """The model as it was recorded."""
        place = self._folder(episode) / "model.xml.gz"
        try:
            return gzip.decompress(place.read_bytes()).decode("utf-8")
        except (EOFError, gzip.BadGzipFile, UnicodeDecodeError) as error:
            raise CapexError(f"{place} is damaged ({error}); download the dataset again") from None

    def states(self, episode: int) -> Array:
        """Flat states (time, positions, velocities), one row before each action."""
        place = self._folder(episode) / "states.npz"
        try:
            with np.load(place, allow_pickle=False) as archive:
                states = np.asarray(archive["states"], dtype=np.float64)
        except (ValueError, KeyError, EOFError) as error:
            raise CapexError(f"{place} is damaged ({error}); download the dataset again") from None
        if states.ndim != 2 or not len(states):
            raise CapexError(
                f"{place} holds states of shape {states.shape}; rows of flat states are needed"
            )
        return states

    def starts(self, layout: int | None, style: int | None) -> tuple[int, ...]:
        """The demonstrations in one kitchen, in order: start N is the Nth of them. None takes any
        layout or style.
        """
        wanted = {"layout_id": layout, "style_id": style}
        found = tuple(
            n
            for n in self.episodes
            if all(want is None or self.meta(n).get(key) == want for key, want in wanted.items())
        )
        if not found:
            raise CapexError(
                f"{self.path} holds {len(self.episodes)} demonstrations, none in layout {layout}"
                f" with style {style}"
            )
        return found

    def _folder(self, episode: int) -> Path:
        return self.path / "extras" / f"episode_{episode:06d}"


def open_dataset(path: Path) -> Dataset:
    """The dataset in a folder, or in the folder `lerobot` inside it."""
    for place in (path, path / "lerobot"):
        if (place / "extras" / "dataset_meta.json").is_file():
            return Dataset(place)
    raise CapexError(
        f"{path} is no RoboCasa dataset: it has no extras/dataset_meta.json; give the folder named"
        " lerobot"
    )


def find_dataset(base: Path, task: str) -> Dataset:
    """The newest target dataset of a task below RoboCasa's dataset folder."""
    places = sorted((base / "v1.0" / "target" / "atomic" / task).glob("*/lerobot"))
    if not places:
        line = (
            f"python -m robocasa.scripts.download_datasets --tasks {task} --split target --source"
            " human"
        )
        raise CapexError(f"there is no dataset of {task} below {base}; download it: {line}")
    return open_dataset(places[-1])


def _read(path: Path) -> dict[str, Any]:
    try:
        loaded = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CapexError(f"{path} is damaged ({error}); download the dataset again") from None
    except FileNotFoundError:
        raise CapexError(f"{path} is missing; download the dataset again") from None
    if not isinstance(loaded, dict):
        raise CapexError(f"{path} is damaged: it holds no JSON object; download the dataset again")
    return loaded
