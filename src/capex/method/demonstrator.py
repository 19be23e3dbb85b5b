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
from collections.abc import Mapping
from dataclasses import dataclass, replace

from capex.errors import BudgetExceeded
from capex.method.commit import committed, planned_again
from capex.method.dialogue import Dialogue, TimeOver
from capex.method.episode import Episode
from capex.method.hooks import NO_HOOKS, Committed, Deciding, Ended, Executed, Hooks, Remembered
from capex.method.memory import Memory
from capex.method.memory.context import build
from capex.method.presets import MethodSettings
from capex.method.record import record_episode, record_waypoints
from capex.method.state import EpisodeState
from capex.method.transfer import prior_at
from capex.models import Model, with_defaults
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
        """Whether the model is a stand-in."""
        return self.model.stand_in

    def attempt(self, env: Env, start: Start, memory: Memory, hooks: Hooks) -> Episode:
        """One episode by the paper's algorithm."""
        return run_episode(env, start, hooks.wrap_model(self.model), self.method, memory, hooks)


def run_episode(
    env: Env,
    start: Start,
    model: Model,
    method: MethodSettings,
    memory: Memory,
    hooks: Hooks = NO_HOOKS,
) -> Episode:
    """Run one attempt from a start with what memory knows so far."""
    method, model = method.at(env.spec.name), with_defaults(model)
    asked = hooks.clock()
    hooks.begin(env, start)
    began = hooks.clock()
    state = EpisodeState(env, method, hooks)
    if (prefix := hooks.prefix) is not None:
        state.resume(prefix)
    prior = prior_at(method.priors, env.spec.name)
    trust = memory.calibrator(method, env.spec.name)
    context = build(
        memory,
        method,
        env.spec,
        start.index,
        env.scene,
        weights=trust.weights,
        hints=hooks.hints,
        template=hooks.template,
        json_form=model.tools_in_text,
    )
    shown = context.skeleton_text, context.references, context.labels, trust.weights
    hooks.tell(Remembered(*shown))
    wall_s = hooks.limits.wall_s
    until = math.inf if wall_s is None else began + wall_s
    dialogue = Dialogue(env, model, method, context, hooks, until)
    images: Mapping[str, bytes] = {}  # at the first decision
    end = ""
    while not end:
        driven = 0
        while (person := hooks.take_over(len(state.turns) + 1)) is not None:
            driven += state.hand_over(person)
        if driven and (end := _ended(env, method, state, hooks, hooks.clock() - began)):
            break
        words = hooks.heed(len(state.turns) + 1)
        if driven:
            words = f"{DRIVEN.format(driven)} {words}".strip()
        observation = state.observe(hooks.ledger, words)
        images = images or observation.images
        hooks.tell(Deciding(len(state.turns) + 1, observation))
        try:
            decision = dialogue.decide(observation, context.pictures)
        except BudgetExceeded as spent:
            if spent.scope == "campaign" or spent.by_losses:  # says nothing about the model
                raise
            end = "cost"
            break
        except TimeOver:
            end = "time"
            break
        turn = state.begin(decision)
        plan = decision.act.plan if decision.act is not None else None
        if plan is None or hooks.end_now():
            state.end_turn(turn)
            end = "done" if plan is None and decision.act is not None else ""
        else:
            rows = state.features(plan)
            trusted: list[float | None] = [None] * len(rows)
            if method.confidence:
                trusted = trust.predict(rows, [w.confidence for w in plan.waypoints])
            again = planned_again(plan.waypoints, state.deferred()) if method.insist else ()
            count = committed(trusted, method.tau, again)
            targets = tuple(state.executor.clamp(plan.waypoints))
            hooks.tell(Committed(plan, count, tuple(trusted), targets))
            outcomes = state.execute(plan, count)
            hooks.tell(Executed(tuple(outcomes)))
            labelled = record_waypoints(plan.waypoints, outcomes, trusted, rows)
            state.end_turn(replace(turn, waypoints=labelled, committed=count), outcomes)
        end = end or _ended(env, method, state, hooks, hooks.clock() - began)
    success = env.success()
    hooks.tell(Ended(end, success))
    totals = hooks.ledger.as_json() if hooks.ledger is not None else {}
    extra: dict[str, object] = {
        "labels_before": context.labels,
        "weights": None if trust.weights is None else list(trust.weights),
        "ledger": {k: v for k, v in totals.items() if k not in ("cost_usd", "requests")},
    }
    if prior is not None:
        extra["prior_mean"] = prior.mean.tolist()
    if end == "silent":
        extra["silent"] = {"reason": SILENT.format(state.silent), "said": dialogue.said}
    record = record_episode(
        env,
        start,
        images,
        arm=method.name,
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
    if prefix is not None:  # the start's pictures are those of its origin
        record, images = replace(record, images=prefix.record.images), {}
    pictures = {hashlib.sha256(png).hexdigest(): png for png in images.values()}
    return Episode(record, state.recorder.steps, pictures, hooks.clock() - began, began - asked)


def _ended(
    env: Env, method: MethodSettings, state: EpisodeState, hooks: Hooks, elapsed_s: float
) -> str:
    """Why the episode is over, or nothing."""
    limits = hooks.limits
    if env.success():
        return "success"
    if hooks.end_now():
        return "operator"
    if state.executor.steps_left <= 0:
        return "horizon"
    if method.silent_decisions and state.silent >= method.silent_decisions:
        return "silent"
    if len(state.turns) >= method.decisions:
        return "decisions"
    if limits.steps is not None and state.steps >= limits.steps:
        return "steps"
    return "time" if limits.wall_s is not None and elapsed_s >= limits.wall_s else ""
