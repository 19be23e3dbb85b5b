"""The kitchen as Gymnasium environments, for users who bring their own policy (extra `gymnasium`).
Importing this module registers them.

    import gymnasium
    import capex.worlds.gym

    # without the second import: gymnasium.make("capex.worlds.gym:capex/CloseFridge-v0")
    env = gymnasium.make("capex/CloseFridge-v0")
    # or options={"start": 7}; info has the instruction and the start
    observation, info = env.reset(seed=0)
    observation, reward, terminated, truncated, info = env.step(action)

The action is the kitchen's native one, 12 numbers in [-1, 1]. An observation holds the images by
camera name and the `state` of the robot, with continuous quaternions as in datasets. The reward is
1 at success, which ends the episode, else 0; an episode is truncated at the task's horizon.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from capex import worlds
from capex.errors import CapexError, ErrorCode
from capex.worlds import FRESH, Start
from capex.worlds.proprioception import continuous

Observation = dict[str, Any]  # arrays by camera name, and the state
FAR_M = 100.0  # bounds of the state: no robot gets farther


class KitchenGym(gymnasium.Env[Observation, npt.NDArray[np.float32]]):
    """One task. `world` may be kitchen-mixed, `size` is the images' width and height."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012  as gymnasium

    def __init__(
        self,
        task: str,
        world: str = "kitchen",
        size: tuple[int, int] = (256, 256),
        render_mode: str | None = None,
    ):
        self._env = worlds.make(f"{world}:{task}")
        self._size, self._start = size, -1
        self._state: npt.NDArray[np.float64] | None = None  # the one observed last
        self.render_mode = render_mode
        spec = self._env.spec
        picture = gymnasium.spaces.Box(0, 255, (size[1], size[0], 3), np.uint8)
        state = gymnasium.spaces.Box(-FAR_M, FAR_M, (len(spec.state_names),), np.float64)
        self.observation_space = gymnasium.spaces.Dict(
            {**{c.name: picture for c in spec.cameras}, "state": state}
        )
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (len(spec.action_names),), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Reset to the start given in the options, or to one drawn with the seed."""
        super().reset(seed=seed)
        start = (options or {}).get("start")
        self._start = self._drawn() if start is None else int(start)
        self._env.reset(Start(self._env.spec.task, self._start))
        self._state = None
        return self._observe(), self._info(False)

    def _drawn(self) -> int:
        """One of the starts, or of the fresh ones where none is recorded."""
        spec = self._env.spec
        first, count = (0, spec.starts) if spec.starts else (FRESH, spec.fresh)
        return first + int(self.np_random.integers(count))

    def step(
        self, action: npt.NDArray[np.float32]
    ) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Apply one native action for a twentieth of a second."""
        if self._start < 0:
            raise CapexError(
                f"{self._env.spec.name} has no start yet; call reset() first",
                code=ErrorCode.WRONG_ORDER,
            )
        self._env.apply(np.asarray(action, dtype=np.float64))
        success = bool(self._env.success())
        return self._observe(), float(success), success, False, self._info(success)

    def render(self) -> npt.NDArray[np.uint8] | None:
        """The left camera's image."""
        if self.render_mode != "rgb_array":
            return None
        return self._env.observe(["left"], self._size)["left"]

    def close(self) -> None:
        """Free the renderer."""
        self._env.close()

    def _observe(self) -> Observation:
        names, measured = self._env.spec.state_names, self._env.robot_state().proprio
        (self._state,) = continuous(names, measured[None], self._state)
        return {**self._env.observe(size=self._size), "state": self._state}

    def _info(self, success: bool) -> dict[str, Any]:
        return {"success": success, "instruction": self._env.instruction, "start": self._start}


for _task in worlds.tasks("kitchen").values():
    gymnasium.register(
        f"capex/{_task.name}-v0",
        "capex.worlds.gym:KitchenGym",
        max_episode_steps=_task.horizon,
        kwargs={"task": _task.name},
    )
