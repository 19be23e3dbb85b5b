"""What a campaign says while it runs: one frozen dataclass per kind of event. `--json-events`
prints them, one JSON object a line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from capex.run.summary import Summary


@dataclass(frozen=True)
class CampaignBegan:
    """The plan, and the most it can cost."""

    run: str
    model: str
    stand_in: bool
    chains: tuple[str, ...]
    episodes: int | None  # still to run; None where successes decide
    # None: the model has no price, or nothing bounds the number of episodes.
    ceiling_usd: float | None
    ceiling: str  # the same as a sentence
    warning: str = ""  # what a user should know before it goes on
    expected_usd: float | None = (
        None  # of the episodes still to run, by what the paper's attempts cost
    )


@dataclass(frozen=True)
class EpisodeBegan:
    """A start is being attempted."""

    chain: str
    start: int
    position: int
    attempt: int  # from 1


@dataclass(frozen=True)
class EpisodeMoved:
    """A running episode did something. Phases: queueing (for a core), waiting (for its model),
    simulating.
    """

    chain: str
    start: int
    phase: str
    decision: int
    steps: int
    requests: int
    cost_usd: float | None


@dataclass(frozen=True)
class EpisodeEnded:
    """An episode is in the run directory."""

    chain: str
    summary: Summary


@dataclass(frozen=True)
class AttemptInvalid:
    """An error invalidated an attempt. `then`: again, recorded as invalid, chain stopped, or the
    campaign ends.
    """

    chain: str
    start: int
    error: str
    then: str
    counts: bool = True  # False: the model was down and nothing was tried


@dataclass(frozen=True)
class AttemptCutOff:
    """An attempt ended through no fault of its own; the exchanges that it paid for are kept and
    used when the start is run again.
    """

    chain: str
    start: int
    reason: str


@dataclass(frozen=True)
class CostAboveBound:
    """Requests at a start cost more than the worst case that was reserved for them; `usd` is by how
    much, over all such requests of the start.
    """

    chain: str
    start: int
    requests: int
    usd: float


@dataclass(frozen=True)
class ChainPaused:
    """The chain's model is down; it tries again after so many seconds."""

    chain: str
    seconds: float
    reason: str


@dataclass(frozen=True)
class ChainEnded:
    """A chain has nothing left to do, or stopped. `error` is empty when it ended well."""

    chain: str
    why: str
    error: str = ""


@dataclass(frozen=True)
class Forecast:
    """After three episodes: what a success and the rest of the campaign will cost, with 95 %
    intervals; None where not known.
    """

    episodes: int
    successes: int
    usd_per_success: float | None
    usd_per_success_low: float | None
    usd_per_success_high: float | None
    rest_usd: float | None
    rest_usd_low: float | None
    rest_usd_high: float | None
    hours_left: float | None
    unjudged: int = 0  # episodes that wait for a person's verdict


@dataclass(frozen=True)
class Allocated:
    """With `--allocate`: who gets the next attempts, and why."""

    batch: int  # from 1
    given: Mapping[str, int]  # by chain
    worth: Mapping[str, float]  # successes a dollar, by chain that could be chosen
    why: str


@dataclass(frozen=True)
class Stopping:
    """The campaign was asked to stop. `at_once`: attempts under way are cut off, otherwise they are
    finished, except those that only wait.
    """

    at_once: bool
    running: int
    reason: str


@dataclass(frozen=True)
class CampaignEnded:
    """Nothing runs any more."""

    run: str
    why: str  # finished, out of budget, stopped, interrupted
    episodes: int  # whole ones in the run
    spent_usd: float | None  # settled and held, of the whole run


Event = (
    CampaignBegan
    | EpisodeBegan
    | EpisodeMoved
    | EpisodeEnded
    | AttemptInvalid
    | AttemptCutOff
    | CostAboveBound
    | ChainPaused
    | ChainEnded
    | Forecast
    | Allocated
    | Stopping
    | CampaignEnded
)


# Of an episode that ended.
TOLD = (
    *("start", "position", "success", "end", "steps", "decisions", "requests", "cost_usd"),
    *("seconds", "path"),
)


def as_json(event: Event, unix_time: float) -> dict[str, Any]:
    """An event for machines."""
    values = {f.name: getattr(event, f.name) for f in fields(event)}
    if isinstance(event, EpisodeEnded):
        values = {"chain": event.chain} | {name: getattr(event.summary, name) for name in TOLD}
    plain = {
        k: str(v) if isinstance(v, Path) else list(v) if isinstance(v, tuple) else v
        for k, v in values.items()
    }
    return {"event": type(event).__name__, "unix_time": round(unix_time, 3), **plain}
