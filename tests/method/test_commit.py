"""The commit rule against a brute-force reading of its equation, and the paper's example plan."""

from __future__ import annotations

from itertools import product

import pytest

from capex.method.commit import committed

GRID = (0.0, 0.49, 0.5, 0.51, 1.0, None)


def by_the_equation(p, tau):
    """n = min({k in {2..K} : p_k < tau} u {K+1}) - 1, with k from 1."""
    K = len(p)
    return (
        min({k for k in range(2, K + 1) if p[k - 1] is not None and p[k - 1] < tau} | {K + 1}) - 1
    )


@pytest.mark.parametrize("length", range(7))
def test_all_plans_of_up_to_six_waypoints(length):
    for p in product(GRID, repeat=length):
        assert committed(p, 0.5) == by_the_equation(p, 0.5)


@pytest.mark.parametrize("tau", [0.0, 0.3, 0.5, 0.9, 1.0, 1.1])
def test_other_thresholds(tau):
    for p in product((0.0, 0.3, 0.9, 1.0), repeat=4):
        assert committed(p, tau) == by_the_equation(p, tau)


def test_the_papers_example_plan_defers_exactly_waypoints_7_to_9():
    calibrated = [0.88, 0.54, 0.85, 0.84, 0.84, 0.67, 0.40, 0.42, 0.53]
    stated = [0.90, 0.70, 0.90, 0.90, 0.90, 0.80, 0.65, 0.65, 0.70]
    n = committed(calibrated, 0.5)
    assert [k for k in range(1, 10) if k > n] == [7, 8, 9]
    assert committed(stated, 0.5) == 9


def test_the_first_always_runs_and_nothing_defers_without_a_probability():
    assert committed([0.0], 0.5) == 1
    assert committed([0.0, 0.0], 0.5) == 1
    assert committed([None] * 24, 0.5) == 24
    assert committed([], 0.5) == 0
