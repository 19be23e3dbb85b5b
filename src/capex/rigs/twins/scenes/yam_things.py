"""What lies before the YAM arms: a plate, a toy bread and a toy corn, or a bowl with a rim."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import mujoco

from capex.rigs.twins.scenes.common import SceneObject
from capex.worlds.kitchen.parts import DISH, Builder
from capex.worlds.kitchen.robot import VISUAL

PLATE_RADIUS_M, PLATE_HEIGHT_M, PLATE_KG = 0.115, 0.012, 0.45
BREAD_HALF_M, BREAD_KG = (0.045, 0.030, 0.024), 0.06  # soft toys of a play kitchen: light
CORN_HALF_M, CORN_KG = (0.055, 0.019, 0.019), 0.05
# The wall leans as much as a gripper that reaches over the rim: pads and wall are parallel.
BOWL_BASE_M, BOWL_RIM_M, BOWL_HEIGHT_M, BOWL_WALL_M, BOWL_KG = 0.048, 0.075, 0.070, 0.004, 0.14
BOWL_LEAN_RAD = math.atan2(BOWL_RIM_M - BOWL_BASE_M, BOWL_HEIGHT_M)
WHITE, CRUST, CUT = (0.90, 0.91, 0.94, 0.5), (0.74, 0.47, 0.20, 1.0), (0.93, 0.80, 0.56, 1.0)
RIM = (0.35, 0.45, 0.62, 0.5)
YELLOW, HUSK, BLUE = (0.98, 0.80, 0.12, 0.3), (0.28, 0.55, 0.16, 0.3), (0.16, 0.40, 0.72)


def _add_plate(b: Builder, body: Any) -> None:
    """A thin cylinder sinks into a box: three crossed bars carry what is drawn as a disc."""
    r, h = PLATE_RADIUS_M, PLATE_HEIGHT_M
    half = (r * math.cos(math.pi / 6), r * math.sin(math.pi / 6), (h - 0.004) / 2)
    for k in range(3):
        turn = (math.cos(k * math.pi / 6), 0.0, 0.0, math.sin(k * math.pi / 6))
        b.felt.box(body, (0, 0, half[2]), half, quat=turn, mass=PLATE_KG / 3, **DISH)
    flat = h - 0.004
    b.turned(body, [(0.0, 0.0), (0.72 * r, 0.0), (r, h)], WHITE)
    b.turned(body, [(r, h), (0.92 * r, h - 0.001)], RIM)
    b.turned(body, [(0.92 * r, h - 0.001), (0.80 * r, flat), (0.0, flat)], WHITE)


def _add_bread(b: Builder, body: Any) -> None:
    """A roll with three cuts across its crust."""
    b.felt.box(body, (0, 0, 0), BREAD_HALF_M, mass=BREAD_KG, **DISH)
    ball = mujoco.mjtGeom.mjGEOM_ELLIPSOID
    x, y, z = BREAD_HALF_M
    body.add_geom(type=ball, size=(1.08 * x, 1.08 * y, 1.1 * z), rgba=CRUST, **VISUAL)
    for at in (-0.5, 0.0, 0.5):
        size, pos = (0.004, 0.6 * y, 0.006), (at * x, 0.0, (0.98 - 0.5 * at * at) * z)
        body.add_geom(type=ball, size=size, pos=pos, rgba=CUT, **VISUAL)


def _add_corn(b: Builder, body: Any) -> None:
    """A cob along x with a green end."""
    b.felt.box(body, (0, 0, 0), CORN_HALF_M, mass=CORN_KG, **DISH)
    x, _, r = CORN_HALF_M
    cob = [(1.08 * r, -0.4 * x), (0.9 * r, 0.4 * x), (0.5 * r, x - 0.004), (0.0, x + 0.004)]
    b.turned(body, cob, YELLOW, axis="x")
    husk = [(0.0, -x - 0.006), (0.95 * r, -0.8 * x), (1.08 * r, -0.4 * x)]
    b.turned(body, husk, HUSK, axis="x")


def _add_bowl(b: Builder, body: Any) -> None:
    base, rim, height, wall = BOWL_BASE_M, BOWL_RIM_M, BOWL_HEIGHT_M, BOWL_WALL_M
    slant = height / math.cos(BOWL_LEAN_RAD)
    middle = (base + rim - wall) / 2
    low = (height - slant) / 2
    b.ring(body, middle, low, slant, BOWL_LEAN_RAD, 0.6 * BOWL_KG, wall_m=wall, **DISH)
    side = 0.70 * base
    b.felt.box(body, (0, 0, 0.004), (side, side, 0.002), mass=0.3 * BOWL_KG, **DISH)
    b.feet(body, 0.8 * base, 0.1 * BOWL_KG)
    outside, inside = (b.materials.lit(BLUE, glow, 0.4) for glow in (0.30, 0.12))
    b.turned(body, [(0.0, 0.001), (base, 0.0), (rim, height)], outside)
    b.turned(body, [(rim, height), (rim - wall, height)], outside)
    b.turned(body, [(rim - wall, height), (base - wall, 0.006), (0.0, 0.006)], inside)


OBJECTS: Mapping[str, SceneObject] = MappingProxyType(
    {
        "bread": SceneObject(
            _add_bread, math.hypot(*BREAD_HALF_M[:2]), 2 * BREAD_HALF_M[2], BREAD_HALF_M[2]
        ),
        "corn": SceneObject(
            _add_corn, math.hypot(*CORN_HALF_M[:2]), 2 * CORN_HALF_M[2], CORN_HALF_M[2]
        ),
        "plate": SceneObject(_add_plate, PLATE_RADIUS_M, PLATE_HEIGHT_M),
        "bowl": SceneObject(_add_bowl, BOWL_RIM_M, BOWL_HEIGHT_M),
    }
)
