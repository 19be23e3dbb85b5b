"""The tasks of the kitchen: what a start draws for each, and when it counts as done.

A task is the row that `capex tasks` prints, a function that composes a situation from draws, a success rule read from physics after
every control step, and, for a momentary event such as a button's press, a latch. Criteria and horizons are the paper's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from capex.worlds import TaskInfo
from capex.worlds.kitchen.appliances import SLOT_FLOOR_M, SLOT_Y_M
from capex.worlds.kitchen.facts import Facts
from capex.worlds.kitchen.fixtures import BASIN, BASIN_FRONT_M, BURNERS, COUNTER_HEIGHT_M, Fixture
from capex.worlds.kitchen.robot import HAND_BODIES
from capex.worlds.kitchen.scene import Kitchen
from capex.worlds.kitchen.situation import (
    Draw,
    Placed,
    Situation,
    draw_food,
    draw_light,
    draw_posture,
    place_food,
    place_slice,
    scatter,
)
from capex.worlds.kitchen.things import PAN_RADIUS_M, PLATE_FLOOR_M, PLATE_RADIUS_M, SLICES, add_pan, add_plate

CLOSED = 0.005  # fraction of a joint's range
PRESSED = 0.6  # fraction of a button's travel
CLEAR_OF_OBJECT_M = 0.25
CLEAR_OF_BUTTON_M = 0.15
IN_PAN_M = 0.07
ON_PLATE_M = 0.7 * PLATE_RADIUS_M


@dataclass(frozen=True)
class Task:
    """One task."""

    info: TaskInfo
    compose: Callable[[Draw, Kitchen], Situation]
    success: Callable[[Facts], bool]
    latch: Callable[[Facts], bool] | None = None


def _close_fridge(draw: Draw, kitchen: Kitchen) -> Situation:
    fridge = kitchen.fixture("fridge")
    side = -1.0 if kitchen.layout.fridge_hinge == "right" else 1.0
    angle = draw.uniform(0.35, 1.05)
    x = fridge.x - draw.uniform(0.60, 1.10)
    y = fridge.y + side * draw.uniform(-0.18, 0.26)  # rather on the hinge's side, where the open door leaves room
    posture = draw_posture(draw, "forward right" if side < 0 else "forward left")
    robot = (x, y, draw.uniform(-0.45, 0.45))
    things = _clutter(draw, kitchen, kitchen.counter_beside(fridge, side), 3, -side)
    return Situation("Close the fridge door.", robot, posture, things, {"fridge door": angle}, {"part": "fridge door"}, draw_light(draw))


def _close_toaster_oven(draw: Draw, kitchen: Kitchen) -> Situation:
    oven = kitchen.fixture("toaster oven")
    counter = kitchen.counter_under(oven)
    angle = draw.uniform(0.45, 1.25)
    robot = (counter.x - draw.uniform(0.46, 0.85), oven.y + draw.uniform(-0.28, 0.28), draw.uniform(-0.35, 0.35))
    posture = draw_posture(draw, "forward")
    things = _clutter(draw, kitchen, counter, 3, 1.0 if oven.y < counter.y else -1.0)
    joints = {"toaster oven door": angle}
    return Situation("Close the toaster oven door.", robot, posture, things, joints, {"part": "toaster oven door"}, draw_light(draw))


def _turn_on_microwave(draw: Draw, kitchen: Kitchen) -> Situation:
    microwave = kitchen.fixture("microwave")
    counter = kitchen.counter_under(microwave)
    robot = (counter.x - draw.uniform(0.30, 0.44), microwave.y + draw.uniform(-0.24, 0.04), draw.uniform(-0.15, 0.15))
    posture = draw_posture(draw, "forward")
    things = _clutter(draw, kitchen, counter, 2, 1.0 if microwave.y < counter.y else -1.0)
    roles = {"button": "start button"}
    return Situation("Press the start button on the microwave.", robot, posture, things, {}, roles, draw_light(draw))


def _counter_to_stove(draw: Draw, kitchen: Kitchen) -> Situation:
    stove = kitchen.fixture("stove")
    side = draw.choice((1.0, -1.0))  # on which side of the stove the plate stands
    counter = kitchen.counter_beside(stove, side)
    burner_x, burner_y, _ = BURNERS[draw.choice(("front left", "front right"))]
    pan_x, pan_y = stove.x + burner_x + draw.uniform(-0.02, 0.03), stove.y + burner_y + draw.uniform(-0.02, 0.02)
    plate_x = counter.x + draw.uniform(0.14, 0.30)
    plate_y = stove.y + side * (stove.width / 2 + draw.uniform(0.12, 0.26))
    food = draw_food(draw)
    name = food.kind.name
    food_x, food_y = plate_x + draw.uniform(-0.03, 0.03), plate_y + draw.uniform(-0.03, 0.03)
    things = [
        Placed("pan", add_pan, (pan_x, pan_y, COUNTER_HEIGHT_M + 0.002), draw.uniform(-0.5, 0.5)),
        Placed("plate", add_plate, (plate_x, plate_y, COUNTER_HEIGHT_M + 0.001), 0.0),
        place_food(name, food, food_x, food_y, COUNTER_HEIGHT_M + PLATE_FLOOR_M + 0.001, draw.uniform(-1.57, 1.57)),
    ]
    clear = [(pan_x, pan_y, PAN_RADIUS_M + 0.05), (plate_x, plate_y, PLATE_RADIUS_M + 0.04)]
    things += _clutter(draw, kitchen, counter, 2, -side, clear)
    robot = (stove.x - draw.uniform(0.20, 0.30), (pan_y + plate_y) / 2 + draw.uniform(-0.10, 0.10), draw.uniform(-0.12, 0.12))
    roles = {"object": name, "from": "plate", "container": "pan"}
    instruction = f"Pick the {name} from the plate and place it in the pan."
    return Situation(instruction, robot, draw_posture(draw, "down"), tuple(things), {}, roles, draw_light(draw))


def _toaster_to_counter(draw: Draw, kitchen: Kitchen) -> Situation:
    toaster = kitchen.fixture("toaster")
    counter = kitchen.counter_under(toaster)
    side = draw.choice((1.0, -1.0))
    slot = draw.choice((1.0, -1.0))
    piece = draw.choice(SLICES)
    slice_x, slice_y, _ = toaster.world((draw.uniform(-0.012, 0.012), slot * SLOT_Y_M, 0.0))
    plate_x, plate_y = counter.x + draw.uniform(0.14, 0.28), toaster.y + side * draw.uniform(0.25, 0.34)
    things = [
        Placed("plate", add_plate, (plate_x, plate_y, COUNTER_HEIGHT_M + 0.001), 0.0),
        place_slice(piece, slice_x, slice_y, COUNTER_HEIGHT_M + SLOT_FLOOR_M, toaster.yaw),
    ]
    things += _clutter(draw, kitchen, counter, 2, side, [(plate_x, plate_y, PLATE_RADIUS_M + 0.04)])
    robot = (counter.x - draw.uniform(0.19, 0.27), toaster.y + side * draw.uniform(0.0, 0.14), draw.uniform(-0.12, 0.12))
    roles = {"object": piece.name, "from": "toaster", "container": "plate"}
    instruction = f"Pick the {piece.name} from the toaster and place it on the plate."
    return Situation(instruction, robot, draw_posture(draw, "down"), tuple(things), {}, roles, draw_light(draw))


def _sink_to_counter(draw: Draw, kitchen: Kitchen) -> Situation:
    sink = kitchen.fixture("sink")
    side = draw.choice((1.0, -1.0))
    counter = kitchen.counter_beside(sink, side)
    food = draw_food(draw)
    name = food.kind.name
    floor = COUNTER_HEIGHT_M - BASIN[2]
    food_x = sink.x + BASIN_FRONT_M + BASIN[1] / 2 + draw.uniform(-0.06, 0.05)
    food_y = sink.y + draw.uniform(-0.11, 0.11)
    plate_x = counter.x + draw.uniform(0.14, 0.30)
    plate_y = sink.y + side * (sink.width / 2 + draw.uniform(0.12, 0.22))
    things = [
        Placed("plate", add_plate, (plate_x, plate_y, COUNTER_HEIGHT_M + 0.001), 0.0),
        place_food(name, food, food_x, food_y, floor, draw.uniform(-0.8, 0.8)),
    ]
    things += _clutter(draw, kitchen, counter, 2, -side, [(plate_x, plate_y, PLATE_RADIUS_M + 0.04)])
    robot = (sink.x - draw.uniform(0.18, 0.26), (food_y + plate_y) / 2 + draw.uniform(-0.10, 0.10), draw.uniform(-0.12, 0.12))
    roles = {"object": name, "from": "sink", "container": "plate"}
    instruction = f"Pick the {name} from the sink and place it on the plate."
    return Situation(instruction, robot, draw_posture(draw, "down"), tuple(things), {}, roles, draw_light(draw))


def _clutter(
    draw: Draw, kitchen: Kitchen, counter: Fixture, count: int, towards: float, clear: Sequence[tuple[float, float, float]] = ()
) -> tuple[Placed, ...]:
    """Distractors at the back of the nearer three quarters of a metre of a worktop, clear of dishes and appliances."""
    end = counter.width / 2 - 0.08
    inner = max(-end, end - 0.8)
    low, high = (inner, end) if towards > 0 else (-end, -inner)
    return tuple(scatter(draw, counter, count, (0.40, low), (0.52, high), COUNTER_HEIGHT_M, [*clear, *kitchen.occupied]))


def _closed(facts: Facts) -> bool:
    return facts.joint_fraction(facts.role("part")) <= CLOSED


def _started(facts: Facts) -> bool:
    return facts.latched and facts.tip_distance(facts.role("button")) > CLEAR_OF_BUTTON_M


def _pressed(facts: Facts) -> bool:
    button = facts.role("button")
    return facts.joint_fraction(button) >= PRESSED and bool(facts.touched_by(button) & set(HAND_BODIES))


def _in_pan(facts: Facts) -> bool:
    return _placed(facts, IN_PAN_M)


def _on_plate(facts: Facts) -> bool:
    return _placed(facts, ON_PLATE_M)


def _on_plate_on_counter(facts: Facts) -> bool:
    return _placed(facts, ON_PLATE_M) and any(n.startswith("counter") for n in facts.touched_by(facts.role("container")))


def _placed(facts: Facts, within_m: float) -> bool:
    item, container = facts.role("object"), facts.role("container")
    if facts.tip_distance(item) <= CLEAR_OF_OBJECT_M or facts.distance_xy(item, container) >= within_m:
        return False
    return facts.touching(item, container)


_CLEAR = "gripper over 25 cm from the object"
_PLATE = "object on the plate (contact, within 0.7 of its radius)"
_ALL = (
    Task(
        TaskInfo("CloseFridge", "Doors and lids", 900, "Close the fridge door.", "every fridge door joint at most 0.005 of its range"),
        _close_fridge,
        _closed,
    ),
    Task(
        TaskInfo("CloseToasterOvenDoor", "Doors and lids", 450, "Close the toaster oven door.", "door joint at most 0.005 of its range"),
        _close_toaster_oven,
        _closed,
    ),
    Task(
        TaskInfo(
            "TurnOnMicrowave",
            "Buttons, knobs, levers",
            450,
            "Press the start button on the microwave.",
            "start button pressed; gripper then over 15 cm from it",
        ),
        _turn_on_microwave,
        _started,
        _pressed,
    ),
    Task(
        TaskInfo(
            "PickPlaceCounterToStove",
            "Pick and place",
            600,
            "Pick the OBJECT from the plate and place it in the pan.",
            f"object touches the pan within 7 cm of its centre (horizontally); {_CLEAR}",
        ),
        _counter_to_stove,
        _in_pan,
    ),
    Task(
        TaskInfo(
            "PickPlaceToasterToCounter",
            "Pick and place",
            600,
            "Pick the OBJECT from the toaster and place it on the plate.",
            f"{_PLATE}; {_CLEAR}",
        ),
        _toaster_to_counter,
        _on_plate,
    ),
    Task(
        TaskInfo(
            "PickPlaceSinkToCounter",
            "Pick and place",
            900,
            "Pick the OBJECT from the sink and place it on the plate.",
            f"{_PLATE}; plate touches the counter; {_CLEAR}",
        ),
        _sink_to_counter,
        _on_plate_on_counter,
    ),
)
BY_NAME: dict[str, Task] = {task.info.name: task for task in _ALL}
