"""Video of pictures: a file of one camera, written frame by frame and decoded in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt

from capex.errors import DamagedFile
from capex.untrusted import PIXELS_MOST, opened, require_pixels

# Named, so that FFmpeg takes no file for a list of others (HLS, concat), which it would open.
CONTAINER = "mp4"
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
    container: Mapping[str, str] = field(default_factory=dict)  # of the file around the frames


# For what is recorded while a robot moves and read in order: a keyframe a second at 20 Hz, and a
# file that can be read as far as it came when its writer is killed.
RECORDING = Encoding(
    options=OPTIONS | {"crf": "18", "g": "20"},
    container={"movflags": "frag_keyframe+empty_moov+default_base_moof"},
)


def pictures(crf: int) -> Encoding:
    """Of pictures in the given quality."""
    return Encoding(options=OPTIONS | {"crf": str(crf)})


class Segment:
    """The video of one camera in one episode."""

    def __init__(self, path: Path, size: tuple[int, int], fps: int, encoding: Encoding):
        self._container = av.open(str(path), "w", options=dict(encoding.container))
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


def decode(
    path: Path, *, depth: bool = False, from_s: float = 0.0
) -> Iterator[tuple[float, npt.NDArray[Any]]]:
    """Each frame of a video in order: its time in seconds, and its pixels as RGB or, of depth, as
    one channel of 16 bits. DamagedFile where it cannot be decoded. `from_s`: begin at or before
    this time, where the video can be entered.
    """
    try:
        with opened(path) as file, av.open(file, format=CONTAINER) as container:
            if not container.streams.video:
                raise DamagedFile(path, "it holds no video")
            coded = container.streams.video[0].codec_context
            require_pixels(coded.width, coded.height)
            coded.options = {"max_pixels": str(PIXELS_MOST)}  # it may grow on the way
            if from_s > 0:
                container.seek(int(from_s * av.time_base))
            for frame in container.decode(video=0):
                if frame.time is None:
                    raise DamagedFile(path, "it has a frame without a time")
                yield float(frame.time), frame.to_ndarray(format="gray16le" if depth else "rgb24")
    except (av.FFmpegError, OSError, ValueError) as error:
        raise DamagedFile(path, f"it cannot be decoded ({error})") from None
