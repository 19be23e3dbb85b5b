"""The fourth room: confidences against what happened, down to the single waypoint; the calibrator's
weights, and whether deferring was right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from starlette.routing import BaseRoute, Route

from capex.analysis.counterfactual_file import read_counterfactual
from capex.dataset.projection import fate
from capex.method.features import FEATURES
from capex.report.calibration import Judged, judge
from capex.run import LoadedChain, LoadedEpisode, load_chain
from capex.run.stats import wilson
from capex.studio.answers import Asked, get
from capex.studio.rooms.room import Room, Studio

DOTS_MAX = 20_000  # of the latest episodes
SURPRISES = 12  # of either kind that are listed


def _routes(studio: Studio) -> Sequence[BaseRoute]:
    return [Route("/api/calibration", get(lambda asked: _chain(studio, asked)))]


ROOM = Room("calibration", "Calibration", _routes)


@dataclass(frozen=True)
class Dot:
    """One planned waypoint with a confidence. `whole` is its label when the plan was executed whole
    afterwards, where that was done.
    """

    episode: int
    decision: int
    k: int
    stated: float
    calibrated: float
    label: int | None
    fate: str
    whole: int | None
    cut: bool = False  # whether its plan was cut before it


def _chain(studio: Studio, asked: Asked) -> dict[str, Any]:
    """Everything about one chain; without one named, the first that has confidences."""
    run = studio.library.run(asked.get("run", ""))
    names = [chain.path.name for chain in run.chains()]
    name = asked.get("chain") or next((n for n in names if not n.endswith("--base")), "")
    if not name:
        return {"chains": names, "chain": None}
    chain = load_chain(studio.library.chain(asked["run"], name))
    dots = [dot for episode in chain.episodes for dot in dots_of(episode)][-DOTS_MAX:]
    told = [d for d in dots if d.label is not None]
    learned = any(e.record.weights is not None for e in chain.episodes)
    return {
        "chains": names,
        "chain": name,
        "episodes": len(chain.episodes),
        "predictors": _predictors(told, learned) if told else [],
        "dots": {
            field: [getattr(dot, field) for dot in dots] for field in Dot.__dataclass_fields__
        },
        "weights": _weights(chain),
        "deferred": _deferred(dots),
        "surprises": [asdict(dot) for dot in _surprises(told)],
    }


def dots_of(episode: LoadedEpisode) -> list[Dot]:
    """The waypoints of an episode that carry a confidence."""
    whole = read_counterfactual(episode.path)
    outcomes = {
        (plan.decision, k): outcome.label
        for plan in (whole.plans if whole is not None else ())
        if not plan.difference
        for k, outcome in enumerate(plan.waypoints)
    }
    dots = []
    for turn in episode.record.turns:
        for k, row in enumerate(turn.waypoints):
            stated, calibrated = row.waypoint.confidence, row.calibrated
            if stated is None or calibrated is None:
                continue
            label = outcomes.get((turn.decision, k))
            what = episode.index, turn.decision, k + 1, stated, calibrated
            cut = k == turn.committed
            dots.append(Dot(*what, row.label, fate(row.status), label, cut))
    return dots


def _predictors(told: Sequence[Dot], learned: bool) -> list[dict[str, Any]]:
    label = np.array([d.label for d in told], dtype=np.float64)
    stated = judge("stated", np.array([d.stated for d in told]), label)
    calibrated = judge("calibrated", np.array([d.calibrated for d in told]), label)
    return [_judged(p, len(told)) for p in ((stated, calibrated) if learned else (stated,))]


def _judged(judged: Judged, n: int) -> dict[str, Any]:
    bins = []
    for found in (b for b in judged.bins if b.count):
        least, most = wilson(round(found.reached * found.count), found.count)
        bins.append({**asdict(found), "least": least, "most": most})
    return {**vars(judged), "bins": bins, "n": n}


def _weights(chain: LoadedChain) -> dict[str, Any]:
    """The calibrator's weights before each episode that had some."""
    had = [e for e in chain.episodes if e.record.weights is not None]
    return {
        "names": FEATURES,
        "position": [e.position for e in had],
        "episode": [e.index for e in had],
        "labels": [e.record.labels_before or 0 for e in had],
        "values": [[float((e.record.weights or ())[j]) for e in had] for j in range(len(FEATURES))]
        if had
        else [],
    }


def _deferred(dots: Sequence[Dot]) -> dict[str, int]:
    """How many waypoints waited for another look, and whether that was right, as the report counts
    it: where the plan was executed whole afterwards, the waypoint at the cut was not reached.
    """
    deferred = [d for d in dots if d.fate == "deferred"]
    cuts = [d for d in deferred if d.cut]
    return {
        "count": len(deferred),
        "planned": len(dots),
        "cuts": len(cuts),
        "known": sum(d.whole is not None for d in cuts),
        "right": sum(d.whole == 0 for d in cuts),
    }


def _surprises(told: Sequence[Dot]) -> list[Dot]:
    """What was trusted and missed, and what was distrusted and reached, the worst first."""
    missed = sorted((d for d in told if d.label == 0), key=lambda d: -d.calibrated)
    reached = sorted((d for d in told if d.label == 1), key=lambda d: d.calibrated)
    return [*missed[:SURPRISES], *reached[:SURPRISES]]
