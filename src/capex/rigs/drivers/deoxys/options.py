"""The options of an arm behind Deoxys, from the rig file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from capex.loopback import HOST
from capex.pose import Pose
from capex.rigs.drivers.deoxys.messages import Gains
from capex.rigs.tables import TomlTable

GRASP_N = 30.0  # what Deoxys' own client asks for
FINGERS_M_S = 0.1  # top speed of Franka's hand
ANSWER_S = 3.0
RELAUNCH_S = 6.0  # its script sleeps for 1 s, then it connects and clears the robot's error
REFLEX_RELAUNCH_S = 2.5  # what that takes while nobody keeps it from starting
ROOMS = ("port", "cameras", "side")  # a simulated room adds its ports to every arm's options


@dataclass(frozen=True)
class Options:
    """Ports are Deoxys' own by default: NUC.PUB_PORT and so on in its configuration. `ee_to_tip` is
    None where the end effector that the desk knows must be Franka's hand, whose frame is our tip.
    """

    host: str  # the robot's computer
    bind: str  # this computer, on the network of that one
    arm: int
    gripper: int
    arm_commands: int
    gripper_commands: int
    gains: Gains
    grasp_n: float
    fingers_m_s: float
    answer_s: float  # how long both programs are waited for
    relaunch_s: float  # and a franka-interface that has ended
    reflex_relaunch_s: float  # one that comes back later may have been kept away by a person's stop
    ee_to_tip: Pose | None
    side: int | None  # of a simulated room


def read_options(values: Mapping[str, Any], name: str) -> Options:
    """Check the options of an arm; each mistake is one sentence."""
    table = TomlTable(Path("rig file"), f"arms '{name}'", values)
    for key in ROOMS:
        table.given(key)
    bind = table.text("bind", HOST)
    if bind in ("*", "0.0.0.0", ""):
        raise table.wrong("bind", "this computer's address on the robot's network, not all of them")
    plain = Gains()
    options = Options(
        host=table.text("host", HOST),
        bind=bind,
        arm=table.whole("arm", 5556),
        gripper=table.whole("gripper", 5558),
        arm_commands=table.whole("arm_commands", 5555),
        gripper_commands=table.whole("gripper_commands", 5557),
        gains=Gains(
            _three(table, "translation_stiffness", plain.translation, most=1000.0),
            _three(table, "rotation_stiffness", plain.rotation, most=1000.0),
            _seven(table, "residual_mass", plain.residual_mass),
            table.number("time_fraction", plain.time_fraction, most=1.0),
        ),
        grasp_n=table.number("grasp_n", GRASP_N, most=70.0),
        fingers_m_s=table.number("fingers_m_s", FINGERS_M_S, most=FINGERS_M_S),
        answer_s=table.number("answer_s", ANSWER_S),
        relaunch_s=table.number("relaunch_s", RELAUNCH_S),
        reflex_relaunch_s=table.number("reflex_relaunch_s", REFLEX_RELAUNCH_S),
        ee_to_tip=table.pose("ee_to_tip", turned=False) if table.given("ee_to_tip") else None,
        side=int(values["side"]) if "side" in values else None,
    )
    table.end()
    return options


def _three(
    table: TomlTable, key: str, default: tuple[float, float, float], *, most: float
) -> tuple[float, float, float]:
    """Above 0 and at most `most`, for each axis."""
    if not table.given(key):
        return default
    x, y, z = table.corner(key)
    if not all(0.0 < value <= most for value in (x, y, z)):
        raise table.wrong(key, f"three numbers above 0 and at most {most:g}")
    return x, y, z


def _seven(table: TomlTable, key: str, default: tuple[float, ...]) -> tuple[float, ...]:
    if not table.given(key):
        return default
    values = table.vector(key, 7)
    if np.any(values < 0.0):
        raise table.wrong(key, "seven numbers of at least 0, one a joint")
    return tuple(values.tolist())
