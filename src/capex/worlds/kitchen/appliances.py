"""The fridge and the appliances on worktops; frames and names as in `fixtures`."""

from __future__ import annotations

import itertools
import math
from typing import Any

from capex.pose import PlanarPose
from capex.worlds.kitchen.fixtures import BLACK, CHROME, COUNTER_HEIGHT_M, DARK_GLASS, STEEL
from capex.worlds.kitchen.materials import Colour
from capex.worlds.kitchen.parts import Builder

STAND_M = 0.20  # microwave and oven stand this high: a hand that points forward reaches no lower
MICROWAVE = (0.50, 0.36, 0.29)  # width, depth, height
PANEL_M = 0.13  # width of the microwave's control panel
BUTTON_TRAVEL_M = 0.006  # far enough to see that it moved


def _add_stand(b: Builder, body: Any, width: float, depth: float) -> None:
    """The low cabinet on the worktop that an appliance stands on."""
    centre = (depth / 2 + 0.01, 0, COUNTER_HEIGHT_M + STAND_M / 2)
    b.box(body, centre, (depth / 2 - 0.01, width / 2 - 0.01, STAND_M / 2), b.materials.cabinet)


def add_microwave(b: Builder, place: PlanarPose) -> None:
    """A microwave on a low cabinet: window on the left, on the right a display, a keypad and two
    buttons that travel (stop, start).
    """
    body, (w, d, h) = b.fixture("microwave", place), MICROWAVE
    _add_stand(b, body, w, d)
    low = COUNTER_HEIGHT_M + STAND_M
    z, window = low + h / 2, (w - PANEL_M) / 2
    shell = b.materials.brushed((0.63, 0.64, 0.66), 0.5)
    b.box(body, (d / 2 + 0.008, 0, z), (d / 2 - 0.008, w / 2, h / 2), shell, face="x")
    frame, glass, glass_y = (0.16, 0.17, 0.18, 0.6), (*DARK_GLASS, 0.9), PANEL_M / 2
    b.drawn.box(body, (0.004, glass_y, z), (0.005, window - 0.006, h / 2 - 0.008), frame)
    b.drawn.box(body, (-0.0015, glass_y, z), (0.001, window - 0.05, h / 2 - 0.05), glass)
    edge = -w / 2 + PANEL_M + 0.02
    ends = (0, edge, low + 0.05), (0, edge, low + h - 0.05)
    b.bar_handle(body, *ends, (-0.03, 0, 0), (*STEEL, 0.7), 0.007)
    y, display = -w / 2 + PANEL_M / 2, (-0.0015, -w / 2 + PANEL_M / 2, low + h - 0.045)
    b.drawn.box(body, (0.004, y, z), (0.005, PANEL_M / 2 - 0.004, h / 2 - 0.008), (*BLACK, 0.4))
    b.drawn.box(body, display, (0.001, 0.045, 0.018), b.materials.lit((0.20, 0.85, 0.75), 0.6))
    for row in range(3):
        for column in range(3):
            key = (-0.0015, y + 0.03 * (1 - column), low + h - 0.095 - 0.026 * row)
            b.drawn.box(body, key, (0.001, 0.011, 0.008), (0.55, 0.57, 0.60))
    joint = {"frictionloss": 0.1, "damping": 4.0, "stiffness": 400.0, "springref": -0.002}
    for name, height, look in (
        ("stop button", 0.082, (0.80, 0.16, 0.14, 0.5)),
        ("start button", 0.038, (0.18, 0.68, 0.25, 0.5)),
    ):
        at = (-0.006, y, low + height)
        part = b.slide(body, name, at, (1, 0, 0), BUTTON_TRAVEL_M, **joint)
        b.box(part, (0, 0, 0), (0.006, 0.036, 0.016), look, mass=0.03)


OVEN = (0.42, 0.32, 0.25)  # width, depth, height
OVEN_PANEL_M, OVEN_WALL_M, OVEN_FRONT_M = 0.09, 0.02, 0.026  # controls, shell, room for the door
OVEN_DOOR_LIMIT_RAD = 1.5  # open, it nearly lies flat


def add_toaster_oven(b: Builder, place: PlanarPose) -> None:
    """A toaster oven on a low stand; its glass door swings down on a hinge along its lower edge."""
    body, (w, d, h) = b.fixture("toaster oven", place), OVEN
    low, panel, wall, front = COUNTER_HEIGHT_M + STAND_M, OVEN_PANEL_M, OVEN_WALL_M, OVEN_FRONT_M
    shell, dark = (
        b.materials.brushed((0.70, 0.70, 0.71), 0.5),
        b.materials.plain((0.13, 0.12, 0.12)),
    )
    _add_stand(b, body, w, d)
    deep, side = (d - front) / 2, -w / 2 + panel / 2
    x, z = front + deep, low + h / 2
    for level in (low + wall / 2, low + h - wall / 2):
        b.box(body, (x, 0, level), (deep, w / 2, wall / 2), shell)
    b.box(body, (d - wall / 2, 0, z), (wall / 2, w / 2, h / 2 - wall), dark)
    b.box(body, (x, w / 2 - wall / 2, z), (deep, wall / 2, h / 2 - wall), shell)
    b.box(body, (x, side, z), (deep, panel / 2, h / 2 - wall), shell, face="x")
    inside, middle = (w - panel - wall) / 2, (panel - wall) / 2
    grill = (0.17, middle, low + 0.09)
    b.drawn.box(body, grill, (0.12, inside - 0.005, 0.003), (*STEEL, 0.7))
    for level in (0.05, 0.21):
        ends = (
            (0.2, middle - inside + 0.03, low + level),
            (0.2, middle + inside - 0.03, low + level),
        )
        b.drawn.capsule(body, *ends, 0.006, b.materials.lit((0.95, 0.35, 0.12), 0.5))
    for k in range(3):
        level = low + 0.055 + 0.068 * k
        ends = (front, side, level), (front - 0.022, side, level)
        b.drawn.cylinder(body, *ends, 0.019, b.materials.handle)
    _add_oven_door(b, body, middle, low + 0.018, inside)


def _add_oven_door(b: Builder, oven: Any, y: float, z: float, half: float) -> None:
    height, thick = OVEN[2] - 0.03, 0.018
    at, name = (OVEN_FRONT_M - thick / 2 - 0.002, y, z), "toaster oven door"
    joint = {"frictionloss": 0.3, "damping": 0.15}
    door = b.hinge(oven, name, at, (0, -1, 0), OVEN_DOOR_LIMIT_RAD, **joint)
    door.gravcomp = 1  # its spring balances it: it stays where it is left
    frame, glass = (0.25, 0.25, 0.26, 0.5), (0.42, 0.30, 0.20, 0.9)
    b.box(door, (0, 0, height / 2), (thick / 2, half, height / 2), frame, mass=0.5)
    for x in (-thick / 2 - 0.001, thick / 2 + 0.001):
        b.drawn.box(door, (x, 0, height / 2), (0.001, half - 0.03, height / 2 - 0.035), glass)
    ends = (-thick / 2, -half + 0.03, height - 0.018), (-thick / 2, half - 0.03, height - 0.018)
    b.bar_handle(door, *ends, (-0.028, 0, 0), (*STEEL, 0.8), 0.007)


TOASTER = (0.19, 0.27, 0.105)  # across the slots, along them, height
SLOT_Y_M = 0.036  # from the toaster's middle to the middle of a slot
SLOT_FLOOR_M = 0.05  # a slice of 10 cm then stands out by 4 cm, enough to grip


def add_toaster(b: Builder, place: PlanarPose) -> None:
    """A toaster; its two slots run away from the robot, so that fingers close across a slice."""
    body, (w, d, h) = b.fixture("toaster", place), TOASTER
    low = COUNTER_HEIGHT_M
    shell, dark = (
        b.materials.brushed((0.80, 0.80, 0.82), 0.6),
        b.materials.plain((0.10, 0.10, 0.10)),
    )
    slot_length, slot_width = 0.15, 0.034
    b.box(body, (0, 0, low + SLOT_FLOOR_M / 2), (d / 2, w / 2, SLOT_FLOOR_M / 2), shell)
    half = (h - SLOT_FLOOR_M) / 2
    z = low + SLOT_FLOOR_M + half
    end = (d - slot_length) / 4
    for x in (d / 2 - end, -d / 2 + end):
        b.box(body, (x, 0, z), (end, w / 2, half), shell)
    outer = (w / 2 - SLOT_Y_M - slot_width / 2) / 2
    for y in (w / 2 - outer, -w / 2 + outer):
        b.box(body, (0, y, z), (slot_length / 2, outer, half), shell)
    b.box(body, (0, 0, z), (slot_length / 2, SLOT_Y_M - slot_width / 2, half), shell)
    for y in (SLOT_Y_M, -SLOT_Y_M):
        floor = (0, y, low + SLOT_FLOOR_M + 0.001)
        b.drawn.box(body, floor, (slot_length / 2, slot_width / 2, 0.001), dark)
    front, knob = -d / 2, (0.15, 0.15, 0.15)
    b.drawn.box(body, (front - 0.001, 0, low + 0.055), (0.001, 0.006, 0.035), dark)
    b.drawn.box(body, (front - 0.012, 0, low + 0.075), (0.012, 0.02, 0.008), knob)
    ends = (front, 0.055, low + 0.05), (front - 0.012, 0.055, low + 0.05)
    b.drawn.cylinder(body, *ends, 0.014, knob)


FRIDGE = (0.66, 0.66, 1.82)  # width, depth, height
FREEZER_M = 0.66  # height of the freezer drawer under the door
FRIDGE_DOOR_M = 0.055  # thickness
FRIDGE_DOOR_LIMIT_RAD = 1.9  # 109 degrees; a start opens it by 1.05 at most
# What stands in it, only drawn: x, y, z, height, colour.
STOCK: tuple[tuple[float, float, float, float, Colour], ...] = (
    (0.30, 0.16, 0.95, 0.10, (0.85, 0.25, 0.20)),
    (0.33, -0.05, 0.95, 0.13, (0.95, 0.85, 0.35)),
    (0.30, -0.18, 0.95, 0.08, (0.35, 0.60, 0.30)),
    (0.32, 0.12, 1.22, 0.09, (0.95, 0.95, 0.95)),
    (0.30, -0.10, 1.22, 0.12, (0.30, 0.45, 0.75)),
    (0.34, 0.02, 1.48, 0.10, (0.90, 0.55, 0.20)),
)


def add_fridge(b: Builder, place: PlanarPose, *, hinge: str = "right") -> None:
    """A fridge over a freezer drawer; its door swings on the `hinge` side, seen from the front."""
    body, (width, depth, height) = b.fixture("fridge", place), FRIDGE
    split, wall, door = FREEZER_M, 0.03, FRIDGE_DOOR_M
    front, inside = b.materials.appliance, b.materials.plain((0.92, 0.94, 0.95))
    x0 = door + 0.004  # the carcass begins behind the door
    deep, half = (depth - x0) / 2, width / 2 - wall
    x, z = x0 + deep, height / 2
    for y in (width / 2 - wall / 2, -width / 2 + wall / 2):
        b.box(body, (x, y, z), (deep, wall / 2, z), front)
    b.box(body, (depth - wall / 2, 0, z), (wall / 2, half, z), inside)
    b.box(body, (x, 0, height - wall / 2), (deep, half, wall / 2), front)
    b.box(body, (x, 0, split / 2), (deep, half, split / 2), front)
    drawer = (door / 2, width / 2, (split - 0.08) / 2)
    b.box(body, (door / 2, 0, (split + 0.06) / 2), drawer, front, face="x")
    ends = (0, -0.22, split - 0.08), (0, 0.22, split - 0.08)
    b.bar_handle(body, *ends, (-0.045, 0, 0), b.materials.handle)
    for level in (0.95, 1.22, 1.48):  # shelves with a few things on them
        b.drawn.box(body, (x + 0.02, 0, level), (deep - 0.05, half, 0.006), (0.75, 0.85, 0.88))
    for x, y, level, tall, colour in STOCK:
        b.drawn.cylinder(body, (x, y, level), (x, y, level + tall), 0.035, (*colour, 0.4))
    _add_fridge_door(b, body, -1.0 if hinge == "right" else 1.0, inside)


def _add_fridge_door(b: Builder, fridge: Any, side: float, inside: str) -> None:
    """The upper door, its hinge on the left (side 1) or right (-1)."""
    (width, _, high), thick, low = FRIDGE, FRIDGE_DOOR_M, FREEZER_M + 0.01
    at, joint = (thick / 2, side * width / 2, 0), {"frictionloss": 1.2, "damping": 1.0}
    door = b.hinge(fridge, "fridge door", at, (0, 0, -side), FRIDGE_DOOR_LIMIT_RAD, **joint)
    y, z, half = -side * width / 2, (low + high) / 2, (high - low) / 2
    leaf = (thick / 2, width / 2, half)
    b.box(door, (0, y, z), leaf, b.materials.appliance, mass=9.0, face="x")
    lining = (0.001, width / 2 - 0.03, half - 0.03)
    b.drawn.box(door, (thick / 2 + 0.001, y, z), lining, inside)
    for level in (0.85, 1.15, 1.45):  # door racks
        rack = (0.045, width / 2 - 0.08, 0.03)
        b.drawn.box(door, (thick / 2 + 0.045, y, level), rack, (0.80, 0.88, 0.90))
    edge = y - side * (width / 2 - 0.06)
    ends = (-thick / 2, edge, low + 0.15), (-thick / 2, edge, low + 0.65)
    b.bar_handle(door, *ends, (-0.045, 0, 0), b.materials.handle)


KETTLE_SWITCH_RAD = 0.44  # its end moves by 2.5 cm, which a camera sees
KETTLE_ON = 0.95  # the paper's fraction of the switch's range
KETTLE_RADIUS_M = 0.085  # of its base


def add_kettle(b: Builder, place: PlanarPose, name: str, colour: Colour) -> None:
    """An electric kettle on its base. The red switch lever at its foot points at the robot; pressed
    down, it snaps over and stays.
    """
    body = b.fixture(name, place, COUNTER_HEIGHT_M)
    shell, black = b.materials.plain(colour, 0.7), b.materials.plain(BLACK, 0.4)
    b.cylinder(body, (0, 0, 0), (0, 0, 0.018), KETTLE_RADIUS_M, black)
    b.felt.upright(body, (0, 0, 0.095), 0.072, 0.078)
    jug = [(0.078, 0.018), (0.081, 0.030), (0.076, 0.095), (0.063, 0.165), (0.058, 0.172)]
    b.turned(body, jug, shell)
    b.turned(body, [(0.080, 0.026), (0.0815, 0.032), (0.081, 0.038)], (*CHROME, 0.9))
    b.turned(body, [(0.060, 0.171), (0.050, 0.184), (0.020, 0.192), (0.0, 0.193)], black)
    b.cylinder(body, (0, 0, 0.19), (0, 0, 0.212), 0.013, black)
    for start, end, radius in (
        ((0, -0.055, 0.165), (0, -0.112, 0.155), 0.011),
        ((0, -0.112, 0.155), (0, -0.122, 0.075), 0.012),
        ((0, -0.122, 0.075), (0, -0.076, 0.050), 0.011),
    ):
        b.capsule(body, start, end, radius, black)
    b.capsule(body, (0, 0.055, 0.125), (0, 0.098, 0.162), 0.016, shell)
    b.drawn.box(body, (-0.0745, 0, 0.105), (0.002, 0.008, 0.040), (0.75, 0.86, 0.92, 0.6))
    switch, at = f"{name} switch", (-0.074, 0, 0.046)
    joint = {"frictionloss": 0.02, "damping": 0.04, "armature": 0.001}
    lever = b.hinge(body, switch, at, (0, -1, 0), KETTLE_SWITCH_RAD, **joint)
    rise = KETTLE_SWITCH_RAD / 2
    tilt = (math.cos(rise / 2), 0, math.sin(rise / 2), 0)
    c, s = math.cos(rise), math.sin(rise)
    centre, half, red = (-0.030 * c, 0, 0.030 * s), (0.028, 0.019, 0.006), (0.85, 0.10, 0.08, 0.5)
    b.box(lever, centre, half, red, mass=0.04, quat=tilt)
    b.over_centre(switch, rise, 0.9, 0.25)
    b.mark(lever, f"{switch} grip", (-0.046 * c, 0, 0.046 * s))
    blue = b.materials.lit((0.2, 0.6, 1.0), 0.9)
    glow = b.drawn.cylinder(body, (-0.074, 0, 0.075), (-0.080, 0, 0.075), 0.009, blue)
    b.sign(glow, switch, KETTLE_ON * KETTLE_SWITCH_RAD, math.inf)


MIXER_HEAD_RAD = 0.80  # tilted back, the whisk is clear of the bowl
# Outlines (radius, height or distance along the head), as `turned` takes them.
MIXER_BOWL = [(0.0, 0.036), (0.045, 0.036), (0.052, 0.044), (0.082, 0.075), (0.092, 0.135)]
MIXER_RIM = [(0.096, 0.145), (0.090, 0.145)]
MIXER_NOSE = [(0.0, -0.292), (0.040, -0.280), (0.054, -0.245), (0.062, -0.16), (0.063, -0.05)]
MIXER_TAIL = [(0.058, 0.03), (0.040, 0.065), (0.0, 0.075)]


def add_mixer(b: Builder, place: PlanarPose, name: str, colour: Colour) -> None:
    """A stand mixer; its head, lifted by the bar at its nose, tilts back over a detent."""
    body, bowl = b.fixture(name, place, COUNTER_HEIGHT_M), (0.095, 0, 0)
    enamel, chrome = b.materials.plain(colour, 0.7), b.materials.plain(CHROME, 0.9)
    steel = b.materials.brushed((0.75, 0.76, 0.78), 0.7)
    b.box(body, (0.165, 0, 0.0175), (0.155, 0.085, 0.0175), enamel)
    b.cylinder(body, (0.01, 0, 0), (0.01, 0, 0.035), 0.085, enamel)
    b.box(body, (0.275, 0, 0.13), (0.040, 0.048, 0.10), enamel)
    b.drawn.cylinder(body, (0.275, 0, 0.03), (0.275, 0, 0.23), 0.050, enamel)
    b.felt.upright(body, (0.095, 0, 0.090), 0.088, 0.055)
    b.turned(body, MIXER_BOWL + MIXER_RIM, steel, pos=bowl)
    dough = [(0.088, 0.140), (0.05, 0.06), (0.0, 0.05)]
    b.turned(body, dough, (0.45, 0.46, 0.48, 0.5), pos=bowl)
    _add_mixer_head(b, body, f"{name} head", enamel, chrome)


def _add_mixer_head(b: Builder, mixer: Any, name: str, enamel: str, chrome: str) -> None:
    at, joint = (0.275, 0, 0.235), {"frictionloss": 0.10, "damping": 0.25}
    head = b.hinge(mixer, name, at, (0, 1, 0), MIXER_HEAD_RAD, **joint)
    head.gravcomp = 1  # a spring carries its weight
    b.felt.capsule(head, (0.015, 0, 0.045), (-0.240, 0, 0.040), 0.054, mass=1.2)
    b.turned(head, MIXER_NOSE + MIXER_TAIL, enamel, axis="x", pos=(0, 0, 0.042))
    b.turned(head, [(0.0640, -0.078), (0.0640, -0.060)], chrome, axis="x", pos=(0, 0, 0.042))
    b.drawn.cylinder(head, (-0.05, 0.060, 0.03), (-0.05, 0.078, 0.03), 0.014, (*BLACK, 0.4))
    b.drawn.cylinder(head, (-0.18, 0, -0.005), (-0.18, 0, -0.035), 0.020, chrome)
    for y in (-0.028, 0.0, 0.028):
        b.drawn.capsule(head, (-0.18, 0, -0.03), (-0.18, y, -0.115), 0.004, chrome)
    b.bar_handle(head, (-0.275, -0.055, 0.028), (-0.275, 0.055, 0.028), (-0.060, 0, 0), chrome)
    b.over_centre(name, 0.35, 4.0, 1.5)
    b.mark(head, f"{name} grip", (-0.335, 0, 0.028))


COFFEE_TRAY_M = 0.037  # height of the tray
COFFEE_SPOUT_X_M = 0.075  # from the machine's front to its spouts


def add_coffee_machine(b: Builder, place: PlanarPose, surface_m: float) -> None:
    """A coffee machine: a head with two spouts over a tray, open to the front and to both sides."""
    body = b.fixture("coffee machine", place, surface_m)
    w, d, h, x = 0.22, 0.29, 0.34, COFFEE_SPOUT_X_M
    shell, black = b.materials.plain((0.20, 0.20, 0.22), 0.6), b.materials.plain(BLACK, 0.5)
    chrome = b.materials.plain(CHROME, 0.9)
    b.box(body, (d / 2, 0, 0.016), (d / 2, w / 2, 0.016), shell)
    b.box(body, (0.075, 0, 0.0345), (0.070, w / 2 - 0.012, 0.0025), chrome)
    for k in range(6):
        b.drawn.box(body, (0.018 + 0.022 * k, 0, 0.0372), (0.004, w / 2 - 0.022, 0.0003), black)
    b.box(body, (0.22, 0, 0.13), (0.07, w / 2, 0.10), shell)
    b.drawn.box(body, (0.1495, 0, 0.13), (0.001, w / 2 - 0.02, 0.09), chrome)
    b.box(body, (d / 2 + 0.005, 0, 0.285), (d / 2 - 0.005, w / 2, 0.055), shell)
    b.drawn.box(body, (0.009, 0, 0.285), (0.0012, w / 2 - 0.008, 0.046), chrome)
    white, blue, beans = (0.90, 0.90, 0.88, 0.6), (0.25, 0.65, 0.95, 0.6), (0.45, 0.30, 0.18, 0.7)
    for y, button in ((0.055, white), (0.0, blue), (-0.055, white)):
        b.drawn.cylinder(body, (0.009, y, 0.29), (0.004, y, 0.29), 0.014, button)
    b.cylinder(body, (x, 0, 0.232), (x, 0, 0.205), 0.026, black)
    for y in (0.012, -0.012):
        b.cylinder(body, (x, y, 0.21), (x, y, 0.188), 0.006, chrome)
    b.drawn.box(body, (0.215, 0, h + 0.03), (0.06, w / 2 - 0.03, 0.03), beans)
    b.drawn.box(body, (0.215, 0, h + 0.063), (0.064, w / 2 - 0.026, 0.004), black)
    b.mark(body, "dispenser", (x, 0, COFFEE_TRAY_M))


JUG_TOP_M = 0.198  # height of the rim above the worktop
JUG_RADIUS_M = 0.058  # its wall of 8 mm leaves the lid's plug 8 mm of play


def add_blender(b: Builder, place: PlanarPose, colour: Colour) -> None:
    """A blender with an open jug, half full; the lid fits into its rim with 8 mm to spare."""
    body, r, top = b.fixture("blender", place, COUNTER_HEIGHT_M), JUG_RADIUS_M, JUG_TOP_M
    plain = b.materials.plain
    look, black = plain(colour, 0.6), plain(BLACK, 0.5)
    glass, inner = plain((0.74, 0.84, 0.88), 0.9), plain((0.62, 0.72, 0.76), 0.6)
    b.felt.upright(body, (0, 0, 0.042), 0.072, 0.042)
    foot = [(0.076, 0.0), (0.078, 0.018), (0.066, 0.062), (0.058, 0.078), (0.0, 0.080)]
    b.turned(body, foot, look)
    b.turned(body, [(0.079, 0.0), (0.080, 0.008), (0.079, 0.012)], black)
    b.drawn.cylinder(body, (-0.060, 0, 0.036), (-0.086, 0, 0.030), 0.017, black)
    b.drawn.cylinder(body, (-0.086, 0, 0.030), (-0.0865, 0, 0.030), 0.012, (*CHROME, 0.9))
    b.felt.upright(body, (0, 0, 0.128), r, 0.050)
    b.turned(body, [(0.046, 0.080), (0.050, 0.090), (r - 0.002, 0.150), (r, top)], glass)
    b.turned(body, [(r, top), (r - 0.005, top)], glass)
    b.turned(body, [(r - 0.005, top), (0.048, 0.140), (0.047, 0.132)], inner)
    b.drawn.cylinder(body, (0, 0, 0.12), (0, 0, 0.134), 0.049, (0.90, 0.45, 0.55, 0.3))
    for z in (0.105, 0.125, 0.145):
        b.drawn.box(body, (-r + 0.001, 0, z), (0.001, 0.012, 0.001), black)
    b.ring(body, r - 0.004, 0.178, top - 0.178, 0.0, 0.1)
    handle = [(r - 0.004, 0.185), (r + 0.036, 0.178), (r + 0.034, 0.112), (r - 0.008, 0.105)]
    for start, end in itertools.pairwise(handle):
        b.capsule(body, (0, *start), (0, *end), 0.0075, black)
    b.mark(body, "jug rim", (0, 0, top))
