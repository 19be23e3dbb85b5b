"""Statistics against the paper's printed intervals, brute force and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from capex.stats import auroc, brier, ece, reliability, wilson


@pytest.mark.parametrize(
    ("successes", "n", "low", "high", "digits"),
    [
        (45, 360, 9.5, 16.3, 1),
        (193, 360, 48.4, 58.7, 1),
        (0, 360, 0.0, 1.1, 1),
        (5, 350, 0.6, 3.3, 1),
        (12, 20, 39, 78, 0),
        (20, 21, 77, 99, 0),
        (6, 20, 15, 52, 0),
    ],
)
def test_wilson_gives_the_papers_intervals(successes, n, low, high, digits):
    assert tuple(round(100 * x, digits) for x in wilson(successes, n)) == (low, high)


def test_wilson_at_the_ends():
    assert wilson(0, 0) == (0.0, 1.0)
    assert wilson(0, 20)[0] == 0.0
    assert wilson(20, 20)[1] == 1.0
    assert wilson(0, 20)[1] == pytest.approx(1 - wilson(20, 20)[0])
    for n in range(1, 30):
        for k in range(n + 1):
            low, high = wilson(k, n)
            assert 0 <= low <= k / n <= high <= 1
            assert wilson(k, n, 0.99)[0] <= low
    with pytest.raises(ValueError, match="3 successes of 2"):
        wilson(3, 2)
    with pytest.raises(ValueError, match="level is 95"):
        wilson(1, 2, 95)


def brute_auroc(scores, labels):
    pairs = [
        (a > b) + 0.5 * (a == b) for a, y in zip(scores, labels, strict=True) if y for b, z in zip(scores, labels, strict=True) if not z
    ]
    return sum(pairs) / len(pairs)


def test_auroc_is_the_share_of_ordered_pairs_with_ties_half():
    rng = np.random.default_rng(0)
    for _ in range(50):
        n = int(rng.integers(2, 60))
        scores, labels = rng.integers(0, 6, n) / 5, rng.integers(0, 2, n)
        labels[:2] = 0, 1
        assert auroc(scores, labels) == pytest.approx(brute_auroc(scores, labels), abs=1e-12)
    assert auroc([0.1, 0.2, 0.3, 0.4], [0, 0, 1, 1]) == 1.0
    assert auroc([0.4, 0.3, 0.2, 0.1], [0, 0, 1, 1]) == 0.0
    assert auroc([0.9] * 7, [0, 1, 1, 0, 1, 1, 1]) == 0.5
    assert math.isnan(auroc([0.5, 0.6], [1, 1]))
    assert math.isnan(auroc([], []))


def test_reliability_bins_by_hand():
    rows = reliability([0.0, 0.05, 0.1, 0.3, 0.95, 1.0], [0, 1, 1, 0, 1, 1])
    assert [row.count for row in rows] == [2, 1, 0, 1, 0, 0, 0, 0, 0, 2]  # an edge belongs to the bin above it, 1 to the last
    assert (rows[0].low, rows[0].high, rows[0].predicted, rows[0].reached) == (0.0, 0.1, pytest.approx(0.025), 0.5)
    assert rows[9].predicted == pytest.approx(0.975)
    assert math.isnan(rows[5].predicted)
    assert [row.count for row in reliability(np.arange(101) / 100, np.ones(101))] == [10] * 9 + [11]


def test_ece_by_hand():
    assert ece([0.9] * 10, [1] * 7 + [0] * 3) == pytest.approx(0.2)
    assert ece([0.95, 0.95, 0.15, 0.15], [1, 0, 0, 0]) == pytest.approx(0.5 * 0.45 + 0.5 * 0.15)
    assert ece([0.0, 1.0], [0, 1]) == 0.0
    assert ece([0.2, 0.8], [0, 1], bins=1) == pytest.approx(0.0)
    assert math.isnan(ece([], []))


def test_brier_by_hand():
    assert brier([0.9, 0.4], [1, 0]) == pytest.approx((0.01 + 0.16) / 2)
    assert math.isnan(brier([], []))


def test_what_is_no_probability_or_label_is_refused():
    with pytest.raises(ValueError, match="between 0 and 1"):
        ece([1.2], [1])
    with pytest.raises(ValueError, match="neither 0 nor 1"):
        brier([0.5], [2])
    with pytest.raises(ValueError, match="finite"):
        auroc([math.nan, 0.5], [0, 1])
    with pytest.raises(ValueError, match="shape"):
        auroc([0.5], [0, 1])
