"""Human demonstrations that a world's dataset holds, as a demonstrator's: what `capex export
--paired` pairs with another's. Its chains are named WORLD--TASK--human.
"""

from __future__ import annotations

from dataclasses import dataclass

from capex import worlds
from capex.method.episode import Episode
from capex.method.executor import Tick
from capex.method.hooks import Ended, Hooks
from capex.method.memory import Memory
from capex.method.record import record_episode
from capex.method.recorder import Recorder
from capex.models import Model
from capex.worlds import Env, Start


@dataclass(frozen=True)
class Person:
    """What a person did from a start, by the world's dataset: the recorded actions and states,
    shown one after the other and not simulated; success is the world's own check at any of them.
    No model sees any of it.
    """

    name: str = "human"
    stand_in: bool = False
    model: Model | None = None

    def attempt(self, env: Env, start: Start, memory: Memory, hooks: Hooks) -> Episode:
        """Follow the recording."""
        asked = hooks.clock()
        actions = worlds.human(env.spec.world)(env, start.index)
        hooks.begin(env, start)
        began = hooks.clock()
        recorder, success = Recorder(env), False
        recorder.begin_plan()
        for action in actions:
            success = success or bool(env.success())
            tick = Tick(action, env.robot_state(), env.success(), 0)
            recorder(tick)
            hooks.tell(tick)
        record = record_episode(
            env,
            start,
            {},
            arm=self.name,
            model=self.name,
            success=success,
            end="success" if success else "recorded",
            steps=len(recorder.steps["actions"]),
            turns=(),
            extra={"shown": True},  # of each state only what was recorded is the person's
        )
        hooks.tell(Ended(record.end, success))
        return Episode(record, recorder.steps, {}, hooks.clock() - began, began - asked)
