"""LeRobot folders for looking at: opened once, frames decoded a few ahead of the one asked for."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image as Picture

from capex.dataset.inspect.model import Findings, Frames, FrameShot
from capex.dataset.inspect.opening import open_dataset
from capex.errors import CapexError, ErrorCode
from capex.models.pictures import encode_jpeg
from capex.studio.guard import Refused
from capex.studio.stage import WIDTHS

OPENED_MAX, FRAMES_MAX = 4, 600  # datasets, and JPEGs, that are kept
TALL_MOST = 4  # times as high as wide a picture is shown
AHEAD = 12  # frames that are decoded along with one
SKIP = 60  # a frame so far ahead is gone to, and not played to
Key = tuple[Path, int, str, int]  # dataset, episode, camera, width


@dataclass
class _Playing:
    """Where a camera's frames are being read."""

    shots: Iterator[FrameShot]
    at: int


class Shelf:
    """Reads for everybody who looks; safe among threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opened: OrderedDict[tuple[Path, int], Any] = OrderedDict()
        self._playing: OrderedDict[Key, _Playing] = OrderedDict()
        self._frames: OrderedDict[tuple[Key, int], bytes] = OrderedDict()

    def open(self, path: Path) -> Any:
        """A LeRobot v3 folder; one whose metadata changed is opened again."""
        key = path, (path / "meta" / "info.json").stat().st_mtime_ns
        with self._lock:
            if key not in self._opened:
                dataset = open_dataset(path, Findings())
                if not hasattr(dataset, "episode"):
                    form = dataset.claims.format
                    raise CapexError(
                        f"{path.name} is {form}; the studio opens LeRobot v3",
                        code=ErrorCode.WRONG_CONTENT,
                    )
                self._opened[key] = dataset
            self._opened.move_to_end(key)
            while len(self._opened) > OPENED_MAX:
                self._opened.popitem(last=False)
            return self._opened[key]

    def episode(self, path: Path, index: int) -> Frames:
        """The numbers of an episode."""
        frames: Frames = self.open(path).episode(index)
        return frames

    def frame(self, key: Key, tick: int) -> bytes:
        """One picture as a JPEG; those that follow are made along with it."""
        path, index, camera, width = key
        if width not in WIDTHS:
            raise Refused(400, f"the width is {width}; valid: {', '.join(map(str, WIDTHS))}")
        dataset = self.open(path)
        with self._lock:
            if (known := self._frames.get((key, tick))) is not None:
                return known
            playing = self._playing.get(key)
            if playing is None or not playing.at <= tick < playing.at + SKIP:
                pictures = dataset.episode(index, tick).pictures
                if camera not in pictures:
                    raise Refused(404, f"the episode has no camera '{camera[:60]}'")
                playing = self._playing[key] = _Playing(pictures[camera], tick)
                while len(self._playing) > OPENED_MAX:
                    self._playing.popitem(last=False)
            self._read(key, playing, tick)
            if (frame := self._frames.get((key, tick))) is None:
                raise Refused(404, f"episode {index} has no frame {tick} of {camera[:60]}")
            return frame

    def _read(self, key: Key, playing: _Playing, tick: int) -> None:
        while playing.at <= tick + AHEAD:
            shot = next(playing.shots, None)
            if shot is None:
                return
            if shot.pixels is None:
                if playing.at <= tick:
                    raise CapexError(shot.wrong, code=ErrorCode.DAMAGED_FILE)
                return
            if playing.at >= tick:
                self._frames[key, playing.at] = encode_jpeg(fitted(shot.pixels, key[3]))
                while len(self._frames) > FRAMES_MAX:
                    self._frames.popitem(last=False)
            playing.at += 1


def fitted(pixels: npt.NDArray[Any], width: int) -> npt.NDArray[np.uint8]:
    """A picture as a page shows it: RGB, of that width; depth from near to far in greys."""
    if pixels.dtype != np.uint8 or pixels.ndim == 2:
        grey = np.asarray(pixels, dtype=np.float64).reshape(pixels.shape[:2])
        far = float(np.percentile(grey, 99)) or 1.0
        pixels = np.repeat((255 * np.clip(grey / far, 0, 1)).astype(np.uint8)[..., None], 3, axis=2)
    height = min(TALL_MOST * width, max(1, round(width * pixels.shape[0] / pixels.shape[1])))
    image = Picture.fromarray(np.ascontiguousarray(pixels[..., :3]))
    return np.asarray(image.resize((width, height)))
