"""The guard's last look at a goal: every number of the policy again, by itself and without cutting.

The guard cuts goals until they fit; this asks whether they do. An error in the cutting then stops
the arm instead of reaching it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from capex.pose import Array, Pose, angle_between
from capex.rigs import shapes
from capex.rigs.drivers import ArmFacts
from capex.rigs.rigfile import Box, GuardPolicy
from capex.rigs.shapes import length

# Fingers are thinner than hands: where hands stay 10 cm apart, the middles of fingers stay 4.
FINGERS_NEARER_M = 0.06
HAND_M = 0.15  # a hand and its wrist, from the tip back along the approach: for two arms
LEASH_M = 0.02  # what a servo needs to correct a sag; more would lead deeper into the margin
TOLERANCE = 1e-6  # metres or radians, of rounding


@dataclass(frozen=True)
class GoalCheck:
    """What a goal of one arm is held against, in the base frame."""

    policy: GuardPolicy
    # The goal before it, or the tip where there is none. What is already outside a limit (the arm
    # was pushed away) may only come nearer.
    start: Pose
    tip: Pose  # measured
    origin_m: Array  # where the motion began
    free: Pose | None  # while a joint is inside its margin: where all were free
    arm: str = ""
    leash_m: float = 0.0  # then: how far from there a goal may stand (`apart_m`)

    @property
    def hand(self) -> HandCheck:
        """The part that is about the hand."""
        return HandCheck(self.policy, self.start, self.arm)


@dataclass(frozen=True)
class HandCheck:
    """What the hand of one arm is held against."""

    policy: GuardPolicy
    start: Pose  # where it was to be before
    arm: str = ""
    slack_m: float = 0.0  # how well it is known where the hand will be


def refused(check: GoalCheck, goal: Pose) -> str:
    """Why a goal may not be sent; empty where it may."""
    policy, start, tip = check.policy, check.start, check.tip
    if not (np.isfinite(goal.position_m).all() and np.isfinite(goal.rotation).all()):
        return "it is not finite"
    if np.abs(goal.rotation @ goal.rotation.T - np.eye(3)).max() > 1e-6:
        return "its rotation is none"
    to_m = goal.position_m
    box = policy.box(check.arm)
    if shapes.outside_m(box, to_m) > shapes.outside_m(box, start.position_m) + TOLERANCE:
        return "it leaves the workspace"
    lengths = (
        ("step", start.position_m, policy.max_step_m),
        ("lead", tip.position_m, policy.lead_m),
        ("move", check.origin_m, policy.max_move_m),
    )
    for name, from_m, limit_m in lengths:
        allowed_m = max(limit_m, length(start.position_m - from_m))
        if length(to_m - from_m) > allowed_m + TOLERANCE:
            return f"its {name} is larger than {1000 * limit_m:.0f} mm"
    for name, from_, limit in (
        ("turn", start, policy.max_step_rad),
        ("turn from the tip", tip, policy.lead_rad),
    ):
        allowed = max(limit, angle_between(start.rotation, from_.rotation))
        if angle_between(goal.rotation, from_.rotation) > allowed + TOLERANCE:
            return f"its {name} is larger than {limit:.2f} rad"
    if not returns(check, goal):
        return "a joint is inside its margin"
    most_rad = max(math.radians(policy.max_tilt_deg), shapes.tilt_rad(start.rotation))
    if shapes.tilt_rad(goal.rotation) > most_rad + TOLERANCE:
        return f"it tilts by more than {policy.max_tilt_deg:g} deg"
    return _in_keep_out(check, goal) or hand_refused(check.hand, goal)


def _in_keep_out(check: GoalCheck, goal: Pose) -> str:
    from_m, tip_m, to_m = check.start.position_m, check.tip.position_m, goal.position_m
    if np.array_equal(to_m, from_m):
        return ""
    for box in check.policy.keep_out:
        if (was := shapes.depth_m(box, from_m)) > 0:
            if shapes.depth_m(box, to_m) >= was:
                return f"it goes deeper into {box.name}"
            continue
        outside = [from_m] if shapes.depth_m(box, tip_m) > 0 else [from_m, tip_m]
        if any(shapes.way_until(box, place, to_m) < 1 for place in outside):
            return f"it goes through {box.name}"
    return ""


def hand_refused(check: HandCheck, goal: Pose) -> str:
    """Why a hand may not be there; empty where it may. Other than the guard, which knows distances,
    this looks at points of the hand's surface.
    """
    policy, start, slack_m = check.policy, check.start, check.slack_m
    hull, floor_m = shapes.hull_of(policy.hand(check.arm)), policy.floor(check.arm) - slack_m
    points = hull.points_m(goal)
    if not np.isfinite(points).all():
        return "it is not finite"
    if (low_m := points[:, 2].min()) < floor_m - TOLERANCE:
        was_m = start.position_m[2] + hull.lowest_m(start.rotation)[0]
        if low_m < was_m - TOLERANCE:
            return "its hand goes below the floor"
    for box in policy.keep_out:
        if _any_inside(box, points, slack_m):
            at, turned = start.position_m[None], start.rotation[None]
            if hull.gaps_m(floor_m, (box,), at, turned)[0, 1].min() >= -slack_m:
                return f"its hand goes into {box.name}"
    return ""


def _any_inside(box: Box, points_m: Array, slack_m: float) -> bool:
    off_m = TOLERANCE + slack_m
    lower, upper = np.asarray(box.lower_m) + off_m, np.asarray(box.upper_m) - off_m
    return bool(((points_m > lower) & (points_m < upper)).all(axis=1).any())


def apart_m(one: Pose, other: Pose) -> float:
    """How far two poses are apart, a turn counting as its way at the end of a hand."""
    turn = angle_between(one.rotation, other.rotation)
    return length(one.position_m - other.position_m) + HAND_M * turn


def returns(check: GoalCheck, goal: Pose) -> bool:
    """Whether no joint is inside its margin, or the goal leads back to where all were free: it is
    within the leash, or no farther from there than the goal before it.
    """
    if check.free is None:
        return True
    allowed_m = max(check.leash_m, apart_m(check.start, check.free))
    return apart_m(goal, check.free) <= allowed_m + TOLERANCE


def joints_in_margin(
    policy: GuardPolicy, facts: ArmFacts, joints_rad: tuple[float, ...]
) -> list[str]:
    """Names of the joints that measure inside their margin."""
    return [
        name
        for name, angle, (lower, upper) in zip(
            facts.joint_names, joints_rad, facts.joint_limits_rad, strict=True
        )
        if min(angle - lower, upper - angle) < policy.joint_margin_rad
    ]


def nearest_hands_m(
    openings_m: Mapping[str, float], goals: Mapping[str, Pose], *others: Mapping[str, Pose]
) -> tuple[float, ...]:
    """The shortest distance between the hands of any two arms: both as asked for, then one as asked
    for with the other as in each of `others` (measured; asked for before, should the new goal of
    one arm come late). Fingers stand `openings_m` apart.
    """
    nearest = [math.inf] * (1 + len(others))
    for a, b in itertools.combinations(goals, 2):
        for k, other in enumerate((goals, *others)):
            for one, two in ((goals[a], other[b]), (other[a], goals[b])):
                nearest[k] = min(nearest[k], _apart_m((one, two), (openings_m[a], openings_m[b])))
    return tuple(nearest)


def _apart_m(tips: tuple[Pose, Pose], openings_m: tuple[float, float]) -> float:
    """Between two hands; open fingers count as farther off, by as much as they are thinner."""
    hands = [_hand(tip) for tip in tips]
    apart = shapes.segments_apart_m(*hands)
    if sum(openings_m) / 2 <= FINGERS_NEARER_M:  # then they cannot be what is nearest
        return apart
    bars = [_fingers(tip, opening) for tip, opening in zip(tips, openings_m, strict=True)]
    pairs = ((bars[0], hands[1]), (hands[0], bars[1]), (bars[0], bars[1]))
    return min(apart, *(shapes.segments_apart_m(*pair) + FINGERS_NEARER_M for pair in pairs))


def _hand(tip: Pose) -> shapes.Segment:
    return tip.position_m, tip.position_m - HAND_M * tip.rotation[:, 2]


def _fingers(tip: Pose, opening_m: float) -> shapes.Segment:
    half_m = 0.5 * opening_m * tip.rotation[:, 1]
    return tip.position_m - half_m, tip.position_m + half_m
