"""Furniture whose parts move: drawers, cupboards, a dishwasher, each in the place of a unit of the row. Frames as in `fixtures`.

Their grips stand about 7 cm off the front: a hand that points down needs that much to close on them without touching the worktop.
"""

from __future__ import annotations

import itertools
from typing import Any

from capex.worlds.kitchen.fixtures import (
    COUNTER_DEPTH_M,
    COUNTER_HEIGHT_M,
    TOE_KICK_M,
    Place,
    add_front,
    add_wall_cabinets,
    add_worktop,
    static,
)
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


LEDGE_M = 0.14  # height of a ledge above the worktop
LEDGE_TOP_M = COUNTER_HEIGHT_M + LEDGE_M


def add_ledge(b: Builder, place: Place, width: float, depth: float) -> None:
    """A low cabinet on a worktop, where a hand that points forward reaches what stands on it."""
    body = static(b, "ledge", place)
    b.box(body, (depth / 2, 0, COUNTER_HEIGHT_M + LEDGE_M / 2 - 0.01), (depth / 2, width / 2, LEDGE_M / 2 - 0.01), b.looks.cabinet)
    b.box(body, (depth / 2, 0, LEDGE_TOP_M - 0.01), (depth / 2 + 0.006, width / 2 + 0.006, 0.01), b.looks.counter)


CUPBOARDS = ("left", "middle", "right")
CUPBOARD_LOW_M, CUPBOARD_HIGH_M, CUPBOARD_DEPTH_M = 1.10, 1.56, 0.33
CUPBOARD_FRONT_M = COUNTER_DEPTH_M - CUPBOARD_DEPTH_M  # from the counter's front
CUPBOARD_DOOR_RAD = 1.75
CUPBOARD_HINGES = {"left": -1.0, "middle": 1.0, "right": -1.0}  # 1: hangs on its left; no door meets a neighbour's handle
DOOR_M = 0.018


def cupboard_y(column: str, width: float) -> float:
    """Where the middle of a cupboard is, from the middle of a bank of that width."""
    return width / 3 * (1 - CUPBOARDS.index(column))


def cupboard_inside(column: str, width: float) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    """Lower and upper corner of the room in a cupboard, in the counter's frame."""
    y, half = cupboard_y(column, width), width / 6 - BOARD_M
    low = (CUPBOARD_FRONT_M + DOOR_M, y - half, CUPBOARD_LOW_M + BOARD_M)
    return low, (COUNTER_DEPTH_M - BOARD_M, y + half, CUPBOARD_HIGH_M - BOARD_M)


def add_cupboards(b: Builder, place: Place, name: str, width: float) -> None:
    """Three cupboards side by side, low enough for the arm, each with a door that swings towards the robot; wall cabinets above."""
    body = static(b, name, place)
    low, high, x0 = CUPBOARD_LOW_M, CUPBOARD_HIGH_M, CUPBOARD_FRONT_M + DOOR_M
    middle, half, deep = (low + high) / 2, (high - low) / 2, COUNTER_DEPTH_M - x0
    board = b.looks.plain(BOARD)
    for z in (low + BOARD_M / 2, high - BOARD_M / 2):
        b.box(body, (x0 + deep / 2, 0, z), (deep / 2, width / 2, BOARD_M / 2), b.looks.cabinet)
    b.box(body, (COUNTER_DEPTH_M - BOARD_M / 2, 0, middle), (BOARD_M / 2, width / 2, half), board)
    for k in range(len(CUPBOARDS) + 1):
        y = width / 2 - k * width / 3 + (-BOARD_M / 2 if k == 0 else BOARD_M / 2 if k == len(CUPBOARDS) else 0.0)
        b.box(body, (x0 + deep / 2, y, middle), (deep / 2, BOARD_M / 2, half), b.looks.cabinet)
    b.box(body, (x0 + 0.004, 0, low + BOARD_M + 0.006), (0.004, width / 2, 0.006), b.looks.cabinet)  # a lip keeps round things in
    for column in CUPBOARDS:
        _add_door(b, body, f"{column} cabinet door", cupboard_y(column, width), width / 6, CUPBOARD_HINGES[column])
    for one, two in itertools.pairwise(CUPBOARDS):  # their hinges are recessed: a door turns clear of its neighbour
        b.spec.add_exclude(bodyname1=f"{one} cabinet door", bodyname2=f"{two} cabinet door")
    add_wall_cabinets(b, place, f"{name} above", width)


def _add_door(b: Builder, body: Any, name: str, y: float, half: float, side: float) -> None:
    x = CUPBOARD_FRONT_M + DOOR_M / 2
    door = b.hinge(body, name, (x, y + side * half, 0), (0, 0, -side), CUPBOARD_DOOR_RAD, friction_nm=0.25, damping=0.30)
    centre, low, high = -side * half, CUPBOARD_LOW_M + 0.003, CUPBOARD_HIGH_M - 0.003
    b.box(door, (0, centre, (low + high) / 2), (DOOR_M / 2, half - 0.003, (high - low) / 2), b.looks.cabinet, mass=2.0, face="x")
    trim = b.looks.plain(tuple(0.82 * c for c in b.looks.style.cabinet), 0.2)  # type: ignore[arg-type]
    for face in (-DOOR_M / 2 - 0.001, DOOR_M / 2 + 0.001):
        b.box(door, (face, centre, (low + high) / 2), (0.001, half - 0.045, (high - low) / 2 - 0.045), trim, collide=False)
    steel = b.looks.plain((0.80, 0.81, 0.83), 0.9)
    grip = -side * (2 * half - 0.035)
    b.bar_handle(door, (-DOOR_M / 2, grip, low + 0.06), (-DOOR_M / 2, grip, low + 0.22), (-0.05, 0, 0), steel, 0.009)
    b.mark(door, f"{name} grip", (-DOOR_M / 2 - 0.05, grip, low + 0.14))
