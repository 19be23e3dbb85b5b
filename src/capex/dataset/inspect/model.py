"""What `capex dataset` knows of a dataset, whatever its format: what its metadata claims, its
frames episode by episode, and what was found wrong with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy.typing as npt

from capex.dataset.statistics import Stats

Kind = Literal["number", "picture", "depth", "other"]
Numbers = npt.NDArray[Any]  # (frames, width), in the type in which they are stored
Severity = Literal["failed", "warning"]


@dataclass(frozen=True)
class DatasetFeature:
    """One column, or one camera, as the metadata declares it."""

    kind: Kind
    dtype: str
    shape: tuple[int, ...]
    names: tuple[str, ...] = ()
    stored_as: Literal["cells", "video"] = "cells"

    @property
    def width(self) -> int:
        """Numbers per frame."""
        size = 1
        for length in self.shape:
            size *= length
        return size

    @property
    def size(self) -> tuple[int, int] | None:
        """Width and height of a picture: channels come first or last."""
        if len(self.shape) != 3:
            return None
        first = self.shape[0] in (1, 3) and self.shape[2] not in (1, 3)
        height, width = self.shape[1:] if first else self.shape[:2]
        return width, height


@dataclass(frozen=True)
class Entry:
    """One episode as the metadata has it."""

    index: int
    name: str  # "episode 3", "demo_3"
    length: int
    file: str  # which file holds its frames, from the dataset's folder
    tasks: tuple[str, ...] = ()
    first: int | None = None  # dataset_from_index
    stats: Mapping[str, Stats] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)  # of ours: capex.dataset.provenance


@dataclass(frozen=True)
class FrameShot:
    """One picture: its pixels (height, width, channels), or why there are none."""

    pixels: npt.NDArray[Any] | None
    wrong: str = ""
    off_s: float = 0.0  # how far from its due time it stands in a video


@dataclass(frozen=True)
class Frames:
    """The frames of one episode as its files hold them; pictures are decoded as they are taken."""

    index: int
    file: str
    length: int
    numbers: Mapping[str, Numbers]
    pictures: Mapping[str, Iterator[FrameShot]]


FINDINGS_MOST = 10_000  # of one rule; nobody reads more


class Findings:
    """What is wrong, by rule, in sentences."""

    def __init__(self) -> None:
        self.rows: dict[str, list[tuple[Severity, str]]] = {}

    def add(self, rule: str, sentence: str, severity: Severity = "failed") -> None:
        """Note something; the same sentence is noted once."""
        rows = self.rows.setdefault(rule, [])
        if (severity, sentence) not in rows[-50:] and len(rows) < FINDINGS_MOST:
            rows.append((severity, sentence))

    def warn(self, rule: str, sentence: str) -> None:
        """Note something that a user should know and that is not wrong."""
        self.add(rule, sentence, "warning")


@dataclass(frozen=True)
class Claims:
    """What the metadata says about the whole dataset."""

    format: str  # "LeRobot v3.0"
    fps: float | None
    totals: Mapping[str, int]  # of "episodes", "frames" and "tasks", as far as they are stated
    features: Mapping[str, DatasetFeature]
    stats: Mapping[str, Stats]
    task_texts: tuple[str, ...]
    ours: bool  # capex wrote it: it has provenance, and statistics over every frame


class Dataset(Protocol):
    """An opened dataset. Whatever is wrong with its files goes to the findings it was opened
    with.
    """

    @property
    def path(self) -> Path: ...

    @property
    def claims(self) -> Claims: ...

    @property
    def entries(self) -> tuple[Entry, ...]: ...

    @property
    def files(self) -> int:
        """How many files hold it."""

    def frames(self) -> Iterator[Frames]:
        """Every episode in the order of the files. Pictures must be taken before the next one."""

    def finish(self) -> None:
        """Checks of the format's own, after the last frame."""
