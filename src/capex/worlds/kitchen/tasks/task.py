"""A task of the kitchen."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from capex.pose import PlanarPose
from capex.registry import load
from capex.worlds import TaskInfo
from capex.worlds.kitchen.fixtures import COUNTER_HEIGHT_M, Fixture
from capex.worlds.kitchen.furniture import add_cupboards, add_drawers, add_ledge
from capex.worlds.kitchen.ground_truth import GroundTruth
from capex.worlds.kitchen.materials import Colour
from capex.worlds.kitchen.scene import Kitchen
from capex.worlds.kitchen.situation import Draw, Fitted, Placed, Situation, scatter

if TYPE_CHECKING:
    from capex.worlds.kitchen.env import KitchenEnv
    from capex.worlds.kitchen.expert.moves import Skill


@dataclass(frozen=True)
class Task:
    """One task: the row that `capex tasks` prints, what a start draws, a success rule read after
    every control step, for a momentary event such as a button's press a latch, and the expert's
    skill.
    """

    info: TaskInfo
    compose: Callable[[Draw, Kitchen], Situation]
    success: Callable[[GroundTruth], bool]
    latch: Callable[[GroundTruth], bool] | None = None
    skill: Skill | None = None


def expert_skill(name: str, **options: Any) -> Skill:
    """A skill of `worlds.kitchen.expert` by "module:function", imported when it first plans."""
    return functools.partial(_plan, name, **options)


def _plan(name: str, env: KitchenEnv, decision: int, **options: Any) -> Any:
    return load(f"capex.worlds.kitchen.expert.{name}")(env, decision, **options)


def clutter(
    draw: Draw,
    kitchen: Kitchen,
    counter: Fixture,
    count: int,
    towards: float,
    clear: Sequence[tuple[float, float, float]] = (),
    without: Sequence[str] = (),
) -> tuple[Placed, ...]:
    """Distractors at the back of the last 0.8 m of a worktop on one side, clear of the rest."""
    end = counter.width / 2 - 0.08
    inner = max(-end, end - 0.8)
    low, high = (inner, end) if towards > 0 else (-end, -inner)
    taken, corners = [*clear, *kitchen.occupied], ((0.40, low), (0.52, high))
    return tuple(scatter(draw, counter, count, *corners, COUNTER_HEIGHT_M, taken, without))


def pair(
    draw: Draw,
    bench: Fixture,
    kind: str,
    colours: Mapping[str, Colour],
    build: Callable[..., None],
    front: tuple[float, float],
    apart: tuple[float, float],
    turned: float,
) -> tuple[tuple[Fitted, ...], str, float]:
    """Two machines of a kind side by side on a worktop, in two colours, the one that the task names
    first; that one's colour and y.

    `front` is how far behind the worktop's front they stand, `apart` how far from its middle,
    `turned` how far they may be turned.
    """
    side = draw.side()
    chosen = draw.shuffled(sorted(colours))[:2]
    places, machines = [], []
    for colour, where in zip(chosen, (side, -side), strict=True):
        x, y = bench.x + draw.uniform(*front), bench.y + where * draw.uniform(*apart)
        places.append(PlanarPose(x, y, draw.within(turned)))
        name = f"{colour} {kind}"
        made = functools.partial(build, name=name, colour=colours[colour])
        machines.append(Fitted(name, made, places[-1]))
    return tuple(machines), chosen[0], places[0].y


def around(
    machines: Sequence[Fitted], behind_m: float, radius_m: float
) -> list[tuple[float, float, float]]:
    """Discs (x, y, radius) that machines take up on a worktop, so far behind their frames."""
    places = [m.place for m in machines if m.place is not None]
    return [(*p.apply((behind_m, 0.0, 0.0))[:2], radius_m) for p in places]


def cupboards(counter: Fixture) -> Fitted:
    """Cupboards with doors that swing, in place of the cabinets over a counter."""
    name = f"cabinet over {counter.name}"
    return Fitted(name, functools.partial(add_cupboards, name=name, width=counter.width))


def ledge(counter: Fixture, front: float, depth: float) -> Fitted:
    """A ledge along a counter, its front at a place in the world."""
    build = functools.partial(add_ledge, width=counter.width - 0.04, depth=depth)
    return Fitted("ledge", build, PlanarPose(front, counter.y))


def drawer_counter(counter: Fixture) -> Fitted:
    """A counter with two drawers that slide, in place of one where they are only drawn."""
    name = counter.name
    return Fitted(name, functools.partial(add_drawers, name=name, width=counter.width))
