"""Statistics of the method and its reports, each checked against the numbers the paper prints.

Exact tests come from scipy and statsmodels, imported where they are used: an interval for a
progress line must not wait for them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from capex.pose import Array

DRAWS_AT_ONCE = 1_000_000  # of a bootstrap: bounds its memory


def wilson(successes: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval for a proportion, without continuity correction; (0, 1) when nothing
    was tried.

    (p + z^2/2n  -+  z sqrt(p (1 - p)/n + z^2/4n^2)) / (1 + z^2/n),    p = successes / n, z the
    normal quantile of (1 + level)/2
    """
    if not 0 <= successes <= n:
        raise ValueError(
            f"{successes} successes of {n}; they must lie between 0 and the number tried"
        )
    if not 0 < level < 1:
        raise ValueError(f"level is {level}; it must lie between 0 and 1, as 0.95")
    if n == 0:
        return 0.0, 1.0
    p, z = successes / n, NormalDist().inv_cdf((1 + level) / 2)
    centre, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    low = 0.0 if successes == 0 else (centre - half) / scale
    high = 1.0 if successes == n else (centre + half) / scale
    return low, high


def mcnemar(only_a: int, only_b: int) -> float:
    """Exact two-sided McNemar test on paired starts: `only_a` starts solved by the first arm alone,
    `only_b` by the second alone.

    Under the null each discordant pair is a fair coin. Without discordant pairs nothing speaks
    against it: 1.
    """
    if only_a < 0 or only_b < 0:
        raise ValueError(f"{only_a} and {only_b} discordant pairs; counts cannot be negative")
    if only_a + only_b == 0:
        return 1.0
    from scipy.stats import binomtest

    return float(binomtest(only_a, only_a + only_b).pvalue)


@dataclass(frozen=True)
class SignTest:
    """How often the first of a pair was smaller, larger or equal, and the two-sided p of that."""

    smaller: int
    larger: int
    equal: int
    p: float


def sign_test(first: npt.ArrayLike, second: npt.ArrayLike) -> SignTest:
    """Two-sided sign test on paired values; equal pairs say nothing and are left out. Binomial like
    `mcnemar`.
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if a.ndim != 1 or a.shape != b.shape:
        raise ValueError(
            f"values have shapes {a.shape} and {b.shape}; pairs need two of shape (n,)"
        )
    if not (np.all(np.isfinite(a)) and np.all(np.isfinite(b))):
        raise ValueError("a value is not a finite number; leave out the pair")
    smaller, larger = int((a < b).sum()), int((a > b).sum())
    return SignTest(smaller, larger, len(a) - smaller - larger, mcnemar(smaller, larger))


def fisher(successes_a: int, n_a: int, successes_b: int, n_b: int) -> float:
    """Fisher's exact test, two-sided, of two independent success rates; 1 where one of them was not
    tried.
    """
    for k, n in ((successes_a, n_a), (successes_b, n_b)):
        if not 0 <= k <= n:
            raise ValueError(f"{k} successes of {n}; they must lie between 0 and the number tried")
    from scipy.stats import fisher_exact

    return float(
        fisher_exact([[successes_a, n_a - successes_a], [successes_b, n_b - successes_b]]).pvalue
    )


@dataclass(frozen=True)
class Stratified:
    """Cochran-Mantel-Haenszel: chi-squared with one degree of freedom, its p, and the common odds
    ratio (nan where nothing tells).
    """

    statistic: float
    p: float
    odds_ratio: float


def cochran_mantel_haenszel(
    strata: Sequence[tuple[int, int, int, int]], *, correction: bool = False
) -> Stratified:
    """Do two arms differ when each task is compared with itself? A stratum is (successes a, n a,
    successes b, n b).

    Strata in which an arm was not tried say nothing. `correction` is the continuity correction,
    which R applies unless told otherwise.
    """
    tables = []
    for k_a, n_a, k_b, n_b in strata:
        if not (0 <= k_a <= n_a and 0 <= k_b <= n_b):
            raise ValueError(
                f"{k_a} successes of {n_a} and {k_b} of {n_b}; they must lie between 0 and the"
                " number tried"
            )
        if n_a and n_b:
            tables.append(np.array([[k_a, n_a - k_a], [k_b, n_b - k_b]], dtype=np.float64))
    if not any(t[:, 0].sum() and t[:, 1].sum() for t in tables):
        # Every task solved always or never, by both.
        return Stratified(math.nan, math.nan, math.nan)
    from statsmodels.stats.contingency_tables import StratifiedTable

    pooled = StratifiedTable(tables)
    with np.errstate(divide="ignore"):
        test, odds = pooled.test_null_odds(correction=correction), float(pooled.oddsratio_pooled)
    return Stratified(float(test.statistic), float(test.pvalue), odds)


def per_success(amounts: Sequence[float | None], successes: int) -> float | None:
    """Dollars, requests or minutes per success: every attempt counts. Infinite without a success;
    None when nothing was tried or an amount is not known.
    """
    known = [a for a in amounts if a is not None]
    if not amounts or len(known) < len(amounts):
        return None
    return math.fsum(known) / successes if successes else math.inf


def per_success_interval(
    amounts: Sequence[float | None],
    solved: Sequence[bool],
    strata: Sequence[Hashable] | None = None,
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> tuple[float, float] | None:
    """Percentile bootstrap interval of `per_success`: attempts are drawn anew with replacement,
    within their stratum (the task).

    A draw without a success is infinitely dear, so that the upper end is infinite where such draws
    are common. Attempts are taken as independent; those of a chain with memory are not quite. None
    where `per_success` is None.
    """
    if len(amounts) != len(solved) or (strata is not None and len(strata) != len(solved)):
        raise ValueError(
            f"{len(amounts)} amounts for {len(solved)} attempts; each attempt needs one, and one"
            " stratum"
        )
    if per_success(amounts, 1) is None:
        return None
    a, y = np.array(amounts, dtype=np.float64), np.array(solved, dtype=np.float64)
    members: dict[Hashable, list[int]] = {}
    for place, stratum in enumerate(strata if strata is not None else [0] * len(y)):
        members.setdefault(stratum, []).append(place)
    rng = np.random.default_rng(seed)
    totals, wins = np.zeros(resamples), np.zeros(resamples)
    for places in members.values():
        rows = max(1, DRAWS_AT_ONCE // len(places))
        for first in range(0, resamples, rows):
            part = slice(first, min(first + rows, resamples))
            drawn = np.array(places)[
                rng.integers(0, len(places), (part.stop - part.start, len(places)))
            ]
            totals[part] += a[drawn].sum(axis=1)
            wins[part] += y[drawn].sum(axis=1)
    ratios = np.divide(totals, wins, out=np.full(resamples, math.inf), where=wins > 0)
    low, high = np.quantile(ratios, [(1 - level) / 2, (1 + level) / 2], method="inverted_cdf")
    return float(low), float(high)


@dataclass(frozen=True)
class Bin:
    """One confidence bin [low, high), the last one closed: how many fell in, their mean prediction
    and share reached (nan when empty).
    """

    low: float
    high: float
    count: int
    predicted: float
    reached: float


def reliability(predicted: npt.ArrayLike, labels: npt.ArrayLike, bins: int = 10) -> list[Bin]:
    """The reliability diagram: `bins` bins of equal width over [0, 1], empty ones included."""
    p, y = _paired(predicted, labels)
    if np.any((p < 0) | (p > 1)):
        raise ValueError(
            f"predictions reach from {p.min()} to {p.max()}; probabilities lie between 0 and 1"
        )
    edges = [k / bins for k in range(bins + 1)]
    which = np.searchsorted(edges[1:-1], p, side="right")
    rows = []
    for k in range(bins):
        inside = which == k
        count = int(inside.sum())
        mean_p, mean_y = (
            (float(p[inside].mean()), float(y[inside].mean())) if count else (math.nan, math.nan)
        )
        rows.append(Bin(edges[k], edges[k + 1], count, mean_p, mean_y))
    return rows


def ece(predicted: npt.ArrayLike, labels: npt.ArrayLike, bins: int = 10) -> float:
    """Expected calibration error: sum over bins of (count/n) |mean prediction - share reached|; nan
    without data.
    """
    rows = [row for row in reliability(predicted, labels, bins) if row.count]
    n = sum(row.count for row in rows)
    return (
        math.fsum(row.count * abs(row.predicted - row.reached) for row in rows) / n
        if n
        else math.nan
    )


def auroc(scores: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """The chance that a reached waypoint scores above one that was not, ties counting half; nan
    unless both kinds occur.

    From the rank sum, O(n log n):  (R_1 - n_1 (n_1 + 1)/2) / (n_1 n_0),    R_1 the sum of the
    mid-ranks of label 1
    """
    s, y = _paired(scores, labels)
    n_1 = int(y.sum())
    n_0 = len(y) - n_1
    if n_1 == 0 or n_0 == 0:
        return math.nan
    _, which, counts = np.unique(s, return_inverse=True, return_counts=True)
    mid_ranks = np.cumsum(counts) - (counts - 1) / 2
    return (float(mid_ranks[which][y == 1].sum()) - n_1 * (n_1 + 1) / 2) / (n_1 * n_0)


def brier(predicted: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Mean squared difference between prediction and label; nan without data."""
    p, y = _paired(predicted, labels)
    return float(((p - y) ** 2).mean()) if len(y) else math.nan


def cohen_kappa(pairs: Sequence[tuple[str, str]]) -> float | None:
    """Agreement of two judges beyond chance; None where there is none to be beyond.

    (p_o - p_e) / (1 - p_e),    p_o the share of equal verdicts, p_e = sum_k p_k(a) p_k(b) the share
    that judges with these frequencies of each verdict k would have by chance
    """
    if not pairs:
        return None
    n = len(pairs)
    equal = sum(a == b for a, b in pairs) / n
    firsts, seconds = (Counter(column) for column in zip(*pairs, strict=True))
    chance = sum(firsts[k] * seconds[k] for k in firsts) / (n * n)
    return None if chance == 1.0 else (equal - chance) / (1.0 - chance)


def _paired(values: npt.ArrayLike, labels: npt.ArrayLike) -> tuple[Array, Array]:
    """Both as (n,) arrays, labels 0 or 1."""
    v, y = np.asarray(values, dtype=np.float64), np.asarray(labels, dtype=np.float64)
    if v.ndim != 1 or v.shape != y.shape:
        raise ValueError(
            f"values have shape {v.shape} and labels {y.shape}; they must be (n,) both"
        )
    if not np.all(np.isfinite(v)):
        raise ValueError("a prediction is not a finite number; leave out what has none")
    if not np.all((y == 0) | (y == 1)):
        raise ValueError("a label is neither 0 nor 1; leave out what has none")
    return v, y
