"""What further attempts of a chain will bring and take, drawn many times from what it has shown.

A draw is one possible future. Without memory the success rate p is drawn from
Beta(1/2 + successes, 1/2 + failures), Jeffreys' prior, and attempts until r further successes are
r + NegativeBinomial(r, p). A chain with memory may learn; then half of the prior belongs to a curve

    p_i = b - (b - a) exp(-i / c),    a < b ~ Beta(1/2, 1/2),  c of SPEEDS, i the attempts before

on a grid, and the outcomes so far decide between it and the constant rate. A rate that falls is no
learning; it is taken for chance.

Dollars, seconds and requests are bootstrapped, successes and failures apart since a failure runs to
its horizon: past attempts are drawn anew with replacement, the future is drawn from those. A sample
of n varies by (n - 1) / n of what it should, so the rest is added, Student distributed.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from capex.pose import Array

DRAWS = 2000
LEVEL = 0.8  # of the intervals
LEAST_RATE = 1e-6  # a draw of p below it is no forecast, and overflows
RATES = np.sin(np.pi / 2 * (np.arange(16) + 0.5) / 16) ** 2  # quantiles of Beta(1/2, 1/2)
SPEEDS = (1.0, 3.0, 8.0, 20.0, 50.0)  # attempts in which a chain learns most of what it will
SPREAD = 0.5  # of what an attempt takes, relative to the mean: a prior worth PRIOR attempts
PRIOR = 2
# Where no failure was seen, or no success: what a failure takes is 1 to 9 times a success (80 %).
UNSEEN_RATIO, UNSEEN_SPREAD = 3.0, 0.86
AMOUNTS = ("usd", "usd_at_most", "seconds", "requests")  # columns of what attempts took


@dataclass(frozen=True)
class History:
    """The whole attempts of a chain in their order."""

    name: str  # seeds the draws
    solved: Sequence[bool | None]  # None while nobody has judged
    taken: Array  # (n, 4), columns AMOUNTS; nan where there is no price
    learns: bool = False  # whether later attempts see what earlier ones left

    @property
    def successes(self) -> int:
        """Attempts that achieved the task."""
        return sum(s is True for s in self.solved)

    @property
    def priced(self) -> bool:
        """Whether dollars are known."""
        return not np.isnan(self.taken[:, 0]).any()

    def first(self, count: int) -> History:
        """The chain as it was after so many attempts."""
        return History(self.name, self.solved[:count], self.taken[:count], self.learns)


@dataclass(frozen=True)
class Draws:
    """Possible futures, one entry (or row) each."""

    episodes: Array
    successes: Array
    taken: Array  # (draws, 4), columns AMOUNTS

    def __add__(self, other: Draws) -> Draws:
        return Draws(
            self.episodes + other.episodes,
            self.successes + other.successes,
            self.taken + other.taken,
        )


@dataclass(frozen=True)
class Interval:
    """The middle of some draws and the ends that LEVEL of them lie between."""

    low: float
    middle: float
    high: float


def interval(draws: Array, most: Array | None = None, level: float = LEVEL) -> Interval:
    """Quantiles of draws. `most`: the same at most, where part of the bill is not known; the upper
    end is taken from it.
    """
    low, middle = np.quantile(draws, [(1 - level) / 2, 0.5], method="inverted_cdf")
    upper = draws if most is None else most
    high = np.quantile(upper, (1 + level) / 2, method="inverted_cdf")
    return Interval(float(low), float(middle), float(high))


class Prediction:
    """Draws of a chain's future. The same history and salt give the same draws."""

    def __init__(self, history: History, draws: int = DRAWS, salt: int = 0):
        if not len(history.solved):
            raise ValueError("a chain without an attempt shows nothing to predict from")
        self._history, self._draws, self._n = history, draws, len(history.solved)
        name = history.name.encode("utf-8", "surrogateescape")  # of a folder
        self._rng = np.random.default_rng([zlib.crc32(name), salt])
        self._judged = np.array([s is not None for s in history.solved])
        self._solved = np.array([s is True for s in history.solved])
        won = history.successes
        lost = int(self._judged.sum()) - won
        rate = self._rng.beta(0.5 + won, 0.5 + lost, draws)
        self._first, self._last, self._speed = rate, rate.copy(), np.ones(draws)
        self.learning = 0.0  # probability that the rate has risen over the chain
        if history.learns:
            self._learn(won, lost)

    def _learn(self, won: int, lost: int) -> None:
        """Give draws to learning curves, as many as the outcomes speak for."""
        grid = np.stack(np.meshgrid(RATES, RATES, SPEEDS, indexing="ij")).reshape(3, -1)
        a, b, c = grid[:, grid[0] < grid[1]]
        at = np.flatnonzero(self._judged)
        rates = b + (a - b) * np.exp(-at[:, None] / c)
        scores = np.log(np.where(self._solved[at][:, None], rates, 1 - rates)).sum(axis=0)
        flat_scores = won * np.log(RATES) + lost * np.log(1 - RATES)
        best = max(scores.max(), flat_scores.max())  # so that long chains do not underflow
        curve, flat = np.exp(scores - best), np.exp(flat_scores - best)
        self.learning = float(curve.mean() / (curve.mean() + flat.mean()))
        learns = self._rng.random(self._draws) < self.learning
        chosen = self._rng.choice(len(curve), size=self._draws, p=curve / curve.sum())[learns]
        self._first[learns], self._last[learns] = a[chosen], b[chosen]
        self._speed[learns] = c[chosen]

    def rate(self, episodes: npt.ArrayLike = 1.0) -> Array:
        """Draws of the mean success rate over so many further attempts."""
        count = np.maximum(1.0, np.asarray(episodes, dtype=np.float64))
        fall = np.exp(-1 / self._speed)
        left = fall**self._n * (1 - fall**count) / (1 - fall) / count
        rate: Array = np.clip(self._last + (self._first - self._last) * left, LEAST_RATE, 1.0)
        return rate

    @cached_property
    def _pasts(self) -> list[tuple[Array, Array]]:
        """Of successes and of failures: per draw, how probable each past attempt is as the pattern
        of a future one, (draws, n), and what to multiply it by, (draws,).
        """
        won, lost = self._solved & self._judged, ~self._solved & self._judged
        unseen = UNSEEN_RATIO * np.exp(UNSEEN_SPREAD * self._rng.standard_normal(self._draws))
        if not won.any() and not lost.any():
            return [self._resampled(self._judged | True)] * 2
        if won.all() or not lost.any():
            past, scale = self._resampled(won)
            return [(past, scale), (past, scale * unseen)]
        if not won.any():
            past, scale = self._resampled(lost)
            return [(past, scale / unseen), (past, scale)]
        return [self._resampled(won), self._resampled(lost)]

    def _resampled(self, group: npt.NDArray[np.bool_]) -> tuple[Array, Array]:
        """A group's attempts drawn anew with replacement. Of a curve, an attempt counts by how much
        had been learned before it.
        """
        n, curved = int(group.sum()), self._first != self._last
        place = np.arange(1, self._n + 1)
        weights = np.where(curved[:, None], 1 - np.exp(-place / self._speed[:, None]), 1.0) * group
        weights /= weights.sum(axis=1, keepdims=True)
        counts = self._rng.multinomial(n, weights) / n
        known = self._history.taken[group][:, 0 if self._history.priced else 2]
        apart = known / known.mean() - 1 if known.mean() > 0 else np.zeros(n)
        freedom = PRIOR + n - 1
        spread = np.sqrt((PRIOR * SPREAD**2 + (apart**2).sum()) / freedom)
        lacking = np.maximum(0.0, (weights**2).sum(axis=1) - (n - 1) / n**2)
        student = np.clip(self._rng.standard_t(freedom, self._draws), -4, 4)
        return counts, np.exp(spread * np.sqrt(lacking) * student)

    @cached_property
    def mean_taken(self) -> Array:
        """Draws of what the next attempt takes on average: (draws, 4)."""
        won, lost = (scale[:, None] * (p @ self._history.taken) for p, scale in self._pasts)
        rate = self.rate()[:, None]
        return rate * won + (1 - rate) * lost

    def successes_per(self, amount: str) -> Array:
        """Draws of the successes that one dollar, second or request brings at the next attempt."""
        spent = self.mean_taken[:, AMOUNTS.index(amount)]
        endless = np.full(self._draws, np.inf)
        per: Array = np.divide(self.rate(), spent, out=endless, where=spent > 0)
        return per

    def until(self, successes: int) -> Draws:
        """The futures until so many further successes."""
        won = np.full(self._draws, max(0, successes))
        lost = np.zeros_like(won)
        if successes > 0:
            count = successes / self.rate()
            for _ in range(30):  # how many attempts, hence the mean rate over them
                count = successes / self.rate(count)
            lost = self._rng.negative_binomial(won, self.rate(count))
        return self._future(won, lost)

    def over(self, episodes: int) -> Draws:
        """The futures of so many further attempts."""
        won = self._rng.binomial(episodes, self.rate(episodes))
        return self._future(won, episodes - won)

    def _future(self, won: npt.NDArray[np.int64], lost: npt.NDArray[np.int64]) -> Draws:
        taken = np.zeros((self._draws, len(AMOUNTS)))
        for count, (past, scale) in zip((won, lost), self._pasts, strict=True):
            drawn = self._rng.multinomial(count, past)
            taken += scale[:, None] * (drawn @ self._history.taken)
        return Draws((won + lost).astype(float), won.astype(float), taken)
