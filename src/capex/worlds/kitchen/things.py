"""Movable things: food, dishes and the clutter between them. Each kind is data; a start draws its
size, colour and place.

Food is a capsule, a ball or a thin box to the touch and a turned mesh to the eye. Masses stay at
0.3 kg or less: that is what the arm lifts without sagging out of its tolerance.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from capex.worlds.kitchen.looks import Colour
from capex.worlds.kitchen.parts import BOX, CAPSULE, CYLINDER, HIDDEN, SPHERE, Builder

# Dry contact of a free thing: sliding, torsional and rolling friction; rolling stops a fruit within
# a few decimetres.
TOUCH = {"condim": 6, "friction": (0.8, 0.005, 0.0015), "solref": (0.008, 1)}

_DISH = {"condim": 3, "friction": (0.8, 0.01, 0.0001), "solref": (0.008, 1)}

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
    look = b.looks.plain(food.colour, 0.35)
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
    """What tells kinds of one colour apart: a stem, leaves, a cap, slashes. Looks only."""
    look = b.looks.plain(food.kind.top_colour, 0.1)

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
    body.add_geom(type=BOX, size=piece.half_m, mass=piece.mass_kg, **HIDDEN, **_DISH)
    b.box(body, (0, 0, 0), piece.half_m, b.looks.plain(piece.crust, 0.1), collide=False)
    if piece.name == "waffle":
        for u in range(3):
            for v in range(3):
                spot = ((u - 1) * 0.6 * x, 0, (v - 1) * 0.6 * z)
                b.box(
                    body,
                    spot,
                    (0.22 * x, y + 0.0006, 0.22 * z),
                    b.looks.plain(piece.crumb, 0.1),
                    collide=False,
                )
    else:
        b.box(
            body,
            (0, 0, 0),
            (x - 0.006, y + 0.0006, z - 0.006),
            b.looks.plain(piece.crumb, 0.1),
            collide=False,
        )


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
        **_DISH,
    )


def _upright_cylinder(b: Builder, body: Any, radius: float, height: float, mass: float) -> None:
    """What a mug, can or bottle feels like: a cylinder on three feet."""
    body.add_geom(
        type=CYLINDER,
        pos=(0, 0, height / 2 + 0.001),
        size=(radius, height / 2 - 0.001, 0),
        mass=0.9 * mass,
        **HIDDEN,
        **_DISH,
    )
    b.feet(body, 0.85 * radius, 0.1 * mass, **_DISH)


def add_plate(b: Builder, body: Any, colour: Colour = (0.95, 0.95, 0.93)) -> None:
    """A plate with a raised rim."""
    r = PLATE_RADIUS_M
    _dish_floor(body, r, 0.002, PLATE_FLOOR_M, 0.25)
    b.feet(body, 0.6 * r, 0.1, **_DISH)
    b.ring(body, 0.86 * r, 0.004, 0.026, 0.008, 1.05, 0.15)
    outline = [
        (0.0, 0.001),
        (0.7 * r, 0.0),
        (r, 0.020),
        (0.99 * r, 0.023),
        (0.72 * r, PLATE_FLOOR_M),
        (0.0, PLATE_FLOOR_M),
    ]
    b.turned(body, outline, b.looks.plain(colour, 0.7))
    b.turned(
        body, [(0.985 * r, 0.0225), (0.90 * r, 0.0195)], b.looks.plain((0.30, 0.42, 0.62), 0.7)
    )


def add_pan(b: Builder, body: Any) -> None:
    """A frying pan; its handle points along -x of its own frame."""
    r = PAN_RADIUS_M
    _dish_floor(body, r, 0.002, PAN_FLOOR_M, 0.6)
    b.feet(body, 0.75 * r, 0.1, **_DISH)
    b.ring(body, 0.97 * r, 0.005, 0.041, 0.008, 0.22, 0.25)
    outer = [(0.0, 0.0), (0.93 * r, 0.0), (1.03 * r, 0.045), (1.0 * r, 0.046)]
    inner = [(1.0 * r, 0.046), (0.90 * r, PAN_FLOOR_M), (0.0, PAN_FLOOR_M)]
    b.turned(body, outer, b.looks.plain((0.16, 0.16, 0.17), 0.5))
    b.turned(body, inner, b.looks.plain((0.30, 0.30, 0.31), 0.6))
    b.capsule(
        body,
        (-r - 0.005, 0, 0.038),
        (-r - 0.15, 0, 0.052),
        0.011,
        b.looks.plain((0.10, 0.10, 0.10)),
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
    b.turned(body, outline, b.looks.plain(colour, 0.6))
    for z0, z1, y in ((0.072, 0.072, 0.0), (0.024, 0.024, 0.0)):
        b.capsule(
            body,
            (0.95 * r, y, z0),
            (r + 0.026, y, z1),
            0.005,
            b.looks.plain(colour, 0.6),
            collide=False,
        )
    b.capsule(
        body,
        (r + 0.026, 0, 0.024),
        (r + 0.026, 0, 0.072),
        0.005,
        b.looks.plain(colour, 0.6),
        collide=False,
    )


def _bottle(b: Builder, body: Any, colour: Colour, mass: float = 0.25) -> None:
    r, h = 0.034, 0.20
    _upright_cylinder(b, body, r, 0.14, mass)
    body.add_geom(
        type=CYLINDER, pos=(0, 0, 0.17), size=(0.014, 0.03, 0), mass=0.03, **HIDDEN, **_DISH
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
    b.turned(body, outline, b.looks.plain(colour, 0.7))
    b.cylinder(
        body,
        (0, 0, 0.05),
        (0, 0, 0.11),
        r + 0.0008,
        b.looks.plain((0.93, 0.90, 0.80)),
        collide=False,
    )
    b.cylinder(
        body, (0, 0, h), (0, 0, h + 0.014), 0.015, b.looks.plain((0.15, 0.15, 0.15)), collide=False
    )


def _bowl(b: Builder, body: Any, colour: Colour) -> None:
    r, h = 0.075, 0.065
    _dish_floor(body, 0.055, 0.002, 0.012, 0.15)
    b.feet(body, 0.036, 0.05, **_DISH)
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
    b.turned(body, outline, b.looks.plain(colour, 0.6))


def _can(b: Builder, body: Any, colour: Colour, mass: float = 0.3) -> None:
    r, h = 0.033, 0.11
    _upright_cylinder(b, body, r, h, mass)
    b.cylinder(body, (0, 0, 0.006), (0, 0, h - 0.006), r, b.looks.plain(colour, 0.5), collide=False)
    b.cylinder(
        body, (0, 0, 0), (0, 0, h), r * 0.96, b.looks.plain((0.78, 0.78, 0.80), 0.8), collide=False
    )


def _carton(b: Builder, body: Any, colour: Colour, mass: float = 0.3) -> None:
    half = (0.028, 0.045, 0.085)
    body.add_geom(type=BOX, pos=(0, 0, half[2]), size=half, mass=mass, **HIDDEN, **_DISH)
    b.box(body, (0, 0, half[2]), half, b.looks.plain(colour), collide=False)
    b.box(
        body,
        (0, 0, half[2] * 1.1),
        (half[0] + 0.0006, half[1] * 0.8, half[2] * 0.35),
        b.looks.plain((0.95, 0.94, 0.90)),
        collide=False,
    )


CLUTTER: dict[
    str, tuple[Callable[[Builder, Any, Colour], None], float, tuple[Colour, ...]]
] = {  # kind -> builder, radius, colours
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
        b.looks.plain(colour, 0.8),
    )
    b.cylinder(
        body,
        (0, 0, 0.092),
        (0, 0, h),
        0.86 * r,
        b.looks.plain((0.85, 0.72, 0.30), 0.8),
        collide=False,
    )
    b.cylinder(
        body,
        (0, 0, 0.026),
        (0, 0, 0.064),
        r + 0.0008,
        b.looks.plain((0.95, 0.93, 0.88)),
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
    look, dark = b.looks.plain(colour, 0.5), b.looks.plain(tuple(0.7 * c for c in colour), 0.5)  # type: ignore[arg-type]
    body.add_geom(
        type=CYLINDER,
        pos=(0, 0, 0.005),
        size=(LID_RADIUS_M, 0.005, 0),
        mass=0.05,
        **HIDDEN,
        **_DISH,
    )
    body.add_geom(
        type=CYLINDER,
        pos=(0, 0, -LID_PLUG_M / 2),
        size=(0.042, LID_PLUG_M / 2, 0),
        mass=0.03,
        **HIDDEN,
        **_DISH,
    )
    body.add_geom(
        type=BOX, pos=(0, 0, LID_GRIP_M), size=(0.016, 0.011, 0.016), mass=0.02, **HIDDEN, **_DISH
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
