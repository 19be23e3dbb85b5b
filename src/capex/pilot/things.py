"""Everyday things on a table: how high they are as a rule, and where the middle of their upper end
is seen from above.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from capex.pilot.eyes import Mask, Region, View, regions

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
    """By the last word of a noun; blocks unless told."""
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
