"""Pick and place: what their starts draw."""

from __future__ import annotations

import functools

from capex.pose import PlanarPose
from capex.worlds import TaskInfo
from capex.worlds.kitchen.appliances import (
    COFFEE_SPOUT_X_M,
    COFFEE_TRAY_M,
    SLOT_FLOOR_M,
    SLOT_Y_M,
    add_coffee_machine,
)
from capex.worlds.kitchen.fixtures import BASIN, BASIN_FRONT_M, BURNERS, COUNTER_HEIGHT_M
from capex.worlds.kitchen.furniture import (
    CUPBOARD_HINGES,
    CUPBOARDS,
    DRAWER_FLOOR_M,
    DRAWER_TRAVEL_M,
    LEDGE_TOP_M,
    SIDES,
    cupboard_inside,
    cupboard_y,
)
from capex.worlds.kitchen.objects import (
    FOOD,
    GROCERIES,
    MUGS,
    PAN_RADIUS_M,
    PLATE_FLOOR_M,
    PLATE_RADIUS_M,
    SLICES,
    add_pan,
    add_plate,
)
from capex.worlds.kitchen.scene import Kitchen
from capex.worlds.kitchen.situation import (
    Draw,
    Fitted,
    Placed,
    Situation,
    draw_food,
    draw_light,
    draw_posture,
    draw_robot,
    place_food,
    place_grocery,
    place_mug,
    place_slice,
)
from capex.worlds.kitchen.tasks import criteria
from capex.worlds.kitchen.tasks.task import (
    Task,
    clutter,
    cupboards,
    drawer_counter,
    expert_skill,
    ledge,
)

FAMILY = "Pick and place"
CLEAR = "gripper over 25 cm from the object"
ON_PLATE = "object on the plate (contact, within 0.7 of its radius)"


def _plate(x: float, y: float) -> tuple[Placed, tuple[float, float, float]]:
    """A plate on a worktop, and the disc that clutter keeps clear of."""
    plate = Placed("plate", add_plate, (x, y, COUNTER_HEIGHT_M + 0.001), 0.0)
    return plate, (x, y, PLATE_RADIUS_M + 0.04)


def counter_to_stove(draw: Draw, kitchen: Kitchen) -> Situation:
    stove = kitchen.fixture("stove")
    side = draw.side()  # on which side of the stove the plate stands
    counter = kitchen.counter_beside(stove, side)
    burner_x, burner_y, _ = BURNERS[draw.choice(("front left", "front right"))]
    pan_x = stove.x + burner_x + draw.uniform(-0.02, 0.03)
    pan_y = stove.y + burner_y + draw.within(0.02)
    plate_x = counter.x + draw.uniform(0.14, 0.30)
    plate_y = stove.y + side * (stove.width / 2 + draw.uniform(0.12, 0.26))
    plate, beside = _plate(plate_x, plate_y)
    food = draw_food(draw)
    name = food.kind.name
    food_x, food_y = plate_x + draw.within(0.03), plate_y + draw.within(0.03)
    pan = Placed("pan", add_pan, (pan_x, pan_y, COUNTER_HEIGHT_M + 0.002), draw.within(0.5))
    on_plate = COUNTER_HEIGHT_M + PLATE_FLOOR_M + 0.001
    things = [pan, plate, place_food(name, food, food_x, food_y, on_plate, draw.within(1.57))]
    clear = [(pan_x, pan_y, PAN_RADIUS_M + 0.05), beside]
    things += clutter(draw, kitchen, counter, 2, -side, clear)
    robot = draw_robot(draw, stove.x, (pan_y + plate_y) / 2, (0.20, 0.30), 0.10, 0.12)
    posture = draw_posture(draw, "down")
    roles = {"object": name, "from": "plate", "container": "pan"}
    instruction = f"Pick the {name} from the plate and place it in the pan."
    return Situation(instruction, robot, posture, tuple(things), {}, roles, draw_light(draw))


def toaster_to_counter(draw: Draw, kitchen: Kitchen) -> Situation:
    toaster = kitchen.fixture("toaster")
    counter = kitchen.counter_under(toaster)
    side, slot, piece = draw.side(), draw.side(), draw.choice(SLICES)
    slice_x, slice_y, _ = toaster.pose.apply((draw.within(0.012), slot * SLOT_Y_M, 0.0))
    plate_x = counter.x + draw.uniform(0.14, 0.28)
    plate, beside = _plate(plate_x, toaster.y + side * draw.uniform(0.25, 0.34))
    floor = COUNTER_HEIGHT_M + SLOT_FLOOR_M
    things = [plate, place_slice(piece, slice_x, slice_y, floor, toaster.pose.yaw)]
    things += clutter(draw, kitchen, counter, 2, side, [beside])
    x, y = counter.x - draw.uniform(0.19, 0.27), toaster.y + side * draw.uniform(0.0, 0.14)
    robot, posture = (x, y, draw.within(0.12)), draw_posture(draw, "down")
    roles = {"object": piece.name, "from": "toaster", "container": "plate"}
    instruction = f"Pick the {piece.name} from the toaster and place it on the plate."
    return Situation(instruction, robot, posture, tuple(things), {}, roles, draw_light(draw))


def sink_to_counter(draw: Draw, kitchen: Kitchen) -> Situation:
    sink, side = kitchen.fixture("sink"), draw.side()
    counter = kitchen.counter_beside(sink, side)
    food = draw_food(draw)
    name, floor = food.kind.name, COUNTER_HEIGHT_M - BASIN[2]
    food_x = sink.x + BASIN_FRONT_M + BASIN[1] / 2 + draw.uniform(-0.06, 0.05)
    food_y = sink.y + draw.within(0.11)
    plate_x = counter.x + draw.uniform(0.14, 0.30)
    plate_y = sink.y + side * (sink.width / 2 + draw.uniform(0.12, 0.22))
    plate, beside = _plate(plate_x, plate_y)
    things = [plate, place_food(name, food, food_x, food_y, floor, draw.within(0.8))]
    things += clutter(draw, kitchen, counter, 2, -side, [beside])
    robot = draw_robot(draw, sink.x, (food_y + plate_y) / 2, (0.18, 0.26), 0.10, 0.12)
    posture = draw_posture(draw, "down")
    roles = {"object": name, "from": "sink", "container": "plate"}
    instruction = f"Pick the {name} from the sink and place it on the plate."
    return Situation(instruction, robot, posture, tuple(things), {}, roles, draw_light(draw))


def coffee_setup_mug(draw: Draw, kitchen: Kitchen) -> Situation:
    """A coffee machine and two mugs on a ledge; the instruction names one mug."""
    bench, side = kitchen.workbench, draw.side()  # on which side of the mugs the machine stands
    front = bench.x + 0.06
    x, y = front + draw.uniform(0.02, 0.06), bench.y + side * draw.uniform(0.16, 0.30)
    machine = PlanarPose(x, y, draw.within(0.12))
    near = machine.y - side * draw.uniform(0.23, 0.27)
    far = near - side * draw.uniform(0.15, 0.20)
    colour, other = draw.shuffled(sorted(MUGS))[:2]
    mug_y, other_y = draw.shuffled((near, far))
    things = (
        place_mug(draw, colour, front + draw.uniform(0.06, 0.10), mug_y, LEDGE_TOP_M),
        place_mug(draw, other, front + draw.uniform(0.06, 0.12), other_y, LEDGE_TOP_M),
    )
    robot = draw_robot(draw, bench.x, (machine.y + mug_y) / 2, (0.32, 0.60), 0.15, 0.15)
    build = functools.partial(add_coffee_machine, surface_m=LEDGE_TOP_M)
    return Situation(
        f"Pick the {colour} mug and place it under the spout of the coffee machine.",
        robot,
        draw_posture(draw, "forward"),
        things,
        {},
        {"object": f"{colour} mug"},
        draw_light(draw),
        (ledge(bench, front, 0.38), Fitted("coffee machine", build, machine)),
        {"place": machine.apply((COFFEE_SPOUT_X_M, 0.0, LEDGE_TOP_M + COFFEE_TRAY_M))},
    )


def counter_to_cabinet(draw: Draw, kitchen: Kitchen) -> Situation:
    """One of three cupboards stands open; something on the ledge belongs in it."""
    bench = kitchen.workbench
    column = draw.choice(CUPBOARDS)
    middle, hinge = bench.y + cupboard_y(column, bench.width), CUPBOARD_HINGES[column]
    name, other = draw.shuffled(sorted(GROCERIES))[:2]
    # On the side of the opening that the door's leaf does not cover.
    y = max(bench.y - 0.38, min(bench.y + 0.38, middle - hinge * draw.uniform(-0.05, 0.20)))
    aside = y - hinge * draw.uniform(0.17, 0.24)
    # Beyond the leaf.
    aside = aside if abs(aside - bench.y) < 0.42 else middle + hinge * draw.uniform(0.34, 0.42)
    front = bench.x + 0.02
    things = [
        place_grocery(draw, name, front + draw.uniform(0.06, 0.10), y, LEDGE_TOP_M),
        place_grocery(draw, other, front + draw.uniform(0.10, 0.15), aside, LEDGE_TOP_M),
    ]
    things += clutter(draw, kitchen, bench, 2, draw.side(), without=(name, other))
    robot = draw_robot(draw, bench.x, (y + middle) / 2, (0.32, 0.62), 0.15, 0.15)
    low, high = (bench.pose.apply(corner) for corner in cupboard_inside(column, bench.width))
    return Situation(
        f"Pick the {name} from the ledge and place it in the open {column} cabinet.",
        robot,
        draw_posture(draw, "forward"),
        tuple(things),
        {f"{column} cabinet door": draw.uniform(1.60, 1.72)},
        {"object": name},
        draw_light(draw),
        (cupboards(bench), ledge(bench, front, 0.20)),
        {"inside low": low, "inside high": high, "place": (low[0] + 0.13, middle, low[2])},
    )


def drawer_to_counter(draw: Draw, kitchen: Kitchen) -> Situation:
    """One of two drawers stands open with two kinds of food in it; the instruction names one."""
    bench = kitchen.workbench
    side = draw.choice(SIDES)
    drawer = bench.y + bench.width / 4 * (1.0 if side == "left" else -1.0)
    # Nothing that rolls off a counter.
    first, second = draw.shuffled(sorted(k.name for k in FOOD.values() if not k.round))[:2]
    end = draw.side()
    things = []
    for name, where in ((first, end), (second, -end)):
        x, y = bench.x - draw.uniform(0.12, 0.19), drawer + where * draw.uniform(0.085, 0.11)
        food = draw_food(draw, [name])
        things.append(place_food(name, food, x, y, DRAWER_FLOOR_M, draw.within(0.45)))
    things += clutter(draw, kitchen, bench, 2, draw.side())
    y = things[0].position_m[1]
    robot = draw_robot(draw, bench.x, y, (0.52, 0.75), 0.20, 0.15)
    return Situation(
        f"Pick the {first} from the open drawer and place it on the counter.",
        robot,
        draw_posture(draw, "down"),
        tuple(things),
        {f"{side} drawer": DRAWER_TRAVEL_M * draw.uniform(0.97, 1.0)},
        {"object": first},
        draw_light(draw),
        (drawer_counter(bench),),
        {"place": (bench.x + 0.07, y, COUNTER_HEIGHT_M)},
    )


TASKS = (
    Task(
        TaskInfo(
            "CoffeeSetupMug",
            FAMILY,
            600,
            "Pick the COLOUR mug and place it under the spout of the coffee machine.",
            "mug within 4 cm (horizontally) and 10 cm (vertically) of the spot under the spout;"
            f" {CLEAR}",
        ),
        coffee_setup_mug,
        criteria.under_dispenser,
        skill=expert_skill("pick_place:shelve"),
    ),
    Task(
        TaskInfo(
            "PickPlaceCounterToCabinet",
            FAMILY,
            750,
            "Pick the OBJECT from the ledge and place it in the open NAMED cabinet.",
            f"the object's bounding box inside the cabinet (within 5 cm); {CLEAR}",
        ),
        counter_to_cabinet,
        criteria.in_cabinet,
        skill=expert_skill("pick_place:shelve"),
    ),
    Task(
        TaskInfo(
            "PickPlaceCounterToStove",
            FAMILY,
            600,
            "Pick the OBJECT from the plate and place it in the pan.",
            f"object touches the pan within 7 cm of its centre (horizontally); {CLEAR}",
        ),
        counter_to_stove,
        criteria.in_pan,
        skill=expert_skill("pick_place:pick_place"),
    ),
    Task(
        TaskInfo(
            "PickPlaceDrawerToCounter",
            FAMILY,
            750,
            "Pick the OBJECT from the open drawer and place it on the counter.",
            f"object touches a counter; {CLEAR}",
        ),
        drawer_to_counter,
        criteria.on_counter,
        skill=expert_skill("pick_place:out_of_drawer"),
    ),
    Task(
        TaskInfo(
            "PickPlaceSinkToCounter",
            FAMILY,
            900,
            "Pick the OBJECT from the sink and place it on the plate.",
            f"{ON_PLATE}; plate touches the counter; {CLEAR}",
        ),
        sink_to_counter,
        criteria.on_plate_on_counter,
        skill=expert_skill("pick_place:pick_place"),
    ),
    Task(
        TaskInfo(
            "PickPlaceToasterToCounter",
            FAMILY,
            600,
            "Pick the OBJECT from the toaster and place it on the plate.",
            f"{ON_PLATE}; {CLEAR}",
        ),
        toaster_to_counter,
        criteria.on_plate,
        skill=expert_skill("pick_place:pick_place"),
    ),
)
