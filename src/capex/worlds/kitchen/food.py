"""Food and slices: each kind is data; a start draws its size, colour and place.

Food is a capsule, a ball or a thin box to the touch and a turned mesh to the eye.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from capex.worlds.kitchen.materials import Colour
from capex.worlds.kitchen.parts import DISH, Builder

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
