"""Engines: where attempts run. In this process, in several processes, on a Ray cluster; the records
are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from capex.campaign.attempt import AttemptJob, AttemptOutcome, Progress
from capex.campaign.demonstrators import Asked
from capex.campaign.extensions import ExtensionFactory
from capex.campaign.judging import Judge
from capex.campaign.scheduling import Pauses
from capex.campaign.settings import Settings
from capex.method.memory import Memory
from capex.models.prices import Price
from capex.run.spend import Known
from capex.run.store import SPEND, Run
from capex.worlds import Spec

if TYPE_CHECKING:
    from capex.campaign.driver import ResumedSlots

EPISODES_PER_CORE = 16  # that share a core while their models think
EPISODES_OF_A_BUSY_CORE = 2  # where the model computes on it


@dataclass(frozen=True)
class Campaign:
    """Everything that running a campaign takes; the run directory is open."""

    run: Run
    settings: Settings
    specs: Mapping[tuple[str, str], Spec]  # by (world, task)
    model: Asked  # itself, or demonstrators by arm, where everything stays in this process
    stand_in: bool
    computes_here: bool  # whether the demonstrator keeps a core busy
    price: Price | None = None
    judge: Judge | None = None  # of worlds that cannot judge; stays in this process
    extensions: tuple[ExtensionFactory, ...] = ()  # of every attempt
    retry_invalid: bool = False
    pauses: Pauses = field(default_factory=Pauses)
    resumed: ResumedSlots | None = None  # where its episodes resume from saved states
    begins_with: Memory | None = None  # the memory of its first episode
    known: Known | None = None  # the spend as the driver has read it

    @property
    def spend_path(self) -> Path:
        """The file of its spend."""
        return self.run.path / SPEND

    def for_workers(self) -> Campaign:
        """Without what only the driver needs."""
        return replace(self, resumed=None, begins_with=None)


@dataclass(frozen=True)
class Failed:
    """An attempt raised what nobody expected: a full disk, a mistake in a world, in a model, or in
    this package.
    """

    sentence: str
    trace: str
    error: Exception


@dataclass(frozen=True)
class Lost:
    """The process or machine of an attempt died with it."""

    reason: str


@dataclass(frozen=True)
class Message:
    """What a worker tells the driver about a job."""

    ticket: int
    what: Progress | AttemptOutcome | Failed | Lost


class Engine(Protocol):
    """Runs jobs. `slots` is how many may be under way at once."""

    @property
    def slots(self) -> int: ...

    def submit(self, ticket: int, job: AttemptJob) -> None:
        """Begin an attempt."""

    def next(self, timeout_s: float) -> Message | None:
        """The next message, None after the timeout."""

    def end_waits(self) -> None:
        """The campaign ends: attempts that wait for their model to be ready, or for a pause to end,
        are cut off; the others are finished.
        """

    def stop(self) -> None:
        """Stop at once: attempts under way are cut off."""

    def close(self) -> None:
        """Free what the engine holds."""
