"""Geometry of the guard: boxes and straight ways through them, hands and their distance from boxes,
and the distance of two segments.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from capex.pose import Array, Pose, rotation_matrix, rotation_vector
from capex.rigs.hands import Hand, HandPart
from capex.rigs.rigfile import Box

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


class Hull:
    """The parts of a hand as arrays: n boxes with rounded edges in the tip's frame."""

    def __init__(self, hand: Hand):
        lower, upper = (np.array([getattr(p, end) for p in hand]) for end in ("lower_m", "upper_m"))
        self.names = tuple(part.name for part in hand)
        self.round_m = np.array([part.round_m for part in hand])
        self.centers_m: Array = (lower + upper) / 2
        self.halves_m: Array = (upper - lower) / 2 - self.round_m[:, None]  # less the rounding
        # Of the farthest point from the tip: a turn moves nothing farther than angle times reach.
        self.reach_m = float(np.linalg.norm(np.maximum(np.abs(lower), np.abs(upper)), axis=1).max())
        self._points_m = np.concatenate([_surface(p) for p in hand])

    def lowest_m(self, rotation: Array) -> tuple[float, str]:
        """Of the lowest point its height above the tip, and which part it belongs to."""
        row = rotation[2]
        heights = self.centers_m @ row - self.halves_m @ np.abs(row) - self.round_m
        i = int(heights.argmin())
        return float(heights[i]), self.names[i]

    def gaps_m(self, floor_m: float, boxes: Sequence[Box], at_m: Array, rotations: Array) -> Array:
        """(s,1+k,n): how far each part is above the floor and off each of k boxes, at s poses by
        their positions (s,3) and rotations (s,3,3). A part is at least so far off a box; below 0 it
        may have to be moved so far to leave it.
        """
        centers = at_m[:, None] + self.centers_m @ rotations.transpose(0, 2, 1)
        spread = self.halves_m @ np.abs(rotations).transpose(0, 2, 1) + self.round_m[:, None]
        gaps = np.empty((len(at_m), 1 + len(boxes), len(self.names)))
        gaps[:, 0] = centers[:, :, 2] - spread[:, :, 2] - floor_m
        for k, box in enumerate(boxes, 1):
            middle, half = _middle_half(box)
            off = (np.abs(centers - middle) - half - spread).max(axis=2)
            s, n = np.nonzero(off <= 0.0)  # no face of the box is between them: perhaps an edge is
            if len(s):
                part = centers[s, n], rotations[s], self.halves_m[n], self.round_m[n]
                off[s, n] = np.maximum(off[s, n], _off_edge_m(middle, half, *part))
            gaps[:, k] = off
        return gaps

    def points_m(self, pose: Pose) -> Array:
        """(m,3): points all over the surface."""
        return np.asarray(self._points_m @ pose.rotation.T + pose.position_m)


@functools.lru_cache(maxsize=16)
def hull_of(hand: Hand) -> Hull:
    """The arrays of a hand."""
    return Hull(hand)


def tilt_rad(rotation: Array) -> float:
    """How far the approach is tilted from straight down."""
    x, y, z = rotation[:, 2].tolist()
    return math.atan2(math.hypot(x, y), -z)


def less_tilted(rotation: Array, most_rad: float) -> Array:
    """The rotation, turned back the shortest way until it tilts by no more."""
    excess = tilt_rad(rotation) - most_rad
    if excess <= 0.0:
        return rotation
    x, y, _ = rotation[:, 2].tolist()
    level = math.hypot(x, y)
    axis = np.array([-y, x, 0.0]) / level if level > 1e-9 else np.array([1.0, 0.0, 0.0])
    return np.asarray(rotation_matrix(excess * axis) @ rotation)


def between(start: Pose, end: Pose, part: float) -> Pose:
    """The pose after a part of the straight way; the end itself after all of it."""
    if part == 1.0:
        return end
    turn = rotation_vector(end.rotation @ start.rotation.T)
    move_m = part * (end.position_m - start.position_m)
    return Pose(start.position_m + move_m, rotation_matrix(part * turn) @ start.rotation)


def poses_between(start: Pose, end: Pose, parts: Array) -> tuple[Array, Array]:
    """Positions (s,3) and rotations (s,3,3) after so many parts (s,) of the straight way."""
    turn = rotation_vector(end.rotation @ start.rotation.T)
    angle = length(turn)
    x, y, z = turn / max(angle, 1e-12)
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    sine, cosine = np.sin(angle * parts)[:, None, None], np.cos(angle * parts)[:, None, None]
    turns = np.eye(3) + sine * cross + (1.0 - cosine) * (cross @ cross)
    at_m = start.position_m + parts[:, None] * (end.position_m - start.position_m)
    return at_m, turns @ start.rotation


def _middle_half(box: Box) -> tuple[Array, Array]:
    lower, upper = np.asarray(box.lower_m), np.asarray(box.upper_m)
    return (lower + upper) / 2, (upper - lower) / 2


def _off_edge_m(
    middle: Array, half: Array, centers: Array, rotations: Array, halves: Array, round_m: Array
) -> Array:
    """(m,) Distances of boxes with rounded edges from an axis-aligned one, never more than they
    are: along the line between nearest points, which projecting to and fro finds.
    """
    near = centers
    for _ in range(4):
        on_box = np.clip(near, middle - half, middle + half)
        local = np.einsum("mij,mi->mj", rotations, on_box - centers)
        near = centers + np.einsum("mij,mj->mi", rotations, np.clip(local, -halves, halves))
    way = near - np.clip(near, middle - half, middle + half)
    apart = np.sqrt((way * way).sum(axis=1))
    axis = way / np.maximum(apart, 1e-12)[:, None]
    along = np.abs(np.einsum("mij,mi->mj", rotations, axis))
    off = ((centers - middle) * axis).sum(axis=1) - np.abs(axis) @ half
    off = off - (along * halves).sum(axis=1) - round_m
    return np.where(apart > 1e-9, off, -np.inf)


def _surface(part: HandPart, count: int = 5) -> Array:
    """Points all over the surface of a part: a lattice, drawn in where its edges are rounded."""
    lower, upper = np.array(part.lower_m), np.array(part.upper_m)
    steps = np.stack(np.meshgrid(*3 * [np.linspace(0.0, 1.0, count)]), axis=-1).reshape(-1, 3)
    points = lower + steps * (upper - lower)
    core = np.clip(points, lower + part.round_m, upper - part.round_m)
    out = points - core
    far = np.linalg.norm(out, axis=1, keepdims=True)
    points = core + out * np.minimum(1.0, part.round_m / np.maximum(far, 1e-12))
    return np.asarray(points[((steps == 0.0) | (steps == 1.0)).any(axis=1)])
