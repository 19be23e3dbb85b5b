"""The guard: which goals may leave the rig's process, whatever a model or a policy asks for.

It sees one tick of all arms: what they measured and the goals that the servos want. It returns the
goals that may be sent, a short phrase for each change, or a stop. It has no clock and no driver;
where a driver solves goals for joints, a function says where each goal would lead the tip.
Each goal is cut on the straight way from the last one that was sent, so what is left of it fulfils
everything that the last one did:

- workspace: the tip's goal is moved to the nearest point of the box;
- a tick's largest step and turn; the lead, how far a goal may stand ahead of the measured tip; the
  move, how far from where the motion began. A motion begins when the arms have settled, or by
  itself once an arm has kept still for `still_ticks`;
- the hand (handrule.py): its approach stays within `max_tilt_deg` of straight down, and all of it,
  from the tip to the flange with open fingers and camera bracket, above the floor and out of the
  keep-out boxes. Above the floor the goal is raised as far as the turned hand needs; the way to the
  goal, from the last goal and from the measured tip, ends before a keep-out. The same holds for
  the hand as solved joints would put it and on its way there, but for SOLVED_M: where they cannot
  have the whole goal they give up its orientation first. Forearm, elbow and cables are not looked
  at;
- joint margin: there are no kinematics here, so while a joint measures inside its margin goals must
  lead to the last tip pose at which all joints were free (home, where there was none): none stands
  farther from it than the tip has come so far, but for LEASH_M;
- arm to arm: here hands are segments, from the tip HAND_M back along the approach; any two of them,
  as asked for and as measured, stay `arm_distance_m` apart, or come no closer where they are. Open
  fingers are a segment across the tip and stay FINGERS_NEARER_M less apart. Thickness is part of
  that distance; elbows are not looked at.

A pose that is already outside (the arm was pushed) may only come nearer.

Stops: numbers that are not finite, a state that is too old, a driver's error and a force above the
latch end a motion until `settled`; after a force, moving along it (away from what pushes) also ends
the latch. `press` is the e-stop, and only `clear` ends it. The last check (lastcheck.py) looks
again at every goal that leaves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np

from capex.pose import Array, Pose, angle_between, rotation_matrix, rotation_vector
from capex.rigs import shapes
from capex.rigs.drivers import ArmFacts
from capex.rigs.handrule import HandRule, as_far_as
from capex.rigs.lastcheck import (
    LEASH_M,
    GoalCheck,
    HandCheck,
    apart_m,
    hand_refused,
    joints_in_margin,
    nearest_hands_m,
    refused,
    returns,
)
from capex.rigs.rigfile import GuardPolicy
from capex.rigs.servo import moved_away
from capex.rigs.shapes import between, length

STILL_M = 0.001
SOLVED_M, SOLVED_RAD = 5e-4, 0.02  # how well a goal is solved for joints where it can be
Leads = Callable[[Pose], tuple[Pose, ...]]  # `drivers.Foreseeing`, in the base frame
NONE: Mapping[str, Leads] = MappingProxyType({})


@dataclass(frozen=True)
class TipState:
    """One arm as the guard sees it, in the base frame."""

    tip: Pose
    joints_rad: tuple[float, ...]
    force_n: Array | None  # external, at the tip
    age_s: float  # how old the robot's state is
    error: str = ""
    opening_m: float = 0.0


@dataclass(frozen=True)
class Ruling:
    """What may be sent in this tick; an arm without a goal holds."""

    goals: Mapping[str, Pose]
    notes: tuple[str, ...] = ()
    stopped: str = ""


@dataclass
class _ArmMemory:
    free: Pose  # where all joints were last outside of their margins
    nearest_m: float = math.inf  # to there, that the tip has come since
    sent: Pose | None = None
    led: Pose | None = None  # where that goal leads the tip, of an arm that foresees it
    origin_m: Array | None = None
    lately: list[Array] = field(default_factory=list)  # tips, for keeping still
    pushed: Array | None = None  # the direction of the force that stopped it
    bears: bool = False  # its force was above the latch when the arms had settled


class Guard:
    """Rules over the arms of one rig; `homes` in the base frame."""

    def __init__(
        self,
        policy: GuardPolicy,
        facts: Mapping[str, ArmFacts],
        homes: Mapping[str, Pose],
        still_ticks: int = 3,
    ):
        self._policy, self._facts, self._still_ticks = policy, facts, max(2, still_ticks)
        self._arms = {name: _ArmMemory(home) for name, home in homes.items()}
        self.latched = ""  # why motion stopped, until `settled`
        self.pressed = ""  # why only a person lets it go on

    def rule(
        self,
        states: Mapping[str, TipState],
        wanted: Mapping[str, Pose | None],
        foresee: Mapping[str, Leads] = NONE,
    ) -> Ruling:
        """One tick. None in `wanted` holds an arm's last goal."""
        for name, state in states.items():
            if _finite(state.tip):
                self._follow(self._arms[name], state, self._facts[name])
        if reason := self.pressed or self._stop_reason(states, wanted):
            return self._stop(reason)
        notes: list[str] = []
        starts = {name: self._start(name, state.tip) for name, state in states.items()}
        goals: dict[str, Pose] = {}
        for name, goal in wanted.items():
            if goal is not None:
                leads = foresee.get(name)
                goals[name], changes = self._cut(name, states[name], starts[name], goal, leads)
                notes += [f"{name}: {n}" if len(states) > 1 else n for n in changes]
        goals, kept_apart = self._keep_apart(states, starts, goals)
        notes += kept_apart
        for name in [name for name in goals if name in foresee]:
            # The start may be all that is left, and joints may be led astray on their way to it.
            if self._led_astray(name, states[name], foresee[name])(goals[name]):
                del goals[name]
        for name, goal in goals.items():
            arm, start = self._arms[name], starts[name]
            if reason := refused(self._check(name, states[name], start), goal):
                return self._stop(f"the guard's last check refused a goal of {name}: {reason}")
            if name in foresee:
                led = foresee[name](goal)
                if reason := self._led_refused(name, states[name], led):
                    return self._stop(f"the guard's last check refused joints of {name}: {reason}")
                arm.led = led[0]
            arm.sent = goal
        return Ruling(goals, tuple(notes))

    def watch(self, states: Mapping[str, TipState]) -> str:
        """Between motions, while the arms hold: why they must stop, or nothing."""
        if reason := self.pressed or self._stop_reason(states, {}):
            return self._stop(reason).stopped
        return ""

    def settled(self, states: Mapping[str, TipState]) -> None:
        """The arms keep still and were measured: the next motion begins here. Latches go, but a
        force that is still there may only be left along it.
        """
        self.latched = ""
        for name, state in states.items():
            arm = self._arms[name]
            arm.origin_m, arm.pushed = state.tip.position_m, None
            arm.lately.clear()
            if self._excess(state) is not None:
                arm.bears = True

    def way_back(self, name: str, state: TipState) -> Pose | None:
        """While a joint measures inside its margin: the pose at which all were free."""
        inside = joints_in_margin(self._policy, self._facts[name], state.joints_rad)
        return self._arms[name].free if inside else None

    def press(self, reason: str) -> None:
        """E-stop; the first reason stays."""
        self.pressed = self.pressed or reason
        self._forget_goals()

    def clear(self) -> None:
        """A person says that it is safe to go on."""
        self.pressed = self.latched = ""
        self._forget_goals()

    @property
    def stopped_by_force(self) -> bool:
        """Whether the motion ended because an arm felt a force above the latch."""
        return any(arm.pushed is not None for arm in self._arms.values())

    def _forget_goals(self) -> None:
        for arm in self._arms.values():
            arm.sent = arm.led = None

    def _stop(self, reason: str) -> Ruling:
        if not self.pressed:
            self.latched = reason
        self._forget_goals()
        return Ruling({}, (), reason)

    def _follow(self, arm: _ArmMemory, state: TipState, facts: ArmFacts) -> None:
        """Remember what the measured state says about this and later ticks."""
        if not joints_in_margin(self._policy, facts, state.joints_rad):
            arm.free, arm.nearest_m = state.tip, math.inf
        else:
            arm.nearest_m = min(arm.nearest_m, apart_m(state.tip, arm.free))
        arm.lately = [*arm.lately[1 - self._still_ticks :], state.tip.position_m]
        spread = max(length(p - arm.lately[0]) for p in arm.lately)
        if arm.origin_m is None or (len(arm.lately) == self._still_ticks and spread < STILL_M):
            arm.origin_m = state.tip.position_m
        if self._excess(state) is None:
            arm.bears = False

    def _excess(self, state: TipState) -> Array | None:
        """The force where it is above the latch."""
        limit, force = self._policy.force_latch_n, state.force_n
        above = limit is not None and force is not None and length(force) > limit
        return force if above else None

    def _stop_reason(
        self, states: Mapping[str, TipState], wanted: Mapping[str, Pose | None]
    ) -> str:
        for name, state in states.items():
            if state.error:
                return f"{name}: {state.error}"
            if state.age_s > self._policy.stale_s:
                return f"the state of {name} is {state.age_s:.2f} s old"
            if not _finite(state.tip):
                return f"{name} measures a pose that is not finite"
        for name, goal in wanted.items():
            if goal is not None and not _finite(goal):
                return f"the command for {name} is not a finite number"
        return self._force_reason(states, wanted)

    def _force_reason(
        self, states: Mapping[str, TipState], wanted: Mapping[str, Pose | None]
    ) -> str:
        for name, state in states.items():
            arm, goal, force = self._arms[name], wanted.get(name), self._excess(state)
            push = arm.pushed if force is None else force / length(force)
            if push is None:
                continue
            if goal is None and (arm.bears or force is None):
                continue
            step = None if goal is None else goal.position_m - state.tip.position_m
            if step is None or float(step @ push) < 0.5 * length(step):
                if force is None:
                    continue  # the latch, below, still holds
                arm.pushed = push
                return f"{name}: a force of {length(force):.0f} N"
            if arm.pushed is not None:
                arm.pushed, self.latched, arm.bears = None, "", force is not None
        return self.latched

    def _start(self, name: str, tip: Pose) -> Pose:
        """What this tick's goal is cut from: the last goal; the measured tip where there is none,
        or where someone moved the arm far from it.
        """
        sent = self._arms[name].sent
        if sent is None or moved_away(sent, tip, self._policy.lead_m, self._policy.lead_rad):
            return tip
        return sent

    def _check(self, name: str, state: TipState, start: Pose) -> GoalCheck:
        arm = self._arms[name]
        assert arm.origin_m is not None
        margin = joints_in_margin(self._policy, self._facts[name], state.joints_rad)
        free = arm.free if margin else None
        leash_m = arm.nearest_m + LEASH_M
        return GoalCheck(self._policy, start, state.tip, arm.origin_m, free, name, leash_m)

    def _led_from(self, name: str, state: TipState) -> Pose:
        """Where the joints of an arm were to bring its tip, or its tip before they had a goal."""
        arm = self._arms[name]
        moved = arm.sent is not None and self._start(name, state.tip) is not arm.sent
        return state.tip if arm.led is None or moved else arm.led

    def _led_refused(self, name: str, state: TipState, led: tuple[Pose, ...]) -> str:
        """The last check of where a goal leads the tip, and of its way there."""
        goal = HandCheck(self._policy, self._led_from(name, state), name, SOLVED_M)
        way = replace(goal, start=state.tip)
        reasons = (hand_refused(goal if k == 0 else way, pose) for k, pose in enumerate(led))
        return next(filter(None, reasons), "")

    def _led_astray(self, name: str, state: TipState, leads: Leads) -> Callable[[Pose], str]:
        """Of a goal, why the hand may not go to where it leads the tip, as a note, or nothing."""
        start, slack = self._led_from(name, state), (SOLVED_M, SOLVED_RAD)
        goals = HandRule(self._policy, name, start, state.tip, *slack)
        ways = HandRule(self._policy, name, state.tip, state.tip, *slack)

        def blocked(goal: Pose) -> str:
            led, *way = leads(goal)
            if not all(map(_finite, (led, *way))):
                return "its joints have no solution"
            return goals.blocked(led) or next(filter(None, map(ways.blocked, way)), "")

        return blocked

    def _cut(
        self, name: str, state: TipState, start: Pose, goal: Pose, leads: Leads | None = None
    ) -> tuple[Pose, list[str]]:
        """The goal as far as it may be sent, and what was changed."""
        policy, arm = self._policy, self._arms[name]
        here_m, tip_m = start.position_m, state.tip.position_m
        assert arm.origin_m is not None
        hand = HandRule(policy, name, start, state.tip)
        rotation, turned = self._turn(hand, start, state.tip, goal)
        end_m = shapes.into_box(policy.box(name), goal.position_m)
        texts = ["held at the box"] if length(end_m - goal.position_m) > 1e-6 else []
        least_m, raised = hand.raised(rotation)
        texts += [raised] if end_m[2] < least_m - 1e-6 else []
        end_m[2] = max(end_m[2], min(least_m, policy.box(name).upper_m[2]))
        parts = {f"step cut to {1000 * policy.max_step_m:.0f} mm": (here_m, policy.max_step_m)}
        parts["goal kept near the tip"] = (tip_m, policy.lead_m)
        parts[f"held {100 * policy.max_move_m:.0f} cm from where the motion began"] = (
            arm.origin_m,
            policy.max_move_m,
        )
        cuts = {
            text: shapes.within_ball(center_m, radius_m, here_m, end_m)
            for text, (center_m, radius_m) in parts.items()
        }
        part = min(cuts.values())
        end_m = here_m + part * (end_m - here_m)
        texts += [text for text, cut in cuts.items() if cut == part < 1 - 1e-9][:1]
        astray = None if leads is None else self._led_astray(name, state, leads)
        cut_goal, blocked = as_far_as(
            Pose(end_m, rotation),
            start,
            lambda goal: hand.blocked(goal) or ("" if astray is None else astray(goal)),
        )
        near = joints_in_margin(policy, self._facts[name], state.joints_rad)
        if near and not returns(self._check(name, state, start), cut_goal):
            return start, [f"joint {near[0]} within its margin"]
        return cut_goal, list(dict.fromkeys([*texts, *turned, *blocked]))

    def _turn(self, hand: HandRule, start: Pose, tip: Pose, goal: Pose) -> tuple[Array, list[str]]:
        policy = self._policy
        wanted = hand.upright(goal.rotation)
        texts = [] if wanted is goal.rotation else [hand.tilt_held]
        turn = rotation_vector(wanted @ start.rotation.T)
        angle = length(turn)
        full = min(1.0, policy.max_step_rad / angle) if angle > 0 else 1.0
        lead = max(policy.lead_rad, angle_between(start.rotation, tip.rotation))
        for part in (full, full / 2, 0.0):
            rotation = hand.upright(rotation_matrix(part * turn) @ start.rotation)
            stepped = angle_between(rotation, start.rotation) <= policy.max_step_rad + 1e-9
            if stepped and angle_between(rotation, tip.rotation) <= lead:
                break
        if part > 1 - 1e-9:
            return rotation, texts
        return rotation, [*texts, f"turn cut to {math.degrees(part * angle):.0f} deg"]

    def _keep_apart(
        self, states: Mapping[str, TipState], starts: Mapping[str, Pose], goals: Mapping[str, Pose]
    ) -> tuple[dict[str, Pose], list[str]]:
        """The largest part of the tick that leaves the hands apart: all of it, half of it, one arm
        alone, or none.
        """
        if len(states) < 2 or not goals:
            return dict(goals), []
        tips = {name: state.tip for name, state in states.items()}
        limit_m = self._policy.arm_distance_m
        openings_m = {name: state.opening_m for name, state in states.items()}
        now_m = nearest_hands_m(openings_m, starts, tips, starts)
        enough = [min(limit_m, apart_m) for apart_m in now_m]
        alone = [{name: 1.0} for name in goals]
        for parts in (dict.fromkeys(goals, 1.0), dict.fromkeys(goals, 0.5), *alone, {}):
            tried = {n: between(starts[n], goals[n], part) for n, part in parts.items()}
            clear = all(
                not refused(self._check(n, states[n], starts[n]), goal)
                and (
                    goal is goals[n]
                    or not HandRule(self._policy, n, starts[n], states[n].tip).blocked(goal)
                )
                for n, goal in tried.items()
            )
            apart = nearest_hands_m(openings_m, {**starts, **tried}, tips, starts)
            if clear and all(a >= e - 1e-9 for a, e in zip(apart, enough, strict=True)):
                break
        whole = len(tried) == len(goals) and all(part == 1.0 for part in parts.values())
        return tried, [] if whole else [f"arms kept {100 * limit_m:.0f} cm apart"]


def _finite(pose: Pose) -> bool:
    return bool(np.isfinite(pose.position_m).all() and np.isfinite(pose.rotation).all())
