"""Step response of the rig's servo, beside a servo that sends "measured pose plus step".

Three arms are asked for 100 mm to the side and up, 4 mm a tick at 20 Hz, by the executor's
unity-gain steps: one that lags (first order, three ticks), one that stops 15 % short of what is
asked, and one that hangs 15 mm below its goal and lags a little. One table row each.

    python benchmarks/servo_response.py [FIGURE.png]
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from capex.pose import DOWN, Array, Pose
from capex.rigs.servo import Servo, ServoLimits, shortened
from capex.worlds import ArmCommand

TICKS = 200
STEP_M = 0.004
REACHED_M = 0.008  # the executor's
MOVES = {"side": np.array([0.0, 0.1, 0.0]), "up": np.array([0.0, 0.0, 0.1])}


@dataclass(frozen=True)
class Plant:
    """y + share of the way to gain * (goal - start) + start - sag, a tick."""

    name: str
    share: float = 1.0
    gain: float = 1.0
    sag_m: float = 0.0

    def step(self, y: Array, goal: Array, start: Array) -> Array:
        """Where the tip is after one tick."""
        to = start + self.gain * (goal - start) - np.array([0.0, 0.0, self.sag_m])
        return np.asarray(y + self.share * (to - y))


LAG = 1.0 - math.exp(-1.0 / 3.0)
PLANTS = (
    Plant("ideal"),
    Plant("lags 3 ticks", share=LAG),
    Plant("10 % short", share=0.7, gain=0.9),
    Plant("20 % short", share=0.7, gain=0.8),
    Plant("sags 15 mm", share=0.7, sag_m=0.015),
    Plant("sags 15 mm, lags", share=LAG, sag_m=0.015),
)
Goal = Callable[[Array, Array], Array]  # (measured, step) -> goal


def naive(measured: Array, step: Array) -> Array:
    """The measured pose plus the step."""
    return np.asarray(measured + step)


def kept_goal(step_m: float = STEP_M) -> Goal:
    """The rig's servo, as a function of positions."""
    servo = Servo(ServoLimits(step_m, 0.05, 0.03, 0.3))

    def goal(measured: Array, step: Array) -> Array:
        command = ArmCommand((float(step[0]), float(step[1]), float(step[2])))
        proposed = servo.propose(command, Pose(measured, DOWN))
        assert proposed is not None
        servo.sent(proposed)
        return proposed.position_m

    return goal


def respond(plant: Plant, goal: Goal, move: Array, step_m: float = STEP_M) -> Array:
    """Positions (TICKS + 1, 3) of a tip that begins at the origin."""
    y, start = np.zeros(3), np.zeros(3)
    path = [y]
    for _ in range(TICKS):
        y = plant.step(y, goal(y, shortened(move - y, step_m)), start)
        path.append(y)
    return np.array(path)


@dataclass(frozen=True)
class StepResponse:
    """What the table says of a path."""

    reached: int | None  # first tick within the executor's tolerance
    settled: int | None  # from this tick on within 2 mm
    overshoot_m: float
    dip_m: float  # how far it went the wrong way
    rest_m: float  # largest error over the last 40 ticks
    swing_m: float  # largest less smallest coordinate there


def judge(path: Array, move: Array) -> StepResponse:
    """Numbers of a step response."""
    errors = np.linalg.norm(path - move, axis=1)
    near, outside = np.flatnonzero(errors <= REACHED_M), np.flatnonzero(errors > 0.002)
    along = path @ (move / np.linalg.norm(move))
    last = path[-40:]
    settled = int(outside[-1]) + 1 if len(outside) else 0
    return StepResponse(
        reached=int(near[0]) if len(near) else None,
        settled=settled if settled < len(path) else None,
        overshoot_m=max(0.0, float(along.max() - np.linalg.norm(move))),
        dip_m=max(0.0, -float(path[:, 2].min())),
        rest_m=float(errors[-40:].max()),
        swing_m=float(np.ptp(last, axis=0).max()),
    )


def main() -> None:
    """Print the table; draw the figure where a file is named."""
    head = f"{'arm':18s} {'move':5s} {'servo':9s} {'reached':>8s} {'settled':>8s} {'over':>6s}"
    print(f"{head} {'dip':>6s} {'rest':>6s} {'swing':>6s}   (ticks of 50 ms; mm)")
    for plant in PLANTS:
        for direction, move in MOVES.items():
            for name, goal in (("m + step", naive), ("kept goal", kept_goal())):
                r = judge(respond(plant, goal, move), move)
                ticks = f"{_tick(r.reached):>8s} {_tick(r.settled):>8s}"
                sizes = (r.overshoot_m, r.dip_m, r.rest_m, r.swing_m)
                numbers = " ".join(f"{1000 * size:6.1f}" for size in sizes)
                print(f"{plant.name:18s} {direction:5s} {name:9s} {ticks} {numbers}")
    if len(sys.argv) > 1:
        draw(sys.argv[1])


def _tick(tick: int | None) -> str:
    return "never" if tick is None else str(tick)


def draw(file: str) -> None:
    """Height over time of the move up, per arm."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(PLANTS), figsize=(3 * len(PLANTS), 2.8), sharey=True)
    for axis, plant in zip(axes, PLANTS, strict=True):
        for name, goal in (("measured + step", naive), ("kept goal", kept_goal())):
            path = respond(plant, goal, MOVES["up"])[:100]
            axis.plot(np.arange(len(path)) * 0.05, 1000 * path[:, 2], label=name)
        axis.axhline(100, color="0.7", linewidth=0.8)
        axis.set(title=plant.name, xlabel="s", ylim=(-60, 120))
    axes[0].set_ylabel("height, mm")
    axes[0].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(file, dpi=120)


if __name__ == "__main__":
    main()
