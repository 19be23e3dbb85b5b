"""Past the paper: the calibrator's prior from the labels of other tasks.

    w_t = m + d_t,    m ~ N(w_0, S),    d_t ~ N(0, D),    S + D = I

A task's weights are what tasks share and what is its own, so that without other tasks w_t ~ N(w_0,
I), the paper's prior. With the labels of tasks 1 .. J the joint MAP gives m and w_1 .. w_J, and
Laplace's approximation there, H_j the Hessian of task j's loss at w_j,

    V = [S^-1 + sum_j (I + H_j D)^-1 H_j]^-1

A new task begins with N(m, V + D). S is diagonal: s for the constant and the stated log-odds, which
say how far the demonstrator's word can be trusted; 0 for how motions go, which is the task's own (m
is w_0 there).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from capex.method.calibrator import PAPER, Prior, newton
from capex.pose import Array

SHARED = (0.5, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)  # of a weight's prior variance
OTHER = "other"  # the prior of a task of which the earlier runs have no label

Labelled = Mapping[str, tuple[Array, Array]]  # by task: features (n, 8) and labels (n,)


def transferred(tasks: Labelled, shared: Sequence[float] = SHARED) -> Prior | None:
    """What the labels of some tasks tell of another; None, the paper's prior, without any.

    Tasks are taken in the order of their names, so that the same labels give the same bits.
    """
    signed = [tasks[name][0] * (2 * tasks[name][1] - 1)[:, None] for name in sorted(tasks)]
    signed = [rows for rows in signed if len(rows)]
    if not signed:
        return None
    share = np.array(shared)
    common = np.flatnonzero(share)
    mean, own = _joint(signed, share, common)
    D = np.diag(1 - share)
    information = np.diag(1 / share[common])
    for rows, w in zip(signed, own, strict=True):
        small = np.exp(-np.abs(rows @ w))
        H = rows.T @ (rows * (small / (1 + small) ** 2)[:, None])
        information += np.linalg.solve(np.eye(len(w)) + H @ D, H)[np.ix_(common, common)]
    D[np.ix_(common, common)] += np.linalg.inv(information)
    precision = np.linalg.inv(D)
    return Prior(mean, (precision + precision.T) / 2)


def _joint(
    signed: Sequence[Array], share: Array, common: npt.NDArray[np.intp]
) -> tuple[Array, Array]:
    """The joint MAP: m (8,), and the weights (J, 8) of the tasks with these signed features."""
    size, shared = len(share), len(common)
    rows = np.zeros((sum(map(len, signed)), shared + size * len(signed)))
    at = 0
    for j, own in enumerate(signed):
        rows[at : at + len(own), :shared] = own[:, common]
        rows[at : at + len(own), shared + j * size : shared + (j + 1) * size] = own
        at += len(own)
    apart = PAPER.mean.copy()
    apart[common] = 0
    prior_mean = np.concatenate([PAPER.mean[common], np.tile(apart, len(signed))])
    scale = np.concatenate([1 / share[common], np.tile(1 / (1 - share), len(signed))])
    found = newton(rows, Prior(prior_mean, np.diag(scale)))
    mean, weights = PAPER.mean.copy(), found[shared:].reshape(-1, size).copy()
    mean[common] = found[:shared]
    weights[:, common] += found[:shared]
    return mean, weights


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
