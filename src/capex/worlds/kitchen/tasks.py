"""The tasks of the kitchen: what a start draws for each, and when it counts as done.

A task is three things: the row that `capex tasks` prints, a function that composes a situation from draws, and a success rule read from
physics after every control step. Criteria and horizons are the paper's (its table of tasks).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from capex.worlds import TaskInfo
from capex.worlds.kitchen.facts import Facts
from capex.worlds.kitchen.fixtures import BURNERS, COUNTER_HEIGHT_M
from capex.worlds.kitchen.scene import Kitchen
from capex.worlds.kitchen.situation import Draw, Placed, Situation, draw_food, draw_light, draw_posture, place_food, scatter
from capex.worlds.kitchen.things import PAN_RADIUS_M, PLATE_FLOOR_M, PLATE_RADIUS_M, add_pan, add_plate

CLOSED = 0.005  # fraction of a joint's range
CLEAR_OF_OBJECT_M = 0.25


@dataclass(frozen=True)
class Task:
    """One task."""

    info: TaskInfo
    compose: Callable[[Draw, Kitchen], Situation]
    success: Callable[[Facts], bool]


def _close_fridge(draw: Draw, kitchen: Kitchen) -> Situation:
    fridge = kitchen.fixture("fridge")
    side = -1.0 if kitchen.layout.fridge_hinge == "right" else 1.0
    angle = draw.uniform(0.35, 0.95)
    x = fridge.x - draw.uniform(0.62, 0.76)
    y = fridge.y - side * draw.uniform(-0.08, 0.08)
    posture = draw_posture(draw, "forward right" if side < 0 else "forward left")
    robot = (x, y, draw.uniform(-0.12, 0.12))
    counter = kitchen.fixture("counter")
    edge = counter.width / 2
    things = scatter(draw, counter, 3, (0.15, edge - 0.45), (0.5, edge - 0.08), COUNTER_HEIGHT_M, ())
    return Situation(
        "Close the fridge door.", robot, posture, tuple(things), {"fridge door": angle}, {"part": "fridge door"}, draw_light(draw)
    )


def _counter_to_stove(draw: Draw, kitchen: Kitchen) -> Situation:
    stove = kitchen.fixture("stove")
    side = draw.choice((1.0, -1.0))  # on which side of the stove the plate stands
    counters = [f for n, f in kitchen.places.items() if n.startswith("counter") and (f.y - stove.y) * side > 0]
    counter = min(counters, key=lambda f: abs(f.y - stove.y))
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
    reach = counter.width / 2
    near = side * -reach  # the counter's edge towards the stove, in the counter's frame
    span = (near, near + side * 0.75) if side > 0 else (near + side * 0.75, near)
    things += scatter(draw, counter, 2, (0.40, span[0] + 0.08), (0.50, span[1]), COUNTER_HEIGHT_M, clear)
    middle = (pan_y + plate_y) / 2
    robot = (stove.x - draw.uniform(0.20, 0.30), middle + draw.uniform(-0.10, 0.10), draw.uniform(-0.12, 0.12))
    return Situation(
        f"Pick the {name} from the plate and place it in the pan.",
        robot,
        draw_posture(draw, "down"),
        tuple(things),
        {},
        {"object": name, "from": "plate", "container": "pan"},
        draw_light(draw),
    )


def _closed(facts: Facts) -> bool:
    return facts.joint_fraction(facts.role("part")) <= CLOSED


def _in_pan(facts: Facts) -> bool:
    item, pan = facts.role("object"), facts.role("container")
    return facts.touching(item, pan) and facts.distance_xy(item, pan) < 0.07 and facts.tip_distance(item) > CLEAR_OF_OBJECT_M


_ALL = (
    Task(
        TaskInfo("CloseFridge", "Doors and lids", 900, "Close the fridge door.", "every fridge door joint at most 0.005 of its range"),
        _close_fridge,
        _closed,
    ),
    Task(
        TaskInfo(
            "PickPlaceCounterToStove",
            "Pick and place",
            600,
            "Pick the OBJECT from the plate and place it in the pan.",
            "object touches the pan within 7 cm of its centre (horizontally); gripper over 25 cm from the object",
        ),
        _counter_to_stove,
        _in_pan,
    ),
)
BY_NAME: dict[str, Task] = {task.info.name: task for task in _ALL}
