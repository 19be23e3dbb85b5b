"""The rules of `check` about several arms: boxes, one base frame, alone and together."""

from __future__ import annotations

import itertools

import numpy as np

from capex.errors import Unsupported
from capex.pose import Array, Pose, angle_between
from capex.worlds import ArmCommand, ArmSpec, ArmState, CameraSpec, Command
from capex.worlds.contract.trial import (
    SLOW_STEP_M,
    NotClaimedError,
    WorldTrial,
    cm,
    refuses,
    require,
)

ALONE_M = 0.05
STILL_M, STILL_RAD, STILL_OPENING_M = 0.01, 0.05, 0.005
RIDES_M = 0.015
TOGETHER_M = (0.06, 0.03)  # ways of different length: alone, the second arm would be there first
THERE, BEHIND = 0.9, 0.5  # parts of its way: where one arm is there, no other may be this far back
OUTSIDE_M = 0.02


def arms_share_a_frame(t: WorldTrial) -> str:
    """Each arm begins in its box and moves alone; only its own camera rides along with it."""
    _require_several(t)
    cameras = [
        c
        for c in t.spec.cameras
        if c.kind == "wrist" and not refuses(Unsupported, t.env.camera_model, c.name)
    ]
    for arm in t.spec.arms:
        _require_box(t, arm)
        t.begin()
        t.rest()
        _require_in_box(t, arm)
        before, places = t.env.robot_state().arms, _places(t, cameras)
        t.move(arm, t.room(arm.name, 2) * ALONE_M * np.eye(3)[2])
        after = t.env.robot_state().arms
        moved_m = after[arm.name].T_base_tip.position_m - before[arm.name].T_base_tip.position_m
        far = float(np.linalg.norm(moved_m))
        only = f"{arm.name}: it went {cm(far)} of {cm(ALONE_M)} while the others held"
        require(far > 0.5 * ALONE_M, only)
        for name in after.keys() - {arm.name}:
            _require_still(name, arm.name, before[name], after[name])
        _require_riding(arm, cameras, places, _places(t, cameras), moved_m)
    own = all(arm.workspace_m is not None for arm in t.spec.arms)
    boxes = "boxes of their own" if own else "one box"
    rides = f"; {len(cameras)} wrist camera(s) ride on their own arm" if cameras else ""
    return f"{len(t.spec.arms)} arms move alone, in {boxes}{rides}"


def _require_still(name: str, moving: str, before: ArmState, after: ArmState) -> None:
    """An arm that holds keeps its tip and its gripper while another moves."""
    drift = float(np.linalg.norm(after.T_base_tip.position_m - before.T_base_tip.position_m))
    turned = angle_between(after.T_base_tip.rotation, before.T_base_tip.rotation)
    grip = abs(after.opening_m - before.opening_m)
    still = drift <= STILL_M and turned <= STILL_RAD and grip <= STILL_OPENING_M
    did = f"{cm(drift)} and {turned:.2f} rad, its gripper by {cm(grip)}"
    require(still, f"{name}: it moved by {did} while it held and {moving} moved")


def arms_arrive_together(t: WorldTrial) -> str:
    """Led in step over ways of different length, the arms are there at the same time."""
    _require_several(t)
    t.begin()
    t.rest()
    begun = {arm.name: t.tip(arm.name).position_m for arm in t.spec.arms}
    ways = zip(t.spec.arms, itertools.cycle(TOGETHER_M), strict=False)
    by_m = {a.name: t.room(a.name, 2) * length * np.eye(3)[2] for a, length in ways}
    parts = dict.fromkeys(begun, 0.0)
    ticks = round(max(TOGETHER_M) / SLOW_STEP_M)
    for tick in range(ticks + t.seconds(2.0)):
        led = min(1.0, (tick + 1) / ticks)
        t.env.step(_led(t, {name: begun[name] + led * way for name, way in by_m.items()}))
        parts = {n: _part(t.tip(n).position_m - begun[n], way) for n, way in by_m.items()}
        if max(parts.values()) >= THERE:
            break
    said = ", ".join(f"{name} {100 * part:.0f} %" for name, part in parts.items())
    require(max(parts.values()) >= THERE, f"no arm came to its goal: {said} of their ways")
    require(min(parts.values()) >= BEHIND, f"the arms do not arrive together: {said} of their ways")
    return f"ways of {cm(TOGETHER_M[0])} and {cm(TOGETHER_M[1])} end together ({said})"


def _require_several(t: WorldTrial) -> None:
    if len(t.spec.arms) < 2:
        raise NotClaimedError("the robot has one arm")


def _require_box(t: WorldTrial, arm: ArmSpec) -> None:
    """An arm's own box lies in that of the world."""
    lower, upper = np.array(t.spec.workspace_of(arm.name))
    lowest, highest = np.array(t.spec.workspace_m)
    inside = bool(np.all(lower >= lowest - 1e-9) and np.all(upper <= highest + 1e-9))
    box = f"{arm.name}: its box is {lower.tolist()} to {upper.tolist()}"
    require(inside, f"{box}; it must lie in the world's, {lowest.tolist()} to {highest.tolist()}")


def _require_in_box(t: WorldTrial, arm: ArmSpec) -> None:
    lower, upper = np.array(t.spec.workspace_of(arm.name))
    tip = t.tip(arm.name).position_m
    out = float(np.linalg.norm(tip - np.clip(tip, lower, upper)))
    require(out <= OUTSIDE_M, f"{arm.name}: its tip begins {cm(out)} outside its box")


def _places(t: WorldTrial, cameras: list[CameraSpec]) -> dict[str, Pose]:
    return {c.name: t.env.camera_model(c.name).T_base_camera for c in cameras}


def _require_riding(
    arm: ArmSpec,
    cameras: list[CameraSpec],
    before: dict[str, Pose],
    after: dict[str, Pose],
    moved_m: Array,
) -> None:
    """In the one base frame a camera goes where its own hand goes, and nowhere with another."""
    for camera in cameras:
        went = after[camera.name].position_m - before[camera.name].position_m
        expected = moved_m if camera.arm == arm.name else np.zeros(3)
        off = float(np.linalg.norm(went - expected))
        rides = (
            f"{camera.name} rides on {camera.arm}; as {arm.name} moved, it went {cm(off)} astray"
        )
        require(off <= RIDES_M, f"{rides}; do tips and cameras have one base frame?")


def _led(t: WorldTrial, goals_m: dict[str, Array]) -> Command:
    return Command({a.name: ArmCommand(step_m=t.step_to(a, goals_m[a.name])) for a in t.spec.arms})


def _part(moved_m: Array, way_m: Array) -> float:
    return float(moved_m @ way_m) / float(way_m @ way_m)
