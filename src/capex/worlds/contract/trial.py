"""What the rules of `check` share: a world at its start, repeatable commands, bits to compare."""

from __future__ import annotations

import hashlib
import inspect
import linecache
import math
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import FrameType

import numpy as np

from capex.pose import Array, Pose
from capex.worlds import ArmCommand, ArmSpec, Command, Env, EnvFactory, Spec, Start, State

SLOW_STEP_M = 0.005  # a tick beside people: 10 cm a second at 20 Hz
PIXELS = (128, 96)  # width, height of the images whose bits are compared
RULES_AT = str(Path(__file__).parent)
SHOWN = 200  # characters of an argument
Bits = tuple[str, dict[str, str]]  # SHA-256 of the state, and of each camera's image


class BrokenRuleError(Exception):
    """A claim that does not hold, as one sentence."""


class NotClaimedError(Exception):
    """Something that the spec does not claim, as one sentence."""


def require(holds: bool, sentence: str) -> None:
    """Refuse a claim that does not hold."""
    if not holds:
        raise BrokenRuleError(sentence)


def refuses(error: type[Exception], call: Callable[..., object], *arguments: object) -> bool:
    """Whether a call raises that error."""
    try:
        call(*arguments)
    except error:
        return True
    return False


def describe_error(error: Exception, rule_file: str = __file__) -> str:
    """What a world raised, in one sentence: the call of it that failed, with its arguments, and
    where in its file. Where the world returned and a rule could not use what it got, the rule's own
    line. `rule_file`: where the rule is, if not among these.
    """
    frames = list(traceback.walk_tb(error.__traceback__))
    rules = (RULES_AT, rule_file)
    ours = max(k for k, (f, _) in enumerate(frames) if f.f_code.co_filename.startswith(rules))
    raised = f"raised {type(error).__name__}: {error}"
    if ours + 1 == len(frames):
        frame, line = frames[ours]
        code = linecache.getline(frame.f_code.co_filename, line).strip()
        return f"`{code}` {raised}, with {_arguments(frame)}"
    call, _ = frames[ours + 1]
    file = call.f_code.co_filename
    line = [line for frame, line in frames if frame.f_code.co_filename == file][-1]
    name, of = call.f_code.co_name, call.f_locals.get("self")
    called = name if of is None else f"{type(of).__name__}.{name}"
    return f"{called}({_arguments(call)}) {raised} ({Path(file).name}, line {line})"


def _arguments(frame: FrameType) -> str:
    """Of a call, but for self; each shortened."""
    given = inspect.getargvalues(frame)
    names = [name for name in given.args if name != "self" and name in given.locals]
    return ", ".join(f"{name}={_short(given.locals[name])}" for name in names)


def _short(value: object) -> str:
    try:
        text = " ".join(repr(value).split())
    except Exception:  # of a class of the world's own
        text = f"a {type(value).__name__}"
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


@dataclass(frozen=True)
class WorldTrial:
    """A world under test, the start that its rules begin from, and the length of a rollout."""

    env: Env
    factory: EnvFactory | None
    start: Start
    ticks: int
    _begun: list[State] = field(default_factory=list)  # the state at the start, once it is known

    @property
    def spec(self) -> Spec:
        """The world's claims."""
        return self.env.spec

    def begin(self) -> None:
        """Back to the start, where the world can; otherwise continue from wherever it is. A world
        that saves states is reset once and then loads its start: a kitchen may take ten seconds to
        build.
        """
        if self._begun:
            self.env.load_state(self._begun[0])
        elif self.spec.can_reset:
            self.reset()
            if self.spec.can_save:
                self._begun.append(self.env.save_state())

    def reset(self) -> None:
        """Build the start anew."""
        self.env.reset(self.start)

    def begin_exactly(self) -> None:
        """Back to the start for a rule about equal bits; not claimed where nothing repeats."""
        if self.spec.real_time or not self.spec.can_reset:
            raise NotClaimedError(
                "a world in real time, or one that cannot reset, does not repeat itself to the bit"
            )
        if self.spec.records_frames:
            raise NotClaimedError("a person arranges its starts, so none repeats itself to the bit")
        self.reset()

    def seconds(self, duration_s: float) -> int:
        """That many seconds in control ticks, at least one."""
        return max(1, round(duration_s * self.spec.control_hz))

    def script(self, seed: int) -> list[Command]:
        """`ticks` small pseudo-random commands: steps, holds, gripper, and base motion."""
        random = Random(seed)

        def vector(length: float) -> tuple[float, float, float]:
            a, b, c = ((2 * random.random() - 1) * length / math.sqrt(3) for _ in range(3))
            return a, b, c

        commands = []
        for tick in range(self.ticks):
            base = self.spec.base if tick % 5 == 4 else None
            hold = base is not None or tick % 7 == 6
            arms = {
                arm.name: ArmCommand(
                    step_m=None if hold else vector(min(0.4 * arm.max_step_m, 0.02)),
                    step_rad=(0.0, 0.0, 0.0) if hold else vector(min(0.4 * arm.max_step_rad, 0.1)),
                    gripper=(-1.0, 0.0, 1.0)[int(3 * random.random())],
                )
                for arm in self.spec.arms
            }
            (x, y, yaw), velocity = vector(0.3), None
            if base:
                speed = base.max_speed_m_s
                velocity = (x * speed, y * speed, yaw * base.max_yaw_rate_rad_s)
            commands.append(Command(arms, velocity))
        return commands

    def run(self, commands: Iterable[Command]) -> list[Array]:
        """Run commands and return the native actions."""
        return [self.env.step(command) for command in commands]

    def command(self, arm: str = "", of_arm: ArmCommand | None = None) -> Command:
        """A command for one arm while every other holds; by default all hold."""
        return Command(
            {a.name: of_arm if of_arm and a.name == arm else ArmCommand() for a in self.spec.arms}
        )

    def tip(self, arm: str) -> Pose:
        """The present tip pose of an arm."""
        return self.env.robot_state().arms[arm].T_base_tip

    def hold(self, duration_s: float) -> None:
        """Hold every arm for a while."""
        self.run([self.command()] * self.seconds(duration_s))

    def rest(self) -> None:
        """Hold until the arms have come to rest; real ones may lag behind their goals."""
        self.hold(1.0 if self.spec.records_frames else 0.25)

    def grip(self, arm: str, gripper: float) -> None:
        """Open (-1) or close (+1) one gripper for a second, the time the executor gives it."""
        self.run([self.command(arm, ArmCommand(gripper=gripper))] * self.seconds(1.0))

    def move(self, arm: ArmSpec, by_m: Array) -> None:
        """Servo one tip by a displacement, as the executor does, for at most 3 s; let it settle."""
        begun = self.tip(arm.name).position_m
        goal = begun + by_m
        for tick in range(self.seconds(3.0)):
            if np.linalg.norm(goal - self.tip(arm.name).position_m) < 0.004:
                break
            step = self.step_to(arm, self.on_the_way(begun, by_m, tick))
            self.env.step(self.command(arm.name, ArmCommand(step_m=step)))
        self.rest()

    def on_the_way(self, begun_m: Array, by_m: Array, tick: int) -> Array:
        """Where to lead a tip at a tick of a motion: to its end, and slowly beside people."""
        part = 1.0
        if self.spec.records_frames:
            part = min(1.0, (tick + 1) * SLOW_STEP_M / max(float(np.linalg.norm(by_m)), 1e-9))
        return np.asarray(begun_m + part * by_m)

    def step_to(self, arm: ArmSpec, goal_m: Array) -> tuple[float, float, float]:
        """The step towards a place, no longer than the arm allows."""
        error = goal_m - self.tip(arm.name).position_m
        x, y, z = error * min(1.0, 0.99 * arm.max_step_m / max(float(np.linalg.norm(error)), 1e-9))
        return float(x), float(y), float(z)

    def room(self, arm: str, axis: int) -> float:
        """+1 or -1: along x and y to the middle of the workspace; along z up, if that is inside."""
        (lower, upper), tip = self.spec.workspace_of(arm), self.tip(arm).position_m
        limit = upper[2] - 0.1 if axis == 2 else 0.5 * (lower[axis] + upper[axis])
        return 1.0 if tip[axis] <= limit else -1.0

    def state(self) -> str:
        """SHA-256 of the saved state, where there is one, and of proprioception."""
        digest = hashlib.sha256()
        if self.spec.can_save:
            saved = self.env.save_state()
            digest.update(saved.header.encode() + saved.vector.tobytes())
        robot = self.env.robot_state()
        for name, arm in sorted(robot.arms.items()):
            pose, touched = arm.T_base_tip, sorted(map(repr, arm.hand_contacts))
            numbers = np.concatenate([pose.position_m, pose.rotation.ravel(), [arm.opening_m]])
            digest.update(numbers.astype(np.float64).tobytes())
            digest.update(repr((name, touched, sorted(arm.held), arm.joints_at_limit)).encode())
        base = robot.base and [float(b) for b in robot.base]
        digest.update(repr((sorted(map(repr, robot.contacts)), base)).encode())
        digest.update(np.asarray(robot.proprio, dtype=np.float64).tobytes())
        return digest.hexdigest()

    def bits(self) -> Bits:
        """The digests of the state and of the image of every camera."""
        state, images = self.state(), self.env.observe(size=PIXELS)
        return state, {n: hashlib.sha256(i.tobytes()).hexdigest() for n, i in images.items()}


def cm(length_m: float) -> str:
    """A length for a sentence."""
    return f"{100 * length_m:.1f} cm"


def require_same_bits(expected: Bits, found: Bits, when: str) -> None:
    """Refuse a state or images that differ, naming their cameras."""
    require(expected[0] == found[0], f"the state differs {when}")
    a, b = expected[1], found[1]
    different = sorted(name for name in a.keys() | b.keys() if a.get(name) != b.get(name))
    require(not different, f"the images of {', '.join(different)} differ {when}")
