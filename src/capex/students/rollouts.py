"""The simulating side of an evaluation: processes that each carry several episodes, without torch.

A worker applies actions, judges success, records, and writes whole episodes; it puts its images
where the acting side reads them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capex import worlds
from capex.errors import PhysicsDiverged
from capex.method.executor import Tick
from capex.method.record import EpisodeRecord
from capex.method.recorder import Recorder
from capex.run.store import Chain
from capex.worlds import Env, Start


@dataclass(frozen=True)
class Plan:
    """What every worker of an evaluation needs to know."""

    name: str  # WORLD:TASK
    chain: Path
    arm: str
    model: str
    cameras: tuple[str, ...]
    size: int
    images: Path  # memory-mapped (slots, cameras, size, size, 3)
    slots: int
    horizon: int
    stand_in: bool
    student: Mapping[str, Any]  # goes into every record


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

    def __init__(self, env: Env, plan: Plan, index: int):
        self.env, self.plan, self.index = env, plan, index
        self.began = time.perf_counter()
        self.start = Start(env.spec.task, index)
        env.reset(self.start)
        self.recorder = Recorder(env)
        self.recorder.begin_plan()
        self.steps, self.error = 0, ""

    def apply(self, action: npt.NDArray[np.float64]) -> Seen:
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


def work(pipe: Connection, plan: Plan) -> None:
    """A worker's life: ("begin", {slot: start}) and ("step", {slot: action}, slots to show) until
    None; answers {slot: Seen}.
    """
    worlds.draw_on_one_core()
    images = np.memmap(
        plan.images,
        dtype=np.uint8,
        mode="r+",
        shape=(plan.slots, len(plan.cameras), plan.size, plan.size, 3),
    )
    envs: dict[int, Env] = {}
    held: dict[int, Slot] = {}
    try:
        while (message := pipe.recv()) is not None:
            seen: dict[int, Seen] = {}
            show: Sequence[int] = ()
            if message[0] == "begin":
                for slot, index in message[1].items():
                    envs[slot] = envs.get(slot) or worlds.make(plan.name)
                    held[slot] = Slot(envs[slot], plan, index)
                    seen[slot] = Seen(envs[slot].robot_state().proprio, envs[slot].instruction)
                show = list(message[1])
            else:
                for slot, action in message[1].items():
                    seen[slot] = held[slot].apply(action)
                show = [s for s in message[2] if not seen[s].over]
            for slot in show:
                found = envs[slot].observe(plan.cameras, (plan.size, plan.size))
                for k, camera in enumerate(plan.cameras):
                    images[slot, k] = found[camera]
            pipe.send(seen)
    except (EOFError, KeyboardInterrupt):
        pass
    except (
        Exception
    ) as error:  # whatever went wrong, the acting side must hear of it rather than wait
        pipe.send(error)
    finally:
        for env in envs.values():
            env.close()
