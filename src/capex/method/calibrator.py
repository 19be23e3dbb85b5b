"""The calibrator: what happened to earlier waypoints corrects what the model says about the next
ones.

    p_k = sigma(w . phi_k),    w = argmin  sum_(phi, y) [log(1 + exp(w . phi)) - y w . phi]  +  |w - w_0|^2 / 2,    w_0 = (0, 1, 0, .., 0)

phi_k are the eight features of the paper's table, y the executor's reach labels of all earlier
attempts at the task, successful or not. The prior is centred on believing the model: without labels
p_k = q_k. Fitted once before each episode.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from capex.method.executor import ClampedTarget
from capex.plan import Waypoint
from capex.pose import Array

FEATURES = (
    "bias",
    "stated log-odds",
    "gripper closed",
    "gripper phase",
    "leg length",
    "vertical leg",
    "distance to located",
    "position in plan",
)
PRIOR_MEAN: tuple[float, ...] = (0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
STATED_MIN, STATED_MAX = (
    0.01,
    0.99,
)  # inside the logit only: a stated 0 or 1 must not become infinite
PHASES_MAX, POSITION_MAX = 4, 4
LEG_CM, LOCATED_CM, LOCATED_MAX_CM = 10.0, 20.0, 40.0
GRADIENT_NORM = 1e-9
ITERATIONS_MAX = 200
ROUNDING = 1e-12  # relative: two objectives this close are equal


def features(
    waypoints: Sequence[Waypoint],
    targets: Sequence[Mapping[str, ClampedTarget]],
    *,
    tips_m: Mapping[str, Array],
    gripper_commands: int,
    closed: Mapping[str, bool],
    located_m: Array | None,
) -> list[tuple[float, ...] | None]:
    """The eight features of each waypoint of a plan; None for a base motion, and where there is no
    motion or no stated confidence.

    0  1 1  logit(q_k), q_k clipped to [0.01, 0.99] 2  1 if the gripper is closed after waypoint k,
    else 0: as it is now, then by the plan's own commands (close, reclose; open, release) 3
    min(gamma_k, 4) / 4, gamma_k the gripper commands (other than keep) of the episode before
    waypoint k, its own not among them 4  |x_k - x_(k-1)| / 10 5  (x_k - x_(k-1))_z / 10 6  min(|x_k
    - x_loc|, 40) / 20, and 2 while nothing has been located 7  min(k, 4) / 4, k from 1

    x_k in centimetres in the base frame: the clamped targets, because that is where the arm is
    sent, and x_0 the tip. Every waypoint of the plan counts in k and every gripper command in
    gamma, also those of waypoints that have no features themselves.

    With several arms a waypoint still carries one confidence and one label. Features 2, 4, 5 and 6
    are then those of the arm with the longest leg (the first by name among equals), the likeliest
    to decide whether the waypoint is reached. Each arm's leg starts where that arm was last sent,
    and gamma counts the commands of all arms.

    waypoints: the whole plan, before commitment. targets: what `Executor.clamp` made of it, by arm.
    tips_m: tips now, (3,) by arm. gripper_commands: those issued in the episode before this plan.
    closed: by arm, whether the last command was to close, holding something included. located_m:
    the episode's most recent located point, (3,), carried into the present base frame.
    """
    previous_m: dict[str, Array] = dict(tips_m)
    shut = dict(closed)
    rows: list[tuple[float, ...] | None] = []
    for k, (waypoint, sent) in enumerate(zip(waypoints, targets, strict=True), start=1):
        before = gripper_commands
        for name, target in waypoint.targets.items():
            if target.gripper != "keep":
                shut[name] = target.gripper in ("close", "reclose")
                gripper_commands += 1
        if not sent or waypoint.base is not None or waypoint.confidence is None:
            rows.append(None)
        else:
            legs_cm = {n: 100 * (t.position_m - previous_m[n]) for n, t in sent.items()}
            arm = max(sorted(sent), key=lambda n: _norm(legs_cm[n]))
            located_cm = (
                LOCATED_MAX_CM
                if located_m is None
                else 100 * _norm(sent[arm].position_m - located_m)
            )
            rows.append(
                (
                    1.0,
                    _logit(waypoint.confidence),
                    1.0 if shut[arm] else 0.0,
                    min(before, PHASES_MAX) / PHASES_MAX,
                    _norm(legs_cm[arm]) / LEG_CM,
                    float(legs_cm[arm][2]) / LEG_CM,
                    min(located_cm, LOCATED_MAX_CM) / LOCATED_CM,
                    min(k, POSITION_MAX) / POSITION_MAX,
                )
            )
        previous_m.update({n: t.position_m for n, t in sent.items()})
    return rows


@dataclass(frozen=True)
class Calibrator:
    """The reach predictor of one episode: eight weights, or None while there is no label, and how
    many labels made them.
    """

    weights: tuple[float, ...] | None = None
    labels: int = 0

    @classmethod
    def fit(cls, rows: npt.ArrayLike, labels: npt.ArrayLike) -> Calibrator:
        """The MAP weights for features (n, 8) and reach labels (n,), each 0 or 1.

        Newton's method from w_0. With phi' = phi for label 1 and -phi for label 0, m = w . phi' and
        miss = sigma(-m),

            f = sum log(1 + exp(-m)) + |w - w_0|^2 / 2,    g = w - w_0 - sum miss phi',    H = I + sum miss (1 - miss) phi' phi'^T

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
            return cls()
        if y.ndim != 1 or phi.shape != (y.size, len(FEATURES)):
            raise ValueError(
                f"features have shape {phi.shape} and labels {y.shape}; they must be (n,"
                f" {len(FEATURES)}) and (n,)"
            )
        if not np.all(np.isfinite(phi)):
            raise ValueError(
                "a feature is not a finite number; the calibrator can only learn from finite ones"
            )
        if not np.all((y == 0) | (y == 1)):
            raise ValueError("a label is neither 0 nor 1; leave out waypoints without a label")
        return cls(tuple(float(w) for w in _newton(phi * (2 * y - 1)[:, None])), y.size)

    def predict(
        self, rows: Sequence[Sequence[float] | None], stated: Sequence[float | None]
    ) -> list[float | None]:
        """The probability that each waypoint is reached, from its features and stated confidence;
        None where it has no features.

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


def _newton(signed: Array) -> Array:
    """The weights (8,) that minimise f, for features (n, 8) negated where the label is 0."""
    w = np.array(PRIOR_MEAN)
    f, g, miss = _objective(signed, w)
    for _ in range(ITERATIONS_MAX):
        if _norm(g) < GRADIENT_NORM:
            return w
        H = signed.T @ (signed * (miss * (1 - miss))[:, None]) + np.eye(len(w))
        step = np.linalg.solve(H, -g)
        size = 1.0
        while size > 1e-12:
            f_new, g_new, miss_new = _objective(signed, w + size * step)
            falls = f_new <= f + 1e-4 * size * float((g * step).sum())
            if falls or (f_new <= f + ROUNDING * abs(f) and _norm(g_new) < _norm(g)):
                break
            size /= 2
        else:
            break
        w, f, g, miss = w + size * step, f_new, g_new, miss_new
    raise ArithmeticError(
        f"the calibrator's fit ended with a gradient norm of {_norm(g):.1e}; it needs features"
        " nearer their usual range"
    )


def _objective(signed: Array, w: Array) -> tuple[float, Array, Array]:
    """f, its gradient (8,), and the probability (n,) that w gives to the other label."""
    margin, offset = signed @ w, w - np.array(PRIOR_MEAN)
    small = np.exp(-np.abs(margin))
    miss = np.where(margin >= 0, small, 1.0) / (1.0 + small)
    f = float((np.maximum(-margin, 0.0) + np.log1p(small)).sum()) + 0.5 * float(
        (offset * offset).sum()
    )
    return f, offset - signed.T @ miss, miss


def _sigmoid(z: float) -> float:
    small = math.exp(-abs(z))
    return (1.0 if z >= 0 else small) / (1.0 + small)


def _logit(q: float) -> float:
    q = min(max(q, STATED_MIN), STATED_MAX)
    return math.log(q / (1.0 - q))


def _norm(v: Array) -> float:
    return math.sqrt(float((v * v).sum()))
