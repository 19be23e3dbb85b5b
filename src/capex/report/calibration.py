"""Stated and calibrated confidence against what happened, each predicted before its outcome."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from capex.method.commit import defers
from capex.pose import Array
from capex.report.compare import Tally
from capex.report.experience import chains
from capex.report.sources import Source
from capex.run.stats import Bin, auroc, brier, ece, reliability
from capex.run.summary import NO_LABEL, Summary, WaypointColumns

LABELS_SEEN = (0, 1, 11, 31, 101, 301, 1001)  # lower ends of the bins
TAUS = tuple(round(0.05 * k, 2) for k in range(20))
HIGH = 0.8
PARTS = 10  # a chain's first tenth of plans against its last
CUTS_AT_LEAST = 10  # of known outcome: the share of right ones among fewer says nothing
EITHER_LABEL_AT_LEAST = 10  # reached and missed waypoints: an AUROC over fewer says nothing


@dataclass(frozen=True)
class Judged:
    """One predictor on waypoints of known outcome."""

    name: str
    mean: float
    ece: float
    auroc: float | None  # None with too few waypoints of either label
    brier: float
    bins: Sequence[Bin]


@dataclass(frozen=True)
class Calibration:
    """How good a source's confidences were before and after calibration, on executed waypoints."""

    source: Source
    n: int
    reached: float
    high: float  # share stated at 0.8 or more
    below_tau: float | None  # share stated below the commit threshold
    predictors: Sequence[Judged]  # stated, and calibrated where something was learned


def calibration(source: Source) -> Calibration | None:
    """None where no executed waypoint carries a confidence."""
    stated, calibrated, label = (
        _column(source.episodes, name) for name in ("stated", "calibrated", "label")
    )
    told = (label != NO_LABEL) & np.isfinite(stated) & np.isfinite(calibrated)
    q, p, y = stated[told], calibrated[told], label[told]
    if not len(y):
        return None
    learned = any(e.weights is not None for e in source.episodes)
    return Calibration(
        source=source,
        n=len(y),
        reached=float(y.mean()),
        high=float((q >= HIGH).mean()),
        below_tau=None if source.tau is None else float((q < _tau_column(source)[told]).mean()),
        predictors=[judge("stated", q, y), *([judge("calibrated", p, y)] if learned else [])],
    )


def judge(name: str, predicted: Array, labels: Array) -> Judged:
    """How good predictions (n,) were for labels (n,) of 0 and 1; an area only where it tells."""
    reached = int(labels.sum())
    telling = min(reached, len(labels) - reached) >= EITHER_LABEL_AT_LEAST
    return Judged(
        name,
        float(predicted.mean()),
        ece(predicted, labels),
        auroc(predicted, labels) if telling else None,
        brier(predicted, labels),
        reliability(predicted, labels),
    )


def _tau_column(source: Source) -> Array:
    taus = [source.tau_of(e) for e in source.episodes]
    column: Array = np.repeat(
        np.array(taus, dtype=np.float64), [len(e.waypoints.plan) for e in source.episodes]
    )
    return column


def _column(episodes: Sequence[Summary], name: str) -> Array:
    whole: Array = np.concatenate([getattr(e.waypoints, name) for e in episodes] or [np.zeros(0)])
    return whole.astype(np.float64)


@dataclass(frozen=True)
class Truncated:
    """Plans cut short by low confidence, among those made with so many labels seen."""

    low: int
    high: int | None  # None: no upper end
    plans: Tally

    @property
    def name(self) -> str:
        """0, 1 to 10, .., 1001+."""
        if self.high is None:
            return f"{self.low}+"
        return str(self.low) if self.low == self.high else f"{self.low} to {self.high}"


def truncation(source: Source) -> list[Truncated]:
    """Share of plans truncated against labels seen before the episode, where there are plans."""
    rows = []
    for low, following in zip(LABELS_SEEN, (*LABELS_SEEN[1:], math.inf), strict=True):
        inside = [e for e in source.episodes if low <= e.labels_before < following]
        high = int(following) - 1 if math.isfinite(following) else None
        if plans := sum(e.plans for e in inside):
            rows.append(Truncated(low, high, Tally(sum(e.truncated for e in inside), plans)))
    return rows


@dataclass(frozen=True)
class Growth:
    """How plans cut for low confidence grew with experience: with no reach label seen and with
    some; in the first and in the last tenth of each chain's plans, chains pooled.
    """

    without_labels: Tally
    with_labels: Tally
    first_tenth: Tally
    last_tenth: Tally
    chains: int  # with a tenth: those of ten plans or more

    @property
    def rows(self) -> tuple[tuple[str, Tally], ...]:
        """In words."""
        return (
            ("no label seen", self.without_labels),
            ("some labels seen", self.with_labels),
            ("first tenth", self.first_tenth),
            ("last tenth", self.last_tenth),
        )


def growth(source: Source) -> Growth:
    """From the plans as they were cut."""

    def cut(episodes: Sequence[Summary]) -> Tally:
        return Tally(sum(e.truncated for e in episodes), sum(e.plans for e in episodes))

    flags = []
    for chain in chains(source):
        places = [(e.plans, cut_places(e)) for e in chain]
        flags.append([k in found for plans, found in places for k in range(plans)])
    long = [plans for plans in flags if len(plans) >= PARTS]
    first = [flag for plans in long for flag in plans[: len(plans) // PARTS]]
    last = [flag for plans in long for flag in plans[-(len(plans) // PARTS) :]]
    return Growth(
        cut([e for e in source.episodes if not e.labels_before]),
        cut([e for e in source.episodes if e.labels_before]),
        Tally(sum(first), len(first)),
        Tally(sum(last), len(last)),
        len(long),
    )


def cut_places(episode: Summary) -> dict[int, int]:
    """By plan, the place of the waypoint at which it was cut, as recorded."""
    return _first_places(episode.waypoints, ~episode.waypoints.committed)


def cut_places_as_stated(episode: Summary, tau: float) -> dict[int, int]:
    """The same if nothing had been learned: the commit rule on the stated confidences of those
    waypoints that have a probability.
    """
    w = episode.waypoints
    stated = np.where(np.isnan(w.calibrated), np.nan, w.stated)
    return _first_places(w, defers(w.place, stated, tau))


def _first_places(w: WaypointColumns, rows: npt.NDArray[np.bool_]) -> dict[int, int]:
    """By plan, the place of the first of some waypoints."""
    at = np.flatnonzero(rows)
    plans, first = np.unique(w.plan[at], return_index=True)
    return dict(zip(plans.tolist(), w.place[at[first]].tolist(), strict=True))


@dataclass(frozen=True)
class WeightPath:
    """The calibrator's weights over a chain."""

    task: str
    numbers: tuple[int, ...]  # of the episodes, from 1
    weights: Array  # (n, 8), used in these episodes


def weight_paths(source: Source) -> list[WeightPath]:
    """One path per chain that learned something."""
    paths = []
    for chain in chains(source):
        used = {k: e.weights for k, e in enumerate(chain, start=1) if e.weights is not None}
        if used:
            paths.append(WeightPath(chain[0].task, tuple(used), np.array(list(used.values()))))
    return paths


@dataclass(frozen=True)
class Swept:
    """What the commit rule would have done to the recorded plans at one threshold."""

    tau: float
    plans: int
    cut: int  # plans of which a tail would have been deferred
    waypoints: int
    deferred: int  # waypoints that would have been deferred
    right: int  # cuts at a waypoint that was executed and not reached
    wrong: int  # cuts at a waypoint that was executed and reached
    unknown: int  # cuts at a waypoint that was not executed, so that nobody knows

    @property
    def judged(self) -> int:
        """Cuts of which it is known whether they were right."""
        return self.right + self.wrong


def tau_sweep(source: Source, taus: Sequence[float] = TAUS) -> list[Swept]:
    """The recorded plans under other thresholds, though a model that looks again would replan."""
    sizes = [len(e.waypoints.plan) for e in source.episodes]
    p, label, place = (_column(source.episodes, name) for name in ("calibrated", "label", "place"))
    if not np.isfinite(p).any():
        return []
    earlier = np.cumsum([0, *(e.plans for e in source.episodes[:-1])])
    plan = _column(source.episodes, "plan") + np.repeat(earlier, sizes)
    _, begins = np.unique(plan, return_index=True)
    ends = np.append(begins[1:], len(plan))
    rows = []
    for tau in taus:
        at = np.minimum.reduceat(np.where(defers(place, p, tau), np.arange(len(p)), len(p)), begins)
        cut = at < len(p)
        outcome = label[at[cut]]
        rows.append(
            Swept(
                tau=tau,
                plans=len(begins),
                cut=int(cut.sum()),
                waypoints=len(p),
                deferred=int((ends - at)[cut].sum()),
                right=int((outcome == 0).sum()),
                wrong=int((outcome == 1).sum()),
                unknown=int((outcome == NO_LABEL).sum()),
            )
        )
    return rows
