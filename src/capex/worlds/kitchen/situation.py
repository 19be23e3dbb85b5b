"""What a start draws: which objects stand where, how far fixtures are open, where the robot stands,
and in which words the task is given.

A start is fixed for ever by (world, task, index, seed): all draws come from one generator seeded
with those four words, through `random()` alone, the one method whose sequence Python promises to
keep.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from capex.pose import PlanarPose
from capex.worlds.kitchen.fixtures import Fixture
from capex.worlds.kitchen.objects import (
    CLUTTER,
    FOOD,
    GROCERIES,
    GROCERY_KG,
    MUGS,
    Food,
    Slice,
    add_food,
    add_mug,
    add_slice,
)
from capex.worlds.kitchen.parts import Builder, Point

T = TypeVar("T")

# Joint angles of the arm at a start, solved for the tip poses in the comments (mount frame), then
# varied by the draw.
POSTURES: dict[str, tuple[float, ...]] = {
    "down": (0.0, -0.332, 0.0, -1.483, 0.0, 1.151, 0.785),  # (0.38, 0, 0.68) pointing down
    "forward": (0.0, -1.049, 0.0, -2.6, 0.0, 3.122, 0.785),  # (0.36, 0, 0.74) pointing forward
    "forward right": (0.258, -1.145, -0.571, -2.509, 0.009, 3.003, 0.262),  # (0.34, -0.22, 0.72)
    "forward left": (-0.258, -1.146, 0.571, -2.509, -0.008, 3.003, 1.309),  # (0.34, 0.22, 0.72)
}


class Draw:
    """Draws that are the same for ever."""

    def __init__(self, *words: object):
        self._random = random.Random(":".join(str(w) for w in words)).random

    def uniform(self, low: float, high: float) -> float:
        """A number between low and high."""
        return low + (high - low) * self._random()

    def choice(self, options: Sequence[T]) -> T:
        """One of the options."""
        return options[min(int(self._random() * len(options)), len(options) - 1)]

    def within(self, limit: float) -> float:
        """A number between -limit and limit."""
        return self.uniform(-limit, limit)

    def side(self) -> float:
        """1 (left) or -1 (right)."""
        return self.choice((1.0, -1.0))

    def shuffled(self, options: Sequence[T]) -> list[T]:
        """The options in a drawn order."""
        order = sorted((self._random(), k) for k in range(len(options)))
        return [options[k] for _, k in order]


@dataclass(frozen=True)
class Placed:
    """A free object: its name in reports, how to build it, and its resting pose in the world."""

    name: str
    build: Callable[[Builder, Any], None]
    position_m: Point
    yaw: float = 0.0


@dataclass(frozen=True)
class Fitted:
    """A fixture that a start brings; it replaces the unit of the kitchen with its name, if any."""

    name: str
    build: Callable[[Builder, PlanarPose], object]
    place: PlanarPose | None = None  # None: where the unit of that name stands


@dataclass(frozen=True)
class Situation:
    """Everything a start fixes."""

    instruction: str
    robot: Point  # x, y, yaw of the mount on the floor
    posture: tuple[float, ...]
    things: tuple[Placed, ...] = ()
    joints: Mapping[str, float] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)  # role in the task -> thing or part name
    light: tuple[float, float] = (0.6, 0.0)  # strength, and the sun's sideways lean
    fixtures: tuple[Fitted, ...] = ()
    # Role -> a place: x, y and z, or the robot's x, y, yaw.
    spots: Mapping[str, Point] = field(default_factory=dict)


def draw_robot(
    draw: Draw, front_x: float, y: float, back: tuple[float, float], aside: float, turn: float
) -> Point:
    """Where the robot stands: before a front, up to `aside` beside y, turned up to `turn`."""
    return front_x - draw.uniform(*back), y + draw.within(aside), draw.within(turn)


def draw_posture(draw: Draw, name: str) -> tuple[float, ...]:
    """A start posture: a named one with each joint varied by up to 0.06 rad."""
    return tuple(q + draw.within(0.06) for q in POSTURES[name])


def draw_light(draw: Draw) -> tuple[float, float]:
    """Strength and lean of the light."""
    return draw.uniform(0.45, 0.75), draw.uniform(-0.6, 0.6)


def draw_food(draw: Draw, kinds: Sequence[str] | None = None) -> Food:
    """A piece of food: kind, size within 8 %, colour."""
    kind = FOOD[draw.choice(sorted(kinds or FOOD))]
    return Food(kind, draw.uniform(0.92, 1.08), draw.choice(kind.colours))


def place_food(name: str, food: Food, x: float, y: float, surface_m: float, yaw: float) -> Placed:
    """Food lying on a surface."""
    z = surface_m + food.half_width_m + 0.001
    return Placed(name, functools.partial(add_food, food=food), (x, y, z), yaw)


def place_slice(piece: Slice, x: float, y: float, surface_m: float, yaw: float) -> Placed:
    """A slice standing upright."""
    z = surface_m + piece.half_m[2] + 0.001
    return Placed(piece.name, functools.partial(add_slice, piece=piece), (x, y, z), yaw)


def place_grocery(draw: Draw, kind: str, x: float, y: float, surface_m: float) -> Placed:
    """A can, jar, bottle or box on a surface, within 0.25 rad of how fingers close across it."""
    build, yaw, colours = GROCERIES[kind]
    made = functools.partial(build, colour=draw.choice(colours), mass=GROCERY_KG)
    return Placed(kind, made, (x, y, surface_m + 0.001), yaw + draw.within(0.25))


def place_mug(draw: Draw, colour: str, x: float, y: float, surface_m: float) -> Placed:
    """A mug whose handle points towards the robot or away from it, out of the fingers' way."""
    yaw = draw.choice((0.0, math.pi)) + draw.within(0.6)
    made = functools.partial(add_mug, colour=MUGS[colour])
    return Placed(f"{colour} mug", made, (x, y, surface_m + 0.001), yaw)


def scatter(
    draw: Draw,
    fixture: Fixture,
    count: int,
    low: tuple[float, float],
    high: tuple[float, float],
    surface_m: float,
    keep_clear: Sequence[tuple[float, float, float]],
    without: Sequence[str] = (),
) -> list[Placed]:
    """Up to `count` clutter things on a fixture's top between two corners (fixture frame), away
    from discs (x, y, radius; world).

    `without` are kinds that stand there already: an instruction must not name two things.
    """
    taken = list(keep_clear)
    placed = []
    for kind in [k for k in draw.shuffled(sorted(CLUTTER)) if k not in without][:count]:
        build, radius, colours = CLUTTER[kind]
        made = functools.partial(build, colour=draw.choice(colours))
        for _ in range(12):
            spot = (draw.uniform(low[0], high[0]), draw.uniform(low[1], high[1]), 0.0)
            x, y, _z = fixture.pose.apply(spot)
            if all((x - a) ** 2 + (y - b) ** 2 > (radius + r + 0.02) ** 2 for a, b, r in taken):
                taken.append((x, y, radius))
                placed.append(Placed(kind, made, (x, y, surface_m + 0.001), draw.uniform(-3, 3)))
                break
    return placed
