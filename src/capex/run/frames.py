"""Recorded frames of an episode: EPISODE/frames, written while the robot moves.

State t, of T+1, is what the robot showed before action t; each camera has a stored frame for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from capex.errors import DamagedFile, UnknownName
from capex.pose import Array, Pose, rotation_matrix
from capex.run.steps import read_arrays
from capex.run.store import FRAMES as FRAMES
from capex.untrusted import picture, read_bytes, read_json, require_pixels, require_plain, within
from capex.worlds import Image
from capex.worlds.frame_files import CAMERAS_JSON, INDEX, image_name, scaled


@dataclass(frozen=True)
class RecordedCamera:
    """One camera of a recording, as cameras.json tells."""

    name: str
    size: tuple[int, int]
    form: Literal["video", "images"]
    file: str
    count: int
    hz: float
    kind: Literal["exterior", "wrist"]
    arm: str
    view: str
    repeated: int  # states that show the same frame as the one before
    missed: int  # frames that the device skipped
    intrinsics: Array | None
    extrinsics: Pose | None  # in the base frame, of a wrist camera in that of its tip


def has_frames(episode: Path) -> bool:
    """Whether an episode's pictures were recorded."""
    return (episode / FRAMES).is_dir()


class RecordedFrames:
    """The pictures of an episode. DamagedFile where something is missing or does not fit."""

    def __init__(self, episode: Path):
        self._folder = episode / FRAMES
        path = self._folder / CAMERAS_JSON
        try:
            require_plain(episode)  # its folder of frames is no link
            require_plain(self._folder)
            rows = read_json(path)
            self._cameras = {name: _camera(name, row) for name, row in rows.items()}
            for camera in self._cameras.values():
                within(self._folder, camera.file)
                require_pixels(*camera.size)
        except OSError as error:
            raise DamagedFile(path, f"it cannot be read ({error.strerror or error})") from None
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedFile(path, f"it garbles a camera ({error!r})") from None
        self._index = _read_index(self._folder / INDEX)
        lengths = {len(self._column(name, "frame")) for name in self._cameras}
        if len(lengths) != 1:
            raise DamagedFile(self._folder / INDEX, "its cameras have different numbers of states")
        (self.states,) = lengths

    @property
    def cameras(self) -> tuple[str, ...]:
        """Their names, in the order of the robot's file."""
        return tuple(self._cameras)

    @property
    def sizes(self) -> dict[str, tuple[int, int]]:
        """Width and height by camera."""
        return {name: camera.size for name, camera in self._cameras.items()}

    def camera(self, name: str) -> RecordedCamera:
        """A camera by its name."""
        if name not in self._cameras:
            raise UnknownName("camera", name, self._cameras, where=f" in {self._folder}")
        return self._cameras[name]

    def device_s(self, camera: str) -> Array:
        """The device's clock at each state's frame, (T+1,)."""
        return self._column(self.camera(camera).name, "device_s")

    def arrived_s(self, camera: str) -> Array:
        """The robot's clock when each state's frame arrived, (T+1,)."""
        return self._column(self.camera(camera).name, "arrived_s")

    def check(self, states: int) -> None:
        """DamagedFile unless every camera has a whole file for so many states."""
        if self.states != states:
            said = f"it has {self.states} states, and the episode {states}"
            raise DamagedFile(self._folder / INDEX, said)
        for camera in self._cameras.values():
            numbers, path = self._numbers(camera), self._folder / camera.file
            if len(numbers) and (numbers.min() < 0 or numbers.max() >= camera.count):
                said = f"camera {camera.name} has {camera.count} frames, and states ask for"
                raise DamagedFile(self._folder / INDEX, f"{said} frame {numbers.max()}")
            if camera.form == "images":
                for number in range(camera.count):
                    if not (path / image_name(number)).is_file():
                        raise DamagedFile(path / image_name(number), "it is missing")
            elif camera.count:
                for _ in _read_video(path, [camera.count - 1], camera.count):
                    pass

    def pictures(
        self, sizes: Mapping[str, tuple[int, int]] | None = None, ticks: Sequence[int] | None = None
    ) -> Iterator[dict[str, Image]]:
        """The pictures of each state in order, or of some, by camera; every file is decoded once.
        `sizes` chooses cameras and scales; otherwise there are all at their own sizes.
        """
        asked = self.sizes if sizes is None else sizes
        wanted = range(self.states) if ticks is None else ticks
        streams = {
            name: self._stream(self.camera(name), wanted, size) for name, size in asked.items()
        }
        for _ in wanted:
            yield {name: next(stream) for name, stream in streams.items()}

    def picture(self, camera: str, tick: int) -> Image:
        """One picture at its own size; several in order are quicker with `pictures`."""
        return next(self.pictures({camera: self.camera(camera).size}, [tick]))[camera]

    def _stream(
        self, camera: RecordedCamera, ticks: Sequence[int], size: tuple[int, int]
    ) -> Iterator[Image]:
        path, numbers = self._folder / camera.file, self._numbers(camera)[list(ticks)].tolist()
        read = _read_images if camera.form == "images" else _read_video
        last, shown = -1, None
        for number, image in zip(numbers, read(path, numbers, camera.count), strict=True):
            if shown is None or number != last:
                last, shown = number, scaled(image, size)
            yield shown

    def _numbers(self, camera: RecordedCamera) -> npt.NDArray[np.int64]:
        return np.asarray(self._column(camera.name, "frame"), dtype=np.int64)

    def _column(self, camera: str, name: str) -> Array:
        key = f"{camera}.{name}"
        if key not in self._index:
            raise DamagedFile(self._folder / INDEX, f"it has no '{key}'")
        return self._index[key]


def _read_images(folder: Path, numbers: Sequence[int], _: int) -> Iterator[Image]:
    """The stored images of those numbers."""
    for number in numbers:
        path = folder / image_name(number)
        try:
            yield np.asarray(picture(read_bytes(path)).convert("RGB"))
        except FileNotFoundError:
            raise DamagedFile(path, "it is missing") from None
        except (OSError, ValueError) as error:
            raise DamagedFile(path, f"it cannot be decoded ({error})") from None


def _read_video(path: Path, numbers: Sequence[int], count: int) -> Iterator[Image]:
    """The frames of those numbers; the file is decoded again only where one lies further back."""
    from capex.worlds.video import decode  # brings PyAV

    if not path.is_file():
        raise DamagedFile(path, "it is missing")
    stored, last, image = decode(path), -1, None
    for number in numbers:
        if number < last:
            stored, last = decode(path), -1
        while last < number:
            decoded = next(stored, None)
            if decoded is None:
                raise DamagedFile(path, f"it ends after {last + 1} of {count} frames")
            last, image = last + 1, decoded[1]
        assert image is not None
        yield image


def _camera(name: str, row: dict[str, Any]) -> RecordedCamera:
    if re.fullmatch(r"\w[\w.-]{0,60}", name) is None:  # files of datasets are named after it
        raise ValueError(f"the camera '{name[:60]}'")
    width, height = row["size"]
    matrix, position_m = row.get("intrinsics"), row.get("position_m")
    if row["form"] not in ("video", "images"):
        raise ValueError(f"the form '{row['form']}'")
    pose = None
    if position_m is not None:
        rotation = rotation_matrix(np.array(row["rotation_rad"], dtype=np.float64))
        pose = Pose(np.array(position_m, dtype=np.float64), rotation)
    return RecordedCamera(
        name=name,
        size=(int(width), int(height)),
        form=row["form"],
        file=str(row["file"]),
        count=int(row["count"]),
        hz=float(row.get("hz", 20.0)),
        kind="wrist" if row.get("kind") == "wrist" else "exterior",
        arm=str(row.get("arm", "")),
        view=str(row.get("view", "")),
        repeated=int(row.get("repeated", 0)),
        missed=int(row.get("missed", 0)),
        intrinsics=None if matrix is None else np.array(matrix, dtype=np.float64).reshape(3, 3),
        extrinsics=pose,
    )


def _read_index(path: Path) -> dict[str, Array]:
    if not path.is_file():
        raise DamagedFile(path, "it is missing")
    return read_arrays(path)
