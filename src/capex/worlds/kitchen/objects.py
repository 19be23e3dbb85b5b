"""Movable objects beside food: dishes, mugs, groceries, lids and the clutter between them.

Masses stay at 0.3 kg or less: that is what the arm lifts without sagging out of its tolerance.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from capex.worlds.kitchen.food import DISH
from capex.worlds.kitchen.materials import Colour
from capex.worlds.kitchen.parts import BOX, CYLINDER, HIDDEN, Builder

PLATE_RADIUS_M = 0.105
PLATE_FLOOR_M = 0.010  # height of the plate's upper surface
PAN_RADIUS_M = 0.125
PAN_FLOOR_M = 0.008


def _dish_floor(body: Any, radius: float, low: float, high: float, mass: float) -> None:
    """The floor of a dish: a square box, because boxes meet capsules and balls in analytic
    contacts.
    """
    half = 0.72 * radius
    body.add_geom(
        type=BOX,
        pos=(0, 0, (low + high) / 2),
        size=(half, half, (high - low) / 2),
        mass=mass,
        **HIDDEN,
        **DISH,
    )


def _upright_cylinder(b: Builder, body: Any, radius: float, height: float, mass: float) -> None:
    """What a mug, can or bottle feels like: a cylinder on three feet."""
    body.add_geom(
        type=CYLINDER,
        pos=(0, 0, height / 2 + 0.001),
        size=(radius, height / 2 - 0.001, 0),
        mass=0.9 * mass,
        **HIDDEN,
        **DISH,
    )
    b.feet(body, 0.85 * radius, 0.1 * mass, **DISH)


def add_plate(b: Builder, body: Any, colour: Colour = (0.95, 0.95, 0.93)) -> None:
    """A plate with a raised rim."""
    r = PLATE_RADIUS_M
    _dish_floor(body, r, 0.002, PLATE_FLOOR_M, 0.25)
    b.feet(body, 0.6 * r, 0.1, **DISH)
    b.ring(body, 0.86 * r, 0.004, 0.026, 0.008, 1.05, 0.15)
    outline = [
        (0.0, 0.001),
        (0.7 * r, 0.0),
        (r, 0.020),
        (0.99 * r, 0.023),
        (0.72 * r, PLATE_FLOOR_M),
        (0.0, PLATE_FLOOR_M),
    ]
    b.turned(body, outline, b.materials.plain(colour, 0.7))
    b.turned(
        body, [(0.985 * r, 0.0225), (0.90 * r, 0.0195)], b.materials.plain((0.30, 0.42, 0.62), 0.7)
    )


def add_pan(b: Builder, body: Any) -> None:
    """A frying pan; its handle points along -x of its own frame."""
    r = PAN_RADIUS_M
    _dish_floor(body, r, 0.002, PAN_FLOOR_M, 0.6)
    b.feet(body, 0.75 * r, 0.1, **DISH)
    b.ring(body, 0.97 * r, 0.005, 0.041, 0.008, 0.22, 0.25)
    outer = [(0.0, 0.0), (0.93 * r, 0.0), (1.03 * r, 0.045), (1.0 * r, 0.046)]
    inner = [(1.0 * r, 0.046), (0.90 * r, PAN_FLOOR_M), (0.0, PAN_FLOOR_M)]
    b.turned(body, outer, b.materials.plain((0.16, 0.16, 0.17), 0.5))
    b.turned(body, inner, b.materials.plain((0.30, 0.30, 0.31), 0.6))
    b.capsule(
        body,
        (-r - 0.005, 0, 0.038),
        (-r - 0.15, 0, 0.052),
        0.011,
        b.materials.plain((0.10, 0.10, 0.10)),
        mass=0.12,
    )


def _mug(b: Builder, body: Any, colour: Colour, r: float = 0.038, mass: float = 0.25) -> None:
    h = 0.092
    _upright_cylinder(b, body, r, h, mass)
    outline = [
        (0.0, 0.0),
        (0.9 * r, 0.0),
        (r, 0.01),
        (r, h),
        (0.9 * r, h),
        (0.88 * r, 0.012),
        (0.0, 0.010),
    ]
    b.turned(body, outline, b.materials.plain(colour, 0.6))
    for z0, z1, y in ((0.072, 0.072, 0.0), (0.024, 0.024, 0.0)):
        b.capsule(
            body,
            (0.95 * r, y, z0),
            (r + 0.026, y, z1),
            0.005,
            b.materials.plain(colour, 0.6),
            collide=False,
        )
    b.capsule(
        body,
        (r + 0.026, 0, 0.024),
        (r + 0.026, 0, 0.072),
        0.005,
        b.materials.plain(colour, 0.6),
        collide=False,
    )


def _bottle(b: Builder, body: Any, colour: Colour, mass: float = 0.25) -> None:
    r, h = 0.034, 0.20
    _upright_cylinder(b, body, r, 0.14, mass)
    body.add_geom(
        type=CYLINDER, pos=(0, 0, 0.17), size=(0.014, 0.03, 0), mass=0.03, **HIDDEN, **DISH
    )
    outline = [
        (0.0, 0.0),
        (r, 0.0),
        (r, 0.13),
        (0.8 * r, 0.15),
        (0.013, 0.165),
        (0.013, h),
        (0.0, h),
    ]
    b.turned(body, outline, b.materials.plain(colour, 0.7))
    b.cylinder(
        body,
        (0, 0, 0.05),
        (0, 0, 0.11),
        r + 0.0008,
        b.materials.plain((0.93, 0.90, 0.80)),
        collide=False,
    )
    b.cylinder(
        body,
        (0, 0, h),
        (0, 0, h + 0.014),
        0.015,
        b.materials.plain((0.15, 0.15, 0.15)),
        collide=False,
    )


def _bowl(b: Builder, body: Any, colour: Colour) -> None:
    r, h = 0.075, 0.065
    _dish_floor(body, 0.055, 0.002, 0.012, 0.15)
    b.feet(body, 0.036, 0.05, **DISH)
    b.ring(body, 0.060, 0.006, 0.058, 0.008, 0.45, 0.12)
    outline = [
        (0.0, 0.0),
        (0.042, 0.0),
        (0.064, 0.025),
        (r, h),
        (0.95 * r, h),
        (0.057, 0.028),
        (0.03, 0.012),
        (0.0, 0.012),
    ]
    b.turned(body, outline, b.materials.plain(colour, 0.6))


def _can(b: Builder, body: Any, colour: Colour, mass: float = 0.3) -> None:
    r, h = 0.033, 0.11
    _upright_cylinder(b, body, r, h, mass)
    b.cylinder(
        body, (0, 0, 0.006), (0, 0, h - 0.006), r, b.materials.plain(colour, 0.5), collide=False
    )
    b.cylinder(
        body,
        (0, 0, 0),
        (0, 0, h),
        r * 0.96,
        b.materials.plain((0.78, 0.78, 0.80), 0.8),
        collide=False,
    )


def _carton(b: Builder, body: Any, colour: Colour, mass: float = 0.3) -> None:
    half = (0.028, 0.045, 0.085)
    body.add_geom(type=BOX, pos=(0, 0, half[2]), size=half, mass=mass, **HIDDEN, **DISH)
    b.box(body, (0, 0, half[2]), half, b.materials.plain(colour), collide=False)
    b.box(
        body,
        (0, 0, half[2] * 1.1),
        (half[0] + 0.0006, half[1] * 0.8, half[2] * 0.35),
        b.materials.plain((0.95, 0.94, 0.90)),
        collide=False,
    )


# Kind -> builder, radius, colours.
CLUTTER: dict[str, tuple[Callable[[Builder, Any, Colour], None], float, tuple[Colour, ...]]] = {
    "mug": (_mug, 0.065, ((0.20, 0.45, 0.55), (0.80, 0.35, 0.25), (0.92, 0.90, 0.85))),
    "bottle": (_bottle, 0.036, ((0.20, 0.38, 0.20), (0.45, 0.22, 0.10))),
    "bowl": (_bowl, 0.078, ((0.90, 0.88, 0.82), (0.35, 0.55, 0.60))),
    "can": (_can, 0.035, ((0.75, 0.15, 0.15), (0.20, 0.50, 0.30))),
    "box of cereal": (_carton, 0.055, ((0.85, 0.65, 0.15), (0.25, 0.40, 0.70))),
}


def _jar(b: Builder, body: Any, colour: Colour, mass: float = 0.25) -> None:
    r, h = 0.032, 0.11
    _upright_cylinder(b, body, r, h, mass)
    b.turned(
        body,
        [(0.0, 0.0), (0.92 * r, 0.0), (r, 0.006), (r, 0.078), (0.80 * r, 0.092), (0.80 * r, 0.094)],
        b.materials.plain(colour, 0.8),
    )
    b.cylinder(
        body,
        (0, 0, 0.092),
        (0, 0, h),
        0.86 * r,
        b.materials.plain((0.85, 0.72, 0.30), 0.8),
        collide=False,
    )
    b.cylinder(
        body,
        (0, 0, 0.026),
        (0, 0, 0.064),
        r + 0.0008,
        b.materials.plain((0.95, 0.93, 0.88)),
        collide=False,
    )


GROCERY_KG = 0.12  # the outstretched arm, hand forward, sags by under 8 mm with it
# What belongs in a cabinet: kind -> builder, the yaw at which the fingers close across it, colours.
GROCERIES: dict[
    str, tuple[Callable[[Builder, Any, Colour, float], None], float, tuple[Colour, ...]]
] = {
    "can": (_can, 0.0, ((0.75, 0.15, 0.15), (0.20, 0.50, 0.30), (0.20, 0.35, 0.65))),
    "jar of jam": (_jar, 0.0, ((0.45, 0.05, 0.12), (0.80, 0.42, 0.08))),
    "bottle": (_bottle, 0.0, ((0.20, 0.38, 0.20), (0.45, 0.22, 0.10))),
    "box of cereal": (_carton, math.pi / 2, ((0.85, 0.65, 0.15), (0.25, 0.40, 0.70))),
}
MUG_RADIUS_M = 0.032
MUGS: dict[str, Colour] = {
    "red": (0.80, 0.12, 0.12),
    "blue": (0.15, 0.35, 0.70),
    "green": (0.20, 0.55, 0.30),
    "black": (0.12, 0.12, 0.13),
}


def add_mug(b: Builder, body: Any, colour: Colour) -> None:
    """A mug that the fingers close around."""
    _mug(b, body, colour, MUG_RADIUS_M, GROCERY_KG)


LID_RADIUS_M = 0.062
LID_PLUG_M = (
    0.014  # depth of the plug under the lid: its origin lies so much higher than what it is laid on
)
LID_GRIP_M = 0.026  # from its origin to the middle of its knob


def add_lid(b: Builder, body: Any, name: str, colour: Colour) -> None:
    """A blender's lid: a disc with a plug below that centres it in the jug, and a knob above with
    flat sides.
    """
    red, green, blue = (0.7 * c for c in colour)
    look, dark = b.materials.plain(colour, 0.5), b.materials.plain((red, green, blue), 0.5)
    body.add_geom(
        type=CYLINDER, pos=(0, 0, 0.005), size=(LID_RADIUS_M, 0.005, 0), mass=0.05, **HIDDEN, **DISH
    )
    body.add_geom(
        type=CYLINDER,
        pos=(0, 0, -LID_PLUG_M / 2),
        size=(0.042, LID_PLUG_M / 2, 0),
        mass=0.03,
        **HIDDEN,
        **DISH,
    )
    body.add_geom(
        type=BOX, pos=(0, 0, LID_GRIP_M), size=(0.016, 0.011, 0.016), mass=0.02, **HIDDEN, **DISH
    )
    r = LID_RADIUS_M
    b.turned(
        body,
        [
            (0.0, -LID_PLUG_M),
            (0.040, -LID_PLUG_M),
            (0.042, 0.0),
            (r, 0.0),
            (r, 0.008),
            (0.94 * r, 0.011),
            (0.0, 0.012),
        ],
        look,
    )
    b.box(body, (0, 0, LID_GRIP_M), (0.016, 0.011, 0.016), dark, collide=False)
    b.mark(body, f"{name} grip", (0, 0, LID_GRIP_M))
