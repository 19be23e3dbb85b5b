"""What an episode leaves behind at 20 Hz. Subscribes to the executor; the loop knows nothing
of it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from capex.method.executor import Tick
from capex.pose import Array
from capex.worlds import Env


class Recorder:
    """Collects native actions, complete states and proprioception, tick by tick."""

    def __init__(self, env: Env):
        self._env = env
        self._saves = env.spec.can_save
        self._header = env.save_state().header if self._saves else ""
        self._actions: list[Array] = []
        self._states: list[Array] = [self._vector()]
        self._proprio: list[Array] = [env.robot_state().proprio]
        self._decision: list[int] = []
        self._waypoint: list[int] = []
        self._plan_starts: list[int] = []

    def _vector(self) -> Array:
        return self._env.save_state().vector if self._saves else np.zeros(0)

    def preload(self, steps: Mapping[str, Array], ticks: int, plans: int) -> None:
        """Begin with the first ticks and plans of another recording of this start."""
        self._actions = list(steps["actions"][:ticks])
        self._states = list(steps["states"][: ticks + 1])
        self._proprio = list(steps["proprio"][: ticks + 1])
        self._decision = [int(d) for d in steps["decision"][:ticks]]
        self._waypoint = [int(w) for w in steps["waypoint"][:ticks]]
        self._plan_starts = [int(p) for p in steps["plan_starts"][:plans]]

    def begin_plan(self) -> None:
        """Mark the present state as the start of a decision's plan."""
        self._plan_starts.append(len(self._actions))

    def __call__(self, tick: Tick) -> None:
        self._actions.append(tick.action)
        self._states.append(self._vector())
        self._proprio.append(tick.state.proprio)
        self._decision.append(len(self._plan_starts) - 1)
        self._waypoint.append(tick.waypoint)

    @property
    def steps(self) -> dict[str, Array]:
        """Arrays for steps.npz: T actions, T+1 states and proprioceptions, and where each plan
        begins in them.
        """
        names = self._env.spec.action_names
        return {
            "actions": np.array(self._actions).reshape(len(self._actions), len(names)),
            "states": np.array(self._states),
            "proprio": np.array(self._proprio),
            "decision": np.array(self._decision, dtype=np.int64),
            "waypoint": np.array(self._waypoint, dtype=np.int64),
            "plan_starts": np.array(self._plan_starts, dtype=np.int64),
            "header": np.array(self._header),
            "action_names": np.array(names),
            "state_names": np.array(self._env.spec.state_names),
        }
