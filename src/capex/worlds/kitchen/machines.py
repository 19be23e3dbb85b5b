"""Small machines that a start brings out; frames as in `fixtures`, but on the worktop."""

from __future__ import annotations

import itertools
import math
from typing import Any

from capex.pose import PlanarPose
from capex.worlds.kitchen.fixtures import BLACK, CHROME, COUNTER_HEIGHT_M
from capex.worlds.kitchen.materials import Colour
from capex.worlds.kitchen.parts import Builder

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
