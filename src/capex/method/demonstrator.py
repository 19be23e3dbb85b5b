"""One episode: the paper's algorithm. Observe, query until a plan, calibrate, commit, execute,
label, report; until an end is reached.

The base arm and every ablation run through the same lines with other settings. A model or simulator
error invalidates the attempt and leaves as an exception; everything else is a result, also a
decision in which the model talks until its context is full. Memory comes in as it was before the
episode and is not touched.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from capex.errors import BudgetExceeded
from capex.method.calibrator import Calibrator
from capex.method.commit import committed
from capex.method.dialogue import Dialogue, TimeOver
from capex.method.hooks import (
    DEFAULT_SAMPLING,
    NO_HOOKS,
    NO_LIMITS,
    Committed,
    Deciding,
    Ended,
    Event,
    Executed,
    Hooks,
    Limits,
    Replied,
)
from capex.method.memory import Memory
from capex.method.memory.context import build
from capex.method.presets import MethodSettings
from capex.method.record import EpisodeRecord, record_episode, record_waypoints
from capex.method.state import EpisodeState
from capex.models import Model, with_defaults
from capex.pose import Array
from capex.worlds import Env, Start

__all__ = [
    "DEFAULT_SAMPLING",
    "NO_LIMITS",
    "Committed",
    "Deciding",
    "Ended",
    "Episode",
    "Event",
    "Executed",
    "Hooks",
    "Limits",
    "Replied",
    "run_episode",
]

SILENT = "{} decisions in a row without a valid tool call"


@dataclass(frozen=True)
class Episode:
    """The result of an attempt: its record, the arrays of its steps, and the start images
    by hash.
    """

    record: EpisodeRecord
    steps: Mapping[str, Array]
    pictures: Mapping[str, bytes]
    seconds: float  # without the reset
    reset_s: float


def run_episode(
    env: Env,
    start: Start,
    model: Model,
    arm: MethodSettings,
    memory: Memory,
    hooks: Hooks = NO_HOOKS,
) -> Episode:
    """Run one attempt from a start with what memory knows so far."""
    asked = hooks.clock()
    env.reset(start)
    began = hooks.clock()
    state = EpisodeState(env, arm, hooks.tell)
    trust = Calibrator.fit(*memory.labelled()) if arm.calibrated else Calibrator(None)
    context = build(
        memory,
        arm,
        env.spec,
        start.index,
        env.scene,
        weights=trust.weights,
        template=hooks.template,
        json_form=with_defaults(model).tools_in_text,
    )
    wall_s = hooks.limits.wall_s
    until = math.inf if wall_s is None else began + wall_s
    dialogue = Dialogue(env, model, arm, context.system, hooks, until)
    images: Mapping[str, bytes] = {}  # at the start
    end = ""
    while not end:
        observation = state.observe(hooks.ledger)
        images = images or observation.images
        hooks.tell(Deciding(len(state.turns) + 1, observation))
        try:
            decision = dialogue.decide(observation, context.pictures)
        except BudgetExceeded as spent:
            if spent.scope == "campaign":  # says nothing about this start: no failure of it
                raise
            end = "cost"
            break
        except TimeOver:
            end = "time"
            break
        turn = state.begin(decision)
        plan = decision.act.plan if decision.act is not None else None
        if plan is None:
            state.end_turn(turn)
            end = "done" if decision.act is not None else ""
        else:
            rows = state.features(plan)
            trusted: list[float | None] = [None] * len(rows)
            if arm.confidence:
                trusted = trust.predict(rows, [w.confidence for w in plan.waypoints])
            count = committed(trusted, arm.tau)
            hooks.tell(Committed(plan, count, tuple(trusted)))
            outcomes = state.execute(plan, count)
            hooks.tell(Executed(tuple(outcomes)))
            labelled = record_waypoints(plan.waypoints, outcomes, trusted, rows)
            state.end_turn(replace(turn, waypoints=labelled, committed=count), outcomes)
        end = end or _ended(env, arm, state, hooks.limits, hooks.clock() - began)
    success = env.success()
    hooks.tell(Ended(end, success))
    totals = hooks.ledger.as_json() if hooks.ledger is not None else {}
    extra: dict[str, object] = {
        "labels_before": context.labels,
        "weights": None if trust.weights is None else list(trust.weights),
        "ledger": {k: v for k, v in totals.items() if k not in ("cost_usd", "requests")},
    }
    if end == "silent":
        extra["silent"] = {"reason": SILENT.format(state.silent), "said": dialogue.said}
    record = record_episode(
        env,
        start,
        images,
        arm=arm.name,
        model=model.name,
        stand_in=model.stand_in,
        success=success,
        end=end,
        steps=state.steps,
        turns=tuple(state.turns),
        requests=dialogue.requests,
        cost_usd=totals.get("cost_usd"),
        extra=extra,
    )
    pictures = {hashlib.sha256(png).hexdigest(): png for png in images.values()}
    return Episode(record, state.recorder.steps, pictures, hooks.clock() - began, began - asked)


def _ended(
    env: Env, arm: MethodSettings, state: EpisodeState, limits: Limits, elapsed_s: float
) -> str:
    """Why the episode is over, or nothing."""
    if env.success():
        return "success"
    if state.executor.steps_left <= 0:
        return "horizon"
    if arm.silent_decisions and state.silent >= arm.silent_decisions:
        return "silent"
    if len(state.turns) >= arm.decisions:
        return "decisions"
    if limits.steps is not None and state.steps >= limits.steps:
        return "steps"
    return "time" if limits.wall_s is not None and elapsed_s >= limits.wall_s else ""
