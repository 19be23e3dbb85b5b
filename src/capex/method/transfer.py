"""Past the paper: the calibrator's prior from the labels of other tasks.

    w_t = m + d_t,    m ~ N(w_0, s I),    d_t ~ N(0, (1 - s) I)

A task's weights are what tasks share and what is its own, so that without other tasks w_t ~ N(w_0,
I), the paper's prior. With the labels of tasks 1 .. J the joint MAP gives m and w_1 .. w_J, and
Laplace's approximation there, H_j the Hessian of task j's loss at w_j,

    V = [I / s + sum_j (I + (1 - s) H_j)^-1 H_j]^-1

A new task begins with N(m, V + (1 - s) I). A task with many labels counts little more than one with
enough of them: its information about m is at most I / (1 - s).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from capex.method.calibrator import PAPER, Prior, newton
from capex.pose import Array

SHARED = 0.5  # s: of a weight's prior variance, what tasks have in common
OTHER = "other"  # the prior of a task of which the earlier runs have no label

Labelled = Mapping[str, tuple[Array, Array]]  # by task: features (n, 8) and labels (n,)


def transferred(tasks: Labelled, shared: float = SHARED) -> Prior | None:
    """What the labels of some tasks tell of another; None, the paper's prior, without any.

    Tasks are taken in the order of their names, so that the same labels give the same bits.
    """
    signed = [tasks[name][0] * (2 * tasks[name][1] - 1)[:, None] for name in sorted(tasks)]
    signed = [rows for rows in signed if len(rows)]
    if not signed:
        return None
    size = len(PAPER.mean)
    rows = np.zeros((sum(map(len, signed)), size * (1 + len(signed))))
    at = 0
    for j, own in enumerate(signed, start=1):
        rows[at : at + len(own), :size] = own
        rows[at : at + len(own), j * size : (j + 1) * size] = own
        at += len(own)
    scale = np.repeat([1 / shared, *[1 / (1 - shared)] * len(signed)], size)
    mean = np.concatenate([PAPER.mean, np.zeros(size * len(signed))])
    parts = newton(rows, Prior(mean, np.diag(scale))).reshape(-1, size)
    information = np.eye(size) / shared
    for own, apart in zip(signed, parts[1:], strict=True):
        p = 1 / (1 + np.exp(-np.clip(own @ (parts[0] + apart), -500, 500)))
        H = own.T @ (own * (p * (1 - p))[:, None])
        information += np.linalg.solve(np.eye(size) + (1 - shared) * H, H)
    covariance = np.linalg.inv(information) + (1 - shared) * np.eye(size)
    precision = np.linalg.inv(covariance)
    return Prior(parts[0], (precision + precision.T) / 2)


def priors(tasks: Labelled) -> dict[str, Any]:
    """For every task the prior that the others give it (None where there are no others), and one
    for any further task, as numbers that a manifest can hold.
    """
    found: dict[str, Any] = {}
    for name in (*sorted(tasks), OTHER):
        others = {task: rows for task, rows in tasks.items() if task != name}
        prior = transferred(others)
        found[name] = prior and {
            "tasks": len(others),
            "labels": sum(len(labels) for _, labels in others.values()),
            "mean": prior.mean.tolist(),
            "precision": prior.precision.tolist(),
        }
    return found


def prior_at(held: Mapping[str, Any], task: str) -> Prior | None:
    """The prior of WORLD:TASK among those of a method; None for the paper's."""
    known = held.get(task, held.get(OTHER))
    return None if known is None else Prior(np.array(known["mean"]), np.array(known["precision"]))
