"""Which commit threshold: what each would have executed of the recorded plans, exactly, and a
choice per task that says how sure it is.

A threshold is scored by the waypoints that it reaches less those that it misses,

    S(tau) = sum over plans (reached + solved - cost x missed),    cost = 1

(the waypoint in which the task is achieved has no label and counts as reached),
because a threshold t on a calibrated confidence p says that a waypoint is worth trying where
p x 1 >= (1 - p) x t / (1 - t): the paper's 0.5 prices one miss as one reached waypoint. S asks the
same of what happens, whether or not the confidences are calibrated, and counts that a cut takes the
whole tail with it.

Exact for the recorded plans: nobody knows what the model would have planned after another cut.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from capex.analysis.counterfactual_numbers import Found, WholePlans
from capex.method.commit import defers
from capex.method.presets import PRESETS, MethodSettings
from capex.pose import Array
from capex.report.calibration import TAUS
from capex.report.compare import TaskKey, task_of
from capex.report.show import counted
from capex.run.manifest import RecordedSettings
from capex.setting import declared

DRAWS = 2000
EPISODES_AT_LEAST = 5  # fewer choose nothing: a bootstrap over them has no tails
MISS_COST = 1.0
SETTINGS = declared(MethodSettings).keys() - {"tau", "task_tau"}


@dataclass(frozen=True)
class SweptExactly:
    """What the commit rule would have done to the recorded plans at one threshold."""

    tau: float
    plans: int
    cut: int  # plans of which a tail is deferred
    executed: int  # waypoints
    reached: int
    missed: int
    hit: int  # stopped by a contact
    steps: int
    wasted: int  # control steps of waypoints that were not reached
    solved: int  # plans in which the task is achieved
    needless: int  # deferred waypoints that would have been reached
    spared: int  # deferred waypoints that would have been missed

    @property
    def score(self) -> float:
        """Reached, the task itself included, less missed."""
        return self.reached + self.solved - MISS_COST * self.missed


def sweep(whole: WholePlans, taus: Sequence[float] = TAUS) -> list[SweptExactly]:
    """The commit rule on the calibrated confidences at each threshold."""
    return [_swept(whole, tau) for tau in taus]


def _swept(w: WholePlans, tau: float) -> SweptExactly:
    kept = _kept(w, tau)
    run, left = kept & w.ran, ~kept
    return SweptExactly(
        tau=tau,
        plans=w.plans,
        cut=len(np.unique(w.plan[left])),
        executed=int(run.sum()),
        reached=int((run & (w.label == 1)).sum()),
        missed=int((run & (w.label == 0)).sum()),
        hit=int((run & w.hit).sum()),
        steps=int(w.steps[run].sum()),
        wasted=int(w.steps[run & (w.label == 0)].sum()),
        solved=int((run & w.solved).sum()),
        needless=int((left & (w.label == 1)).sum()),
        spared=int((left & (w.label == 0)).sum()),
    )


def _kept(w: WholePlans, tau: float) -> npt.NDArray[np.bool_]:
    """Which waypoints a threshold commits to: those before the first later one below it."""
    below = defers(w.place, w.calibrated, tau)
    first = np.full(int(w.plan.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, w.plan[below], w.place[below])
    kept: npt.NDArray[np.bool_] = w.place < first[w.plan]
    return kept


@dataclass(frozen=True)
class TauChoice:
    """The threshold for one task. `best` scores highest on all episodes; `gain` is what choosing on
    the other episodes gains on each one, per plan, against the threshold that was used.
    """

    task: str  # WORLD:TASK, or nothing for all of them
    episodes: int
    plans: int
    used: float
    best: float
    interval: tuple[float, float]  # of the best, episodes drawn anew
    gain: float | None  # None with one episode
    gain_interval: tuple[float, float] | None

    @property
    def sure(self) -> bool:
        """Whether the gain speaks for a change."""
        told = self.gain_interval is not None and self.episodes >= EPISODES_AT_LEAST
        return told and self.gain_interval is not None and self.gain_interval[0] > 0

    @property
    def chosen(self) -> float:
        """The best where the gain is sure, else what was used."""
        return self.best if self.sure else self.used


def choices(found: Found, miss_cost: float = MISS_COST) -> list[TauChoice]:
    """A choice per task, and over all tasks where there are several with one threshold; empty where
    nothing is deferred by confidence.
    """
    if found.source.tau is None:
        return []
    w = found.whole
    tasks: dict[TaskKey, list[int]] = {}
    for number, episode in enumerate(found.episodes):
        tasks.setdefault(task_of(episode), []).append(number)
    rows = []
    for (world, task), members in tasks.items():
        part = w.at(np.isin(w.episode, members))
        used = found.source.tau_of(found.episodes[members[0]])
        if len(part.plan) and used is not None:
            rows.append(choose(part, f"{world}:{task}", used, miss_cost))
    if len(rows) > 1 and len({row.used for row in rows}) == 1:
        rows.append(choose(w, "", rows[0].used, miss_cost))
    return rows


def choose(w: WholePlans, task: str, used: float, miss_cost: float = MISS_COST) -> TauChoice:
    """The threshold with the highest score; among equals the one nearest to the one used."""
    taus = sorted({*TAUS, used})
    order = np.array(sorted(range(len(taus)), key=lambda k: (abs(taus[k] - used), taus[k])))
    ordered = np.array(taus)[order]
    scores = _scores(w, ordered, miss_cost)  # (episodes, taus), the first one is the one used
    n = len(scores)
    best = int(scores.sum(axis=0).argmax())
    rng = np.random.default_rng(0)
    weights = rng.multinomial(n, np.full(n, 1 / n), size=DRAWS).astype(np.float64)
    drawn = ordered[(weights @ scores).argmax(axis=1)]
    low, high = np.quantile(drawn, [0.025, 0.975], method="inverted_cdf")
    gain, gain_interval = None, None
    if n > 1:
        others = (scores.sum(axis=0) - scores).argmax(axis=1)
        gains = scores[np.arange(n), others] - scores[:, 0]
        plans = np.array([len(np.unique(w.plan[w.episode == e])) for e in np.unique(w.episode)])
        gain = float(gains.sum() / plans.sum())
        ends = np.quantile((weights @ gains) / (weights @ plans), [0.025, 0.975])
        gain_interval = (float(ends[0]), float(ends[1]))
    return TauChoice(
        task, n, w.plans, used, float(ordered[best]), (float(low), float(high)), gain, gain_interval
    )


def _scores(w: WholePlans, taus: Array, miss_cost: float) -> Array:
    """Reached less missed, by episode and threshold."""
    worth = np.where((w.label == 1) | w.solved, 1.0, np.where(w.label == 0, -miss_cost, 0.0))
    numbers, episode = np.unique(w.episode, return_inverse=True)
    columns = [
        np.bincount(episode, weights=worth * _kept(w, float(tau)), minlength=len(numbers))
        for tau in taus
    ]
    return np.stack(columns, axis=1)


def settings_file(
    methods: Sequence[tuple[MethodSettings, Sequence[TauChoice]]],
    settings: RecordedSettings,
    note: str,
) -> str:
    """A config file for `capex collect --config`: the tasks, model and seed of a run, and each
    method with the thresholds chosen for it, under its name and "-tau".
    """
    lines = [f"# {line}" for line in textwrap.wrap(note, 98)]
    lines += [
        f"{name} = {json.dumps(getattr(settings, name))}" for name in ("tasks", "model", "seed")
    ]
    for method, chosen in methods:
        whole = next((c.chosen for c in chosen if not c.task), method.tau)
        standard = asdict(PRESETS["capex"])
        own = {k: v for k, v in asdict(method).items() if k in SETTINGS and v != standard[k]}
        own = {k: v for k, v in own.items() if v is not None} | {"tau": whole}
        lines += ["", f"[arms.{json.dumps(method.name + '-tau')}]", 'preset = "capex"']
        lines += [f"{name} = {json.dumps(value)}" for name, value in own.items()]
        lines += ["", f"[arms.{json.dumps(method.name + '-tau')}.task_tau]"]
        lines += [f"{json.dumps(c.task)} = {c.chosen:g}  # {_why(c)}" for c in chosen if c.task]
    return "\n".join(lines) + "\n"


def _why(choice: TauChoice) -> str:
    low, high = choice.interval
    best = f"best on {counted(choice.episodes, 'episode')}: {choice.best:g} ({low:g} to {high:g})"
    return best if choice.sure else f"as used; {best}, gain not sure"
