"""Human demonstrations that a world's dataset holds, as a demonstrator's: what `capex export
--paired` pairs with another's. Its chains are named WORLD--TASK--human.
"""

from __future__ import annotations

from dataclasses import dataclass

from capex import worlds
from capex.method.context import Ended, Episode, EpisodeContext
from capex.method.executor import Tick
from capex.method.memory import Memory
from capex.method.record import EndReason, record_episode
from capex.method.state import Recorder
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

    def attempt(self, env: Env, start: Start, memory: Memory, context: EpisodeContext) -> Episode:
        """Follow the recording."""
        asked = context.clock()
        actions = worlds.human(env.spec.world)(env, start.index)
        context.reset(env, start)
        began = context.clock()
        recorder, success = Recorder(env), False
        recorder.begin_plan()
        for action in actions:
            success = success or bool(env.success())
            tick = Tick(action, env.robot_state(), env.success(), 0)
            recorder(tick)
            context.emit(tick)
        record = record_episode(
            env,
            start,
            {},
            arm=self.name,
            model=self.name,
            success=success,
            end=EndReason.SUCCESS if success else EndReason.RECORDED,
            steps=len(recorder.steps["actions"]),
            turns=(),
            recorded=True,
        )
        context.emit(Ended(record.end, success))
        return Episode(record, recorder.steps, {}, context.clock() - began, began - asked)
