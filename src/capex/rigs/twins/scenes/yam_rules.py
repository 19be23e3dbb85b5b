"""The paper's rules of both YAM tasks, from the truth: what must be so at the end, and what may not
have happened on the way. The scripted operator's; a reason says which rule was broken, in the words
of files/yam/tasks.toml.

Bread and corn: the left arm's first grasp succeeds, the plate does not move, the bread comes first.
Bowl: it does not touch the table between being lifted and being set down.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import mujoco
import numpy as np

from capex.pose import Array
from capex.rigs.drivers.yam.kinematics import MAX_OPENING_M
from capex.rigs.twins.scenes import AttemptWatch
from capex.rigs.twins.scenes.common import STILL_M_S, TABLE_TOP_M, touched_by, underside_m
from capex.rigs.twins.scenes.yam_arms import fingers
from capex.rigs.twins.yam.pair import ARMS

Judgement = tuple[bool, str]
PLATE_MOVED_M = 0.01  # what an eye on an overlay of the first picture sees
CLOSING_M, OPEN_M = 0.015, 0.008  # short of the widest: a gripper that closes, one that is open
LIFTED_M = 0.02  # of an underside: off the table beyond doubt
UPRIGHT_RAD = math.radians(10.0)
SET_DOWN_M = 0.05  # a set-down may slide so far; more is a bowl that was dragged or lifted again
RIGHT_SIDE_M = -0.08  # of the bowl's middle: a rim's radius to the right of the robot's middle
BREAD_FIRST_GRASP = "the left arm brings the bread and its first grasp succeeds"
CORN_RIGHT = "the right arm brings the corn"
BREAD_BEFORE = "the bread is on the plate before the corn"
PLATE_STAYS = "the plate does not move (1 cm) at any time"
LEFT_LIFTS = "the left arm lifts it"
IN_THE_AIR = "the right arm takes it over in the air"
OFF_THE_TABLE = "the bowl does not touch the table between being lifted and being set down"
RULES: Mapping[str, tuple[str, ...]] = {
    "BreadAndCorn": (BREAD_FIRST_GRASP, CORN_RIGHT, BREAD_BEFORE, PLATE_STAYS),
    "BowlHandover": (LEFT_LIFTS, IN_THE_AIR, OFF_THE_TABLE),
}


def broken(rule: str, how: str) -> str:
    """A reason: the rule in the task's own words, then what happened."""
    return f"broken: {rule} ({how})"


def holds(model: mujoco.MjModel, data: mujoco.MjData, arm: str, thing: str) -> bool:
    """Whether both fingers of an arm touch a thing."""
    return touched_by(model, data, thing) >= set(fingers(arm))


def touching_arms(model: mujoco.MjModel, data: mujoco.MjData, thing: str) -> list[str]:
    """The arms that touch a thing with any part."""
    touched = touched_by(model, data, thing)
    return [arm for arm in ARMS if any(name.startswith(f"{arm}_") for name in touched)]


def opening_m(data: mujoco.MjData, arm: str) -> float:
    """How far a gripper is open."""
    return float(sum(data.joint(name).qpos[0] for name in fingers(arm)))


def unrested(model: mujoco.MjModel, data: mujoco.MjData, thing: str, support: str) -> str:
    """Why a thing does not rest on another, let go and still; empty where it does."""
    if arms := touching_arms(model, data, thing):
        return f"the {arms[0]} gripper still touches the {thing}"
    touched = touched_by(model, data, thing)
    if support not in touched:
        where = " and ".join(sorted(touched)) or "nothing"
        return f"the {thing} lies on {where}, not on the {support}"
    if "table" in touched and support != "table":
        return f"the {thing} lies partly on the table"
    if float(np.linalg.norm(data.joint(thing).qvel[:3])) > STILL_M_S:
        return f"the {thing} still moves"
    return ""


def bread_and_corn(model: mujoco.MjModel, data: mujoco.MjData) -> Judgement:
    """Both lie on the plate, each on its half."""
    middle_m = float(data.body("plate").xpos[1])
    for thing, half, sign in (("bread", "left", 1.0), ("corn", "right", -1.0)):
        if why := unrested(model, data, thing, "plate"):
            return False, why
        if sign * (float(data.body(thing).xpos[1]) - middle_m) <= 0.0:
            return False, f"the {thing} lies on the wrong half of the plate, not on the {half} one"
    return True, "the bread lies on the left half of the plate and the corn on the right half"


def bowl(model: mujoco.MjModel, data: mujoco.MjData) -> Judgement:
    """It stands upright on the right side of the table."""
    if why := unrested(model, data, "bowl", "table"):
        return False, why
    if math.acos(max(-1.0, min(1.0, float(data.body("bowl").xmat[8])))) > UPRIGHT_RAD:
        return False, "the bowl does not stand upright"
    y_m = float(data.body("bowl").xpos[1])
    if y_m > RIGHT_SIDE_M:
        return False, f"the bowl stands at y = {100 * y_m:.0f} cm, not on the right side"
    return True, f"the bowl stands upright on the right side, at y = {100 * y_m:.0f} cm"


END: Mapping[str, Callable[[mujoco.MjModel, mujoco.MjData], Judgement]] = {
    "BreadAndCorn": bread_and_corn,
    "BowlHandover": bowl,
}


CARRIERS = (("bread", "left", BREAD_FIRST_GRASP), ("corn", "right", CORN_RIGHT))


class BreadAndCornWatch:
    """Counts the left gripper's closings until the bread is on the plate, and watches the plate."""

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData):
        self._model, self._data = model, data
        self._plate_m = data.body("plate").xpos.copy()
        self.moved_m = 0.0  # the most that the plate was away from its place
        self._closed, self._closings = False, 0
        self._carried: dict[str, str] = {}  # thing -> the arm that lifted it
        self._order: list[str] = []  # things on the plate, first come first
        self._broken = ""

    def see(self) -> None:
        """The plate, the left gripper, who lifts what, and what comes to lie on the plate."""
        off_m = float(np.linalg.norm(self._data.body("plate").xpos - self._plate_m))
        self.moved_m = max(self.moved_m, off_m)
        if self.moved_m > PLATE_MOVED_M:
            self._break(PLATE_STAYS, f"it moved by {100 * self.moved_m:.1f} cm")
        self._count_closings()
        for thing, arm, rule in CARRIERS:
            self._follow(thing, arm, rule)

    def _count_closings(self) -> None:
        short_m = MAX_OPENING_M - opening_m(self._data, "left")
        if short_m < OPEN_M:
            self._closed = False
        elif short_m > CLOSING_M and not self._closed:
            self._closed = True
            self._closings += 1
            if self._closings > 1 and "bread" not in self._order:
                self._break(BREAD_FIRST_GRASP, "it closed again before the bread was there")

    def _follow(self, thing: str, arm: str, rule: str) -> None:
        if thing in self._order:
            return
        height_m = underside_m(self._model, self._data, thing) - TABLE_TOP_M
        if height_m > LIFTED_M:
            for other in ARMS:
                if holds(self._model, self._data, other, thing):
                    self._carried[thing] = other
        if self._carried.get(thing, arm) != arm:
            self._break(rule, f"the {self._carried[thing]} arm carried it")
        if not unrested(self._model, self._data, thing, "plate"):
            self._order.append(thing)
            if self._order == ["corn"]:
                self._break(BREAD_BEFORE, "the corn came first")

    def _break(self, rule: str, how: str) -> None:
        self._broken = self._broken or broken(rule, how)

    def judge(self) -> Judgement:
        """Broken rules first."""
        if self._broken:
            return False, self._broken
        achieved, why = bread_and_corn(self._model, self._data)
        if achieved:
            for thing, arm, rule in CARRIERS:
                if thing not in self._carried:
                    return False, broken(rule, f"the {arm} arm did not lift the {thing}")
            why += f"; the plate moved by at most {1000 * self.moved_m:.1f} mm"
        return achieved, why


class BowlWatch:
    """Follows the bowl: on the table, lifted by the left arm, held by the right one alone, set
    down.
    """

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData):
        self._model, self._data = model, data
        self._lifted = self._handed = False
        self._down_m: Array | None = None  # where it first touched the table after the handover
        self._broken = ""

    def see(self) -> None:
        """Whether it touches the table, and who holds it."""
        touched = touched_by(self._model, self._data, "bowl")
        if "table" in touched:
            if self._lifted and not self._handed:
                self._break(OFF_THE_TABLE, "it did before the handover")
            if self._handed and self._down_m is None:
                self._down_m = self._data.body("bowl").xpos.copy()
            return
        if underside_m(self._model, self._data, "bowl") - TABLE_TOP_M < LIFTED_M:
            return
        if self._down_m is not None:
            self._break(OFF_THE_TABLE, "it was lifted again after it had touched the table")
        left, right = (touched >= set(fingers(arm)) for arm in ARMS)
        if not self._lifted:
            self._lifted = left or right
            if right and not left:
                self._break(LEFT_LIFTS, "the right arm did")
        elif right and not any(name.startswith("left_") for name in touched):
            self._handed = True

    def _break(self, rule: str, how: str) -> None:
        self._broken = self._broken or broken(rule, how)

    def judge(self) -> Judgement:
        """Broken rules first."""
        if self._broken:
            return False, self._broken
        achieved, why = bowl(self._model, self._data)
        if achieved and not self._handed:
            return False, broken(IN_THE_AIR, "it was not handed over")
        if achieved and self._down_m is not None:
            on_m = float(np.linalg.norm(self._data.body("bowl").xpos - self._down_m))
            if on_m > SET_DOWN_M:
                far = f"it touched the table {100 * on_m:.0f} cm from where it stands"
                return False, broken(OFF_THE_TABLE, far)
        return achieved, why


def watch(model: mujoco.MjModel, data: mujoco.MjData, task: str) -> AttemptWatch:
    """A new attempt at a task begins with the objects as they are."""
    kind = BreadAndCornWatch if task == "BreadAndCorn" else BowlWatch
    return kind(model, data)
