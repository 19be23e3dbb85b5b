"""Furniture whose parts move: drawers, cupboards, a dishwasher, a stove and a sink that work, each
in the place of a unit of the row. Frames as in `fixtures`.

Their grips stand about 7 cm off the front: a hand that points down needs that much to close on them
without touching the worktop.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

from capex.pose import PlanarPose
from capex.worlds.kitchen.fixtures import (
    BASIN,
    BASIN_FRONT_M,
    BLACK,
    BURNERS,
    CHROME,
    COUNTER_DEPTH_M,
    COUNTER_HEIGHT_M,
    STEEL,
    TOE_KICK_M,
    add_carcass,
    add_front,
    add_sink,
    add_stove,
    add_wall_cabinets,
    add_worktop,
)
from capex.worlds.kitchen.materials import Colour, Look
from capex.worlds.kitchen.parts import Builder, Point

BOARD: Colour = (0.90, 0.86, 0.78)  # the inside of furniture
BOARD_M = 0.016  # thickness of a board
GRIP_STEEL: Look = (0.80, 0.81, 0.83, 0.9)  # handles of parts that move; the others' are drawn
SIDES = ("left", "right")

DRAWER_DEPTH_M = 0.50
DRAWER_TRAVEL_M = 0.55 * DRAWER_DEPTH_M  # as in the task's rule
DRAWER_LOW_M, DRAWER_HIGH_M = COUNTER_HEIGHT_M - 0.22, COUNTER_HEIGHT_M - 0.05
DRAWER_FLOOR_M = DRAWER_LOW_M + 0.025  # the upper side of its bottom
GRIP_OUT_M = 0.068  # from a front to the middle of its grip


def add_drawers(b: Builder, place: PlanarPose, name: str, width: float) -> None:
    """A counter whose two drawers slide; the doors below are only drawn."""
    body = b.fixture(name, place)
    d, low = COUNTER_DEPTH_M, DRAWER_LOW_M - 0.01
    add_carcass(b, body, 0, width, low)
    add_worktop(b, body, width)
    z, half = (low + COUNTER_HEIGHT_M - 0.04) / 2, (COUNTER_HEIGHT_M - 0.04 - low) / 2
    for y in (width / 2 - BOARD_M / 2, 0.0, -width / 2 + BOARD_M / 2):
        b.box(body, (d / 2 + 0.01, y, z), (d / 2 - 0.01, BOARD_M / 2, half), b.materials.cabinet)
    b.box(body, (d - 0.02, 0, z), (0.01, width / 2, half), BOARD)
    for side, y in zip(SIDES, (width / 4, -width / 4), strict=True):
        add_front(b, body, y, width / 4, TOE_KICK_M + 0.01, low, False)
        _add_drawer(b, body, f"{side} drawer", y, width / 4)


def _add_drawer(b: Builder, counter: Any, name: str, y: float, half: float) -> None:
    joint = {"frictionloss": 6.0, "damping": 12.0}
    drawer = b.slide(counter, name, (0, y, 0), (-1, 0, 0), DRAWER_TRAVEL_M, **joint)
    middle, inside, deep = (DRAWER_LOW_M + DRAWER_HIGH_M) / 2, half - 0.016, DRAWER_DEPTH_M / 2
    front = (0.009, half - 0.004, middle - DRAWER_LOW_M - 0.004)
    b.box(drawer, (-0.009, 0, middle), front, b.materials.cabinet, mass=1.0, face="x")
    b.box(drawer, (deep, 0, DRAWER_FLOOR_M - 0.005), (deep, inside, 0.005), BOARD, mass=1.0)
    z = DRAWER_FLOOR_M + 0.045
    for side in (inside - 0.005, -inside + 0.005):
        b.box(drawer, (deep, side, z), (deep, 0.005, 0.045), BOARD, mass=0.3)
    b.box(drawer, (DRAWER_DEPTH_M - 0.005, 0, z), (0.005, inside - 0.01, 0.045), BOARD, mass=0.3)
    _add_knob(b, drawer, (-0.018, 0, middle + 0.01), name)


def _add_knob(b: Builder, part: Any, face: tuple[float, float, float], name: str) -> None:
    """A steel knob on a stem, pointing along -x from a face; its marked point is "NAME grip"."""
    x, y, z = face
    steel, head = b.materials.name(GRIP_STEEL), (x - GRIP_OUT_M, y, z)
    b.drawn.cylinder(part, face, (x - 0.004, y, z), 0.030, (0.16, 0.16, 0.17, 0.5))
    b.cylinder(part, face, head, 0.009, steel, mass=0.05)
    # To the touch it has flat sides, for two pads.
    b.felt.box(part, head, (0.014, 0.020, 0.020), mass=0.1)
    half = [(0.0, 0.015), (0.016, 0.015), (0.024, 0.007)]  # the outline from one end to the middle
    outline = [(r, -x) for r, x in half] + half[::-1]
    b.turned(part, outline, steel, axis="x", pos=head)
    b.mark(part, f"{name} grip", head)


RACK_TRAVEL_M = 0.42  # out, a rack of 0.48 m stands nearly free of the cavity
RACKS = {"upper rack": 0.50, "lower rack": 0.18}  # name -> height of its floor
DISHWASHER_M = 0.60  # width
DISHWASHER_DOOR_M = 0.50  # open, it keeps the base 0.65 m away
RACK_GRIP_M = 0.095  # before the cavity's front when the rack is in


def add_dishwasher(b: Builder, place: PlanarPose, name: str, width: float, side: float) -> None:
    """A counter with a dishwasher at one end (1: left): its door lies open before it, two racks
    slide, each with a blue grip.
    """
    body = b.fixture(name, place)
    h, d, y = COUNTER_HEIGHT_M, COUNTER_DEPTH_M, side * (width - DISHWASHER_M) / 2
    rest, rest_y = width - DISHWASHER_M, -side * DISHWASHER_M / 2
    add_carcass(b, body, rest_y, rest, h - 0.04)
    add_worktop(b, body, width)
    add_front(b, body, rest_y, rest / 2, h - 0.22, h - 0.05, True)
    add_front(b, body, rest_y, rest / 2, TOE_KICK_M + 0.01, h - 0.23, False)
    steel, front = b.materials.brushed((0.66, 0.67, 0.69), 0.6), b.materials.appliance
    half, deep = DISHWASHER_M / 2, d / 2 - 0.005
    for wall in (half - 0.012, -half + 0.012):
        b.box(body, (d / 2 + 0.005, y + wall, 0.48), (deep, 0.012, 0.38), front)
    b.box(body, (d - 0.02, y, 0.48), (0.01, half - 0.024, 0.38), steel)
    b.box(body, (d / 2, y, TOE_KICK_M + 0.01), (d / 2, half, 0.01), steel)
    b.box(body, (d / 2 + 0.005, y, 0.83), (deep, half, 0.03), front)
    b.drawn.box(body, (0.004, y, 0.83), (0.002, half - 0.01, 0.022), (*BLACK, 0.5))
    for k in range(4):
        button = y - 0.06 - 0.035 * k
        b.drawn.cylinder(body, (0.003, button, 0.83), (0.0, button, 0.83), 0.008, STEEL)
    light = b.materials.lit((0.2, 0.85, 0.4), 0.5)
    b.drawn.box(body, (0.001, y + 0.14, 0.83), (0.001, 0.03, 0.010), light)
    door, floor = DISHWASHER_DOOR_M / 2, TOE_KICK_M
    b.box(body, (-door, y, floor + 0.012), (door, half - 0.004, 0.012), front)
    b.drawn.box(body, (-door, y, floor + 0.026), (door - 0.03, half - 0.03, 0.003), steel)
    soap = (-door - 0.05, y, floor + 0.030)
    b.drawn.box(body, soap, (0.05, 0.06, 0.003), (0.35, 0.36, 0.38))
    for rack, z in RACKS.items():
        _add_rack(b, body, rack, y, z, half - 0.04)


def _add_rack(b: Builder, dishwasher: Any, name: str, y: float, z: float, half: float) -> None:
    joint = {"frictionloss": 4.0, "damping": 10.0}
    rack = b.slide(dishwasher, name, (0, y, z), (-1, 0, 0), RACK_TRAVEL_M, **joint)
    plain = b.materials.plain
    wire, blue = plain((0.90, 0.91, 0.92), 0.6), plain((0.10, 0.35, 0.85), 0.5)
    x0, x1, tall = 0.02, 0.50, 0.10
    b.felt.box(rack, ((x0 + x1) / 2, 0, 0.004), ((x1 - x0) / 2, half, 0.004), mass=1.2)
    for x in (x0, x1):
        b.felt.box(rack, (x, 0, tall / 2), (0.005, half, tall / 2), mass=0.2)
    for k in range(9):
        x = x0 + (x1 - x0) * k / 8
        b.drawn.capsule(rack, (x, -half, 0.005), (x, half, 0.005), 0.0035, wire)
    for k in range(11):
        across = -half + 2 * half * k / 10
        b.drawn.capsule(rack, (x0, across, 0.005), (x1, across, 0.005), 0.0035, wire)
        for x in (x0, x1):
            b.drawn.capsule(rack, (x, across, 0.005), (x, across, tall), 0.0035, wire)
    for low in (0.5 * tall, tall):
        for x in (x0, x1):
            b.drawn.capsule(rack, (x, -half, low), (x, half, low), 0.0045, wire)
        for across in (-half, half):
            b.drawn.capsule(rack, (x0, across, low), (x1, across, low), 0.0045, wire)
    plate, glass = plain((0.96, 0.96, 0.94), 0.7), (0.35, 0.55, 0.70, 0.6)
    for k in range(5):
        x = x0 + 0.10 + 0.065 * k
        if name == "lower rack":
            b.drawn.cylinder(rack, (x, 0.08, 0.105), (x + 0.008, 0.08, 0.108), 0.095, plate)
        elif k % 2 == 0:
            b.drawn.cylinder(rack, (x, -0.10, 0.012), (x, -0.10, 0.095), 0.036, glass)
            b.drawn.cylinder(rack, (x, 0.10, 0.012), (x, 0.10, 0.085), 0.034, plate)
    b.box(rack, (x0 - 0.060, 0, tall), (0.060, 0.008, 0.010), blue, mass=0.05)
    b.box(rack, (-RACK_GRIP_M, 0, tall), (0.014, 0.013, 0.022), blue, mass=0.05)
    b.mark(rack, f"{name} grip", (-RACK_GRIP_M, 0, tall + 0.004))


LEDGE_M = 0.14  # above the worktop: a hand that points forward starts 15 cm above it
LEDGE_TOP_M = COUNTER_HEIGHT_M + LEDGE_M


def add_ledge(b: Builder, place: PlanarPose, width: float, depth: float) -> None:
    """A low cabinet on a worktop, where a hand that points forward reaches what stands on it."""
    body, x, low = b.fixture("ledge", place), depth / 2, COUNTER_HEIGHT_M + LEDGE_M / 2 - 0.01
    b.box(body, (x, 0, low), (x, width / 2, LEDGE_M / 2 - 0.01), b.materials.cabinet)
    top = (x + 0.006, width / 2 + 0.006, 0.01)
    b.box(body, (x, 0, LEDGE_TOP_M - 0.01), top, b.materials.counter)


CUPBOARDS = ("left", "middle", "right")
# Low enough for a hand that points forward, and over what stands on the worktop.
CUPBOARD_LOW_M, CUPBOARD_HIGH_M, CUPBOARD_DEPTH_M = 1.10, 1.56, 0.33
CUPBOARD_FRONT_M = COUNTER_DEPTH_M - CUPBOARD_DEPTH_M  # from the counter's front
CUPBOARD_DOOR_RAD = 1.75  # a little beyond square: the open leaf leaves the opening free
# 1: hangs on its left; no door meets a neighbour's handle.
CUPBOARD_HINGES = {"left": -1.0, "middle": 1.0, "right": -1.0}
DOOR_M = 0.018  # thickness of a door


def cupboard_y(column: str, width: float) -> float:
    """Where the middle of a cupboard is, from the middle of a bank of that width."""
    return width / 3 * (1 - CUPBOARDS.index(column))


def cupboard_inside(column: str, width: float) -> tuple[Point, Point]:
    """Lower and upper corner of the room in a cupboard, in the counter's frame."""
    y, half = cupboard_y(column, width), width / 6 - BOARD_M
    low = (CUPBOARD_FRONT_M + DOOR_M, y - half, CUPBOARD_LOW_M + BOARD_M)
    return low, (COUNTER_DEPTH_M - BOARD_M, y + half, CUPBOARD_HIGH_M - BOARD_M)


def add_cupboards(b: Builder, place: PlanarPose, name: str, width: float) -> None:
    """Three cupboards side by side, low enough for the arm, each with a door that swings towards
    the robot; wall cabinets above.
    """
    body = b.fixture(name, place)
    low, high, x0 = CUPBOARD_LOW_M, CUPBOARD_HIGH_M, CUPBOARD_FRONT_M + DOOR_M
    middle, half, deep = (low + high) / 2, (high - low) / 2, COUNTER_DEPTH_M - x0
    board = b.materials.plain(BOARD)
    for z in (low + BOARD_M / 2, high - BOARD_M / 2):
        b.box(body, (x0 + deep / 2, 0, z), (deep / 2, width / 2, BOARD_M / 2), b.materials.cabinet)
    b.box(body, (COUNTER_DEPTH_M - BOARD_M / 2, 0, middle), (BOARD_M / 2, width / 2, half), board)
    for k in range(len(CUPBOARDS) + 1):
        inset = {0: -BOARD_M / 2, len(CUPBOARDS): BOARD_M / 2}.get(k, 0.0)
        y = width / 2 - k * width / 3 + inset
        b.box(body, (x0 + deep / 2, y, middle), (deep / 2, BOARD_M / 2, half), b.materials.cabinet)
    lip = (x0 + 0.004, 0, low + BOARD_M + 0.006)  # keeps round things in
    b.box(body, lip, (0.004, width / 2, 0.006), b.materials.cabinet)
    for column in CUPBOARDS:
        y, side = cupboard_y(column, width), CUPBOARD_HINGES[column]
        _add_door(b, body, f"{column} cabinet door", y, width / 6, side)
    # Their hinges are recessed: a door turns clear of its neighbour.
    for one, two in itertools.pairwise(CUPBOARDS):
        b.spec.add_exclude(bodyname1=f"{one} cabinet door", bodyname2=f"{two} cabinet door")
    add_wall_cabinets(b, place, f"{name} above", width)


def _add_door(b: Builder, body: Any, name: str, y: float, half: float, side: float) -> None:
    at, joint = (
        (CUPBOARD_FRONT_M + DOOR_M / 2, y + side * half, 0),
        {"frictionloss": 0.25, "damping": 0.30},
    )
    door = b.hinge(body, name, at, (0, 0, -side), CUPBOARD_DOOR_RAD, **joint)
    centre, low, high = -side * half, CUPBOARD_LOW_M + 0.003, CUPBOARD_HIGH_M - 0.003
    z, half_z = (low + high) / 2, (high - low) / 2
    leaf = (DOOR_M / 2, half - 0.003, half_z)
    b.box(door, (0, centre, z), leaf, b.materials.cabinet, mass=2.0, face="x")
    for face in (-DOOR_M / 2 - 0.001, DOOR_M / 2 + 0.001):
        panel = (0.001, half - 0.045, half_z - 0.045)
        b.drawn.box(door, (face, centre, z), panel, b.materials.trim)
    grip = -side * (2 * half - 0.035)
    ends = (-DOOR_M / 2, grip, low + 0.06), (-DOOR_M / 2, grip, low + 0.22)
    b.bar_handle(door, *ends, (-0.05, 0, 0), GRIP_STEEL)
    b.mark(door, f"{name} grip", (-DOOR_M / 2 - 0.05, grip, low + 0.14))


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
        _add_stove_knob(b, body, f"{burner} knob", knob_y(k))
        x, y, radius = BURNERS[burner]
        ember = b.materials.lit((0.92, 0.07, 0.03), 0.7)
        glow = b.drawn.cylinder(body, (x, y, h), (x, y, h + 0.0020), radius * 0.92, ember)
        b.sign(glow, f"{burner} knob", KNOB_OFF_RAD, math.inf)


def _add_stove_knob(b: Builder, stove: Any, name: str, y: float) -> None:
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
