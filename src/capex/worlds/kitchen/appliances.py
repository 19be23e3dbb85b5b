"""The fridge and the appliances that stand on worktops: microwave, toaster oven, toaster. Frames
and names as in `fixtures`.
"""

from __future__ import annotations

from capex.pose import PlanarPose
from capex.worlds.kitchen.fixtures import COUNTER_HEIGHT_M, DARK_GLASS, STEEL, static
from capex.worlds.kitchen.materials import Colour
from capex.worlds.kitchen.parts import Builder

STAND_M = 0.20  # the microwave stands this high above the counter
MICROWAVE = (0.50, 0.36, 0.29)  # width, depth, height
BUTTON_TRAVEL_M = 0.006


def add_microwave(b: Builder, place: PlanarPose) -> None:
    """A microwave on a low cabinet: window on the left, on the right a display, a keypad and two
    buttons that travel (stop, start).
    """
    body = static(b, "microwave", place)
    w, d, h = MICROWAVE
    top = COUNTER_HEIGHT_M
    b.box(
        body,
        (d / 2 + 0.01, 0, top + STAND_M / 2),
        (d / 2 - 0.01, w / 2 - 0.01, STAND_M / 2),
        b.materials.cabinet,
    )
    low = top + STAND_M
    panel = 0.13  # width of the control panel
    shell = b.materials.textured("brushed", (0.63, 0.64, 0.66), shine=0.5)
    b.box(body, (d / 2 + 0.008, 0, low + h / 2), (d / 2 - 0.008, w / 2, h / 2), shell, face="x")
    glass_y = panel / 2
    b.box(
        body,
        (0.004, glass_y, low + h / 2),
        (0.005, (w - panel) / 2 - 0.006, h / 2 - 0.008),
        b.materials.plain((0.16, 0.17, 0.18), 0.6),
        collide=False,
    )
    b.box(
        body,
        (-0.0015, glass_y, low + h / 2),
        (0.001, (w - panel) / 2 - 0.05, h / 2 - 0.05),
        b.materials.plain(DARK_GLASS, 0.9),
        collide=False,
    )
    b.bar_handle(
        body,
        (0, -w / 2 + panel + 0.02, low + 0.05),
        (0, -w / 2 + panel + 0.02, low + h - 0.05),
        (-0.03, 0, 0),
        b.materials.plain(STEEL, 0.7),
        0.007,
    )
    y = -w / 2 + panel / 2
    b.box(
        body,
        (0.004, y, low + h / 2),
        (0.005, panel / 2 - 0.004, h / 2 - 0.008),
        b.materials.plain((0.10, 0.10, 0.11), 0.4),
        collide=False,
    )
    b.box(
        body,
        (-0.0015, y, low + h - 0.045),
        (0.001, 0.045, 0.018),
        b.materials.textured("plain", (0.20, 0.85, 0.75), emission=0.6),
        collide=False,
    )
    for row in range(3):
        for column in range(3):
            spot = (-0.0015, y + 0.03 * (1 - column), low + h - 0.095 - 0.026 * row)
            b.box(
                body,
                spot,
                (0.001, 0.011, 0.008),
                b.materials.plain((0.55, 0.57, 0.60)),
                collide=False,
            )
    buttons: tuple[tuple[str, float, Colour], ...] = (
        ("stop button", 0.082, (0.80, 0.16, 0.14)),
        ("start button", 0.038, (0.18, 0.68, 0.25)),
    )
    for name, height, colour in buttons:
        part = b.slide(
            body,
            name,
            (-0.006, y, low + height),
            (1, 0, 0),
            BUTTON_TRAVEL_M,
            friction_n=0.1,
            damping=4.0,
            stiffness=400.0,
            springref=-0.002,
        )
        b.box(part, (0, 0, 0), (0.006, 0.036, 0.016), b.materials.plain(colour, 0.5), mass=0.03)


OVEN_STAND_M = 0.20
OVEN = (0.42, 0.32, 0.25)
OVEN_DOOR_LIMIT_RAD = 1.5


def add_toaster_oven(b: Builder, place: PlanarPose) -> None:
    """A toaster oven on a low stand; its glass door swings down on a hinge along its lower edge."""
    body = static(b, "toaster oven", place)
    w, d, h = OVEN
    low = COUNTER_HEIGHT_M + OVEN_STAND_M
    shell, dark = (
        b.materials.textured("brushed", (0.70, 0.70, 0.71), shine=0.5),
        b.materials.plain((0.13, 0.12, 0.12)),
    )
    b.box(
        body,
        (d / 2 + 0.01, 0, COUNTER_HEIGHT_M + OVEN_STAND_M / 2),
        (d / 2 - 0.01, w / 2 - 0.01, OVEN_STAND_M / 2),
        b.materials.cabinet,
    )
    panel, wall, front = 0.09, 0.02, 0.026
    b.box(
        body,
        (front + (d - front) / 2, 0, low + wall / 2),
        ((d - front) / 2, w / 2, wall / 2),
        shell,
    )
    b.box(
        body,
        (front + (d - front) / 2, 0, low + h - wall / 2),
        ((d - front) / 2, w / 2, wall / 2),
        shell,
    )
    b.box(body, (d - wall / 2, 0, low + h / 2), (wall / 2, w / 2, h / 2 - wall), dark)
    b.box(
        body,
        (front + (d - front) / 2, w / 2 - wall / 2, low + h / 2),
        ((d - front) / 2, wall / 2, h / 2 - wall),
        shell,
    )
    b.box(
        body,
        (front + (d - front) / 2, -w / 2 + panel / 2, low + h / 2),
        ((d - front) / 2, panel / 2, h / 2 - wall),
        shell,
        face="x",
    )
    inside = (w - panel - wall) / 2
    middle = (panel - wall) / 2
    # The grill.
    b.box(
        body,
        (0.17, middle, low + 0.09),
        (0.12, inside - 0.005, 0.003),
        b.materials.plain(STEEL, 0.7),
        collide=False,
    )
    for z in (0.05, 0.21):
        b.capsule(
            body,
            (0.2, middle - inside + 0.03, low + z),
            (0.2, middle + inside - 0.03, low + z),
            0.006,
            b.materials.textured("plain", (0.95, 0.35, 0.12), emission=0.5),
            collide=False,
        )
    for k in range(3):
        z = low + 0.055 + 0.068 * k
        b.cylinder(
            body,
            (front, -w / 2 + panel / 2, z),
            (front - 0.022, -w / 2 + panel / 2, z),
            0.019,
            b.materials.handle,
            collide=False,
        )
    door_height, thick = h - 0.03, 0.018
    door = b.hinge(
        body,
        "toaster oven door",
        (front - thick / 2 - 0.002, middle, low + 0.018),
        (0, -1, 0),
        OVEN_DOOR_LIMIT_RAD,
        friction_nm=0.3,
        damping=0.15,
    )
    door.gravcomp = 1  # its spring balances it: it stays where it is left
    frame = b.materials.plain((0.25, 0.25, 0.26), 0.5)
    b.box(door, (0, 0, door_height / 2), (thick / 2, inside, door_height / 2), frame, mass=0.5)
    for x in (-thick / 2 - 0.001, thick / 2 + 0.001):
        b.box(
            door,
            (x, 0, door_height / 2),
            (0.001, inside - 0.03, door_height / 2 - 0.035),
            b.materials.plain((0.42, 0.30, 0.20), 0.9),
            collide=False,
        )
    b.bar_handle(
        door,
        (-thick / 2, -inside + 0.03, door_height - 0.018),
        (-thick / 2, inside - 0.03, door_height - 0.018),
        (-0.028, 0, 0),
        b.materials.plain(STEEL, 0.8),
        0.007,
    )


TOASTER = (0.19, 0.27, 0.105)  # across the slots, along them, height
SLOT_Y_M = 0.036
SLOT_FLOOR_M = 0.05


def add_toaster(b: Builder, place: PlanarPose) -> None:
    """A two-slot toaster; the slots run away from the robot, so that its fingers close across a
    slice.
    """
    body = static(b, "toaster", place)
    w, d, h = TOASTER
    low = COUNTER_HEIGHT_M
    shell = b.materials.textured("brushed", (0.80, 0.80, 0.82), shine=0.6)
    dark = b.materials.plain((0.10, 0.10, 0.10))
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
        b.box(
            body,
            (0, y, low + SLOT_FLOOR_M + 0.001),
            (slot_length / 2, slot_width / 2, 0.001),
            dark,
            collide=False,
        )
    b.box(body, (-d / 2 - 0.001, 0, low + 0.055), (0.001, 0.006, 0.035), dark, collide=False)
    b.box(
        body,
        (-d / 2 - 0.012, 0, low + 0.075),
        (0.012, 0.02, 0.008),
        b.materials.plain((0.15, 0.15, 0.15)),
        collide=False,
    )
    b.cylinder(
        body,
        (-d / 2, 0.055, low + 0.05),
        (-d / 2 - 0.012, 0.055, low + 0.05),
        0.014,
        b.materials.plain((0.15, 0.15, 0.15)),
        collide=False,
    )


FRIDGE_WIDTH_M = 0.66
FRIDGE_DOOR_LIMIT_RAD = 1.9


def add_fridge(b: Builder, place: PlanarPose, *, hinge: str = "right") -> None:
    """A fridge over a freezer drawer; the upper door swings on its `hinge` side, seen by a robot
    that faces it.
    """
    body = static(b, "fridge", place)
    width, depth, height, split, wall = FRIDGE_WIDTH_M, 0.66, 1.82, 0.66, 0.03
    front, inside = b.materials.appliance, b.materials.plain((0.92, 0.94, 0.95))
    door = 0.055
    x0 = door + 0.004  # the carcass begins behind the door
    deep = depth - x0
    b.box(
        body,
        (x0 + deep / 2, width / 2 - wall / 2, height / 2),
        (deep / 2, wall / 2, height / 2),
        front,
    )
    b.box(
        body,
        (x0 + deep / 2, -width / 2 + wall / 2, height / 2),
        (deep / 2, wall / 2, height / 2),
        front,
    )
    b.box(body, (depth - wall / 2, 0, height / 2), (wall / 2, width / 2 - wall, height / 2), inside)
    b.box(
        body, (x0 + deep / 2, 0, height - wall / 2), (deep / 2, width / 2 - wall, wall / 2), front
    )
    b.box(body, (x0 + deep / 2, 0, split / 2), (deep / 2, width / 2 - wall, split / 2), front)
    b.box(
        body,
        (door / 2, 0, (split + 0.06) / 2),
        (door / 2, width / 2, (split - 0.08) / 2),
        front,
        face="x",
    )
    b.bar_handle(
        body, (0, -0.22, split - 0.08), (0, 0.22, split - 0.08), (-0.045, 0, 0), b.materials.handle
    )
    for z in (0.95, 1.22, 1.48):  # shelves with a few things on them
        b.box(
            body,
            (x0 + deep / 2 + 0.02, 0, z),
            (deep / 2 - 0.05, width / 2 - wall, 0.006),
            b.materials.plain((0.75, 0.85, 0.88)),
            collide=False,
        )
    stock: tuple[tuple[float, float, float, float, Colour], ...] = (
        (0.30, 0.16, 0.95, 0.10, (0.85, 0.25, 0.20)),
        (0.33, -0.05, 0.95, 0.13, (0.95, 0.85, 0.35)),
        (0.30, -0.18, 0.95, 0.08, (0.35, 0.60, 0.30)),
        (0.32, 0.12, 1.22, 0.09, (0.95, 0.95, 0.95)),
        (0.30, -0.10, 1.22, 0.12, (0.30, 0.45, 0.75)),
        (0.34, 0.02, 1.48, 0.10, (0.90, 0.55, 0.20)),
    )
    for x, y, z, tall, colour in stock:
        b.cylinder(
            body, (x, y, z), (x, y, z + tall), 0.035, b.materials.plain(colour, 0.4), collide=False
        )

    side = -1.0 if hinge == "right" else 1.0
    low, high = split + 0.01, height
    leaf = b.hinge(
        body,
        "fridge door",
        (door / 2, side * width / 2, 0),
        (0, 0, -side),
        FRIDGE_DOOR_LIMIT_RAD,
        friction_nm=1.2,
        damping=1.0,
    )
    centre_y = -side * width / 2
    b.box(
        leaf,
        (0, centre_y, (low + high) / 2),
        (door / 2, width / 2, (high - low) / 2),
        front,
        mass=9.0,
        face="x",
    )
    b.box(
        leaf,
        (door / 2 + 0.001, centre_y, (low + high) / 2),
        (0.001, width / 2 - 0.03, (high - low) / 2 - 0.03),
        inside,
        collide=False,
    )
    for z in (0.85, 1.15, 1.45):  # door racks
        b.box(
            leaf,
            (door / 2 + 0.045, centre_y, z),
            (0.045, width / 2 - 0.08, 0.03),
            b.materials.plain((0.80, 0.88, 0.90)),
            collide=False,
        )
    edge = centre_y - side * (width / 2 - 0.06)
    b.bar_handle(
        leaf,
        (-door / 2, edge, low + 0.15),
        (-door / 2, edge, low + 0.65),
        (-0.045, 0, 0),
        b.materials.handle,
    )
