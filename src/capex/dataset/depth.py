"""Depth maps as LeRobot 0.6 keeps them: a 16-bit TIFF per frame in millimetres, or a lossless HEVC
video of 12-bit codes.

A code is logarithmic, finer near the camera; with d in metres and LeRobot's own constants

    code = round(4095 * (log(d + 3.5) - log(0.01 + 3.5)) / (log(10 + 3.5) - log(0.01 + 3.5)))

clipped to 0 .. 4095, which is 1.2 mm apart at the camera and 4.4 mm at 10 m. Where nothing is seen
a TIFF has 0; a video cannot say so and has the nearest depth, 0.01 m.
"""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image as Picture

CODES = 4095
MIN_M, MAX_M, SHIFT_M = 0.01, 10.0, 3.5
FARTHEST_MM = 65535
CODEC, PIXELS = "hevc", "gray12le"
# As for pictures: one thread and no B-frames. Without its log level x265 prints a page per video.
X265 = "lossless=1:bframes=0:pools=none:frame-threads=1:log-level=none"
OPTIONS = {"g": "2", "preset": "superfast", "x265-params": X265}
Millimetres = npt.NDArray[np.uint16]


def millimetres(depth_m: npt.NDArray[np.float32]) -> Millimetres:
    """Depth as 16-bit pixels, 0 where nothing is seen or it is farther than 65 m."""
    near = depth_m * 1000.0 < FARTHEST_MM
    depth_mm = np.where(near, np.round(np.where(near, depth_m, 0.0) * 1000.0), 0)
    return depth_mm.astype(np.uint16)


def tiff(depth_mm: Millimetres) -> bytes:
    """An uncompressed TIFF, as LeRobot writes it."""
    out = io.BytesIO()
    Picture.fromarray(depth_mm).save(out, "TIFF", compression="raw")
    return out.getvalue()


def codes(depth_mm: Millimetres) -> Millimetres:
    """The 12-bit codes of a depth map, for a video frame of the format gray12le."""
    low, high = math.log(MIN_M + SHIFT_M), math.log(MAX_M + SHIFT_M)
    share = (np.log(depth_mm / 1000.0 + SHIFT_M) - low) / (high - low)
    return np.clip(np.rint(CODES * share), 0, CODES).astype(np.uint16)


def histogram(depth_mm: Millimetres) -> npt.NDArray[np.int64]:
    """How often each number of millimetres occurs, as one channel."""
    return np.bincount(depth_mm.ravel(), minlength=FARTHEST_MM + 1).astype(np.int64)[None]


def feature(size: tuple[int, int], fps: int, *, as_video: bool) -> dict[str, Any]:
    """The entry of info.json for one camera's depth."""
    width, height = size
    found: dict[str, Any] = {
        "dtype": "image",
        "shape": [height, width, 1],
        "names": ["height", "width", "channels"],
        "info": {"is_depth_map": True, "depth_unit": "mm"},
    }
    if as_video:
        found["dtype"] = "video"
        found["info"] |= {
            "video.height": height,
            "video.width": width,
            "video.codec": CODEC,
            "video.pix_fmt": PIXELS,
            "video.fps": fps,
            "video.channels": 1,
            "has_audio": False,
            "video.depth_min": MIN_M,
            "video.depth_max": MAX_M,
            "video.shift": SHIFT_M,
            "video.use_log": True,
        }
    return found
