"""The rules of `check` about motion: arm steps, holding, grippers, and the mobile base."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from capex.errors import BadCommand
from capex.pose import Array, PlanarPose, angle_between, rotation_vector
from capex.worlds import ArmCommand, ArmSpec
from capex.worlds.contract.trial import BrokenRuleError, NotClaimedError, Trial, cm, require

AXES = ("x", "y", "z")
HOLD_M = 0.01
DRIVE_TIP_M = 0.02
DRIVE_M = 0.2
BACK_OFF_M = 0.4  # a robot starts in front of its work: it backs off before it turns
DRIVE_SPEED_M_S = 0.25  # the executor's speeds, where the base can do them
DRIVE_YAW_RATE_RAD_S = 0.6


def commands_do_what_they_say(t: Trial) -> str:
    """Each arm, while the others hold: steps go along their axes, turns about theirs, grippers
    close and open, holding holds.
    """
    for arm in t.spec.arms:
        t.begin()
        t.hold(0.25)
        others = {a.name: t.tip(a.name).position_m for a in t.spec.arms if a.name != arm.name}
        for axis in range(3):
            towards = t.room(arm.name, axis)
            _require_step(t, arm, axis, towards)
            _require_step(t, arm, axis, -towards)
        _require_turn(t, arm, 1.0)
        _require_turn(t, arm, -1.0)
        _require_gripper(t, arm)
        resting = t.tip(arm.name).position_m
        t.hold(1.0)
        drift = _distance(t.tip(arm.name).position_m, resting)
        require(
            drift <= HOLD_M,
            f"{arm.name}: the tip moved {cm(drift)} in a second of holding; at most {cm(HOLD_M)}",
        )
        for name, position in others.items():
            drift = _distance(t.tip(name).position_m, position)
            require(
                drift <= HOLD_M,
                f"{name}: the tip moved {cm(drift)} while it held and {arm.name} moved",
            )
    return "steps, turns, grippers and holding do what they say, for each arm"


def _until(
    t: Trial, arm: ArmSpec, of_arm: Callable[[], ArmCommand], done: Callable[[], bool]
) -> None:
    """Repeat a command for at most a second: worlds differ in how far one step carries the tip."""
    for _ in range(t.seconds(1.0)):
        if done():
            break
        t.env.step(t.command(arm.name, of_arm()))
    t.hold(0.25)


def _require_step(t: Trial, arm: ArmSpec, axis: int, sign: float) -> None:
    begun = t.tip(arm.name)
    step = [0.0, 0.0, 0.0]
    step[axis] = sign * min(arm.max_step_m, 0.02)
    command = ArmCommand(step_m=(step[0], step[1], step[2]))
    _until(
        t,
        arm,
        lambda: command,
        lambda: _distance(t.tip(arm.name).position_m, begun.position_m) >= 0.04,
    )
    moved, turned = (
        t.tip(arm.name).position_m - begun.position_m,
        angle_between(t.tip(arm.name).rotation, begun.rotation),
    )
    what = f"{arm.name}: steps along {'+' if sign > 0 else '-'}{AXES[axis]}"
    require(
        _size(moved) >= 0.02,
        f"{what} moved the tip by only {cm(_size(moved))} in a second{_touching(t)}",
    )
    along = sign * float(moved[axis]) / _size(moved)
    require(
        along > 0.9,
        f"{what} moved the tip by {_cm(moved)}; the cosine with that axis is {along:.2f}, it must"
        " exceed 0.9",
    )
    require(
        turned < 0.2, f"{what} turned the hand by {turned:.2f} rad; it must keep its orientation"
    )


def _require_turn(t: Trial, arm: ArmSpec, sign: float) -> None:
    begun = t.tip(arm.name)

    # With the position servoed, as the executor does: steps may be relative to the tip.
    def command() -> ArmCommand:
        return ArmCommand(
            step_m=t.step_to(arm, begun.position_m),
            step_rad=(0.0, 0.0, sign * min(arm.max_step_rad, 0.1)),
        )

    _until(t, arm, command, lambda: angle_between(t.tip(arm.name).rotation, begun.rotation) >= 0.2)
    turned, moved = (
        rotation_vector(t.tip(arm.name).rotation @ begun.rotation.T),
        t.tip(arm.name).position_m - begun.position_m,
    )
    what = f"{arm.name}: turns about {'+' if sign > 0 else '-'}z"
    require(
        _size(turned) >= 0.1, f"{what} turned the hand by only {_size(turned):.2f} rad in a second"
    )
    along = sign * float(turned[2]) / _size(turned)
    require(
        along > 0.9,
        f"{what} turned it about {np.round(turned / _size(turned), 2).tolist()} (base frame)",
    )
    require(_size(moved) < 0.03, f"{what} moved the tip by {_cm(moved)}; it must stay within 3 cm")


def _require_gripper(t: Trial, arm: ArmSpec) -> None:
    def opening() -> float:
        return t.env.robot_state().arms[arm.name].opening_m

    t.grip(arm.name, -1.0)
    wide, largest = opening(), arm.max_opening_m
    require(
        abs(wide - largest) <= 0.01,
        f"{arm.name}: open is {cm(wide)}, the spec's largest is {cm(largest)}",
    )
    t.grip(arm.name, 1.0)
    narrow = opening()
    require(
        wide - narrow > 0.2 * largest,
        f"{arm.name}: gripper +1 took the opening from {cm(wide)} to {cm(narrow)}",
    )
    t.hold(0.5)
    kept = opening()
    require(
        abs(kept - narrow) <= 0.005,
        f"{arm.name}: gripper 0 took the opening from {cm(narrow)} to {cm(kept)}",
    )
    t.grip(arm.name, -1.0)
    again = opening()
    require(
        again - kept > 0.2 * largest,
        f"{arm.name}: gripper -1 took the opening from {cm(kept)} to {cm(again)}",
    )


def base_drives_as_commanded(t: Trial) -> str:
    """Forward follows the heading, left its left, positive yaw turns left, also a quarter turn
    later; the tips ride along.
    """
    if t.spec.base is None:
        try:
            t.env.step(dataclasses.replace(t.command(), base_velocity=(0.0, 0.0, 0.0)))
        except BadCommand:
            raise NotClaimedError(
                "the robot has no mobile base; a base velocity is refused"
            ) from None
        raise BrokenRuleError(
            "a base velocity was accepted but the spec has no base; it must raise BadCommand"
        )
    t.begin()
    t.hold(0.25)
    _drive(t, (-1.0, 0.0), BACK_OFF_M)
    for heading, angle_rad in (
        ("at the first heading", math.pi / 2),
        ("after a quarter turn", -math.pi / 4),
    ):
        for direction in ((1.0, 0.0), (0.0, 1.0), (0.0, -1.0), (-1.0, 0.0)):
            _drive(t, direction, DRIVE_M, heading)
        _turn(t, angle_rad, heading)
    for arm in t.spec.arms:
        _require_step(t, arm, 0, t.room(arm.name, 0))
    return (
        "the base drives forward, left and turns left, also after a quarter turn, and the tips ride"
        " along"
    )


def _drive(t: Trial, direction: tuple[float, float], distance_m: float, heading: str = "") -> None:
    assert t.spec.base is not None
    speed = min(t.spec.base.max_speed_m_s, DRIVE_SPEED_M_S)
    before = _base(t)
    _ride(t, (direction[0] * speed, direction[1] * speed, 0.0), distance_m / speed)
    *moved_m, turned = before.inverse() @ _base(t)
    moved = np.array(moved_m)
    what = f"driving {cm(distance_m)} along {direction} {heading}".rstrip()
    along = float(moved @ direction)
    right = 0.5 <= along / distance_m <= 1.5 and along > 0.9 * _size(moved)
    require(right, f"{what} moved the base by {_cm(moved)} (forward, left){_touching(t)}")
    require(abs(turned) < 0.2, f"{what} turned the base by {turned:.2f} rad")


def _turn(t: Trial, angle_rad: float, heading: str) -> None:
    assert t.spec.base is not None
    rate = math.copysign(min(t.spec.base.max_yaw_rate_rad_s, DRIVE_YAW_RATE_RAD_S), angle_rad)
    before = _base(t)
    _ride(t, (0.0, 0.0, rate), angle_rad / rate)
    turned = (before.inverse() @ _base(t)).yaw
    require(
        0.5 <= turned / angle_rad <= 1.5,
        f"a turn of {angle_rad:.2f} rad {heading} was {turned:.2f} rad (left is positive)",
    )


def _ride(t: Trial, velocity: tuple[float, float, float], duration_s: float) -> None:
    """Drive while the arms hold, then stand; the tips must stay where they are in the base frame,
    unless something pushes them.
    """
    tips = {arm.name: t.tip(arm.name).position_m for arm in t.spec.arms}
    drive = [dataclasses.replace(t.command(), base_velocity=velocity)] * t.seconds(duration_s)
    for command in [*drive, *[t.command()] * t.seconds(0.5)]:
        t.env.step(command)
        robot = t.env.robot_state()
        if _touching(t):
            tips = {}
        for name, position in tips.items():
            drift = _distance(robot.arms[name].T_base_tip.position_m, position)
            require(
                drift <= DRIVE_TIP_M,
                f"{name}: while driving the tip moved {cm(drift)} in the base frame",
            )


def _touching(t: Trial) -> str:
    """What the robot touches, as the end of a sentence: a start may leave no room for a test, which
    is no fault of the world.
    """
    robot = t.env.robot_state()
    contacts = robot.contacts.union(*(arm.hand_contacts for arm in robot.arms.values()))
    return (
        f"; it touches {', '.join(sorted({c.thing or 'something' for c in contacts}))}"
        if contacts
        else ""
    )


def _base(t: Trial) -> PlanarPose:
    base = t.env.robot_state().base
    if base is None:
        raise BrokenRuleError("robot_state.base is None on a mobile robot")
    return PlanarPose(*base)


def _size(vector: Array) -> float:
    return float(np.linalg.norm(vector))


def _distance(a: Array, b: Array) -> float:
    return _size(np.asarray(a - b))


def _cm(vector: Array) -> str:
    return f"({', '.join(f'{100 * float(v):.1f}' for v in vector)}) cm"
