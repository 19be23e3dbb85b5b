"""Objects on a table by their names: usual heights, the upper end as seen from above, and plates
and pans as ellipses.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from scipy import ndimage
from scipy.spatial import ConvexHull, QhullError

from capex.pilot.segmentation import Colour, Ellipse, Mask, Region, View, ellipse, regions

TOP_SHARE = 0.8  # of the brightest: light from above makes a thing's top its brightest side
LID_MIN = 0.3  # of what is seen of a can's side: less is a stripe or a gleam
LID_PX = 4.0  # between the boxes around lid and side: a dark rim


@dataclass(frozen=True)
class ThingKind:
    """What one knows of a thing by its name."""

    height_m: float = 0.045  # blocks are about as high; assumed where there is no depth
    depth_m: float = 0.025  # of a grasp, below its upper end
    round: bool = False  # looks the same from all sides, and nearly fills the open hand
    sinks_m: float = 0.0  # how far another one of its kind is lowered into it before it is let go
    nests_m: float = 0.0  # and how far it goes into it in the end


BLOCK = ThingKind()
KINDS = {
    "plate": ThingKind(height_m=0.012),
    "bowl": ThingKind(height_m=0.07, depth_m=0.015),
    "bread": ThingKind(height_m=0.048, depth_m=0.024),
    "corn": ThingKind(height_m=0.038, depth_m=0.019),
    "can": ThingKind(height_m=0.115, depth_m=0.025, round=True),
    "cup": ThingKind(height_m=0.095, depth_m=0.018, round=True, sinks_m=0.055, nests_m=0.07),
}


def kind(noun: str) -> ThingKind:
    """By the last word of a noun; blocks by default."""
    return KINDS.get(noun.split()[-1] if noun else "", BLOCK)


def top(view: View, region: Region, noun: str) -> Region:
    """The part of a region that is the thing's upper end, seen from above."""
    if noun.endswith("can"):
        return _lid(view, region) or _disc(region)
    return _disc(region) if kind(noun).round else lit(view, region)


def lit(view: View, region: Region) -> Region:
    """The part of a thing that the light from above falls on; all of it where that is little."""
    value = view.value[region.rows, region.columns]
    bright = value > TOP_SHARE * float(np.quantile(value, 0.95))
    if float(bright.mean()) < 0.2:
        return region
    return Region(region.rows[bright], region.columns[bright])


def _lid(view: View, region: Region) -> Region | None:
    """A can's lid: the largest part of bare metal at its side; its label may have white stripes."""
    bare = regions(view.grey(0.14, 0.45, 1.01), 0.001, 0.3)
    beside = [p for p in bare if p.beside(region, LID_PX) and p.area > LID_MIN * region.area]
    return beside[0] if beside else None


def _disc(region: Region) -> Region:
    """The largest disc inside an outline: the mouth of a cup is its widest part."""
    mask, (row, column) = _cut_out(region)
    filled = ndimage.binary_fill_holes(mask)
    deep = ndimage.distance_transform_edt(filled)
    v, u = (int(k) for k in np.unravel_index(int(np.argmax(deep)), deep.shape))
    rows, columns = np.nonzero(filled)
    inside = np.hypot(rows - v, columns - u) <= deep[v, u]
    return Region(rows[inside] + row, columns[inside] + column)


def _cut_out(region: Region) -> tuple[Mask, tuple[int, int]]:
    """A region's own mask with an empty border, and where that begins in the image."""
    row, column = int(region.rows.min()) - 1, int(region.columns.min()) - 1
    mask = np.zeros(
        (int(region.rows.max()) - row + 2, int(region.columns.max()) - column + 2), bool
    )
    mask[region.rows - row, region.columns - column] = True
    return mask, (row, column)


RIMS = (Colour(218, 0.52, 4.0, 0.06, 0.30, 0.90), Colour(218, 0.436, 4.0, 0.02, 0.30, 0.90))


def plates(view: View) -> list[Ellipse]:
    """White plates with a blue rim, largest first; a pale rim counts where there is no other."""
    return next((found for rim in RIMS if (found := _rimmed(view, rim))), [])


def _rimmed(view: View, colour: Colour) -> list[Ellipse]:
    found = []
    for rim in regions(view.like(colour), 0.0002, 0.06, close=2):
        outline = ellipse(rim.columns.astype(float), rim.rows.astype(float))
        if (
            outline is not None
            and _is_dish(outline, view)
            and _inside(view.grey(0.06, 0.66, 1.01), outline) > 0.25
        ):
            found.append(outline)
    return sorted(found, key=lambda e: -e.half[0] * e.half[1])


def pans(view: View) -> list[Ellipse]:
    """Dark grey pans: lighter than a stove's glass, darker than steel, wide and round; first the
    one with most glass around it.
    """
    grey = view.grey(0.065, 0.17, 0.38) & (np.abs(view.hue - 240) < 14)
    # Cuts off the rings of burners behind it.
    grey = ndimage.binary_opening(grey, iterations=max(1, view.height // 100))
    found = []
    for body in regions(grey, 0.004, 0.12, close=2):
        outline = _hull(body)
        if outline is not None and _is_dish(outline, view) and _inside(grey, outline) > 0.55:
            found.append(outline)
    glass = view.like(Colour(210, 0.225, 14, 0.05, 0.05, 0.13))
    return sorted(
        found,
        key=lambda e: (
            -_inside(glass, Ellipse(e.centre, (1.6 * e.half[0], 1.6 * e.half[1]), e.direction))
        ),
    )


def dish(view: View, noun: str) -> Ellipse | None:
    """The dish that a noun names; the largest one in view."""
    found = pans(view) if "pan" in noun.split() else plates(view)
    return found[0] if found else None


def _is_dish(outline: Ellipse, view: View) -> bool:
    a, b = outline.half
    return 0.03 * view.height < a < 0.35 * view.height and b > 0.25 * a


def _inside(mask: Mask, outline: Ellipse) -> float:
    """Which share of an ellipse's visible area is set in a mask."""
    rows, columns = np.indices(mask.shape)
    (u, v), (a, b), (du, dv) = outline.centre, outline.half, outline.direction
    x, y = columns + 0.5 - u, rows + 0.5 - v
    inner = ((x * du + y * dv) / (0.9 * a)) ** 2 + ((-x * dv + y * du) / (0.9 * b)) ** 2 <= 1.0
    return float(mask[inner].mean()) if inner.any() else 0.0


def _hull(body: Region) -> Ellipse | None:
    """The ellipse through a region's convex outline."""
    points = np.stack([body.columns, body.rows], axis=1).astype(float)
    try:
        corners = points[ConvexHull(points).vertices]
    except QhullError:
        return None
    closed = np.vstack([corners, corners[:1]])
    steps = np.concatenate(
        [np.linspace(a, b, 6, endpoint=False) for a, b in itertools.pairwise(closed)]
    )
    return ellipse(steps[:, 0], steps[:, 1])
