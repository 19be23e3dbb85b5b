"""The executor: waypoints in, 20 Hz commands out; a report and a reach label for each waypoint.

Written once against the Env protocol. A waypoint moves every arm that has a target, together, or
the base; then their grippers act. Control returns when the waypoints end, or one stalls, makes
contact, times out, is stopped by a robot's guard or ends the episode. Reports have cm and degrees.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from capex.errors import UnknownName, Unsupported
from capex.method import motion as mo
from capex.method.motion import (
    CLOSED_BELOW_M,
    CONTINUES,
    GRIPPER_STILL_RUNS,
    OPEN_TOLERANCE_M,
    REACHED_M,
    REACHED_RAD,
    ClampedTarget,
    GripperCommandState,
    GripperResult,
    Motion,
    norm,
    shorten,
)
from capex.plan import (
    NOT_RUN,
    ArmTarget,
    BaseMotion,
    Gripper,
    Waypoint,
    WaypointStatus,
    orientation_matrix,
)
from capex.pose import Array, PlanarPose, Pose, angle_between, rotation_vector, wrap
from capex.worlds import ArmCommand, Command, Contact, Env, RobotState

DISPLACEMENT_MAX_M = 0.10
MOTION_STEPS_MAX = 200
LABEL_STALL_M = 0.01
GRIPPER_STEPS_MIN, GRIPPER_STEPS_MAX = 10, 20
# less movement than this over so many steps: the fingers have arrived
GRIPPER_SETTLED_M, GRIPPER_SETTLED_STEPS = 0.0005, 5
BASE_REACHED_M, BASE_REACHED_RAD = 0.005, 0.01
BASE_GAIN_PER_S = 4.0


@dataclass(frozen=True)
class Tick:
    """One control step as subscribers see it."""

    action: Array  # native
    state: RobotState  # after the action
    success: bool | None
    waypoint: int  # its number in the plan, from 0


@dataclass(frozen=True)
class Outcome:
    """What became of one waypoint."""

    status: WaypointStatus
    report: str
    label: Literal[0, 1] | None  # the paper's reach label; None where nothing can be said
    steps: int
    targets: Mapping[str, ClampedTarget]
    tips: Mapping[str, Pose]
    position_error_m: float | None = None
    rotation_error_rad: float | None = None
    contacts: tuple[Contact, ...] = ()
    # measured forward, left and turn, in the base frame at its beginning
    base_moved: tuple[float, float, float] | None = None
    # by arm whose gripper command ran and was not skipped
    grippers: Mapping[str, GripperResult] = field(default_factory=dict)


class _Ended(Exception):
    def __init__(self, status: WaypointStatus):
        self.status: WaypointStatus = status


class Executor:
    """Runs committed waypoints; `commands` keeps the last commands, for "keep" and "close"."""

    def __init__(
        self,
        env: Env,
        *,
        steps_left: int | None = None,
        commands: GripperCommandState | None = None,
        subscribers: Sequence[Callable[[Tick], None]] = (),
        end_now: Callable[[], bool] = lambda: False,
        passed: Callable[[int, Outcome], object] = lambda place, outcome: None,  # a waypoint ran
    ):
        self._env, self._subscribers, self._end_now = env, tuple(subscribers), end_now
        self.steps_left = env.spec.horizon if steps_left is None else steps_left
        self._arms, self._state = {a.name: a for a in env.spec.arms}, env.robot_state()
        self.commands = commands or GripperCommandState.at(env.spec.arms, self._state)
        self._waypoint, self._passed = 0, passed
        self._guarded: Counter[str] = Counter()  # ticks of this waypoint, by the guard's phrase

    def retrace(self, waypoints: Sequence[Waypoint], outcomes: Sequence[Outcome]) -> None:
        """Take in the commands of a plan that once ran from the present state."""
        self._state = self._env.robot_state()
        rows = zip(waypoints, self.clamp(waypoints), outcomes, strict=True)
        for waypoint, targets, outcome in rows:
            if outcome.status in NOT_RUN:
                break
            if waypoint.base is None:
                self.commands.command_rotation(
                    {name: target.rotation for name, target in targets.items()}
                )
            if outcome.status in GRIPPER_STILL_RUNS:
                for name, word in waypoint.gripper_words.items():
                    skipped = name not in outcome.grippers
                    self.commands.command_gripper(name, word, skipped=skipped)

    def go_on(self, steps_left: int) -> None:
        """From the present state, after what was retraced."""
        self._state, self.steps_left = self._env.robot_state(), steps_left

    def execute(
        self, waypoints: Sequence[Waypoint], deferred: Sequence[Waypoint] = ()
    ) -> list[Outcome]:
        """Run waypoints in order until one stops the plan; the others are reported too."""
        everything = (*waypoints, *deferred)
        for waypoint in everything:
            self._validate(waypoint)
        self._state = self._env.robot_state()
        outcomes: list[Outcome] = []
        stopped = False
        for k, (waypoint, targets) in enumerate(
            zip(everything, self.clamp(everything), strict=True)
        ):
            if k >= len(waypoints):
                report = "not executed (deferred: low confidence)"
                outcomes.append(
                    Outcome(WaypointStatus.DEFERRED, report, None, 0, targets, self._tips())
                )
            elif stopped or self.steps_left <= 0:
                status = WaypointStatus.NOT_EXECUTED
                outcomes.append(Outcome(status, status, None, 0, targets, self._tips()))
            else:
                self._waypoint = k
                outcomes.append(self._run(waypoint, targets))
                self._passed(k, outcomes[-1])
                stopped = outcomes[-1].status not in CONTINUES
        return outcomes

    def clamp(self, waypoints: Sequence[Waypoint]) -> list[dict[str, ClampedTarget]]:
        """Targets as they will be sent: inside the workspace, each at most 10 cm from the one
        before it (the first: from the tip).
        """
        previous = {n: s.T_base_tip.position_m for n, s in self._state.arms.items()}
        rotation = self.commands.kept_rotations(self._state)
        boxes = {n: np.asarray(self._env.spec.workspace_of(n)) for n in self._arms}
        clamped = []
        for waypoint in waypoints:
            row = {}
            for name, target in waypoint.targets.items():
                if target.position_m is None:
                    continue
                goal = np.asarray(target.position_m, dtype=np.float64)
                leg = goal - previous[name]
                length = norm(leg)
                shortened = length > DISPLACEMENT_MAX_M * (1 + 1e-9)
                if shortened:
                    goal = previous[name] + leg * (DISPLACEMENT_MAX_M / length)
                inside = np.clip(goal, *boxes[name])
                projected = norm(inside - goal) > 1e-9
                rotation[name] = orientation_matrix(target.orientation, rotation[name])
                row[name] = ClampedTarget(inside, rotation[name], shortened, projected)
                previous[name] = inside
            clamped.append(row)
        return clamped

    def _validate(self, waypoint: Waypoint) -> None:
        for name in waypoint.targets:
            if name not in self._arms:
                raise UnknownName("arm", name, self._arms)
        if waypoint.base is not None and self._env.spec.base is None:
            raise Unsupported(f"{self._env.spec.name} has no mobile base; use arm waypoints only")

    def _run(self, waypoint: Waypoint, targets: dict[str, ClampedTarget]) -> Outcome:
        steps_before, began = self.steps_left, self._state
        self._guarded.clear()
        motion = Motion(WaypointStatus.GRIPPER, "")
        label: Literal[0, 1] | None = None
        grippers: dict[str, GripperResult] = {}
        notes = mo.clamp_notes(targets)
        try:
            if waypoint.base is not None:
                motion = self._drive(waypoint.base)
            elif targets:
                motion = self._move(targets)
                # before the gripper acts: what it then touches says nothing about the motion
                label = self._label(motion, began)
            if motion.status in GRIPPER_STILL_RUNS:
                done, grippers = self._act_grippers(waypoint.targets)
                notes += done
        except _Ended as ended:
            # A motion that was cut short has no label; one that had ended before its gripper
            # command ended the episode keeps its own.
            motion = Motion(ended.status, self._ended_text(ended.status))
            if ended.status == WaypointStatus.GUARD_STOP and targets:
                motion.errors = self._errors(targets)
                label = 0 if label is None else label
        notes += mo.guard_notes(self._guarded)
        report = "; ".join(text for text in (motion.text, *notes) if text)
        steps, tips = steps_before - self.steps_left, self._tips()
        off_m, off_rad = motion.errors or (None, None)
        contacts, moved = tuple(sorted(motion.contacts, key=str)), motion.base_moved
        return Outcome(
            motion.status,
            report,
            label,
            steps,
            targets,
            tips,
            off_m,
            off_rad,
            contacts,
            moved,
            grippers,
        )

    def _ended_text(self, status: WaypointStatus) -> str:
        if status == WaypointStatus.GUARD_STOP:
            return f"stopped by the guard: {self._state.stopped}"
        texts = {
            WaypointStatus.TERMINAL: "terminal",
            WaypointStatus.ENDED: "cut short by the operator",
        }
        return texts.get(status, "cut short: no control steps left")

    def _label(self, motion: Motion, began: RobotState) -> Literal[0, 1] | None:
        """1: reached, or stalled within 1 cm without a contact that was not there before; 0: kept
        from it; None: no motion to judge.
        """
        if motion.status == WaypointStatus.REACHED:
            return 1
        if motion.status in (WaypointStatus.STALLED, WaypointStatus.FINGER_CONTACT):
            before = {n: arm.hand_contacts for n, arm in began.arms.items()}
            touched_anew = any(mo.loose_contacts(self._state, n) - before[n] for n in self._arms)
            near = motion.errors is not None and motion.errors[0] <= LABEL_STALL_M
            return 1 if near and not touched_anew else 0
        return 0 if motion.status in (WaypointStatus.CONTACT, WaypointStatus.TIMEOUT) else None

    def _move(self, targets: Mapping[str, ClampedTarget]) -> Motion:
        """Servo all targeted arms until they are there, or stall, touch something or time out."""
        self.commands.command_rotation({name: target.rotation for name, target in targets.items()})
        known = self._state.contacts
        progress = mo.MotionProgress()
        for step in range(MOTION_STEPS_MAX + 1):
            errors = self._errors(targets)
            if errors[0] <= REACHED_M and errors[1] <= REACHED_RAD:
                return Motion(WaypointStatus.REACHED, "reached", errors)
            if step == MOTION_STEPS_MAX:
                break
            progress.add(*errors)
            if progress.stalled:
                return self._stall(targets, errors)
            pace = self._ticks_to_go(targets) if len(targets) > 1 else None
            self._step({n: self._servo(n, t, pace) for n, t in targets.items()})
            if fresh := self._state.contacts - known:
                return Motion(
                    WaypointStatus.CONTACT, mo.contact_text(fresh), self._errors(targets), fresh
                )
        return Motion(
            WaypointStatus.TIMEOUT, f"timeout {self._distance_text(targets, errors)}", errors
        )

    def _errors(self, targets: Mapping[str, ClampedTarget]) -> tuple[float, float]:
        """Largest position and rotation error over the targeted arms."""
        tips = {n: self._state.arms[n].T_base_tip for n in targets}
        position = max(norm(t.position_m - tips[n].position_m) for n, t in targets.items())
        rotation = max(angle_between(t.rotation, tips[n].rotation) for n, t in targets.items())
        return position, rotation

    def _ticks_to_go(self, targets: Mapping[str, ClampedTarget]) -> float:
        """How many full steps the arm with the longest way needs, at least one."""
        return max(1.0, *(max(self._steps_of(n, *self._way(n, t))) for n, t in targets.items()))

    def _way(self, arm: str, target: ClampedTarget) -> tuple[Array, Array]:
        """What is left of the motion, and of the turn."""
        tip = self._state.arms[arm].T_base_tip
        return (
            target.position_m - tip.position_m,
            rotation_vector(target.rotation @ tip.rotation.T),
        )

    def _steps_of(self, arm: str, move: Array, turn: Array) -> tuple[float, float]:
        spec = self._arms[arm]
        return norm(move) / spec.max_step_m, norm(turn) / spec.max_step_rad

    def _servo(self, arm: str, target: ClampedTarget, pace: float | None = None) -> ArmCommand:
        """Unity-gain step, as long as a command may be; with `pace` all arms arrive together."""
        spec, (way_m, way_rad) = self._arms[arm], self._way(arm, target)
        if pace is not None:
            way_m, way_rad = way_m / pace, way_rad / pace
        move, turn = shorten(way_m, spec.max_step_m), shorten(way_rad, spec.max_step_rad)
        grip = self.commands.grip[arm]
        return ArmCommand((move[0], move[1], move[2]), (turn[0], turn[1], turn[2]), grip)

    def _stall(self, targets: Mapping[str, ClampedTarget], errors: tuple[float, float]) -> Motion:
        distance = self._distance_text(targets, errors)
        touched = frozenset[Contact]().union(*(mo.loose_contacts(self._state, n) for n in targets))
        if touched:
            text = f"stopped by finger contact {distance}"
            return Motion(WaypointStatus.FINGER_CONTACT, text, errors, touched)
        at_limit = {n: self._state.arms[n].joints_at_limit for n in targets}
        limits = mo.limits_text(at_limit)
        if limits:
            distance = f"joint limit ({limits}), {distance}"
        elif errors[0] <= LABEL_STALL_M and not any(self._arms[n].senses_contact for n in targets):
            distance += ", counted as reached (no force sensing)"
        return Motion(WaypointStatus.STALLED, f"stalled{':' * bool(limits)} {distance}", errors)

    def _distance_text(
        self, targets: Mapping[str, ClampedTarget], errors: tuple[float, float]
    ) -> str:
        """How far a motion stayed from its target, and of several arms which ones did."""
        each = {name: self._errors({name: target}) for name, target in targets.items()}
        return mo.distance_text(errors) + mo.whose_text(each)

    def _drive(self, motion: BaseMotion) -> Motion:
        """Drive the base by a measured amount while the arms hold their pose in the base frame."""
        began, base = self._base(), self._env.spec.base
        assert base is not None
        goal = began @ (motion.forward_m, motion.left_m, motion.turn_rad)
        known = self._state.contacts
        progress = mo.MotionProgress()
        status = WaypointStatus.BASE
        text, fresh = "", frozenset[Contact]()
        for _ in range(MOTION_STEPS_MAX):
            here = self._base()
            error = np.array([goal.x - here.x, goal.y - here.y])
            turn = wrap(goal.yaw - here.yaw)
            if norm(error) <= BASE_REACHED_M and abs(turn) <= BASE_REACHED_RAD:
                break
            progress.add(norm(error), abs(turn))
            if progress.stalled:
                status, text = WaypointStatus.STALLED, "base stalled, "
                break
            velocity = shorten(BASE_GAIN_PER_S * error, base.max_speed_m_s)
            most = base.max_yaw_rate_rad_s
            rate = max(-most, min(most, BASE_GAIN_PER_S * turn))
            self._step({}, PlanarPose(yaw=here.yaw).inverse().apply((*velocity, rate)))
            if fresh := self._state.contacts - known:
                status, text = WaypointStatus.CONTACT, f"{mo.contact_text(fresh)}, "
                break
        else:
            status, text = WaypointStatus.TIMEOUT, "base timeout, "
        if self.steps_left > 0:  # without a velocity: the base brakes before it is measured
            self._step({})
        moved = began.inverse() @ self._base()
        forward, left = round(100 * moved.x), round(100 * moved.y)
        turn = round(math.degrees(moved.yaw))
        text += f"base moved {forward} cm forward, {left} cm left, turned {turn} deg left"
        return Motion(status, text, None, fresh, (moved.x, moved.y, moved.yaw))

    def _base(self) -> PlanarPose:
        assert self._state.base is not None
        return PlanarPose(*self._state.base)

    def _act_grippers(
        self, targets: Mapping[str, ArmTarget]
    ) -> tuple[list[str], dict[str, GripperResult]]:
        """Run the gripper commands of all arms together; returns one note per command, and the
        results of those that ran.
        """
        notes, acting, results = [], {}, {}
        for name, target in targets.items():
            word = target.gripper
            if word == "keep":
                continue
            reason = self._skip_reason(name, word)
            self.commands.command_gripper(name, word, skipped=bool(reason))
            if reason:
                notes.append(self._named(name, f"{word} skipped ({reason})"))
            else:
                acting[name] = word
        if acting:
            openings: list[dict[str, float]] = []
            for k in range(GRIPPER_STEPS_MAX):
                openings.append({n: self._state.arms[n].opening_m for n in acting})
                if k >= GRIPPER_STEPS_MIN:
                    before, now = openings[-1 - GRIPPER_SETTLED_STEPS], openings[-1]
                    if all(abs(now[n] - before[n]) < GRIPPER_SETTLED_M for n in acting):
                        break
                self._step({})
            for name, word in acting.items():
                arm = self._state.arms[name]
                touch = ", finger contact" if arm.finger_contact else ""
                opening = f"opening {100 * max(arm.opening_m, 0.0):.1f} cm{touch}"
                notes.append(self._named(name, f"{word}: {opening}"))
                results[name] = GripperResult(float(arm.opening_m), arm.finger_contact)
        return notes, results

    def _skip_reason(self, name: str, word: Gripper) -> str:
        arm = self._state.arms[name]
        if arm.finger_contact:
            return ""
        if word == "open" and arm.opening_m >= self._arms[name].max_opening_m - OPEN_TOLERANCE_M:
            return "already open"
        closed_before = self.commands.last.get(name) in ("close", "reclose")
        if word == "close" and arm.opening_m < CLOSED_BELOW_M and closed_before:
            return "already closed"
        return ""

    def _named(self, arm: str, text: str) -> str:
        return text if len(self._arms) == 1 else f"{arm} {text}"

    def _step(
        self, arms: Mapping[str, ArmCommand], velocity: tuple[float, float, float] | None = None
    ) -> None:
        """One control step, in which arms without a command hold; the episode may end by it."""
        if self.steps_left <= 0:
            raise _Ended(WaypointStatus.OUT_OF_STEPS)
        hold = {n: ArmCommand(None, gripper=self.commands.grip[n]) for n in self._arms}
        action = self._env.step(Command(hold | dict(arms), velocity))
        self.steps_left -= 1
        self._state = self._env.robot_state()
        success = self._env.success()
        tick = Tick(action, self._state, success, self._waypoint)
        for subscriber in self._subscribers:
            subscriber(tick)
        self._guarded.update(self._state.guard)
        if self._state.stopped:
            raise _Ended(WaypointStatus.GUARD_STOP)
        if success:
            raise _Ended(WaypointStatus.TERMINAL)
        if self._end_now():
            raise _Ended(WaypointStatus.ENDED)

    def _tips(self) -> dict[str, Pose]:
        return {n: s.T_base_tip for n, s in self._state.arms.items()}
