"""The rules of `check` about motion: arm steps, holding, grippers, and the mobile base."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable

import numpy as np

from capex.errors import BadCommand
from capex.pose import Array, PlanarPose, angle_between, rotation_vector
from capex.worlds import ArmCommand, ArmSpec
from capex.worlds.contract import trial
from capex.worlds.contract.trial import BrokenRuleError, NotClaimedError, WorldTrial, cm, require

AXES = ("x", "y", "z")
HOLD_M = 0.01
STEPPED_M = 0.05  # how far steps along an axis lead a tip
DRIVE_TIP_M = 0.02
DRIVE_M = 0.2
BACK_OFF_M = 0.4  # a robot starts in front of its work: it backs off before it turns
DRIVE_SPEED_M_S = 0.25  # the executor's speeds, where the base can do them
DRIVE_YAW_RATE_RAD_S = 0.6


def commands_do_what_they_say(t: WorldTrial) -> str:
    """Each arm, while the others hold: steps and turns follow their axes, it grips and holds."""
    for arm in t.spec.arms:
        t.begin()
        t.rest()
        others = {a.name: t.tip(a.name).position_m for a in t.spec.arms if a.name != arm.name}
        for axis in range(3):
            _require_both_ways(t, arm, axis)
        _require_turn(t, arm, 1.0)
        _require_turn(t, arm, -1.0)
        _require_gripper(t, arm)
        resting = t.tip(arm.name).position_m
        t.hold(1.0)
        drift = _size(t.tip(arm.name).position_m - resting)
        moved = f"{arm.name}: the tip moved {cm(drift)} in a second of holding"
        require(drift <= HOLD_M, f"{moved}; at most {cm(HOLD_M)}")
        for name, position in others.items():
            drift = _size(t.tip(name).position_m - position)
            moved = f"{name}: the tip moved {cm(drift)} while it held and {arm.name} moved"
            require(drift <= HOLD_M, moved)
    return "steps, turns, grippers and holding do what they say, for each arm"


def _require_both_ways(t: WorldTrial, arm: ArmSpec, axis: int) -> None:
    """To and fro along an axis, first where there is room; where the robot runs into something
    there, the start anew and first the other way.
    """
    towards = t.room(arm.name, axis)
    try:
        _require_step(t, arm, axis, towards)
    except BrokenRuleError:
        if t.spec.records_frames or not _touching(t):
            raise
        t.begin()
        t.rest()
        towards = -towards
        _require_step(t, arm, axis, towards)
    _require_step(t, arm, axis, -towards)


def _until(
    t: WorldTrial, arm: ArmSpec, of_arm: Callable[[], ArmCommand], done: Callable[[], bool]
) -> None:
    """Repeat a command for at most a second: worlds differ in how far one step carries the tip."""
    for _ in range(t.seconds(1.0)):
        if done():
            break
        t.env.step(t.command(arm.name, of_arm()))
    t.rest()


def _require_step(t: WorldTrial, arm: ArmSpec, axis: int, sign: float) -> None:
    begun, ticks = t.tip(arm.name), itertools.count()
    x, y, z = (sign * min(arm.max_step_m, 0.02) * np.eye(3)[axis]).tolist()

    def moved_m() -> Array:
        return t.tip(arm.name).position_m - begun.position_m

    def command() -> ArmCommand:
        if not t.spec.records_frames:
            return ArmCommand(step_m=(x, y, z))
        # As the executor leads it: an arm that sags is lifted by what is missing.
        goal = t.on_the_way(begun.position_m, sign * STEPPED_M * np.eye(3)[axis], next(ticks))
        return ArmCommand(step_m=t.step_to(arm, goal))

    _until(t, arm, command, lambda: _size(moved_m()) >= 0.04)
    moved, turned = moved_m(), angle_between(t.tip(arm.name).rotation, begun.rotation)
    what = f"{arm.name}: steps along {'+' if sign > 0 else '-'}{AXES[axis]}"
    only = f"{what} moved the tip by only {cm(_size(moved))} in a second{_touching(t)}"
    require(_size(moved) >= 0.02, only)
    along = sign * float(moved[axis]) / _size(moved)
    cosine = f"the cosine with that axis is {along:.2f}, it must exceed 0.9"
    require(along > 0.9, f"{what} moved the tip by {_cm(moved)}; {cosine}{_touching(t)}")
    kept = f"{what} turned the hand by {turned:.2f} rad; it must keep its orientation"
    require(turned < 0.2, f"{kept}{_touching(t)}")


def _require_turn(t: WorldTrial, arm: ArmSpec, sign: float) -> None:
    begun = t.tip(arm.name)

    # With the position servoed, as the executor does: steps may be relative to the tip.
    def command() -> ArmCommand:
        turn_rad = (0.0, 0.0, sign * min(arm.max_step_rad, 0.1))
        return ArmCommand(step_m=t.step_to(arm, begun.position_m), step_rad=turn_rad)

    _until(t, arm, command, lambda: angle_between(t.tip(arm.name).rotation, begun.rotation) >= 0.2)
    turned = rotation_vector(t.tip(arm.name).rotation @ begun.rotation.T)
    moved = t.tip(arm.name).position_m - begun.position_m
    what = f"{arm.name}: turns about {'+' if sign > 0 else '-'}z"
    angle = _size(turned)
    only = f"{what} turned the hand by only {angle:.2f} rad in a second{_touching(t)}"
    require(angle >= 0.1, only)
    axis = np.round(turned / angle, 2).tolist()
    along = sign * float(turned[2]) / angle
    require(along > 0.9, f"{what} turned it about {axis} (base frame){_touching(t)}")
    stays = f"{what} moved the tip by {_cm(moved)}; it must stay within 3 cm{_touching(t)}"
    require(_size(moved) < 0.03, stays)


def _require_gripper(t: WorldTrial, arm: ArmSpec) -> None:
    def opening() -> float:
        return t.env.robot_state().arms[arm.name].opening_m

    def took(gripper: str, before: float, after: float) -> str:
        return f"{arm.name}: gripper {gripper} took the opening from {cm(before)} to {cm(after)}"

    t.grip(arm.name, -1.0)
    wide, largest = opening(), arm.max_opening_m
    limit = f"{arm.name}: open is {cm(wide)}, the spec's largest is {cm(largest)}"
    require(abs(wide - largest) <= 0.01, limit)
    t.grip(arm.name, 1.0)
    narrow = opening()
    require(wide - narrow > 0.2 * largest, took("+1", wide, narrow))
    t.hold(0.5)
    kept = opening()
    require(abs(kept - narrow) <= 0.005, took("0", narrow, kept))
    t.grip(arm.name, -1.0)
    again = opening()
    require(again - kept > 0.2 * largest, took("-1", kept, again))


def base_drives_as_commanded(t: WorldTrial) -> str:
    """Forward and left follow the heading, positive yaw turns left; the tips ride along."""
    if t.spec.base is None:
        drive = dataclasses.replace(t.command(), base_velocity=(0.0, 0.0, 0.0))
        require(
            trial.refuses(BadCommand, t.env.step, drive),
            "a base velocity was accepted but the spec has no base; it must raise BadCommand",
        )
        raise NotClaimedError("the robot has no mobile base; a base velocity is refused")
    t.begin()
    t.hold(0.25)
    _drive(t, (-1.0, 0.0), BACK_OFF_M)
    turns = {"at the first heading": math.pi / 2, "after a quarter turn": -math.pi / 4}
    for heading, angle_rad in turns.items():
        for direction in ((1.0, 0.0), (0.0, 1.0), (0.0, -1.0), (-1.0, 0.0)):
            _drive(t, direction, DRIVE_M, heading)
        _turn(t, angle_rad, heading)
    for arm in t.spec.arms:
        _require_step(t, arm, 0, t.room(arm.name, 0))
    drives = "the base drives forward, left and turns left, also after a quarter turn"
    return f"{drives}, and the tips ride along"


def _drive(
    t: WorldTrial, direction: tuple[float, float], distance_m: float, heading: str = ""
) -> None:
    assert t.spec.base is not None
    speed = min(t.spec.base.max_speed_m_s, DRIVE_SPEED_M_S)
    before = _base(t)
    hit = _ride(t, (direction[0] * speed, direction[1] * speed, 0.0), distance_m / speed)
    *moved_m, turned = before.inverse() @ _base(t)
    moved = np.array(moved_m)
    what = f"driving {cm(distance_m)} along {direction} {heading}".rstrip()
    along = float(moved @ direction)
    right = 0.5 <= along / distance_m <= 1.5 and along > 0.9 * _size(moved)
    room = f"{hit}: where a start leaves no room, check another (--start)" if hit else ""
    require(right, f"{what} moved the base by {_cm(moved)} (forward, left){room}")
    require(abs(turned) < 0.2, f"{what} turned the base by {turned:.2f} rad")


def _turn(t: WorldTrial, angle_rad: float, heading: str) -> None:
    assert t.spec.base is not None
    rate = math.copysign(min(t.spec.base.max_yaw_rate_rad_s, DRIVE_YAW_RATE_RAD_S), angle_rad)
    before = _base(t)
    _ride(t, (0.0, 0.0, rate), angle_rad / rate)
    turned = (before.inverse() @ _base(t)).yaw
    was = f"a turn of {angle_rad:.2f} rad {heading} was {turned:.2f} rad (left is positive)"
    require(0.5 <= turned / angle_rad <= 1.5, was)


def _ride(t: WorldTrial, velocity: tuple[float, float, float], duration_s: float) -> str:
    """Drive while the arms hold, then stand; in the base frame, tips that nothing pushes stay. What
    was touched on the way, as the end of a sentence.
    """
    hit = ""
    tips = {arm.name: t.tip(arm.name).position_m for arm in t.spec.arms}
    drive = [dataclasses.replace(t.command(), base_velocity=velocity)] * t.seconds(duration_s)
    for command in [*drive, *[t.command()] * t.seconds(0.5)]:
        t.env.step(command)
        robot = t.env.robot_state()
        if touched := _touching(t):
            tips, hit = {}, touched
        for name, position in tips.items():
            drift = _size(robot.arms[name].T_base_tip.position_m - position)
            moved = f"{name}: while driving the tip moved {cm(drift)} in the base frame"
            require(drift <= DRIVE_TIP_M, moved)
    return hit


def _touching(t: WorldTrial) -> str:
    """What the robot touches, or why its guard holds it, as the end of a sentence: a start may
    leave no room for a test, which is no fault of the world.
    """
    robot = t.env.robot_state()
    if robot.stopped or robot.guard:
        return f"; the guard: {robot.stopped or ', '.join(robot.guard)}"
    contacts = robot.contacts.union(*(arm.hand_contacts for arm in robot.arms.values()))
    things = sorted({c.thing or "something, by the force that it measures" for c in contacts})
    return f"; it touches {', '.join(things)}" if things else ""


def _base(t: WorldTrial) -> PlanarPose:
    base = t.env.robot_state().base
    if base is None:
        raise BrokenRuleError("robot_state.base is None on a mobile robot")
    return PlanarPose(*base)


def _size(vector: Array) -> float:
    return float(np.linalg.norm(vector))


def _cm(vector: Array) -> str:
    return f"({', '.join(f'{100 * float(v):.1f}' for v in vector)}) cm"
