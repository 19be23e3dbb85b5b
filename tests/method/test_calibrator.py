"""The eight features by hand, and the fit against an independent solver of the same objective."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from scipy.optimize import root
from scipy.special import expit

from capex.method.calibrator import GRADIENT_NORM, PRIOR_MEAN, Calibrator
from capex.method.features import FEATURES, features
from capex.method.motion import ClampedTarget
from capex.plan import ArmTarget, BaseMotion, Waypoint

TIP_M = np.array([0.40, 0.10, 0.30])


def sent(x, y, z):
    return {"arm": ClampedTarget(np.array([x, y, z]), np.eye(3))}


def move(x, y, z, *, gripper="keep", q=0.9):
    return Waypoint({"arm": ArmTarget((x, y, z), gripper=gripper)}, confidence=q)


def one_arm(waypoints, targets, *, gripper_commands=0, closed=False, located_m=None):
    return features(
        waypoints,
        targets,
        tips_m={"arm": TIP_M},
        gripper_commands=gripper_commands,
        closed={"arm": closed},
        located_m=located_m,
    )


def test_a_plan_by_hand():
    """Open, hover, descend and close, lift, carry: two commands already issued, an apple located under the hover."""
    waypoints = [
        Waypoint(
            {"arm": ArmTarget(gripper="release")}, confidence=0.97
        ),  # no motion: no features, but it counts in k and gamma
        move(0.46, 0.10, 0.38, q=0.9),
        move(0.46, 0.10, 0.28, gripper="close", q=0.5),
        move(0.46, 0.13, 0.32, q=0.999),
        move(0.10, 0.13, 0.32, gripper="open", q=0.0),
    ]
    targets = [
        {},
        sent(0.46, 0.10, 0.38),
        sent(0.46, 0.10, 0.28),
        sent(0.46, 0.13, 0.32),
        sent(0.36, 0.13, 0.32),
    ]
    rows = one_arm(
        waypoints, targets, gripper_commands=2, closed=True, located_m=np.array([0.46, 0.10, 0.18])
    )
    assert rows[0] is None
    expected = [
        (
            1,
            math.log(9),
            0,
            3 / 4,
            1.0,
            0.8,
            1.0,
            2 / 4,
        ),  # leg 6, 0, 8 from the tip: 10 cm; 20 cm above the apple
        (1, 0.0, 1, 3 / 4, 1.0, -1.0, 0.5, 3 / 4),  # closed after it, its own close not yet counted
        (1, math.log(99), 1, 4 / 4, 0.5, 0.4, math.sqrt(3**2 + 14**2) / 20, 4 / 4),
        (
            1,
            -math.log(99),
            0,
            4 / 4,
            1.0,
            0.0,
            math.sqrt(10**2 + 3**2 + 14**2) / 20,
            4 / 4,
        ),  # the clamped target, not the wish; k and gamma capped
    ]
    for row, wanted in zip(rows[1:], expected, strict=True):
        assert row == pytest.approx(wanted, abs=1e-12)
        assert all(type(v) is float for v in row)


def test_the_located_distance_is_capped_and_takes_its_cap_while_nothing_is_located():
    waypoints, targets = [move(0.40, 0.10, 0.35)], [sent(0.40, 0.10, 0.35)]
    assert one_arm(waypoints, targets)[0][6] == 2.0
    assert one_arm(waypoints, targets, located_m=np.array([0.40, 0.60, 0.35]))[0][6] == 2.0
    assert one_arm(waypoints, targets, located_m=np.array([0.40, 0.10, 0.05]))[0][
        6
    ] == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("word", "before", "after"),
    [
        ("close", False, 1),
        ("reclose", False, 1),
        ("open", True, 0),
        ("release", True, 0),
        ("keep", True, 1),
        ("keep", False, 0),
    ],
)
def test_gripper_words(word, before, after):
    waypoints = [move(0.40, 0.10, 0.35, gripper=word), move(0.40, 0.10, 0.40)]
    rows = one_arm(waypoints, [sent(0.40, 0.10, 0.35), sent(0.40, 0.10, 0.40)], closed=before)
    assert [row[2] for row in rows] == [after, after]
    assert [row[3] for row in rows] == [0.0, 0.0 if word == "keep" else 0.25]


def test_no_features_for_base_motions_and_without_confidence():
    assert one_arm([Waypoint(base=BaseMotion(0.2), confidence=0.9)], [{}]) == [None]
    rows = one_arm(
        [move(0.4, 0.1, 0.35, q=None), move(0.4, 0.1, 0.40)],
        [sent(0.4, 0.1, 0.35), sent(0.4, 0.1, 0.40)],
    )
    assert rows[0] is None
    assert rows[1][4] == pytest.approx(0.5)  # its leg starts at the previous target all the same


def test_with_two_arms_the_one_that_moves_farthest_speaks():
    left, right = np.array([0.3, 0.2, 0.3]), np.array([0.3, -0.2, 0.3])
    waypoints = [
        Waypoint(
            {
                "left": ArmTarget((0.3, 0.2, 0.32), gripper="close"),
                "right": ArmTarget((0.3, -0.2, 0.25), gripper="open"),
            },
            confidence=0.9,
        ),
        Waypoint({"left": ArmTarget((0.3, 0.2, 0.40))}, confidence=0.9),
        Waypoint({"right": ArmTarget((0.3, -0.2, 0.28))}, confidence=0.9),
    ]
    targets = [
        {n: ClampedTarget(np.array(t.position_m), np.eye(3)) for n, t in w.targets.items()}
        for w in waypoints
    ]
    rows = features(
        waypoints,
        targets,
        tips_m={"left": left, "right": right},
        gripper_commands=0,
        closed={"left": False, "right": False},
        located_m=np.array([0.3, -0.2, 0.15]),
    )
    assert rows[0][2:7] == pytest.approx((0, 0, 0.5, -0.5, 0.5))  # the right one
    assert rows[1][2:7] == pytest.approx(
        (1, 0.5, 0.8, 0.8, 2.0)
    )  # two commands, one per arm, came before; 47 cm away
    assert rows[2][2:7] == pytest.approx(
        (0, 0.5, 0.3, 0.3, 0.65)
    )  # from where the right one was last sent


def usual_rows(rng, n):
    """Rows within the ranges that `features` can give."""
    columns = [
        np.ones(n),
        np.log(1 / (1 / rng.choice([0.01, 0.5, 0.7, 0.9, 0.95, 0.99], n) - 1)),
        rng.integers(0, 2, n),
        rng.integers(0, 5, n) / 4,
        rng.uniform(0, 1, n),
        rng.uniform(-1, 1, n),
        rng.uniform(0, 2, n),
        rng.integers(1, 5, n) / 4,
    ]
    return np.column_stack(columns)


def data(kind, seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 400))
    X = usual_rows(rng, n)
    if kind == "random":
        return X, (rng.random(n) < expit(X @ rng.standard_normal(8))).astype(float)
    if kind == "coin":
        return X, rng.integers(0, 2, n).astype(float)
    if kind == "separable":
        return X, (X[:, 5] + 0.3 * X[:, 4] > 0.1).astype(float)
    if kind == "all reached":
        return X, np.ones(n)
    if kind == "none reached":
        return X, np.zeros(n)
    if kind == "one label":
        return X[:1], np.array([float(seed % 2)])
    if kind == "always wrong":  # certain, and the opposite happens
        X[:, 1] = rng.choice([-1, 1], n) * math.log(99)
        return X, (X[:, 1] < 0).astype(float)
    if kind == "one row again and again":
        return np.repeat(X[:1], n, axis=0), (rng.random(n) < 0.3).astype(float)
    if kind == "far out of range":
        X[:, 1:] *= 40
        return X, rng.integers(0, 2, n).astype(float)
    raise KeyError(kind)


def objective(w, X, y):
    """The paper's formula as it is written."""
    z = X @ w
    return float(np.sum(np.logaddexp(0, z) - y * z) + 0.5 * np.sum((w - np.array(PRIOR_MEAN)) ** 2))


def gradient(w, X, y):
    return X.T @ (expit(X @ w) - y) + w - np.array(PRIOR_MEAN)


def hessian(w, X, y):
    p = expit(X @ w)
    return X.T @ (X * (p * (1 - p))[:, None]) + np.eye(8)


KINDS = [
    "random",
    "coin",
    "separable",
    "all reached",
    "none reached",
    "one label",
    "always wrong",
    "one row again and again",
    "far out of range",
]


@pytest.mark.parametrize("kind", KINDS)
def test_the_reference_is_of_the_papers_formula(kind):
    """Its derivatives, against differences of the formula and of each other."""
    X, y = data(kind, 0)
    for w in np.random.default_rng(1).standard_normal((3, 8)):
        away = 1e-6 * np.eye(8)
        slope = [(objective(w + d, X, y) - objective(w - d, X, y)) / 2e-6 for d in away]
        bend = [(gradient(w + d, X, y) - gradient(w - d, X, y)) / 2e-6 for d in away]
        assert np.allclose(slope, gradient(w, X, y), rtol=1e-5, atol=1e-5 * np.abs(slope).max())
        assert np.allclose(bend, hessian(w, X, y), rtol=1e-4, atol=1e-4 * np.abs(bend).max())


@pytest.mark.parametrize("order", range(3))
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", KINDS)
def test_the_fit_is_the_optimum_an_independent_solver_finds(kind, seed, order):
    """MINPACK's Levenberg-Marquardt looks for the root of the gradient. A solver that compares values of the objective stalls where their
    differences drown in rounding, sooner on one CPU than on another; rows in another order round like another CPU."""
    X, y = data(kind, seed)
    if order:
        rows = np.random.default_rng(order).permutation(len(y))
        X, y = X[rows], y[rows]
    fitted = Calibrator.fit(X, y)
    w = np.array(fitted.weights)
    assert fitted.labels == len(y)
    assert np.linalg.norm(gradient(w, X, y)) < 10 * GRADIENT_NORM  # rounded differently here
    exact = {"xtol": 1e-15, "ftol": 1e-15, "maxiter": 20_000}
    other = root(gradient, np.zeros(8), args=(X, y), jac=hessian, method="lm", options=exact).x
    # |g| bounds the distance to the optimum because the objective is 1-strongly convex.
    assert np.linalg.norm(gradient(other, X, y)) < 1e-9
    assert np.linalg.norm(w - other) < 1e-8
    assert objective(w, X, y) <= objective(other, X, y) * (1 + 1e-12) + 1e-12


def test_a_hundred_thousand_labels_reach_the_gradient_norm():
    rng = np.random.default_rng(0)
    X = usual_rows(rng, 100_000)
    y = (rng.random(len(X)) < expit(X @ np.array([-1, 0.3, 1, -1, -1, 0.5, 0.5, -0.5]))).astype(
        float
    )
    fitted = Calibrator.fit(X, y)
    assert np.linalg.norm(gradient(np.array(fitted.weights), X, y)) < 10 * GRADIENT_NORM
    assert fitted.weights == pytest.approx([-1, 0.3, 1, -1, -1, 0.5, 0.5, -0.5], abs=0.15)


def test_without_labels_the_prediction_is_the_stated_confidence_itself():
    stated = [0.1 + 0.2, 0.0, 1.0, 0.9, 0.9999999999999999]
    rows = [(1.0, 3.0, 0.0, 0.0, 0.5, 0.1, 2.0, 0.25)] * 5
    for fresh in (
        Calibrator(),
        Calibrator.fit([], []),
        Calibrator.fit(np.zeros((0, 8)), np.zeros(0)),
    ):
        assert fresh == Calibrator(None, 0)
        predicted = fresh.predict(rows, stated)
        assert all(p is q for p, q in zip(predicted, stated, strict=True))


def test_the_prior_mean_alone_gives_the_stated_confidence_back():
    rows = one_arm([move(0.40, 0.10, 0.35, q=0.83)], [sent(0.40, 0.10, 0.35)])
    assert Calibrator(PRIOR_MEAN, 1).predict(rows, [0.83]) == pytest.approx([0.83])


def test_predict_is_the_sigmoid_and_passes_over_waypoints_without_features():
    w = tuple(np.random.default_rng(3).standard_normal(8))
    rows = [tuple(r) for r in usual_rows(np.random.default_rng(4), 50)]
    predicted = Calibrator(w, 7).predict([*rows, None], [0.5] * 51)
    assert predicted[:-1] == pytest.approx(list(expit(np.array(rows) @ np.array(w))), rel=1e-12)
    assert predicted[-1] is None
    assert Calibrator().predict([None], [0.5]) == [None]
    far = [(1.0, s * 1e6, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0) for s in (-1, 1)]
    assert Calibrator((0.0, 1.0, *[0.0] * 6), 1).predict(far, [0.5, 0.5]) == [0.0, 1.0]


def test_outcomes_move_the_prediction_the_right_way():
    row = (1.0, math.log(9), 0.0, 0.0, 0.5, 0.0, 2.0, 0.25)
    reached, stalled = Calibrator.fit([row] * 20, [1] * 20), Calibrator.fit([row] * 20, [0] * 20)
    assert reached.predict([row], [0.9])[0] > 0.9
    assert stalled.predict([row], [0.9])[0] < 0.2


def test_the_same_rows_give_the_same_bits_in_another_process():
    program = (
        "import numpy as np; from capex.method.calibrator import Calibrator; r = np.random.default_rng(5);"
        "X = r.standard_normal((5000, 8)); print(Calibrator.fit(X, r.integers(0, 2, 5000)).weights)"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", program], check=True, capture_output=True, text=True
        ).stdout
        for _ in range(2)
    }
    assert len(told) == 1


@pytest.mark.parametrize(
    ("X", "y", "sentence"),
    [
        (np.ones((3, 7)), [1, 0, 1], "(n, 8)"),
        (np.ones((3, 8)), [1, 0], "(n,)"),
        (np.ones((2, 8)), [1, 0.5], "neither 0 nor 1"),
        (np.full((2, 8), np.nan), [1, 0], "finite"),
    ],
)
def test_what_cannot_be_fitted_is_refused(X, y, sentence):
    with pytest.raises(ValueError, match=sentence.replace("(", r"\(").replace(")", r"\)")):
        Calibrator.fit(X, y)


def test_there_are_eight_features():
    assert len(FEATURES) == len(PRIOR_MEAN) == 8
