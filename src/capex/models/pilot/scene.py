"""One decision as the pilot sees it: the page, the brief, the views, and what every
skill shares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import capex.plan as plan
from capex.models.pilot.chance import Chance
from capex.models.pilot.eyes import Pixel, Shape, View
from capex.models.pilot.ground import Feature, Move
from capex.models.pilot.page import Brief, Page
from capex.plan import Gripper, Orientation
from capex.pose import Array

# A hair more than the experts': positions are read off a page in whole centimetres, and a line of
# exactly 18 cm is to have two legs.
LEG_M = plan.LEG_M * (1 + 1e-9)


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
    gripper: Gripper = "keep",
    touch: bool = False,
) -> list[Move]:
    """Moves along a straight line; the gripper command and the touch come at its end."""
    *way, last = plan.line(start, end, orientation, gripper, LEG_M)
    return [*(Move(target) for target in way), Move(last, touch)]


def path(start: Array, points: Sequence[Array], orientation: Orientation = "keep") -> list[Move]:
    """Straight lines through points."""
    return [Move(target) for target in plan.path(start, points, orientation, LEG_M)]


def down(yaw_rad: float) -> tuple[float, float, float]:
    """Pointing down, fingers turned about the vertical, in whole degrees as a model would write."""
    roll, pitch, turn = plan.down(yaw_rad)
    return round(roll), round(pitch), round(turn)


def spots_on(shape: Shape, along: Sequence[float]) -> list[Pixel]:
    """Pixels of a region at fractions of its long axis."""
    return [shape.along(a) for a in along]
