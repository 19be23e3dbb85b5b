"""Statistics of a dataset in float64 over every frame and pixel; quantiles are exact, not averaged.

Vectors are described column by column, so that a dataset larger than memory can be described from a
file. Images are uint8, so that a histogram of 256 values per channel holds everything there is to
know about them; depth maps are millimetres, with 65,536 values.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capex.pose import Array

QUANTILES = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}
STATISTICS = ("min", "max", "mean", "std", "count", *QUANTILES)
# (3, 256) or, of depth, (1, 65536): how often each value occurs, per channel
Histogram = npt.NDArray[np.int64]
Stats = dict[str, Any]  # name -> nested lists, as they stand in stats.json


def describe(values: Array) -> Stats:
    """Min, max, mean, std and quantiles of (n, d) numbers, lists of d, and the count, of one."""
    columns = [np.array(values[:, k], dtype=np.float64) for k in range(values.shape[1])]
    methods = ("min", "max", "mean", "std")
    stats: Stats = {name: [float(getattr(c, name)()) for c in columns] for name in methods}
    quantiles = [np.quantile(c, list(QUANTILES.values())) for c in columns]
    stats["count"] = [len(values)]
    return stats | {name: [float(q[k]) for q in quantiles] for k, name in enumerate(QUANTILES)}


def empty_histogram() -> Histogram:
    """Of no picture yet; a PIL histogram of an RGB picture, reshaped, adds to it."""
    return np.zeros((3, 256), dtype=np.int64)


def describe_images(counts: Histogram, frames: int, unit: float = 255.0) -> Stats:
    """Of a histogram over images, per channel, in a unit, in the shape (channels, 1, 1): pictures
    are scaled to [0, 1], depth stays in millimetres.
    """
    value = np.arange(counts.shape[1], dtype=np.float64)
    rows: dict[str, list[float]] = {name: [] for name in ("min", "max", "mean", "std", *QUANTILES)}
    for channel in counts.astype(np.float64):
        n, seen = channel.sum(), np.flatnonzero(channel)
        mean = float((value * channel).sum() / n)
        rows["min"].append(float(seen[0]))
        rows["max"].append(float(seen[-1]))
        rows["mean"].append(mean)
        rows["std"].append(float(np.sqrt(((value - mean) ** 2 * channel).sum() / n)))
        below = np.cumsum(channel)
        for name, q in QUANTILES.items():
            rank = q * (n - 1)
            ranks = np.array([np.floor(rank), np.ceil(rank)])
            low, high = (int(k) for k in np.searchsorted(below, ranks, side="right"))
            rows[name].append(low + (high - low) * (rank - ranks[0]))
    stats: Stats = {name: [[[v / unit]] for v in channels] for name, channels in rows.items()}
    return stats | {"count": [frames]}


class Spool:
    """The vectors of all frames in a file, so that memory stays flat and the quantiles exact."""

    def __init__(self, path: Path, columns: dict[str, int]):
        self._path, self._columns = path, columns
        self._file = open(path, "wb")  # noqa: SIM115 - closed by `describe`

    def add(self, frames: dict[str, Array]) -> None:
        """Append an episode: each column as (n,) or (n, d)."""
        rows = [np.asarray(frames[k], np.float64).reshape(-1, d) for k, d in self._columns.items()]
        self._file.write(np.concatenate(rows, axis=1).tobytes())

    def describe(self) -> dict[str, Stats]:
        """Statistics of every column over all frames; the file is removed."""
        self._file.close()
        numbers = np.memmap(self._path, dtype=np.float64, mode="r")
        values = numbers.reshape(-1, sum(self._columns.values()))
        stats, left = {}, 0
        for name, width in self._columns.items():
            stats[name] = describe(values[:, left : left + width])
            left += width
        del values, numbers
        self._path.unlink()
        return stats
