"""Waypoints and plans: what a demonstrator asks the executor to do; and the motions that the
worlds' experts and the pilot are made of.

A waypoint holds one target per arm, by arm name, or one base motion. Positions are in metres in the
base frame, which rides with the robot's mobile base: x forward, y left, z up from the arm's mount.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Literal

import numpy as np

from capex.errors import BadCommand
from capex.pose import DOWN, FORWARD, Array, euler_to_matrix, matrix_to_euler, yaw_matrix

Gripper = Literal["open", "close", "release", "reclose", "keep"]
GRIPPER_WORDS: tuple[Gripper, ...] = ("open", "close", "release", "reclose", "keep")
OrientationWord = Literal["keep", "down", "forward"]
ORIENTATION_WORDS: tuple[OrientationWord, ...] = ("keep", "down", "forward")
Orientation = OrientationWord | tuple[float, float, float]

PLAN_MAX = 24
BASE_TRANSLATION_MAX_M = 0.6
BASE_TURN_MAX_RAD = math.pi / 2  # the 1.57 rad of the paper: a quarter turn must be allowed
NUMBERS = (int, float, np.floating)
LEG_M = 0.09  # spacing on a straight line: the executor shortens what is more than 10 cm away
# By distance from a Panda's mount, how high its tip gets when the hand points down: the edge of
# the reach map in docs/reach.png.
CEILING_M = ((0.30, 0.43, 0.52, 0.60, 0.69), (0.80, 0.69, 0.64, 0.58, 0.48))


class WaypointStatus(StrEnum):
    """How a waypoint ended."""

    REACHED = "reached"
    STALLED = "stalled"
    FINGER_CONTACT = "finger contact"
    CONTACT = "contact"
    TIMEOUT = "timeout"
    GUARD_STOP = "guard stop"
    GRIPPER = "gripper"
    BASE = "base"
    TERMINAL = "terminal"
    OUT_OF_STEPS = "out of steps"
    ENDED = "ended"
    NOT_EXECUTED = "not executed"
    DEFERRED = "deferred"


NOT_RUN = (WaypointStatus.NOT_EXECUTED, WaypointStatus.DEFERRED)


@dataclass(frozen=True)
class ArmTarget:
    """Where one arm's tip should go and what its gripper does afterwards; no position means no
    motion.
    """

    position_m: tuple[float, float, float] | None = None
    orientation: Orientation = "keep"
    gripper: Gripper = "keep"

    def __post_init__(self) -> None:
        if self.position_m is not None:
            _require_numbers("position_m", self.position_m, 3)
        if isinstance(self.orientation, str):
            if self.orientation not in ORIENTATION_WORDS:
                raise BadCommand(
                    f"orientation is '{self.orientation}'; it must be keep, down, forward or three"
                    " Euler angles in degrees"
                )
        else:
            _require_numbers("orientation", self.orientation, 3)
        if self.gripper not in GRIPPER_WORDS:
            raise BadCommand(
                f"gripper is '{self.gripper}'; it must be one of {', '.join(GRIPPER_WORDS)}"
            )


@dataclass(frozen=True)
class BaseMotion:
    """A bounded drive of the mobile base, in the base frame at its beginning; left and turning left
    are positive.
    """

    forward_m: float = 0.0
    left_m: float = 0.0
    turn_rad: float = 0.0

    def __post_init__(self) -> None:
        _require_numbers("base motion", (self.forward_m, self.left_m, self.turn_rad), 3)
        if math.hypot(self.forward_m, self.left_m) > BASE_TRANSLATION_MAX_M + 1e-9:
            raise BadCommand(
                f"base motion of {100 * math.hypot(self.forward_m, self.left_m):.0f} cm; at most"
                f" {100 * BASE_TRANSLATION_MAX_M:.0f} cm"
            )
        if abs(self.turn_rad) > BASE_TURN_MAX_RAD + 1e-9:
            raise BadCommand(
                f"base turn of {math.degrees(self.turn_rad):.0f} degrees; at most"
                f" {math.degrees(BASE_TURN_MAX_RAD):.0f}"
            )


@dataclass(frozen=True)
class Waypoint:
    """Targets by arm name, or a base motion (whose targets may only carry gripper commands), with a
    stated confidence.
    """

    targets: Mapping[str, ArmTarget] = field(default_factory=dict)
    base: BaseMotion | None = None
    confidence: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "targets", MappingProxyType(dict(self.targets)))
        if not self.targets and self.base is None:
            raise BadCommand("a waypoint is empty; it needs a target for an arm or a base motion")
        if self.base is not None and any(t.position_m is not None for t in self.targets.values()):
            raise BadCommand("a base motion stands beside a target position; give one or the other")
        if self.confidence is not None and not 0.0 <= self.confidence <= 1.0:
            raise BadCommand(f"confidence is {self.confidence}; it must lie between 0 and 1")

    @property
    def gripper_words(self) -> dict[str, Gripper]:
        """The gripper commands by arm, other than keep."""
        return {name: t.gripper for name, t in self.targets.items() if t.gripper != "keep"}


@dataclass(frozen=True)
class Plan:
    """Up to 24 waypoints; a base motion stands alone."""

    waypoints: tuple[Waypoint, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.waypoints) <= PLAN_MAX:
            raise BadCommand(
                f"a plan has {len(self.waypoints)} waypoints; it must have 1 to {PLAN_MAX}"
            )
        if len(self.waypoints) > 1 and any(w.base is not None for w in self.waypoints):
            raise BadCommand(
                "a base motion stands in a plan with other waypoints; it must be alone"
            )


def orientation_matrix(orientation: Orientation, keep: Array) -> Array:
    """The rotation an orientation means, given the one that "keep" would preserve."""
    if orientation == "keep":
        return keep
    if orientation == "down":
        return DOWN
    if orientation == "forward":
        return FORWARD
    return euler_to_matrix(orientation)


Steps = Sequence[ArmTarget | BaseMotion]  # what a one-armed robot does, in order


def waypoints(arm: str, steps: Steps) -> list[Waypoint]:
    """Steps as waypoints of an arm of that name."""
    return [
        Waypoint(base=step) if isinstance(step, BaseMotion) else Waypoint({arm: step})
        for step in steps
    ]


def together(steps: Mapping[str, Sequence[ArmTarget]]) -> list[Waypoint]:
    """The steps of several arms side by side; an arm that has no more keeps still."""
    rows = itertools.zip_longest(*steps.values())
    return [
        Waypoint({arm: target for arm, target in zip(steps, row, strict=True) if target})
        for row in rows
    ]


def at(
    position_m: Array, orientation: Orientation = "keep", gripper: Gripper = "keep"
) -> ArmTarget:
    """A single target."""
    x, y, z = (float(v) for v in position_m)
    return ArmTarget((x, y, z), orientation, gripper)


def line(
    start_m: Array,
    end_m: Array,
    orientation: Orientation = "keep",
    gripper: Gripper = "keep",
    leg_m: float = LEG_M,
) -> list[ArmTarget]:
    """Targets along a straight line, the gripper command at its end."""
    count = max(1, math.ceil(float(np.linalg.norm(end_m - start_m)) / leg_m))
    points = [start_m + (end_m - start_m) * (k + 1) / count for k in range(count)]
    return [*(at(p, orientation) for p in points[:-1]), at(points[-1], orientation, gripper)]


def path(
    start_m: Array,
    points_m: Sequence[Array],
    orientation: Orientation = "keep",
    leg_m: float = LEG_M,
) -> list[ArmTarget]:
    """Straight lines from point to point."""
    targets: list[ArmTarget] = []
    for point_m in points_m:
        targets += line(start_m, point_m, orientation, "keep", leg_m)
        start_m = point_m
    return targets


def down(yaw_rad: float) -> tuple[float, float, float]:
    """Pointing down, turned about the vertical; half turns are the same grasp, so the smaller one
    is taken.
    """
    yaw_rad = (yaw_rad + math.pi / 2) % math.pi - math.pi / 2
    return matrix_to_euler(yaw_matrix(yaw_rad) @ DOWN)


def ceiling(point_m: Array) -> float:
    """How high a hand that points down can be over a point."""
    return float(np.interp(math.hypot(point_m[0], point_m[1]), *CEILING_M))


def raised(point_m: Array, by_m: float) -> Array:
    """A point lifted, but not above the ceiling of its place."""
    x, y, z = point_m
    return np.array([x, y, max(z, min(z + by_m, ceiling(point_m)))])


def _require_numbers(name: str, values: tuple[float, ...], count: int) -> None:
    if len(values) != count or not all(isinstance(v, NUMBERS) and math.isfinite(v) for v in values):
        raise BadCommand(f"{name} is {values}; it must be {count} finite numbers")
