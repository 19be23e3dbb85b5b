"""Where arrangements may be taken from: a folder of pictures, or another run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Protocol

from capex.errors import CapexError, DamagedFile, ErrorCode
from capex.models import pictures
from capex.operators.arrangements import ARRANGEMENTS, find_arrangement, read_image
from capex.run.reading import load_run
from capex.run.store import find_run
from capex.worlds import Image, Spec

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")


class Scenes(Protocol):
    """Pictures of scenes by start."""

    @property
    def name(self) -> str:
        """Where they come from, as arrangements say it."""

    def starts(self) -> Collection[int]:
        """Those that it has pictures of."""

    def images(self, spec: Spec, start: int) -> Mapping[str, Image]:
        """The scene of a start, by camera of that world."""


def open_scenes(path: Path, task: str) -> Scenes:
    """A run, a folder of pictures or a LeRobot folder; anything else is refused with a sentence."""
    if (path / "manifest.json").is_file():
        return RunScenes(path, task)
    if (path / "meta" / "info.json").is_file():
        from capex.operators.lerobot_scenes import LeRobotScenes  # pyarrow and PyAV take their time

        return LeRobotScenes(path)
    if path.is_dir():
        return FolderScenes(path)
    raise CapexError(
        f"--arrangements: {path} is no folder; give a run, a folder of pictures (0007.png or"
        " 0007/front.png) or a LeRobot folder",
        code=ErrorCode.NOT_FOUND,
    )


class FolderScenes:
    """0007.png for the first exterior camera, or 0007/front.png by camera."""

    def __init__(self, path: Path):
        self.name = str(path)
        self._files: dict[int, dict[str, Path]] = {}
        for entry in sorted(path.iterdir()):
            if entry.is_dir() and entry.name.isdigit():
                files = {p.stem: p for p in sorted(entry.iterdir()) if _is_picture(p)}
                self._files |= {int(entry.name): files} if files else {}
            elif _is_picture(entry) and entry.stem.isdigit():
                self._files.setdefault(int(entry.stem), {"": entry})
        if not self._files:
            raise CapexError(
                f"--arrangements: {path} holds no pictures of starts; name them 0007.png, or"
                " 0007/CAMERA.png",
                code=ErrorCode.WRONG_CONTENT,
            )

    def starts(self) -> Collection[int]:
        """By their file names."""
        return self._files.keys()

    def images(self, spec: Spec, start: int) -> Mapping[str, Image]:
        """Read."""
        read = {camera: read_image(path) for camera, path in self._files[start].items()}
        return by_camera(read, spec, self.name)


class RunScenes:
    """The arrangements of another run at the same task; where it has none, the pictures with which
    its episodes began.
    """

    def __init__(self, path: Path, task: str):
        self.name = str(path)
        self._stored: dict[int, Path] = {}
        for folder in sorted((find_run(path).path / ARRANGEMENTS).glob(f"*--{task}")):
            self._stored |= {int(p.name): folder for p in folder.iterdir() if p.name.isdigit()}
        self._begun: dict[int, dict[str, Path]] = {}
        for episode in load_run(path).episodes:
            if episode.record.task == task:
                kept = episode.path / pictures.IMAGES
                files = {c: pictures.find(kept, sha) for c, sha in episode.record.images.items()}
                self._begun.setdefault(episode.index, files)
        if not self.starts():
            raise CapexError(
                f"--arrangements: {path} has no attempts at {task}", code=ErrorCode.NO_DATA
            )

    def starts(self) -> Collection[int]:
        """Arranged or begun."""
        return {*self._stored, *self._begun}

    def images(self, spec: Spec, start: int) -> Mapping[str, Image]:
        """As stored, or as the first episode at the start began."""
        stored = find_arrangement(self._stored[start], start) if start in self._stored else None
        files = stored.images if stored is not None else self._begun[start]
        exterior = {c.name for c in spec.cameras if c.kind == "exterior"}
        found = {c: p for c, p in files.items() if c in exterior and p.is_file()}
        return by_camera({c: read_image(p) for c, p in found.items()}, spec, self.name)


def by_camera(images: Mapping[str, Image], spec: Spec, source: str) -> dict[str, Image]:
    """Pictures for the exterior cameras of a world. A single one under another name is the first
    camera's.
    """
    exterior = [c.name for c in spec.cameras if c.kind == "exterior"]
    named = {camera: image for camera, image in images.items() if camera in exterior}
    if not named and len(images) == 1 and exterior:
        named = {exterior[0]: next(iter(images.values()))}
    if not named:
        given = ", ".join(sorted(filter(None, images))) or "none"
        raise DamagedFile(
            Path(source),
            f"it has no picture of a camera of {spec.name}; it has {given}, and the cameras that"
            f" stand in the room are {', '.join(exterior)}",
        )
    return named


def _is_picture(path: Path) -> bool:
    return path.is_file() and path.suffix.lower() in SUFFIXES
