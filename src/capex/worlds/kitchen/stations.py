"""The stove and the sink with controls that work; frames and names as in `fixtures`."""

from __future__ import annotations

import math
from typing import Any

from capex.pose import PlanarPose
from capex.worlds.kitchen.fixtures import (
    BASIN,
    BASIN_FRONT_M,
    BLACK,
    BURNERS,
    CHROME,
    COUNTER_HEIGHT_M,
    add_sink,
    add_stove,
)
from capex.worlds.kitchen.materials import Colour
from capex.worlds.kitchen.parts import Builder

KNOB_ORDER = ("rear left", "front left", "front right", "rear right")  # from left to right
KNOB_RANGE_RAD = 2.2  # starts turn a burner on by 0.75 to 1.10
KNOB_OFF_RAD = 0.35  # the paper's: nearer than this to its stop, the burner is off
KNOB_Z_M = COUNTER_HEIGHT_M - 0.055  # on the front, under the glass top
POINTER_M = 0.046  # from the axis to the end of the pointer
# Polished: a finger slides along it.
SMOOTH: dict[str, Any] = {"friction": (0.3, 0.005, 0.0001), "priority": 2, "condim": 3}


def knob_y(k: int) -> float:
    """Where the k-th knob sits, from the stove's middle."""
    return 0.20 - 0.1333 * k


def add_working_stove(b: Builder, place: PlanarPose, width: float) -> None:
    """The stove with four knobs: pointer up is off; turned to the left, its burner glows."""
    add_stove(b, place, width, knobs=False)
    body, h = b.spec.body("stove"), COUNTER_HEIGHT_M
    for k, burner in enumerate(KNOB_ORDER):
        _add_knob(b, body, f"{burner} knob", knob_y(k))
        x, y, radius = BURNERS[burner]
        ember = b.materials.lit((0.92, 0.07, 0.03), 0.7)
        glow = b.drawn.cylinder(body, (x, y, h), (x, y, h + 0.0020), radius * 0.92, ember)
        b.sign(glow, f"{burner} knob", KNOB_OFF_RAD, math.inf)


def _add_knob(b: Builder, stove: Any, name: str, y: float) -> None:
    black, white = b.materials.plain(BLACK, 0.5), b.materials.plain((0.97, 0.97, 0.97), 0.3)
    z, rim = KNOB_Z_M, (0.35, 0.36, 0.38, 0.5)
    b.drawn.cylinder(stove, (0.019, y, z), (0.006, y, z), 0.034, rim)
    b.drawn.box(stove, (0.004, y, z + 0.046), (0.004, 0.004, 0.004), (0.9, 0.1, 0.1))
    joint = {"frictionloss": 0.05, "damping": 0.01, "armature": 0.0005}
    knob = b.hinge(stove, name, (0, y, z), (-1, 0, 0), KNOB_RANGE_RAD, **joint)
    b.cylinder(knob, (0.01, 0, 0), (-0.030, 0, 0), 0.023, black, mass=0.05, **SMOOTH)
    grip = (-0.045, 0, POINTER_M - 0.009)
    b.felt.capsule(knob, (-0.045, 0, -0.012), grip, 0.009, mass=0.04, **SMOOTH)
    b.drawn.box(knob, (-0.043, 0, 0.014), (0.014, 0.009, 0.032), black)
    b.drawn.box(knob, (-0.0575, 0, 0.022), (0.001, 0.004, 0.022), white)
    b.drawn.box(knob, (-0.043, 0, 0.0465), (0.012, 0.004, 0.001), white)
    b.mark(knob, f"{name} grip", grip)


HANDLE_Y_M = 0.18  # from the spout's axis to a handle's
HANDLE_RANGE_RAD = 1.4
WATER_ON_RAD = 0.40  # the paper's
LEVER_M = 0.12  # from a handle's axis to its end
CAPS: dict[str, Colour] = {"left": (0.85, 0.12, 0.10), "right": (0.12, 0.30, 0.85)}  # hot, cold


def add_working_sink(b: Builder, place: PlanarPose, width: float) -> None:
    """The sink with two handles that swing outwards: the left cap is red, the right one blue."""
    add_sink(b, place, width, lever=False)
    body = b.spec.body("sink")
    h, x = COUNTER_HEIGHT_M, BASIN_FRONT_M + BASIN[1] + 0.06
    chrome = b.materials.plain(CHROME, 0.9)
    water = b.materials.lit((0.62, 0.80, 0.95), 0.25, shine=0.9)
    for side, sign in (("left", 1.0), ("right", -1.0)):
        name, y, cap = f"{side} handle", sign * HANDLE_Y_M, (*CAPS[side], 0.4)
        b.cylinder(body, (x, y, h), (x, y, h + 0.012), 0.027, chrome)
        b.cylinder(body, (x, y, h), (x, y, h + 0.055), 0.016, chrome)
        joint = {"frictionloss": 0.18, "damping": 0.05, "armature": 0.002}
        handle = b.hinge(body, name, (x, y, h + 0.07), (0, 0, -sign), HANDLE_RANGE_RAD, **joint)
        b.cylinder(handle, (0, 0, -0.014), (0, 0, 0.014), 0.020, chrome, mass=0.1)
        b.drawn.cylinder(handle, (0, 0, 0.014), (0, 0, 0.019), 0.016, cap)
        end = (-LEVER_M, 0, 0.012)
        b.capsule(handle, (0, 0, 0), end, 0.009, chrome, mass=0.1)
        b.felt.capsule(handle, (-0.8 * LEVER_M, 0, 0.010), end, 0.011, mass=0.01)
        b.drawn.capsule(handle, (-0.8 * LEVER_M, 0, 0.010), end, 0.0115, cap)
        b.mark(handle, f"{name} grip", (-0.10, 0, 0.010))
        low, high = (x - 0.15, 0.004 * sign, h - BASIN[2]), (x - 0.15, 0.004 * sign, h + 0.225)
        b.sign(b.drawn.cylinder(body, low, high, 0.007, water), name, WATER_ON_RAD, math.inf)
