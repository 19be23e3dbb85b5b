"""Statistics recomputed from the frames and compared with those that a dataset states.

Ours are float64 over every frame and pixel, so they must agree to the last digits; of video only
mean and deviation, because its pictures were described before they were encoded. Statistics of
other writers: LeRobot computes in float32, looks at a sample of the pictures and averages quantiles
over episodes, so minimum, maximum, mean and deviation of numbers are compared, and the mean of
pictures. LeRobot before 0.6 states a wrong deviation of pictures: a warning.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capex.dataset import statistics
from capex.dataset.inspect.model import Claims, DatasetFeature, Entry, Findings, Numbers
from capex.dataset.statistics import QUANTILES, Histogram, Spool, Stats, describe, describe_images

FROM_FLOAT32 = {"min": 1e-5, "max": 1e-5, "mean": 2e-3, "std": 2e-3, "count": 0.0}
EXACT = dict.fromkeys(("min", "max", "mean", "std", *QUANTILES), 1e-9) | {"count": 0.0}
ENCODED = {"mean": 0.02, "std": 0.02, "count": 0.0}  # by h264 at a sensible quality
SAMPLED = {"mean": 0.05}  # a hundred pictures of an episode or more, made smaller
BASIC = ("min", "max", "mean", "std")
NORMALIZED = ("observation", "action")  # what LeRobot's policies take in and give out
DEFECT = "LeRobot before 0.6 states a wrong one: squares of uint8 overflow"


class Measured:
    """The statistics of the frames seen so far; numbers wait in files, so that memory stays
    flat.
    """

    def __init__(self, claims: Claims, findings: Findings):
        self._claims, self._findings = claims, findings
        self._folder = tempfile.TemporaryDirectory(prefix="capex-dataset-")
        self._spools: dict[str, Spool] = {}
        self._histograms: dict[str, Histogram] = {}
        self._frames: dict[str, int] = {}
        self._unfit: set[str] = set()  # features with a number that is not finite, or with gaps
        self.compared: set[str] = set()

    def add(
        self,
        entry: Entry | None,
        numbers: Mapping[str, Numbers],
        histograms: Mapping[str, Histogram],
        lengths: Mapping[str, int],
    ) -> None:
        """An episode: its numbers, and per camera a histogram over so many pictures. A camera
        without a histogram has a picture that does not decode: its statistics say nothing.
        """
        self._unfit |= set(lengths) - set(histograms)
        for name, values in numbers.items():
            if not len(values) or not np.isfinite(values).all():
                self._unfit.add(name)
                continue
            wide = values.astype(np.float64)
            if name not in self._spools:
                path = Path(self._folder.name) / str(len(self._spools))
                self._spools[name] = Spool(path, {name: wide.shape[1]})
            self._spools[name].add({name: wide})
            if entry is not None and name in entry.stats:
                self._compare(f"{entry.name}: {name}", name, entry.stats[name], describe(wide))
        for name, counts in histograms.items():
            self._histograms[name] = (
                self._histograms.get(name, statistics.empty_histogram()) + counts
            )
            self._frames[name] = self._frames.get(name, 0) + lengths[name]
            if entry is not None and name in entry.stats and lengths[name]:
                true = describe_images(counts, lengths[name])
                self._compare(f"{entry.name}: {name}", name, entry.stats[name], true)

    def finish(self) -> dict[str, Stats]:
        """Compare with what is stated about the whole; returns what was recomputed."""
        true = {name: spool.describe()[name] for name, spool in self._spools.items()}
        true |= {
            name: describe_images(counts, self._frames[name])
            for name, counts in self._histograms.items()
            if self._frames[name]
        }
        self._folder.cleanup()
        self._check_complete()
        for name, stats in self._claims.stats.items():
            if name in self._unfit:
                continue
            if name in true:
                self._compare(f"meta/stats.json: {name}", name, stats, true[name])
                self._compare_sampled(name, stats, true[name])
            elif name not in self._claims.features:
                self._findings.add(
                    "statistics", f"meta/stats.json describes {name}, which is no feature"
                )
        return true

    def _check_complete(self) -> None:
        """What policies take in or give out has statistics, if anything has."""
        if not self._claims.stats:
            return
        for name, feature in self._claims.features.items():
            if feature.kind not in ("number", "picture") or not name.startswith(NORMALIZED):
                continue
            lacking = set(BASIC) - set(self._claims.stats.get(name, {}))
            if lacking:
                said = f"meta/stats.json: {name} has no {', '.join(sorted(lacking))}"
                self._findings.add("statistics", said)

    def _compare(self, where: str, name: str, stated: Any, true: Stats) -> None:
        if not isinstance(stated, Mapping):
            return
        feature = self._claims.features.get(name)
        picture = feature is not None and feature.kind == "picture"
        for kind, tolerance in _tolerances(self._claims.ours, feature).items():
            if kind not in stated:
                continue
            self.compared.add(name)
            scale = 1.0 if picture or kind == "count" else _largest(true)
            if wrong := _difference(stated[kind], true[kind], tolerance * scale):
                self._findings.add("statistics", f"{where}: {kind} {wrong}")

    def _compare_sampled(self, name: str, stated: Stats, true: Stats) -> None:
        """The deviation of pictures that another writer states: known to be wrong at times."""
        feature = self._claims.features.get(name)
        if feature is None or feature.kind != "picture" or self._claims.ours or "std" not in stated:
            return
        if wrong := _difference(stated["std"], true["std"], SAMPLED["mean"]):
            self._findings.warn("statistics", f"meta/stats.json: {name}: std {wrong}; {DEFECT}")


def _tolerances(ours: bool, feature: DatasetFeature | None) -> dict[str, float]:
    if feature is not None and feature.kind == "picture":
        if not ours:
            return SAMPLED
        return ENCODED if feature.stored_as == "video" else EXACT
    return EXACT if ours else FROM_FLOAT32


def _largest(true: Stats) -> npt.NDArray[np.float64]:
    """How large each number gets, by which its tolerances grow: float32 has so many digits."""
    ends = np.abs(np.asarray([true["min"], true["max"]], dtype=np.float64))
    largest: npt.NDArray[np.float64] = np.maximum(ends.max(axis=0), 1e-3)
    return largest


def _difference(stated: Any, true: Any, tolerance: float | npt.NDArray[np.float64]) -> str:
    """How a stated list of numbers differs from the recomputed one; nothing where it does not."""
    try:
        ours: npt.NDArray[np.float64] = np.asarray(true, dtype=np.float64).ravel()
        theirs: npt.NDArray[np.float64] = np.asarray(_plain(stated), dtype=np.float64).ravel()
    except (TypeError, ValueError):
        return "is no list of numbers"
    if theirs.shape != ours.shape:
        return f"has {len(theirs)} numbers, the frames {len(ours)}"
    beyond = np.nan_to_num(np.abs(theirs - ours) - tolerance, nan=np.inf)
    worst = int(np.argmax(beyond))
    if beyond[worst] <= 0:
        return ""
    place = f" (number {worst})" if len(ours) > 1 else ""
    return f"is stated as {theirs[worst]:.6g} and is {ours[worst]:.6g}{place}"


def _plain(value: Any) -> Any:
    """Nested lists with arrays inside, as Parquet hands them out, as lists."""
    return [_plain(v) for v in value] if isinstance(value, list | tuple | np.ndarray) else value
