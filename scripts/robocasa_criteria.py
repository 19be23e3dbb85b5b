"""Compare RoboCasa's verdict with the kitchen world's, on the same states.

    python scripts/robocasa_criteria.py TASK[,TASK..] [--start fresh:0]

The expert (a stand-in) does the task in RoboCasa's own kitchen. After every control step RoboCasa's
`_check_success` is asked, and the rule of the kitchen world's task of the same name
(capex.worlds.kitchen.tasks.task) is applied to the same state, with joints, things and places
read from RoboCasa's simulation. The microwave's button is left out: ours must be pressed in by a
distance, RoboCasa's is touched.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from capex import worlds
from capex.campaign.names import parse_starts
from capex.method.executor import Executor, Tick
from capex.plan import PLAN_MAX
from capex.worlds.kitchen.tasks import criteria
from capex.worlds.robocasa.expert import plan
from capex.worlds.robocasa.privileged import Kitchen

DECISIONS = 20


class Measured:
    """What the kitchen world's rules read, from RoboCasa's simulation."""

    def __init__(self, kitchen: Kitchen, roles: dict[str, str]):
        self._k, self._roles = kitchen, roles

    def role(self, role: str) -> str:
        """The joint or body that plays a role."""
        return self._roles[role]

    def joint(self, joint: str) -> float:
        """How far a part is opened."""
        return self._k.part(joint).opening

    def joint_fraction(self, joint: str) -> float:
        """The same as a fraction of its range."""
        part = self._k.part(joint)
        return part.opening / part.limit

    def position(self, body: str) -> Any:
        """Where a body is."""
        return self._k.body(body).position_m

    def point(self, site: str) -> Any:
        """Where the jug's lid belongs, or the mug."""
        casa = self._k.casa
        if site == "jug rim":
            return self._k.point(casa.blender.get_lid_closed_pos(casa))
        return self._k.site(f"{casa.coffee_machine.naming_prefix}receptacle_place_site")

    def spot(self, role: str) -> Any:
        """The goal of a drive."""
        x, y, _ = self._k.casa.target_pos
        return np.array([x, y, self._k.casa.target_ori[2]])

    @property
    def base(self) -> tuple[float, float, float]:
        """Where the base stands."""
        return self._k.base

    def tilt(self, body: str) -> float:
        """Angle between a body's own vertical and the world's."""
        return math.acos(float(np.clip(self._k.body(body).rotation[2, 2], -1.0, 1.0)))

    def tip_distance(self, body: str) -> float:
        """From the tip to a body."""
        return float(np.linalg.norm(self._k.tip - self.position(body)))

    def distance_xy(self, a: str, b: str) -> float:
        """Horizontally, between bodies."""
        return float(np.hypot(*(self.position(a) - self.position(b))[:2]))

    def touched_by(self, body: str) -> set[str]:
        """What touches a body; counters are named as the kitchen world names them."""
        sim = self._k.casa.sim
        model, data = sim.model._model, sim.data._data
        names = [model.body(int(model.body_rootid[b])).name for b in range(model.nbody)]
        counters = {
            f.root_body for f in self._k.casa.fixtures.values() if type(f).__name__ == "Counter"
        }
        pairs = model.geom_bodyid[data.contact.geom]
        touching = set()
        for a, b in pairs.tolist():
            for one, other in ((a, b), (b, a)):
                if model.body(one).name == body:
                    root = model.body(other).name
                    top = names[other]
                    is_counter = root in counters or top in counters
                    touching.add("counter" if is_counter else root)
        return touching

    def touching(self, a: str, b: str) -> bool:
        """Whether two bodies touch."""
        return b in self.touched_by(a)


def rule_of(k: Kitchen) -> tuple[Callable[[Any], bool], dict[str, str]]:
    """The kitchen world's rule of a task, and what plays its roles in RoboCasa's kitchen."""
    casa, task = k.casa, k.env.spec.task
    if task in ("PickPlaceCounterToStove", "PickPlaceSinkToCounter", "PickPlaceToasterToCounter"):
        name = "plate" if "Toaster" in task else "container"
        roles = {"object": k.thing("obj"), "container": k.thing(name)}
        radius = 0.7 * float(casa.objects[name].horizontal_radius)
        near = criteria.IN_PAN_M if task.endswith("Stove") else radius
        placed = functools.partial(criteria.placed, within_m=near)
        if task != "PickPlaceSinkToCounter":
            return placed, roles
        plate = roles["container"]
        return lambda t: placed(t) and "counter" in t.touched_by(plate), roles
    simple: dict[str, tuple[Callable[[Any], bool], Callable[[], str]]] = {
        "CloseFridge": (criteria.closed, lambda: _most_open(k, casa.fxtr)),
        "CloseToasterOvenDoor": (criteria.closed, lambda: _most_open(k, casa.toaster_oven)),
        "OpenCabinet": (criteria.opened, lambda: _most_open(k, casa.fxtr)),
        "OpenDrawer": (criteria.slid_out, lambda: _most_open(k, casa.drawer)),
        "TurnOnElectricKettle": (
            criteria.switched,
            lambda: casa.electric_kettle._joint_names["switch"],
        ),
        "OpenStandMixerHead": (criteria.lifted, lambda: casa.stand_mixer._joint_names["head"]),
        "TurnOffStove": (
            criteria.turned_off,
            lambda: f"{casa.stove.naming_prefix}knob_{casa.knob}_joint",
        ),
        "TurnOnSinkFaucet": (criteria.water_runs, lambda: f"{casa.sink.naming_prefix}handle_joint"),
    }
    if task in simple:
        rule, part = simple[task]
        return rule, {"part": part()}
    if task == "SlideDishwasherRack":
        way = "out" if casa.should_pull else "in"
        return criteria.slid, {"part": casa.dishwasher._joint_names["rack"], "way": way}
    if task == "CloseBlenderLid":
        return criteria.covered, {"object": f"{casa.blender.blender_lid.name}_main"}
    if task == "CoffeeSetupMug":
        return criteria.under_dispenser, {"object": k.thing("obj")}
    if task == "PickPlaceDrawerToCounter":
        return criteria.on_counter, {"object": k.thing("obj")}
    if task == "NavigateKitchen":
        return criteria.arrived, {}
    raise SystemExit(f"{task} is not compared")


def _most_open(k: Kitchen, fixture: Any) -> str:
    return str(max(fixture.door_joint_names, key=lambda joint: k.part(joint).opening))


def compare(task: str, start: int) -> tuple[bool, int, int, int]:
    """One episode of the expert: whether it succeeded, its steps, the states in which either
    verdict was yes, and those in which they differed.
    """
    env: Any = worlds.make(f"robocasa:{task}")
    env.reset(worlds.Start(task, start))
    kitchen = Kitchen(env)
    try:
        rule, roles = rule_of(kitchen)
    except SystemExit:
        rule, roles = lambda truth: env.success(), {}
    truth, seen = Measured(kitchen, roles), [0, 0]

    def look(tick: Tick) -> None:
        theirs, ours = bool(env.success()), bool(rule(truth))
        seen[0] += theirs or ours
        seen[1] += theirs != ours

    executor = Executor(env, subscribers=[look])
    for decision in range(DECISIONS):
        if env.success() or executor.steps_left <= 0 or not (steps := plan(env, decision)):
            break
        done = [o for o in executor.execute(steps[:PLAN_MAX]) if o.status != "not executed"]
        print(f"  {decision}: {len(done)} of {len(steps)}, {done[-1].report}", flush=True)
    result = bool(env.success()), env.spec.horizon - executor.steps_left, seen[0], seen[1]
    env.close()
    return result


if __name__ == "__main__":
    options = sys.argv[1:]
    index = options[options.index("--start") + 1] if "--start" in options else "fresh:0"
    for name in options[0].split(","):
        good, steps, yes, differ = compare(name, parse_starts(index)[0])
        verdict = "success" if good else "no success"
        print(f"{name}: {verdict} after {steps} steps; yes in {yes} states, {differ} differ")
