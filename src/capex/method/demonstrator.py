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
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from capex.errors import BudgetExceeded
from capex.method.calibrator import Calibrator, features
from capex.method.commit import committed
from capex.method.executor import GRIPPER_STILL_RUNS, Executor, Outcome, Tick
from capex.method.memory import Memory
from capex.method.memory.context import Context, build
from capex.method.memory.references import carry
from capex.method.observation import Observation, PastAct, observe
from capex.method.perception import Sight, describe
from capex.method.presets import MethodSettings
from capex.method.prompts import system_prompt
from capex.method.reading import Act, Defects, Locate, read_calls
from capex.method.record import EpisodeRecord, LocatedPoint, Turn, record_waypoints
from capex.method.recorder import Recorder
from capex.method.tools import interface, schemas
from capex.models import (
    AttemptObserver,
    CostObserver,
    Message,
    Model,
    ModelError,
    Observers,
    Picture,
    Reply,
    Request,
    Sampling,
    Text,
    ToolResult,
    UserMessage,
)
from capex.models.redact import scrub
from capex.plan import Plan
from capex.pose import Array
from capex.worlds import Env, Start, scene_of

NO_CALL = "Your reply held no tool call. Answer with tool calls only."
CUT_OFF = "Your reply was cut off at the token limit. Answer with a shorter plan."
ONLY_ACT = "Only act is allowed in the last round."
SILENT = "{} decisions in a row without a valid tool call"
NO_PLAN = "spent without motion: no valid act in {} rounds ({})"
TOO_LONG = (
    "spent without motion: after round {} the decision no longer fitted the model's context ({})"
)
DEFAULT_SAMPLING = Sampling()
DECISION_DEADLINE_S = 1200.0  # of all model rounds of a decision together
RINGS_EARLY_S = 0.05  # a socket's timeout may come a moment before the time it was set to
SAID_CHARACTERS = (
    500  # of a model's own words in the record of an episode that it ended by calling nothing
)
Clock = Callable[[], float]


@dataclass(frozen=True)
class Deciding:
    """A decision begins with this observation."""

    number: int
    observation: Observation


@dataclass(frozen=True)
class Replied:
    """The model answered."""

    reply: Reply


@dataclass(frozen=True)
class Committed:
    """A plan was read; so many of its waypoints are trusted enough to run."""

    plan: Plan
    count: int
    probabilities: tuple[float | None, ...]


@dataclass(frozen=True)
class Executed:
    """What became of the plan's waypoints."""

    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True)
class Ended:
    """The episode is over."""

    end: str
    success: bool | None


Event = Deciding | Replied | Committed | Tick | Executed | Ended


@dataclass(frozen=True)
class Limits:
    """What ends an episode besides success: steps and wall time here; decisions come with the arm,
    the horizon with the world, dollars with the ledger. A limit is looked at after each decision; a
    step limit below the horizon may be passed within one plan, and wall time also ends a request in
    flight.
    """

    steps: int | None = None
    wall_s: float | None = None


NO_LIMITS = Limits()


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


@dataclass
class _State:
    """What the loop carries from decision to decision."""

    turns: list[Turn] = field(default_factory=list)
    history: list[PastAct] = field(default_factory=list)
    located_m: list[Array] = field(default_factory=list)  # in the present base frame, latest last
    closed: dict[str, bool] = field(
        default_factory=dict
    )  # by arm, whether it was last told to close
    gripper_commands: int = 0
    requests: int = 0
    notes: str = ""
    silent: int = 0  # decisions in a row without a valid call
    said: str = ""  # what the model said last


class _TimeOver(Exception):
    """The episode's wall time ended while its model was asked."""


@dataclass(frozen=True)
class _Decision:
    """What a query brought: an act, or the reason why there is none."""

    act: Act | None
    calls: int
    located: tuple[LocatedPoint, ...]
    reason: str = ""
    silent: bool = False  # not one valid call in all its rounds


def run_episode(
    env: Env,
    start: Start,
    model: Model,
    arm: MethodSettings,
    memory: Memory,
    *,
    ledger: CostObserver | None = None,
    log: AttemptObserver | None = None,
    subscribers: Sequence[Callable[[Event], object]] = (),
    limits: Limits = NO_LIMITS,
    template: Path | None = None,
    sampling: Sampling = DEFAULT_SAMPLING,
    cache_key: str = "",
    clock: Clock = time.monotonic,
) -> Episode:
    """Run one attempt from a start with what memory knows so far."""
    asked = clock()

    def tell(event: Event) -> None:
        for subscriber in subscribers:
            subscriber(event)

    env.reset(start)
    began = clock()
    spec = env.spec
    recorder = Recorder(env)
    executor = Executor(env, subscribers=[recorder, tell])
    trust = Calibrator.fit(*memory.labelled()) if arm.calibrated else Calibrator(None)
    in_text = bool(getattr(model, "tools_in_text", False))
    context = build(
        memory,
        arm,
        spec,
        start.index,
        scene_of(env),
        weights=trust.weights,
        template=template,
        json_form=in_text,
    )
    system = system_prompt(
        spec,
        arm,
        labels=context.labels,
        weights=trust.weights,
        references=context.references_text,
        skeleton=context.skeleton_text,
        template=template,
        json_form=in_text,
    )
    # The ledger comes last: it sees an attempt begin last, so that what it forbids is never logged
    # as sent.
    observer = Observers(*(o for o in (log, ledger) if o is not None))
    until = math.inf if limits.wall_s is None else began + limits.wall_s
    asks = _Asks(env, model, arm, system, context, observer, sampling, cache_key, clock, until)
    arms = env.robot_state().arms
    state = _State(closed={a.name: arms[a.name].opening_m < a.max_opening_m / 2 for a in spec.arms})
    end = ""
    first: Observation | None = None
    while not end:
        observation = _look(env, executor, arm, state, ledger)
        first = first or observation
        tell(Deciding(len(state.turns) + 1, observation))
        try:
            decision = asks.query(observation, state, tell)
        except BudgetExceeded as spent:
            if (
                spent.scope == "campaign"
            ):  # says nothing about this start: the attempt is dropped, not failed
                raise
            end = "cost"
            break
        except _TimeOver:
            end = "time"
            break
        state.silent = state.silent + 1 if decision.silent else 0
        step, base = spec.horizon - executor.steps_left, env.robot_state().base
        number = len(state.turns) + 1
        if decision.act is None or decision.act.plan is None:
            spent_how = decision.reason if decision.act is None else ""
            state.turns.append(
                Turn(number, step, decision.calls, (), 0, decision.located, base, spent=spent_how)
            )
            state.history.append(PastAct(number, (), (), spent_how or "said done"))
            end = "done" if decision.act is not None else ""
        else:
            recorder.begin_plan()
            turn, outcomes = _carry_out(
                env, executor, arm, trust, decision, state, number, step, base, tell
            )
            state.turns.append(turn)
            state.history.append(PastAct(number, decision.act.plan.waypoints, tuple(outcomes)))
            state.notes = decision.act.notes if arm.notes else ""
        end = end or _ended(env, executor, arm, state, limits, clock() - began)
    success = env.success()
    tell(Ended(end, success))
    pictures = {
        hashlib.sha256(png).hexdigest(): png for png in (first.images.values() if first else ())
    }
    exterior = {c.name for c in spec.cameras if c.kind == "exterior"}
    totals = ledger.as_json() if ledger is not None else {}
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
        images=(
            {n: hashlib.sha256(png).hexdigest() for n, png in first.images.items() if n in exterior}
            if first
            else {}
        ),
        stand_in=model.stand_in,
        extra={
            "labels_before": context.labels,
            "weights": None if trust.weights is None else [float(w) for w in trust.weights],
            "ledger": {k: v for k, v in totals.items() if k not in ("cost_usd", "requests")},
        }
        | (
            {"silent": {"reason": SILENT.format(state.silent), "said": state.said}}
            if end == "silent"
            else {}
        ),
    )
    return Episode(record, recorder.steps, pictures, clock() - began, began - asked)


def _look(
    env: Env, executor: Executor, arm: MethodSettings, state: _State, ledger: CostObserver | None
) -> Observation:
    spent = ledger.spent_usd if ledger is not None else None
    left = (
        f"{float(arm.episode_usd) - float(spent):.2f}"
        if arm.show_dollars and spent is not None and arm.episode_usd
        else ""
    )
    return observe(
        env,
        steps_left=executor.steps_left,
        decisions_left=arm.decisions - len(state.turns),
        history=state.history[-arm.history :],
        image_size=arm.image_size,
        dollars_left=left,
        notes=state.notes,
    )


def _ended(
    env: Env,
    executor: Executor,
    arm: MethodSettings,
    state: _State,
    limits: Limits,
    elapsed_s: float,
) -> str:
    """Why the episode is over, or nothing."""
    if env.success():
        return "success"
    if executor.steps_left <= 0:
        return "horizon"
    if arm.silent_decisions and state.silent >= arm.silent_decisions:
        return "silent"
    if len(state.turns) >= arm.decisions:
        return "decisions"
    if limits.steps is not None and env.spec.horizon - executor.steps_left >= limits.steps:
        return "steps"
    return "time" if limits.wall_s is not None and elapsed_s >= limits.wall_s else ""


def _carry_out(
    env: Env,
    executor: Executor,
    arm: MethodSettings,
    trust: Calibrator,
    decision: _Decision,
    state: _State,
    number: int,
    step: int,
    base: tuple[float, float, float] | None,
    tell: Callable[[Event], None],
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
    trusted = (
        trust.predict(rows, [w.confidence for w in plan.waypoints])
        if arm.confidence
        else [None] * len(plan.waypoints)
    )
    count = committed(trusted, arm.tau)
    tell(Committed(plan, count, tuple(trusted)))
    outcomes = executor.execute(plan.waypoints[:count], plan.waypoints[count:])
    tell(Executed(tuple(outcomes)))
    for waypoint, outcome in zip(plan.waypoints, outcomes, strict=True):
        told = (
            {n: t.gripper for n, t in waypoint.targets.items()}
            if outcome.status in GRIPPER_STILL_RUNS
            else {}
        )
        for name, word in told.items():
            if word != "keep":
                state.gripper_commands += 1
                state.closed[name] = word in ("close", "reclose")
        if outcome.base_moved is not None:
            state.located_m = [_carried(p, outcome.base_moved) for p in state.located_m]
    records = record_waypoints(plan.waypoints, outcomes, trusted, rows)
    act = decision.act
    return (
        Turn(
            number,
            step,
            decision.calls,
            records,
            count,
            decision.located,
            base,
            act.reasoning,
            act.mended,
        ),
        outcomes,
    )


def _carried(point_m: Array, moved: tuple[float, float, float]) -> Array:
    """A point of the old base frame in the new one, after a measured base motion."""
    x, y, z = (float(v) for v in point_m)
    return np.array(carry((x, y, z), (0.0, 0.0, 0.0), moved))


def _short(reason: str) -> str:
    return reason if len(reason) <= 200 else f"{reason[:197]}..."


def _words(reply: Reply) -> str:
    """The beginning of what a reply says: its text, or else the calls that it makes. Scrubbed
    first, so that no secret is cut in two.
    """
    said = reply.text.strip() or " ".join(f"{c.name}({c.arguments})" for c in reply.calls)
    return str(scrub(said))[:SAID_CHARACTERS]


class _Asks:
    """Queries the model until it acts: at most so many rounds, the last of which allows
    only `act`.
    """

    def __init__(
        self,
        env: Env,
        model: Model,
        arm: MethodSettings,
        system: str,
        context: Context,
        observer: AttemptObserver | None,
        sampling: Sampling,
        cache_key: str,
        clock: Clock,
        until: float,
    ):
        """`until`: when the episode's time is over, by the clock."""
        self._env, self._model, self._arm, self._observer, self._until = (
            env,
            model,
            arm,
            observer,
            until,
        )
        self._face = interface(env.spec, arm)
        self._request = Request(system, (), schemas(self._face), sampling, cache_key=cache_key)
        self._references, self._clock = context.pictures, clock

    def query(
        self, observation: Observation, state: _State, tell: Callable[[Event], None]
    ) -> _Decision:
        """One decision: perception rounds, then an act, or the reason why none came; _TimeOver when
        the episode's time ends meanwhile.
        """
        messages: list[Message] = [self._first(observation)]
        located: list[LocatedPoint] = []
        sight = Sight(self._env, self._face.size)
        reason, silent = "no act", True
        deadline = self._clock() + DECISION_DEADLINE_S
        for number in range(1, self._arm.rounds + 1):
            last, now = number == self._arm.rounds, self._clock()
            if number > 1 and now >= self._until:
                raise _TimeOver
            request = replace(
                self._request,
                messages=tuple(messages),
                tool_choice="act" if last else "required",
                deadline_s=min(max(1.0, deadline - now), max(0.0, self._until - now)),
            )
            try:
                reply = self._answer(request)
            except ModelError as error:
                if error.kind != "context" or number == 1:
                    raise
                # The decision began within the context: what fills it up is what the model said
                # since. That is its own failure.
                return _Decision(
                    None,
                    number - 1,
                    tuple(located),
                    TOO_LONG.format(number - 1, _short(str(error))),
                    silent,
                )
            state.requests += 1
            state.said = _words(reply)
            tell(Replied(reply))
            act, answers, valid = self._read(reply, state, sight, located, last)
            silent = silent and not valid
            if isinstance(act, Act):
                return _Decision(act, number, tuple(located))
            reason = str(act) if act is not None else reason
            messages += [reply.as_message(), *answers] if reply.calls else [*answers]
        return _Decision(
            None,
            self._arm.rounds,
            tuple(located),
            NO_PLAN.format(self._arm.rounds, _short(reason)),
            silent,
        )

    def _answer(self, request: Request) -> Reply:
        try:
            return self._model.complete(request, self._observer)
        except ModelError as error:
            if error.kind == "timeout" and self._clock() >= self._until - RINGS_EARLY_S:
                raise _TimeOver from error
            raise

    def _first(self, observation: Observation) -> UserMessage:
        parts: list[Text | Picture] = []
        if self._references:
            parts = [
                Text("Start images of the reference episodes:"),
                *self._references,
                Text("The present scene:"),
            ]
        return UserMessage((*parts, *observation.message.parts))

    def _read(
        self, reply: Reply, state: _State, sight: Sight, located: list[LocatedPoint], only_act: bool
    ) -> tuple[Act | Defects | None, list[Message], bool]:
        """Carry out perception, in order, unless only an act is allowed now; an act ends the
        reading. Last: whether a call was valid.
        """
        tips = {n: a.T_base_tip.position_m for n, a in self._env.robot_state().arms.items()}
        answers: list[Message] = []
        problem: Defects | None = None
        reads = read_calls(reply.calls, self._face, tips)
        valid = any(isinstance(read.meaning, Act | Locate) for read in reads)
        for read in reads:
            if isinstance(read.meaning, Act):
                return read.meaning, answers, valid
            if isinstance(read.meaning, Locate) and not only_act:
                answers.append(
                    ToolResult(read.call.id, self._locate(read.meaning, state, sight, located))
                )
            else:
                problem = (
                    read.meaning if isinstance(read.meaning, Defects) else Defects((ONLY_ACT,))
                )
                answers.append(ToolResult(read.call.id, f"Not carried out: {problem}"))
        for call in reply.calls[len(reads) :]:  # every call needs an answer on the wire
            answers.append(ToolResult(call.id, "Ignored: a robot command ends the reply."))
        if not reply.calls:
            answers.append(UserMessage((Text(CUT_OFF if reply.incomplete else NO_CALL),)))
        return problem, answers, valid

    def _locate(
        self, pixel: Locate, state: _State, sight: Sight, located: list[LocatedPoint]
    ) -> str:
        found = sight.locate(pixel.camera, pixel.u, pixel.v)
        if isinstance(found, str):
            located.append(LocatedPoint(pixel.camera, pixel.u, pixel.v, None, found))
            return found
        state.located_m.append(found)
        x, y, z = (float(v) for v in found)
        located.append(LocatedPoint(pixel.camera, pixel.u, pixel.v, (x, y, z)))
        return (
            f"{describe(found)} cm in the base frame, {math.sqrt(x * x + y * y) * 100:.0f} cm from"
            " the mount horizontally."
        )
