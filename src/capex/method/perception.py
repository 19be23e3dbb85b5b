"""locate_pixel: the base-frame position of the surface seen at exactly one pixel."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from capex.errors import CapexError, GLUnavailable, PhysicsDiverged
from capex.pose import Array
from capex.worlds import DepthImage, Env

SENSOR_PATCH = 2  # pixels on each side, for the noisy depth of a real sensor


class Sight:
    """The depth that the cameras measure at one moment, taken once a camera."""

    def __init__(self, env: Env, sizes: Mapping[str, tuple[int, int]]):
        """`sizes`: of the images that the model was shown, by camera."""
        self._env, self._sizes = env, sizes
        self._images: dict[str, DepthImage] = {}

    def locate(self, camera: str, u: float, v: float) -> Array | str:
        """Position in metres in the base frame, or a sentence: sky, out of the image, no depth.

        Simulated depth is exact, so the very pixel counts: a thin handle is found. A real sensor's
        depth is the median of a small patch.
        """
        if camera not in self._images:
            try:
                self._images[camera] = self._env.depth(camera, self._sizes[camera])
            except (PhysicsDiverged, GLUnavailable):  # no answer for a model: the attempt is over
                raise
            except CapexError as error:
                return f"No position: {error}."
        image = self._images[camera]
        height, width = image.depth_m.shape
        column, row = math.floor(u), math.floor(v)
        if not (0 <= column < width and 0 <= row < height):
            return f"No position: pixel ({u:g}, {v:g}) lies outside the {width}x{height} image."
        depth = float(image.depth_m[row, column])
        if self._env.spec.real_time:
            near = (slice(max(0, i - SENSOR_PATCH), i + SENSOR_PATCH + 1) for i in (row, column))
            patch = image.depth_m[tuple(near)]
            seen = patch[np.isfinite(patch) & (patch > 0)]
            depth = float(np.median(seen)) if seen.size else math.inf
        if not math.isfinite(depth) or depth <= 0:
            return f"No position: nothing is seen at pixel ({column}, {row}) of camera {camera}."
        return image.camera.unproject(column + 0.5, row + 0.5, depth)


def describe(point_m: Array) -> str:
    """A located point as the model reads it, in whole centimetres."""
    x, y, z = (round(100 * float(c)) for c in point_m)
    return f"[{x}, {y}, {z}]"
