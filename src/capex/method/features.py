"""The eight features that the calibrator sees of a waypoint."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from capex.method.motion import ClampedTarget, norm
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
# inside the logit only: a stated 0 or 1 must not become infinite
STATED_MIN, STATED_MAX = 0.01, 0.99
PHASES_MAX, POSITION_MAX = 4, 4
LEG_CM, LOCATED_CM, LOCATED_MAX_CM = 10.0, 20.0, 40.0


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

        0  1
        1  logit(q_k), q_k clipped to [0.01, 0.99]
        2  1 if the gripper is closed after waypoint k, else 0: as it is now, then by the plan's own
           commands (close, reclose; open, release)
        3  min(gamma_k, 4) / 4, gamma_k the gripper commands (other than keep) of the episode before
           waypoint k, its own not among them
        4  |x_k - x_(k-1)| / 10
        5  (x_k - x_(k-1))_z / 10
        6  min(|x_k - x_loc|, 40) / 20, and 2 while nothing has been located
        7  min(k, 4) / 4, k from 1

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
            arm = max(sorted(sent), key=lambda n: norm(legs_cm[n]))
            located_cm = LOCATED_MAX_CM
            if located_m is not None:
                located_cm = 100 * norm(sent[arm].position_m - located_m)
            row = (
                1.0,
                _logit(waypoint.confidence),
                1.0 if shut[arm] else 0.0,
                min(before, PHASES_MAX) / PHASES_MAX,
                norm(legs_cm[arm]) / LEG_CM,
                float(legs_cm[arm][2]) / LEG_CM,
                min(located_cm, LOCATED_MAX_CM) / LOCATED_CM,
                min(k, POSITION_MAX) / POSITION_MAX,
            )
            rows.append(row)
        previous_m.update({n: t.position_m for n, t in sent.items()})
    return rows


def _logit(q: float) -> float:
    q = min(max(q, STATED_MIN), STATED_MAX)
    return math.log(q / (1.0 - q))
