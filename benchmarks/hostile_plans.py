"""Hostile plans against the guard of a rig, counted on the robot's side.

    python benchmarks/hostile_plans.py [PLANS]      default 1000

Each plan is up to 40 commands to the rig's process, past the executor and the Env: numbers that are
not finite, targets far away, steps that change their direction every tick, targets inside a
keep-out, one arm into the other, large turns. The arms (tests/rigs/lagging_arm.py) look at
every goal that arrives with sums of their own. Prints what the guard said and what came through;
exit status 1 where a goal outside the policy did.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests" / "worlds" / "rigs"))
from rig_of import SHELF, calls, rig_of

from capex.errors import RigFault
from capex.pose import Array
from capex.rigs.client import KeeperLink, open_link
from capex.rigs.link import RigReading
from capex.rigs.servo import shortened
from capex.worlds import ArmCommand, Command

KINDS = ("not finite", "far", "oscillation", "keep-out", "arm into arm", "turns", "mixed")
WRONG = (float("nan"), float("inf"), float("-inf"))


@dataclass(frozen=True)
class Hostility:
    """What came of some plans."""

    plans: int
    ticks: int
    sent: int  # goals that reached a robot
    outside: Counter[str]  # those outside the policy, by what they broke
    back: Counter[str]  # those that only bring an arm back that had sagged or stopped outside
    guard: dict[str, int]


def run_plan(kind: str, rng: random.Random, link: KeeperLink, names: tuple[str, ...]) -> int:
    """Send the commands of one plan until the guard stops it; returns how many."""
    far = {n: np.array([rng.uniform(-1, 2), rng.uniform(-1, 1), rng.uniform(-1, 1)]) for n in names}
    reading = link.settle()
    ticks = rng.randint(5, 40)
    for k in range(ticks):
        command = Command({n: _command(kind, rng, reading, n, far[n], k) for n in names})
        reading = link.tick(command)
        if reading.stopped:
            return k + 1
    return ticks


def _command(
    kind: str, rng: random.Random, reading: RigReading, name: str, far: Array, k: int
) -> ArmCommand:
    tip = reading.arms[name].T_base_tip.position_m
    if kind == "mixed":
        kind = rng.choice(KINDS[:-1])
    step, turn = np.zeros(3), np.zeros(3)
    if kind == "not finite":
        step[rng.randrange(3)] = rng.choice((0.01, *WRONG))
        turn[rng.randrange(3)] = rng.choice((0.0, 0.0, *WRONG))
    elif kind == "far":
        step = (far - tip) * rng.choice((1.0, 1e9))
    elif kind == "oscillation":
        step = 0.05 * (-1) ** k * far
    elif kind == "keep-out":
        low, high = np.array(SHELF.lower_m), np.array(SHELF.upper_m)
        step = shortened((low + high) / 2 + 0.2 * far * [0, 1, 0] - tip, rng.choice((0.01, 0.1)))
    elif kind == "arm into arm" and len(reading.arms) > 1:
        other = next(n for n in reading.arms if n != name)
        step = shortened(reading.arms[other].T_base_tip.position_m - tip, rng.choice((0.005, 0.1)))
    else:
        step, turn = 0.01 * far, far * rng.choice((0.05, 1.0, 100.0))
    gripper = rng.choice((-1.0, 0.0, 1.0, 1.0, float("nan") if kind == "not finite" else 0.0))
    return ArmCommand(
        (float(step[0]), float(step[1]), float(step[2])),
        (float(turn[0]), float(turn[1]), float(turn[2])),
        gripper,
    )


def attack(
    folder: Path, plans: int, *, arms: int = 2, seed: int = 0, **options: float
) -> Hostility:
    """Run plans against a rig of lagging arms in lock-step."""
    rng, ticks = random.Random(seed), 0
    rig = rig_of(folder, arms=arms, **options)
    names = tuple(arm.name for arm in rig.arms)
    link = open_link(rig)
    try:
        for k in range(plans):
            ticks += run_plan(KINDS[k % len(KINDS)], rng, link, names)
            if rng.random() < 0.1:
                try:
                    link.home()
                except RigFault as error:  # arms that stand in each other's way
                    print(f"plan {k}: {error}")
        counts = link.counts()
    finally:
        link.close()
    heard = [c for name in names for c in calls(folder, name) if c["call"] == "command"]
    outside = Counter(c["bad"] for c in heard if c["bad"] and not c["back"])
    back = Counter(c["bad"] for c in heard if c["back"])
    return Hostility(plans, ticks, len(heard), outside, back, counts)


def main() -> None:
    """Two arms, half of the plans with arms that sag; print the counts."""
    plans = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    failed = False
    for name, sag_m in (("arms that lag", 0.0), ("arms that lag and sag 15 mm", 0.015)):
        with tempfile.TemporaryDirectory() as folder:
            result = attack(Path(folder), plans // 2, sag_m=sag_m)
        print(f"{name}: {result.plans} plans, {result.ticks} ticks, {result.sent} goals arrived")
        for text, count in sorted(result.guard.items(), key=lambda item: -item[1]):
            print(f"  {count:7d}  {text}")
        print(f"  outside the policy, counted by the robots: {dict(result.outside) or 0}")
        print(f"  coming back from where an arm sagged or stopped: {dict(result.back) or 0}")
        failed |= bool(result.outside)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
