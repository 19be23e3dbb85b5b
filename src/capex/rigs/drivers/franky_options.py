"""What a rig file may say of an arm behind franky, under `options`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from capex.errors import CapexError, ErrorCode, closest_first
from capex.rigs.drivers.franka_tip import JOINT_LIMITS_RAD

OFF = "off"
REALTIME = ("enforce", "ignore")
_OF_A_ROOM = ("arm", "cameras", "side", "port")  # the ports that a simulated room adds


@dataclass(frozen=True)
class FrankyOptions:
    """The three forces make a ladder: the guard of the rig stops at 30 N by default, 20 times a
    second; the reaction at 40 N, 1000 times a second; the control box's reflex comes last.
    """

    address: str  # of the control box
    robot: str = "fr3"  # or "panda": whose joint limits hold
    translational_stiffness: float = 800.0  # N/m
    rotational_stiffness: float = 60.0  # Nm/rad
    collision_force_n: float = 60.0  # above it the control box stops with a reflex
    collision_torque_nm: float = 40.0
    force_reaction_n: float | None = 40.0  # "off" in the file; above it the controller stops
    senses_force: bool = True  # False where the external force is not measured: a simulated arm
    grip_force_n: float = 30.0
    grip_m_s: float = 0.1
    realtime: str = "enforce"  # or "ignore": without a real-time kernel


def read_options(given: Mapping[str, Any], arm: str) -> FrankyOptions:
    """The options of an arm, checked; each mistake is a sentence."""
    known = {field.name: field for field in fields(FrankyOptions)}
    values: dict[str, Any] = {}
    for key, value in given.items():
        if key in _OF_A_ROOM:
            continue
        if key not in known:
            valid = ", ".join(closest_first(key, known))
            raise CapexError(
                f"there is no option '{key}' of the franky arm '{arm}'; valid: {valid}",
                code=ErrorCode.UNKNOWN_NAME,
            )
        values[key] = _checked(key, value, known[key].default, arm)
    if not values.get("address"):
        raise CapexError(
            f"the franky arm '{arm}' has no option 'address'; it must be that of the control box,"
            ' as in "172.16.0.2"',
            code=ErrorCode.MISSING_SETTING,
        )
    return FrankyOptions(**values)


def _checked(key: str, value: Any, default: Any, arm: str) -> Any:
    choices = {"robot": tuple(JOINT_LIMITS_RAD), "realtime": REALTIME}.get(key)
    if key == "force_reaction_n" and value == OFF:
        return None
    if choices is not None:
        right, fits = f"one of {', '.join(choices)}", value in choices
    elif isinstance(default, bool):
        right, fits = "true or false", isinstance(value, bool)
    elif isinstance(default, float):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        right, fits = "a number above 0", number and 0 < value < math.inf
        value = float(value) if fits else value
    else:
        right, fits = "an address or a name", isinstance(value, str) and bool(value)
    if not fits:
        raise CapexError(
            f"the option '{key}' of the arm '{arm}' is {value!r}; it must be {right}",
            code=ErrorCode.BAD_SETTING,
        )
    return value
