"""What a run still needs until it has enough demonstrations, per task and method, and where the
next dollar brings most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from capex.campaign.board import ChainLine
from capex.campaign.prediction import LEVEL, Draws, Interval, Prediction, interval
from capex.campaign.status import read_status
from capex.errors import CapexError, ErrorCode
from capex.pose import Array
from capex.run import LoadedRun

LEARNS = 0.8  # how probable a risen rate must be to be spoken of


@dataclass(frozen=True)
class ChainForecast:
    """One chain: what it has shown, and what it needs until it has enough."""

    chain: str
    task: str
    method: str
    episodes: int
    successes: int
    rate: Interval  # of the next attempt
    learning: float  # probability that the rate has risen over the chain
    lacks: int  # demonstrations
    draws: Draws  # until it has them
    per_dollar: Array | None  # draws of the successes that a dollar brings; None without a price
    per_hour: Array  # the same of an hour of attempts

    @property
    def worth(self) -> Array:
        """Draws of what the next dollar brings, or, without a price, the next hour."""
        return self.per_hour if self.per_dollar is None else self.per_dollar


@dataclass(frozen=True)
class Spent:
    """What a sum of money brings: spent where it brings most, and if the tasks take turns."""

    usd: float
    allocated: Interval
    in_turn: Interval
    lacking: int  # demonstrations in all
    shares: dict[str, tuple[Interval, Interval]]  # chain -> its dollars, its successes


@dataclass(frozen=True)
class RunForecast:
    """All chains of a run, and what follows from them together."""

    run: str
    stand_in: bool
    demonstrations: int
    chains: tuple[ChainForecast, ...]
    untried: tuple[str, ...]  # chains without an attempt
    spent: Spent | None = None

    @property
    def best(self) -> ChainForecast | None:
        """Where the next dollar brings most, among the chains that lack demonstrations."""
        lacking = [c for c in self.chains if c.lacks]
        return max(lacking, key=lambda c: float(np.median(c.worth)), default=None)

    def of_methods(self) -> dict[str, Draws]:
        """By method, what all its tasks need together."""
        sums: dict[str, Draws] = {}
        for c in self.chains:
            sums[c.method] = sums[c.method] + c.draws if c.method in sums else c.draws
        return sums

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        best = self.best
        return {
            "run": self.run,
            "stand_in": self.stand_in,
            "demonstrations": self.demonstrations,
            "level": LEVEL,
            "chains": {c.chain: _chain_json(c) for c in self.chains},
            "untried": list(self.untried),
            "methods": {name: _needs(draws) for name, draws in self.of_methods().items()},
            "next_dollar": None if best is None else best.chain,
            "spent": None if self.spent is None else asdict(self.spent),
        }


def forecast(path: Path, demonstrations: int, usd: float | None = None) -> RunForecast:
    """Read a run and forecast every chain of it."""
    if demonstrations < 1:
        raise CapexError(
            f"--demonstrations is {demonstrations}; it must be at least 1",
            code=ErrorCode.BAD_SETTING,
        )
    if usd is not None and not usd > 0:
        raise CapexError(f"--usd is {usd:g}; it must be more than 0", code=ErrorCode.BAD_SETTING)
    status = read_status(path)
    if status.run.manifest.recorded.command == "fork":
        raise CapexError(
            f"{path} holds forks, which go on from saved states and are no demonstrations; forecast"
            " the run that they come from",
            code=ErrorCode.WRONG_CONTENT,
        )
    lines = {c.name: (c, status.board.lines[c.name]) for c in status.run.chains}
    chains, untried = [], []
    for chain, line in lines.values():
        line.learns = learns(status.run, chain.arm)
        if line.judged:
            chains.append(of_line(line, chain.task, chain.arm, demonstrations))
        else:
            untried.append(chain.name)
    if not chains:
        raise CapexError(
            f"{path} has no attempt that was judged, so nothing can be forecast; collect a few"
            " starts of each task first",
            code=ErrorCode.NO_DATA,
        )
    spent = None if usd is None else _spend(chains, usd, path)
    stand_in = status.run.manifest.stand_in
    return RunForecast(str(path), stand_in, demonstrations, tuple(chains), tuple(untried), spent)


def of_line(line: ChainLine, task: str, method: str, demonstrations: int) -> ChainForecast:
    """What a chain of a board needs."""
    history = line.history
    futures = Prediction(history)
    lacks = max(0, demonstrations - line.successes)
    return ChainForecast(
        chain=line.chain,
        task=task,
        method=method,
        episodes=line.episodes,
        successes=line.successes,
        rate=interval(futures.rate()),
        learning=futures.learning,
        lacks=lacks,
        draws=futures.until(lacks),
        per_dollar=futures.successes_per("usd") if history.priced else None,
        per_hour=3600 * futures.successes_per("seconds"),
    )


def learns(run: LoadedRun, arm: str) -> bool:
    """Whether a method's later attempts see what earlier ones left."""
    method = run.manifest.recorded.arms.get(arm)
    return method is not None and method.memory == "chain"


def _spend(chains: Sequence[ChainForecast], usd: float, path: Path) -> Spent:
    """What so many dollars bring, one method per task: the one with most successes a dollar."""
    if any(c.per_dollar is None for c in chains):
        raise CapexError(
            f"--usd {usd:g}: the attempts of {path} have no price, so dollars cannot be forecast;"
            " leave --usd out",
            code=ErrorCode.NO_PRICE,
        )
    ordered = sorted(chains, key=lambda c: -float(np.median(c.worth)))
    tasks: dict[tuple[str, str], ChainForecast] = {}
    for c in ordered:
        tasks.setdefault((c.chain.partition("--")[0], c.task), c)
    kept = [c for c in tasks.values() if c.lacks]
    cost = np.array([c.draws.taken[:, 1] for c in kept]).reshape(len(kept), -1)
    lacks = np.array([c.lacks for c in kept])
    before = np.cumsum(cost, axis=0) - cost
    dollars = np.clip(usd - before, 0.0, cost)
    share = np.divide(dollars, cost, out=np.ones_like(cost), where=cost > 0)
    won = np.floor(share * lacks[:, None] + 1e-9)
    in_turn = _in_turn(kept, cost, usd) if kept else won
    return Spent(
        usd=usd,
        allocated=interval(won.sum(axis=0)) if kept else Interval(0, 0, 0),
        in_turn=interval(in_turn.sum(axis=0)) if kept else Interval(0, 0, 0),
        lacking=int(lacks.sum()),
        shares={c.chain: (interval(dollars[k]), interval(won[k])) for k, c in enumerate(kept)},
    )


def _in_turn(chains: Sequence[ChainForecast], cost: Array, usd: float) -> Array:
    """Successes per chain and draw if every chain that lacks some makes an attempt in turn: after k
    attempts a chain of N has spent k / N of its dollars.
    """
    episodes = np.array([c.draws.episodes for c in chains])
    high: Array = episodes.max(axis=0)
    low: Array = np.zeros_like(high)
    for _ in range(40):
        middle = (low + high) / 2
        fits = (cost * np.minimum(1.0, middle / episodes)).sum(axis=0) <= usd
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    share = np.minimum(1.0, high / episodes)
    won: Array = np.floor(share * np.array([c.lacks for c in chains])[:, None] + 1e-6)
    return won


def _chain_json(c: ChainForecast) -> dict[str, Any]:
    told = {name: getattr(c, name) for name in ("task", "method", "episodes", "successes", "lacks")}
    per_dollar = None if c.per_dollar is None else asdict(interval(c.per_dollar))
    return {
        **told,
        "rate": asdict(c.rate),
        "learning": c.learning,
        **_needs(c.draws),
        "successes_per_dollar": per_dollar,
        "successes_per_hour": asdict(interval(c.per_hour)),
    }


def _needs(draws: Draws) -> dict[str, Any]:
    """Intervals of what is still needed."""
    known, most, seconds, requests = draws.taken.T
    return {
        "needs_episodes": asdict(interval(draws.episodes)),
        "needs_usd": None if np.isnan(known).any() else asdict(interval(known, most)),
        "needs_minutes": asdict(interval(seconds / 60)),
        "needs_requests": asdict(interval(requests)),
    }
