"""Whether labels of other tasks make a better prior: recorded labels, each predicted before its
outcome, leave one task out.

    python benchmarks/transfer_prequential.py RUN [RUN..]

Every chain's first five episodes are gone through in order. The calibrator of an episode is fitted
to the labels of the chain's episodes before it, with the paper's prior and with the one that all
other tasks of the runs give; no label of the task itself is in that. Differences are transferred
less paper's, with 95 % bootstrap intervals over tasks. The labels are of waypoints that were
executed under the run's own method.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from capex.analysis.priors import labelled
from capex.method.calibrator import SHARED, Calibrator, Prior, transferred
from capex.method.features import FEATURES
from capex.pose import Array
from capex.run import load_run
from capex.run.stats import auroc, brier, ece

EPISODES = 5
BELIEF = "transferred"
SHARES = {  # beside what the method does, all eight weights
    BELIEF: SHARED,
    "belief, s = 0.9": tuple(0.9 * (s > 0) for s in SHARED),
    "all weights, s = 0.25": (0.25,) * len(SHARED),
    "all weights, s = 0.5": (0.5,) * len(SHARED),
    "all weights, s = 0.9": (0.9,) * len(SHARED),
}
DRAWS = 500
STATED, PAPER = "stated", "paper's prior"
Score = Callable[[Array, Array], float]
SCORES: Mapping[str, Score] = {"ECE": ece, "AUROC": auroc, "Brier": brier}
Rows = list[tuple[str, int, float, dict[str, float]]]  # task, episode, label, predictions


def main(paths: list[Path]) -> None:
    """Print both tables."""
    rows = prequential(paths)
    tasks = sorted({row[0] for row in rows})
    names = list(rows[0][3])
    labels = np.array([row[2] for row in rows])
    title = f"{len(tasks)} tasks, {len(rows)} labels, {labels.mean():.0%} reached"
    table = Table("predictor", *SCORES, *(f"{s} less paper's" for s in SCORES), title=title)
    drawn = _draws(rows, tasks)
    for name in names:
        table.add_row(name, *_scores(rows, name), *_differences(rows, name, drawn))
    Console(width=150).print(table)
    table = Table("episode", "labels", *(f"{s}: stated, paper's, transferred" for s in SCORES))
    for number in range(EPISODES):
        some = [row for row in rows if row[1] == number]
        if some:
            by_name = [_scores(some, name) for name in (STATED, PAPER, BELIEF)]
            cells = (", ".join(column) for column in zip(*by_name, strict=True))
            table.add_row(str(number + 1), str(len(some)), *cells)
    Console(width=150).print(table)


def prequential(paths: list[Path]) -> Rows:
    """Every labelled waypoint of the first episodes with what each calibrator predicted."""
    tasks = labelled(paths)
    rows: Rows = []
    for chain in (chain for path in paths for chain in load_run(path).chains):
        task = f"{chain.world}:{chain.task}"
        others = {name: held for name, held in tasks.items() if name != task}
        priors: dict[str, Prior | None] = {PAPER: None}
        priors |= {name: transferred(others, shares) for name, shares in SHARES.items()}
        features: list[tuple[float, ...]] = []
        labels: list[int] = []
        for number, episode in enumerate(chain.episodes[:EPISODES]):
            known = [
                (w.features, w.waypoint.confidence, w.label)
                for turn in episode.record.turns
                for w in turn.waypoints
                if w.features is not None and w.label is not None
            ]
            if not known:
                continue
            phi, stated, told = zip(*known, strict=True)
            seen = np.array(features).reshape(-1, len(FEATURES))
            predicted = {STATED: stated} | {
                name: Calibrator.fit(seen, labels, prior).predict(phi, stated)
                for name, prior in priors.items()
            }
            for k, label in enumerate(told):
                each = {name: float(p[k]) for name, p in predicted.items()}
                rows.append((task, number, float(label), each))
            features += phi
            labels += told
    return rows


def _values(rows: Rows, name: str) -> tuple[Array, Array]:
    return np.array([row[3][name] for row in rows]), np.array([row[2] for row in rows])


def _scores(rows: Rows, name: str) -> list[str]:
    return [f"{score(*_values(rows, name)):.3f}" for score in SCORES.values()]


def _draws(rows: Rows, tasks: list[str]) -> list[Array]:
    """Rows of tasks drawn anew."""
    at = {task: np.array([k for k, row in enumerate(rows) if row[0] == task]) for task in tasks}
    rng = np.random.default_rng(0)
    return [
        np.concatenate([at[tasks[k]] for k in rng.integers(0, len(tasks), len(tasks))])
        for _ in range(DRAWS)
    ]


def _differences(rows: Rows, name: str, drawn: list[Array]) -> list[str]:
    if name in (STATED, PAPER):
        return [""] * len(SCORES)
    (p, y), (q, _) = _values(rows, name), _values(rows, PAPER)
    cells = []
    for score in SCORES.values():
        each = [score(p[k], y[k]) - score(q[k], y[k]) for k in drawn]
        low, high = np.quantile([d for d in each if np.isfinite(d)], [0.025, 0.975])
        cells.append(f"{score(p, y) - score(q, y):+.3f} [{low:+.3f}, {high:+.3f}]")
    return cells


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
