"""Where a wrist camera probably is, by the fingers in its own picture: nobody tells a model how it
is mounted.

The page says how far the fingers are open, and both finger ends are seen: their distance in pixels
gives how far the camera is from them, their place in the picture in which direction. What is left
to guess is the lens and how far the camera leans towards the fingers, and both matter little for
what lies near the tip.
"""

from __future__ import annotations

import math

import numpy as np

from capex.pilot.eyes import Pixel, Region, View, regions
from capex.pilot.looks import PADS
from capex.pose import Array, Pose

LENS_DEG = 43.0  # from upper to lower edge: a rig's colour camera, about 70 degrees wide, 16 to 9
LEAN_DEG = 14.0  # towards the fingers, by eye: upright edges run together far above the middle
PAD_END = np.array([0.011, 0.0, 0.0125])  # a pad's far front edge from the tip: pads are 2 cm wide
ENDS_AT = 0.78  # of the height: where the pads' ends are seen as a rule
ENDS_APART = 0.34  # of the width, 8 cm open
WIDE_M = 0.08  # how far apart these are
OPEN_MIN_M = 0.03  # fingers that are less open hide each other's ends


def placed(view: View, tip: Pose, opening_m: float) -> tuple[Pose, float]:
    """The camera in the base frame, and its focal length in pixels."""
    focal = 0.5 * view.height / math.tan(math.radians(LENS_DEG) / 2)
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
