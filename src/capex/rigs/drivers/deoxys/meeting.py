"""Whether what answers at the other end of the wire is a Panda with its hand behind Deoxys, before
anything moves.
"""

from __future__ import annotations

import math

import numpy as np

from capex.errors import RigFault
from capex.pose import Pose, angle_between
from capex.rigs.drivers.deoxys.exchange import Exchange
from capex.rigs.drivers.deoxys.messages import PandaState
from capex.rigs.drivers.franka_tip import HAND, HOMED_M, pose_of
from capex.worlds.kitchen import robot as panda

NO_TURN = Pose(np.zeros(3), np.eye(3))
NEAR_M, NEAR_RAD = 0.02, 0.1  # what an arm measures and its nominal chain agree within that


def require_met(exchange: Exchange, name: str) -> None:
    """A sentence for whatever is missing or is not a Panda's."""
    options, robot, hand = exchange.options, exchange.robot, exchange.hand
    for line, state, program in (
        (exchange.arm, robot, "franka-interface"),
        (exchange.gripper, hand, "gripper-interface"),
    ):
        if state is None:
            raise RigFault(
                f"the arm '{name}': nobody answers at {line.states_at}; is {program} running on"
                f" {options.host}, and are host and ports right?"
            )
        if not line.listeners:
            raise RigFault(
                f"the arm '{name}': nobody listens to our commands at {line.commands_at}; PC.IP in"
                f" the configuration of {program} must be this computer ({options.bind}), and its"
                " ports the same"
            )
    assert robot is not None
    assert hand is not None
    if wrong := robot.complaint or _not_a_panda(robot):
        raise RigFault(
            f"the arm '{name}': what comes from {exchange.arm.states_at} is no state of a Panda"
            f" behind Deoxys: {wrong}; another program, version or firmware is there"
        )
    if not HOMED_M[0] < hand.max_width_m < HOMED_M[1]:  # also false for NaN
        raise RigFault(
            f"the arm '{name}': its hand opens to {hand.max_width_m:g} m: it has not been homed;"
            " wait until it is, or start gripper-interface anew"
        )
    ee = _flange_to_ee(robot)
    if options.ee_to_tip is None and not _near(ee, HAND):
        raise RigFault(
            f"the arm '{name}': the desk's end effector stands at"
            f" {np.round(ee.position_m, 3).tolist()} m of the flange, which is not Franka's hand;"
            " choose the hand there, or give the tip's pose from it by the option ee_to_tip"
        )


def _not_a_panda(robot: PandaState) -> str:
    """Joints and end effector must put the flange at one place."""
    if not robot.finite:
        return "it has numbers that are not finite"
    T, _, _ = panda.forward(np.array([robot.q]))
    nominal = Pose(T[0, :3, 3], T[0, :3, :3]) @ (HAND.inverse() @ NO_TURN)
    measured = robot.ee_pose @ (_flange_to_ee(robot).inverse() @ NO_TURN)
    if _near(nominal, measured):
        return ""
    off_m = math.dist(nominal.position_m, measured.position_m)
    return f"its joints and O_T_EE disagree by {100 * off_m:.0f} cm about the flange"


def _flange_to_ee(robot: PandaState) -> Pose:
    return pose_of(robot.F_T_EE) if len(robot.F_T_EE) == 16 else HAND


def _near(one: Pose, other: Pose) -> bool:
    return (
        math.dist(one.position_m, other.position_m) < NEAR_M
        and angle_between(one.rotation, other.rotation) < NEAR_RAD
    )
