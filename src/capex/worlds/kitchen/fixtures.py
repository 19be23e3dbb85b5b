"""The fixtures of the kitchen, each one function that adds it at its place.

Frames as in `parts`: a fixture's origin is the middle of its front on the floor, x into it, y left,
z up. Joint and body names are what reports call the part ("fridge door").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from capex.pose import PlanarPose
from capex.worlds.kitchen.materials import Colour
from capex.worlds.kitchen.parts import Builder

COUNTER_HEIGHT_M = 0.90  # the usual height; the reach maps cover it with the hand pointing down
COUNTER_DEPTH_M = 0.62  # the usual depth
TOE_KICK_M = 0.10  # height of the recess at a unit's foot
DARK_GLASS: Colour = (0.07, 0.08, 0.09)
BLACK: Colour = (0.10, 0.10, 0.11)
SHADOW: Colour = (0.12, 0.12, 0.13)
STEEL: Colour = (0.72, 0.73, 0.75)
CHROME: Colour = (0.78, 0.79, 0.81)


@dataclass(frozen=True)
class Fixture:
    """A unit of the row: where it stands in the world, and its width."""

    name: str
    pose: PlanarPose
    width: float = 0.0

    @property
    def x(self) -> float:
        """Where its front stands."""
        return self.pose.x

    @property
    def y(self) -> float:
        """Where its middle stands along the row."""
        return self.pose.y


def add_carcass(b: Builder, body: Any, y: float, width: float, top: float) -> None:
    """The block of a base cabinet, from the recess at its foot up to a height."""
    centre = (COUNTER_DEPTH_M / 2 + 0.01, y, (top + TOE_KICK_M) / 2)
    half = (COUNTER_DEPTH_M / 2 - 0.01, width / 2, (top - TOE_KICK_M) / 2)
    b.box(body, centre, half, b.materials.cabinet)


def add_toe_kick(b: Builder, body: Any, width: float) -> None:
    """The dark recess at a unit's foot."""
    d, half = COUNTER_DEPTH_M, TOE_KICK_M / 2
    b.box(body, (d / 2 + 0.05, 0, half), (d / 2 - 0.05, width / 2, half), SHADOW)


def add_tiles(b: Builder, body: Any, width: float) -> None:
    """The tiles on the wall behind a unit."""
    centre = (COUNTER_DEPTH_M - 0.004, 0, COUNTER_HEIGHT_M + 0.25)
    b.drawn.box(body, centre, (0.005, width / 2, 0.25), b.materials.backsplash, face="x")


def add_front(
    b: Builder, body: Any, y: float, half_width: float, low: float, high: float, drawer: bool
) -> None:
    """A cabinet door or drawer front with its handle: looks only."""
    middle, half, look = (low + high) / 2, (high - low) / 2, b.materials.cabinet
    face = (0.009, half_width - 0.004, half - 0.004)
    b.drawn.box(body, (-0.009, y, middle), face, look, face="x")
    trim = b.materials.trim
    if not drawer:
        b.drawn.box(body, (-0.0185, y, middle), (0.001, half_width - 0.05, half - 0.05), trim)
    z = middle if drawer else high - 0.10
    handle = b.materials.handle
    b.drawn.capsule(body, (-0.035, y - 0.06, z), (-0.035, y + 0.06, z), 0.007, handle)


def add_worktop(b: Builder, body: Any, width: float) -> None:
    """The top of a counter, the recess at its foot and the tiles behind it."""
    h, d = COUNTER_HEIGHT_M, COUNTER_DEPTH_M
    add_toe_kick(b, body, width)
    b.box(body, (d / 2 - 0.01, 0, h - 0.02), (d / 2 + 0.01, width / 2, 0.02), b.materials.counter)
    add_tiles(b, body, width)


def _columns(width: float) -> Iterator[tuple[float, float]]:
    """Middle and half width of the fronts side by side on a unit, each about half a metre wide."""
    count = max(1, round(width / 0.5))
    half = width / count / 2
    for k in range(count):
        yield width / 2 - half * (2 * k + 1), half


def add_counter(b: Builder, place: PlanarPose, name: str, width: float) -> None:
    """A base cabinet with a worktop: two drawer fronts over two doors, one of each when narrow."""
    body, h = b.fixture(name, place), COUNTER_HEIGHT_M
    add_carcass(b, body, 0, width, h - 0.04)
    add_worktop(b, body, width)
    for y, half in _columns(width):
        add_front(b, body, y, half, h - 0.22, h - 0.05, True)
        add_front(b, body, y, half, TOE_KICK_M + 0.01, h - 0.23, False)


def add_wall_cabinets(b: Builder, place: PlanarPose, name: str, width: float) -> None:
    """Closed cabinets above a counter, out of the arm's way."""
    body = b.fixture(name, place)
    low, high, depth = 1.62, 2.25, 0.33
    x, z, half_z, look = (
        COUNTER_DEPTH_M - depth,
        (low + high) / 2,
        (high - low) / 2,
        b.materials.cabinet,
    )
    b.box(body, (x + depth / 2, 0, z), (depth / 2, width / 2, half_z), look)
    for y, half in _columns(width):
        b.drawn.box(body, (x - 0.008, y, z), (0.008, half - 0.004, half_z - 0.004), look, face="x")
        start, end = (x - 0.03, y - 0.05, low + 0.06), (x - 0.03, y + 0.05, low + 0.06)
        b.drawn.capsule(body, start, end, 0.006, b.materials.handle)


BURNERS = {  # name -> position on the stove's top, and radius
    "front left": (0.17, 0.145, 0.085),
    "front right": (0.17, -0.145, 0.085),
    "rear left": (0.43, 0.145, 0.075),
    "rear right": (0.43, -0.145, 0.075),
}


def add_stove(b: Builder, place: PlanarPose, width: float = 0.60, *, knobs: bool = True) -> None:
    """A range: oven below, glass top with four burners, knobs on the front (only drawn)."""
    body = b.fixture("stove", place)
    h, d, front = COUNTER_HEIGHT_M, COUNTER_DEPTH_M, b.materials.appliance
    half, glass = width / 2 - 0.003, (*DARK_GLASS, 0.9)
    centre = (d / 2 + 0.01, 0, (h - 0.01 + 0.05) / 2)
    b.box(body, centre, (d / 2 - 0.01, half, (h - 0.06) / 2), front, face="x")
    b.box(body, (d / 2, 0, h - 0.005), (d / 2, half, 0.005), glass)
    b.drawn.box(body, (0.004, 0, 0.45), (0.006, width / 2 - 0.05, 0.20), glass)
    b.bar_handle(body, (0.01, -0.22, 0.71), (0.01, 0.22, 0.71), (-0.05, 0, 0), b.materials.handle)
    b.box(body, (d - 0.02, 0, h + 0.05), (0.02, half, 0.05), front)
    for x, y, radius in BURNERS.values():
        foot = (x, y, h)
        b.drawn.cylinder(body, foot, (x, y, h + 0.0012), radius, (0.38, 0.38, 0.40))
        b.drawn.cylinder(body, foot, (x, y, h + 0.0016), radius * 0.72, (0.13, 0.12, 0.13))
    for k in range(4 if knobs else 0):
        y, z = 0.20 - 0.133 * k, h - 0.055
        b.drawn.cylinder(body, (0.012, y, z), (-0.022, y, z), 0.020, b.materials.handle)
        b.drawn.box(body, (-0.0225, y, h - 0.045), (0.001, 0.002, 0.009), (0.95, 0.95, 0.95))


BASIN = (0.50, 0.36, 0.16)  # width, length front to back, depth
BASIN_FRONT_M = 0.10  # the worktop before the basin


def add_sink(b: Builder, place: PlanarPose, width: float, *, lever: bool = True) -> None:
    """A sink unit: worktop, steel basin, faucet behind it (its lever only drawn), doors below."""
    body = b.fixture("sink", place)
    h, d = COUNTER_HEIGHT_M, COUNTER_DEPTH_M
    w, length, deep = BASIN
    steel = b.materials.brushed(STEEL, 0.7)
    back, middle, floor = BASIN_FRONT_M + length, BASIN_FRONT_M + length / 2, h - deep
    add_toe_kick(b, body, width)
    add_carcass(b, body, 0, width, floor - 0.01)
    # Worktop and cabinet around the basin, as four blocks from the basin's floor to the top.
    for centre, half in (
        ((BASIN_FRONT_M / 2 - 0.01, 0), (BASIN_FRONT_M / 2 + 0.01, width / 2)),
        (((back + d) / 2, 0), ((d - back) / 2, width / 2)),
        ((middle, (w + width) / 4), (length / 2, (width - w) / 4)),
        ((middle, -(w + width) / 4), (length / 2, (width - w) / 4)),
    ):
        b.box(body, (*centre, h - 0.02), (*half, 0.02), b.materials.counter)
        inset = 0.02 if centre[0] < BASIN_FRONT_M else 0.0
        below = (centre[0] + inset / 2, centre[1], h - 0.04 - (deep - 0.04) / 2)
        half_below = (half[0] - inset / 2, half[1], (deep - 0.04) / 2)
        b.box(body, below, half_below, b.materials.cabinet)
    b.box(body, (middle, 0, floor - 0.005), (length / 2, w / 2, 0.005), steel)
    for x, y, hx, hy in (
        (BASIN_FRONT_M + 0.003, 0, 0.003, w / 2),
        (back - 0.003, 0, 0.003, w / 2),
        (middle, w / 2 - 0.003, length / 2, 0.003),
        (middle, -w / 2 + 0.003, length / 2, 0.003),
    ):
        b.box(body, (x, y, h - deep / 2 + 0.001), (hx, hy, deep / 2), steel)
    drain = (0.50, 0.51, 0.53, 0.8)
    b.drawn.cylinder(body, (middle, 0, floor), (middle, 0, floor + 0.001), 0.028, drain)
    chrome = b.materials.plain(CHROME, 0.9)
    stem = back + 0.06
    b.cylinder(body, (stem, 0, h), (stem, 0, h + 0.02), 0.028, chrome)
    b.capsule(body, (stem, 0, h + 0.02), (stem, 0, h + 0.26), 0.013, chrome)
    b.capsule(body, (stem, 0, h + 0.26), (stem - 0.13, 0, h + 0.29), 0.012, chrome)
    b.capsule(body, (stem - 0.13, 0, h + 0.29), (stem - 0.15, 0, h + 0.23), 0.012, chrome)
    if lever:
        b.capsule(body, (stem, 0.012, h + 0.05), (stem, 0.07, h + 0.075), 0.008, chrome)
    add_tiles(b, body, width)
    for y in (width / 4, -width / 4):
        add_front(b, body, y, width / 4, TOE_KICK_M + 0.01, h - 0.05, False)


def add_hood(b: Builder, place: PlanarPose, width: float = 0.60) -> None:
    """The extractor above the stove."""
    body = b.fixture("hood", place)
    b.box(body, (COUNTER_DEPTH_M - 0.24, 0, 1.66), (0.24, width / 2, 0.04), b.materials.appliance)
    b.box(body, (COUNTER_DEPTH_M - 0.14, 0, 1.98), (0.14, 0.15, 0.28), b.materials.appliance)


def add_room(b: Builder, wall_x: float, low_y: float, high_y: float) -> None:
    """Floor and walls."""
    world, s = b.spec.worldbody, b.materials.style
    floor = b.body(world, "floor")
    repeat = 1.0 if s.floor_kind == "wood" else 0.8
    kind = b.materials.textured(s.floor_kind, s.floor, repeat=repeat, shine=0.3)
    middle, half = (low_y + high_y) / 2, (high_y - low_y) / 2
    # room beside the row, so that no wall stands between a robot at its end and the robot's cameras
    side = 1.3
    b.box(floor, (wall_x - 2.0, middle, -0.05), (2.2, half + side, 0.05), kind)
    paint = b.materials.plain(s.wall, 0.05)
    wall = b.body(world, "wall")
    b.box(wall, (wall_x + 0.05, middle, 1.3), (0.05, half + side, 1.3), paint)
    b.box(wall, (wall_x - 2.0, low_y - side, 1.3), (2.2, 0.05, 1.3), paint)
    b.box(wall, (wall_x - 2.0, high_y + side, 1.3), (2.2, 0.05, 1.3), paint)
