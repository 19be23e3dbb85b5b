"""Video, h264 for pictures and HEVC for depth: one segment per episode and camera, then joined into
files without encoding again.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import av

from capex.dataset import depth
from capex.worlds.video import PIXELS, Encoding

DEPTH = Encoding(depth.CODEC, depth.PIXELS, depth.PIXELS, depth.OPTIONS)


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
