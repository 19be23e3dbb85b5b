"""One episode: the paper's algorithm. Observe, query until a plan, calibrate, commit, execute, label, report; until an end is reached.

The base arm and every ablation run through the same lines with other settings. A model or simulator error invalidates the attempt and
leaves as an exception; everything else is a result. Memory comes in as it was before the episode and is not touched.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from capex.arms import ArmSettings
from capex.calibrator import Calibrator, features
from capex.commit import committed
from capex.executor import GRIPPER_STILL_RUNS, Executor, Outcome, Tick
from capex.ledger import BudgetExceeded, Ledger
from capex.memory import Memory
from capex.memory.context import Context, build
from capex.memory.record import EpisodeRecord, LocatedPoint, Turn, record_waypoints
from capex.models import AttemptObserver, Message, Model, Observers, Picture, Reply, Request, Sampling, Text, ToolResult, UserMessage
from capex.observation import Observation, PastAct, observe
from capex.perception import describe, locate_pixel
from capex.plan import Plan
from capex.pose import Array, yaw_matrix
from capex.prompts import system_prompt
from capex.reading import Act, Defects, Locate, read_calls
from capex.recorder import Recorder
from capex.tools import interface, schemas
from capex.worlds import Env, Start, scene_of

NO_CALL = "Your reply held no tool call. Answer with tool calls only."
CUT_OFF = "Your reply was cut off at the token limit. Answer with a shorter plan."
NO_PLAN = "spent without motion: no valid act in {} rounds ({})"
Clock = Callable[[], float]


@dataclass(frozen=True)
class Event:
    """What subscribers hear: decision, reply, plan, commit, tick, outcome, end, each with its own data."""

    kind: Literal["decision", "reply", "plan", "commit", "tick", "outcome", "end"]
    data: Any


@dataclass(frozen=True)
class Limits:
    """What ends an episode besides success: wall time here; decisions and horizon come with the arm and the world."""

    wall_s: float | None = None


NO_LIMITS = Limits()


@dataclass(frozen=True)
class Episode:
    """The result of an attempt: its record, the arrays of its steps, and the start images by hash."""

    record: EpisodeRecord
    steps: Mapping[str, Array]
    pictures: Mapping[str, bytes]
    seconds: float


@dataclass
class _State:
    """What the loop carries from decision to decision."""

    turns: list[Turn] = field(default_factory=list)
    history: list[PastAct] = field(default_factory=list)
    located_m: list[Array] = field(default_factory=list)  # in the present base frame, latest last
    closed: dict[str, bool] = field(default_factory=dict)  # by arm, whether it was last told to close
    gripper_commands: int = 0
    requests: int = 0
    notes: str = ""


@dataclass(frozen=True)
class _Decision:
    """What a query brought: an act, or the reason why there is none."""

    act: Act | None
    calls: int
    located: tuple[LocatedPoint, ...]
    reason: str = ""


def run_episode(
    env: Env,
    start: Start,
    model: Model,
    arm: ArmSettings,
    memory: Memory,
    *,
    ledger: Ledger | None = None,
    log: AttemptObserver | None = None,
    subscribers: Sequence[Callable[[Event], None]] = (),
    limits: Limits = NO_LIMITS,
    template: Path | None = None,
    cache_key: str = "",
    clock: Clock = time.monotonic,
) -> Episode:
    """Run one attempt from a start with what memory knows so far."""
    began = clock()

    def tell(kind: Any, data: Any) -> None:
        for subscriber in subscribers:
            subscriber(Event(kind, data))

    def heard(tick: Tick) -> None:
        tell("tick", tick)

    env.reset(start)
    spec = env.spec
    recorder = Recorder(env)
    executor = Executor(env, subscribers=[recorder, heard])
    trust = Calibrator.fit(*memory.labelled()) if arm.calibrated else Calibrator(None)
    context = build(memory, arm, spec, start.index, scene_of(env), weights=trust.weights, template=template)
    system = system_prompt(
        spec,
        arm,
        labels=context.labels,
        weights=trust.weights,
        references=context.references_text,
        skeleton=context.skeleton_text,
        template=template,
    )
    # The ledger comes last: it sees an attempt begin last, so that what it forbids is never logged as sent.
    observer = Observers(*(o for o in (log, ledger) if o is not None))
    asks = _Asks(env, model, arm, system, context, observer, cache_key)
    arms = env.robot_state().arms
    state = _State(closed={a.name: arms[a.name].opening_m < a.max_opening_m / 2 for a in spec.arms})
    end = ""
    first: Observation | None = None
    while not end:
        observation = _look(env, executor, arm, state, ledger)
        first = first or observation
        tell("decision", (len(state.turns) + 1, observation))
        try:
            decision = asks.query(observation, state, tell)
        except BudgetExceeded as spent:
            end = "cost" if spent.kind == "dollars" else spent.kind
            break
        step, base = spec.horizon - executor.steps_left, env.robot_state().base
        number = len(state.turns) + 1
        if decision.act is None or decision.act.plan is None:
            spent_how = decision.reason if decision.act is None else ""
            state.turns.append(Turn(number, step, decision.calls, (), 0, decision.located, base, spent=spent_how))
            state.history.append(PastAct(number, (), (), spent_how or "said done"))
            end = "done" if decision.act is not None else ""
        else:
            recorder.begin_plan()
            turn, outcomes = _carry_out(env, executor, arm, trust, decision, state, number, step, base, tell)
            state.turns.append(turn)
            state.history.append(PastAct(number, decision.act.plan.waypoints, tuple(outcomes)))
            state.notes = decision.act.notes if arm.notes else ""
        end = end or _ended(env, executor, arm, state, limits, clock() - began)
    success = env.success()
    tell("end", (end, success))
    pictures = {hashlib.sha256(png).hexdigest(): png for png in (first.images.values() if first else ())}
    exterior = {c.name for c in spec.cameras if c.kind == "exterior"}
    totals = ledger.totals.as_json() if ledger is not None else {}
    record = EpisodeRecord(
        world=spec.world,
        task=spec.task,
        arm=arm.name,
        start=start.index,
        seed=start.seed,
        model=model.name,
        success=success,
        steps=spec.horizon - executor.steps_left,
        requests=state.requests,
        cost_usd=totals.get("cost_usd"),
        instruction=env.instruction,
        horizon=spec.horizon,
        turns=tuple(state.turns),
        scene=scene_of(env),
        end=end,
        images={n: hashlib.sha256(png).hexdigest() for n, png in first.images.items() if n in exterior} if first else {},
        stand_in=model.stand_in,
        extra={
            "labels_before": context.labels,
            "weights": None if trust.weights is None else [float(w) for w in trust.weights],
            "ledger": {k: v for k, v in totals.items() if k not in ("cost_usd", "requests")},
        },
    )
    return Episode(record, recorder.steps, pictures, clock() - began)


def _look(env: Env, executor: Executor, arm: ArmSettings, state: _State, ledger: Ledger | None) -> Observation:
    spent = ledger.spent_usd if ledger is not None else None
    left = f"{float(arm.episode_usd) - float(spent):.2f}" if arm.show_dollars and spent is not None and arm.episode_usd else ""
    return observe(
        env,
        steps_left=executor.steps_left,
        decisions_left=arm.decisions - len(state.turns),
        history=state.history[-arm.history :],
        image_size=arm.image_size,
        dollars_left=left,
        notes=state.notes,
    )


def _ended(env: Env, executor: Executor, arm: ArmSettings, state: _State, limits: Limits, elapsed_s: float) -> str:
    """Why the episode is over, or nothing."""
    if env.success():
        return "success"
    if executor.steps_left <= 0:
        return "horizon"
    if len(state.turns) >= arm.decisions:
        return "decisions"
    return "time" if limits.wall_s is not None and elapsed_s >= limits.wall_s else ""


def _carry_out(
    env: Env,
    executor: Executor,
    arm: ArmSettings,
    trust: Calibrator,
    decision: _Decision,
    state: _State,
    number: int,
    step: int,
    base: tuple[float, float, float] | None,
    tell: Callable[[Any, Any], None],
) -> tuple[Turn, list[Outcome]]:
    """Calibrate, commit, execute and label one plan."""
    assert decision.act is not None
    assert decision.act.plan is not None
    plan: Plan = decision.act.plan
    robot = env.robot_state()
    rows = features(
        plan.waypoints,
        executor.clamp(plan.waypoints),
        tips_m={n: a.T_base_tip.position_m for n, a in robot.arms.items()},
        gripper_commands=state.gripper_commands,
        closed=state.closed,
        located_m=state.located_m[-1] if state.located_m else None,
    )
    trusted = trust.predict(rows, [w.confidence for w in plan.waypoints]) if arm.confidence else [None] * len(plan.waypoints)
    count = committed(trusted, arm.tau)
    tell("plan", plan)
    tell("commit", (count, trusted))
    outcomes = executor.execute(plan.waypoints[:count], plan.waypoints[count:])
    tell("outcome", outcomes)
    for waypoint, outcome in zip(plan.waypoints, outcomes, strict=True):
        told = {n: t.gripper for n, t in waypoint.targets.items()} if outcome.status in GRIPPER_STILL_RUNS else {}
        for name, word in told.items():
            if word != "keep":
                state.gripper_commands += 1
                state.closed[name] = word in ("close", "reclose")
        if outcome.base_moved is not None:
            state.located_m = [_carried(p, outcome.base_moved) for p in state.located_m]
    records = record_waypoints(plan.waypoints, outcomes, trusted, rows)
    act = decision.act
    return Turn(number, step, decision.calls, records, count, decision.located, base, act.reasoning, act.mended), outcomes


def _carried(point_m: Array, moved: tuple[float, float, float]) -> Array:
    """A point of the old base frame in the new one, after a measured base motion."""
    forward, left, turn = moved
    return np.asarray(yaw_matrix(-turn) @ (point_m - np.array([forward, left, 0.0])))


class _Asks:
    """Queries the model until it acts: at most so many rounds, the last of which allows only `act`."""

    def __init__(
        self, env: Env, model: Model, arm: ArmSettings, system: str, context: Context, observer: AttemptObserver | None, cache_key: str
    ):
        self._env, self._model, self._arm, self._observer = env, model, arm, observer
        self._face = interface(env.spec, arm)
        self._request = Request(system, (), schemas(self._face), Sampling(), cache_key=cache_key)
        self._references = context.pictures

    def query(self, observation: Observation, state: _State, tell: Callable[[Any, Any], None]) -> _Decision:
        """One decision: perception rounds, then an act, or the reason why none came."""
        messages: list[Message] = [self._first(observation)]
        located: list[LocatedPoint] = []
        reason = "no act"
        for number in range(1, self._arm.rounds + 1):
            choice = "act" if number == self._arm.rounds else "required"
            reply = self._model.complete(self._with(messages, choice), self._observer)
            state.requests += 1
            tell("reply", reply)
            act, answers = self._read(reply, state, located)
            if isinstance(act, Act):
                return _Decision(act, number, tuple(located))
            reason = str(act) if act is not None else reason
            messages += [reply.as_message(), *answers] if reply.calls else [*answers]
        short = reason if len(reason) <= 200 else f"{reason[:197]}..."
        return _Decision(None, self._arm.rounds, tuple(located), NO_PLAN.format(self._arm.rounds, short))

    def _with(self, messages: Sequence[Message], choice: str) -> Request:
        r = self._request
        return Request(r.system, tuple(messages), r.tools, r.sampling, choice, r.cache_key)

    def _first(self, observation: Observation) -> UserMessage:
        parts: list[Text | Picture] = []
        if self._references:
            parts = [Text("Start images of the reference episodes:"), *self._references, Text("The present scene:")]
        return UserMessage((*parts, *observation.message.parts))

    def _read(self, reply: Reply, state: _State, located: list[LocatedPoint]) -> tuple[Act | Defects | None, list[Message]]:
        """Carry out perception, in order; an act ends the reading."""
        tips = {n: a.T_base_tip.position_m for n, a in self._env.robot_state().arms.items()}
        answers: list[Message] = []
        problem: Defects | None = None
        reads = read_calls(reply.calls, self._face, tips)
        for read in reads:
            if isinstance(read.meaning, Act):
                return read.meaning, answers
            if isinstance(read.meaning, Locate):
                answers.append(ToolResult(read.call.id, self._locate(read.meaning, state, located)))
            else:
                problem = read.meaning
                answers.append(ToolResult(read.call.id, f"Not carried out: {read.meaning}"))
        for call in reply.calls[len(reads) :]:  # every call needs an answer on the wire
            answers.append(ToolResult(call.id, "Ignored: a robot command ends the reply."))
        if not reply.calls:
            answers.append(UserMessage((Text(CUT_OFF if reply.incomplete else NO_CALL),)))
        return problem, answers

    def _locate(self, pixel: Locate, state: _State, located: list[LocatedPoint]) -> str:
        found = locate_pixel(self._env, pixel.camera, pixel.u, pixel.v, self._face.size)
        if isinstance(found, str):
            located.append(LocatedPoint(pixel.camera, pixel.u, pixel.v, None, found))
            return found
        state.located_m.append(found)
        x, y, z = (float(v) for v in found)
        located.append(LocatedPoint(pixel.camera, pixel.u, pixel.v, (x, y, z)))
        return f"{describe(found)} cm in the base frame, {math.sqrt(x * x + y * y) * 100:.0f} cm from the mount horizontally."
