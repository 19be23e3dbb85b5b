"""Segmentation: hue and saturation, connected components, ellipses, thin bars. Pixels in,
regions in pixels out.

Light scales a surface's colour but hardly changes its hue and saturation, so things are separated
by these two and brightness only bounds them. Everything is measured in pixels of the image at hand;
sizes are given as fractions of its height.
"""

from __future__ import annotations

import functools
import io
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from PIL import Image
from scipy import ndimage

from capex.pose import Array

T = TypeVar("T")
Mask = npt.NDArray[np.bool_]
Pixel = tuple[float, float]  # u right, v down


@dataclass(frozen=True)
class Colour:
    """A range of hue (degrees), saturation and brightness; hue wraps around. The pilot's colours
    are measured in pictures; each range ends where the next thing alike begins.
    """

    hue: float
    saturation: float
    hue_within: float = 4.0
    saturation_within: float = 0.045
    dark: float = 0.10
    bright: float = 1.01


@dataclass(frozen=True, eq=False)
class View:
    """One camera's image with its hue (degrees), saturation and brightness, each
    (height, width).
    """

    camera: str
    hue: npt.NDArray[np.float32]
    saturation: npt.NDArray[np.float32]
    value: npt.NDArray[np.float32]

    @property
    def height(self) -> int:
        """Pixels from top to bottom."""
        return int(self.value.shape[0])

    @property
    def width(self) -> int:
        """Pixels from left to right."""
        return int(self.value.shape[1])

    def like(self, *colours: Colour) -> Mask:
        """Where the image has one of the colours."""
        found = np.zeros(self.value.shape, dtype=bool)
        for c in colours:
            off = np.abs(self.hue - np.float32(c.hue))
            near = np.minimum(off, np.float32(360.0) - off) <= c.hue_within
            found |= (
                near
                & (np.abs(self.saturation - c.saturation) <= c.saturation_within)
                & self.between(c.dark, c.bright)
            )
        return found

    def grey(self, saturation_below: float, dark: float, bright: float) -> Mask:
        """Where the image is nearly without colour and its brightness lies between two bounds."""
        return (self.saturation <= saturation_below) & self.between(dark, bright)

    def toned(
        self, hue: float, within: float, saturation: tuple[float, float], dark: float, bright: float
    ) -> Mask:
        """Where hue, saturation and brightness lie between bounds: for greys."""
        pale, strong = saturation
        tone = (self.saturation > pale) & (self.saturation < strong) & self.between(dark, bright)
        return np.asarray(tone & (np.abs(self.hue - hue) < within))

    def between(self, dark: float, bright: float) -> Mask:
        """Where the brightness lies between two bounds."""
        return (self.value >= dark) & (self.value < bright)


@dataclass(frozen=True, eq=False)
class Region:
    """A connected region: its pixels and their first and second moments."""

    rows: npt.NDArray[np.intp]
    columns: npt.NDArray[np.intp]

    @property
    def area(self) -> int:
        """Number of pixels."""
        return int(self.rows.size)

    @functools.cached_property
    def centre(self) -> Pixel:
        """The middle of mass."""
        return float(self.columns.mean()) + 0.5, float(self.rows.mean()) + 0.5

    @functools.cached_property
    def axes(self) -> tuple[float, float, tuple[float, float]]:
        """Half lengths along and across (those of an ellipse with the same second moments) and the
        direction (du, dv) of the long one.
        """
        if self.area < 3:
            return 0.5, 0.5, (1.0, 0.0)
        spread = np.cov(np.stack([self.columns, self.rows]).astype(float)) + np.eye(2) / 12
        values, vectors = np.linalg.eigh(spread)
        du, dv = (float(x) for x in vectors[:, 1])
        sign = 1.0 if (du, dv) >= (0.0, 0.0) else -1.0
        return 2 * float(np.sqrt(values[1])), 2 * float(np.sqrt(values[0])), (sign * du, sign * dv)

    @property
    def elongation(self) -> float:
        """How many times longer than wide."""
        along, across, _ = self.axes
        return along / max(across, 0.3)

    @functools.cached_property
    def edge(self) -> tuple[float, float]:
        """The direction (du, dv) of a side of the narrowest box around the region: how a square
        thing lies.
        """
        best, along = math.inf, (1.0, 0.0)
        for degrees in range(0, 90, 3):
            c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
            area = float(np.ptp(c * self.columns + s * self.rows)) * float(
                np.ptp(-s * self.columns + c * self.rows)
            )
            if area < best:
                best, along = area, (c, s)
        return along

    def at(self, pixel: Pixel) -> Pixel:
        """The pixel of the region nearest to a point, by its centre."""
        k = int(np.argmin((self.columns + 0.5 - pixel[0]) ** 2 + (self.rows + 0.5 - pixel[1]) ** 2))
        return float(self.columns[k]) + 0.5, float(self.rows[k]) + 0.5

    def along(self, fraction: float) -> Pixel:
        """A pixel of the region on its long axis, from -1 (one end) to 1 (the other)."""
        length, _, (du, dv) = self.axes
        u, v = self.centre
        return self.at((u + fraction * length * du, v + fraction * length * dv))

    def across(self, fraction: float) -> Pixel:
        """A pixel of the region on its short axis."""
        _, length, (du, dv) = self.axes
        u, v = self.centre
        return self.at((u - fraction * length * dv, v + fraction * length * du))

    def spots(self, along: Sequence[float], across: Sequence[float] = ()) -> list[Pixel]:
        """Pixels of the region at fractions of its long axis, then of its short one."""
        return [*(self.along(f) for f in along), *(self.across(f) for f in across)]

    def pixels(self) -> set[tuple[int, int]]:
        """Its pixels, each as (row, column)."""
        return set(zip(self.rows.tolist(), self.columns.tolist(), strict=True))

    def share_beside(self, mask: Mask, *down: int) -> float:
        """Which share of the region, moved down by each of some rows, lies in a mask."""
        rows = np.clip(np.concatenate([self.rows + d for d in down]), 0, mask.shape[0] - 1)
        return float(mask[rows, np.tile(self.columns, len(down))].mean())

    def whole(self, view: View) -> bool:
        """Whether it ends before the image does."""
        return bool(
            self.rows.min() > 1
            and self.columns.min() > 1
            and self.columns.max() < view.width - 2
            and self.rows.max() < view.height - 2
        )

    def beside(self, other: Region, margin: float) -> bool:
        """Whether the bounding boxes come within so many pixels of each other."""
        return bool(
            self.columns.min() - margin <= other.columns.max()
            and other.columns.min() - margin <= self.columns.max()
            and self.rows.min() - margin <= other.rows.max()
            and other.rows.min() - margin <= self.rows.max()
        )


@dataclass(frozen=True)
class Ellipse:
    """The outline of a dish: centre and half axes in pixels, and the direction of the first."""

    centre: Pixel
    half: tuple[float, float]
    direction: tuple[float, float]

    def point(self, along: float, across: float) -> Pixel:
        """A point by fractions of the half axes."""
        (u, v), (a, b), (du, dv) = self.centre, self.half, self.direction
        return u + along * a * du - across * b * dv, v + along * a * dv + across * b * du

    def contains(self, pixel: Pixel, scale: float = 1.0) -> bool:
        """Whether a point lies inside the outline, scaled."""
        (u, v), (a, b), (du, dv) = self.centre, self.half, self.direction
        x, y = pixel[0] - u, pixel[1] - v
        return bool(
            ((x * du + y * dv) / (scale * a)) ** 2 + ((-x * dv + y * du) / (scale * b)) ** 2 <= 1.0
        )


@functools.lru_cache(maxsize=16)
def see(camera: str, png: bytes) -> View:
    """Decode an image and take its hue, saturation and brightness."""
    pixels = np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))
    red, green, blue = (pixels[..., k].astype(np.float32) / np.float32(255.0) for k in range(3))
    high, low = np.maximum(np.maximum(red, green), blue), np.minimum(np.minimum(red, green), blue)
    spread = high - low
    is_red, is_green = high == red, high == green
    apart = np.where(is_red, green - blue, np.where(is_green, blue - red, red - green))
    sixth = np.where(is_red, np.float32(0.0), np.where(is_green, np.float32(2.0), np.float32(4.0)))
    hue = apart / np.where(spread > 0, spread, np.float32(1.0)) + sixth
    hue[hue < 0] += 6
    return View(
        camera,
        (60.0 * hue).astype(np.float32),
        np.where(high > 0, spread / np.maximum(high, 1e-6), 0).astype(np.float32),
        high,
    )


@functools.lru_cache(maxsize=16)
def blank(png: bytes) -> bytes:
    """A grey picture of the same size."""
    out = io.BytesIO()
    Image.new("RGB", Image.open(io.BytesIO(png)).size, (128, 128, 128)).save(out, format="PNG")
    return out.getvalue()


def find(views: Iterable[View], look: Callable[[View], T | None]) -> dict[str, T]:
    """What each view shows, by camera; views that show nothing are left out."""
    return {v.camera: seen for v in views if (seen := look(v))}


def regions(
    mask: Mask, smallest: float = 0.0002, largest: float = 1.0, close: int = 0
) -> list[Region]:
    """Connected regions of a mask, largest first, whose area lies between two fractions of the
    image; `close` bridges thin gaps.
    """
    joined = ndimage.binary_closing(mask, iterations=close) if close else mask
    labels, count = ndimage.label(joined, structure=np.ones((3, 3)))
    if not count:
        return []
    whole = mask.size
    found = []
    for label, box in enumerate(ndimage.find_objects(labels), start=1):
        rows, columns = np.nonzero((labels[box] == label) & mask[box])
        if smallest * whole <= rows.size <= largest * whole:
            found.append(Region(rows + box[0].start, columns + box[1].start))
    return sorted(found, key=lambda s: (-s.area, s.centre))


def union(parts: list[Region]) -> Region:
    """Several regions of one image as one."""
    rows, columns = [p.rows for p in parts], [p.columns for p in parts]
    return Region(np.concatenate(rows), np.concatenate(columns))


def ellipse(columns: Array, rows: Array) -> Ellipse | None:
    """The ellipse through points of an outline (least squares over its conic, one pass of
    trimming); None if there is none.
    """
    u, v = np.asarray(columns, dtype=float), np.asarray(rows, dtype=float)
    found = _conic(u, v)
    if found is None or u.size < 24:
        return found
    (cu, cv), (a, b), (du, dv) = found.centre, found.half, found.direction
    radius = np.hypot(((u - cu) * du + (v - cv) * dv) / a, (-(u - cu) * dv + (v - cv) * du) / b)
    near = np.abs(radius - 1.0) < max(0.05, 1.5 * float(np.median(np.abs(radius - 1.0))))
    return _conic(u[near], v[near]) or found


def _conic(u: Array, v: Array) -> Ellipse | None:
    """Direct least-squares fit of an ellipse (Halir and Flusser's stable form of Fitzgibbon's
    method).
    """
    if u.size < 8:
        return None
    mu, mv, scale = float(u.mean()), float(v.mean()), max(float(u.std()), float(v.std()), 1e-6)
    x, y = (u - mu) / scale, (v - mv) / scale
    quadratic, linear = (
        np.stack([x * x, x * y, y * y], axis=1),
        np.stack([x, y, np.ones_like(x)], axis=1),
    )
    s1, s2, s3 = quadratic.T @ quadratic, quadratic.T @ linear, linear.T @ linear
    try:
        carried = -np.linalg.solve(s3, s2.T)
        reduced = s1 + s2 @ carried
        values, vectors = np.linalg.eig(np.stack([reduced[2] / 2, -reduced[1], reduced[0] / 2]))
    except np.linalg.LinAlgError:
        return None
    del values
    vectors = np.real(vectors)
    fits = 4 * vectors[0] * vectors[2] - vectors[1] ** 2
    if not np.any(fits > 0):
        return None
    a, b, c = (float(k) for k in vectors[:, int(np.argmax(fits > 0))])
    d, e, f = (float(k) for k in carried @ np.array([a, b, c]))
    form, line = np.array([[a, b / 2], [b / 2, c]]), np.array([d, e])
    try:
        middle = np.linalg.solve(2 * form, -line)
    except np.linalg.LinAlgError:
        return None
    level = float(middle @ form @ middle + line @ middle + f)
    values, vectors = np.linalg.eigh(form)
    if np.any(values * level >= 0):
        return None
    half = scale * np.sqrt(-level / values)
    if float(half.min()) < 0.02 * float(half.max()):  # points on a line
        return None
    long = int(np.argmax(half))
    du, dv = (float(k) for k in vectors[:, long])
    sign = 1.0 if (du, dv) >= (0.0, 0.0) else -1.0
    centre = (float(scale * middle[0] + mu) + 0.5, float(scale * middle[1] + mv) + 0.5)
    return Ellipse(centre, (float(half[long]), float(half[1 - long])), (sign * du, sign * dv))
