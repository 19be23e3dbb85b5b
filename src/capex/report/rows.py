"""What a report reads: episodes as summaries, and a row per attempt that cost something and is no
episode. Knows nothing of tables, figures or pages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from capex.models import Usage
from capex.run import InvalidAttempt, LoadedChain, Manifest, Origin
from capex.run.manifest import RecordedSettings, recorded
from capex.run.summary import DollarSpan, Summary, Taken, amounts
from capex.run.verdicts import Verdict


@dataclass(frozen=True, slots=True)
class CostRow:
    """What was paid for and is no episode: an attempt that an error invalidated, or, without an
    error, what attempts at a start took that left no record. Whatever a later attempt goes on with
    is counted there.
    """

    run: int
    chain: str
    world: str
    task: str
    arm: str
    model: str
    stand_in: bool
    start: int
    error: str  # empty for what left no record
    requests: int
    wire_attempts: int
    usd: DollarSpan | None
    tokens: Usage | None
    seconds: float
    unix_time: float | None
    verdict: Verdict | None = None  # the one that invalidated it


@dataclass(frozen=True)
class RunInfo:
    """A run directory and what its manifest says; settings are None where it cannot be read."""

    name: str
    path: Path
    given: Path  # as the user wrote it
    settings: Mapping[str, Any] | None
    manifest: Manifest
    # for episodes that a branch began with: the run that made them, as its manifest tells
    inherited: Origin | None = None

    @cached_property
    def recorded(self) -> RecordedSettings:
        """The settings with their types."""
        return recorded(self.settings or {})


@dataclass
class RunData:
    """Everything that the given runs hold."""

    runs: list[RunInfo] = field(default_factory=list)
    episodes: list[Summary] = field(default_factory=list)
    invalid: list[CostRow] = field(default_factory=list)
    lost: list[CostRow] = field(default_factory=list)  # what left no record
    problems: list[str] = field(default_factory=list)  # what is missing or unreadable: sentences
    unaided: bool = False  # whether attempts are left out in which somebody spoke to the model
    origins: list[str] = field(default_factory=list)  # where the episodes of branches come from

    def place(self, episode: Summary) -> Path:
        """Where an episode lies, under the name by which the user knows its run."""
        run = self.runs[episode.run]
        return run.given / episode.path.relative_to(run.path)


def cost_row(
    start: int,
    taken: Taken,
    chain: LoadedChain,
    run: int,
    info: RunInfo,
    attempt: InvalidAttempt | None = None,
) -> CostRow:
    """What an invalidated attempt took, or, without one, what attempts took that left no record."""
    models = [
        *(e.record.model for e in chain.episodes),
        *(a.note.model for a in chain.invalid),
        info.recorded.model,
    ]
    return CostRow(
        run=run,
        chain=chain.name,
        world=chain.world,
        task=chain.task,
        arm=chain.arm,
        model=(attempt.note.model if attempt is not None else "")
        or str(next(filter(None, models), "")),
        stand_in=info.manifest.stand_in,
        start=start,
        error=attempt.error if attempt is not None else "",
        verdict=attempt.verdict if attempt is not None else None,
        unix_time=attempt.timing.unix_time if attempt is not None else None,
        **amounts(taken),
    )
