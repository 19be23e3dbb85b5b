"""The stove and the sink with controls that work: the knobs turn, the faucet's handles swing.
Frames and names as in `fixtures`.
"""

from __future__ import annotations

import math
from typing import Any

from capex.pose import PlanarPose
from capex.worlds.kitchen.fixtures import (
    BASIN,
    BASIN_FRONT_M,
    BURNERS,
    COUNTER_HEIGHT_M,
    add_sink,
    add_stove,
)
from capex.worlds.kitchen.materials import Colour
from capex.worlds.kitchen.parts import CAPSULE, HIDDEN, Builder

KNOB_ORDER = ("rear left", "front left", "front right", "rear right")  # from left to right
KNOB_RANGE_RAD = 2.2
KNOB_OFF_RAD = 0.35
KNOB_Z_M = COUNTER_HEIGHT_M - 0.055
POINTER_M = 0.046  # from the axis to the end of the pointer
# Polished: a finger slides along it.
SMOOTH: dict[str, Any] = {"friction": (0.3, 0.005, 0.0001), "priority": 2, "condim": 3}


def knob_y(k: int) -> float:
    """Where the k-th knob sits, from the stove's middle."""
    return 0.20 - 0.1333 * k


def add_working_stove(b: Builder, place: PlanarPose, width: float) -> None:
    """The stove with four knobs: pointer up is off, turned to the left is on, and its
    burner glows.
    """
    add_stove(b, place, width, knobs=False)
    body = b.spec.body("stove")
    for k, burner in enumerate(KNOB_ORDER):
        _add_knob(b, body, f"{burner} knob", knob_y(k))
        x, y, radius = BURNERS[burner]
        h = COUNTER_HEIGHT_M
        ember = b.materials.textured("plain", (0.92, 0.07, 0.03), emission=0.7)
        glow = b.cylinder(body, (x, y, h), (x, y, h + 0.0020), radius * 0.92, ember, collide=False)
        b.sign(glow, f"{burner} knob", KNOB_OFF_RAD, math.inf)


def _add_knob(b: Builder, stove: Any, name: str, y: float) -> None:
    black, white = (
        b.materials.plain((0.10, 0.10, 0.11), 0.5),
        b.materials.plain((0.97, 0.97, 0.97), 0.3),
    )
    b.cylinder(
        stove,
        (0.019, y, KNOB_Z_M),
        (0.006, y, KNOB_Z_M),
        0.034,
        b.materials.plain((0.35, 0.36, 0.38), 0.5),
        collide=False,
    )
    b.box(
        stove,
        (0.004, y, KNOB_Z_M + 0.046),
        (0.004, 0.004, 0.004),
        b.materials.plain((0.9, 0.1, 0.1)),
        collide=False,
    )
    knob = b.hinge(
        stove,
        name,
        (0, y, KNOB_Z_M),
        (-1, 0, 0),
        KNOB_RANGE_RAD,
        friction_nm=0.05,
        damping=0.01,
        armature=0.0005,
    )
    b.cylinder(knob, (0.01, 0, 0), (-0.030, 0, 0), 0.023, black, mass=0.05, **SMOOTH)
    knob.add_geom(
        type=CAPSULE,
        fromto=(-0.045, 0, -0.012, -0.045, 0, POINTER_M - 0.009),
        size=(0.009, 0, 0),
        mass=0.04,
        **HIDDEN,
        **SMOOTH,
    )
    b.box(knob, (-0.043, 0, 0.014), (0.014, 0.009, 0.032), black, collide=False)
    b.box(knob, (-0.0575, 0, 0.022), (0.001, 0.004, 0.022), white, collide=False)
    b.box(knob, (-0.043, 0, 0.0465), (0.012, 0.004, 0.001), white, collide=False)
    b.mark(knob, f"{name} grip", (-0.045, 0, POINTER_M - 0.009))


HANDLE_Y_M = 0.18
HANDLE_RANGE_RAD = 1.4
WATER_ON_RAD = 0.40
LEVER_M = 0.12
CAPS: dict[str, Colour] = {"left": (0.85, 0.12, 0.10), "right": (0.12, 0.30, 0.85)}  # hot, cold


def add_working_sink(b: Builder, place: PlanarPose, width: float) -> None:
    """The sink with two handles beside the spout that swing outwards: the left one has a red cap,
    the right one a blue cap.
    """
    add_sink(b, place, width, lever=False)
    body = b.spec.body("sink")
    h, x = COUNTER_HEIGHT_M, BASIN_FRONT_M + BASIN[1] + 0.06
    chrome = b.materials.plain((0.78, 0.79, 0.81), 0.9)
    water = b.materials.textured("plain", (0.62, 0.80, 0.95), shine=0.9, emission=0.25)
    for side, sign in (("left", 1.0), ("right", -1.0)):
        name = f"{side} handle"
        b.cylinder(
            body, (x, sign * HANDLE_Y_M, h), (x, sign * HANDLE_Y_M, h + 0.012), 0.027, chrome
        )
        b.cylinder(
            body, (x, sign * HANDLE_Y_M, h), (x, sign * HANDLE_Y_M, h + 0.055), 0.016, chrome
        )
        handle = b.hinge(
            body,
            name,
            (x, sign * HANDLE_Y_M, h + 0.07),
            (0, 0, -sign),
            HANDLE_RANGE_RAD,
            friction_nm=0.18,
            damping=0.05,
            armature=0.002,
        )
        b.cylinder(handle, (0, 0, -0.014), (0, 0, 0.014), 0.020, chrome, mass=0.1)
        b.cylinder(
            handle,
            (0, 0, 0.014),
            (0, 0, 0.019),
            0.016,
            b.materials.plain(CAPS[side], 0.4),
            collide=False,
        )
        b.capsule(handle, (0, 0, 0), (-LEVER_M, 0, 0.012), 0.009, chrome, mass=0.1)
        handle.add_geom(
            type=CAPSULE,
            fromto=(-0.8 * LEVER_M, 0, 0.010, -LEVER_M, 0, 0.012),
            size=(0.011, 0, 0),
            mass=0.01,
            **HIDDEN,
        )
        b.capsule(
            handle,
            (-0.8 * LEVER_M, 0, 0.010),
            (-LEVER_M, 0, 0.012),
            0.0115,
            b.materials.plain(CAPS[side], 0.4),
            collide=False,
        )
        b.mark(handle, f"{name} grip", (-0.10, 0, 0.010))
        spout = x - 0.15
        stream = b.cylinder(
            body,
            (spout, 0.004 * sign, h - BASIN[2]),
            (spout, 0.004 * sign, h + 0.225),
            0.007,
            water,
            collide=False,
        )
        b.sign(stream, name, WATER_ON_RAD, math.inf)
