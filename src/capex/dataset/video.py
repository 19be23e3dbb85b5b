"""Video, h264 for pictures and HEVC for depth: one segment per episode and camera, then joined into
files without encoding again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt

from capex.dataset import depth
from capex.errors import DamagedFile

CODEC, PIXELS = "libx264", "yuv420p"
KEYFRAME_EVERY = 2  # learners read single frames: at most one other has to be decoded first
# One thread, so that the bytes do not depend on the machine's cores; no B-frames, so that decoding
# order is display order.
OPTIONS = {"preset": "superfast", "g": str(KEYFRAME_EVERY), "bf": "0", "threads": "1"}


@dataclass(frozen=True)
class Encoding:
    """How frames come in and how they are kept."""

    codec: str = CODEC
    pixels: str = PIXELS
    given: str = "rgb24"
    options: Mapping[str, str] = field(default_factory=dict)


DEPTH = Encoding(depth.CODEC, depth.PIXELS, depth.PIXELS, depth.OPTIONS)


def pictures(crf: int) -> Encoding:
    """Of pictures in the given quality."""
    return Encoding(options=OPTIONS | {"crf": str(crf)})


class Segment:
    """The video of one camera in one episode."""

    def __init__(self, path: Path, size: tuple[int, int], fps: int, encoding: Encoding):
        self._container = av.open(str(path), "w")
        options = dict(encoding.options)
        self._stream = self._container.add_stream(encoding.codec, rate=fps, options=options)
        self._stream.width, self._stream.height = size
        self._stream.pix_fmt = encoding.pixels
        self._given = encoding.given

    def add(self, image: npt.NDArray[np.uint8] | npt.NDArray[np.uint16]) -> None:
        """The next frame."""
        frame = av.VideoFrame.from_ndarray(image, format=self._given)
        self._container.mux(self._stream.encode(frame))

    def close(self) -> None:
        """Finish the file."""
        self._container.mux(self._stream.encode(None))
        self._container.close()


class Joined:
    """A file of joined segments; `frames` have been written to it."""

    def __init__(self, path: Path, fps: int):
        path.parent.mkdir(parents=True, exist_ok=True)
        self._container = av.open(str(path), "w")
        self._stream: Any = None
        self._fps = fps
        self.frames = 0
        self.size_bytes = 0

    def append(self, segment: Path, frames: int) -> tuple[float, float]:
        """Add a segment of so many frames; returns the seconds at which it begins and ends."""
        with av.open(str(segment)) as source:
            stream = source.streams.video[0]
            if self._stream is None:
                self._stream = self._container.add_stream_from_template(stream)
            shift = Fraction(self.frames, self._fps) / stream.time_base
            for packet in source.demux(stream):
                if packet.dts is None:  # the end of the stream
                    continue
                packet.pts += int(shift)
                packet.dts += int(shift)
                packet.stream = self._stream
                self._container.mux(packet)
        began = self.frames / self._fps
        self.frames += frames
        self.size_bytes += segment.stat().st_size
        return began, self.frames / self._fps

    def close(self) -> None:
        """Finish the file."""
        self._container.close()


def feature_info(size: tuple[int, int], fps: int) -> dict[str, Any]:
    """The block that LeRobot keeps about a video feature."""
    return {
        "video.height": size[1],
        "video.width": size[0],
        "video.codec": "h264",
        "video.pix_fmt": PIXELS,
        "video.is_depth_map": False,
        "video.fps": fps,
        "video.channels": 3,
        "has_audio": False,
    }


def decode(path: Path, *, depth: bool = False) -> Iterator[tuple[float, npt.NDArray[Any]]]:
    """Each frame of a video in order: its time in seconds, and its pixels as RGB or, of depth, as
    one channel of 16 bits. DamagedFile where it cannot be decoded.
    """
    try:
        with av.open(str(path)) as container:
            if not container.streams.video:
                raise DamagedFile(path, "it holds no video")
            for frame in container.decode(video=0):
                if frame.time is None:
                    raise DamagedFile(path, "it has a frame without a time")
                yield float(frame.time), frame.to_ndarray(format="gray16le" if depth else "rgb24")
    except (av.FFmpegError, OSError, ValueError) as error:
        raise DamagedFile(path, f"it cannot be decoded ({error})") from None
