"""Guessed cameras, for a request without locate_pixel or without depth.

Exterior cameras: a model does not know exactly where they are. From the pictures of the kitchen one
would guess: a little behind the robot's mount, about 60 cm to either side and a good metre above
it, both looking at the working area, a lens of 60 degrees. A rig's words about a camera say it
roughly. The observation says where the fingertips are, and the orange pads are seen: the difference
between the two in pixels is taken off every pixel.

Wrist cameras: the observation says how far the fingers are open, and both finger ends are seen.
Their distance in pixels gives the distance of the camera, their place in the picture its direction.
What is left to guess is the lens and the lean towards the fingers, and both matter little near the
tip.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from capex.pilot.appearance import PADS
from capex.pilot.segmentation import Pixel, Region, View, regions
from capex.pose import Array, Pose

Point = tuple[float, float, float]

APART_MAX_M = 0.12  # two rays that pass further apart do not see the same point


@dataclass(frozen=True)
class CameraGuess:
    """Where a camera may stand and what it looks at, in metres from the mount; its lens."""

    position_m: Point
    looked_at_m: Point
    lens_deg: float  # from the image's upper edge to its lower one


# The guess that the text above gives reasons for.
PLACES = {"left": (-0.25, 0.60, 1.20), "right": (-0.25, -0.60, 1.20)}
KITCHEN = {c: CameraGuess(place, (0.60, 0.0, 0.40), 60.0) for c, place in PLACES.items()}
TABLE_AHEAD_M = 0.40  # from the mount to the middle of where an arm works on a table
BETWEEN_AHEAD_M = 0.30  # and of where two arms share one: they are shorter
TABLE_LENS_DEG = 43.0  # from upper to lower edge: a rig's colour camera, about 70 degrees wide

# A wrist camera, by the fingers in its picture.
LEAN_DEG = 14.0  # towards the fingers, by eye: upright edges run together far above the middle
PAD_END = np.array([0.011, 0.0, 0.0125])  # a pad's far front edge from the tip: pads are 2 cm wide
ENDS_AT = 0.78  # of the height: where the pads' ends are seen as a rule
ENDS_APART = 0.34  # of the width, 8 cm open
WIDE_M = 0.08  # how far apart these are
OPEN_MIN_M = 0.03  # fingers that are less open hide each other's ends


def from_words(words: str, table_m: float) -> CameraGuess | None:
    """The guess that a prompt's sentence about a camera allows: how far away and how high it
    stands, and which way it looks.
    """
    far = re.search(r"([\d.]+) m (?:in front|beside|away|before|from)", words)
    high = re.search(r"([\d.]+) m (?:above|up|over)", words)
    way = re.search(r"looks along ([+-])y", words)
    if far is None or high is None or not (way or "faces the robot" in words):
        return None
    x, y = float(far[1]), 0.0
    if way:
        x, y = TABLE_AHEAD_M, -float(f"{way[1]}1") * x
    middle = (TABLE_AHEAD_M, 0.0, table_m + 0.1)
    if "between the arms" in words:
        middle = (BETWEEN_AHEAD_M, 0.0, table_m)
    return CameraGuess((x, y, table_m + float(high[1])), middle, TABLE_LENS_DEG)


@dataclass(frozen=True)
class GuessedCameras:
    """The guessed cameras, each with the pixel shift that puts the fingers where they are seen."""

    sizes: Mapping[str, tuple[int, int]]
    shift: Mapping[str, Pixel]
    guesses: Mapping[str, CameraGuess] = field(default_factory=lambda: KITCHEN)
    placed: Mapping[str, tuple[Pose, float]] = field(default_factory=dict)  # pose, focal pixels

    def knows(self, camera: str) -> bool:
        """Whether there is any idea where a camera stands."""
        return camera in self.guesses or camera in self.placed

    def ray(self, camera: str, pixel: Pixel) -> tuple[Array, Array]:
        """Where a pixel's line of sight starts, and its unit direction."""
        place, focal = self._camera(camera)
        du, dv = self.shift.get(camera, (0.0, 0.0))
        width, height = self.sizes[camera]
        seen = place.rotation @ np.array(
            [(pixel[0] - du - width / 2) / focal, (pixel[1] - dv - height / 2) / focal, 1.0]
        )
        return place.position_m, seen / np.linalg.norm(seen)

    def project(self, camera: str, point_m: Array) -> Pixel:
        """Where the guess shows a point, without the shift."""
        place, focal = self._camera(camera)
        x, y, z = (float(c) for c in place.inverse().apply(point_m))
        width, height = self.sizes[camera]
        return width / 2 + focal * x / z, height / 2 + focal * y / z

    def between(self, left: Pixel, right: Pixel) -> Array | None:
        """The point that both cameras see: the middle of the shortest way between the two lines of
        sight.
        """
        a, u = self.ray("left", left)
        b, v = self.ray("right", right)
        cosine = float(u @ v)
        if 1 - cosine * cosine < 1e-6:
            return None
        s, t = np.linalg.solve(
            np.array([[1.0, -cosine], [cosine, -1.0]]), np.array([(b - a) @ u, (b - a) @ v])
        )
        p, q = a + s * u, b + t * v
        if s <= 0 or t <= 0 or float(np.linalg.norm(p - q)) > APART_MAX_M:
            return None
        return np.asarray((p + q) / 2)

    def on_height(self, camera: str, pixel: Pixel, height_m: float) -> Array | None:
        """Where a line of sight meets a level plane: all there is when only one camera sees a
        thing.
        """
        start, direction = self.ray(camera, pixel)
        if direction[2] > -1e-3:
            return None
        return np.asarray(start + direction * (height_m - start[2]) / direction[2])

    def _camera(self, name: str) -> tuple[Pose, float]:
        """A camera's pose in the base frame, and its focal length in pixels."""
        if name in self.placed:
            return self.placed[name]
        guess = self.guesses[name]
        position_m = np.array(guess.position_m)
        z = np.array(guess.looked_at_m) - position_m
        z /= np.linalg.norm(z)
        x = np.cross(z, [0.0, 0.0, 1.0])
        x /= np.linalg.norm(x)
        return (
            Pose(position_m, np.stack([x, np.cross(z, x), z], axis=1)),
            0.5 * self.sizes[name][1] / math.tan(math.radians(guess.lens_deg) / 2),
        )


def wrist_camera(view: View, tip: Pose, opening_m: float) -> tuple[Pose, float]:
    """A wrist camera in the base frame, and its focal length in pixels."""
    focal = 0.5 * view.height / math.tan(math.radians(TABLE_LENS_DEG) / 2)
    seen = finger_ends(view) if opening_m > OPEN_MIN_M else None
    if seen is None:
        half, row, opening_m = 0.5 * ENDS_APART * view.width, ENDS_AT * view.height, WIDE_M
        seen = (0.5 * view.width - half, row), (0.5 * view.width + half, row)
    (left, _), (right, row) = seen
    away = focal * opening_m / (right - left)
    ends = away * np.array(
        [(0.5 * (left + right - view.width)) / focal, (row - 0.5 * view.height) / focal, 1.0]
    )
    turned = _leaning()
    return tip @ Pose(PAD_END - turned @ ends, turned), focal


def lower_edge(view: View) -> int:
    """The first row that shows nothing but the hand: where the pads end in the palm."""
    return max((int(p.rows.max()) for p in _pads(view)), default=round(0.9 * view.height))


def finger_ends(view: View) -> tuple[Pixel, Pixel] | None:
    """The inner corners of both pads' far ends: where the picture shows them highest."""
    parts = _pads(view)
    left = [p for p in parts if p.centre[0] < 0.5 * view.width]
    right = [p for p in parts if p.centre[0] > 0.5 * view.width]
    if not left or not right:
        return None
    a, b = _top_columns(left[0]), _top_columns(right[0])
    row = 0.5 * float(left[0].rows.min() + right[0].rows.min())
    return (float(a.max()) + 1.0, row), (float(b.min()), row)


def _pads(view: View) -> list[Region]:
    found = regions(view.like(PADS), 0.0005, 0.05)
    return [p for p in found if p.rows.max() > 0.8 * view.height]


def _top_columns(pad: Region) -> Array:
    return np.asarray(pad.columns[pad.rows < pad.rows.min() + 4])


def _leaning() -> Array:
    """The camera's axes in the hand's: image right is the hand's y, image up its x, and it looks
    along the fingers, leaning back towards them.
    """
    s, c = math.sin(math.radians(LEAN_DEG)), math.cos(math.radians(LEAN_DEG))
    return np.array([[0.0, -c, -s], [1.0, 0.0, 0.0], [0.0, -s, c]])
