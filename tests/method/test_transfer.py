"""A prior from other tasks: the paper's without any, what a sampler finds with some, and better where tasks have something in common."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from capex.method.calibrator import (
    OTHER,
    PAPER,
    PRIOR_MEAN,
    SHARED,
    Calibrator,
    prior_at,
    priors,
    transferred,
)


def task(rng, weights, count):
    """Features and labels of a made-up task."""
    phi = np.column_stack([np.ones(count), rng.normal(1.5, 1.0, count), rng.random((count, 6))])
    return phi, (rng.random(count) < expit(phi @ weights)).astype(float)


def tasks(rng, count, labels, spread):
    """Tasks whose weights lie around one overconfident mean."""
    mean = np.array([-2.0, 0.5, 1.0, 0.0, -0.5, 0.0, 0.0, 0.0])
    drawn = [mean + spread * rng.normal(size=8) for _ in range(count)]
    return {f"toy:{k}": task(rng, w, labels) for k, w in enumerate(drawn)}


def test_without_other_tasks_it_is_the_papers_to_the_bit():
    assert transferred({}) is None
    assert transferred({"toy:0": (np.empty((0, 8)), np.empty(0))}) is None
    rows, labels = task(np.random.default_rng(0), np.array(PRIOR_MEAN), 40)
    assert Calibrator.fit(rows, labels, prior_at({}, "toy:0")) == Calibrator.fit(rows, labels)
    assert Calibrator.fit(rows, labels, PAPER) == Calibrator.fit(rows, labels)
    assert Calibrator.fit(rows[:0], labels[:0], None).weights is None
    few = {"toy:0": (rows[:1], labels[:1])}
    alone = priors(few)
    assert alone["toy:0"] is None
    assert prior_at(alone, "toy:0") is None
    assert prior_at(alone, "toy:9") is not None


def test_the_shared_mean_is_the_joint_optimum():
    found, share = tasks(np.random.default_rng(1), 3, 30, 0.5), np.linspace(0.2, 0.9, 8)

    def joint(flat):
        mean, *own = flat.reshape(-1, 8)
        loss = ((mean - PRIOR_MEAN) ** 2 / share).sum() / 2
        for w, (phi, y) in zip(own, found.values(), strict=True):
            z = phi @ w
            loss += ((w - mean) ** 2 / (1 - share)).sum() / 2 + (np.logaddexp(0, z) - y * z).sum()
        return loss

    best = minimize(joint, np.tile(PRIOR_MEAN, 4), method="BFGS", options={"gtol": 1e-6})
    prior = transferred(found, share)
    assert prior.mean == pytest.approx(best.x[:8], abs=1e-3)
    # tighter than the paper's, and never tighter than a task's own share allows
    spread = np.diag(np.linalg.inv(prior.precision))
    assert (spread > 1 - share).all()
    assert (spread < 1).all()
    reordered = dict(reversed(found.items()))
    assert np.array_equal(transferred(reordered, share).mean, prior.mean)
    usual = transferred(found)
    own = np.flatnonzero(np.array(SHARED) == 0)
    assert usual.mean[own].tolist() == [PRIOR_MEAN[k] for k in own]
    assert usual.precision[np.ix_(own, own)] == pytest.approx(np.eye(len(own)))


def test_it_helps_a_new_task_where_tasks_have_much_in_common():
    rng = np.random.default_rng(2)
    found = tasks(rng, 6, 60, 0.3)
    held = priors(found)
    assert set(held) == {*found, OTHER}
    loss = {"paper": 0.0, "transferred": 0.0}
    for name, (phi, y) in found.items():
        for k, prior in zip(loss, (None, prior_at(held, name)), strict=True):
            trust = Calibrator.fit(phi[:1], y[:1], prior)
            z = phi[1:] @ trust.weights
            loss[k] += (np.logaddexp(0, z) - y[1:] * z).mean() / len(found)
    assert loss["transferred"] < loss["paper"] - 0.05
