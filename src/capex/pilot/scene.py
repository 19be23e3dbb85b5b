"""One decision: page, brief, views, and the motions that skills share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

import capex.plan as plan
from capex.pilot.biases import TUNED, Biases, Noise
from capex.pilot.grounding import Feature, Move, apart
from capex.pilot.prompt import Brief, Page
from capex.pilot.segmentation import Pixel, View
from capex.plan import Gripper, Orientation
from capex.pose import Array, tilted_forward

# Slightly more than the experts': observed positions are whole centimetres, and a line of exactly
# 18 cm is to have two legs.
LEG_M = plan.LEG_M * (1 + 1e-9)
OPEN_M = 0.07  # fingers this far apart count as open: a Panda's hand opens 8 cm
SHUT_M = 0.01  # and no farther than this as shut
THERE_M = 0.012  # a point this near needs no waypoint: the page rounds to centimetres
FINGER_END_M = 0.0125  # the closed fingers end this far before the tip

WRIST = "wrist"  # how the names of cameras on a hand end
BACK = np.array([-0.09, 0.0, 0.0])  # one leg towards the robot, out of the line of sight


@dataclass(frozen=True)
class Scene:
    """Everything a skill may look at."""

    page: Page
    brief: Brief
    views: dict[str, View]
    noise: Noise
    blur_px: float  # noise of every pixel, in pixels of a 512 image
    biases: Biases = TUNED
    arm: str = ""  # the one of several that it is about

    def of(self, arm: str) -> Scene:
        """The scene of one of several arms: its page, and its wrist camera as `wrist`."""
        views = {v.camera: v for v in self.outside()}
        if own := self.views.get(f"{arm}_{WRIST}"):
            views[WRIST] = replace(own, camera=WRIST)
        return replace(self, page=self.page.of(arm), brief=self.brief.of(arm), views=views, arm=arm)

    @property
    def side(self) -> float:
        """The sign of the y on an arm's own side; 0 where there is one arm only."""
        return {"left": 1.0, "right": -1.0}.get(self.arm, 0.0)

    @property
    def tip(self) -> Array:
        """Where the tip is."""
        return self.page.tip_m

    def exterior(self) -> list[View]:
        """The views from outside that are there."""
        return [self.views[c] for c in ("left", "right") if c in self.views]

    def outside(self) -> list[View]:
        """Every view that is not a hand's: on a rig cameras have names of their own."""
        return [v for v in self.views.values() if not v.camera.endswith(WRIST)]

    def ceiling(self, point_m: Array) -> float:
        """How high a hand that points down can be over a point."""
        if self.brief.ceiling_m is plan.CEILING_M:
            return plan.ceiling(point_m)
        return float(np.interp(point_m[0], *self.brief.ceiling_m))

    def raised(self, point_m: Array, by_m: float) -> Array:
        """A point lifted, but not above the ceiling of its place."""
        x, y, z = point_m
        return np.array([x, y, max(z, min(z + by_m, self.ceiling(point_m)))])

    def wrist_view(self) -> View | None:
        """The wrist view, when the hand points down."""
        return self.views.get("wrist") if self.points_down() else None

    def spot(self, name: str, view: View, pixel: Pixel) -> Pixel:
        """A pixel with noise, inside the image."""
        blur = self.blur_px * view.height / 512
        u = pixel[0] + blur * self.noise.normal(f"{view.camera} {name} u")
        v = pixel[1] + blur * self.noise.normal(f"{view.camera} {name} v")
        u, v = min(max(u, 0.5), view.width - 0.5), min(max(v, 0.5), view.height - 0.5)
        return round(u, 1), round(v, 1)

    def ask(
        self, name: str, spots: Mapping[str, Sequence[Pixel]], height_m: float = 0.47
    ) -> list[Feature]:
        """A feature with its pixels by camera, seen with noise; none where no view shows it."""
        seen = {
            c: [self.spot(f"{name} {k}", self.views[c], p) for k, p in enumerate(row)]
            for c, row in spots.items()
        }
        return [Feature(name, seen, height_m)] if seen else []

    def points_down(self) -> bool:
        """Whether the hand points down, within 20 degrees."""
        return bool(self.page.rotation[2, 2] < -0.94)

    def forward(self) -> bool:
        """Whether the hand points forward, within 25 degrees."""
        return bool(self.page.rotation[0, 2] > 0.90)

    def downwards(self) -> Orientation:
        """The orientation of a hand that is to point down: as it is, where it does."""
        return "keep" if self.points_down() else "down"

    def yaw_in_wrist_view(self, du: float, dv: float) -> float:
        """The yaw of a direction in the wrist view, whose upper edge is the hand's front."""
        hand = math.atan2(self.page.rotation[1, 0], self.page.rotation[0, 0])
        return hand + math.atan2(-du, -dv)

    def axis(self, column: int) -> Array:
        """The level direction of one of the hand's axes."""
        level = self.page.rotation[:2, column] / np.linalg.norm(self.page.rotation[:2, column])
        return np.array([level[0], level[1], 0.0])

    def opened(self, orientation: Orientation = "keep") -> list[Move]:
        """Open the fingers, where they are not open."""
        wide = self.page.opening_m >= OPEN_M
        return [] if wide else [Move(plan.at(self.tip, orientation, "open"))]

    def shut(self, orientation: Orientation = "keep") -> list[Move]:
        """Close the fingers, where they are not shut."""
        narrow = self.page.opening_m <= SHUT_M
        return [] if narrow else [Move(plan.at(self.tip, orientation, "close"))]

    def untried(self, goals: Sequence[Array], within_m: float) -> Array | None:
        """The first of some goals that is neither where the tip is nor where it was just sent."""
        known = [self.tip, *self.page.recent_m()]
        return next((g for g in goals if all(apart(g, p) > within_m for p in known)), None)


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


def push(start: Array, points: Sequence[Array], orientation: Orientation) -> list[Move]:
    """Straight lines through points, each ending in a touch."""
    starts = (start, *points)
    legs = zip(starts, points, strict=False)
    return [m for a, b in legs for m in line(a, b, orientation, touch=True)]


def beyond(tip: Array, *points: Array) -> list[Array]:
    """The points that are not where the tip is already."""
    return [p for p in points if apart(p, tip) > THERE_M]


def down(yaw_rad: float) -> tuple[float, float, float]:
    """Pointing down, fingers turned about the vertical, in whole degrees as a model would write."""
    roll, pitch, turn = plan.down(yaw_rad)
    return round(roll), round(pitch), round(turn)


def forward(yaw_rad: float) -> tuple[float, float, float]:
    """Pointing forward, turned about the vertical, in whole degrees."""
    roll, pitch, turn = tilted_forward(0.0, yaw_rad)
    return round(roll), round(pitch), round(turn)
