"""Statistics against brute force, closed forms, scipy, and examples that R's manual prints. The paper's numbers: test_paper_numbers.py."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats as scipy_stats

from capex.run.stats import (
    auroc,
    brier,
    cochran_mantel_haenszel,
    ece,
    fisher,
    mcnemar,
    per_success,
    per_success_interval,
    reliability,
    sign_test,
    wilson,
)


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
        (a > b) + 0.5 * (a == b)
        for a, y in zip(scores, labels, strict=True)
        if y
        for b, z in zip(scores, labels, strict=True)
        if not z
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
    assert [row.count for row in rows] == [
        2,
        1,
        0,
        1,
        0,
        0,
        0,
        0,
        0,
        2,
    ]  # an edge belongs to the bin above it, 1 to the last
    assert (rows[0].low, rows[0].high, rows[0].predicted, rows[0].reached) == (
        0.0,
        0.1,
        pytest.approx(0.025),
        0.5,
    )
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


def test_wilson_is_scipys():
    for k, n in [(0, 7), (3, 7), (7, 7), (45, 360)]:
        theirs = scipy_stats.binomtest(k, n).proportion_ci(0.9, method="wilson")
        assert wilson(k, n, 0.9) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def brute_mcnemar(a, b):
    n = a + b
    tail = sum(math.comb(n, k) for k in range(min(a, b) + 1)) / 2**n
    return min(1.0, 2 * tail)


def test_mcnemar_is_twice_the_smaller_tail_of_a_fair_coin():
    for a in range(12):
        for b in range(12):
            assert mcnemar(a, b) == pytest.approx(brute_mcnemar(a, b), abs=1e-12)
    assert mcnemar(0, 0) == 1.0
    assert mcnemar(0, 6) == pytest.approx(2 / 64)
    with pytest.raises(ValueError, match="negative"):
        mcnemar(-1, 2)


def test_sign_test_leaves_equal_pairs_out():
    found = sign_test([1, 2, 3, 4, 5, 9, 9], [2, 3, 4, 5, 6, 9, 8])
    assert (found.smaller, found.larger, found.equal) == (5, 1, 1)
    assert found.p == pytest.approx(14 / 64)  # 2 (C(6,0) + C(6,1)) / 2^6
    assert sign_test([], []).p == 1.0
    assert sign_test([1, 2], [1, 2]).p == 1.0
    with pytest.raises(ValueError, match="shape"):
        sign_test([1], [1, 2])
    with pytest.raises(ValueError, match="finite"):
        sign_test([math.inf], [1])


def test_fisher_gives_the_examples_of_rs_manual():
    assert fisher(3, 4, 1, 4) == pytest.approx(
        0.4857, abs=5e-5
    )  # ?fisher.test, TeaTasting, two-sided
    assert fisher(2, 17, 10, 13) == pytest.approx(0.0005367, abs=5e-8)  # ?fisher.test, Convictions
    assert fisher(0, 0, 3, 5) == 1.0
    with pytest.raises(ValueError, match="3 successes of 2"):
        fisher(3, 2, 0, 1)


# ?mantelhaen.test, Rabbits: (cured, died) at once and after 1.5 hours, by penicillin level
PENICILLIN = [
    ((0, 6), (0, 5)),
    ((3, 3), (0, 6)),
    ((6, 0), (2, 4)),
    ((5, 1), (6, 0)),
    ((2, 0), (5, 0)),
]
BERKELEY = [
    (512, 825, 89, 108),
    (353, 560, 17, 25),
    (120, 325, 202, 593),
    (138, 417, 131, 375),
    (53, 191, 94, 393),
    (22, 373, 24, 341),
]


def test_cochran_mantel_haenszel_gives_the_examples_of_rs_manual():
    rabbits = [(none[0], sum(none), late[0], sum(late)) for none, late in PENICILLIN]
    with_correction = cochran_mantel_haenszel(rabbits, correction=True)
    assert (round(with_correction.statistic, 4), round(with_correction.p, 5)) == (3.9286, 0.04747)
    # ?UCBAdmissions: admitted of all, men against women, by department
    berkeley = cochran_mantel_haenszel(BERKELEY, correction=True)
    assert (round(berkeley.statistic, 4), round(berkeley.p, 4), round(berkeley.odds_ratio, 7)) == (
        1.4269,
        0.2323,
        0.9046968,
    )


def test_cochran_mantel_haenszel_by_its_formula_and_where_nothing_tells():
    def formula(strata):
        difference = variance = 0.0
        for k_a, n_a, k_b, n_b in strata:
            n, k = n_a + n_b, k_a + k_b
            difference += k_a - n_a * k / n
            variance += n_a * n_b * k * (n - k) / (n * n * (n - 1))
        return difference**2 / variance

    strata = [(4, 20, 15, 20), (0, 20, 0, 20), (9, 12, 11, 14)]
    assert cochran_mantel_haenszel(strata).statistic == pytest.approx(formula(strata))
    assert cochran_mantel_haenszel([*strata, (0, 0, 3, 5)]) == cochran_mantel_haenszel(strata)
    assert math.isnan(cochran_mantel_haenszel([(20, 20, 20, 20), (0, 5, 0, 5)]).p)
    assert math.isnan(cochran_mantel_haenszel([]).p)
    assert cochran_mantel_haenszel([(5, 5, 0, 5)]).odds_ratio == math.inf


def test_per_success_counts_every_attempt():
    assert per_success([1.0, 2.0, 3.0], 2) == 3.0
    assert per_success([1.0, 2.0], 0) == math.inf
    assert per_success([1.0, None], 1) is None
    assert per_success([None], 0) is None
    assert per_success([], 0) is None


def test_bootstrap_is_scipys_percentile_bootstrap():
    rng = np.random.default_rng(3)
    solved = rng.random(120) < 0.4
    cost = rng.gamma(2.0, 0.5, 120) + solved
    theirs = scipy_stats.bootstrap(
        (cost, solved.astype(float)),
        lambda c, s: c.sum() / s.sum(),
        paired=True,
        vectorized=False,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    ours = per_success_interval(list(cost), list(solved), resamples=9999)
    assert ours == pytest.approx((theirs.low, theirs.high), rel=0.02)
    assert ours[0] < per_success(list(cost), int(solved.sum())) < ours[1]


def test_bootstrap_draws_within_strata_and_is_infinite_without_successes():
    # Within strata that are alike inside, nothing varies; drawn over all, it does.
    amounts, solved, tasks = (
        [1.0] * 10 + [5.0] * 10,
        [True] * 10 + [False] * 10,
        ["a"] * 10 + ["b"] * 10,
    )
    assert per_success_interval(amounts, solved, tasks) == (6.0, 6.0)
    low, high = per_success_interval(amounts, solved)
    assert low < 6.0 < high
    assert per_success_interval([1.0, 1.0], [False, False]) == (math.inf, math.inf)
    low, high = per_success_interval([1.0] * 10, [True] + [False] * 9)
    assert low < 10.0
    assert high == math.inf
    assert per_success_interval([1.0, None], [True, True]) is None
    assert per_success_interval(amounts, solved, seed=1) == per_success_interval(
        amounts, solved, seed=1
    )
    with pytest.raises(ValueError, match="2 amounts for 1 attempts"):
        per_success_interval([1.0, 2.0], [True])
