"""The placeholders of RoboCasa's appliances and of what stands about: one function a kind, by the
name of its file in RoboCasa's fixture registry. Imported by scripts/robocasa_placeholders.py.

What each needs (names of joints, sites, geoms and regions) is what RoboCasa's fixture classes look
up; sizes are those of ordinary appliances.
"""

from __future__ import annotations

from collections.abc import Callable

from placeholders.shapes import (
    DARK,
    RED,
    Box,
    Joint,
    Part,
    Region,
    Shape,
    Triple,
    drop_door,
    knob,
    rack,
    shell,
    side_door,
)

GAP = 0.003  # between a closed door and its frame, so that nothing presses on it
BURNERS = {
    "rear_left": (-1, 1),
    "rear_right": (1, 1),
    "front_left": (-1, -1),
    "front_right": (1, -1),
}


def microwave() -> Shape:
    """A box with a door on the left and two buttons on the right of its front."""
    w, d, h = size = (0.55, 0.42, 0.32)
    front = -d / 2 - 0.01 - GAP
    panel = Box((0.2, front, 0), (0.13, 0.02, h), rgba=DARK)
    buttons = [
        Box((0.2, front - 0.018, -0.04), (0.06, 0.016, 0.04), "start_button", "0.2 0.7 0.3 1"),
        Box((0.2, front - 0.018, -0.1), (0.06, 0.016, 0.04), "stop_button", RED),
    ]
    door = side_door("door", "microjoint", (-0.07, front, 0), (0.4, 0.02, h), left=True)
    tray = Region("tray", (-0.07, 0, -0.02), (0.34, 0.34, 0.24))
    body = [*shell(size), panel, *buttons]
    return Shape((w, d + 0.08, h), body, [door], regions=[tray])


def fridge() -> Shape:
    """Freezer on the left, fridge on the right, a door each and shelves behind them."""
    w, d, h = size = (0.9, 0.72, 1.78)
    boxes = [*shell(size), Box((0, 0.02, 0), (0.02, d - 0.06, h - 0.04))]
    regions = []
    for name, x in (("freezer", -w / 4), ("fridge", w / 4)):
        for number, z in enumerate((-0.85, -0.35, 0.05, 0.45)):
            boxes.append(Box((x, 0.02, z - 0.005), (w / 2 - 0.04, d - 0.08, 0.01)))
            place = (x, 0.02, z + 0.16)
            regions.append(Region(f"{name}_shelf_{number}", place, (w / 2 - 0.08, d - 0.14, 0.3)))
    front, leaf = -d / 2 - 0.02 - GAP, (w / 2 - 0.004, 0.04, h)
    doors = [
        side_door("freezer_door", "freezer_door_joint", (-w / 4, front, 0), leaf, left=True),
        side_door("fridge_door", "fridge_door_joint", (w / 4, front, 0), leaf, left=False),
    ]
    return Shape((w, d + 0.08, h), boxes, doors, regions=regions)


def dishwasher() -> Shape:
    """A door that drops and two racks. RoboCasa stands the robot over the open door, whose friction
    would hold it there.
    """
    w, d, h = size = (0.6, 0.55, 0.84)
    racks = [
        rack(f"rack{number}", (0, 0, z), (w - 0.08, d - 0.08, 0.02), 0.4)
        for number, z in enumerate((-0.25, 0.08))
    ]
    regions = [
        Region(f"rack{number}", (0, 0, z + 0.1), (w - 0.12, d - 0.12, 0.18))
        for number, z in enumerate((-0.25, 0.08))
    ]
    place, leaf = (0, -d / 2 - 0.015 - GAP, 0), (w, 0.03, h - 0.04)
    door = drop_door("door", "door_joint", place, leaf, slippery=True)
    return Shape((w, d + 0.06, h), shell(size), [door, *racks], regions=regions)


def oven() -> Shape:
    """A door that drops, one rack, two knobs above."""
    w, d, h = size = (0.7, 0.55, 0.6)
    front = -d / 2 - 0.015 - GAP
    parts = [
        drop_door("door", "door_joint", (0, front, -0.05), (w, 0.03, h - 0.12)),
        rack("rack0", (0, 0, -0.1), (w - 0.08, d - 0.08, 0.02), 0.35),
        knob("knob_time", (-0.1, front, h / 2 - 0.05), (0, -1, 0)),
        knob("knob_temp", (0.1, front, h / 2 - 0.05), (0, -1, 0)),
    ]
    inside = [Region("rack0", (0, 0, 0.02), (w - 0.12, d - 0.12, 0.2))]
    return Shape((w, d + 0.06, h), shell(size), parts, regions=inside)


def toaster_oven() -> Shape:
    """A small oven on the counter: a door that drops, high enough for a finger; knobs beside it."""
    w, d, h = size = (0.46, 0.32, 0.28)
    front = -d / 2 - 0.01 - GAP
    names = ("knob_doneness", "knob_function", "knob_temp", "knob_time")
    before = front - 0.006  # clear of the panel: a knob that touches it turns by itself
    knobs = [knob(n, (0.18, before, 0.1 - 0.06 * k), (0, -1, 0)) for k, n in enumerate(names)]
    door = drop_door("door", "door_joint", (-0.05, front, 0.03), (0.34, 0.02, h - 0.1))
    shelf = rack("rack0", (-0.05, 0.01, -0.05), (0.3, d - 0.06, 0.02), 0.15)
    inside = [Region("rack0", (-0.05, 0.01, 0.04), (0.28, d - 0.08, 0.14))]
    panel = Box((0.18, -d / 2 + 0.01, 0), (0.1, 0.02, h), rgba=DARK)
    return Shape((w, d + 0.06, h), [*shell(size), panel], [door, shelf, *knobs], regions=inside)


def sink() -> Shape:
    """A basin, a spout that turns and a handle with a second joint for the temperature."""
    size = (0.7, 0.45, 0.2)
    back = size[1] / 2 - 0.05
    spout = Part(
        "spout",
        (0, back, size[2] / 2),
        [Box((0, 0, 0.15), (0.03, 0.03, 0.3)), Box((0, -0.09, 0.29), (0.03, 0.2, 0.03))],
        [Joint("spout_joint", "hinge", (0, 0, 1), -1.0, 1.0, damping=5.0)],
        [("water", (0, -0.17, 0.14), 0.012)],
    )
    lever = Part(
        "handle",
        (0.12, back, size[2] / 2 + 0.04),
        [
            Box((0, -0.05, 0.02), (0.025, 0.12, 0.02), rgba=DARK),
            Box((0, 0, -0.01), (0.03, 0.03, 0.06)),
        ],
        [
            Joint("handle_joint", "hinge", (0, 0, 1), 0.0, 1.4, damping=0.2),
            Joint("handle_temp_joint", "hinge", (1, 0, 0), -0.3, 0.3, damping=5.0),
        ],
    )  # fmt: skip
    basin = Region("basin", (0, -0.03, 0.0), (0.6, 0.32, 0.16))
    return Shape(size, shell(size, front=True, top=False), [spout, lever], regions=[basin])


def stovetop() -> Shape:
    """A plate with four burners and their knobs, bars just clear of it, on its front edge."""
    w, d, h = size = (0.76, 0.5, 0.06)
    knobs, sites = [], []
    for k, (name, (x, y)) in enumerate(BURNERS.items()):
        sites.append((f"burner_on_{name}", (x * 0.2, 0.03 + y * 0.11, h / 2), 0.05))
        place = (-0.15 + 0.1 * k, -d / 2 + 0.04, h / 2 + 0.025)
        knobs.append(knob(f"knob_{name}", place, (0, 0, 1), length=0.04, across=(0.05, 0.02)))
    return Shape(size, [Box((0, 0, 0), (w, d, h), rgba=DARK)], knobs, sites)


def coffee_machine() -> Shape:
    """A base, a column, a head with a button, and the place for a mug under it."""
    w, d, h = size = (0.24, 0.34, 0.36)
    boxes = [
        Box((0, 0, -h / 2 + 0.015), (w, d, 0.03)),
        Box((0, d / 2 - 0.06, 0), (w, 0.12, h)),
        Box((0, -0.03, h / 2 - 0.05), (w, d - 0.06, 0.1)),
        Box((0, -d / 2 - 0.006, h / 2 - 0.05), (0.05, 0.012, 0.04), "start_button", RED),
    ]
    place = (0.0, -0.06, -h / 2 + 0.035)
    sites = [("receptacle_place_site", place, 0.01), ("coffee_liquid", (0, -0.06, 0.05), 0.004)]
    return Shape(size, boxes, sites=sites)


def toaster() -> Shape:
    """Two slots along its depth, from which a slice stands out; lever, knob and button in front."""
    w, d, h = size = (0.2, 0.3, 0.19)
    boxes = [Box((x, 0, 0), (0.02, d, h)) for x in (-0.09, 0.0, 0.09)]
    boxes += [Box((0, y, 0), (w, 0.02, h)) for y in (-d / 2 + 0.01, d / 2 - 0.01)]
    regions = []
    for name, x in (("slotL", -0.045), ("slotR", 0.045)):
        boxes.append(Box((x, 0, -0.033), (0.07, d - 0.04, 0.124), f"{name}_floor"))
        regions.append(Region(name, (x, 0, 0.09), (0.07, d - 0.05, 0.12)))
    front = -d / 2 - 0.01 - GAP
    down = Joint("lever_joint", "slide", (0, 0, -1), 0.0, 0.07, stiffness=5.0, damping=2.0)
    push = Joint("button_cancel_joint", "slide", (0, 1, 0), 0.0, 0.008, stiffness=50.0)
    parts = [
        small("lever", (0, front - 0.01, 0.05), (0.05, 0.03, 0.015), down),
        small("button_cancel", (0.06, front, -0.05), (0.02, 0.01, 0.02), push),
        knob("knob_doneness", (-0.06, front, -0.05), (0, -1, 0), length=0.02),
    ]
    return Shape(size, boxes, parts, regions=regions)


def blender() -> Shape:
    """A base with a button and a jug, open above, where the lid's place is."""
    w, d, h = size = (0.2, 0.2, 0.36)
    jug = [
        Box((b.centre[0], b.centre[1], b.centre[2] + 0.09), b.size)
        for b in shell((0.15, 0.15, 0.18), front=True, top=False)
    ]
    boxes = [Box((0, 0, -0.09), (w, d, h / 2)), *jug]
    boxes.append(Box((0, -d / 2 - 0.006, -0.1), (0.03, 0.012, 0.03), "power_button_main", RED))
    return Shape(size, boxes, anchor=(0, 0, h / 2 + 0.012))


def blender_lid() -> Shape:
    """A slab with a knob to take it by."""
    knob_on_it = Box((0, 0, 0.01), (0.05, 0.05, 0.03), rgba=DARK)
    boxes = [Box((0, 0, -0.015), (0.15, 0.15, 0.02)), knob_on_it]
    return Shape((0.15, 0.15, 0.05), boxes)


def stand_mixer() -> Shape:
    """A foot, a bowl, and a head that lifts about its back end."""
    size = (0.24, 0.36, 0.36)
    head = Part(
        "head",
        (0, 0.12, 0.1),
        [Box((0, -0.13, 0.03), (0.12, 0.3, 0.1))],
        [Joint("head_joint", "hinge", (-1, 0, 0), 0.0, 0.7, damping=1.0)],
    )
    lock = Joint("button_head_lock_joint", "slide", (-1, 0, 0), 0.0, 0.008, stiffness=50.0)
    bowl = [
        Box(b.centre, b.size, rgba=DARK) for b in shell((0.18, 0.18, 0.1), front=True, top=False)
    ]
    slide = Joint("bowl_joint", "slide", (0, 0, 1), 0.0, 0.02, damping=50.0)
    parts = [
        head,
        small("button_head_lock", (0.07, 0.14, 0.06), (0.02, 0.03, 0.02), lock),
        Part("bowl", (0, -0.06, -0.08), bowl, [slide]),
        knob("knob_speed", (-0.07, 0.14, 0.02), (-1, 0, 0), length=0.02),
    ]
    foot = [Box((0, 0, -0.165), (0.22, 0.36, 0.03)), Box((0, 0.14, -0.05), (0.1, 0.08, 0.2))]
    inside = [Region("bowl", (0, -0.06, -0.08), (0.14, 0.14, 0.08))]
    return Shape(size, foot, parts, regions=inside)


def electric_kettle() -> Shape:
    """A jug with a lid, the lid's button, and a lever at its back that is pressed down."""
    size = (0.16, 0.22, 0.24)
    lift = Joint("lid_joint", "hinge", (1, 0, 0), 0.0, 1.4, (0, 0.07, 0), damping=0.3)
    down = Joint("switch_joint", "slide", (0, 0, -1), 0.0, 0.02, stiffness=10.0, damping=1.0)
    push = Joint("button_lid_joint", "slide", (0, 0, -1), 0.0, 0.008, stiffness=80.0)
    parts = [
        small("lid", (0, -0.03, 0.112), (0.12, 0.12, 0.012), lift),
        small("switch", (0, -0.11, 0.02), (0.04, 0.03, 0.012), down),
        small("button_lid", (0, 0.08, 0.115), (0.02, 0.02, 0.01), push),
    ]
    jug = [
        Box((0, -0.03, -0.01), (0.14, 0.12, 0.22), shape="box"),
        Box((0, 0.08, 0), (0.03, 0.03, 0.2), rgba=DARK),
    ]
    return Shape(size, jug, parts)


def small(name: str, at: Triple, size: Triple, joint: Joint) -> Part:
    """A lever, button or lid: one box on one joint."""
    return Part(name, at, [Box((0, 0, 0), size, rgba=RED)], [joint])


def dish_rack() -> Shape:
    """A tray with one place on it."""
    inside = [Region("int_0", (0, 0, 0.06), (0.3, 0.24, 0.1))]
    return Shape((0.4, 0.32, 0.16), [Box((0, 0, -0.06), (0.4, 0.32, 0.04))], regions=inside)


def plain(size: Triple, anchor: Triple | None = None) -> Callable[[], Shape]:
    """A block of a size."""
    return lambda: Shape(size, [Box((0, 0, 0), size)], anchor=anchor)


def hollow(size: Triple) -> Callable[[], Shape]:
    """An open container with a region in it."""
    w, d, h = size
    inside = [Region("int", (0, 0, 0.01), (w * 0.8, d * 0.8, h * 0.9))]
    return lambda: Shape(size, shell(size, front=True, top=False), regions=inside)


FIXTURES: dict[str, Callable[[], Shape]] = {
    "microwave": microwave,
    "fridge_side_by_side": fridge,
    "fridge_french_door": fridge,
    "fridge_bottom_freezer": fridge,
    "dishwasher": dishwasher,
    "oven": oven,
    "toaster_oven": toaster_oven,
    "sink": sink,
    "stovetop": stovetop,
    "stove": stovetop,
    "stove_wide": stovetop,
    "coffee_machine": coffee_machine,
    "toaster": toaster,
    "blender": blender,
    "blender_lid": blender_lid,
    "stand_mixer": stand_mixer,
    "electric_kettle": electric_kettle,
    "dish_rack": dish_rack,
    "hood": plain((0.75, 0.5, 0.3)),
    "window": plain((1.0, 0.03, 0.8)),
    "stool": plain((0.36, 0.36, 0.7)),
    "utensil_rack": plain((0.4, 0.06, 0.2)),
    "knife_block": plain((0.12, 0.2, 0.22)),
    "paper_towel": plain((0.14, 0.14, 0.3)),
    "utensil_set": plain((0.14, 0.14, 0.28)),
    "plant": plain((0.2, 0.2, 0.3)),
    "flower_vase": plain((0.12, 0.12, 0.25)),
    "oil_bottle": plain((0.06, 0.06, 0.24), anchor=(0.08, 0, 0)),
    "vinegar_bottle": plain((0.06, 0.06, 0.22)),
    "salt_shaker": plain((0.05, 0.05, 0.1), anchor=(0.07, 0, 0)),
    "pepper_shaker": plain((0.05, 0.05, 0.1)),
    "jar": plain((0.12, 0.12, 0.16), anchor=(0, 0, 0.09)),
    "jar_lid": plain((0.1, 0.1, 0.02)),
    "fruit_bowl": hollow((0.26, 0.26, 0.1)),
    "tiered_basket": hollow((0.28, 0.28, 0.3)),
    "digital_scale": plain((0.18, 0.2, 0.03)),
    "glass_cup": plain((0.07, 0.07, 0.12)),
    "candle": plain((0.07, 0.07, 0.1)),
}
SMALL = plain((0.05, 0.05, 0.1))  # spices and what else has no row of its own
