"""One kitchen: which fixtures stand where, and the compiled MuJoCo model of a situation in it."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mujoco

from capex.pose import PlanarPose
from capex.worlds.kitchen import appliances as ap
from capex.worlds.kitchen import fixtures as fx
from capex.worlds.kitchen.fixtures import Fixture
from capex.worlds.kitchen.materials import STYLES, Materials, Style
from capex.worlds.kitchen.parts import Builder, Sign
from capex.worlds.kitchen.robot import add_robot, set_physics
from capex.worlds.kitchen.situation import Fitted, Situation

WALL_X_M = fx.COUNTER_DEPTH_M


@dataclass(frozen=True)
class Unit:
    """A piece of the row: kind, width, the appliances on its top by distance from its left end."""

    kind: str
    width: float
    appliances: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class KitchenLayout:
    """The row along the wall from left to right as a robot sees it; the side of the fridge's hinge."""

    row: tuple[Unit, ...]
    fridge_hinge: str = "right"


# Every layout leaves worktop beside the stove, the sink and the toaster, where plates stand, and a
# bare metre of it beside the sink.
LAYOUTS: tuple[KitchenLayout, ...] = (
    KitchenLayout((
        Unit("fridge", 0.70), Unit("counter", 1.30, (("toaster oven", 0.32),)), Unit("stove", 0.60), Unit("counter", 1.00),
        Unit("sink", 0.80), Unit("counter", 1.90, (("toaster", 0.90), ("microwave", 1.58))),
    )),
    KitchenLayout((
        Unit("counter", 1.90, (("microwave", 0.32), ("toaster", 1.00))), Unit("sink", 0.80), Unit("counter", 1.00),
        Unit("stove", 0.60), Unit("counter", 1.30, (("toaster oven", 0.98),)), Unit("fridge", 0.70),
    ), "left"),
    KitchenLayout((
        Unit("fridge", 0.70), Unit("counter", 1.90, (("microwave", 0.32), ("toaster", 1.00))), Unit("sink", 0.80),
        Unit("counter", 1.00), Unit("stove", 0.60), Unit("counter", 1.30, (("toaster oven", 0.98),)),
    )),
    KitchenLayout((
        Unit("counter", 1.30, (("toaster oven", 0.32),)), Unit("stove", 0.60),
        Unit("counter", 1.90, (("toaster", 0.95), ("microwave", 1.58))),
        Unit("fridge", 0.70), Unit("counter", 0.80), Unit("sink", 0.80), Unit("counter", 1.00),
    )),
    KitchenLayout((
        Unit("counter", 1.00), Unit("sink", 0.80), Unit("counter", 1.90, (("toaster", 0.95), ("toaster oven", 1.60))), Unit("fridge", 0.70),
        Unit("counter", 1.60, (("microwave", 0.32),)), Unit("stove", 0.60), Unit("counter", 0.90),
    ), "left"),
    KitchenLayout((
        Unit("fridge", 0.70), Unit("counter", 0.40), Unit("counter", 1.00), Unit("sink", 0.80), Unit("counter", 1.30, (("toaster", 0.75),)),
        Unit("stove", 0.60), Unit("counter", 1.90, (("toaster oven", 0.85), ("microwave", 1.58))),
    )),
    KitchenLayout((
        Unit("counter", 1.90, (("microwave", 0.32), ("toaster oven", 1.05))), Unit("stove", 0.60),
        Unit("counter", 1.30, (("toaster", 0.55),)), Unit("sink", 0.80), Unit("counter", 1.00), Unit("counter", 0.40), Unit("fridge", 0.70),
    ), "left"),
    KitchenLayout((
        Unit("counter", 1.00), Unit("sink", 0.80), Unit("counter", 1.00), Unit("stove", 0.60),
        Unit("counter", 1.60, (("toaster oven", 1.10),)), Unit("fridge", 0.70),
        Unit("counter", 1.90, (("toaster", 0.80), ("microwave", 1.55))),
    )),
    KitchenLayout((
        Unit("counter", 1.90, (("microwave", 0.35), ("toaster", 1.10))), Unit("fridge", 0.70),
        Unit("counter", 1.60, (("toaster oven", 0.50),)), Unit("stove", 0.60), Unit("counter", 1.00), Unit("sink", 0.80),
        Unit("counter", 1.00),
    ), "left"),
    KitchenLayout((
        Unit("fridge", 0.70), Unit("counter", 1.60, (("toaster oven", 0.35), ("toaster", 1.10))), Unit("sink", 0.80),
        Unit("counter", 1.00), Unit("stove", 0.60), Unit("counter", 1.30, (("microwave", 0.98),)),
    )),
    KitchenLayout((
        Unit("counter", 1.30, (("microwave", 0.32),)), Unit("stove", 0.60), Unit("counter", 1.00), Unit("sink", 0.80),
        Unit("counter", 1.60, (("toaster", 0.50), ("toaster oven", 1.25))), Unit("fridge", 0.70),
    ), "left"),
)  # fmt: skip
WORKBENCH_M = 1.0  # two mixers, or two drawers, side by side
# From the counter's front to the appliance's frame.
APPLIANCE_FRONT_M = {"toaster oven": 0.17, "microwave": 0.15, "toaster": 0.20}


@dataclass(frozen=True)
class Kitchen:
    """A layout with its style and where every fixture is, computed without building the model."""

    layout: KitchenLayout
    style: Style
    places: Mapping[str, Fixture]
    low_y: float
    high_y: float

    def fixture(self, name: str) -> Fixture:
        """A fixture by name."""
        return self.places[name]

    @property
    def counters(self) -> list[Fixture]:
        """The worktops, from left to right."""
        return [f for name, f in self.places.items() if name.startswith("counter")]

    def counter_beside(self, fixture: Fixture, side: float) -> Fixture:
        """The worktop next to a fixture of the row, on its left (side 1) or right (-1)."""
        beside = [f for f in self.counters if (f.y - fixture.y) * side > 0]
        return min(beside, key=lambda f: abs(f.y - fixture.y))

    def counter_under(self, appliance: Fixture) -> Fixture:
        """The worktop that an appliance stands on."""
        return min(self.counters, key=lambda f: abs(f.y - appliance.y))

    @property
    def workbench(self) -> Fixture:
        """The first bare worktop of a metre or more: where small appliances are brought out."""
        wide = (f for f in self.counters if f.width >= WORKBENCH_M)
        return next(f for f in wide if not self._stands_on(f))

    def _stands_on(self, counter: Fixture) -> bool:
        appliances = (f for name, f in self.places.items() if name in APPLIANCE_FRONT_M)
        return any(abs(f.y - counter.y) < counter.width / 2 for f in appliances)

    @property
    def occupied(self) -> list[tuple[float, float, float]]:
        """Discs (x, y, radius) on the worktops where appliances stand."""
        spread = {"toaster oven": (0.16, 0.28), "microwave": (0.18, 0.32), "toaster": (0.0, 0.18)}
        standing = ((self.places[n], x, r) for n, (x, r) in spread.items() if n in self.places)
        return [(f.x + x, f.y, r) for f, x, r in standing]


def plan_kitchen(layout: int = 0, style: int = 0) -> Kitchen:
    """Lay the row out along y, left (+y) to right, the fronts at x = 0."""
    chosen = LAYOUTS[layout]
    # One by one: sum() rounds otherwise from Python 3.12 on, and physics would part.
    y = functools.reduce(operator.add, (u.width for u in chosen.row)) / 2
    high = y
    places: dict[str, Fixture] = {}
    counters = 0
    for unit in chosen.row:
        centre = y - unit.width / 2
        name = unit.kind
        if unit.kind == "counter":
            counters += 1
            name = "counter" if counters == 1 else f"counter {counters}"
        places[name] = Fixture(name, PlanarPose(0.0, centre), unit.width)
        for appliance, offset in unit.appliances:
            pose = PlanarPose(APPLIANCE_FRONT_M[appliance], y - offset)
            places[appliance] = Fixture(appliance, pose)
        y -= unit.width
    return Kitchen(chosen, STYLES[style], places, y, high)


def build(
    kitchen: Kitchen, situation: Situation, *, shadows: bool = False
) -> tuple[mujoco.MjModel, tuple[Sign, ...]]:
    """Compile a situation's kitchen, robot and objects; the signs say what is shown when."""
    spec, signs = _compose(kitchen, situation, shadows=shadows)
    return spec.compile(), signs


def to_xml(kitchen: Kitchen, situation: Situation) -> str:
    """The same as XML, in plain colours: MJCF has no place for computed textures."""
    spec, _ = _compose(kitchen, situation, textures=False)
    spec.compile()
    return str(spec.to_xml())


def _compose(
    kitchen: Kitchen, situation: Situation, *, shadows: bool = False, textures: bool = True
) -> tuple[mujoco.MjSpec, tuple[Sign, ...]]:
    spec = mujoco.MjSpec()
    spec.modelname = "kitchen"
    set_physics(spec)
    spec.stat.extent = 3.0
    spec.stat.center = (0.0, 0.0, 0.9)
    spec.visual.map.znear = 0.004
    spec.visual.map.zfar = 4.0
    spec.visual.quality.numslices = 20
    spec.visual.quality.numstacks = 12
    spec.visual.quality.numquads = 2
    strength, lean = situation.light
    spec.visual.headlight.ambient = (0.32, 0.32, 0.32)
    spec.visual.headlight.diffuse = (0.30, 0.30, 0.30)
    spec.visual.headlight.specular = (0.05, 0.05, 0.05)
    if hasattr(mujoco, "mjtLightType"):
        kind = {"type": mujoco.mjtLightType.mjLIGHT_DIRECTIONAL}
    else:
        kind = {"directional": True}
    sun = spec.worldbody.add_light(castshadow=shadows, **kind)
    sun.pos, sun.dir = (-1.0, lean, 3.0), (0.55, -0.5 * lean, -1.0)
    sun.diffuse, sun.specular = (strength,) * 3, (0.15,) * 3
    builder = Builder(spec, Materials(spec, kitchen.style, textures=textures))
    _add_fixtures(builder, kitchen, situation.fixtures)
    add_robot(spec)
    for thing in situation.things:
        body = builder.body(spec.worldbody, thing.name, thing.position_m, thing.yaw)
        body.add_freejoint(name=thing.name)
        thing.build(builder, body)
    return spec, tuple(builder.signs)


def _add_fixtures(b: Builder, kitchen: Kitchen, fitted: Sequence[Fitted]) -> None:
    fx.add_room(b, WALL_X_M, kitchen.low_y, kitchen.high_y)
    brought = {f.name: f for f in fitted}

    def put(unit: str, place: PlanarPose, build: Callable[..., object], **options: Any) -> None:
        replacement = brought.pop(unit, None)
        if replacement is not None:
            replacement.build(b, place)
        else:
            build(b, place, **options)

    for name, f in kitchen.places.items():
        if name.startswith("counter"):
            above = f"cabinet over {name}"
            put(name, f.pose, fx.add_counter, name=name, width=f.width)
            put(above, f.pose, fx.add_wall_cabinets, name=above, width=f.width)
        elif name == "fridge":
            put(name, f.pose, ap.add_fridge, hinge=kitchen.layout.fridge_hinge)
        elif name == "stove":
            put(name, f.pose, fx.add_stove, width=f.width)
            fx.add_hood(b, f.pose, f.width)
        elif name == "sink":
            put(name, f.pose, fx.add_sink, width=f.width)
        else:
            put(name, f.pose, APPLIANCES[name])
    for extra in brought.values():
        assert extra.place is not None
        extra.build(b, extra.place)


APPLIANCES = {
    "toaster oven": ap.add_toaster_oven,
    "microwave": ap.add_microwave,
    "toaster": ap.add_toaster,
}
