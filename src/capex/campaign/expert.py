"""The privileged expert as a demonstrator: scripted, in place of a human source. Its chains are
named WORLD--TASK--expert.
"""

from __future__ import annotations

from dataclasses import dataclass

from capex import worlds
from capex.method.context import Ended, Episode, EpisodeContext, Executed
from capex.method.executor import Executor
from capex.method.memory import Memory
from capex.method.record import EndReason, Turn, record_episode, record_waypoints
from capex.method.state import Recorder
from capex.models import Model
from capex.plan import PLAN_MAX
from capex.worlds import Env, Start

EXPERT_DECISIONS = 30


@dataclass(frozen=True)
class Expert:
    """Reads the simulator's ground truth and drives through the executor."""

    name: str = "expert"
    stand_in: bool = True
    model: Model | None = None

    def attempt(self, env: Env, start: Start, memory: Memory, context: EpisodeContext) -> Episode:
        """Plan and execute until success or the horizon; where a person judges, until the plan is
        empty.
        """
        plan = worlds.expert(env.spec.world)
        asked = context.clock()
        context.reset(env, start)
        began = context.clock()
        recorder = Recorder(env)
        executor = Executor(env, subscribers=[recorder, context.emit], end_now=context.end_now)
        turns: list[Turn] = []
        while (end := self._ended(env, executor, len(turns), context)) is None:
            waypoints = plan(env, len(turns))[:PLAN_MAX]
            if not waypoints:
                end = EndReason.DONE
                break
            recorder.begin_plan()
            step, base = env.spec.horizon - executor.steps_left, env.robot_state().base
            outcomes = executor.execute(waypoints)
            context.emit(Executed(tuple(outcomes)))
            rows = record_waypoints(waypoints, outcomes)
            turns.append(Turn(len(turns) + 1, step, 0, rows, len(rows), base=base))
        success = env.success()
        record = record_episode(
            env,
            start,
            {},
            arm=self.name,
            model=self.name,
            stand_in=self.stand_in,
            success=success,
            end=end,
            steps=env.spec.horizon - executor.steps_left,
            turns=tuple(turns),
        )
        context.emit(Ended(record.end, success))
        return Episode(record, recorder.steps, {}, context.clock() - began, began - asked)

    @staticmethod
    def _ended(
        env: Env, executor: Executor, decisions: int, context: EpisodeContext
    ) -> EndReason | None:
        """Why the attempt is over, if it is."""
        if env.success():
            return EndReason.SUCCESS
        if context.end_now():
            return EndReason.OPERATOR
        if executor.steps_left <= 0:
            return EndReason.HORIZON
        return EndReason.DECISIONS if decisions >= EXPERT_DECISIONS else None
