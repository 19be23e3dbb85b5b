"""The simulated room itself: one clock, the robot, the objects, what cameras see, what goes wrong.

Time is a whole number of simulation steps, so that it never drifts, and only `advance` moves it.
Nothing here knows of connections: the server gives it commands and takes its states.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import mujoco
import numpy as np

from capex.errors import PhysicsDiverged
from capex.pose import Array, Pose
from capex.rigs.twins.arm import CONTROL_STEPS, REFLEX, STEP_S, USER_STOP
from capex.rigs.twins.faults import Fault, Faults
from capex.rigs.twins.scenes import AttemptWatch, RoomScene

GOALS_KEPT = 200_000  # of the log of what the arm was told: the first three hours


class ArmBox(Protocol):
    """The robot of a room with its control box: one arm or several."""

    error: str  # why it does not move

    def settle_at_home(self) -> None:
        """Make the present pose one at which the robot rests."""

    def command(self, goal: Pose, now_s: float) -> None:
        """A goal for the tip."""

    def brake(self, error: str = "") -> None:
        """Stop, with an error; a user stop takes the place of any other."""

    def release(self) -> None:
        """A person has set right what only a person can."""

    def run(self) -> None:
        """Write the controls of the next 10 ms."""

    def feel(self) -> None:
        """After every simulation step."""

    def watch(self, now_s: float) -> None:
        """Every 10 ms, after it was simulated."""

    def state(self) -> tuple[Array, ...]:
        """What it measures now."""


@dataclass(frozen=True)
class StateMessage:
    """What the arm reports every 10 ms."""

    number: int
    time_s: float
    error: str
    values: tuple[Array, ...]


@dataclass(frozen=True)
class Exposure:
    """The moment that a camera took: enough to draw it later, if anyone asks."""

    number: int
    time_s: float
    qpos: Array


class Room:
    """The physics of one scene. Whoever calls it holds one lock."""

    def __init__(
        self,
        scene: RoomScene,
        make_arm: Callable[[mujoco.MjModel, mujoco.MjData], ArmBox],
        task: str,
        fps: float,
        emit: Callable[[StateMessage], None],
    ):
        self.scene, self._make_arm, self._emit = scene, make_arm, emit
        self._fps = fps
        self.faults = Faults()
        self.steps = 0
        self._states = self.exposed = 0
        self._held_back: list[StateMessage] = []
        self.exposures: dict[str, Exposure] = {}
        self.goals = array("d")  # 13 numbers each: time, position, rotation
        self.drop: Callable[[], None] = lambda: None  # closes the arm's connections
        self._build(task)
        self.arrange(task, 0, 0, 0.0)

    def _build(self, task: str) -> None:
        self.task = task
        self.model = self.scene.build(task)
        self.data = mujoco.MjData(self.model)
        self.arm = self._make_arm(self.model, self.data)

    @property
    def now_s(self) -> float:
        """The room's clock."""
        return round(self.steps * STEP_S, 6)

    def arrange(self, task: str, start: int, seed: int, jitter_m: float) -> None:
        """Put the objects where a start has them. Whoever arranges finds the robot at home and at
        rest, unlocks a pressed e-stop and plugs in what was unplugged, so that what follows depends
        on the arguments alone. No time passes.
        """
        if task != self.task:
            self._build(task)
        self.scene.arrange(self.model, self.data, task, start, seed, jitter_m)
        self.arm.settle_at_home()
        watch = self.scene.watch
        self._watch: AttemptWatch | None = watch and watch(self.model, self.data, task)
        self._ticks = self._frames = 0
        self._origin = self.steps  # control and cameras run in step with the arrangement
        self.mend()
        self._expose()
        self.report()

    def refresh(self) -> None:
        """Cameras and states show what somebody has just put elsewhere. No time passes."""
        mujoco.mj_forward(self.model, self.data)
        self._expose()
        self.report()

    def mend(self) -> None:
        """A person sets right what only a person can."""
        self.faults.mend()
        self.arm.release()

    def judge(self) -> tuple[bool, str]:
        """Whether the task is achieved now, and why."""
        if self._watch is not None:
            return self._watch.judge()
        return self.scene.judge(self.model, self.data, self.task)

    def command(self, goal: Pose) -> None:
        """A goal for the tip."""
        self._ticks += 1
        if len(self.goals) < 13 * GOALS_KEPT:
            self.goals.extend((self.now_s, *goal.position_m, *goal.rotation.ravel()))
        self.arm.command(goal, self.now_s)

    def advance(self, steps: int) -> None:
        """Go on to a number of steps since the beginning."""
        while self.steps < steps:
            self.begin_faults()
            if self._control_due():
                self.arm.run()
            count = min(steps, self._next_event()) - self.steps
            for _ in range(count):
                mujoco.mj_step2(self.model, self.data)
                self.arm.feel()
                mujoco.mj_step1(self.model, self.data)
            self.steps += count
            if self._control_due():
                self._require_finite()
                self.arm.watch(self.now_s)
                if self._watch is not None:
                    self._watch.see()
                self.report()
            if self.steps >= self._next_frame():
                self._expose()

    def _control_due(self) -> bool:
        return (self.steps - self._origin) % CONTROL_STEPS == 0

    def _next_event(self) -> int:
        control = self.steps + CONTROL_STEPS - (self.steps - self._origin) % CONTROL_STEPS
        return min(control, self._next_frame())

    def _next_frame(self) -> int:
        """The step at which cameras expose next."""
        return self._origin + math.ceil(self._frames / (self._fps * STEP_S) - 1e-9)

    def _expose(self) -> None:
        self.exposed += 1
        self._frames += 1
        taken = Exposure(self.exposed, self.now_s, self.data.qpos.copy())
        for camera in self.scene.cameras:
            if not (self.faults.on("frozen-frames", camera) and camera in self.exposures):
                self.exposures[camera] = taken

    def report(self) -> None:
        """A state for whoever listens; while states are late, it is kept for later."""
        self.begin_faults()
        values = self.arm.state()
        if self.faults.on("nan-state"):
            values = tuple(np.full_like(value, np.nan) for value in values)
        self._states += 1
        self._held_back.append(StateMessage(self._states, self.now_s, self.arm.error, values))
        if not self.faults.on("late-states"):
            for message in self._held_back:
                self._emit(message)
            self._held_back.clear()

    def begin_faults(self) -> None:
        """Let what is due go wrong, and end what is over."""
        pressed = self.faults.on("e-stop")
        for fault in self.faults.update(self.now_s, self._ticks):
            self._begin(fault)
        if pressed and not self.faults.on("e-stop"):
            self.arm.release()

    def _begin(self, fault: Fault) -> None:
        if fault.kind == "e-stop":
            self.arm.brake(USER_STOP)
        elif fault.kind == "reflex":
            self.arm.brake(REFLEX)
        elif fault.kind == "dropped-connection":
            self.drop()

    def _require_finite(self) -> None:
        if not np.isfinite(self.data.qacc).all():
            raise PhysicsDiverged(f"the simulated room diverged at {self.now_s:.2f} s")
