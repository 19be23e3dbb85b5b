"""The surroundings of an episode: its limits, observers of its requests and events, extensions that
join it, and the beginning of another episode from which it continues.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from capex.method.executor import Outcome, Tick
from capex.method.memory import Memory
from capex.method.motion import ClampedTarget
from capex.method.observation import Observation
from capex.method.record import EndReason, EpisodeRecord, Turn
from capex.models import AttemptObserver, CostObserver, Model, Observers, Reply, Sampling
from capex.plan import Plan
from capex.pose import Array
from capex.worlds import Command, Env, Start, State


@dataclass(frozen=True)
class Prefix:
    """The decisions of an episode before one of them, and its steps."""

    record: EpisodeRecord
    steps: Mapping[str, Array]  # of steps.npz
    decision: int  # the first that is made anew, from 1

    @property
    def notes(self) -> str:
        """The model's notes for itself before that decision."""
        return self.turns[-1].notes if self.turns else ""

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The decisions before the state."""
        return self.record.turns[: self.decision - 1]

    @property
    def ticks(self) -> int:
        """Control steps that they took."""
        return self.record.turns[self.decision - 1].step

    @property
    def plans(self) -> int:
        """Plans that they began."""
        return sum(bool(turn.waypoints) for turn in self.turns)

    def state(self, tick: int) -> State:
        """The world after so many control steps."""
        return State(str(self.steps["header"]), self.steps["states"][tick])


DEFAULT_SAMPLING = Sampling()


@dataclass(frozen=True)
class Remembered:
    """The memory that the model is shown all episode long, and the calibrator's state."""

    skeleton: str
    references: tuple[str, ...]
    labels: int
    weights: tuple[float, ...] | None


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
    """A plan was read; `count` of its waypoints are trusted enough to run."""

    plan: Plan
    count: int
    probabilities: tuple[float | None, ...]
    # By waypoint and arm, the target after clamping.
    targets: tuple[Mapping[str, ClampedTarget], ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class Passed:
    """A waypoint of the plan was run."""

    place: int  # in the plan, from 0
    outcome: Outcome


@dataclass(frozen=True)
class Executed:
    """The outcomes of the plan's waypoints."""

    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True)
class Ended:
    """The episode is over."""

    end: EndReason
    success: bool | None


Event = Remembered | Deciding | Replied | Committed | Tick | Passed | Executed | Ended
# A person drives for a while. Arguments: the world, the last command of each gripper (kept up to
# date), the control steps left, a function that carries a command out. Returns the steps taken.
Drive = Callable[[Env, dict[str, float], int, Callable[[Command], Tick]], int]


@dataclass(frozen=True)
class Intervention:
    """A person acts before a decision: they drive the robot, or write to the model."""

    drive: Drive | None = None
    message: str = ""


class AttemptExtension:
    """Joins an attempt; by default every method does nothing. The attempt holds a list of
    extensions and knows none of them.
    """

    @property
    def prefix(self) -> Prefix | None:
        """The beginning of another episode, from which this one continues."""
        return None

    def before_reset(self, env: Env, start: Start) -> None:
        """Before the world is reset, in which a robot moves home."""

    def prepare(self, env: Env, start: Start) -> None:
        """Between the reset and the attempt; it may wait for a person."""

    def wrap_model(self, model: Model) -> Model:
        """The model for this episode."""
        return model

    def before_decision(self, number: int) -> Intervention | None:
        """Called before each decision, again after each drive; it may wait. None: the model decides
        without a message.
        """
        return None

    def end_now(self) -> bool:
        """Whether the attempt ends at once, as asked by a person."""
        return False

    def on_event(self, event: Event) -> None:
        """Called with every event."""

    def record_fields(self, record: EpisodeRecord) -> EpisodeRecord:
        """The record with the fields of this extension."""
        return record

    def close(self) -> None:
        """The attempt is over, however it ended; called before the record is written."""


@dataclass(frozen=True)
class Limits:
    """Ends of an episode besides success: steps and wall time here; decisions come with the method,
    the horizon with the world, dollars with the ledger. A limit is checked after each decision; a
    step limit below the horizon may be passed within one plan, and wall time also ends a request
    in flight.
    """

    steps: int | None = None
    wall_s: float | None = None


NO_LIMITS = Limits()


@dataclass(frozen=True)
class EpisodeContext:
    """`ledger` and `log` observe every request, `subscribers` and `extensions` every event.
    `template` replaces the system prompt's file, `hints` are passages for it.
    """

    ledger: CostObserver | None = None
    log: AttemptObserver | None = None
    extensions: Sequence[AttemptExtension] = ()
    subscribers: Sequence[Callable[[Event], object]] = ()
    limits: Limits = NO_LIMITS
    template: Path | None = None
    hints: str = ""
    sampling: Sampling = DEFAULT_SAMPLING
    cache_key: str = ""
    clock: Callable[[], float] = time.monotonic

    def reset(self, env: Env, start: Start) -> None:
        """Reset a world to a start and let extensions prepare it. Not part of the attempt's
        time.
        """
        for extension in self.extensions:
            extension.before_reset(env, start)
        env.reset(start)
        for extension in self.extensions:
            extension.prepare(env, start)

    def wrap_model(self, model: Model) -> Model:
        """The model as the extensions wrap it, the first one innermost."""
        for extension in self.extensions:
            model = extension.wrap_model(model)
        return model

    @property
    def prefix(self) -> Prefix | None:
        """The beginning of another episode, from which this one continues."""
        return next((p for e in self.extensions if (p := e.prefix) is not None), None)

    def before_decision(self, number: int) -> Intervention | None:
        """The first intervention of an extension, if there is one."""
        found = (extension.before_decision(number) for extension in self.extensions)
        return next((i for i in found if i is not None), None)

    def end_now(self) -> bool:
        """Whether an extension ends the attempt."""
        return any(extension.end_now() for extension in self.extensions)

    def emit(self, event: Event) -> None:
        """Call every subscriber and extension."""
        for subscriber in self.subscribers:
            subscriber(event)
        for extension in self.extensions:
            extension.on_event(event)

    @property
    def observer(self) -> AttemptObserver:
        """Log and ledger as one. The ledger comes last: it sees an attempt begin last, so that
        a request that it forbids is never logged as sent.
        """
        return Observers(*(o for o in (self.log, self.ledger) if o is not None))


NO_CONTEXT = EpisodeContext()


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


class Demonstrator(Protocol):
    """Produces episodes: a model, the privileged expert, a person's recording, a student."""

    @property
    def name(self) -> str:
        """As records name it."""

    @property
    def stand_in(self) -> bool:
        """Whether it is scripted: neither a foundation model nor a person."""

    @property
    def model(self) -> Model | None:
        """The model that it asks, if it asks one."""

    def attempt(self, env: Env, start: Start, memory: Memory, context: EpisodeContext) -> Episode:
        """One episode from a start; a simulator or model error leaves as an exception."""
