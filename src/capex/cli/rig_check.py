"""`capex check rig:FILE`: first what can be seen without moving, then each motion announced."""

from __future__ import annotations

import contextlib
import sys
import time
from dataclasses import replace

from capex import worlds
from capex.cli.console import console
from capex.cli.tables import FittedTable
from capex.errors import CapexError, ErrorCode, RigFault
from capex.rigs.env import RigFileEnv
from capex.rigs.preflight import check_dry, force_is_quiet
from capex.rigs.where import near_limits
from capex.worlds import Start
from capex.worlds.contract import CheckReport, try_rules

COUNTDOWN_S = 3


def check_rig(name: str, start: int, *, dry: bool, yes: bool) -> int:
    """Check a rig at one of its tasks, by default the first; 1 where something is wrong."""
    world, task = worlds.split_name(name)
    if not task:
        task = next(iter(worlds.tasks(world)))
    env = worlds.make(f"{world}:{task}")
    assert isinstance(env, RigFileEnv)
    if not 0 <= start < env.spec.starts:
        raise CapexError(
            f"--start: there is no start {start} of {env.spec.name}", code=ErrorCode.UNKNOWN_START
        )
    simulated = bool(env.rig.room)  # nobody can be hurt, and nobody needs to agree
    try:
        _lift(env, simulated=simulated, asks=not yes and sys.stdin.isatty())
        seen = _shown(check_dry(env))
        if dry or not seen.ok:
            if not seen.ok:
                console.print("Nothing was moved; fix this first.")
            return 0 if seen.ok else 1
        if not yes and not simulated and not sys.stdin.isatty():
            raise CapexError(
                "the next rules move the robot, and nobody is at the terminal to agree; add --yes,"
                " or --dry to move nothing",
                code=ErrorCode.PERSON_NEEDED,
            )
        clear = "Clear 15 cm around every gripper, keep a hand at the stop. Ctrl-C stops and holds."
        console.print(clear, highlight=False)

        def announce(rule: str, motion: str) -> None:
            console.print(f"Next, rule {rule}: {motion}, slowly.", highlight=False)
            if not simulated:
                _wait(yes=yes)

        report = worlds.check(env, start=Start(task, start), announce=announce)
        forces = try_rules({"force": force_is_quiet}, env)
        return 0 if _shown(replace(report, findings=report.findings + forces)).ok else 1
    except KeyboardInterrupt:
        with contextlib.suppress(CapexError):
            env.open().link.stop()
        raise
    finally:
        env.close()


def _lift(env: RigFileEnv, *, simulated: bool, asks: bool) -> None:
    """Before anything is held: have an arm that lies at its joints' limits lifted, by a person or
    by the simulated one. What is still too near afterwards is a rule's to say.
    """
    if simulated:
        env.lift()
        return
    while asks:
        try:
            if not (near := near_limits(env.rig, env.open().link)):
                return
            console.print(f"Nothing is held yet; {near}.", highlight=False)
        except RigFault as error:  # of a server that is started anew, too: it is met again
            console.print(f"{error}.", highlight=False)
            env.close()
        console.input("Lift the arm, then press Enter; Ctrl-C ends here: ")


def _shown(report: CheckReport) -> CheckReport:
    console.print(FittedTable(report.__rich__()))
    return report


def _wait(*, yes: bool) -> None:
    if not yes:
        console.input("Enter to begin, Ctrl-C to end here: ")
        return
    for left in range(COUNTDOWN_S, 0, -1):
        console.print(f"  {left}", highlight=False)
        time.sleep(1.0)
