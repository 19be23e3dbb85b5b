"""The typed values of a prompt: the numbers and states that its text prints, after rounding.

A model that runs in process may read these in place of the text. They hold nothing that the text
does not print. No provider sends them; logs, hashes and cassettes leave them out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from capex.plan import PLAN_MAX, Gripper, WaypointStatus

Centimetres = tuple[int, int, int]
PhaseKey = tuple[str, int]  # the gripper command that ends a phase, and the commands before it
HandWord = Literal["open", "closed", "holding"]


@dataclass(frozen=True)
class ReportedWaypoint:
    """A requested waypoint and its outcome: cm, base frame of its time. With several arms the
    values are those of the first one, and `arms` has each one's own.
    """

    target_cm: Centimetres | None = None
    gripper: Gripper = "keep"
    status: WaypointStatus = WaypointStatus.GRIPPER
    offset_cm: Centimetres | None = None  # in references: from the nearest located point
    opening_cm: float | None = None  # in acts: after a gripper command that ran
    finger_contact: bool = False  # then
    base: bool = False
    arms: Mapping[str, ReportedWaypoint] = field(default_factory=dict)


@dataclass(frozen=True)
class ReportedAct:
    """An earlier act of the episode; without waypoints where it passed without motion."""

    number: int
    waypoints: tuple[ReportedWaypoint, ...] = ()


@dataclass(frozen=True)
class HandValues:
    """One arm's gripper."""

    tip_cm: Centimetres
    angles_deg: tuple[int, int, int]  # roll, pitch, yaw
    word: HandWord
    opening_cm: float
    finger_contact: bool


@dataclass(frozen=True)
class ObservationValues:
    """The observation of one decision."""

    instruction: str
    steps_left: int
    hands: Mapping[str, HandValues]  # by arm; under "" where there is only one
    acts: tuple[ReportedAct, ...] = ()


@dataclass(frozen=True)
class SkeletonValues:
    """The reliability of earlier attempts, as far as it is shown."""

    succeeded: int
    failed: int
    advice: Mapping[PhaseKey, str] = field(default_factory=dict)
    stops: Mapping[PhaseKey, tuple[int, int]] = field(default_factory=dict)  # stops, attempts


@dataclass(frozen=True)
class PhaseStops:
    """Where a failed attempt was stopped, and how often."""

    phase: PhaseKey
    times: int


@dataclass(frozen=True)
class SystemValues:
    """The system prompt: settings, passages about the world, and memory."""

    plan_max: int = PLAN_MAX
    operator_judges: bool = False
    cameras: Mapping[str, str] = field(default_factory=dict)  # the world's words about each
    hints: str = ""
    references: tuple[tuple[ReportedWaypoint, ...], ...] = ()  # newest first
    skeleton: SkeletonValues | None = None
    failures: tuple[tuple[PhaseStops, ...], ...] = ()  # by failed attempt, newest first


@dataclass(frozen=True)
class PromptValues:
    """Everything that a request's texts print in numbers and states, without located points."""

    observation: ObservationValues
    system: SystemValues
