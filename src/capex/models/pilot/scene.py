"""One decision as the pilot sees it: the page, the brief, the views, and what every
skill shares.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from capex.models.pilot.chance import Chance
from capex.models.pilot.eyes import Pixel, Shape, View
from capex.models.pilot.ground import Feature, Move
from capex.models.pilot.page import Brief, Page
from capex.plan import Orientation
from capex.pose import DOWN, Array, matrix_to_euler, yaw_matrix

LEG_M = 0.09
REACH_M = (
    (0.30, 0.43, 0.52, 0.60, 0.69),
    (0.80, 0.69, 0.64, 0.58, 0.48),
)  # by distance, how high the hand gets when it points down


@dataclass(frozen=True)
class Scene:
    """Everything a skill may look at."""

    page: Page
    brief: Brief
    views: dict[str, View]
    chance: Chance
    blur_px: float  # how noisy the eyes are, in pixels of a 512 image

    @property
    def tip(self) -> Array:
        """Where the tip is."""
        return self.page.tip_m

    def exterior(self) -> list[View]:
        """The views from outside that are there."""
        return [self.views[c] for c in ("left", "right") if c in self.views]

    def spot(self, name: str, view: View, pixel: Pixel) -> Pixel:
        """A pixel as noisy eyes see it, inside the image."""
        blur = self.blur_px * view.height / 512
        u = pixel[0] + blur * self.chance.normal(f"{view.camera} {name} u")
        v = pixel[1] + blur * self.chance.normal(f"{view.camera} {name} v")
        return round(min(max(u, 0.5), view.width - 0.5), 1), round(
            min(max(v, 0.5), view.height - 0.5), 1
        )

    def feature(
        self, name: str, spots: Mapping[str, Sequence[Pixel]], height_m: float = 0.47
    ) -> Feature:
        """Pixels by camera, seen with noise."""
        seen = {
            c: [self.spot(f"{name} {k}", self.views[c], p) for k, p in enumerate(row)]
            for c, row in spots.items()
        }
        return Feature(name, seen, height_m)

    def points_down(self) -> bool:
        """Whether the hand points down, within 20 degrees."""
        return bool(self.page.rotation[2, 2] < -0.94)

    def forward(self) -> bool:
        """Whether the hand points forward, within 25 degrees."""
        return bool(self.page.rotation[0, 2] > 0.90)


def line(
    start: Array,
    end: Array,
    orientation: Orientation = "keep",
    gripper: str = "keep",
    touch: bool = False,
) -> list[Move]:
    """Waypoints along a straight line; the gripper command and the touch come at its end."""
    count = max(1, math.ceil(float(np.linalg.norm(end - start)) / LEG_M - 1e-9))
    points = [start + (end - start) * (k + 1) / count for k in range(count)]
    return [Move(p, orientation) for p in points[:-1]] + [
        Move(points[-1], orientation, gripper, touch)
    ]


def path(start: Array, points: Sequence[Array], orientation: Orientation = "keep") -> list[Move]:
    """Straight lines through points."""
    moves: list[Move] = []
    for point in points:
        moves += line(start, point, orientation)
        start = point
    return moves


def ceiling(point: Array) -> float:
    """How high the hand can be at a place, pointing down."""
    return float(np.interp(math.hypot(point[0], point[1]), REACH_M[0], REACH_M[1]))


def raised(point: Array, by_m: float) -> Array:
    """A point lifted, but not above what the arm reaches there."""
    return np.array([point[0], point[1], max(point[2], min(point[2] + by_m, ceiling(point)))])


def down(yaw_rad: float) -> tuple[float, float, float]:
    """Pointing down, fingers turned about the vertical; half turns are the same grasp, so the
    smaller one is taken.
    """
    yaw = (yaw_rad + math.pi / 2) % math.pi - math.pi / 2
    roll, pitch, turn = matrix_to_euler(yaw_matrix(yaw) @ DOWN)
    return round(roll), round(pitch), round(turn)


def spots_on(shape: Shape, along: Sequence[float]) -> list[Pixel]:
    """Pixels of a region at fractions of its long axis."""
    return [shape.along(a) for a in along]
