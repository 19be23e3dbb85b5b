"""A person who drives, as a demonstrator: one message of theirs is one tick, and without a message
nothing moves. Its chains are named WORLD--TASK--human.

In a simulated world time stands still between messages. A rig holds its arms meanwhile, as it does
while a model thinks; on the real clock they are stopped where they are once a key is released, or
its page is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from capex.errors import CapexError, ErrorCode, OperatorLeft, UnknownName
from capex.method.context import Ended, Episode, EpisodeContext
from capex.method.executor import Tick
from capex.method.memory import Memory
from capex.method.motion import shorten
from capex.method.record import EndReason, record_episode
from capex.method.state import Recorder
from capex.models import Model
from capex.worlds import ArmCommand, ArmSpec, Command, Env, RobotState, Spec, Start
from capex.worlds.robots import RigEnv

RELEASED_S = 0.1  # two ticks without a message: the key was released, or its page is gone
WAIT_S = 0.2  # how often a driver who waits for a message looks whether the attempt is to end
STILL = (0.0, 0.0, 0.0)
Triple = tuple[float, float, float]


@dataclass(frozen=True)
class Move:
    """What a person asks of one tick, each number a share of the most that a command may carry."""

    arm: str
    step: Triple = STILL
    turn: Triple = STILL
    base: Triple = STILL  # forward, left, yaw
    gripper: Literal[-1, 0, 1] = 0  # opens, stays as it was told, closes

    def as_json(self) -> dict[str, Any]:
        """What is not left as it is."""
        told = {name: value for name, value in vars(self).items() if name != "arm"}
        return {"arm": self.arm} | {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in told.items()
            if value not in (STILL, 0)
        }


TeleopCommand = Move | Literal["still", "done", "leave"]


class Controls(Protocol):
    """What a person drives by, and sees."""

    def take(self, wait_s: float) -> TeleopCommand | None:
        """What is asked next; None where nothing was within that time. "still": the keys were let
        go; "done": the attempt is over; "leave": it is not to be kept.
        """

    def show(self, env: Env, tick: int) -> None:
        """The present state, before the first tick and after each one. Called in the thread that
        the world belongs to.
        """


@dataclass(frozen=True)
class Teleoperator:
    """A person at controls. No model sees any of it."""

    controls: Controls
    by: str
    device: str = "keyboard"
    name: str = "human"
    stand_in: bool = False
    model: Model | None = None

    def attempt(self, env: Env, start: Start, memory: Memory, context: EpisodeContext) -> Episode:
        """Drive until success, the horizon, or until the person says that it is over."""
        asked = context.clock()
        context.reset(env, start)
        began = context.clock()
        recorder = Recorder(env)
        recorder.begin_plan()
        grips = dict.fromkeys((arm.name for arm in env.spec.arms), 0.0)

        def carry_out(command: Command) -> Tick:
            tick = Tick(env.step(command), env.robot_state(), env.success(), 0)
            recorder(tick)
            context.emit(tick)
            return tick

        end, moves = drive(self.controls, env, grips, env.spec.horizon, carry_out, context.end_now)
        if end == "leave":
            raise OperatorLeft
        success = env.success()
        record = record_episode(
            env,
            start,
            {},
            arm=self.name,
            model=self.name,
            success=success,
            end=EndReason(end),
            steps=len(moves),
            turns=(),
            extensions={"teleoperation": {"by": self.by, "device": self.device}},
        )
        context.emit(Ended(record.end, success))
        return Episode(record, recorder.steps, {}, context.clock() - began, began - asked)


def drive(
    controls: Controls,
    env: Env,
    grips: dict[str, float],
    steps_left: int,
    carry_out: Callable[[Command], Tick],
    end_now: Callable[[], bool] = lambda: False,
) -> tuple[str, list[Move]]:
    """A person drives until success, until no steps are left, or until they say that it is enough:
    why it ended, and what they asked of each tick.
    """
    moves: list[Move] = []
    controls.show(env, 0)
    rig = env if isinstance(env, RigEnv) else None
    moving = False  # towards a goal ahead of the arms
    while True:
        if env.success():
            return "success", moves
        if end_now():
            return "operator", moves
        if len(moves) >= steps_left:
            return "horizon", moves
        move = controls.take(RELEASED_S if moving else WAIT_S)
        if moving and not isinstance(move, Move):
            if rig is not None:
                rig.brake()
            moving = False
        if move == "leave" or move == "done":
            return move, moves
        if isinstance(move, Move):
            tick = carry_out(command_of(env.spec, env.robot_state(), move, grips))
            moves.append(move)
            moving = env.spec.real_time
            controls.show(env, len(moves))
            if tick.state.stopped and rig is not None:  # by the guard, until the arms keep still
                rig.settle()


def read_move(raw: Mapping[str, Any], spec: Spec) -> Move:
    """A move as a page sends it; CapexError where it is none."""
    arms = [arm.name for arm in spec.arms]
    if raw.get("arm", arms[0]) not in arms:
        raise UnknownName("arm", str(raw.get("arm"))[:40], arms)
    if (gripper := raw.get("gripper", 0)) not in (-1, 0, 1):
        raise CapexError(
            f"a gripper is told {str(gripper)[:40]}; valid: -1, 0, 1", code=ErrorCode.BAD_COMMAND
        )
    shares = {name: _shares(name, raw.get(name, STILL)) for name in ("step", "turn", "base")}
    if any(shares["base"]) and spec.base is None:
        raise CapexError(f"{spec.name} has no mobile base", code=ErrorCode.UNSUPPORTED)
    return Move(raw.get("arm", arms[0]), gripper=gripper, **shares)


def _shares(name: str, value: Any) -> Triple:
    whole = isinstance(value, list | tuple) and len(value) == 3
    if whole and all(type(v) in (int, float) and abs(v) <= 1 for v in value):
        return float(value[0]), float(value[1]), float(value[2])
    raise CapexError(
        f"'{name}' is {str(value)[:60]}; three numbers from -1 to 1 are right",
        code=ErrorCode.BAD_COMMAND,
    )


def command_of(spec: Spec, state: RobotState, move: Move, grips: dict[str, float]) -> Command:
    """The command of a move: no longer than an arm allows, not out of its workspace. `grips`: what
    each gripper was told last, kept up to date.
    """
    grips[move.arm] = float(move.gripper) or grips[move.arm]
    commands = {name: ArmCommand(gripper=grip) for name, grip in grips.items()}
    if any((*move.step, *move.turn)):
        (arm,) = (a for a in spec.arms if a.name == move.arm)
        commands[arm.name] = _arm_command(spec, arm, state, move, grips[arm.name])
    base = None
    if spec.base is not None and any(move.base):
        most = spec.base.max_speed_m_s, spec.base.max_speed_m_s, spec.base.max_yaw_rate_rad_s
        base = (move.base[0] * most[0], move.base[1] * most[1], move.base[2] * most[2])
    return Command(commands, base)


def _arm_command(
    spec: Spec, arm: ArmSpec, state: RobotState, move: Move, grip: float
) -> ArmCommand:
    tip = state.arms[arm.name].T_base_tip.position_m
    low, high = np.asarray(spec.workspace_of(arm.name))
    step = np.asarray(shorten(np.asarray(move.step) * arm.max_step_m, arm.max_step_m))
    # A tip outside its box may come back, but go no further out.
    goal = np.clip(tip + step, np.minimum(low, tip), np.maximum(high, tip))
    x, y, z = (float(v) for v in goal - tip)
    turn = shorten(np.asarray(move.turn) * arm.max_step_rad, arm.max_step_rad)
    return ArmCommand((x, y, z), (turn[0], turn[1], turn[2]), grip)
