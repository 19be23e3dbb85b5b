"""Plates and pans: how to find them in one view, by colour and as ellipses."""

from __future__ import annotations

import itertools

import numpy as np
from scipy import ndimage
from scipy.spatial import ConvexHull, QhullError

from capex.pilot.eyes import Colour, Ellipse, Mask, Region, View, ellipse, regions

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
