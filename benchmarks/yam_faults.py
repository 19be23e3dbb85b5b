"""What two YAM arms do when something dies, at the twin: fault by fault, in mid-air.

    python benchmarks/yam_faults.py [--attempts OUT]

Both arms are on their way through the air when it happens to the right one (or to the front camera,
or to one of our processes). Printed: what the rig said and how long after (seconds of the robot's
clock), how far both tips really went in the three seconds that followed (and until three seconds
after the power is back), from the simulation's truth, what became of more commands before a person
confirms, and what after a person had mended it. With --attempts also what attempts of the
pilot (a stand-in) make of it, as benchmarks/room_faults.py has them: minutes for each kind.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from rich.console import Console
from rich.table import Table
from room_faults import Case, campaigns

from capex import worlds
from capex.errors import RigFault
from capex.pose import Array
from capex.rigs.client import KeeperLink
from capex.rigs.drivers.yam.kinematics import YAM, YamKinematics
from capex.rigs.env import RigFileEnv
from capex.rigs.twins.driver import RoomClock
from capex.rigs.twins.hand import RoomHand
from capex.rigs.twins.yam.pair import ARMS, DOFS
from capex.worlds import ArmCommand, Command, Start

TASK = "BowlHandover"
KINEMATICS = YamKinematics(YAM)
TICK_S, WATCHED_S = 0.05, 3.0
STEP_M: Mapping[str, tuple[float, float, float]] = {
    "left": (0.002, -0.001, 0.0),
    "right": (0.002, 0.001, 0.0),
}
BEFORE = 20  # ticks under way
AT_TICK = 300  # goals of both arms: more than the way home from where they were lifted has
AFTER = 20  # more of the same, unless something stops them


class Rig:
    """The twin through its whole stack, its truth beside it."""

    def __init__(self) -> None:
        env = worlds.make(f"yam-twin:{TASK}")
        assert isinstance(env, RigFileEnv)
        self.env = env
        opened = env.open()
        assert isinstance(opened.link, KeeperLink)
        self.link: KeeperLink = opened.link
        self.hand: RoomHand = env.room_hand()
        self.clock = RoomClock(int(opened.rig.room["side"]))
        self.mounts = {arm.name: arm.T_base_mount for arm in opened.rig.arms}
        self.refused = False  # whether a request was a fault
        self.hand.arrange(TASK, 0)
        env.reset(Start(TASK, 0))

    def tips_m(self) -> dict[str, Array]:
        """Where the tips really are: six joints and two fingers for each arm come first."""
        truth = self.hand.truth()
        at = {arm: truth[k * (DOFS + 1) :][:6] for k, arm in enumerate(ARMS)}
        return {a: (self.mounts[a] @ KINEMATICS.tip(q)).position_m for a, q in at.items()}

    def move(self, ticks: int, gripper: float = 0.0) -> str:
        """Go on, both arms; returns why they were stopped."""
        command = Command({arm: ArmCommand(STEP_M[arm], (0, 0, 0), gripper) for arm in ARMS})
        for _ in range(ticks):
            try:
                self.env.step(command)
            except RigFault as error:
                self.refused = True
                return str(error)
            if why := self.env.robot_state().stopped:
                return why
        return ""

    def wait(self, seconds: float) -> None:
        """Let time pass without a word."""
        self.clock.sleep_until(self.clock.now_s() + seconds)


Provoke = Callable[[Rig], str]


def fault(kind: str, gripper: float = 0.0, **at: str | float) -> Provoke:
    """Something at the peer, while the arms go on."""

    def provoke(rig: Rig) -> str:
        rig.hand.fault(kind, **at)
        return rig.move(AFTER, gripper)

    return provoke


def stale_camera(rig: Rig) -> str:
    """The front camera repeats its last picture; somebody looks."""
    rig.hand.fault("frozen-frames", camera="front", duration_s=10.0)
    try:
        rig.move(2)
        rig.env.observe()
    except RigFault as error:
        return str(error)
    return ""


def rig_killed(rig: Rig) -> str:
    """SIGKILL for the process that owns the arms' drivers."""
    os.kill(rig.link.process, signal.SIGKILL)
    return rig.move(2)


def collector_gone(rig: Rig) -> str:
    """The collector's end of the pipe is closed, as when it was killed."""
    rig.link._pipe.close()
    rig.link._process.wait(60)
    return "(its log: the collector is gone; in lock-step it leaves at once)"


def power_back(seconds: float) -> tuple[Provoke, float]:
    """The power is cut, and on again after so long; watched for three more seconds."""
    return fault("e-stop", duration_s=seconds), seconds + WATCHED_S


CASES: Mapping[str, Provoke] = {
    "connection lost (1 s)": fault("dropped-connection", arm="right", duration_s=1.0),
    "one arm frozen": fault("frozen-arm", arm="right"),
    "one arm's server ends (2 s)": fault("server-gone", arm="right"),
    "gripper jammed, told to close": fault("gripper-jammed", gripper=1.0, arm="right"),
    "front camera stale": stale_camera,
    "e-stop (power cut)": fault("e-stop"),
    "our rig process killed": rig_killed,
    "our collector killed": collector_gone,
}


def row(provoke: Provoke, watched_s: float = WATCHED_S) -> list[str]:
    """Said, after how long, how far each arm went, what became of more commands, and how it went on
    after a person.
    """
    rig = Rig()
    try:
        rig.move(BEFORE)
        before, begun_s = rig.tips_m(), rig.clock.now_s()
        said = provoke(rig)
        noticed_s = rig.clock.now_s() - begun_s
        at_stop = rig.tips_m()
        rig.wait(max(0.0, watched_s - noticed_s))
        after = rig.tips_m()
        rig.refused = False
        more = rig.move(2) or "moves"
        more = "refused" if rig.refused else more
        state = ""
        with suppress(RigFault):
            arms = rig.env.robot_state().arms
            state = ", ".join(f"{a} {100 * s.opening_m:.1f} cm open" for a, s in arms.items())
        way = [_way(before[a], at_stop[a], after[a]) for a in ARMS]
        return [said or "nothing", f"{noticed_s:.2f}", *way, more, f"{_mended(rig)}; {state}"]
    finally:
        rig.env.close()


def _way(before: Array, stop: Array, after: Array) -> str:
    """Until the rig had said something, and then: how far, and how much of it down."""
    until = 1000 * math.dist(before, stop)
    then, down = 1000 * math.dist(stop, after), 1000 * float(stop[2] - after[2])
    return f"{until:.0f}, then {then:.0f} ({down:.0f} down)"


def _mended(rig: Rig) -> str:
    """Whether it goes on once a person has set everything right: a room that began anew has arms
    that float at their limits, and are lifted.
    """
    rig.hand.mend()
    try:
        rig.env.recover()
        rig.env.lift()
        rig.env.settle()
        return rig.move(2) or "goes on"
    except RigFault as error:
        return f"does not go on: {error}"


def main() -> None:
    """The tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--attempts", type=Path)
    given = parser.parse_args()
    console = Console(width=180)
    tips = (f"{a} tip, mm" for a in ARMS)
    names = ("fault", "the rig said", "after, s", *tips, "more commands", "mended")
    table = Table(*names, title="in mid-air")
    for name, provoke in CASES.items():
        table.add_row(name, *row(provoke), end_section=True)
    for seconds in (2.0, 4.0, 8.0):
        name = f"power cut, back after {seconds:g} s"
        table.add_row(name, *row(*power_back(seconds)), end_section=True)
    console.print(table)
    if given.attempts is not None:
        # No time passes while the stand-in confirms, five times at most: a server that is gone for
        # longer ends the campaign.
        kinds = ("frozen-arm", "gripper-jammed", "dropped-connection", "camera-unplugged")
        cases = (Case("server-gone", 0.4), *map(Case, kinds))
        console.print(campaigns(cases, given.attempts, "yam-twin", TASK, AT_TICK))


if __name__ == "__main__":
    main()
