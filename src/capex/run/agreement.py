"""How far two people agree who judged the same attempts, blind to each other: the verdict that
counts against each second judge's opinion.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from capex.errors import DamagedFile
from capex.run.stats import cohen_kappa
from capex.run.verdicts import read_opinions, read_verdict


@dataclass(frozen=True)
class Agreement:
    """Two judges on the attempts that both have judged."""

    first: str
    second: str
    both: int
    equal: int
    kappa: float | None  # Cohen's; None where both gave one same verdict throughout

    def __str__(self) -> str:
        beyond = "" if self.kappa is None else f" (Cohen's kappa {self.kappa:.2f})"
        return f"{self.first} and {self.second} agree on {self.equal} of {self.both}{beyond}"


def agreements(episodes: Iterable[Path]) -> list[Agreement]:
    """By pair of judges, over these attempts; one that cannot be read is left out."""
    pairs: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for folder in episodes:
        try:
            verdict, opinions = read_verdict(folder), read_opinions(folder)
        except DamagedFile:
            continue
        for by, opinion in opinions.items():
            if verdict is not None and verdict.by != by:
                pairs[verdict.by, by].append((verdict.verdict, opinion.verdict))
    return [
        Agreement(*judges, len(said), sum(a == b for a, b in said), cohen_kappa(said))
        for judges, said in sorted(pairs.items())
    ]
