"""`lab.world:TASK`: the toy as a world with several tasks. A task is to lift the left hand by so many centimetres, which differ by task."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from capex.errors import PhysicsDiverged, RigFault
from capex.pose import Array
from capex.worlds import Start, TaskInfo
from capex.worlds.robots import RigEnv
from toy import HOME_M, Toy, ToyEnv

LIFT_CM = {
    "low": 6,
    "high": 14,
    **{f"task{n:02d}": 6 + n for n in range(14)},
    "broken": 5,
    "judged": 5,
    "robot": 5,
    "fixed": 5,
    "deadly": 5,
}
TASKS = {
    name: TaskInfo(name, "Lift", 60, "Lift the left hand.", f"the left tip rose by {cm} cm")
    for name, cm in LIFT_CM.items()
}


FAULTS: list[str] = []  # what stops the robot at its next ticks
NOT_CLEARED: list[str] = []  # what keeps it from being recovered


class LabRecording:
    """Counts marks instead of keeping pictures."""

    def __init__(self, folder: Path):
        self._folder, self._marks = folder, 0
        folder.mkdir()

    def mark(self) -> None:
        self._marks += 1
        (self._folder / "marks").write_text(str(self._marks))

    def close(self) -> None:
        (self._folder / "closed").touch()


class LabEnv(ToyEnv):
    def __init__(self, world: str, task: str):
        self._task = task
        fixed = task == "fixed"
        judge = "operator" if task in ("judged", "robot") else "world"
        super().__init__(
            Toy(arms=("left",), size=(32, 32), judge=judge, mobile=not fixed, depth=not fixed)
        )
        self._spec = replace(
            self._spec, world=world, task=task, horizon=60, starts=200, exact_replay=True
        )
        if task == "robot":
            self._spec = replace(self._spec, real_time=True, can_save=False, records_frames=True)
        self.reset(Start(task, 0))

    def reset(self, start: Start) -> None:
        if getattr(self, "_task", None) == self._spec.task:
            super().reset(start)
        else:
            super().reset(replace(start, task=self._spec.task))

    def apply(self, action: Array) -> None:
        super().apply(action)
        if self._task == "deadly":
            os._exit(9)
        if self._task == "broken":
            raise PhysicsDiverged("the toy broke, as it always does")
        if self._task == "robot" and FAULTS:
            raise RigFault(FAULTS.pop())

    def record_frames(self, folder: Path) -> LabRecording:
        return LabRecording(folder)

    def success(self) -> bool | None:
        if self.toy.judge == "operator":
            return None
        return bool(self._x["left tip"][2] - HOME_M["left"][2] > LIFT_CM[self._task] / 100)


class LabRig(LabEnv, RigEnv):
    """The task of a robot, with the methods of one that is not there."""

    def rig_process(self) -> tuple[str, int]:
        return "lab", os.getpid()

    def person_stops(self) -> list[dict[str, Any]]:
        return []

    def stop(self) -> None: ...

    def recover(self) -> None:
        if NOT_CLEARED:
            raise RigFault(NOT_CLEARED.pop())

    def brake(self) -> None: ...

    def settle(self) -> None: ...

    def latest_images(self, cameras=None, size=None):
        return self.observe(cameras, size)

    def disconnect_behaviour(self) -> dict[str, str]:
        return {}

    def rig_notes(self) -> dict[str, Any]:
        return {}


def make(world: str, task: str) -> LabEnv:
    return LabRig(world, task) if task == "robot" else LabEnv(world, task)
