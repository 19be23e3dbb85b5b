"""Statistics of the method and its reports, each checked against the numbers the paper prints. Pure numpy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from capex.pose import Array


def wilson(successes: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval for a proportion, without continuity correction; (0, 1) when nothing was tried.

    (p + z^2/2n  -+  z sqrt(p (1 - p)/n + z^2/4n^2)) / (1 + z^2/n),    p = successes / n, z the normal quantile of (1 + level)/2
    """
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n}; they must lie between 0 and the number tried")
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


@dataclass(frozen=True)
class Bin:
    """One confidence bin [low, high), the last one closed: how many fell in, their mean prediction and share reached (nan when empty)."""

    low: float
    high: float
    count: int
    predicted: float
    reached: float


def reliability(predicted: npt.ArrayLike, labels: npt.ArrayLike, bins: int = 10) -> list[Bin]:
    """The reliability diagram: `bins` bins of equal width over [0, 1], empty ones included."""
    p, y = _paired(predicted, labels)
    if np.any((p < 0) | (p > 1)):
        raise ValueError(f"predictions reach from {p.min()} to {p.max()}; probabilities lie between 0 and 1")
    edges = [k / bins for k in range(bins + 1)]
    which = np.searchsorted(edges[1:-1], p, side="right")
    rows = []
    for k in range(bins):
        inside = which == k
        count = int(inside.sum())
        mean_p, mean_y = (float(p[inside].mean()), float(y[inside].mean())) if count else (math.nan, math.nan)
        rows.append(Bin(edges[k], edges[k + 1], count, mean_p, mean_y))
    return rows


def ece(predicted: npt.ArrayLike, labels: npt.ArrayLike, bins: int = 10) -> float:
    """Expected calibration error: sum over bins of (count/n) |mean prediction - share reached|; nan without data."""
    rows = [row for row in reliability(predicted, labels, bins) if row.count]
    n = sum(row.count for row in rows)
    return math.fsum(row.count * abs(row.predicted - row.reached) for row in rows) / n if n else math.nan


def auroc(scores: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """The chance that a reached waypoint scores above one that was not, ties counting half; nan unless both kinds occur.

    From the rank sum, O(n log n):  (R_1 - n_1 (n_1 + 1)/2) / (n_1 n_0),    R_1 the sum of the mid-ranks of label 1
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


def _paired(values: npt.ArrayLike, labels: npt.ArrayLike) -> tuple[Array, Array]:
    """Both as (n,) arrays, labels 0 or 1."""
    v, y = np.asarray(values, dtype=np.float64), np.asarray(labels, dtype=np.float64)
    if v.ndim != 1 or v.shape != y.shape:
        raise ValueError(f"values have shape {v.shape} and labels {y.shape}; they must be (n,) both")
    if not np.all(np.isfinite(v)):
        raise ValueError("a prediction is not a finite number; leave out what has none")
    if not np.all((y == 0) | (y == 1)):
        raise ValueError("a label is neither 0 nor 1; leave out what has none")
    return v, y
