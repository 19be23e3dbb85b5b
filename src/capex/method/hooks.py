"""What accompanies an episode from outside: its limits, who counts, logs and watches it, and how
its model is asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from capex.method.executor import Outcome, Tick
from capex.method.motion import ClampedTarget
from capex.method.observation import Observation
from capex.method.prefix import Prefix
from capex.models import AttemptObserver, CostObserver, Model, Observers, Reply, Sampling
from capex.plan import Plan
from capex.worlds import Command, Env, Start

DEFAULT_SAMPLING = Sampling()


@dataclass(frozen=True)
class Remembered:
    """What the model is shown of earlier attempts, all episode long, and the calibrator's state."""

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
    """A plan was read; so many of its waypoints are trusted enough to run."""

    plan: Plan
    count: int
    probabilities: tuple[float | None, ...]
    # By waypoint and arm, where it will really be sent.
    targets: tuple[Mapping[str, ClampedTarget], ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class Passed:
    """A waypoint of the plan was run."""

    place: int  # in the plan, from 0
    outcome: Outcome


@dataclass(frozen=True)
class Executed:
    """What became of the plan's waypoints."""

    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True)
class Ended:
    """The episode is over."""

    end: str
    success: bool | None


# A person who drives for a while: given the world, what each gripper was told (kept up to date),
# the control steps left, and what carries a command out; returns how many steps they took.
Person = Callable[[Env, dict[str, float], int, Callable[[Command], Tick]], int]
Event = Remembered | Deciding | Replied | Committed | Tick | Passed | Executed | Ended


@dataclass(frozen=True)
class Limits:
    """What ends an episode besides success: steps and wall time here; decisions come with the
    method, the horizon with the world, dollars with the ledger. A limit is looked at after each
    decision; a step limit below the horizon may be passed within one plan, and wall time also ends
    a request in flight.
    """

    steps: int | None = None
    wall_s: float | None = None


NO_LIMITS = Limits()


@dataclass(frozen=True)
class Hooks:
    """`subscribers` are called with every event, `ledger` and `log` with every attempt at the
    model; `template` replaces the system prompt's file, `hints` are passages for it; `wrap_model`
    puts something around the model for this episode; `prepare` comes between a reset and the
    attempt.
    """

    ledger: CostObserver | None = None
    log: AttemptObserver | None = None
    subscribers: Sequence[Callable[[Event], object]] = ()
    limits: Limits = NO_LIMITS
    template: Path | None = None
    hints: str = ""
    sampling: Sampling = DEFAULT_SAMPLING
    cache_key: str = ""
    clock: Callable[[], float] = time.monotonic
    wrap_model: Callable[[Model], Model] = lambda model: model
    prepare: Callable[[Env, Start], None] = lambda env, start: None
    # Called before each decision, which it may keep waiting, until nobody drives the robot first.
    take_over: Callable[[int], Person | None] = lambda decision: None
    # Called then: what the operator says to the model.
    heed: Callable[[int], str] = lambda decision: ""
    end_now: Callable[[], bool] = lambda: False  # whether the operator ends the attempt
    prefix: Prefix | None = None  # the beginning of another episode, from which this one goes on

    def begin(self, env: Env, start: Start) -> None:
        """Reset a world to a start; where a person arranges it, wait for that. Not part of the
        attempt's time.
        """
        env.reset(start)
        self.prepare(env, start)

    def tell(self, event: Event) -> None:
        """Call every subscriber."""
        for subscriber in self.subscribers:
            subscriber(event)

    @property
    def observer(self) -> AttemptObserver:
        """Log and ledger as one. The ledger comes last: it sees an attempt begin last, so that what
        it forbids is never logged as sent.
        """
        return Observers(*(o for o in (self.log, self.ledger) if o is not None))


NO_HOOKS = Hooks()
