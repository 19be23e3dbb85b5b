"""`lab.pair:lift`: the toy with two arms. The task is to lift the right hand by 5 cm."""

from __future__ import annotations

from dataclasses import replace

from capex.worlds import Start, TaskInfo
from toy import HOME_M, Toy, ToyEnv

LIFT_M = 0.05
TASKS = {"lift": TaskInfo("lift", "Lift", 200, "Lift the right hand.", "it rose by 5 cm")}


class PairEnv(ToyEnv):
    def __init__(self, world: str, task: str):
        super().__init__(Toy(size=(64, 64), mobile=False))
        self._spec = replace(
            self._spec, world=world, task=task, horizon=200, starts=20, exact_replay=True
        )
        self.reset(Start(task, 0))

    def reset(self, start: Start) -> None:
        super().reset(replace(start, task=self._spec.task))

    def success(self) -> bool:
        return bool(self._x["right tip"][2] - HOME_M["right"][2] > LIFT_M)


def make(world: str, task: str) -> PairEnv:
    return PairEnv(world, task)
