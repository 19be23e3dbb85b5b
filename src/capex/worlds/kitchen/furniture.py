"""Furniture whose parts move: drawers, cupboards, a dishwasher, each in the place of a unit of the row. Frames as in `fixtures`.

Their grips stand about 7 cm off the front: a hand that points down needs that much to close on them without touching the worktop.
"""

from __future__ import annotations

from typing import Any

from capex.worlds.kitchen.fixtures import COUNTER_DEPTH_M, COUNTER_HEIGHT_M, TOE_KICK_M, Place, add_front, add_worktop, static
from capex.worlds.kitchen.looks import Colour
from capex.worlds.kitchen.parts import BOX, HIDDEN, Builder

BOARD: Colour = (0.90, 0.86, 0.78)  # the inside of furniture
BOARD_M = 0.016
SIDES = ("left", "right")

DRAWER_DEPTH_M = 0.50
DRAWER_TRAVEL_M = 0.55 * DRAWER_DEPTH_M
DRAWER_LOW_M, DRAWER_HIGH_M = COUNTER_HEIGHT_M - 0.22, COUNTER_HEIGHT_M - 0.05
DRAWER_FLOOR_M = DRAWER_LOW_M + 0.025  # the upper side of its bottom
GRIP_OUT_M = 0.068  # from a front to the middle of its grip


def add_drawers(b: Builder, place: Place, name: str, width: float) -> None:
    """A counter whose two drawers slide; the doors below are only drawn."""
    body = static(b, name, place)
    d, low = COUNTER_DEPTH_M, DRAWER_LOW_M - 0.01
    b.box(body, (d / 2 + 0.01, 0, (low + TOE_KICK_M) / 2), (d / 2 - 0.01, width / 2, (low - TOE_KICK_M) / 2), b.looks.cabinet)
    add_worktop(b, body, width)
    middle, half = (low + COUNTER_HEIGHT_M - 0.04) / 2, (COUNTER_HEIGHT_M - 0.04 - low) / 2
    for y in (width / 2 - BOARD_M / 2, 0.0, -width / 2 + BOARD_M / 2):
        b.box(body, (d / 2 + 0.01, y, middle), (d / 2 - 0.01, BOARD_M / 2, half), b.looks.cabinet)
    b.box(body, (d - 0.02, 0, middle), (0.01, width / 2, half), b.looks.plain(BOARD))
    for side, y in zip(SIDES, (width / 4, -width / 4), strict=True):
        add_front(b, body, y, width / 4, TOE_KICK_M + 0.01, low, False)
        _add_drawer(b, body, f"{side} drawer", y, width / 4)


def _add_drawer(b: Builder, counter: Any, name: str, y: float, half: float) -> None:
    drawer = b.slide(counter, name, (0, y, 0), (-1, 0, 0), DRAWER_TRAVEL_M, friction_n=6.0, damping=12.0)
    middle = (DRAWER_LOW_M + DRAWER_HIGH_M) / 2
    b.box(drawer, (-0.009, 0, middle), (0.009, half - 0.004, middle - DRAWER_LOW_M - 0.004), b.looks.cabinet, mass=1.0, face="x")
    board, inside = b.looks.plain(BOARD), half - 0.016
    b.box(drawer, (DRAWER_DEPTH_M / 2, 0, DRAWER_FLOOR_M - 0.005), (DRAWER_DEPTH_M / 2, inside, 0.005), board, mass=1.0)
    for side in (inside - 0.005, -inside + 0.005):
        b.box(drawer, (DRAWER_DEPTH_M / 2, side, DRAWER_FLOOR_M + 0.045), (DRAWER_DEPTH_M / 2, 0.005, 0.045), board, mass=0.3)
    b.box(drawer, (DRAWER_DEPTH_M - 0.005, 0, DRAWER_FLOOR_M + 0.045), (0.005, inside - 0.01, 0.045), board, mass=0.3)
    add_knob(b, drawer, (-0.018, 0, middle + 0.01), name)


def add_knob(b: Builder, part: Any, face: tuple[float, float, float], name: str) -> None:
    """A steel knob on a stem, pointing along -x from a face; its marked point is "NAME grip"."""
    x, y, z = face
    steel, plate = b.looks.plain((0.80, 0.81, 0.83), 0.9), b.looks.plain((0.16, 0.16, 0.17), 0.5)
    b.cylinder(part, (x, y, z), (x - 0.004, y, z), 0.030, plate, collide=False)
    b.cylinder(part, (x, y, z), (x - GRIP_OUT_M, y, z), 0.009, steel, mass=0.05)
    head = (x - GRIP_OUT_M, y, z)
    part.add_geom(type=BOX, pos=head, size=(0.014, 0.020, 0.020), mass=0.1, **HIDDEN)  # to the touch it has flat sides, for two pads
    outline = [(0.0, -0.015), (0.016, -0.015), (0.024, -0.007), (0.024, 0.007), (0.016, 0.015), (0.0, 0.015)]
    b.turned(part, outline, steel, axis="x", pos=head)
    b.mark(part, f"{name} grip", head)
