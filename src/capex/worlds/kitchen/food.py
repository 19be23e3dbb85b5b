"""Food and slices: each kind is data; a start draws its size, colour and place.

Food is a capsule, a ball or a thin box to the touch and a turned mesh to the eye.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from capex.worlds.kitchen.materials import Colour
from capex.worlds.kitchen.parts import BOX, CAPSULE, HIDDEN, SPHERE, Builder

# Dry contact of a free thing: sliding, torsional and rolling friction; rolling stops a fruit within
# a few decimetres.
TOUCH = {"condim": 6, "friction": (0.8, 0.005, 0.0015), "solref": (0.008, 1)}

# Flat things that stand: no rolling to stop, and fewer rows for the solver.
DISH = {"condim": 3, "friction": (0.8, 0.01, 0.0001), "solref": (0.008, 1)}

Shape = Literal["capsule", "ball"]


@dataclass(frozen=True)
class Kind:
    """A kind of thing: shape, largest extent along its axis and across it (metres), mass, colours
    it comes in.
    """

    name: str
    shape: Shape
    length_m: float
    width_m: float
    mass_kg: float
    colours: tuple[Colour, ...]
    bulge: float = (
        2.0  # exponent of the turned outline: 2 an ellipse, more is boxier, less is pointed
    )
    taper: float = (
        0.0  # how much narrower the end at -x is (a carrot, an avocado); negative: the end at +x
    )
    top: Literal["stem", "leaves", "cap", "slashes", ""] = ""
    top_colour: Colour = (0.30, 0.20, 0.10)


FOOD: dict[str, Kind] = {
    k.name: k
    for k in (
        Kind(
            "mango",
            "capsule",
            0.100,
            0.060,
            0.20,
            ((0.93, 0.66, 0.14), (0.92, 0.50, 0.16)),
            2.2,
            0.15,
            "stem",
        ),
        Kind(
            "lemon",
            "capsule",
            0.080,
            0.054,
            0.12,
            ((0.97, 0.88, 0.14),),
            1.7,
            0.0,
            "stem",
            (0.70, 0.75, 0.15),
        ),
        Kind(
            "potato", "capsule", 0.095, 0.058, 0.20, ((0.72, 0.58, 0.38), (0.63, 0.48, 0.30)), 2.8
        ),
        Kind(
            "apple",
            "ball",
            0.061,
            0.061,
            0.16,
            ((0.80, 0.08, 0.10), (0.45, 0.72, 0.18)),
            2.2,
            0.0,
            "stem",
        ),
        Kind(
            "tomato",
            "ball",
            0.060,
            0.060,
            0.12,
            ((0.88, 0.14, 0.08),),
            2.1,
            0.0,
            "leaves",
            (0.16, 0.50, 0.12),
        ),
        Kind(
            "orange",
            "ball",
            0.062,
            0.062,
            0.17,
            ((0.99, 0.52, 0.04),),
            2.0,
            0.0,
            "stem",
            (0.30, 0.45, 0.15),
        ),
        Kind(
            "avocado",
            "capsule",
            0.095,
            0.060,
            0.18,
            ((0.24, 0.36, 0.13),),
            2.0,
            0.35,
            "stem",
            (0.45, 0.33, 0.15),
        ),
        Kind(
            "cucumber",
            "capsule",
            0.160,
            0.042,
            0.18,
            ((0.16, 0.46, 0.14),),
            6.0,
            0.0,
            "slashes",
            (0.42, 0.66, 0.30),
        ),
        Kind(
            "carrot",
            "capsule",
            0.145,
            0.040,
            0.10,
            ((0.97, 0.44, 0.06),),
            3.0,
            0.65,
            "leaves",
            (0.20, 0.58, 0.16),
        ),
        Kind(
            "eggplant",
            "capsule",
            0.130,
            0.058,
            0.20,
            ((0.32, 0.08, 0.38),),
            2.4,
            -0.25,
            "cap",
            (0.28, 0.52, 0.18),
        ),
        Kind(
            "bread roll",
            "capsule",
            0.105,
            0.062,
            0.08,
            ((0.82, 0.60, 0.30),),
            2.6,
            0.0,
            "slashes",
            (0.96, 0.87, 0.66),
        ),
        Kind("sweet potato", "capsule", 0.130, 0.054, 0.20, ((0.66, 0.30, 0.26),), 1.5, 0.2),
    )
}


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
    r, half = food.half_width_m, food.half_length_m
    mass = food.kind.mass_kg * food.scale**3
    look = b.materials.plain(food.colour, 0.35)
    if food.kind.shape == "ball":
        body.add_geom(type=SPHERE, size=(r, 0, 0), mass=mass, **HIDDEN, **TOUCH)
    else:
        body.add_geom(
            type=CAPSULE,
            fromto=(-(half - r), 0, 0, half - r, 0, 0),
            size=(r, 0, 0),
            mass=mass,
            **HIDDEN,
            **TOUCH,
        )
    steps = 12
    profile = []
    for k in range(steps + 1):
        t = -math.cos(math.pi * k / steps)
        girth = max(0.0, 1 - abs(t) ** food.kind.bulge) ** (1 / food.kind.bulge)
        narrower = (
            food.kind.taper * (1 - t) / 2 if food.kind.taper > 0 else -food.kind.taper * (1 + t) / 2
        )
        profile.append((r * girth * (1 - narrower), half * t))
    b.turned(body, profile, look, axis=_axis(food))
    _dress(b, body, food, r, half)


def _axis(food: Food) -> str:
    """Long things lie along x; round ones stand with their stem up."""
    return "z" if food.kind.shape == "ball" else "x"


def _dress(b: Builder, body: Any, food: Food, r: float, half: float) -> None:
    """What tells kinds of one colour apart: a stem, leaves, a cap, slashes. Materials only."""
    look = b.materials.plain(food.kind.top_colour, 0.1)

    def bar(
        start: tuple[float, float, float], end: tuple[float, float, float], radius: float
    ) -> None:
        """A bar between points given as (along the axis, across, across)."""
        if _axis(food) == "z":
            start, end = (start[1], start[2], start[0]), (end[1], end[2], end[0])
        b.capsule(body, start, end, radius, look, collide=False)

    if food.kind.top == "stem":
        bar((half - 0.003, 0, 0), (half + 0.010, 0, 0.002), 0.0035)
    elif food.kind.top == "leaves":
        reach = 0.022 if food.kind.shape == "capsule" else 0.001
        for angle in (0.0, 1.26, 2.51, 3.77, 5.03):
            bar(
                (half - 0.001, 0, 0),
                (half + reach, 0.015 * math.cos(angle), 0.015 * math.sin(angle)),
                0.0035,
            )
    elif food.kind.top == "cap":
        tip = (
            (0.62 * r, 0.80 * half),
            (0.45 * r, 0.96 * half),
            (0.004, half + 0.004),
            (0.004, half + 0.020),
            (0.0, half + 0.021),
        )
        b.turned(body, tip, look, axis="x")
    elif food.kind.top == "slashes":
        for t in (-0.45, 0.0, 0.45):
            radius = r * max(0.0, 1 - abs(t) ** food.kind.bulge) ** (1 / food.kind.bulge)
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
    x, y, z = piece.half_m
    body.add_geom(type=BOX, size=piece.half_m, mass=piece.mass_kg, **HIDDEN, **DISH)
    b.box(body, (0, 0, 0), piece.half_m, b.materials.plain(piece.crust, 0.1), collide=False)
    if piece.name == "waffle":
        for u in range(3):
            for v in range(3):
                spot = ((u - 1) * 0.6 * x, 0, (v - 1) * 0.6 * z)
                b.box(
                    body,
                    spot,
                    (0.22 * x, y + 0.0006, 0.22 * z),
                    b.materials.plain(piece.crumb, 0.1),
                    collide=False,
                )
    else:
        b.box(
            body,
            (0, 0, 0),
            (x - 0.006, y + 0.0006, z - 0.006),
            b.materials.plain(piece.crumb, 0.1),
            collide=False,
        )
