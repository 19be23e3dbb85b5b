"""Geometry of the guard: boxes, straight ways through them, and the distance of two segments."""

from __future__ import annotations

import math

import numpy as np

from capex.pose import Array
from capex.worlds.rigs.rigfile import Box

Segment = tuple[Array, Array]


def length(vector: Array) -> float:
    """Of a vector (3,); a third of what numpy's norm takes."""
    return math.sqrt(float(vector @ vector))


def into_box(box: Box, point_m: Array) -> Array:
    """The point of the box nearest to a point."""
    return np.asarray(np.clip(point_m, box.lower_m, box.upper_m))


def outside_m(box: Box, point_m: Array) -> float:
    """How far a point is outside of a box; 0 within it."""
    return length(point_m - into_box(box, point_m))


def depth_m(box: Box, point_m: Array) -> float:
    """How far a point is inside of a box, to its nearest face; 0 or less outside."""
    lower, upper = np.asarray(box.lower_m), np.asarray(box.upper_m)
    return float(np.minimum(point_m - lower, upper - point_m).min())


def way_until(box: Box, start_m: Array, end_m: Array) -> float:
    """The part of the straight way from start to end that lies before the box: 1 where the way
    keeps out of it, 0 where it begins within. Slabs: the way is inside while it is between all
    three pairs of faces. A way that only touches a face keeps out.
    """
    enters, leaves = 0.0, 1.0
    for start, end, lower, upper in zip(start_m, end_m, box.lower_m, box.upper_m, strict=True):
        way = float(end - start)
        if abs(way) < 1e-12:
            if not lower < start < upper:
                return 1.0
            continue
        near, far = sorted(((lower - start) / way, (upper - start) / way))
        enters, leaves = max(enters, float(near)), min(leaves, float(far))
    return enters if enters < leaves else 1.0


def within_ball(center_m: Array, radius_m: float, start_m: Array, end_m: Array) -> float:
    """The part of the straight way from start, inside a ball, that stays inside: solves
    |start + t way - center| = radius. From outside, only a way that ends nearer is open.
    """
    way, offset = end_m - start_m, start_m - center_m
    a, b = float(way @ way), float(way @ offset)
    c = float(offset @ offset) - radius_m**2
    if c > 0:
        return 1.0 if a + 2 * b < 0 else 0.0
    if a < 1e-18 or a + 2 * b + c <= 0:
        return 1.0
    return (-b + math.sqrt(max(0.0, b * b - a * c))) / a


def segments_apart_m(one: Segment, other: Segment) -> float:
    """Shortest distance of two segments: clamped closest points (Ericson, Real-Time Collision
    Detection, 5.1.9).
    """
    d1, d2, r = one[1] - one[0], other[1] - other[0], one[0] - other[0]
    a, e, f = float(d1 @ d1), float(d2 @ d2), float(d2 @ r)
    b, c = float(d1 @ d2), float(d1 @ r)
    denominator = a * e - b * b
    s = min(1.0, max(0.0, (b * f - c * e) / denominator)) if denominator > 1e-15 else 0.0
    t = (b * s + f) / e if e > 1e-15 else 0.0
    if not 0.0 <= t <= 1.0:
        t = min(1.0, max(0.0, t))
        s = min(1.0, max(0.0, (b * t - c) / a)) if a > 1e-15 else 0.0
    return length((one[0] + s * d1) - (other[0] + t * d2))
