"""`worlds.check(env)`: the Env contract as a program.

    report = worlds.check(worlds.make("kitchen:TurnOnMicrowave"))
    rich.print(report); report.raise_if_failed()

Each rule tests what the spec claims and says so where something is not claimed, so that a real
robot passes too. A rule is a function of a `WorldTrial`; `RULES` lists them. The robot moves, as
`MOTIONS` says: on a real one, clear 15 cm around each tip (and, where it drives, half a metre of
floor behind it). A robot in a room moves slowly, each rule that moves it can be announced, and
after a fault of the robot no further rule is tried. A world that cannot reset is reset once, before
the first rule.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from rich.table import Table
from rich.text import Text

from capex import worlds
from capex.errors import CapexError, ErrorCode, RigFault, UnknownName, Unsupported
from capex.worlds import Env, EnvFactory, Start
from capex.worlds.contract import arms, depth, frames, motion, rules, views
from capex.worlds.contract.trial import BrokenRuleError, NotClaimedError, WorldTrial, describe_error

Status = Literal["ok", "failed", "not claimed", "not tried"]
# The sentence of a rule that holds; BrokenRuleError or NotClaimedError carry the other two.
Rule = Callable[[WorldTrial], str]

RULES: dict[str, Rule] = {
    "spec": rules.spec_is_well_formed,
    "starts": rules.unknown_starts_are_refused,
    "reset": rules.reset_is_deterministic,
    "success": rules.success_is_false_after_reset,
    "limits": rules.bad_commands_are_refused,
    "observing": rules.observing_changes_nothing,
    "save": rules.saved_states_continue_exactly,
    "replay": rules.native_actions_replay,
    "process": rules.another_process_agrees,
    "images": views.images_have_the_asked_shape,
    "tip": views.tip_lands_on_the_fingers,
    "depth": depth.depth_is_metric,
    "commands": motion.commands_do_what_they_say,
    "arms": arms.arms_share_a_frame,
    "together": arms.arms_arrive_together,
    "base": motion.base_drives_as_commanded,
    "frames": frames.frames_are_recorded,
}
_HOME = "moves every arm home and opens its gripper"
_HAND = "raises each tip by 7 cm, takes it 7 cm aside, closes and opens its gripper at each place"
# What a rule does to a robot that cannot repeat itself; the others leave it where it is.
MOTIONS = {
    "spec": _HOME,
    "limits": f"{_HOME}; bad commands are refused",
    "images": f"{_HOME}, then closes one",
    "tip": f"{_HOME}, {_HAND}, then turns it by 17 degrees",
    "depth": f"{_HOME}, {_HAND}",
    "commands": f"{_HOME}, moves it up to 8 cm along each axis and back, turns it and grips",
    "arms": f"{_HOME}, moves one after the other 5 cm up or down",
    "together": f"{_HOME}, then moves all of them 6 or 3 cm up or down at once",
    "base": "drives half a metre back, 20 cm to each side, and turns",
    "frames": f"{_HOME}, then holds",
}
OF_SEVERAL = ("arms", "together")  # rules that move nothing of a robot with one arm
Subject = TypeVar("Subject")


@dataclass(frozen=True)
class RuleFinding:
    """What one rule found, in one sentence."""

    rule: str
    status: Status
    detail: str


@dataclass(frozen=True)
class CheckReport:
    """The findings of one check, in the order of `RULES`; `rich.print` shows them as a table."""

    world: str
    findings: tuple[RuleFinding, ...]

    @property
    def failed(self) -> tuple[RuleFinding, ...]:
        """The findings of rules that do not hold."""
        return tuple(f for f in self.findings if f.status == "failed")

    @property
    def ok(self) -> bool:
        """Whether every claim held."""
        return not self.failed

    def raise_if_failed(self) -> None:
        """CapexError that lists the failed rules."""
        if self.failed:
            lines = "".join(f"\n  {f.rule}: {f.detail}" for f in self.failed)
            count = f"{len(self.failed)} of {len(self.findings)}"
            raise CapexError(
                f"{self.world} breaks {count} rules of the Env contract:{lines}",
                code=ErrorCode.CONTRACT_BROKEN,
            )

    def __rich__(self) -> Table:
        table = Table("rule", "status", "detail", title=Text(self.world))
        colours = {"ok": "green", "failed": "red"}
        for f in self.findings:
            table.add_row(
                f.rule, Text(f.status, style=colours.get(f.status, "yellow")), Text(f.detail)
            )
        return table


def check(
    env: Env,
    *,
    factory: EnvFactory | None = None,
    start: Start | None = None,
    ticks: int = 30,
    rules: Sequence[str] | None = None,
    announce: Callable[[str, str], None] | None = None,
) -> CheckReport:
    """Try every rule, or those named, on a world, whether or not the ones before it hold.

    `factory` builds a fresh env in a spawned process, so it must be picklable; a registered world
    needs none. `ticks` is the length of the pseudo-random rollouts. `announce` is called with each
    rule that moves the robot and what it will do, before it does.
    """
    spec = env.spec
    for name in rules or ():
        if name not in RULES:
            raise UnknownName("rule", name, RULES)
    if factory is None and spec.world in worlds.WORLDS:
        factory = functools.partial(worlds.make, spec.name)
    trial = WorldTrial(env, factory, start or Start(task=spec.task, index=0), ticks)
    if not spec.can_reset:
        with contextlib.suppress(Unsupported):
            env.reset(trial.start)
    chosen = [name for name in RULES if rules is None or name in rules]

    def before(name: str) -> None:
        moves = name in MOTIONS and (name != "base" or spec.base is not None)
        if announce is not None and moves and (name not in OF_SEVERAL or len(spec.arms) > 1):
            announce(name, MOTIONS[name])

    return CheckReport(spec.name, try_rules({n: RULES[n] for n in chosen}, trial, before))


def try_rules(
    rules: Mapping[str, Callable[[Subject], str]],
    subject: Subject,
    before: Callable[[str], None] = lambda name: None,
) -> tuple[RuleFinding, ...]:
    """What each rule finds of a subject, `before` called ahead of each; after a fault of a robot
    the rest is not tried.
    """
    findings: list[RuleFinding] = []
    fault = ""
    for name, rule in rules.items():
        if fault:
            findings.append(
                RuleFinding(name, "not tried", f"the robot had a fault in rule {fault}")
            )
            continue
        try:
            before(name)
            findings.append(_try(name, rule, subject))
        except RigFault as error:
            findings.append(RuleFinding(name, "failed", str(error)))
            fault = name
    return tuple(findings)


def _try(name: str, rule: Callable[[Subject], str], subject: Subject) -> RuleFinding:
    try:
        return RuleFinding(name, "ok", rule(subject))
    except RigFault:
        raise
    except NotClaimedError as error:
        return RuleFinding(name, "not claimed", str(error))
    except BrokenRuleError as error:
        return RuleFinding(name, "failed", str(error))
    except Exception as error:
        # Whatever a world raises is a finding about it; the other rules still run.
        return RuleFinding(name, "failed", describe_error(error, inspect.getfile(rule)))
