"""Where the arms of a rig are, for a person who looks: they are read, and sent nothing."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from capex.errors import CapexError, ErrorCode, RigFault
from capex.pose import DOWN, FORWARD, Pose, angle_between, matrix_to_euler
from capex.rigs.link import RigLink
from capex.rigs.opening import open_arms
from capex.rigs.rigfile import RigFile
from capex.rigs.twins.start import running

SETTLES_S, EVERY_S = 0.5, 0.05  # until a state that does not go on is seen to be old
AGAIN_S = 0.5
STRAIGHT_RAD = np.radians(5.0)


@dataclass(frozen=True)
class JointAt:
    """One joint, and how far it is from its nearer limit; negative beyond it."""

    name: str
    angle_rad: float
    room_rad: float
    near: bool  # inside the guard's margin


@dataclass(frozen=True)
class ArmAt:
    """One arm as it measures now; its tip and the force on it in the base frame."""

    name: str
    tip: Pose
    joints: tuple[JointAt, ...]
    opening_m: float
    max_opening_m: float
    force_n: tuple[float, float, float] | None  # None: not sensed
    age_s: float
    stale: bool  # older than the guard takes
    error: str

    def lines(self) -> list[str]:
        """For a terminal."""
        x, y, z = (_rounded(100 * v) for v in self.tip.position_m)
        euler = ", ".join(_rounded(v) for v in matrix_to_euler(self.tip.rotation))
        lines = [
            f"{self.name}",
            f"  tip      x {x}  y {y}  z {z} cm in the base frame",
            f"  points   {_direction(self.tip)}; euler_deg = [{euler}]",
            f"  opening  {100 * self.opening_m:.1f} of {100 * self.max_opening_m:.1f} cm",
            f"  force    {_force(self.force_n)}",
            f"  state    {self.age_s:.2f} s old{_OLD if self.stale else ''}",
        ]
        if self.error:
            lines.append(f"  error    {self.error}")
        wide = max(7, *(len(joint.name) for joint in self.joints))
        for joint in self.joints:
            near = "  near" if joint.near else ""
            lines.append(
                f"  {joint.name:<{wide}}  {joint.angle_rad:7.3f} rad {_deg(joint.angle_rad)} deg;"
                f" {joint.room_rad:6.3f} rad {_deg(joint.room_rad)} deg from its limit{near}"
            )
        return lines


_OLD = (
    ": no new one comes, so these numbers are old (an arm behind Deoxys is measured only while it"
    " is commanded)"
)


def look(rig: RigFile, link: RigLink) -> list[ArmAt]:
    """Every arm as it measures now; RigFault where one is lost."""
    reading, found = link.read(), list[ArmAt]()
    for arm in rig.arms:
        name, facts, state = arm.name, link.facts[arm.name], reading.arms[arm.name]
        joints = []
        for joint, angle, (lower, upper) in zip(
            facts.joint_names, reading.joints_rad[name], facts.joint_limits_rad, strict=True
        ):
            near = joint in state.joints_at_limit
            joints.append(JointAt(joint, angle, min(angle - lower, upper - angle), near))
        found.append(
            ArmAt(
                name,
                state.T_base_tip,
                tuple(joints),
                state.opening_m,
                facts.max_opening_m,
                reading.force_n[name],
                reading.age_s[name],
                reading.age_s[name] > rig.guard.stale_s,
                reading.errors[name],
            )
        )
    return found


def look_long(rig: RigFile, link: RigLink) -> list[ArmAt]:
    """`look`, after a while in which a state that does not go on grows old. In lock-step no time
    passes.
    """
    until_s = time.monotonic() + SETTLES_S
    while rig.clock == "real" and time.monotonic() < until_s:
        link.read()
        time.sleep(EVERY_S)
    return look(rig, link)


def near_limits(rig: RigFile, link: RigLink) -> str:
    """The joints inside the guard's margin, and how a hand can move their arms; or nothing."""
    near = [(arm.name, joint) for arm in look(rig, link) for joint in arm.joints if joint.near]
    if not near:
        return ""
    joints = ", ".join(f"{joint.name} of {arm} by {joint.room_rad:.2f} rad" for arm, joint in near)
    by_hand = sorted({link.facts[arm].by_hand for arm, _ in near} - {""})
    return (
        f"joints are nearer to their limits than the guard's margin of"
        f" {rig.guard.joint_margin_rad:g} rad: {joints}; move the arm by hand until all are free"
        + "".join(f" ({words})" for words in by_hand)
    )


def wait_until_it_floats(rig: RigFile, name: str, tell: Callable[[str], None]) -> list[ArmAt]:
    """Wait until the program behind an arm has ended and begun anew, which makes it float; returns
    where it is then. `tell` gets a sentence for each thing that a person has to do or know.
    """
    if rig.room and not running(rig):
        raise CapexError(
            f"{rig.path} is a simulated rig that starts with each command, its arms floating; only"
            " a real one, or a simulation that runs, has an arm that was held before",
            code=ErrorCode.NOT_APPLICABLE,
        )
    (arm,) = (arm for arm in rig.arms if arm.name == name)
    alone = replace(rig, arms=(arm,))
    with open_arms(alone) as (_, link):
        if not link.facts[name].floats:
            raise CapexError(
                f"the driver '{arm.driver}' of arm {name} knows no way to make it float;"
                " only an arm that floats when its program begins (a YAM) can be",
                code=ErrorCode.UNSUPPORTED,
            )
        tell(f"{name}: {link.facts[name].by_hand}.")
        with contextlib.suppress(RigFault):
            while True:
                link.read()
                time.sleep(EVERY_S)
    tell(f"{name}: its server has ended; hold the arm until it runs again.")
    while True:
        try:
            with open_arms(alone) as (_, link):
                return look(alone, link)
        except RigFault:
            time.sleep(AGAIN_S)


def _direction(tip: Pose) -> str:
    if angle_between(tip.rotation, FORWARD) < STRAIGHT_RAD:
        return "forward"
    if angle_between(tip.rotation, DOWN) < STRAIGHT_RAD:
        return "down"
    off = np.degrees(np.arccos(np.clip(-tip.rotation[2, 2], -1.0, 1.0)))
    return f"{off:.0f} deg off straight down"


def _force(force_n: tuple[float, float, float] | None) -> str:
    if force_n is None:
        return "not sensed"
    x, y, z = map(_rounded, force_n)
    return f"x {x}  y {y}  z {z} N, {np.linalg.norm(force_n):.1f} N in all, not tared"


def _rounded(value: float) -> str:
    """One decimal, and no minus before a zero."""
    return f"{round(float(value), 1) + 0.0:.1f}"


def _deg(rad: float) -> str:
    return f"{np.degrees(rad):6.1f}"
