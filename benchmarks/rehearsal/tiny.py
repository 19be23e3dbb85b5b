"""`rehearsal.tiny:WalkN`: a hand that walks along a line, as a world that costs nearly nothing.

No physics and no scene: it says nothing about manipulation. It is for measuring what a campaign
costs beside its model and its world. A thousand tasks, all alike, so that there may be a thousand
chains; `REQUESTS` acts of `STRIDE_M` reach the goal.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from capex import Pose, Start
from capex.errors import StateMismatch, UnknownName, Unsupported
from capex.pose import DOWN, Array
from capex.worlds import (
    ArmSpec,
    ArmState,
    CameraSpec,
    Command,
    Image,
    RobotState,
    Spec,
    State,
    TaskInfo,
)
from capex.worlds.limits import validate_command

REQUESTS = int(os.environ.get("REHEARSAL_REQUESTS", "37"))  # of a success in the paper
STRIDE_M = 0.04
HORIZON, STARTS = 4000, 1_000_000
ACTIONS = ("x", "y", "z", "rx", "ry", "rz", "grip")
TASKS = {
    f"Walk{k:03d}": TaskInfo(
        f"Walk{k:03d}", "Walk", HORIZON, "Walk to the end.", f"{REQUESTS} strides were made"
    )
    for k in range(1000)
}


class Tiny:
    """The tip's position in metres is the whole state."""

    def __init__(self, world: str, task: str):
        self.spec = Spec(
            world,
            task,
            HORIZON,
            20,
            (ArmSpec("arm", 0.08, max_step_m=0.05, max_step_rad=0.5),),
            (CameraSpec("top", "exterior", (32, 32)),),
            ((-1.0, -1.0, 0.0), (1.0 + STRIDE_M * REQUESTS, 1.0, 1.0)),
            ACTIONS,
            ("x",),
            STARTS,
        )
        self.instruction, self.scene = "Walk to the end.", "line"
        self._start, self._tip_m = Start(task, 0), np.zeros(3)
        self.reset(self._start)

    def reset(self, start: Start) -> None:
        if not 0 <= start.index < STARTS:
            raise UnknownName("start", str(start.index), [self.spec.valid_starts])
        self._start = start
        self._tip_m = np.array([0.0, 0.01 * (start.index % 50), 0.3])

    def robot_state(self) -> RobotState:
        tip_m = self._tip_m.copy()
        return RobotState({"arm": ArmState(Pose(tip_m, DOWN), 0.08)}, proprio=tip_m[:1])

    def step(self, command: Command) -> Array:
        validate_command(self.spec, command)
        arm = command.arms["arm"]
        action = np.array([*(arm.step_m or (0.0, 0.0, 0.0)), *arm.step_rad, arm.gripper])
        self.apply(action)
        return action

    def apply(self, action: Array) -> None:
        self._tip_m = self._tip_m + action[:3]

    def success(self) -> bool:
        return bool(self._tip_m[0] > STRIDE_M * (REQUESTS - 0.5))

    def observe(
        self, cameras: Sequence[str] | None = None, size: tuple[int, int] | None = None
    ) -> dict[str, Image]:
        width, height = size or (32, 32)
        image = np.full((height, width, 3), 230, np.uint8)
        image[:, int(1000 * self._tip_m[0]) % width] = int(100 * self._tip_m[0]) % 200
        return dict.fromkeys(cameras or ("top",), image)

    def camera_model(self, camera: str, size: tuple[int, int] | None = None) -> Any:
        raise Unsupported("the camera of the tiny world is not calibrated")

    depth = camera_model

    def save_state(self) -> State:
        return State(f"{self.spec.name} {self._start.index}", self._tip_m.copy())

    def load_state(self, state: State) -> None:
        if state.header != f"{self.spec.name} {self._start.index}":
            raise StateMismatch(f"a state of {state.header} is none of {self.spec.name}")
        self._tip_m = state.vector.copy()

    def close(self) -> None:
        """Nothing to free."""


make = Tiny
