"""Plans executed whole: confidences over all planned waypoints beside those that were executed, and
how often a deferral was right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from capex.analysis.counterfactual_file import Counterfactual, read_counterfactual
from capex.method.calibrator import Calibrator
from capex.method.features import FEATURES
from capex.pose import Array
from capex.report.calibration import Judged, judge
from capex.report.compare import grouped
from capex.report.sources import Source
from capex.run import read_record
from capex.run.stats import auroc, brier, ece
from capex.run.summary import NO_LABEL, Summary

DRAWS = 200  # of the bootstrap over episodes
RETAUGHT = "calibrated, taught by all"
SCORES: dict[str, Callable[[Array, Array], float]] = {"ece": ece, "auroc": auroc, "brier": brier}


@dataclass(frozen=True)
class WholePlans:
    """The planned waypoints of some episodes as columns (n,), in order. Plans whose committed part
    did not come out as recorded are not among them.
    """

    episode: npt.NDArray[np.int64]  # from 0
    plan: npt.NDArray[np.int64]  # from 0, counted over all episodes
    decision: npt.NDArray[np.int64]  # of its episode, from 1
    place: npt.NDArray[np.int64]  # k, from 1
    stated: Array
    calibrated: Array  # what the commit rule saw; nan where nothing was predicted
    executed: npt.NDArray[np.int64]  # the label as recorded, or NO_LABEL
    label: npt.NDArray[np.int64]  # the label when the plan is executed whole, or NO_LABEL
    ran: npt.NDArray[np.bool_]  # whether the whole plan gets to it
    committed: npt.NDArray[np.bool_]  # whether it was committed to
    hit: npt.NDArray[np.bool_]  # whether a contact stopped it
    solved: npt.NDArray[np.bool_]  # whether the task was achieved in it
    steps: npt.NDArray[np.int64]

    @property
    def episodes(self) -> int:
        """How many episodes there are."""
        return int(self.episode.max()) + 1 if len(self.episode) else 0

    @property
    def plans(self) -> int:
        """How many plans there are."""
        return len(np.unique(self.plan))

    def at(self, rows: npt.NDArray[np.bool_]) -> WholePlans:
        """Some of the rows."""
        return WholePlans(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})


@dataclass(frozen=True)
class Found:
    """A source's episodes with stored counterfactuals."""

    source: Source
    episodes: tuple[Summary, ...]
    whole: WholePlans
    decisions: int  # all that were executed, those that disagree included
    agreed: int


def find(source: Source) -> Found | None:
    """What is stored beside a source's episodes; None where nothing is."""
    both = [(e, c) for e in source.episodes if (c := read_counterfactual(e.path)) is not None]
    fitting = [(e, c) for e, c in both if _fits(e, c)]
    if not fitting:
        return None
    decisions, agreed = sum(len(c.plans) for _, c in fitting), sum(c.agreed for _, c in fitting)
    episodes = tuple(e for e, _ in fitting)
    return Found(source, episodes, _columns(fitting), decisions, agreed)


def _fits(episode: Summary, counterfactual: Counterfactual) -> bool:
    return sum(len(p.waypoints) for p in counterfactual.plans) == len(episode.waypoints.plan)


def _columns(both: Iterable[tuple[Summary, Counterfactual]]) -> WholePlans:
    rows: list[tuple[object, ...]] = []
    plans = 0
    for number, (episode, counterfactual) in enumerate(both):
        w, at = episode.waypoints, 0
        for plan in counterfactual.plans:
            for place, outcome in enumerate(plan.waypoints, start=1):
                if not plan.difference:
                    label = NO_LABEL if outcome.label is None else outcome.label
                    where = number, plans, plan.decision, place
                    known = w.stated[at], w.calibrated[at], w.label[at], label
                    ran = outcome.status != "not executed", place <= plan.committed
                    ended = outcome.hit, outcome.status == "terminal", outcome.steps
                    rows.append((*where, *known, *ran, *ended))
                at += 1
            plans += not plan.difference
    kinds = (*(np.int64,) * 4, *(np.float64,) * 2, *(np.int64,) * 2, *(np.bool_,) * 4, np.int64)
    columns = zip(*rows, strict=True) if rows else ((),) * len(kinds)
    return WholePlans(*(np.array(c, dtype=k) for c, k in zip(columns, kinds, strict=True)))


@dataclass(frozen=True)
class Bias:
    """A score over executed waypoints less the same score over all planned ones, with a 95 %
    bootstrap interval over episodes; None where it cannot be had.
    """

    value: float | None
    interval: tuple[float, float] | None


@dataclass(frozen=True)
class Selection:
    """One predictor judged on the waypoints that were executed, and on all that a plan gets to."""

    name: str
    n: tuple[int, int]  # executed, planned
    reached: tuple[float, float]
    executed: Judged
    planned: Judged
    bias: dict[str, Bias]


def selections(found: Found) -> list[Selection]:
    """Stated and, where something was learned, calibrated, and calibrated if every planned waypoint
    of the earlier episodes had taught it; empty where nothing was stated.
    """
    w = found.whole
    given = np.isfinite(w.stated) & np.isfinite(w.calibrated)
    told = w.at(given)
    some, every = told.executed != NO_LABEL, told.label != NO_LABEL
    if not some.any():
        return []
    predicted = {"stated": told.stated}
    if any(e.weights is not None for e in found.episodes):
        predicted["calibrated"] = told.calibrated
        predicted[RETAUGHT] = _retaught(found)[given]
    result = []
    for name, p in predicted.items():
        executed = judge(name, p[some], told.executed[some].astype(np.float64))
        planned = judge(name, p[every], told.label[every].astype(np.float64))
        reached = (float(told.executed[some].mean()), float(told.label[every].mean()))
        n = (int(some.sum()), int(every.sum()))
        bias = _biases(told, p, executed, planned)
        result.append(Selection(name, n, reached, executed, planned, bias))
    return result


def _retaught(found: Found) -> Array:
    """The calibrator's predictions (n,) with the labels of whole plans in its memory, each made
    before its episode; nan where a waypoint has no features.
    """
    w = found.whole
    result = np.full(len(w.plan), np.nan)
    by_chain = grouped(enumerate(found.episodes), lambda item: (item[1].run, item[1].chain))
    for members in by_chain.values():
        features: list[tuple[float, ...]] = []
        labels: list[int] = []
        for number, episode in sorted(members, key=lambda item: item[1].position):
            at = np.flatnonzero(w.episode == number)
            seen = _features(episode, w.decision[at], w.place[at])
            trust = Calibrator.fit(np.array(features).reshape(-1, len(FEATURES)), labels)
            result[at] = np.array(trust.predict(seen, w.stated[at].tolist()), dtype=np.float64)
            for phi, label in zip(seen, w.label[at].tolist(), strict=True):
                if phi is not None and label != NO_LABEL:
                    features.append(phi)
                    labels.append(label)
    return result


def _features(
    episode: Summary, decisions: npt.NDArray[np.int64], places: npt.NDArray[np.int64]
) -> list[tuple[float, ...] | None]:
    """What the calibrator saw of these waypoints."""
    turns = {turn.decision: turn for turn in read_record(episode.path).turns}
    pairs = zip(decisions.tolist(), places.tolist(), strict=True)
    return [turns[decision].waypoints[place - 1].features for decision, place in pairs]


def _biases(w: WholePlans, p: Array, executed: Judged, planned: Judged) -> dict[str, Bias]:
    """The differences of the scores, episodes drawn anew."""
    rows = [np.flatnonzero(w.episode == e) for e in range(w.episodes)]
    rng = np.random.default_rng(0)
    drawn: dict[str, list[float]] = {name: [] for name in SCORES}
    for _ in range(DRAWS):
        at = np.concatenate([rows[k] for k in rng.integers(0, len(rows), len(rows))])
        few, every = at[w.executed[at] != NO_LABEL], at[w.label[at] != NO_LABEL]
        for name, score in SCORES.items():
            of_few = score(p[few], w.executed[few].astype(np.float64))
            drawn[name].append(of_few - score(p[every], w.label[every].astype(np.float64)))
    return {
        name: _bias(getattr(executed, name), getattr(planned, name), drawn[name]) for name in SCORES
    }


def _bias(of_some: float | None, of_every: float | None, drawn: Sequence[float]) -> Bias:
    if of_some is None or of_every is None:
        return Bias(None, None)
    known = [d for d in drawn if np.isfinite(d)]
    low, high = np.quantile(known, [0.025, 0.975]) if known else (np.nan, np.nan)
    return Bias(of_some - of_every, (float(low), float(high)))


@dataclass(frozen=True)
class Deferrals:
    """What became of the deferred tails when their plans were executed whole."""

    plans: int  # all
    cut: int  # of which a tail was deferred
    right: int  # the waypoint at which the plan was cut is not reached
    wrong: int  # it is reached, or the task is achieved in it
    moot: int  # the plan stops before it, or it has no label
    waypoints: int  # deferred
    reached: int  # of the deferred ones, executed whole
    missed: int
    unknown: int  # never come to, or without a label: one in which the task is achieved has none
    solved: int  # plans whose tail achieves the task


def deferrals(whole: WholePlans) -> Deferrals:
    """How often a deferral was right: at the cut itself, and over the tail."""
    tail = ~whole.committed
    _, at = np.unique(whole.plan[tail], return_index=True)
    cuts, labels, solved = whole.label[tail][at], whole.label[tail], whole.solved[tail]
    wrong = (cuts == 1) | solved[at]
    return Deferrals(
        plans=whole.plans,
        cut=len(at),
        right=int((cuts == 0).sum()),
        wrong=int(wrong.sum()),
        moot=int(((cuts == NO_LABEL) & ~wrong).sum()),
        waypoints=int(tail.sum()),
        reached=int((labels == 1).sum()),
        missed=int((labels == 0).sum()),
        unknown=int((labels == NO_LABEL).sum()),
        solved=int(solved.sum()),
    )
