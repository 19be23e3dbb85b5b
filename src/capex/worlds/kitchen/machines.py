"""Small machines that a start brings out onto a worktop: kettle, stand mixer, coffee machine,
blender. Frames as in `fixtures`.
"""

from __future__ import annotations

import math
from typing import Any

from capex.pose import PlanarPose
from capex.worlds.kitchen.fixtures import COUNTER_HEIGHT_M, static
from capex.worlds.kitchen.materials import Colour
from capex.worlds.kitchen.parts import CAPSULE, CYLINDER, HIDDEN, Builder

BLACK: Colour = (0.10, 0.10, 0.11)
CHROME: Colour = (0.78, 0.79, 0.81)
RED: Colour = (0.85, 0.10, 0.08)


def _standing(b: Builder, name: str, place: PlanarPose, surface_m: float = COUNTER_HEIGHT_M) -> Any:
    """A machine's body: its frame stands on the worktop, or on what is on it."""
    body = static(b, name, place)
    body.pos = (place.x, place.y, surface_m)
    return body


KETTLE_SWITCH_RAD = 0.44
KETTLE_RADIUS_M = 0.085


def add_kettle(b: Builder, place: PlanarPose, name: str, colour: Colour) -> None:
    """An electric kettle on its base. The red switch lever at its foot points at the robot; pressed
    down, it snaps over and stays.
    """
    body = _standing(b, name, place)
    shell, black = b.materials.plain(colour, 0.7), b.materials.plain(BLACK, 0.4)
    b.cylinder(body, (0, 0, 0), (0, 0, 0.018), KETTLE_RADIUS_M, black)
    body.add_geom(type=CYLINDER, pos=(0, 0, 0.095), size=(0.072, 0.078, 0), **HIDDEN)
    b.turned(
        body,
        [(0.078, 0.018), (0.081, 0.030), (0.076, 0.095), (0.063, 0.165), (0.058, 0.172)],
        shell,
    )
    b.turned(
        body, [(0.080, 0.026), (0.0815, 0.032), (0.081, 0.038)], b.materials.plain(CHROME, 0.9)
    )
    b.turned(body, [(0.060, 0.171), (0.050, 0.184), (0.020, 0.192), (0.0, 0.193)], black)
    b.cylinder(body, (0, 0, 0.19), (0, 0, 0.212), 0.013, black)
    for start, end, radius in (
        ((0, -0.055, 0.165), (0, -0.112, 0.155), 0.011),
        ((0, -0.112, 0.155), (0, -0.122, 0.075), 0.012),
        ((0, -0.122, 0.075), (0, -0.076, 0.050), 0.011),
    ):
        b.capsule(body, start, end, radius, black)
    b.capsule(body, (0, 0.055, 0.125), (0, 0.098, 0.162), 0.016, shell)
    b.box(
        body,
        (-0.0745, 0, 0.105),
        (0.002, 0.008, 0.040),
        b.materials.plain((0.75, 0.86, 0.92), 0.6),
        collide=False,
    )
    switch = f"{name} switch"
    lever = b.hinge(
        body,
        switch,
        (-0.074, 0, 0.046),
        (0, -1, 0),
        KETTLE_SWITCH_RAD,
        friction_nm=0.02,
        damping=0.04,
        armature=0.001,
    )
    rise = KETTLE_SWITCH_RAD / 2
    tilt = (math.cos(rise / 2), 0, math.sin(rise / 2), 0)
    c, s = math.cos(rise), math.sin(rise)
    b.box(
        lever,
        (-0.030 * c, 0, 0.030 * s),
        (0.028, 0.019, 0.006),
        b.materials.plain(RED, 0.5),
        mass=0.04,
        quat=tilt,
    )
    b.over_centre(switch, rise, 0.9, 0.25)
    b.mark(lever, f"{switch} grip", (-0.046 * c, 0, 0.046 * s))
    glow = b.cylinder(
        body,
        (-0.074, 0, 0.075),
        (-0.080, 0, 0.075),
        0.009,
        b.materials.textured("plain", (0.2, 0.6, 1.0), emission=0.9),
        collide=False,
    )
    b.sign(glow, switch, 0.95 * KETTLE_SWITCH_RAD, math.inf)


MIXER_HEAD_RAD = 0.80


def add_mixer(b: Builder, place: PlanarPose, name: str, colour: Colour) -> None:
    """A stand mixer that faces the robot; its head, lifted by the bar at its nose, tilts back over
    a detent and stays up.
    """
    body = _standing(b, name, place)
    enamel, chrome, steel = (
        b.materials.plain(colour, 0.7),
        b.materials.plain(CHROME, 0.9),
        b.materials.textured("brushed", (0.75, 0.76, 0.78), shine=0.7),
    )
    b.box(body, (0.165, 0, 0.0175), (0.155, 0.085, 0.0175), enamel)
    b.cylinder(body, (0.01, 0, 0), (0.01, 0, 0.035), 0.085, enamel)
    b.box(body, (0.275, 0, 0.13), (0.040, 0.048, 0.10), enamel)
    b.cylinder(body, (0.275, 0, 0.03), (0.275, 0, 0.23), 0.050, enamel, collide=False)
    body.add_geom(type=CYLINDER, pos=(0.095, 0, 0.090), size=(0.088, 0.055, 0), **HIDDEN)
    b.turned(
        body,
        [
            (0.0, 0.036),
            (0.045, 0.036),
            (0.052, 0.044),
            (0.082, 0.075),
            (0.092, 0.135),
            (0.096, 0.145),
            (0.090, 0.145),
        ],
        steel,
        pos=(0.095, 0, 0),
    )
    b.turned(
        body,
        [(0.088, 0.140), (0.05, 0.06), (0.0, 0.05)],
        b.materials.plain((0.45, 0.46, 0.48), 0.5),
        pos=(0.095, 0, 0),
    )
    head = f"{name} head"
    top = b.hinge(
        body, head, (0.275, 0, 0.235), (0, 1, 0), MIXER_HEAD_RAD, friction_nm=0.10, damping=0.25
    )
    top.gravcomp = 1  # a spring carries its weight
    top.add_geom(
        type=CAPSULE,
        fromto=(0.015, 0, 0.045, -0.240, 0, 0.040),
        size=(0.054, 0, 0),
        mass=1.2,
        **HIDDEN,
    )
    outline = [
        (0.0, -0.292),
        (0.040, -0.280),
        (0.054, -0.245),
        (0.062, -0.16),
        (0.063, -0.05),
        (0.058, 0.03),
        (0.040, 0.065),
        (0.0, 0.075),
    ]
    b.turned(top, outline, enamel, axis="x", pos=(0, 0, 0.042))
    b.turned(top, [(0.0640, -0.078), (0.0640, -0.060)], chrome, axis="x", pos=(0, 0, 0.042))
    b.cylinder(
        top,
        (-0.05, 0.060, 0.03),
        (-0.05, 0.078, 0.03),
        0.014,
        b.materials.plain(BLACK, 0.4),
        collide=False,
    )
    b.cylinder(top, (-0.18, 0, -0.005), (-0.18, 0, -0.035), 0.020, chrome, collide=False)
    for y in (-0.028, 0.0, 0.028):
        b.capsule(top, (-0.18, 0, -0.03), (-0.18, y, -0.115), 0.004, chrome, collide=False)
    b.bar_handle(
        top, (-0.275, -0.055, 0.028), (-0.275, 0.055, 0.028), (-0.060, 0, 0), chrome, 0.009
    )
    b.over_centre(head, 0.35, 4.0, 1.5)
    b.mark(top, f"{head} grip", (-0.335, 0, 0.028))


COFFEE_TRAY_M = 0.037  # height of the tray
COFFEE_SPOUT_X_M = 0.075


def add_coffee_machine(b: Builder, place: PlanarPose, surface_m: float) -> None:
    """A coffee machine: a head with two spouts over a tray, open to the front and to both sides."""
    body = _standing(b, "coffee machine", place, surface_m)
    w, d, h = 0.22, 0.29, 0.34
    shell, black = b.materials.plain((0.20, 0.20, 0.22), 0.6), b.materials.plain(BLACK, 0.5)
    chrome = b.materials.plain(CHROME, 0.9)
    b.box(body, (d / 2, 0, 0.016), (d / 2, w / 2, 0.016), shell)
    b.box(body, (0.075, 0, 0.0345), (0.070, w / 2 - 0.012, 0.0025), chrome)
    for k in range(6):
        b.box(
            body,
            (0.018 + 0.022 * k, 0, 0.0372),
            (0.004, w / 2 - 0.022, 0.0003),
            black,
            collide=False,
        )
    b.box(body, (0.22, 0, 0.13), (0.07, w / 2, 0.10), shell)
    b.box(body, (0.1495, 0, 0.13), (0.001, w / 2 - 0.02, 0.09), chrome, collide=False)
    b.box(body, (d / 2 + 0.005, 0, 0.285), (d / 2 - 0.005, w / 2, 0.055), shell)
    b.box(body, (0.009, 0, 0.285), (0.0012, w / 2 - 0.008, 0.046), chrome, collide=False)
    for y, colour in (
        (0.055, (0.90, 0.90, 0.88)),
        (0.0, (0.25, 0.65, 0.95)),
        (-0.055, (0.90, 0.90, 0.88)),
    ):
        b.cylinder(
            body,
            (0.009, y, 0.29),
            (0.004, y, 0.29),
            0.014,
            b.materials.plain(colour, 0.6),
            collide=False,
        )
    b.cylinder(body, (COFFEE_SPOUT_X_M, 0, 0.232), (COFFEE_SPOUT_X_M, 0, 0.205), 0.026, black)
    for y in (0.012, -0.012):
        b.cylinder(body, (COFFEE_SPOUT_X_M, y, 0.21), (COFFEE_SPOUT_X_M, y, 0.188), 0.006, chrome)
    # Beans.
    b.box(
        body,
        (0.215, 0, h + 0.03),
        (0.06, w / 2 - 0.03, 0.03),
        b.materials.plain((0.45, 0.30, 0.18), 0.7),
        collide=False,
    )
    b.box(body, (0.215, 0, h + 0.063), (0.064, w / 2 - 0.026, 0.004), black, collide=False)
    b.mark(body, "dispenser", (COFFEE_SPOUT_X_M, 0, COFFEE_TRAY_M))


JUG_TOP_M = 0.198
JUG_RADIUS_M = 0.058


def add_blender(b: Builder, place: PlanarPose, colour: Colour) -> None:
    """A blender with an open jug, half full, its handle on one side; the lid's plug fits into its
    rim with a few millimetres to spare.
    """
    body = _standing(b, "blender", place)
    look, black = b.materials.plain(colour, 0.6), b.materials.plain(BLACK, 0.5)
    glass, inner = (
        b.materials.plain((0.74, 0.84, 0.88), 0.9),
        b.materials.plain((0.62, 0.72, 0.76), 0.6),
    )
    body.add_geom(type=CYLINDER, pos=(0, 0, 0.042), size=(0.072, 0.042, 0), **HIDDEN)
    b.turned(
        body, [(0.076, 0.0), (0.078, 0.018), (0.066, 0.062), (0.058, 0.078), (0.0, 0.080)], look
    )
    b.turned(body, [(0.079, 0.0), (0.080, 0.008), (0.079, 0.012)], black)
    b.cylinder(body, (-0.060, 0, 0.036), (-0.086, 0, 0.030), 0.017, black, collide=False)
    b.cylinder(
        body,
        (-0.086, 0, 0.030),
        (-0.0865, 0, 0.030),
        0.012,
        b.materials.plain(CHROME, 0.9),
        collide=False,
    )
    body.add_geom(type=CYLINDER, pos=(0, 0, 0.128), size=(JUG_RADIUS_M, 0.050, 0), **HIDDEN)
    r, top = JUG_RADIUS_M, JUG_TOP_M
    b.turned(body, [(0.046, 0.080), (0.050, 0.090), (r - 0.002, 0.150), (r, top)], glass)
    b.turned(body, [(r, top), (r - 0.005, top)], glass)
    b.turned(body, [(r - 0.005, top), (0.048, 0.140), (0.047, 0.132)], inner)
    b.cylinder(
        body,
        (0, 0, 0.12),
        (0, 0, 0.134),
        0.049,
        b.materials.plain((0.90, 0.45, 0.55), 0.3),
        collide=False,
    )
    for z in (0.105, 0.125, 0.145):
        b.box(body, (-r + 0.001, 0, z), (0.001, 0.012, 0.001), black, collide=False)
    b.ring(body, r - 0.004, 0.178, top - 0.178, 0.008, 0.0, 0.1)
    for start, end in (
        ((0, r - 0.004, 0.185), (0, r + 0.036, 0.178)),
        ((0, r + 0.036, 0.178), (0, r + 0.034, 0.112)),
        ((0, r + 0.034, 0.112), (0, r - 0.008, 0.105)),
    ):
        b.capsule(body, start, end, 0.0075, black)
    b.mark(body, "jug rim", (0, 0, top))
