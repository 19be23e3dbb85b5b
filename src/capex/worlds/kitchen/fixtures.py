"""The fixtures of the kitchen, each one function that adds it at its place.

Frames as in `parts`: a fixture's origin is the middle of its front on the floor, x into it, y left,
z up. Joint and body names are what reports call the part ("fridge door").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from capex.pose import PlanarPose
from capex.worlds.kitchen.materials import Colour
from capex.worlds.kitchen.parts import Builder

COUNTER_HEIGHT_M = 0.90
COUNTER_DEPTH_M = 0.62
TOE_KICK_M = 0.10
DARK_GLASS: Colour = (0.07, 0.08, 0.09)
BLACK: Colour = (0.12, 0.12, 0.13)
STEEL: Colour = (0.72, 0.73, 0.75)


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


def static(b: Builder, name: str, place: PlanarPose) -> Any:
    return b.body(b.spec.worldbody, name, (place.x, place.y, 0), place.yaw)


def add_front(
    b: Builder, body: Any, y: float, half_width: float, low: float, high: float, drawer: bool
) -> None:
    """A cabinet door or drawer front with its handle: looks only."""
    middle, half = (low + high) / 2, (high - low) / 2
    look = b.materials.cabinet
    b.box(
        body,
        (-0.009, y, middle),
        (0.009, half_width - 0.004, half - 0.004),
        look,
        collide=False,
        face="x",
    )
    trim = b.materials.plain(tuple(0.82 * c for c in b.materials.style.cabinet), 0.2)  # type: ignore[arg-type]
    if not drawer:
        b.box(
            body, (-0.0185, y, middle), (0.001, half_width - 0.05, half - 0.05), trim, collide=False
        )
    z = middle if drawer else high - 0.10
    b.capsule(
        body, (-0.035, y - 0.06, z), (-0.035, y + 0.06, z), 0.007, b.materials.handle, collide=False
    )


def add_worktop(b: Builder, body: Any, width: float) -> None:
    """The top of a counter, the recess at its foot and the tiles behind it."""
    h, d = COUNTER_HEIGHT_M, COUNTER_DEPTH_M
    b.box(
        body,
        (d / 2 + 0.05, 0, TOE_KICK_M / 2),
        (d / 2 - 0.05, width / 2, TOE_KICK_M / 2),
        b.materials.plain(BLACK),
    )
    b.box(body, (d / 2 - 0.01, 0, h - 0.02), (d / 2 + 0.01, width / 2, 0.02), b.materials.counter)
    tiles = b.materials.textured("bricks", b.materials.style.backsplash, repeat=3.0, shine=0.5)
    b.box(body, (d - 0.004, 0, h + 0.25), (0.005, width / 2, 0.25), tiles, collide=False, face="x")


def add_counter(b: Builder, place: PlanarPose, name: str, width: float) -> None:
    """A base cabinet with a worktop: two drawer fronts over two doors, or one of each
    when narrow.
    """
    body = static(b, name, place)
    h, d = COUNTER_HEIGHT_M, COUNTER_DEPTH_M
    b.box(
        body,
        (d / 2 + 0.01, 0, (h - 0.04 + TOE_KICK_M) / 2),
        (d / 2 - 0.01, width / 2, (h - 0.04 - TOE_KICK_M) / 2),
        b.materials.cabinet,
    )
    add_worktop(b, body, width)
    columns = max(1, round(width / 0.5))
    half = width / columns / 2
    for k in range(columns):
        y = width / 2 - half * (2 * k + 1)
        add_front(b, body, y, half, h - 0.22, h - 0.05, True)
        add_front(b, body, y, half, TOE_KICK_M + 0.01, h - 0.23, False)


def add_wall_cabinets(b: Builder, place: PlanarPose, name: str, width: float) -> None:
    """Closed cabinets above a counter, out of the arm's way."""
    body = static(b, name, place)
    low, high, depth = 1.62, 2.25, 0.33
    x = COUNTER_DEPTH_M - depth
    b.box(
        body,
        (x + depth / 2, 0, (low + high) / 2),
        (depth / 2, width / 2, (high - low) / 2),
        b.materials.cabinet,
    )
    columns = max(1, round(width / 0.5))
    half = width / columns / 2
    for k in range(columns):
        y = width / 2 - half * (2 * k + 1)
        b.box(
            body,
            (x - 0.008, y, (low + high) / 2),
            (0.008, half - 0.004, (high - low) / 2 - 0.004),
            b.materials.cabinet,
            collide=False,
            face="x",
        )
        b.capsule(
            body,
            (x - 0.03, y - 0.05, low + 0.06),
            (x - 0.03, y + 0.05, low + 0.06),
            0.006,
            b.materials.handle,
            collide=False,
        )


BURNERS = {  # name -> position on the stove's top, and radius
    "front left": (0.17, 0.145, 0.085),
    "front right": (0.17, -0.145, 0.085),
    "rear left": (0.43, 0.145, 0.075),
    "rear right": (0.43, -0.145, 0.075),
}


def add_stove(b: Builder, place: PlanarPose, width: float = 0.60, *, knobs: bool = True) -> None:
    """A range: oven below, glass top with four burners, knobs on the front (only drawn)."""
    body = static(b, "stove", place)
    h, d = COUNTER_HEIGHT_M, COUNTER_DEPTH_M
    front = b.materials.appliance
    b.box(
        body,
        (d / 2 + 0.01, 0, (h - 0.01 + 0.05) / 2),
        (d / 2 - 0.01, width / 2 - 0.003, (h - 0.06) / 2),
        front,
        face="x",
    )
    b.box(
        body,
        (d / 2, 0, h - 0.005),
        (d / 2, width / 2 - 0.003, 0.005),
        b.materials.plain(DARK_GLASS, 0.9),
    )
    b.box(
        body,
        (0.004, 0, 0.45),
        (0.006, width / 2 - 0.05, 0.20),
        b.materials.plain(DARK_GLASS, 0.9),
        collide=False,
    )
    b.bar_handle(body, (0.01, -0.22, 0.71), (0.01, 0.22, 0.71), (-0.05, 0, 0), b.materials.handle)
    b.box(body, (d - 0.02, 0, h + 0.05), (0.02, width / 2 - 0.003, 0.05), front)
    for x, y, radius in BURNERS.values():
        b.cylinder(
            body,
            (x, y, h),
            (x, y, h + 0.0012),
            radius,
            b.materials.plain((0.38, 0.38, 0.40)),
            collide=False,
        )
        b.cylinder(
            body,
            (x, y, h),
            (x, y, h + 0.0016),
            radius * 0.72,
            b.materials.plain((0.13, 0.12, 0.13)),
            collide=False,
        )
    for k in range(4 if knobs else 0):
        y = 0.20 - 0.133 * k
        b.cylinder(
            body,
            (0.012, y, h - 0.055),
            (-0.022, y, h - 0.055),
            0.020,
            b.materials.handle,
            collide=False,
        )
        b.box(
            body,
            (-0.0225, y, h - 0.045),
            (0.001, 0.002, 0.009),
            b.materials.plain((0.95, 0.95, 0.95)),
            collide=False,
        )


BASIN = (0.50, 0.36, 0.16)  # width, length front to back, depth
BASIN_FRONT_M = 0.10


def add_sink(b: Builder, place: PlanarPose, width: float, *, lever: bool = True) -> None:
    """A sink unit: worktop around a steel basin, faucet behind it (its lever only drawn), doors
    below.
    """
    body = static(b, "sink", place)
    h, d = COUNTER_HEIGHT_M, COUNTER_DEPTH_M
    w, length, deep = BASIN
    steel = b.materials.textured("brushed", STEEL, shine=0.7)
    back = BASIN_FRONT_M + length
    b.box(
        body,
        (d / 2 + 0.05, 0, TOE_KICK_M / 2),
        (d / 2 - 0.05, width / 2, TOE_KICK_M / 2),
        b.materials.plain(BLACK),
    )
    floor = h - deep
    b.box(
        body,
        (d / 2 + 0.01, 0, (floor - 0.01 + TOE_KICK_M) / 2),
        (d / 2 - 0.01, width / 2, (floor - 0.01 - TOE_KICK_M) / 2),
        b.materials.cabinet,
    )
    # Worktop and cabinet around the basin, as four blocks from the basin's floor to the top.
    for centre, half in (
        ((BASIN_FRONT_M / 2 - 0.01, 0), (BASIN_FRONT_M / 2 + 0.01, width / 2)),
        (((back + d) / 2, 0), ((d - back) / 2, width / 2)),
        ((BASIN_FRONT_M + length / 2, (w + width) / 4), (length / 2, (width - w) / 4)),
        ((BASIN_FRONT_M + length / 2, -(w + width) / 4), (length / 2, (width - w) / 4)),
    ):
        b.box(body, (*centre, h - 0.02), (*half, 0.02), b.materials.counter)
        inset = 0.02 if centre[0] < BASIN_FRONT_M else 0.0
        b.box(
            body,
            (centre[0] + inset / 2, centre[1], h - 0.04 - (deep - 0.04) / 2),
            (half[0] - inset / 2, half[1], (deep - 0.04) / 2),
            b.materials.cabinet,
        )
    b.box(body, (BASIN_FRONT_M + length / 2, 0, floor - 0.005), (length / 2, w / 2, 0.005), steel)
    for x, y, hx, hy in (
        (BASIN_FRONT_M + 0.003, 0, 0.003, w / 2),
        (back - 0.003, 0, 0.003, w / 2),
        (BASIN_FRONT_M + length / 2, w / 2 - 0.003, length / 2, 0.003),
        (BASIN_FRONT_M + length / 2, -w / 2 + 0.003, length / 2, 0.003),
    ):
        b.box(body, (x, y, h - deep / 2 + 0.001), (hx, hy, deep / 2), steel)
    b.cylinder(
        body,
        (BASIN_FRONT_M + length / 2, 0, floor),
        (BASIN_FRONT_M + length / 2, 0, floor + 0.001),
        0.028,
        b.materials.plain((0.50, 0.51, 0.53), 0.8),
        collide=False,
    )
    chrome = b.materials.plain((0.78, 0.79, 0.81), 0.9)
    stem = back + 0.06
    b.cylinder(body, (stem, 0, h), (stem, 0, h + 0.02), 0.028, chrome)
    b.capsule(body, (stem, 0, h + 0.02), (stem, 0, h + 0.26), 0.013, chrome)
    b.capsule(body, (stem, 0, h + 0.26), (stem - 0.13, 0, h + 0.29), 0.012, chrome)
    b.capsule(body, (stem - 0.13, 0, h + 0.29), (stem - 0.15, 0, h + 0.23), 0.012, chrome)
    if lever:
        b.capsule(body, (stem, 0.012, h + 0.05), (stem, 0.07, h + 0.075), 0.008, chrome)
    tiles = b.materials.textured("bricks", b.materials.style.backsplash, repeat=3.0, shine=0.5)
    b.box(body, (d - 0.004, 0, h + 0.25), (0.005, width / 2, 0.25), tiles, collide=False, face="x")
    for y in (width / 4, -width / 4):
        add_front(b, body, y, width / 4, TOE_KICK_M + 0.01, h - 0.05, False)


def add_hood(b: Builder, place: PlanarPose, width: float = 0.60) -> None:
    """The extractor above the stove."""
    body = static(b, "hood", place)
    b.box(body, (COUNTER_DEPTH_M - 0.24, 0, 1.66), (0.24, width / 2, 0.04), b.materials.appliance)
    b.box(body, (COUNTER_DEPTH_M - 0.14, 0, 1.98), (0.14, 0.15, 0.28), b.materials.appliance)


def add_room(b: Builder, wall_x: float, low_y: float, high_y: float) -> None:
    """Floor and walls."""
    world = b.spec.worldbody
    s = b.materials.style
    floor = b.body(world, "floor")
    kind = b.materials.textured(
        s.floor_kind, s.floor, repeat=1.0 if s.floor_kind == "wood" else 0.8, shine=0.3
    )
    middle, half = (low_y + high_y) / 2, (high_y - low_y) / 2
    # room beside the row, so that no wall stands between a robot at its end and the robot's cameras
    side = 1.3
    b.box(floor, (wall_x - 2.0, middle, -0.05), (2.2, half + side, 0.05), kind)
    paint = b.materials.plain(s.wall, 0.05)
    wall = b.body(world, "wall")
    b.box(wall, (wall_x + 0.05, middle, 1.3), (0.05, half + side, 1.3), paint)
    b.box(wall, (wall_x - 2.0, low_y - side, 1.3), (2.2, 0.05, 1.3), paint)
    b.box(wall, (wall_x - 2.0, high_y + side, 1.3), (2.2, 0.05, 1.3), paint)
