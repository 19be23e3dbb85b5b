"""counterfactual.json: what became of every planned waypoint when each plan was executed whole from
its saved state, the deferred tail included. Written by `capex counterfactual`, without wall times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from capex import codec
from capex.errors import DamagedFile
from capex.run.files import read_json, write_json
from capex.run.reading import digests
from capex.untrusted import damage

COUNTERFACTUAL = "counterfactual.json"
HITS = ("contact", "finger contact")


@dataclass(frozen=True)
class WaypointOutcome:
    """What became of one waypoint with nothing deferred before it."""

    status: str
    report: str
    label: Literal[0, 1] | None
    steps: int

    @property
    def hit(self) -> bool:
        """Whether a contact stopped it."""
        return self.status in HITS


@dataclass(frozen=True)
class PlanOutcome:
    """One plan executed whole. `difference`: where its committed part did not come out as recorded;
    such a plan says nothing.
    """

    decision: int
    committed: int
    waypoints: tuple[WaypointOutcome, ...]
    difference: str = ""


@dataclass(frozen=True)
class Counterfactual:
    """Every plan of an episode."""

    rule: str  # what had to agree with the recording
    plans: tuple[PlanOutcome, ...]
    digests: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        outcomes = [outcome for plan in self.plans for outcome in plan.waypoints]
        if any(outcome.label not in (0, 1, None) for outcome in outcomes):
            raise ValueError("a label is neither 0, 1 nor null")

    @property
    def agreed(self) -> int:
        """Plans whose committed part came out as recorded."""
        return sum(not plan.difference for plan in self.plans)


def write_counterfactual(episode: Path, counterfactual: Counterfactual) -> None:
    """Store it beside the record."""
    write_json(episode / COUNTERFACTUAL, asdict(counterfactual))


def read_counterfactual(episode: Path) -> Counterfactual | None:
    """What is stored beside a record; None without it, or once the episode's files have changed."""
    path = episode / COUNTERFACTUAL
    if not path.is_file():
        return None
    try:
        with damage(path):
            found = codec.from_json(read_json(path), Counterfactual)
            return found if found.digests == digests(episode) else None
    except DamagedFile:
        return None
