"""Misbehaviour on command: what goes wrong in the room, from when, for how long."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from capex.errors import CapexError, ErrorCode, UnknownName

FOREVER = math.inf
ROUNDING_S = 1e-9  # of sums: how long a fault lasts must not depend on what the clock says
# kind -> how long it lasts unless told, seconds of the room's clock; forever: until a person mends
# it (`RoomHand.mend`, and whenever the scene is arranged)
KINDS: Mapping[str, float] = {
    "late-states": 0.5,  # states are held back, then come all at once with their old times
    "nan-state": 0.1,  # pose, joints and forces are not a number
    "reflex": 0.0,  # the arm stops as after a collision, until it is told to recover
    "dropped-connection": 0.0,  # the arm's connections are closed; new ones refused while it lasts
    "e-stop": FOREVER,  # someone presses it
    "frozen-frames": 1.0,  # cameras repeat their last picture, number and time
    "camera-unplugged": FOREVER,
}
# wire -> what else may go wrong behind it
KINDS_OF_WIRE: Mapping[str, Mapping[str, float]] = {
    "deoxys": {
        "relaunch": 0.05,  # franka-interface is gone for so long and a second more
        "stale": 1.0,  # it repeats its last state, as it does while no controller runs
        "no-gripper": 2.0,  # gripper-interface is gone; the new one homes the hand
    },
    "portal": {
        "server-gone": 2.0,  # an arm's program ends: its motors damp; the new one lets it float
        "frozen-arm": FOREVER,  # the program hangs: its states repeat, its motors hear nothing
        "gripper-jammed": FOREVER,  # the fingers stay where they are
    },
}
_ALL = {**KINDS, **{k: s for kinds in KINDS_OF_WIRE.values() for k, s in kinds.items()}}


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong. It begins at a time of the room's clock, or at a tick: with the
    n-th goal that the arm is given after the scene was arranged. Neither: at once.
    """

    kind: str
    at_s: float | None = None
    at_tick: int | None = None
    duration_s: float | None = None  # None: as `KINDS` has it
    camera: str = ""  # of the two that are about cameras; empty: all
    arm: str = ""  # where there are several; empty: all

    @property
    def end_s(self) -> float:
        """When it is over; forever before it has begun."""
        lasts = _ALL[self.kind] if self.duration_s is None else self.duration_s
        return FOREVER if self.at_s is None else self.at_s + lasts


def require_fault(values: Mapping[str, Any], wire: str | None = None) -> Fault:
    """A fault from a table of a rig file or a message, or a sentence why not; None is any wire."""
    given = dict(values)
    kind = given.pop("kind", "")
    known = _ALL if wire is None else {**KINDS, **KINDS_OF_WIRE.get(wire, {})}
    if kind not in known:
        where = f" behind the wire '{wire}'" if kind in _ALL else ""
        raise UnknownName("fault", str(kind), known, where=where)
    try:
        return Fault(kind, **given)
    except TypeError:
        valid = "kind, at_s, at_tick, duration_s, camera, arm"
        raise CapexError(
            f"the fault '{kind}' has {', '.join(given)}; it may have {valid}",
            code=ErrorCode.BAD_SETTING,
        ) from None


class Faults:
    """Those that wait, those that are on. Time and ticks are given, never looked up."""

    def __init__(self) -> None:
        self._waiting: list[Fault] = []
        self._on: list[Fault] = []

    def add(self, fault: Fault) -> None:
        """Let it happen when its time comes."""
        self._waiting.append(fault)

    def update(self, now_s: float, ticks: int) -> list[Fault]:
        """Forget what is over and return what has just begun."""
        if not self._waiting and not self._on:
            return []
        self._on = [fault for fault in self._on if now_s < fault.end_s - ROUNDING_S]
        begun = [fault for fault in self._waiting if _due(fault, now_s, ticks)]
        self._waiting = [fault for fault in self._waiting if fault not in begun]
        begun = [replace(fault, at_s=now_s) for fault in begun]
        self._on += begun
        return begun

    def on(self, kind: str, camera: str = "", arm: str = "") -> bool:
        """Whether such a fault is on, for this camera or this arm."""
        return any(
            f.kind == kind and f.camera in ("", camera) and f.arm in ("", arm) for f in self._on
        )

    def mend(self) -> None:
        """End what lasts until a person comes."""
        self._on = [fault for fault in self._on if fault.end_s < FOREVER]


def _due(fault: Fault, now_s: float, ticks: int) -> bool:
    if fault.at_tick is not None:
        return ticks >= fault.at_tick
    return fault.at_s is None or now_s >= fault.at_s
