"""The simulating side of an evaluation: processes that each carry several episodes, without torch.

A worker applies actions, judges success, records, and writes whole episodes; it puts its images
where the acting side reads them.
"""

from __future__ import annotations

import functools
import math
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capex import worlds
from capex.errors import CapexError, ErrorCode, PhysicsDiverged
from capex.method.context import NO_CONTEXT, Ended, Episode, EpisodeContext
from capex.method.executor import Tick
from capex.method.record import EndReason, record_episode
from capex.method.state import Recorder
from capex.processes import Worker, WorkerDied, set_niceness
from capex.run import LoadedEpisode, jobs
from capex.run.store import Chain
from capex.run.summary import STUDENT, Summary, summarize
from capex.run.writing import Timing
from capex.worlds import Env, Image, RobotState, Start
from capex.worlds.proprioception import continuous
from capex.worlds.robots import RigEnv

Array = npt.NDArray[np.float64]
Action = Array

NICENESS = 5  # a worker gives way to the acting side, for which many wait


def _says_nothing(instruction: str) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True)
class RolloutPlan:
    """What every worker of an evaluation needs to know."""

    name: str  # WORLD:TASK
    chain: Path
    arm: str
    model: str
    cameras: tuple[str, ...]
    size: tuple[int, int]  # width, height
    horizon: int
    stand_in: bool
    student: Mapping[str, Any]  # goes into every record
    hearing: Callable[[str], Mapping[str, str]] = _says_nothing  # about an instruction, too
    looks: int = 1  # of so many observations at a time the images are shown

    def shape(self, slots: int) -> tuple[int, ...]:
        """Of the images of so many slots."""
        width, height = self.size
        return (slots, self.looks, len(self.cameras), height, width, 3)


@dataclass(frozen=True)
class SlotView:
    """What a slot shows after its steps; when the episode is over, how it ended."""

    proprio: Sequence[Array]  # of each look, the present one last
    instruction: str
    ended: Summary | None = None


class Rollout:
    """One episode in progress: actions in, an Episode when it is over. Where a person judges, only
    the horizon or the operator ends it.
    """

    def __init__(
        self, env: Env, plan: RolloutPlan, start: Start, context: EpisodeContext = NO_CONTEXT
    ):
        self.env, self._plan, self._start, self._context = env, plan, start, context
        asked = context.clock()
        context.reset(env, start)
        self._began = context.clock()
        self._reset_s = self._began - asked
        self._recorder = Recorder(env)
        self._recorder.begin_plan()
        self._steps = 0
        self._seen: Array | None = None  # proprioception of the last state
        self._follow(env.robot_state())

    @property
    def proprio(self) -> Array:
        """What the policy gets of the present state: proprioception as datasets have it."""
        return self._follow(self.env.robot_state())

    def _follow(self, state: RobotState) -> Array:
        (self._seen,) = continuous(self.env.spec.state_names, state.proprio[None], self._seen)
        return self._seen

    def apply(self, action: Action) -> Episode | None:
        """One control step; the last one returns the episode. Where a rig's guard stops the arms,
        the policy goes on once they keep still.
        """
        success, error = None if self._judged else False, ""
        if not self._steps:
            self._began = self._context.clock()
        try:
            self.env.apply(action)
            state, success = self.env.robot_state(), self._succeeded()
            self._follow(state)
            tick = Tick(action, state, success, 0)
            self._recorder(tick)
            self._context.emit(tick)
            if state.stopped and isinstance(self.env, RigEnv):
                self.env.settle()
        except PhysicsDiverged as diverged:
            error = str(diverged)
        self._steps += 1
        ended = self._ended(success, error)
        return self._episode(ended, success, error) if ended else None

    def _succeeded(self) -> bool | None:
        return None if self._judged else bool(self.env.success())

    @property
    def _judged(self) -> bool:
        """Whether a person judges the episode when it is over."""
        return self.env.spec.success == "operator"

    def _ended(self, success: bool | None, error: str) -> EndReason | None:
        """Why the episode is over, if it is."""
        if success or error:
            return EndReason.SUCCESS if success else EndReason.ERROR
        if self._context.end_now():
            return EndReason.OPERATOR
        return EndReason.HORIZON if self._steps >= self._plan.horizon else None

    def _episode(self, ended: EndReason, success: bool | None, error: str) -> Episode:
        record = record_episode(
            self.env,
            self._start,
            {},
            arm=self._plan.arm,
            model=self._plan.model,
            success=success,
            steps=self._steps,
            horizon=self._plan.horizon,
            turns=(),
            end=ended,
            stand_in=self._plan.stand_in,
            extensions={
                STUDENT: dict(self._plan.student),
                **self._plan.hearing(self.env.instruction),
                **({"error": error} if error else {}),
            },
        )
        self._context.emit(Ended(ended, success))
        seconds = self._context.clock() - self._began
        return Episode(record, self._recorder.steps, {}, seconds, self._reset_s)


@dataclass
class Spent:
    """Where the seconds of a rollout went; the rest of its wall time was waiting for others."""

    physics_s: float = 0.0  # with judging and recording
    drawing_s: float = 0.0
    network_s: float = 0.0


@dataclass
class Simulation:
    """What a worker does with a message (method, *arguments); every answer is {slot: SlotView}."""

    plan: RolloutPlan
    images: Path  # memory-mapped (slots, looks, cameras, height, width, 3)
    slots: int
    _envs: dict[int, Env] = field(default_factory=dict)
    _rollouts: dict[int, Rollout] = field(default_factory=dict)
    _spent: dict[int, Spent] = field(default_factory=dict)

    def __call__(self, message: tuple[Any, ...]) -> dict[int, SlotView]:
        method, *arguments = message
        answer: dict[int, SlotView] = getattr(self, method)(*arguments)
        return answer

    def begin(self, starts: Mapping[int, int]) -> dict[int, SlotView]:
        """Reset slots to their starts and show them."""
        if not self._envs:
            set_niceness(NICENESS)
        seen = {}
        for slot, index in starts.items():
            self._spent[slot] = Spent()
            env = self._envs[slot] = self._envs.get(slot) or worlds.make(self.plan.name)
            rollout = self._rollouts[slot] = Rollout(env, self.plan, Start(env.spec.task, index))
            seen[slot] = SlotView([rollout.proprio], env.instruction)
        self._show(list(starts))
        self._spent |= {slot: Spent() for slot in starts}  # counted from the first step on
        return seen

    def move(
        self, moves: Mapping[int, tuple[Sequence[Action], int]], network_s: float
    ) -> dict[int, SlotView]:
        """A control step for each action of a slot, until its episode is over; the number beside
        them: how many of the last steps it shows. `network_s`: what choosing them took.
        """
        left = {slot: deque(actions) for slot, (actions, _) in moves.items()}
        looks = {slot: looks for slot, (_, looks) in moves.items()}
        states: dict[int, list[Array]] = {slot: [] for slot in moves}
        ended: dict[int, Summary] = {}
        for slot in moves:
            self._spent[slot].network_s += network_s
        for later in reversed(range(max(1, *looks.values()))):  # looks that come after this one
            for slot in [slot for slot in moves if slot not in ended]:
                if (episode := self._apply(slot, left[slot], later)) is not None:
                    ended[slot] = self._commit(episode, self._spent[slot])
                if later < max(1, looks[slot]):
                    states[slot].append(self._rollouts[slot].proprio)
            self._show([s for s in moves if later < looks[s] and s not in ended], later)
        return {
            slot: SlotView(states[slot], self._envs[slot].instruction, ended.get(slot))
            for slot in moves
        }

    def _apply(self, slot: int, actions: deque[Action], until: int) -> Episode | None:
        """Take actions until so many are left or the episode is over."""
        began, episode = time.perf_counter(), None
        while len(actions) > until and episode is None:
            episode = self._rollouts[slot].apply(actions.popleft())
        self._spent[slot].physics_s += time.perf_counter() - began
        return episode

    def _commit(self, episode: Episode, spent: Spent) -> Summary:
        """Write an episode whole."""
        chain, record = Chain(self.plan.chain), episode.record
        busy = spent.physics_s + spent.drawing_s + spent.network_s
        timing = Timing(
            episode_s=episode.seconds,
            reset_s=episode.reset_s,
            unix_time=time.time(),
            waiting_s=max(0.0, episode.seconds - busy),
            **vars(spent),
        )
        path = chain.commit(record.start, record.as_json(), timing, episode.steps)
        return summarize(LoadedEpisode(chain.path.name, path, record, timing))

    def _show(self, slots: Sequence[int], later: int = 0) -> None:
        """Put what slots look like where it is read; `later`: how many looks follow this one."""
        began, cameras = time.perf_counter(), self.plan.cameras
        envs = [self._envs[slot] for slot in slots]
        views = look(envs, cameras, self.plan.size, alone=True)
        for slot, seen in zip(slots, views, strict=True):
            for k, camera in enumerate(cameras):
                self._pictures[slot, -1 - later, k] = seen[camera]
        took = time.perf_counter() - began
        for slot in slots:
            self._spent[slot].drawing_s += took / len(slots)

    @functools.cached_property
    def _pictures(self) -> npt.NDArray[np.uint8]:
        return np.memmap(self.images, np.uint8, "r+", shape=self.plan.shape(self.slots))


def look(
    envs: Sequence[Env], cameras: Sequence[str], size: tuple[int, int], *, alone: bool = False
) -> list[dict[str, Image]]:
    """What each of several worlds shows. Those whose class has a `shot`, the views that `observe`
    would show, are drawn together. `alone`: nobody but this thread draws in this process.
    """
    if not envs or not all(hasattr(type(env), "shot") for env in envs):
        return [env.observe(cameras, size) for env in envs]
    from capex.worlds.render import draw_here, take  # OpenGL, which other worlds do without

    if alone:
        draw_here()
    drawn: list[Any] = list(envs)
    return take([env.shot(cameras, size) for env in drawn])


class Simulators:
    """The acting side's view of the workers: slot k belongs to worker k modulo their number.
    `images` has what the slots showed last. A worker may be asked again before it has answered; it
    takes the questions in turn.
    """

    def __init__(self, plan: RolloutPlan, slots: int, processes: int):
        self.slots = slots
        needed = int(np.prod(plan.shape(slots)))
        self._folder = tempfile.TemporaryDirectory(
            prefix="capex-evaluate-", dir=memory_folder(needed)
        )
        path = Path(self._folder.name) / "images"
        self.images = np.memmap(path, np.uint8, "w+", shape=plan.shape(slots))
        self._workers = [jobs.start(Simulation(plan, path, slots)) for _ in range(processes)]
        # While a worker's one half is acted for, it moves the other one.
        self._together = math.ceil(slots / processes / 2)

    def begin(self, starts: Mapping[int, int]) -> None:
        """Ask to reset slots to their starts."""
        self._send("begin", starts)

    def move(self, moves: Mapping[int, tuple[Sequence[Action], int]], network_s: float) -> None:
        """Ask for a control step for each action of each slot; see `Simulation.move`."""
        self._send("move", moves, network_s)

    def receive(self, timeout_s: float | None = None) -> dict[int, SlotView]:
        """What the slots show of all workers that have answered meanwhile; waits for one, but no
        longer than this.
        """
        answered = set(wait([worker.pipe for worker in self._workers], timeout_s))
        seen: dict[int, SlotView] = {}
        for worker in self._workers:
            if worker.pipe in answered:
                seen |= _receive(worker)
        return seen

    def _send(self, method: str, by_slot: Mapping[int, Any], *more: Any) -> None:
        for k, worker in enumerate(self._workers):
            share = [(s, v) for s, v in by_slot.items() if s % len(self._workers) == k]
            for first in range(0, len(share), self._together):
                part = dict(share[first : first + self._together])
                _tell(worker, (method, part, *more))

    def __enter__(self) -> Simulators:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.process.terminate()
        for worker in self._workers:
            worker.stop()
        self._folder.cleanup()


def memory_folder(needed: int) -> str | None:
    """Where files of so many bytes are memory that processes share, not a disk's; None: nowhere."""
    shared = Path("/dev/shm")
    try:
        free = shutil.disk_usage(shared).free
    except OSError:
        return None
    return str(shared) if free > 2 * needed else None


def _tell(worker: Worker, message: tuple[Any, ...]) -> None:
    try:
        worker.send(message)
    except WorkerDied as death:
        raise CapexError(f"a simulation was lost: {death}", code=ErrorCode.WORKER_DIED) from None


def _receive(worker: Worker) -> dict[int, SlotView]:
    try:
        seen: dict[int, SlotView] = worker.receive()
    except WorkerDied as death:
        raise CapexError(f"a simulation was lost: {death}", code=ErrorCode.WORKER_DIED) from None
    except RuntimeError as bug:
        raise CapexError(
            f"a simulating process failed: {str(bug).splitlines()[-1]}", code=ErrorCode.JOB_FAILED
        ) from bug
    return seen
