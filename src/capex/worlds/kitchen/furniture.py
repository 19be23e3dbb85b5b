"""Furniture whose parts move: drawers, cupboards, a dishwasher, each in the place of a unit of the
row. Frames as in `fixtures`.

Their grips stand about 7 cm off the front: a hand that points down needs that much to close on them
without touching the worktop.
"""

from __future__ import annotations

import itertools
from typing import Any

from capex.pose import PlanarPose
from capex.worlds.kitchen.fixtures import (
    COUNTER_DEPTH_M,
    COUNTER_HEIGHT_M,
    STEEL,
    TOE_KICK_M,
    add_front,
    add_wall_cabinets,
    add_worktop,
    static,
)
from capex.worlds.kitchen.materials import Colour
from capex.worlds.kitchen.parts import BOX, HIDDEN, Builder

BOARD: Colour = (0.90, 0.86, 0.78)  # the inside of furniture
BOARD_M = 0.016
SIDES = ("left", "right")

DRAWER_DEPTH_M = 0.50
DRAWER_TRAVEL_M = 0.55 * DRAWER_DEPTH_M
DRAWER_LOW_M, DRAWER_HIGH_M = COUNTER_HEIGHT_M - 0.22, COUNTER_HEIGHT_M - 0.05
DRAWER_FLOOR_M = DRAWER_LOW_M + 0.025  # the upper side of its bottom
GRIP_OUT_M = 0.068  # from a front to the middle of its grip


def add_drawers(b: Builder, place: PlanarPose, name: str, width: float) -> None:
    """A counter whose two drawers slide; the doors below are only drawn."""
    body = static(b, name, place)
    d, low = COUNTER_DEPTH_M, DRAWER_LOW_M - 0.01
    b.box(
        body,
        (d / 2 + 0.01, 0, (low + TOE_KICK_M) / 2),
        (d / 2 - 0.01, width / 2, (low - TOE_KICK_M) / 2),
        b.materials.cabinet,
    )
    add_worktop(b, body, width)
    middle, half = (low + COUNTER_HEIGHT_M - 0.04) / 2, (COUNTER_HEIGHT_M - 0.04 - low) / 2
    for y in (width / 2 - BOARD_M / 2, 0.0, -width / 2 + BOARD_M / 2):
        b.box(
            body, (d / 2 + 0.01, y, middle), (d / 2 - 0.01, BOARD_M / 2, half), b.materials.cabinet
        )
    b.box(body, (d - 0.02, 0, middle), (0.01, width / 2, half), b.materials.plain(BOARD))
    for side, y in zip(SIDES, (width / 4, -width / 4), strict=True):
        add_front(b, body, y, width / 4, TOE_KICK_M + 0.01, low, False)
        _add_drawer(b, body, f"{side} drawer", y, width / 4)


def _add_drawer(b: Builder, counter: Any, name: str, y: float, half: float) -> None:
    drawer = b.slide(
        counter, name, (0, y, 0), (-1, 0, 0), DRAWER_TRAVEL_M, friction_n=6.0, damping=12.0
    )
    middle = (DRAWER_LOW_M + DRAWER_HIGH_M) / 2
    b.box(
        drawer,
        (-0.009, 0, middle),
        (0.009, half - 0.004, middle - DRAWER_LOW_M - 0.004),
        b.materials.cabinet,
        mass=1.0,
        face="x",
    )
    board, inside = b.materials.plain(BOARD), half - 0.016
    b.box(
        drawer,
        (DRAWER_DEPTH_M / 2, 0, DRAWER_FLOOR_M - 0.005),
        (DRAWER_DEPTH_M / 2, inside, 0.005),
        board,
        mass=1.0,
    )
    for side in (inside - 0.005, -inside + 0.005):
        b.box(
            drawer,
            (DRAWER_DEPTH_M / 2, side, DRAWER_FLOOR_M + 0.045),
            (DRAWER_DEPTH_M / 2, 0.005, 0.045),
            board,
            mass=0.3,
        )
    b.box(
        drawer,
        (DRAWER_DEPTH_M - 0.005, 0, DRAWER_FLOOR_M + 0.045),
        (0.005, inside - 0.01, 0.045),
        board,
        mass=0.3,
    )
    add_knob(b, drawer, (-0.018, 0, middle + 0.01), name)


def add_knob(b: Builder, part: Any, face: tuple[float, float, float], name: str) -> None:
    """A steel knob on a stem, pointing along -x from a face; its marked point is "NAME grip"."""
    x, y, z = face
    steel, plate = (
        b.materials.plain((0.80, 0.81, 0.83), 0.9),
        b.materials.plain((0.16, 0.16, 0.17), 0.5),
    )
    b.cylinder(part, (x, y, z), (x - 0.004, y, z), 0.030, plate, collide=False)
    b.cylinder(part, (x, y, z), (x - GRIP_OUT_M, y, z), 0.009, steel, mass=0.05)
    head = (x - GRIP_OUT_M, y, z)
    # To the touch it has flat sides, for two pads.
    part.add_geom(type=BOX, pos=head, size=(0.014, 0.020, 0.020), mass=0.1, **HIDDEN)
    outline = [
        (0.0, -0.015),
        (0.016, -0.015),
        (0.024, -0.007),
        (0.024, 0.007),
        (0.016, 0.015),
        (0.0, 0.015),
    ]
    b.turned(part, outline, steel, axis="x", pos=head)
    b.mark(part, f"{name} grip", head)


RACK_TRAVEL_M = 0.42
RACKS = {"upper rack": 0.50, "lower rack": 0.18}  # name -> height of its floor
DISHWASHER_M = 0.60
DISHWASHER_DOOR_M = 0.50
RACK_GRIP_M = 0.095  # before the cavity's front when the rack is in


def add_dishwasher(b: Builder, place: PlanarPose, name: str, width: float, side: float) -> None:
    """A counter with a dishwasher at one end (1: left): its door lies open before it, two racks
    slide, each with a blue grip.
    """
    body = static(b, name, place)
    h, d, y = COUNTER_HEIGHT_M, COUNTER_DEPTH_M, side * (width - DISHWASHER_M) / 2
    rest, rest_y = width - DISHWASHER_M, -side * DISHWASHER_M / 2
    b.box(
        body,
        (d / 2 + 0.01, rest_y, (h - 0.04 + TOE_KICK_M) / 2),
        (d / 2 - 0.01, rest / 2, (h - 0.04 - TOE_KICK_M) / 2),
        b.materials.cabinet,
    )
    add_worktop(b, body, width)
    add_front(b, body, rest_y, rest / 2, h - 0.22, h - 0.05, True)
    add_front(b, body, rest_y, rest / 2, TOE_KICK_M + 0.01, h - 0.23, False)
    steel, front = (
        b.materials.textured("brushed", (0.66, 0.67, 0.69), shine=0.6),
        b.materials.appliance,
    )
    half = DISHWASHER_M / 2
    for wall in (half - 0.012, -half + 0.012):
        b.box(body, (d / 2 + 0.005, y + wall, 0.48), (d / 2 - 0.005, 0.012, 0.38), front)
    b.box(body, (d - 0.02, y, 0.48), (0.01, half - 0.024, 0.38), steel)
    b.box(body, (d / 2, y, TOE_KICK_M + 0.01), (d / 2, half, 0.01), steel)
    b.box(body, (d / 2 + 0.005, y, 0.83), (d / 2 - 0.005, half, 0.03), front)
    b.box(
        body,
        (0.004, y, 0.83),
        (0.002, half - 0.01, 0.022),
        b.materials.plain((0.10, 0.10, 0.11), 0.5),
        collide=False,
    )
    for k in range(4):
        b.cylinder(
            body,
            (0.003, y - 0.06 - 0.035 * k, 0.83),
            (0.0, y - 0.06 - 0.035 * k, 0.83),
            0.008,
            b.materials.plain(STEEL),
            collide=False,
        )
    b.box(
        body,
        (0.001, y + 0.14, 0.83),
        (0.001, 0.03, 0.010),
        b.materials.textured("plain", (0.2, 0.85, 0.4), emission=0.5),
        collide=False,
    )
    door = -DISHWASHER_DOOR_M / 2
    b.box(body, (door, y, TOE_KICK_M + 0.012), (DISHWASHER_DOOR_M / 2, half - 0.004, 0.012), front)
    b.box(
        body,
        (door, y, TOE_KICK_M + 0.026),
        (DISHWASHER_DOOR_M / 2 - 0.03, half - 0.03, 0.003),
        steel,
        collide=False,
    )
    # Soap.
    b.box(
        body,
        (door - 0.05, y, TOE_KICK_M + 0.030),
        (0.05, 0.06, 0.003),
        b.materials.plain((0.35, 0.36, 0.38)),
        collide=False,
    )
    for rack, z in RACKS.items():
        _add_rack(b, body, rack, y, z, half - 0.04)


def _add_rack(b: Builder, dishwasher: Any, name: str, y: float, z: float, half: float) -> None:
    rack = b.slide(
        dishwasher, name, (0, y, z), (-1, 0, 0), RACK_TRAVEL_M, friction_n=4.0, damping=10.0
    )
    wire, blue = (
        b.materials.plain((0.90, 0.91, 0.92), 0.6),
        b.materials.plain((0.10, 0.35, 0.85), 0.5),
    )
    x0, x1, tall = 0.02, 0.50, 0.10
    middle = (x0 + x1) / 2
    rack.add_geom(
        type=BOX, pos=(middle, 0, 0.004), size=((x1 - x0) / 2, half, 0.004), mass=1.2, **HIDDEN
    )
    for x in (x0, x1):
        rack.add_geom(
            type=BOX, pos=(x, 0, tall / 2), size=(0.005, half, tall / 2), mass=0.2, **HIDDEN
        )
    for k in range(9):
        x = x0 + (x1 - x0) * k / 8
        b.capsule(rack, (x, -half, 0.005), (x, half, 0.005), 0.0035, wire, collide=False)
    for k in range(11):
        across = -half + 2 * half * k / 10
        b.capsule(rack, (x0, across, 0.005), (x1, across, 0.005), 0.0035, wire, collide=False)
        for x in (x0, x1):
            b.capsule(rack, (x, across, 0.005), (x, across, tall), 0.0035, wire, collide=False)
    for low in (0.5 * tall, tall):
        for x in (x0, x1):
            b.capsule(rack, (x, -half, low), (x, half, low), 0.0045, wire, collide=False)
        for across in (-half, half):
            b.capsule(rack, (x0, across, low), (x1, across, low), 0.0045, wire, collide=False)
    plate = b.materials.plain((0.96, 0.96, 0.94), 0.7)
    for k in range(5):
        x = x0 + 0.10 + 0.065 * k
        if name == "lower rack":
            b.cylinder(
                rack, (x, 0.08, 0.105), (x + 0.008, 0.08, 0.108), 0.095, plate, collide=False
            )
        elif k % 2 == 0:
            b.cylinder(
                rack,
                (x, -0.10, 0.012),
                (x, -0.10, 0.095),
                0.036,
                b.materials.plain((0.35, 0.55, 0.70), 0.6),
                collide=False,
            )
            b.cylinder(rack, (x, 0.10, 0.012), (x, 0.10, 0.085), 0.034, plate, collide=False)
    b.box(rack, (x0 - 0.060, 0, tall), (0.060, 0.008, 0.010), blue, mass=0.05)
    b.box(rack, (-RACK_GRIP_M, 0, tall), (0.014, 0.013, 0.022), blue, mass=0.05)
    b.mark(rack, f"{name} grip", (-RACK_GRIP_M, 0, tall + 0.004))


LEDGE_M = 0.14  # height of a ledge above the worktop
LEDGE_TOP_M = COUNTER_HEIGHT_M + LEDGE_M


def add_ledge(b: Builder, place: PlanarPose, width: float, depth: float) -> None:
    """A low cabinet on a worktop, where a hand that points forward reaches what stands on it."""
    body = static(b, "ledge", place)
    b.box(
        body,
        (depth / 2, 0, COUNTER_HEIGHT_M + LEDGE_M / 2 - 0.01),
        (depth / 2, width / 2, LEDGE_M / 2 - 0.01),
        b.materials.cabinet,
    )
    b.box(
        body,
        (depth / 2, 0, LEDGE_TOP_M - 0.01),
        (depth / 2 + 0.006, width / 2 + 0.006, 0.01),
        b.materials.counter,
    )


CUPBOARDS = ("left", "middle", "right")
CUPBOARD_LOW_M, CUPBOARD_HIGH_M, CUPBOARD_DEPTH_M = 1.10, 1.56, 0.33
CUPBOARD_FRONT_M = COUNTER_DEPTH_M - CUPBOARD_DEPTH_M  # from the counter's front
CUPBOARD_DOOR_RAD = 1.75
# 1: hangs on its left; no door meets a neighbour's handle.
CUPBOARD_HINGES = {"left": -1.0, "middle": 1.0, "right": -1.0}
DOOR_M = 0.018


def cupboard_y(column: str, width: float) -> float:
    """Where the middle of a cupboard is, from the middle of a bank of that width."""
    return width / 3 * (1 - CUPBOARDS.index(column))


def cupboard_inside(
    column: str, width: float
) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    """Lower and upper corner of the room in a cupboard, in the counter's frame."""
    y, half = cupboard_y(column, width), width / 6 - BOARD_M
    low = (CUPBOARD_FRONT_M + DOOR_M, y - half, CUPBOARD_LOW_M + BOARD_M)
    return low, (COUNTER_DEPTH_M - BOARD_M, y + half, CUPBOARD_HIGH_M - BOARD_M)


def add_cupboards(b: Builder, place: PlanarPose, name: str, width: float) -> None:
    """Three cupboards side by side, low enough for the arm, each with a door that swings towards
    the robot; wall cabinets above.
    """
    body = static(b, name, place)
    low, high, x0 = CUPBOARD_LOW_M, CUPBOARD_HIGH_M, CUPBOARD_FRONT_M + DOOR_M
    middle, half, deep = (low + high) / 2, (high - low) / 2, COUNTER_DEPTH_M - x0
    board = b.materials.plain(BOARD)
    for z in (low + BOARD_M / 2, high - BOARD_M / 2):
        b.box(body, (x0 + deep / 2, 0, z), (deep / 2, width / 2, BOARD_M / 2), b.materials.cabinet)
    b.box(body, (COUNTER_DEPTH_M - BOARD_M / 2, 0, middle), (BOARD_M / 2, width / 2, half), board)
    for k in range(len(CUPBOARDS) + 1):
        y = (
            width / 2
            - k * width / 3
            + (-BOARD_M / 2 if k == 0 else BOARD_M / 2 if k == len(CUPBOARDS) else 0.0)
        )
        b.box(body, (x0 + deep / 2, y, middle), (deep / 2, BOARD_M / 2, half), b.materials.cabinet)
    # A lip keeps round things in.
    b.box(
        body, (x0 + 0.004, 0, low + BOARD_M + 0.006), (0.004, width / 2, 0.006), b.materials.cabinet
    )
    for column in CUPBOARDS:
        _add_door(
            b,
            body,
            f"{column} cabinet door",
            cupboard_y(column, width),
            width / 6,
            CUPBOARD_HINGES[column],
        )
    # Their hinges are recessed: a door turns clear of its neighbour.
    for one, two in itertools.pairwise(CUPBOARDS):
        b.spec.add_exclude(bodyname1=f"{one} cabinet door", bodyname2=f"{two} cabinet door")
    add_wall_cabinets(b, place, f"{name} above", width)


def _add_door(b: Builder, body: Any, name: str, y: float, half: float, side: float) -> None:
    x = CUPBOARD_FRONT_M + DOOR_M / 2
    door = b.hinge(
        body,
        name,
        (x, y + side * half, 0),
        (0, 0, -side),
        CUPBOARD_DOOR_RAD,
        friction_nm=0.25,
        damping=0.30,
    )
    centre, low, high = -side * half, CUPBOARD_LOW_M + 0.003, CUPBOARD_HIGH_M - 0.003
    b.box(
        door,
        (0, centre, (low + high) / 2),
        (DOOR_M / 2, half - 0.003, (high - low) / 2),
        b.materials.cabinet,
        mass=2.0,
        face="x",
    )
    trim = b.materials.plain(tuple(0.82 * c for c in b.materials.style.cabinet), 0.2)  # type: ignore[arg-type]
    for face in (-DOOR_M / 2 - 0.001, DOOR_M / 2 + 0.001):
        b.box(
            door,
            (face, centre, (low + high) / 2),
            (0.001, half - 0.045, (high - low) / 2 - 0.045),
            trim,
            collide=False,
        )
    steel = b.materials.plain((0.80, 0.81, 0.83), 0.9)
    grip = -side * (2 * half - 0.035)
    b.bar_handle(
        door,
        (-DOOR_M / 2, grip, low + 0.06),
        (-DOOR_M / 2, grip, low + 0.22),
        (-0.05, 0, 0),
        steel,
        0.009,
    )
    b.mark(door, f"{name} grip", (-DOOR_M / 2 - 0.05, grip, low + 0.14))
