"""The simulating side of an evaluation: processes that each carry several episodes, without torch.

A worker applies actions, judges success, records, and writes whole episodes; it puts its images
where the acting side reads them.
"""

from __future__ import annotations

import functools
import tempfile
import time
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capex import worlds
from capex.errors import CapexError, PhysicsDiverged
from capex.method.executor import Tick
from capex.method.record import EpisodeRecord
from capex.method.recorder import Recorder
from capex.run import jobs
from capex.run.store import Chain
from capex.worlds import Env, Start

Action = npt.NDArray[np.float64]


@dataclass(frozen=True)
class RolloutPlan:
    """What every worker of an evaluation needs to know."""

    name: str  # WORLD:TASK
    chain: Path
    arm: str
    model: str
    cameras: tuple[str, ...]
    size: int
    horizon: int
    stand_in: bool
    student: Mapping[str, Any]  # goes into every record

    def shape(self, slots: int) -> tuple[int, ...]:
        """Of the images of so many slots."""
        return (slots, len(self.cameras), self.size, self.size, 3)


@dataclass(frozen=True)
class Seen:
    """What a slot shows after a step: proprioception; when the episode is over, how it ended."""

    proprio: npt.NDArray[np.float64]
    instruction: str
    over: bool = False
    success: bool = False
    steps: int = 0
    path: str = ""


class Slot:
    """One episode in progress."""

    def __init__(self, env: Env, plan: RolloutPlan, index: int):
        self.env, self.plan, self.index = env, plan, index
        self.began = time.perf_counter()
        self.start = Start(env.spec.task, index)
        env.reset(self.start)
        self.recorder = Recorder(env)
        self.recorder.begin_plan()
        self.steps, self.error = 0, ""

    def apply(self, action: Action) -> Seen:
        """One control step; the last one writes the episode."""
        success = False
        try:
            self.env.apply(action)
            success = bool(self.env.success())
            self.recorder(Tick(action, self.env.robot_state(), success, 0))
        except PhysicsDiverged as diverged:
            self.error = str(diverged)
        self.steps += 1
        over = success or bool(self.error) or self.steps >= self.plan.horizon
        path = str(self.commit(success)) if over else ""
        return Seen(
            self.env.robot_state().proprio, self.env.instruction, over, success, self.steps, path
        )

    def commit(self, success: bool) -> Path:
        """Write the episode whole."""
        spec, plan = self.env.spec, self.plan
        record = EpisodeRecord(
            world=spec.world,
            task=spec.task,
            arm=plan.arm,
            start=self.index,
            seed=self.start.seed,
            model=plan.model,
            success=success,
            steps=self.steps,
            requests=0,
            cost_usd=None,
            instruction=self.env.instruction,
            horizon=plan.horizon,
            turns=(),
            scene=self.env.scene,
            end="success" if success else "error" if self.error else "horizon",
            error=self.error or None,
            stand_in=plan.stand_in,
            extra={"student": dict(plan.student)},
        )
        timing = {"episode_s": time.perf_counter() - self.began, "unix_time": time.time()}
        return Chain(plan.chain).commit(self.index, record.as_json(), timing, self.recorder.steps)


@dataclass
class Simulation:
    """What a worker does with a message (method, *arguments); every answer is {slot: Seen}."""

    plan: RolloutPlan
    images: Path  # memory-mapped (slots, cameras, size, size, 3)
    slots: int
    _envs: dict[int, Env] = field(default_factory=dict)
    _episodes: dict[int, Slot] = field(default_factory=dict)

    def __call__(self, message: tuple[Any, ...]) -> dict[int, Seen]:
        method, *arguments = message
        answer: dict[int, Seen] = getattr(self, method)(*arguments)
        return answer

    def begin(self, starts: Mapping[int, int]) -> dict[int, Seen]:
        """Reset slots to their starts and show them."""
        seen = {}
        for slot, index in starts.items():
            env = self._envs[slot] = self._envs.get(slot) or worlds.make(self.plan.name)
            self._episodes[slot] = Slot(env, self.plan, index)
            seen[slot] = Seen(env.robot_state().proprio, env.instruction)
        self._show(starts)
        return seen

    def step(self, actions: Mapping[int, Action], show: Container[int]) -> dict[int, Seen]:
        """One control step of each slot; those in `show` that are not over are shown."""
        seen = {slot: self._episodes[slot].apply(action) for slot, action in actions.items()}
        self._show(slot for slot in seen if slot in show and not seen[slot].over)
        return seen

    def _show(self, slots: Iterable[int]) -> None:
        cameras, size = self.plan.cameras, (self.plan.size, self.plan.size)
        for slot in slots:
            views = self._envs[slot].observe(cameras, size)
            for k, camera in enumerate(cameras):
                self._pictures[slot, k] = views[camera]

    @functools.cached_property
    def _pictures(self) -> npt.NDArray[np.uint8]:
        return np.memmap(self.images, np.uint8, "r+", shape=self.plan.shape(self.slots))


class Simulators:
    """The acting side's view of the workers: slot k belongs to worker k modulo their number.
    `images` has what the slots showed last.
    """

    def __init__(self, plan: RolloutPlan, slots: int, processes: int):
        self._folder = tempfile.TemporaryDirectory(prefix="capex-evaluate-")
        path = Path(self._folder.name) / "images"
        self.images = np.memmap(path, np.uint8, "w+", shape=plan.shape(slots))
        self._workers = [jobs.start(Simulation(plan, path, slots)) for _ in range(processes)]

    def begin(self, starts: Mapping[int, int]) -> dict[int, Seen]:
        """Reset slots to their starts."""
        return self._ask("begin", starts)

    def step(self, actions: Mapping[int, Action], show: Container[int]) -> dict[int, Seen]:
        """One control step of each slot; those in `show` put their images where they are read."""
        return self._ask("step", actions, show)

    def _ask(self, method: str, by_slot: Mapping[int, Any], *more: Any) -> dict[int, Seen]:
        asked = []
        for k, worker in enumerate(self._workers):
            if share := {s: v for s, v in by_slot.items() if s % len(self._workers) == k}:
                worker.pipe.send((method, share, *more))
                asked.append(worker)
        return {slot: seen for worker in asked for slot, seen in _receive(worker).items()}

    def __enter__(self) -> Simulators:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.stop()
        self._folder.cleanup()


def _receive(worker: jobs.Worker) -> dict[int, Seen]:
    try:
        seen: dict[int, Seen] = worker.receive()
    except jobs.WorkerDied as death:
        raise CapexError(f"a simulation was lost: {death}") from None
    except RuntimeError as bug:
        raise CapexError(f"a simulating process failed: {str(bug).splitlines()[-1]}") from bug
    return seen
