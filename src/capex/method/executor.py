"""The executor: waypoints in, 20 Hz commands out, one Outcome with a report and a reach label per
waypoint.

Written once against the Env protocol. A waypoint is a motion of every arm that has a target,
together, then their gripper commands; or a base motion, then gripper commands. Control returns when
the waypoints end, or one stalls, makes contact, times out or ends the episode. Metres and radians
inside, centimetres and degrees in reports.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from capex.errors import UnknownName, Unsupported
from capex.plan import ArmTarget, BaseMotion, Gripper, Waypoint, orientation_matrix
from capex.pose import Array, PlanarPose, Pose, angle_between, rotation_vector, wrap
from capex.worlds import ArmCommand, Command, Contact, Env, RobotState

DISPLACEMENT_MAX_M = 0.10
REACHED_M, REACHED_RAD = 0.008, 0.08
STALL_WINDOW, STALL_M, STALL_RAD = 40, 0.002, 0.02
MOTION_STEPS_MAX = 200
LABEL_STALL_M = 0.01
GRIPPER_STEPS_MIN, GRIPPER_STEPS_MAX = 10, 20
GRIPPER_SETTLED_M, GRIPPER_SETTLED_STEPS = (
    0.0005,
    5,
)  # less movement than this over so many steps: the fingers have arrived
OPEN_TOLERANCE_M = 0.005
CLOSED_BELOW_M = 0.01
BASE_REACHED_M, BASE_REACHED_RAD = 0.005, 0.01
BASE_GAIN_PER_S = 4.0

Status = Literal[
    "reached",
    "stalled",
    "finger contact",
    "contact",
    "timeout",
    "gripper",
    "base",
    "terminal",
    "out of steps",
    "not executed",
    "deferred",
]
CONTINUES: tuple[Status, ...] = ("reached", "gripper", "base")
GRIPPER_STILL_RUNS: tuple[Status, ...] = (*CONTINUES, "stalled", "finger contact")


@dataclass(frozen=True)
class Tick:
    """One control step as subscribers see it: the native action, the robot after it, whether the
    task is achieved, which waypoint.
    """

    action: Array
    state: RobotState
    success: bool | None
    waypoint: int


@dataclass(frozen=True)
class ClampedTarget:
    """Where an arm is really sent, after shortening and projection into the workspace."""

    position_m: Array
    rotation: Array
    shortened: bool = False
    projected: bool = False


@dataclass(frozen=True)
class Outcome:
    """What became of one waypoint. `label` is the reach label of the paper: 1, 0, or None where
    nothing can be said.
    """

    status: Status
    report: str
    label: Literal[0, 1] | None
    steps: int
    targets: Mapping[str, ClampedTarget]
    tips: Mapping[str, Pose]
    position_error_m: float | None = None
    rotation_error_rad: float | None = None
    contacts: tuple[Contact, ...] = ()
    base_moved: tuple[float, float, float] | None = (
        None  # measured forward, left and turn, in the base frame at its beginning
    )


@dataclass
class _Progress:
    """Best errors so far, position and rotation apart; stalled when neither has improved enough
    over the window.
    """

    position: list[float] = field(default_factory=list)
    rotation: list[float] = field(default_factory=list)

    def add(self, position_m: float, rotation_rad: float) -> None:
        self.position.append(min(position_m, self.position[-1]) if self.position else position_m)
        self.rotation.append(
            min(rotation_rad, self.rotation[-1]) if self.rotation else rotation_rad
        )

    @property
    def stalled(self) -> bool:
        if len(self.position) <= STALL_WINDOW:
            return False
        gained_m = self.position[-1 - STALL_WINDOW] - self.position[-1]
        gained_rad = self.rotation[-1 - STALL_WINDOW] - self.rotation[-1]
        return gained_m < STALL_M and gained_rad < STALL_RAD


class _Ended(Exception):
    def __init__(self, status: Status):
        self.status: Status = status


@dataclass
class _Motion:
    """How the moving part of a waypoint ended."""

    status: Status
    text: str
    errors: tuple[float, float] | None = None
    contacts: tuple[Contact, ...] = ()
    base_moved: tuple[float, float, float] | None = None


class Executor:
    """Runs committed waypoints. Remembers what each hand was last told, so that "keep" and "close"
    mean the same across plans.
    """

    def __init__(
        self,
        env: Env,
        *,
        steps_left: int | None = None,
        subscribers: Sequence[Callable[[Tick], None]] = (),
    ):
        self._env, self._subscribers = env, tuple(subscribers)
        self.steps_left = env.spec.horizon if steps_left is None else steps_left
        self._arms = {arm.name: arm for arm in env.spec.arms}
        self._state = env.robot_state()
        # The sign of the last gripper command is repeated with every step. Before the first one, a
        # gripper that stands open or shut counts as told so, and one in between is left alone.
        self._grip = {n: self._sign_of(n, s.opening_m) for n, s in self._state.arms.items()}
        self._last_gripper: dict[str, Gripper] = {}
        self._told_rotation = {n: s.T_base_tip.rotation for n, s in self._state.arms.items()}
        self._waypoint = 0

    def _sign_of(self, arm: str, opening_m: float) -> float:
        if opening_m >= self._arms[arm].max_opening_m - OPEN_TOLERANCE_M:
            return -1.0
        return 1.0 if opening_m < CLOSED_BELOW_M else 0.0

    def execute(
        self, waypoints: Sequence[Waypoint], deferred: Sequence[Waypoint] = ()
    ) -> list[Outcome]:
        """Run waypoints in order until one stops the plan. The others are reported too: not
        executed, or deferred.
        """
        everything = (*waypoints, *deferred)
        for waypoint in everything:
            self._validate(waypoint)
        self._state = self._env.robot_state()
        targets = self.clamp(everything)
        outcomes: list[Outcome] = []
        stopped = False
        for k, waypoint in enumerate(everything):
            if k >= len(waypoints):
                outcomes.append(
                    self._not_run("deferred", "not executed (deferred: low confidence)", targets[k])
                )
            elif stopped or self.steps_left <= 0:
                outcomes.append(self._not_run("not executed", "not executed", targets[k]))
            else:
                self._waypoint = k
                outcomes.append(self._run(waypoint, targets[k]))
                stopped = outcomes[-1].status not in CONTINUES
        return outcomes

    def clamp(self, waypoints: Sequence[Waypoint]) -> list[dict[str, ClampedTarget]]:
        """Targets as they will be sent: each at most 10 cm from the previous one (the first: from
        the tip), inside the workspace.
        """
        previous = {n: s.T_base_tip.position_m for n, s in self._state.arms.items()}
        rotation = {n: self._kept_rotation(n) for n in self._arms}
        low, high = (np.asarray(corner) for corner in self._env.spec.workspace_m)
        clamped = []
        for waypoint in waypoints:
            row = {}
            for name, target in waypoint.targets.items():
                if target.position_m is None:
                    continue
                wanted = np.asarray(target.position_m, dtype=np.float64)
                leg = wanted - previous[name]
                length = _norm(leg)
                shortened = length > DISPLACEMENT_MAX_M * (1 + 1e-9)
                if shortened:
                    wanted = previous[name] + leg * (DISPLACEMENT_MAX_M / length)
                inside = np.clip(wanted, low, high)
                rotation[name] = orientation_matrix(target.orientation, rotation[name])
                row[name] = ClampedTarget(
                    inside, rotation[name], shortened, _norm(inside - wanted) > 1e-9
                )
                previous[name] = inside
            clamped.append(row)
        return clamped

    def _kept_rotation(self, arm: str) -> Array:
        """What "keep" keeps: the orientation last asked for while the hand still has it, so that
        small errors do not add up.
        """
        told, now = self._told_rotation[arm], self._state.arms[arm].T_base_tip.rotation
        return told if angle_between(told, now) <= REACHED_RAD else now

    def _validate(self, waypoint: Waypoint) -> None:
        for name in waypoint.targets:
            if name not in self._arms:
                raise UnknownName("arm", name, self._arms)
        if waypoint.base is not None and self._env.spec.base is None:
            raise Unsupported(f"{self._env.spec.name} has no mobile base; use arm waypoints only")

    def _run(self, waypoint: Waypoint, targets: dict[str, ClampedTarget]) -> Outcome:
        steps_before, began = self.steps_left, self._state
        motion = _Motion("gripper", "")
        label: Literal[0, 1] | None = None
        notes = _clamp_notes(targets)
        try:
            if waypoint.base is not None:
                motion = self._drive(waypoint.base)
            elif targets:
                motion = self._move(targets)
                label = self._label(
                    motion, began
                )  # before the gripper acts: what it then touches says nothing about the motion
            if motion.status in GRIPPER_STILL_RUNS:
                notes += self._act_grippers(waypoint.targets)
        except _Ended as ended:
            # A motion that was cut short has no label; one that had ended before its gripper
            # command ended the episode keeps its own.
            motion = _Motion(
                ended.status,
                "terminal" if ended.status == "terminal" else "cut short: no control steps left",
            )
        return Outcome(
            status=motion.status,
            report="; ".join(text for text in (motion.text, *notes) if text),
            label=label,
            steps=steps_before - self.steps_left,
            targets=targets,
            tips=self._tips(),
            position_error_m=motion.errors[0] if motion.errors else None,
            rotation_error_rad=motion.errors[1] if motion.errors else None,
            contacts=motion.contacts,
            base_moved=motion.base_moved,
        )

    def _label(self, motion: _Motion, began: RobotState) -> Literal[0, 1] | None:
        if motion.status == "reached":
            return 1
        if motion.status in ("stalled", "finger contact"):
            touched_anew = any(
                _loose_contacts(self._state, n) - began.arms[n].hand_contacts for n in self._arms
            )
            return (
                1
                if motion.errors is not None
                and motion.errors[0] <= LABEL_STALL_M
                and not touched_anew
                else 0
            )
        return 0 if motion.status in ("contact", "timeout") else None

    def _move(self, targets: Mapping[str, ClampedTarget]) -> _Motion:
        """Servo all targeted arms until every one is there, or the motion stops progressing,
        touches with another part, or times out.
        """
        for name, target in targets.items():
            self._told_rotation[name] = target.rotation
        known = self._state.contacts
        progress = _Progress()
        for _ in range(MOTION_STEPS_MAX):
            errors = self._errors(targets)
            if errors[0] <= REACHED_M and errors[1] <= REACHED_RAD:
                return _Motion("reached", "reached", errors)
            progress.add(*errors)
            if progress.stalled:
                return self._stall(targets, errors)
            self._step({n: self._servo(n, t) for n, t in targets.items()})
            if fresh := self._state.contacts - known:
                return _Motion(
                    "contact",
                    _contact_text(fresh),
                    self._errors(targets),
                    tuple(sorted(fresh, key=str)),
                )
        errors = self._errors(targets)
        if errors[0] <= REACHED_M and errors[1] <= REACHED_RAD:
            return _Motion("reached", "reached", errors)
        return _Motion("timeout", f"timeout {_distance_text(errors)}", errors)

    def _errors(self, targets: Mapping[str, ClampedTarget]) -> tuple[float, float]:
        """Largest position and rotation error over the targeted arms."""
        tips = {n: self._state.arms[n].T_base_tip for n in targets}
        position = max(_norm(t.position_m - tips[n].position_m) for n, t in targets.items())
        rotation = max(angle_between(t.rotation, tips[n].rotation) for n, t in targets.items())
        return position, rotation

    def _servo(self, arm: str, target: ClampedTarget) -> ArmCommand:
        """Unity-gain step towards a target, shortened to what one command may carry."""
        tip, spec = self._state.arms[arm].T_base_tip, self._arms[arm]
        move = _shorten(target.position_m - tip.position_m, spec.max_step_m)
        turn = _shorten(rotation_vector(target.rotation @ tip.rotation.T), spec.max_step_rad)
        return ArmCommand((move[0], move[1], move[2]), (turn[0], turn[1], turn[2]), self._grip[arm])

    def _stall(self, targets: Mapping[str, ClampedTarget], errors: tuple[float, float]) -> _Motion:
        distance = _distance_text(errors)
        touched = frozenset[Contact]().union(*(_loose_contacts(self._state, n) for n in targets))
        if touched:
            return _Motion(
                "finger contact",
                f"stopped by finger contact {distance}",
                errors,
                tuple(sorted(touched, key=str)),
            )
        limits = sorted({joint for n in targets for joint in self._state.arms[n].joints_at_limit})
        if limits:
            return _Motion(
                "stalled", f"stalled: joint limit ({', '.join(limits)}), {distance}", errors
            )
        return _Motion("stalled", f"stalled {distance}", errors)

    def _drive(self, motion: BaseMotion) -> _Motion:
        """Drive the base by a measured amount while the arms hold their pose in the base frame."""
        began = self._base()
        base = self._env.spec.base
        assert base is not None
        goal = began @ (motion.forward_m, motion.left_m, motion.turn_rad)
        known = self._state.contacts
        progress = _Progress()
        status: Status = "base"
        text, fresh = "", frozenset[Contact]()
        for _ in range(MOTION_STEPS_MAX):
            x, y, yaw = self._base()
            error = np.array([goal.x - x, goal.y - y])
            turn = wrap(goal.yaw - yaw)
            if _norm(error) <= BASE_REACHED_M and abs(turn) <= BASE_REACHED_RAD:
                break
            progress.add(_norm(error), abs(turn))
            if progress.stalled:
                status, text = "stalled", "base stalled, "
                break
            velocity = _shorten(BASE_GAIN_PER_S * error, base.max_speed_m_s)
            rate = max(
                -base.max_yaw_rate_rad_s, min(base.max_yaw_rate_rad_s, BASE_GAIN_PER_S * turn)
            )
            forward, left, _ = PlanarPose(yaw=yaw).inverse().apply((*velocity, 0.0))
            self._step({}, (forward, left, rate))
            if fresh := self._state.contacts - known:
                status, text = "contact", f"{_contact_text(fresh)}, "
                break
        else:
            status, text = "timeout", "base timeout, "
        if self.steps_left > 0:
            self._step(
                {}
            )  # one step without a velocity: the base brakes before anything is measured
        moved = began.inverse() @ self._base()
        text += (
            f"base moved {round(100 * moved.x)} cm forward, {round(100 * moved.y)} cm left,"
            f" turned {round(math.degrees(moved.yaw))} deg left"
        )
        return _Motion(status, text, None, tuple(sorted(fresh, key=str)), moved)

    def _base(self) -> PlanarPose:
        assert self._state.base is not None
        return PlanarPose(*self._state.base)

    def _act_grippers(self, targets: Mapping[str, ArmTarget]) -> list[str]:
        """Run the gripper commands of all arms together; returns one note per command."""
        notes, acting = [], {}
        for name, target in targets.items():
            word = target.gripper
            if word == "keep":
                continue
            skipped = self._skip_reason(name, word)
            self._last_gripper[name] = word
            if skipped:
                notes.append(self._named(name, f"{word} skipped ({skipped})"))
            else:
                acting[name] = word
                self._grip[name] = 1.0 if word in ("close", "reclose") else -1.0
        if acting:
            openings: list[dict[str, float]] = []
            for k in range(GRIPPER_STEPS_MAX):
                openings.append({n: self._state.arms[n].opening_m for n in acting})
                if k >= GRIPPER_STEPS_MIN and all(
                    abs(openings[-1][n] - openings[-1 - GRIPPER_SETTLED_STEPS][n])
                    < GRIPPER_SETTLED_M
                    for n in acting
                ):
                    break
                self._step({})
            for name, word in acting.items():
                arm = self._state.arms[name]
                touch = ", finger contact" if arm.finger_contact else ""
                notes.append(
                    self._named(
                        name, f"{word}: opening {100 * max(arm.opening_m, 0.0):.1f} cm{touch}"
                    )
                )
        return notes

    def _skip_reason(self, name: str, word: Gripper) -> str:
        arm = self._state.arms[name]
        if (
            word == "open"
            and arm.opening_m >= self._arms[name].max_opening_m - OPEN_TOLERANCE_M
            and not arm.finger_contact
        ):
            return "already open"
        closed_before = self._last_gripper.get(name) in ("close", "reclose")
        if (
            word == "close"
            and arm.opening_m < CLOSED_BELOW_M
            and closed_before
            and not arm.finger_contact
        ):
            return "already closed"
        return ""

    def _named(self, arm: str, text: str) -> str:
        return text if len(self._arms) == 1 else f"{arm} {text}"

    def _step(
        self,
        arms: Mapping[str, ArmCommand],
        base_velocity: tuple[float, float, float] | None = None,
    ) -> None:
        """One control step; arms without a command hold their last goal. Ends the episode on
        success or when no step is left.
        """
        if self.steps_left <= 0:
            raise _Ended("out of steps")
        commands = {n: arms.get(n) or ArmCommand(None, gripper=self._grip[n]) for n in self._arms}
        action = self._env.step(Command(commands, base_velocity))
        self.steps_left -= 1
        self._state = self._env.robot_state()
        success = self._env.success()
        tick = Tick(action, self._state, success, self._waypoint)
        for subscriber in self._subscribers:
            subscriber(tick)
        if success:
            raise _Ended("terminal")

    def _tips(self) -> dict[str, Pose]:
        return {n: s.T_base_tip for n, s in self._state.arms.items()}

    def _not_run(
        self, status: Status, report: str, targets: Mapping[str, ClampedTarget]
    ) -> Outcome:
        return Outcome(status, report, None, 0, targets, self._tips())


def _loose_contacts(state: RobotState, arm: str) -> frozenset[Contact]:
    """What a hand touches, other than a thing held between both fingers."""
    held = state.arms[arm].held
    return frozenset(c for c in state.arms[arm].hand_contacts if c.thing not in held)


def _contact_text(contacts: frozenset[Contact]) -> str:
    pairs = sorted(f"{c.part} on {c.thing}" if c.thing else c.part for c in contacts)
    return f"stopped by contact ({', '.join(pairs)})"


def _distance_text(errors: tuple[float, float]) -> str:
    turn = f" and {math.degrees(errors[1]):.0f} deg" if errors[1] > REACHED_RAD else ""
    return f"{100 * errors[0]:.1f} cm{turn} from target"


def _clamp_notes(targets: Mapping[str, ClampedTarget]) -> list[str]:
    notes = []
    if any(t.shortened for t in targets.values()):
        notes.append("shortened to 10 cm")
    if any(t.projected for t in targets.values()):
        notes.append("moved into the workspace")
    return notes


def _norm(v: Array) -> float:
    return math.sqrt(float((v * v).sum()))


def _shorten(v: Array, limit: float) -> list[float]:
    """The vector, shortened to at most `limit`."""
    length = _norm(v)
    return [float(c) for c in (v if length <= limit else v * (limit / length))]
