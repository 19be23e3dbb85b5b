"""Engines: where attempts run. In this process, in several processes, on a Ray cluster; the records
are the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from capex.campaign.attempt import AttemptJob, AttemptOutcome, Progress, Work
from capex.campaign.demonstrators import Asked
from capex.campaign.extensions import ExtensionFactory
from capex.campaign.judging import Judge
from capex.models import ChatSettings
from capex.run.spend import Known

EPISODES_PER_CORE = 16  # that share a core while their models think
EPISODES_OF_A_BUSY_CORE = 2  # where the model computes on it


@dataclass(frozen=True)
class Setup:
    """What a worker is told once: the work, who is asked, the campaign's spend."""

    work: Work
    model: Asked  # itself, or demonstrators by arm, where everything stays in this process
    spend: Path
    chat: ChatSettings | None = None  # of a chat: model that is given by name
    judge: Judge | None = None  # of worlds that cannot judge; stays in this process
    extensions: tuple[ExtensionFactory, ...] = ()  # of every attempt
    judge_now: bool = True  # whether the judge is asked after each attempt
    known: Known | None = None  # what the driver has read of the spend


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
