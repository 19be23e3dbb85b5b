"""The first frames of a LeRobot folder's episodes, as scenes that a rig's starts are matched to."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np

from capex.dataset.inspect.model import Findings
from capex.dataset.inspect.opening import open_dataset
from capex.errors import DamagedFile
from capex.operators.scenes import by_camera
from capex.worlds import Image, Spec

PICTURES = "observation.images."


class LeRobotScenes:
    """Start N is how episode N began, whoever demonstrated it."""

    def __init__(self, path: Path):
        self.name = str(path)
        self._path = path
        self._starts = [entry.index for entry in open_dataset(path, Findings()).entries]
        self._first: dict[int, dict[str, Image]] | None = None

    def starts(self) -> Collection[int]:
        """The episodes of the dataset."""
        return self._starts

    def images(self, spec: Spec, start: int) -> Mapping[str, Image]:
        """The first frame of an episode; all of them are read at the first call."""
        if self._first is None:
            self._first = _first_frames(self._path)
        if start not in self._first:
            raise DamagedFile(self._path, f"episode {start} has no picture that can be read")
        return by_camera(self._first[start], spec, self.name)


def _first_frames(path: Path) -> dict[int, dict[str, Image]]:
    dataset = open_dataset(path, Findings())
    colour = {key for key, feature in dataset.claims.features.items() if feature.kind == "picture"}
    first: dict[int, dict[str, Image]] = {}
    for frames in dataset.frames():
        for key in colour & frames.pictures.keys():
            shot = next(frames.pictures[key], None)
            if shot is not None and shot.pixels is not None:
                camera = key.removeprefix(PICTURES)
                first.setdefault(frames.index, {})[camera] = np.asarray(shot.pixels, np.uint8)
    return first
