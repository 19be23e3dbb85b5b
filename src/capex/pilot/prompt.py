"""The typed values of a request as skills use them: the observation (`Page`), and the settings and
memory of the system prompt (`Brief`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from capex.models import Picture, Request, UserMessage
from capex.models.prompt_values import (
    HandValues,
    ObservationValues,
    PhaseKey,
    ReportedAct,
    ReportedWaypoint,
    SystemValues,
)
from capex.plan import CEILING_M, NOT_RUN, WaypointStatus
from capex.pose import Array, euler_to_matrix

# Fingers that close this far hold nothing; the thinnest wall that they hold is 4 mm.
EMPTY_CM = 0.35
# A rig's own words, in its hints.
TABLE = re.compile(r"table's top is at z = (-?[\d.]+) cm")
# "A gripper can point straight down only while its tip is low: up to about z = 16 cm at x = 30 cm"
DOWNWARD = re.compile(r"straight down only while its tip is low: ([^;]*\d+ cm at x = \d+ cm[^;]*);")
HIGH_AT = re.compile(r"(\d+) cm at x = (\d+) cm")


def closed_on_nothing(waypoint: ReportedWaypoint) -> bool:
    """Whether a waypoint closed the fingers on each other, whatever they brushed."""
    if waypoint.gripper not in ("close", "reclose") or waypoint.opening_cm is None:
        return False
    return waypoint.opening_cm < EMPTY_CM or not waypoint.finger_contact


def targets_m(waypoints: Sequence[ReportedWaypoint]) -> list[Array]:
    """Where waypoints sent the tip, in metres; those without a target are left out."""
    return [np.array(w.target_cm) / 100 for w in waypoints if w.target_cm is not None]


def of_arm(waypoints: Sequence[ReportedWaypoint], arm: str) -> tuple[ReportedWaypoint, ...]:
    """What waypoints asked of one of several arms."""
    return tuple(w.arms[arm] for w in waypoints if arm in w.arms)


@dataclass(frozen=True)
class Hand:
    """One arm's gripper."""

    tip_m: Array
    rotation: Array
    holding: bool  # the fingers are closed on something
    opening_m: float
    touching: bool

    @classmethod
    def of_values(cls, values: HandValues) -> Hand:
        """In metres and as a rotation."""
        return cls(
            np.array(values.tip_cm) / 100,
            euler_to_matrix(values.angles_deg),
            values.word == "holding",
            values.opening_cm / 100,
            values.finger_contact,
        )


@dataclass(frozen=True)
class Page(Hand):
    """The present observation; with several arms, as the first one of them or `of` another."""

    instruction: str
    steps_left: int
    acts: tuple[ReportedAct, ...]
    pictures: Mapping[str, bytes]
    hands: Mapping[str, Hand] = field(default_factory=dict)  # by arm, where there are several

    def of(self, arm: str) -> Page:
        """The page of one of several arms: its own gripper, and its own waypoints."""
        acts = tuple(ReportedAct(a.number, of_arm(a.waypoints, arm)) for a in self.acts)
        return replace(self, **vars(self.hands[arm]), acts=acts)

    @property
    def executed(self) -> list[ReportedWaypoint]:
        """Every waypoint on the page that ran, oldest first."""
        reported = [w for act in self.acts for w in act.waypoints]
        return [w for w in reported if w.status not in NOT_RUN]

    @property
    def drives(self) -> int:
        """How many base motions the page shows."""
        return sum(w.base for w in self.executed)

    @property
    def released(self) -> bool:
        """Whether the page shows a release that ran."""
        return any(
            w.gripper in ("release", "open") and w.target_cm is not None for w in self.executed
        )

    @property
    def empty_closes(self) -> int:
        """How many grasps on the page closed on nothing."""
        return sum(map(closed_on_nothing, self.executed))

    @property
    def odd(self) -> bool:
        """Whether the last act has an odd number: what is tried in vain changes sides with it."""
        return bool(self.acts) and self.acts[-1].number % 2 == 1

    def since_base_motion(self) -> list[ReportedWaypoint]:
        """The waypoints that ran in the present base frame."""
        executed = self.executed
        last = max((k for k, w in enumerate(executed) if w.base), default=-1)
        return executed[last + 1 :]

    def goals_m(self) -> list[Array]:
        """Where the tip was sent in the present base frame."""
        return targets_m(self.since_base_motion())

    def recent_m(self) -> list[Array]:
        """Where the last six waypoints that ran sent the tip."""
        return targets_m(self.executed[-6:])

    def deferred_m(self) -> list[Array]:
        """Where the last act would have sent the tip, had it not been deferred."""
        last = self.acts[-1].waypoints if self.acts else ()
        return targets_m([w for w in last if w.status == WaypointStatus.DEFERRED])


@dataclass(frozen=True)
class Brief:
    """The settings and the memory of a request."""

    locate: bool
    plan_max: int
    confidence: bool
    base_motion: bool
    several_arms: tuple[str, ...]
    references: tuple[tuple[ReportedWaypoint, ...], ...]  # newest first
    advice: Mapping[PhaseKey, str]  # of the skeleton, by phase
    stops: Mapping[PhaseKey, float]  # how often a failed attempt was stopped, by phase
    succeeded: int  # earlier attempts
    failed: int
    may_end: bool  # an act can say that the attempt is done
    done: bool  # a person judges: the attempt goes on until it is said to be done
    cameras: Mapping[str, str]  # the rig's words about each
    table_m: float  # height of the table's top; an arm is mounted level with it by default
    ceiling_m: tuple[tuple[float, ...], tuple[float, ...]]  # of a hand pointing down

    def of(self, arm: str) -> Brief:
        """The references as one of several arms reads them."""
        return replace(self, references=tuple(of_arm(row, arm) for row in self.references))

    @property
    def by_eye(self) -> bool:
        """Whether a rig's pictures are all there is: nothing can be located."""
        return self.done and not self.locate

    def learned_heights_m(self, gripper: str, axes: int, within_cm: int) -> list[float]:
        """By reference, newest first: how far over the nearest located point the tip was at its
        last waypoint with a gripper command; left out where that point is too far on the first
        axes.
        """
        offsets = [
            [w.offset_cm for w in reference if w.gripper == gripper and w.offset_cm is not None]
            for reference in self.references
        ]
        last = [row[-1] for row in offsets if row]
        return [o[2] / 100 for o in last if max(map(abs, o[:axes])) <= within_cm]


def read_page(values: ObservationValues, request: Request) -> Page:
    """The observation of a request."""
    hands = {arm: Hand.of_values(hand) for arm, hand in values.hands.items()}
    return Page(
        **vars(next(iter(hands.values()))),
        instruction=values.instruction,
        steps_left=values.steps_left,
        acts=values.acts,
        pictures={p.camera: p.png for p in pictures(request) if p.camera},
        hands=hands if len(hands) > 1 else {},
    )


def pictures(request: Request) -> list[Picture]:
    """The pictures of a request."""
    parts = [p for m in request.messages if isinstance(m, UserMessage) for p in m.parts]
    return [p for p in parts if isinstance(p, Picture)]


def read_brief(values: SystemValues, request: Request) -> Brief:
    """The settings and the memory of a request."""
    tools: dict[str, Any] = {tool.name: tool.parameters for tool in request.tools}
    act = tools.get("act", {}).get("properties", {})
    skeleton, failed = values.skeleton, len(values.failures)
    table = TABLE.search(values.hints)
    return Brief(
        locate="locate_pixel" in tools,
        plan_max=values.plan_max if "chunk" in act else 1,
        confidence="confidence" in act,
        base_motion="base_forward_cm" in act,
        several_arms=tuple(name for name, field in act.items() if field.get("type") == "object"),
        references=values.references,
        advice=skeleton.advice if skeleton is not None else {},
        stops=_stops(values),
        succeeded=skeleton.succeeded if skeleton is not None else 0,
        failed=skeleton.failed if skeleton is not None else failed,
        may_end="done" in act,
        done="done" in act and values.operator_judges,
        cameras=values.cameras,
        table_m=float(table[1]) / 100 if table else 0.0,
        ceiling_m=_ceiling(values.hints),
    )


def _stops(values: SystemValues) -> dict[PhaseKey, float]:
    """How often a failed attempt was stopped, by phase: of the latest attempts where those are
    listed, else of all.
    """
    counted = values.skeleton.stops if values.skeleton is not None else {}
    stops = {phase: number / attempts for phase, (number, attempts) in counted.items()}
    listed: dict[PhaseKey, float] = {}
    for attempt in values.failures:
        for stop in attempt:
            share = stop.times / len(values.failures)
            listed[stop.phase] = listed.get(stop.phase, 0.0) + share
    return stops | listed


def _ceiling(hints: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """By distance ahead, how high a hand that points down can be, as the hints say it; by default
    a Panda's.
    """
    words = DOWNWARD.search(hints)
    if words is None:
        return CEILING_M
    rows = [(float(x) / 100, float(z) / 100) for z, x in HIGH_AT.findall(words[1])]
    ahead, high = zip(*sorted(rows), strict=True)
    return ahead, high
