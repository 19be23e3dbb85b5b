"""One episode: the paper's algorithm. Observe, query until a plan, calibrate, commit, execute,
label, report; until an end is reached.

The base method and every ablation run through the same lines with other settings. A model or
simulator error invalidates the attempt and leaves as an exception; everything else is a result,
also a decision in which the model talks until its context is full. Memory comes in as it was before
the episode and is not touched.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from capex.errors import BudgetExceeded
from capex.method.calibrator import Calibrator, prior_at
from capex.method.commit import committed
from capex.method.context import (
    NO_CONTEXT,
    Committed,
    Deciding,
    Ended,
    Episode,
    EpisodeContext,
    Executed,
    Remembered,
)
from capex.method.dialogue import Dialogue, TimeOver
from capex.method.memory import Memory
from capex.method.memory.context import build
from capex.method.presets import MethodSettings
from capex.method.record import (
    EndReason,
    EpisodeRecord,
    Silence,
    Turn,
    record_episode,
    record_waypoints,
)
from capex.method.state import EpisodeState
from capex.models import Model, with_defaults
from capex.plan import Plan
from capex.worlds import Env, Start

DRIVEN = "I drove the robot myself for {} control steps. Go on from here."
SILENT = "{} decisions in a row without a valid tool call"


@dataclass(frozen=True)
class ModelDemonstrator:
    """A model that is asked by a method."""

    model: Model
    method: MethodSettings

    @property
    def name(self) -> str:
        """The name of the model."""
        return self.model.name

    @property
    def stand_in(self) -> bool:
        """Whether the model is scripted."""
        return self.model.stand_in

    def attempt(self, env: Env, start: Start, memory: Memory, context: EpisodeContext) -> Episode:
        """One episode by the paper's algorithm."""
        model = context.wrap_model(self.model)
        return run_episode(env, start, model, self.method, memory, context)


def run_episode(
    env: Env,
    start: Start,
    model: Model,
    method: MethodSettings,
    memory: Memory,
    context: EpisodeContext = NO_CONTEXT,
) -> Episode:
    """Run one attempt from a start with the memory of earlier episodes."""
    method, model = method.at(env.spec.name), with_defaults(model)
    asked = context.clock()
    context.reset(env, start)
    began = context.clock()
    state = EpisodeState(env, method, context)
    if (prefix := context.prefix) is not None:
        state.resume(prefix)
    calibrator = memory.calibrator(method, env.spec.name)
    shown = build(
        memory,
        method,
        env.spec,
        start.index,
        env.scene,
        weights=calibrator.weights,
        hints=context.hints,
        template=context.template,
        json_form=model.tools_in_text,
    )
    remembered = shown.skeleton_text, shown.references, shown.labels, calibrator.weights
    context.emit(Remembered(*remembered))
    wall_s = context.limits.wall_s
    until = math.inf if wall_s is None else began + wall_s
    dialogue = Dialogue(env, model, method, shown, context, until)
    images: Mapping[str, bytes] = {}  # at the first decision

    def ended() -> EndReason | None:
        return _ended(env, method, state, context, context.clock() - began)

    end: EndReason | None = None
    while end is None:
        end, message = _intervene(state, context, ended)
        if end is not None:
            break
        observation = state.observe(context.ledger, message)
        images = images or observation.images
        context.emit(Deciding(len(state.turns) + 1, observation))
        try:
            decision = dialogue.decide(observation, shown.pictures)
        except BudgetExceeded as spent:
            if spent.scope == "campaign" or spent.by_losses:  # says nothing about the model
                raise
            end = EndReason.COST
            break
        except TimeOver:
            end = EndReason.TIME
            break
        turn = state.begin(decision)
        plan = decision.act.plan if decision.act is not None else None
        if plan is None or context.end_now():
            state.end_turn(turn)
            end = EndReason.DONE if plan is None and decision.act is not None else None
        else:
            _execute(plan, turn, state, method, calibrator, context)
        end = end or ended()
    success = env.success()
    context.emit(Ended(end, success))
    known = {"arm": method.name, "model": model.name, "stand_in": model.stand_in, "end": end}
    known |= {"success": success, "labels_before": shown.labels, "weights": calibrator.weights}
    if (prior := prior_at(method.priors, env.spec.name)) is not None:
        known["prior_mean"] = tuple(prior.mean.tolist())
    record = _record(env, start, images, state, dialogue, context, known)
    if prefix is not None:  # the start's pictures are those of its origin
        record, images = replace(record, images=prefix.record.images), {}
    pictures = {hashlib.sha256(png).hexdigest(): png for png in images.values()}
    return Episode(record, state.recorder.steps, pictures, context.clock() - began, began - asked)


def _intervene(
    state: EpisodeState, context: EpisodeContext, ended: Callable[[], EndReason | None]
) -> tuple[EndReason | None, str]:
    """Let people act before the next decision: why the episode ended by that, if it did, and the
    message for the model.
    """
    driven, message = 0, ""
    while (intervention := context.before_decision(len(state.turns) + 1)) is not None:
        if intervention.drive is None:
            message = intervention.message
            break
        driven += state.hand_over(intervention.drive)
        if driven and (end := ended()) is not None:
            return end, ""
    return None, f"{DRIVEN.format(driven)} {message}".strip() if driven else message


def _execute(
    plan: Plan,
    turn: Turn,
    state: EpisodeState,
    method: MethodSettings,
    calibrator: Calibrator,
    context: EpisodeContext,
) -> None:
    """Predict, commit, execute, label."""
    rows = state.features(plan)
    predicted: list[float | None] = [None] * len(rows)
    if method.confidence:
        predicted = calibrator.predict(rows, [w.confidence for w in plan.waypoints])
    count = committed(predicted, method.tau)
    targets = tuple(state.executor.clamp(plan.waypoints))
    context.emit(Committed(plan, count, tuple(predicted), targets))
    outcomes = state.execute(plan, count)
    context.emit(Executed(tuple(outcomes)))
    labelled = record_waypoints(plan.waypoints, outcomes, predicted, rows)
    state.end_turn(replace(turn, waypoints=labelled, committed=count), outcomes)


def _record(
    env: Env,
    start: Start,
    images: Mapping[str, bytes],
    state: EpisodeState,
    dialogue: Dialogue,
    context: EpisodeContext,
    known: Mapping[str, Any],
) -> EpisodeRecord:
    """The record of an episode, with the fields of its extensions."""
    totals = context.ledger.recorded() if context.ledger is not None else None
    silent = None
    if known["end"] is EndReason.SILENT:
        silent = Silence(SILENT.format(state.silent), dialogue.last_words)
    return record_episode(
        env,
        start,
        images,
        steps=state.steps,
        turns=tuple(state.turns),
        requests=dialogue.requests,
        cost_usd=None if totals is None else totals.cost_usd,
        ledger=totals,
        silent=silent,
        human_steps=state.human_steps,
        **known,
    )


def _ended(
    env: Env, method: MethodSettings, state: EpisodeState, context: EpisodeContext, elapsed_s: float
) -> EndReason | None:
    """Why the episode is over, if it is."""
    limits = context.limits
    if env.success():
        return EndReason.SUCCESS
    if context.end_now():
        return EndReason.OPERATOR
    if state.executor.steps_left <= 0:
        return EndReason.HORIZON
    if method.silent_decisions and state.silent >= method.silent_decisions:
        return EndReason.SILENT
    if len(state.turns) >= method.decisions:
        return EndReason.DECISIONS
    if limits.steps is not None and state.steps >= limits.steps:
        return EndReason.STEPS
    over = limits.wall_s is not None and elapsed_s >= limits.wall_s
    return EndReason.TIME if over else None
