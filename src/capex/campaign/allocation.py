"""`capex collect --allocate`: a campaign's budget spent where it brings most.

Every chain first makes FIRST attempts, because nothing is known of it before. Then attempts are
granted in batches of BATCH: each goes to the chain that promises most successes a dollar in one
draw of their futures (`campaign.prediction`). So chains that are hardly known are still tried now
and then, and less and less often as they become known to be dear. A chain that has its successes
or its starts is out.

A batch is decided when the one before it has ended, so that it depends on nothing but finished
attempts, and is written to allocation.json before it begins. A killed campaign goes on with the
batch it had begun; at any parallelism the grants are the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from capex.campaign.board import ChainLine
from capex.campaign.prediction import Interval, Prediction, interval
from capex.campaign.settings import Settings
from capex.errors import CapexError, ErrorCode
from capex.run.files import read_json, write_json
from capex.worlds import Spec

ALLOCATION = "allocation.json"
FIRST = 3
DRAWS = 500  # of which a batch takes the first BATCH, and its reason all
BATCH = 8  # small beside a campaign, large enough for a few processes


@dataclass(frozen=True)
class Grants:
    """A batch: how many slots of each chain may be begun, and what a dollar promises there."""

    number: int
    slots: Mapping[str, int]  # by chain, in all
    given: Mapping[str, int]  # by chain, in this batch
    worth: Mapping[str, Interval]  # successes a dollar, of the chains that could be chosen

    @property
    def why(self) -> str:
        """Who gets how many of the batch, and why."""
        ordered = sorted(self.given, key=lambda name: (-self.given[name], name))
        parts = [", ".join(f"{self.given[n]} to {self._told(n)}" for n in ordered)]
        passed = [name for name in self.worth if name not in self.given]
        if passed:
            passed.sort(key=lambda name: -self.worth[name].middle)
            parts.append(f"none to {', '.join(self._told(n) for n in passed)}")
        return "; ".join(parts)

    def _told(self, chain: str) -> str:
        task = (*chain.split("--"), chain)[1]
        if (worth := self.worth.get(chain)) is None:
            return f"{task} (nothing is known of it)"
        return f"{task} ({_number(worth.middle)}, {_number(worth.low)} to {_number(worth.high)})"

    def as_json(self) -> dict[str, Any]:
        """As allocation.json keeps it."""
        worth = {name: [i.low, i.middle, i.high] for name, i in self.worth.items()}
        plain = {"number": self.number, "slots": dict(self.slots), "given": dict(self.given)}
        return {**plain, "successes_per_dollar": worth, "why": self.why}


class Allocation:
    """The batches of a run, as far as they have come."""

    def __init__(self, run_dir: Path, chains: Iterable[str]):
        self._path = run_dir / ALLOCATION
        self._batches, self.last = _read(self._path)
        self._slots: dict[str, int] = dict.fromkeys(chains, FIRST)
        if self.last is not None:
            self._slots |= self.last.slots

    def allows(self, chain: str, position: int) -> bool:
        """Whether a slot may be begun."""
        return position < self._slots[chain]

    def decide(self, begun: Mapping[str, int], lines: Mapping[str, ChainLine]) -> Grants:
        """Grant the next batch to the chains that can go on. `begun`: by such a chain, the first
        slot that it has not begun.
        """
        number = len(self._batches) + 1
        futures = {
            name: Prediction(lines[name].history, DRAWS, number)
            for name in begun
            if lines[name].judged
        }
        promised = {name: p.successes_per("usd") for name, p in futures.items()}
        # A chain that shows nothing yet is tried first.
        draws = [promised.get(name, np.full(BATCH, np.inf))[:BATCH] for name in begun]
        names = list(begun)
        given = Counter(names[k] for k in np.argmax(draws, axis=0))
        self._slots |= {name: begun[name] + count for name, count in given.items()}
        worth = {name: interval(p) for name, p in promised.items()}
        self.last = Grants(number, dict(self._slots), dict(given), worth)
        self._batches.append(self.last.as_json())
        write_json(self._path, {"batches": self._batches})
        return self.last


def refuse_allocation(settings: Settings, specs: Mapping[tuple[str, str], Spec]) -> None:
    """One sentence about why a campaign's budget cannot be allocated."""
    if settings.order != "allocate":
        return
    for spec in specs.values():
        if spec.exclusive:
            raise CapexError(
                f"--allocate: {spec.name} is one robot that a person arranges, attempt by attempt;"
                " leave --allocate out",
                code=ErrorCode.NOT_APPLICABLE,
            )
        if spec.success == "operator" and settings.judge == "later":
            raise CapexError(
                f"--allocate: a person judges {spec.name} later, so nobody knows yet what a dollar"
                " brings there; leave --allocate or --judge later out",
                code=ErrorCode.CONFLICTING_SETTINGS,
            )
    if settings.campaign_usd is None:
        raise CapexError(
            "--allocate spends a campaign's budget where it brings most, and there is none; give"
            " --campaign-usd",
            code=ErrorCode.MISSING_SETTING,
        )
    if len(settings.methods) > 1:
        names = ", ".join(m.name for m in settings.methods)
        raise CapexError(
            f"--allocate: {names} would run on different starts and could not be compared; name one"
            " arm, or leave --allocate out",
            code=ErrorCode.CONFLICTING_SETTINGS,
        )
    if len(settings.tasks) < 2:
        raise CapexError(
            "--allocate divides a budget between tasks, and one was named; name several, or leave"
            " --allocate out",
            code=ErrorCode.NOT_APPLICABLE,
        )


def _number(successes: float) -> str:
    return f"{successes:.2f}" if successes < 10 else f"{successes:.0f}"


def _read(path: Path) -> tuple[list[dict[str, Any]], Grants | None]:
    """The batches so far and the last one; a file that is none is refused with a sentence."""
    if not path.exists():
        return [], None
    try:
        batches = read_json(path)["batches"]
        told = batches[-1]
        slots = {str(name): int(count) for name, count in told["slots"].items()}
        given = {str(name): int(count) for name, count in told["given"].items()}
        worth = {n: Interval(*map(float, i)) for n, i in told["successes_per_dollar"].items()}
        return list(batches), Grants(len(batches), slots, given, worth)
    except (
        CapexError,
        OSError,
        ValueError,
        KeyError,
        IndexError,
        TypeError,
        AttributeError,
    ) as error:
        raise CapexError(
            f"{path} is damaged ({error}); move it aside, and the next batch is decided from the"
            " attempts that there are",
            code=ErrorCode.DAMAGED_FILE,
        ) from None
