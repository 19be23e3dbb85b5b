"""Files that hold a camera's recorded frames: one video, or a folder of JPEG images."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
from PIL import Image as Picture

from capex.errors import CapexError, DamagedFile, ErrorCode
from capex.worlds import Image

if TYPE_CHECKING:
    from capex.worlds.video import Segment

Form = Literal["video", "images"]
JPEG_QUALITY = 95
CAMERAS_JSON, INDEX = "cameras.json", "index.npz"  # of a recording: its cameras; frames by state


class FrameFile(Protocol):
    """Where the frames of one camera go."""

    def add(self, image: Image) -> None:
        """Write the next frame."""

    def close(self) -> None:
        """Everything that was added is on disk when this returns."""


def file_name(camera: str, form: Form) -> str:
    """The file of a video or the folder of images, within a recording."""
    return f"{camera}.mp4" if form == "video" else camera


def open_file(path: Path, form: Form, size: tuple[int, int], hz: float) -> FrameFile:
    """A new video, or a new folder for images."""
    if form == "images":
        return JpegFolder(path)
    if size[0] % 2 or size[1] % 2:
        raise CapexError(
            f"{path.stem} has pictures of {size[0]}x{size[1]}; video needs an even width and"
            ' height: write frames = "images" in the file of the robot',
            code=ErrorCode.BAD_SETTING,
        )
    return VideoFile(path, size, hz)


class VideoFile:
    """An h264 video at the rate of the control ticks; device times lie beside it."""

    def __init__(self, path: Path, size: tuple[int, int], hz: float):
        self._path, self._size, self._fps = path, size, max(1, round(hz))
        self._segment: Segment | None = None

    def add(self, image: Image) -> None:
        """Encode the next frame."""
        if self._segment is None:
            from capex.worlds.video import RECORDING, Segment  # brings PyAV

            self._segment = Segment(self._path, self._size, self._fps, RECORDING)
        self._segment.add(image)

    def close(self) -> None:
        """Finish the file and flush it; without a frame there is none."""
        if self._segment is not None:
            self._segment.close()
            flush(self._path)


class JpegFolder:
    """000000.jpg and so on."""

    def __init__(self, path: Path):
        self._path, self._count = path, 0
        path.mkdir()

    def add(self, image: Image) -> None:
        """Encode the next frame."""
        path = self._path / image_name(self._count)
        Picture.fromarray(image).save(path, "JPEG", quality=JPEG_QUALITY, subsampling=0)
        self._count += 1

    def close(self) -> None:
        """Flush every image: the system wrote most of them long ago."""
        for number in range(self._count):
            flush(self._path / image_name(number))
        flush(self._path)


def image_name(number: int) -> str:
    """The name of a stored image."""
    return f"{number:06d}.jpg"


def count_stored(path: Path) -> int:
    """How many frames a file holds whose writer was killed."""
    if path.is_dir():
        return len(list(path.glob("*.jpg")))
    from capex.worlds.video import decode

    count = 0
    with contextlib.suppress(DamagedFile):
        for _ in decode(path):
            count += 1
    return count


def flush(path: Path) -> None:
    """Make a file, or the names in a folder, durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def scaled(image: Image, size: tuple[int, int] | None) -> Image:
    """A picture at another size (width, height); None: its own."""
    if size is None or size == (image.shape[1], image.shape[0]):
        return image
    return np.asarray(Picture.fromarray(image).resize(size, Picture.Resampling.LANCZOS))
