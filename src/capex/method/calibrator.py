"""The calibrator: what happened to earlier waypoints corrects what the model says about the next
ones.

    p_k = sigma(w . phi_k),    w_0 = (0, 1, 0, .., 0),
    w   = argmin  sum_(phi, y) [log(1 + exp(w . phi)) - y w . phi]  +  |w - w_0|^2 / 2

phi_k are the eight features of the paper's table, y the executor's reach labels of all earlier
attempts at the task, successful or not. The prior is centred on believing the model: without labels
p_k = q_k. Fitted once before each episode. Past the paper, `transfer.py` makes another prior: its
mean in place of w_0, and (w - mean) . precision (w - mean) / 2 in place of the last term.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from capex.method.features import FEATURES
from capex.method.motion import norm
from capex.pose import Array

PRIOR_MEAN: tuple[float, ...] = (0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
GRADIENT_NORM = 1e-9
ITERATIONS_MAX = 200
ROUNDING = 1e-12  # relative: two objectives this close are equal


@dataclass(frozen=True)
class Prior:
    """What is believed of the weights before the first label: a normal distribution."""

    mean: Array  # (d,)
    precision: Array  # (d, d), the inverse of the covariance


PAPER = Prior(np.array(PRIOR_MEAN), np.eye(len(PRIOR_MEAN)))


@dataclass(frozen=True)
class Calibrator:
    """The reach predictor of one episode."""

    weights: tuple[float, ...] | None = None  # eight, or None while there is no label
    labels: int = 0  # how many the weights were fitted to

    @classmethod
    def fit(
        cls, rows: npt.ArrayLike, labels: npt.ArrayLike, prior: Prior | None = None
    ) -> Calibrator:
        """The MAP weights for features (n, 8) and reach labels (n,), each 0 or 1; `prior`: in place
        of the paper's, and then there are weights without labels, too.

        Newton's method from w_0. With phi' = phi for label 1 and -phi for label 0, m = w . phi' and
        miss = sigma(-m),

            f = sum log(1 + exp(-m)) + |w - w_0|^2 / 2,
            g = w - w_0 - sum miss phi',    H = I + sum miss (1 - miss) phi' phi'^T

        The step -H^-1 g is halved until f falls enough or, where the fall would drown in rounding,
        until f stays and |g| falls. Since H >= I the optimum is unique, and |g| < 1e-9 puts the
        weights within 1e-9 of it. Only exponentials of negative numbers are taken, so that
        separable data and certain predictions are nothing special.

        Plain matrix products, and so BLAS: the same rows in the same order give the same bits in
        any process on one machine; another machine may differ in the last ones.
        """
        y = np.asarray(labels, dtype=np.float64)
        phi = np.asarray(rows, dtype=np.float64)
        if y.size == 0 and phi.size == 0:
            return cls() if prior is None else cls(tuple(prior.mean.tolist()))
        if y.ndim != 1 or phi.shape != (y.size, len(FEATURES)):
            shapes = f"features have shape {phi.shape} and labels {y.shape}"
            raise ValueError(f"{shapes}; they must be (n, {len(FEATURES)}) and (n,)")
        if not np.all(np.isfinite(phi)):
            raise ValueError(
                "a feature is not a finite number; the calibrator can only learn from finite ones"
            )
        if not np.all((y == 0) | (y == 1)):
            raise ValueError("a label is neither 0 nor 1; leave out waypoints without a label")
        weights = newton(phi * (2 * y - 1)[:, None], prior or PAPER)
        return cls(tuple(float(w) for w in weights), y.size)

    def predict(
        self, rows: Sequence[Sequence[float] | None], stated: Sequence[float | None]
    ) -> list[float | None]:
        """The probability that each waypoint is reached; None where it has no features.

        Without labels it is the stated confidence itself, bit for bit, unclipped.
        """
        pairs = list(zip(rows, stated, strict=True))
        if self.weights is None:
            return [None if phi is None else q for phi, q in pairs]
        w = self.weights
        return [
            None if phi is None else _sigmoid(math.fsum(a * b for a, b in zip(w, phi, strict=True)))
            for phi, _ in pairs
        ]


def newton(signed: Array, prior: Prior) -> Array:
    """The weights (d,) that minimise f, for features (n, d) negated where the label is 0."""
    w = prior.mean.copy()
    f, g, miss = _objective(signed, w, prior)
    for _ in range(ITERATIONS_MAX):
        if norm(g) < GRADIENT_NORM:
            return w
        H = signed.T @ (signed * (miss * (1 - miss))[:, None]) + prior.precision
        step = np.linalg.solve(H, -g)
        size = 1.0
        while size > 1e-12:
            f_new, g_new, miss_new = _objective(signed, w + size * step, prior)
            falls = f_new <= f + 1e-4 * size * float((g * step).sum())
            if falls or (f_new <= f + ROUNDING * abs(f) and norm(g_new) < norm(g)):
                break
            size /= 2
        else:
            break
        w, f, g, miss = w + size * step, f_new, g_new, miss_new
    ended = f"the calibrator's fit ended with a gradient norm of {norm(g):.1e}"
    raise ArithmeticError(f"{ended}; it needs features nearer their usual range")


def _objective(signed: Array, w: Array, prior: Prior) -> tuple[float, Array, Array]:
    """f, its gradient (d,), and the probability (n,) that w gives to the other label."""
    margin, offset = signed @ w, w - prior.mean
    pull = prior.precision @ offset
    small = np.exp(-np.abs(margin))
    miss = np.where(margin >= 0, small, 1.0) / (1.0 + small)
    loss, apart = (np.maximum(-margin, 0.0) + np.log1p(small)).sum(), (offset * pull).sum()
    f = float(loss) + 0.5 * float(apart)
    return f, pull - signed.T @ miss, miss


def _sigmoid(z: float) -> float:
    small = math.exp(-abs(z))
    return (1.0 if z >= 0 else small) / (1.0 + small)


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
