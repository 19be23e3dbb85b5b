"""Movable objects: food, dishes, mugs, groceries, lids and the clutter between them.

Masses stay at 0.3 kg or less: that is what the arm lifts without sagging out of its tolerance.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from capex.worlds.kitchen.materials import Colour
from capex.worlds.kitchen.parts import DISH, Builder

PLATE_RADIUS_M = 0.105  # food of up to 16 cm lies on it
PLATE_FLOOR_M = 0.010  # height of the plate's upper surface
PAN_RADIUS_M = 0.125  # fits the front burners' places
PAN_FLOOR_M = 0.008  # height of its floor's upper surface


def _dish_floor(b: Builder, body: Any, radius: float, low: float, high: float, mass: float) -> None:
    """A dish's floor: a square box, because boxes meet capsules and balls in analytic contacts."""
    side, z = 0.72 * radius, (low + high) / 2
    b.felt.box(body, (0, 0, z), (side, side, (high - low) / 2), mass=mass, **DISH)


def standing(b: Builder, body: Any, radius: float, height: float, mass: float) -> None:
    """What a mug, can or bottle feels like: a cylinder on three feet."""
    centre, half = (0, 0, height / 2 + 0.001), height / 2 - 0.001
    b.felt.upright(body, centre, radius, half, mass=0.9 * mass, **DISH)
    b.feet(body, 0.85 * radius, 0.1 * mass)


def add_plate(b: Builder, body: Any) -> None:
    """A plate with a raised rim."""
    r, floor = PLATE_RADIUS_M, PLATE_FLOOR_M
    _dish_floor(b, body, r, 0.002, floor, 0.25)
    b.feet(body, 0.6 * r, 0.1)
    b.ring(body, 0.86 * r, 0.004, 0.026, 1.05, 0.15)
    below, above = [(0.0, 0.001), (0.7 * r, 0.0)], [(0.72 * r, floor), (0.0, floor)]
    b.turned(body, [*below, (r, 0.020), (0.99 * r, 0.023), *above], (0.95, 0.95, 0.93, 0.7))
    b.turned(body, [(0.985 * r, 0.0225), (0.90 * r, 0.0195)], (0.30, 0.42, 0.62, 0.7))


def add_pan(b: Builder, body: Any) -> None:
    """A frying pan; its handle points along -x of its own frame."""
    r = PAN_RADIUS_M
    _dish_floor(b, body, r, 0.002, PAN_FLOOR_M, 0.6)
    b.feet(body, 0.75 * r, 0.1)
    b.ring(body, 0.97 * r, 0.005, 0.041, 0.22, 0.25)
    outer = [(0.0, 0.0), (0.93 * r, 0.0), (1.03 * r, 0.045), (1.0 * r, 0.046)]
    inner = [(1.0 * r, 0.046), (0.90 * r, PAN_FLOOR_M), (0.0, PAN_FLOOR_M)]
    b.turned(body, outer, (0.16, 0.16, 0.17, 0.5))
    b.turned(body, inner, (0.30, 0.30, 0.31, 0.6))
    start, end = (-r - 0.005, 0, 0.038), (-r - 0.15, 0, 0.052)
    b.capsule(body, start, end, 0.011, (0.10, 0.10, 0.10), mass=0.12)


def _mug(b: Builder, body: Any, colour: Colour, r: float = 0.038, mass: float = 0.25) -> None:
    h, look, out = 0.092, (*colour, 0.6), r + 0.026
    standing(b, body, r, h, mass)
    outer, inner = (
        [(0.0, 0.0), (0.9 * r, 0.0), (r, 0.01), (r, h)],
        [(0.88 * r, 0.012), (0.0, 0.010)],
    )
    b.turned(body, [*outer, (0.9 * r, h), *inner], look)
    for z in (0.072, 0.024):
        b.drawn.capsule(body, (0.95 * r, 0.0, z), (out, 0.0, z), 0.005, look)
    b.drawn.capsule(body, (out, 0, 0.024), (out, 0, 0.072), 0.005, look)


def _bottle(b: Builder, body: Any, colour: Colour, mass: float = 0.25) -> None:
    r, h = 0.034, 0.20
    standing(b, body, r, 0.14, mass)
    b.felt.upright(body, (0, 0, 0.17), 0.014, 0.03, mass=0.03, **DISH)
    shoulder = [(r, 0.13), (0.8 * r, 0.15), (0.013, 0.165)]
    b.turned(body, [(0.0, 0.0), (r, 0.0), *shoulder, (0.013, h), (0.0, h)], (*colour, 0.7))
    b.drawn.cylinder(body, (0, 0, 0.05), (0, 0, 0.11), r + 0.0008, (0.93, 0.90, 0.80))
    b.drawn.cylinder(body, (0, 0, h), (0, 0, h + 0.014), 0.015, (0.15, 0.15, 0.15))


def _bowl(b: Builder, body: Any, colour: Colour) -> None:
    r, h = 0.075, 0.065
    _dish_floor(b, body, 0.055, 0.002, 0.012, 0.15)
    b.feet(body, 0.036, 0.05)
    b.ring(body, 0.060, 0.006, 0.058, 0.45, 0.12)
    outer = [(0.0, 0.0), (0.042, 0.0), (0.064, 0.025), (r, h)]
    inner = [(0.95 * r, h), (0.057, 0.028), (0.03, 0.012), (0.0, 0.012)]
    b.turned(body, outer + inner, (*colour, 0.6))


def _can(b: Builder, body: Any, colour: Colour, mass: float = 0.3) -> None:
    r, h = 0.033, 0.11
    standing(b, body, r, h, mass)
    b.drawn.cylinder(body, (0, 0, 0.006), (0, 0, h - 0.006), r, (*colour, 0.5))
    b.drawn.cylinder(body, (0, 0, 0), (0, 0, h), r * 0.96, (0.78, 0.78, 0.80, 0.8))


def _carton(b: Builder, body: Any, colour: Colour, mass: float = 0.3) -> None:
    half = x, y, z = 0.028, 0.045, 0.085
    b.felt.box(body, (0, 0, z), half, mass=mass, **DISH)
    b.drawn.box(body, (0, 0, z), half, colour)
    b.drawn.box(body, (0, 0, z * 1.1), (x + 0.0006, y * 0.8, z * 0.35), (0.95, 0.94, 0.90))


def _jar(b: Builder, body: Any, colour: Colour, mass: float = 0.25) -> None:
    r, h = 0.032, 0.11
    standing(b, body, r, h, mass)
    foot, neck = [(0.0, 0.0), (0.92 * r, 0.0), (r, 0.006)], [(0.80 * r, 0.092), (0.80 * r, 0.094)]
    b.turned(body, [*foot, (r, 0.078), *neck], (*colour, 0.8))
    b.drawn.cylinder(body, (0, 0, 0.092), (0, 0, h), 0.86 * r, (0.85, 0.72, 0.30, 0.8))
    b.drawn.cylinder(body, (0, 0, 0.026), (0, 0, 0.064), r + 0.0008, (0.95, 0.93, 0.88))


# Kind -> builder, radius, colours.
CLUTTER: dict[str, tuple[Callable[..., None], float, tuple[Colour, ...]]] = {
    "mug": (_mug, 0.065, ((0.20, 0.45, 0.55), (0.80, 0.35, 0.25), (0.92, 0.90, 0.85))),
    "bottle": (_bottle, 0.036, ((0.20, 0.38, 0.20), (0.45, 0.22, 0.10))),
    "bowl": (_bowl, 0.078, ((0.90, 0.88, 0.82), (0.35, 0.55, 0.60))),
    "can": (_can, 0.035, ((0.75, 0.15, 0.15), (0.20, 0.50, 0.30))),
    "box of cereal": (_carton, 0.055, ((0.85, 0.65, 0.15), (0.25, 0.40, 0.70))),
}
GROCERY_KG = 0.12  # the outstretched arm, hand forward, sags by under 8 mm with it
# What belongs in a cabinet: kind -> builder, the yaw at which the fingers close across it, colours.
GROCERIES: dict[str, tuple[Callable[..., None], float, tuple[Colour, ...]]] = {
    "can": (_can, 0.0, ((0.75, 0.15, 0.15), (0.20, 0.50, 0.30), (0.20, 0.35, 0.65))),
    "jar of jam": (_jar, 0.0, ((0.45, 0.05, 0.12), (0.80, 0.42, 0.08))),
    "bottle": (_bottle, 0.0, ((0.20, 0.38, 0.20), (0.45, 0.22, 0.10))),
    "box of cereal": (_carton, math.pi / 2, ((0.85, 0.65, 0.15), (0.25, 0.40, 0.70))),
}
MUG_RADIUS_M = 0.032  # fits between fingers that open to 8 cm
MUGS: dict[str, Colour] = {
    "red": (0.80, 0.12, 0.12),
    "blue": (0.15, 0.35, 0.70),
    "green": (0.20, 0.55, 0.30),
    "black": (0.12, 0.12, 0.13),
}


def add_mug(b: Builder, body: Any, colour: Colour) -> None:
    """A mug that the fingers close around."""
    _mug(b, body, colour, MUG_RADIUS_M, GROCERY_KG)


LID_RADIUS_M = 0.062  # it overlaps the jug's rim by 4 mm
# Depth of the plug under the lid: its origin lies so much higher than what it is laid on.
LID_PLUG_M = 0.014
LID_GRIP_M = 0.026  # from its origin to the middle of its knob


def add_lid(b: Builder, body: Any, name: str, colour: Colour) -> None:
    """A blender's lid: a disc, a plug below that centres it, a knob with flat sides above."""
    red, green, blue = (0.7 * c for c in colour)
    look, dark = b.materials.plain(colour, 0.5), b.materials.plain((red, green, blue), 0.5)
    r, plug, knob, half = LID_RADIUS_M, LID_PLUG_M, (0, 0, LID_GRIP_M), (0.016, 0.011, 0.016)
    b.felt.upright(body, (0, 0, 0.005), r, 0.005, mass=0.05, **DISH)
    b.felt.upright(body, (0, 0, -plug / 2), 0.042, plug / 2, mass=0.03, **DISH)
    b.felt.box(body, knob, half, mass=0.02, **DISH)
    below, above = [(0.0, -plug), (0.040, -plug), (0.042, 0.0)], [(0.94 * r, 0.011), (0.0, 0.012)]
    b.turned(body, [*below, (r, 0.0), (r, 0.008), *above], look)
    b.drawn.box(body, knob, half, dark)
    b.mark(body, f"{name} grip", knob)


# Dry contact of a free thing: sliding, torsional and rolling friction; rolling stops a fruit within
# a few decimetres.
TOUCH: dict[str, Any] = {"condim": 6, "friction": (0.8, 0.005, 0.0015), "solref": (0.008, 1)}


@dataclass(frozen=True)
class Kind:
    """A kind of food: largest extent along its axis and across it (metres), mass, colours."""

    name: str
    length_m: float
    width_m: float
    mass_kg: float
    colours: tuple[Colour, ...]
    bulge: float = 2.0  # exponent of the outline: 2 an ellipse, more is boxier, less is pointed
    top: Literal["stem", "leaves", "cap", "slashes", ""] = ""
    top_colour: Colour = (0.30, 0.20, 0.10)
    taper: float = 0.0  # how much narrower the end at -x is; negative: the end at +x

    @property
    def round(self) -> bool:
        """Whether it is a ball, with its stem up; longer kinds are capsules that lie along x."""
        return self.length_m == self.width_m


_KINDS = (
    Kind(
        "mango", 0.1, 0.06, 0.2, ((0.93, 0.66, 0.14), (0.92, 0.50, 0.16)), 2.2, "stem", taper=0.15
    ),
    Kind("lemon", 0.08, 0.054, 0.12, ((0.97, 0.88, 0.14),), 1.7, "stem", (0.70, 0.75, 0.15)),
    Kind("potato", 0.095, 0.058, 0.2, ((0.72, 0.58, 0.38), (0.63, 0.48, 0.30)), 2.8),
    Kind("apple", 0.061, 0.061, 0.16, ((0.80, 0.08, 0.10), (0.45, 0.72, 0.18)), 2.2, "stem"),
    Kind("tomato", 0.06, 0.06, 0.12, ((0.88, 0.14, 0.08),), 2.1, "leaves", (0.16, 0.50, 0.12)),
    Kind("orange", 0.062, 0.062, 0.17, ((0.99, 0.52, 0.04),), 2.0, "stem", (0.30, 0.45, 0.15)),
    Kind(
        "avocado", 0.095, 0.06, 0.18, ((0.24, 0.36, 0.13),), 2.0, "stem", (0.45, 0.33, 0.15), 0.35
    ),
    Kind("cucumber", 0.16, 0.042, 0.18, ((0.16, 0.46, 0.14),), 6.0, "slashes", (0.42, 0.66, 0.30)),
    Kind(
        "carrot", 0.145, 0.04, 0.1, ((0.97, 0.44, 0.06),), 3.0, "leaves", (0.20, 0.58, 0.16), 0.65
    ),
    Kind(
        "eggplant", 0.13, 0.058, 0.2, ((0.32, 0.08, 0.38),), 2.4, "cap", (0.28, 0.52, 0.18), -0.25
    ),
    Kind(
        "bread roll", 0.105, 0.062, 0.08, ((0.82, 0.60, 0.30),), 2.6, "slashes", (0.96, 0.87, 0.66)
    ),
    Kind("sweet potato", 0.13, 0.054, 0.2, ((0.66, 0.30, 0.26),), 1.5, taper=0.2),
)
FOOD: dict[str, Kind] = {kind.name: kind for kind in _KINDS}


@dataclass(frozen=True)
class Food:
    """One piece of food with its drawn size factor and colour."""

    kind: Kind
    scale: float
    colour: Colour

    @property
    def half_width_m(self) -> float:
        """Half of the width across: its resting height above what it lies on."""
        return self.kind.width_m * self.scale / 2

    @property
    def half_length_m(self) -> float:
        """Half of the length along its own x axis."""
        return self.kind.length_m * self.scale / 2


def add_food(b: Builder, body: Any, food: Food) -> None:
    """Fill a free body with a piece of food that lies along its x axis."""
    kind, r, half = food.kind, food.half_width_m, food.half_length_m
    mass = kind.mass_kg * food.scale**3
    look = b.materials.plain(food.colour, 0.35)
    if kind.round:
        b.felt.ball(body, (0, 0, 0), r, mass=mass, **TOUCH)
    else:
        b.felt.capsule(body, (-(half - r), 0, 0), (half - r, 0, 0), r, mass=mass, **TOUCH)
    steps, profile = 12, []
    for k in range(steps + 1):
        t = -math.cos(math.pi * k / steps)
        narrower = kind.taper * (1 - t) / 2 if kind.taper > 0 else -kind.taper * (1 + t) / 2
        profile.append((r * _girth(kind, t) * (1 - narrower), half * t))
    b.turned(body, profile, look, axis="z" if kind.round else "x")
    _dress(b, body, food, r, half)


def _girth(kind: Kind, t: float) -> float:
    """The outline's radius as a fraction of the largest, at a fraction t of the half length."""
    return float(max(0.0, 1 - abs(t) ** kind.bulge) ** (1 / kind.bulge))


def _dress(b: Builder, body: Any, food: Food, r: float, half: float) -> None:
    """What tells kinds of one colour apart: a stem, leaves, a cap, slashes. Materials only."""
    kind = food.kind
    look = b.materials.plain(kind.top_colour, 0.1)

    def bar(
        start: tuple[float, float, float], end: tuple[float, float, float], radius: float
    ) -> None:
        """A bar between points given as (along the axis, across, across)."""
        if kind.round:
            start, end = (start[1], start[2], start[0]), (end[1], end[2], end[0])
        b.drawn.capsule(body, start, end, radius, look)

    if kind.top == "stem":
        bar((half - 0.003, 0, 0), (half + 0.010, 0, 0.002), 0.0035)
    elif kind.top == "leaves":
        reach = 0.001 if kind.round else 0.022
        for angle in (0.0, 1.26, 2.51, 3.77, 5.03):
            end = (half + reach, 0.015 * math.cos(angle), 0.015 * math.sin(angle))
            bar((half - 0.001, 0, 0), end, 0.0035)
    elif kind.top == "cap":
        stalk = [(0.004, half + 0.004), (0.004, half + 0.020), (0.0, half + 0.021)]
        b.turned(body, [(0.62 * r, 0.80 * half), (0.45 * r, 0.96 * half), *stalk], look, axis="x")
    elif kind.top == "slashes":
        for t in (-0.45, 0.0, 0.45):
            radius = r * _girth(kind, t)
            for angle in (-0.5, 0.0, 0.5):
                y, z = radius * math.sin(angle), radius * math.cos(angle) - 0.001
                bar((half * t - 0.006, y, z), (half * t + 0.010, y, z), 0.0028)


@dataclass(frozen=True)
class Slice:
    """Something flat that stands in a toaster: thickness along its y axis, upright along z."""

    name: str
    half_m: tuple[float, float, float]
    crust: Colour
    crumb: Colour
    mass_kg: float = 0.05


SLICES = (
    Slice("slice of bread", (0.048, 0.009, 0.049), (0.55, 0.33, 0.15), (0.93, 0.83, 0.62)),
    Slice("slice of toast", (0.047, 0.008, 0.048), (0.36, 0.20, 0.10), (0.70, 0.44, 0.20)),
    Slice("waffle", (0.049, 0.010, 0.049), (0.80, 0.55, 0.20), (0.90, 0.68, 0.30)),
)


def add_slice(b: Builder, body: Any, piece: Slice) -> None:
    """Fill a free body with a slice: a thin box with a crust around its faces."""
    (x, y, z), crumb = piece.half_m, (*piece.crumb, 0.1)
    b.felt.box(body, (0, 0, 0), piece.half_m, mass=piece.mass_kg, **DISH)
    b.drawn.box(body, (0, 0, 0), piece.half_m, (*piece.crust, 0.1))
    if piece.name == "waffle":
        for u in (-1, 0, 1):
            for v in (-1, 0, 1):
                dent = (u * 0.6 * x, 0, v * 0.6 * z)
                b.drawn.box(body, dent, (0.22 * x, y + 0.0006, 0.22 * z), crumb)
    else:
        b.drawn.box(body, (0, 0, 0), (x - 0.006, y + 0.0006, z - 0.006), crumb)
