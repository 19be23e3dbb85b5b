"""What Deoxys' controller leaves undone, and what driver, guard and attempts make of it when a
program of the robot's computer fails, at the Franka twin.

    python benchmarks/franka_faults.py [OUT]

Three tables. Undershoot: one step of the goal, a second to do it. Driver: something goes wrong
while the arm is held; what the driver reads and when, and what its `recover` does (seconds of the
robot's clock). Attempts: as benchmarks/room_faults.py has them.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from room_faults import Case, campaigns

from capex.errors import RigFault
from capex.pose import Pose
from capex.rigs.drivers import ArmReading
from capex.rigs.drivers.deoxys.driver import DeoxysArm
from capex.rigs.parse import find_rig, read_rig
from capex.rigs.twins import start
from capex.rigs.twins.driver import RoomClock
from capex.rigs.twins.faults import KINDS, KINDS_OF_WIRE
from capex.rigs.twins.hand import RoomHand

TASK = "PickCoke"
TICK_S = 0.05
SILENCE_S = 1.5
STALE_S = 0.2  # of the twin's guard
STOP_TICKS = 6
CAMERAS = ("frozen-frames", "camera-unplugged")
ARM_KINDS = [kind for kind in (*KINDS, *KINDS_OF_WIRE["deoxys"]) if kind not in CAMERAS]


@dataclass
class Twin:
    """A running twin in lock-step and its driver."""

    arm: DeoxysArm
    clock: RoomClock
    hand: RoomHand

    def tick(self, goal: Pose | None = None) -> ArmReading:
        """One tick of the rig's process."""
        if goal is None:
            self.arm.hold()
        else:
            self.arm.command(goal)
        self.clock.sleep_until(self.clock.now_s() + TICK_S)
        return self.arm.read()

    def hold(self, ticks: int) -> ArmReading:
        """Hold for so many ticks."""
        for _ in range(ticks):
            reading = self.tick()
        return reading

    def afresh(self) -> ArmReading:
        """Arranged, and held by the controller."""
        self.hand.arrange(TASK, 0)
        self.arm.recover(confirmed=True)  # both programs have just been started
        return self.hold(20)


@contextmanager
def twin() -> Iterator[Twin]:
    """The packaged one."""
    rig, end = start.prepare(read_rig(find_rig("franka-twin")))
    try:
        arm = DeoxysArm(rig.arms[0].options, "arm")
        arm.connect()
        yield Twin(arm, DeoxysArm.clock(rig.arms[0].options), RoomHand.of(rig))
        arm.close()
    finally:
        end()


def undershoot(at: Twin) -> Table:
    """Steps along the axes."""
    table = Table("step asked, cm", "x", "y", "z up", "z down", title="undershoot: done of it, mm")
    for step_m in (0.02, 0.05, 0.1):
        row = []
        for way in np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, -1]], dtype=np.float64):
            here = at.afresh().T_mount_tip
            goal = Pose(here.position_m + step_m * way, here.rotation)
            for _ in range(20):
                reading = at.tick(goal)
            done_m = float((reading.T_mount_tip.position_m - here.position_m) @ way)
            row.append(f"{1000 * done_m:.1f} ({100 * (done_m / step_m - 1):+.0f} %)")
        table.add_row(f"{100 * step_m:g}", *row)
    return table


def provoke(
    at: Twin, kind: str, lasts_s: float | None = None, stopped_s: float | None = None
) -> tuple[str, str, str]:
    """What the driver read, what it did, and how far the tip went. `stopped_s`: for how long a
    person presses the stop from 0.3 s after it on.
    """
    reading = at.afresh()
    here, begun_s = reading.T_mount_tip.position_m, at.clock.now_s()
    if kind == "watchdog":
        at.clock.sleep_until(begun_s + SILENCE_S)
    else:
        at.hand.fault(kind, **({} if lasts_s is None else {"duration_s": lasts_s}))
    seen: dict[str, float] = {}
    for k in range(40):
        if k == STOP_TICKS and stopped_s is not None:
            at.hand.fault("e-stop", duration_s=stopped_s)
        note = ""
        try:
            reading = at.tick()
            age_s = at.clock.now_s() - reading.time_s
            finite = bool(np.isfinite(reading.T_mount_tip.position_m).all())
            note = reading.error or ("" if finite else "not finite")
            note = note or ("a state too old for the guard" if age_s > STALE_S else "")
        except RigFault as error:
            note = f"RigFault: {error}"
        if note:
            seen.setdefault(note, at.clock.now_s() - begun_s)
        if reading.error:
            break
    did = _recover(at) if reading.error else "holds on"
    gone_mm = 1000 * float(np.linalg.norm(at.hold(5).T_mount_tip.position_m - here))
    noticed = "; ".join(f"{text} (after {after_s:.2f} s)" for text, after_s in seen.items())
    return noticed or "nothing", did, f"{gone_mm:.1f}"


def _recover(at: Twin) -> str:
    begun_s = at.hand.now_s()
    try:
        at.arm.recover(confirmed=False)
    except RigFault as error:
        refused = f"after {at.hand.now_s() - begun_s:.1f} s: {error}"
        at.hand.mend()
        begun_s = at.hand.now_s()
        at.arm.recover(confirmed=True)
        return f"{refused}; mended by a person: holds {at.hand.now_s() - begun_s:.1f} s later"
    took_s = at.hand.now_s() - begun_s
    if (status := at.hold(2).status).needs_person:
        here = at.hold(20).T_mount_tip.position_m
        still_mm = 1000 * float(np.linalg.norm(at.hold(20).T_mount_tip.position_m - here))
        at.arm.recover(confirmed=True)
        return f"after {took_s:.1f} s {status}: waits, moves {still_mm:.1f} mm; a person confirms"
    return f"recover: holds {took_s:.1f} s later"


def main() -> None:
    """The three tables."""
    base = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp())
    console = Console(width=160)
    with twin() as at:
        console.print(undershoot(at))
        table = Table("fault", "the driver read", "then", "tip moved, mm", title="driver")
        for kind in ("watchdog", *ARM_KINDS):
            table.add_row(kind, *provoke(at, kind))
        for lasts_s in (2.0, 4.0, 8.0):
            row = provoke(at, "e-stop", lasts_s)
            table.add_row(f"e-stop, released after {lasts_s:g} s", *row)
        for lasts_s in (0.3, 2.0, 4.0):
            row = provoke(at, "reflex", stopped_s=lasts_s)
            table.add_row(f"reflex, then an e-stop for {lasts_s:g} s", *row)
        console.print(table)
    console.print(campaigns(map(Case, ARM_KINDS), base, "franka-twin", TASK))


if __name__ == "__main__":
    main()
