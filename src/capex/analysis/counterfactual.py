"""Counterfactual execution: every plan of every decision from its saved state as tau = 0 would, the
deferred tail included, without a model.

A stall still ends a plan and what follows stays unlabelled; the horizon does not. The committed
part must come out as recorded, which is checked for every decision: on the machine that recorded
(equal fingerprints, apart from the renderer) reports, labels, tips and every complete state, to the
bit; elsewhere how each waypoint ended.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

from capex.analysis.counterfactual_file import (
    Counterfactual,
    PlanOutcome,
    WaypointOutcome,
    read_counterfactual,
    write_counterfactual,
)
from capex.analysis.fork_kind import COMMAND
from capex.errors import CapexError, DamagedFile, ErrorCode
from capex.method.executor import Executor, Outcome, Tick
from capex.method.motion import GripperCommandState
from capex.method.record import EpisodeRecord, Turn, WaypointRecord, record_waypoints
from capex.method.restoring import begin_again, executor_state_at_plans
from capex.pose import Array
from capex.run import load_chain, read_record
from capex.run.jobs import run_jobs
from capex.run.manifest import fingerprint
from capex.run.reading import digests
from capex.run.steps import STEPS, read_steps
from capex.run.store import find_run
from capex.worlds import Env, Start, State
from capex.worlds.cache import OF_THIS_PROCESS
from capex.worlds.robots import refuse_repeating

UNLIMITED = 1_000_000_000  # control steps
EXACT = "reports, labels, tips and every state of the committed part, to the bit"
ELSEWHERE = "how each waypoint of the committed part ended (recorded on another machine)"
COMPARED = ("status", "report", "label", "steps", "clamped_m", "tips", "base_moved")


@dataclass(frozen=True)
class Executed:
    """An episode whose plans were executed whole, or why they were not."""

    episode: Path
    counterfactual: Counterfactual | None
    known: bool = False  # it had been before
    problem: str = ""


def execute_run(
    run: Path,
    parallel: int = 1,
    *,
    again: bool = False,
    tell: Callable[[int, int, Executed], None] | None = None,
) -> list[Executed]:
    """Execute the plans of every episode of a run that has no valid counterfactual yet (`again`: of
    all of them). Each is stored as soon as it is known, so that an interrupted run continues.
    """
    recorded = find_run(run)
    if recorded.manifest.recorded.command not in ("collect", COMMAND):
        raise CapexError(
            f"{run} was not collected with a model, so it holds no plans with a deferred tail; give"
            " the run of a `capex collect`",
            code=ErrorCode.WRONG_CONTENT,
        )
    exact = {**recorded.manifest.fingerprint, "gl": ""} == fingerprint()
    chains = [load_chain(chain) for chain in recorded.chains()]
    episodes = [episode.path for chain in chains for episode in chain.episodes]
    for world in {chain.world for chain in chains}:
        refuse_repeating(world, "capex counterfactual")
    done: dict[Path, Executed] = {}

    def finish(result: Executed) -> None:
        done[result.episode] = result
        if tell is not None:
            tell(len(done), len(episodes), result)

    waiting = []
    for episode in episodes:
        known = None if again else read_counterfactual(episode)
        if known is not None:
            finish(Executed(episode, known, known=True))
        else:
            waiting.append((episode, exact))
    for index, result in run_jobs(_job, waiting, parallel):
        episode = waiting[index][0]
        if isinstance(result, CapexError):
            finish(Executed(episode, None, problem=str(result)))
        else:
            write_counterfactual(episode, result)
            finish(Executed(episode, result))
    damaged = [d for chain in chains for d in chain.damaged if d.start is not None]
    return [
        *(done[e] for e in episodes),
        *(Executed(d.path, None, False, d.reason) for d in damaged),
    ]


def _job(job: tuple[Path, bool]) -> Counterfactual:
    return execute_episode(*job)


def execute_episode(episode: Path, exact: bool = True) -> Counterfactual:
    """Execute every plan of an episode whole, and compare its committed part."""
    record, steps = read_record(episode), read_steps(episode)
    if record.human_steps:
        raise CapexError(
            f"{episode}: a person drove {record.human_steps} of its steps, after which what its"
            " hands were told is not known; such an attempt is left out",
            code=ErrorCode.WRONG_CONTENT,
        )
    planned = [turn for turn in record.turns if turn.waypoints]
    begins = [int(k) for k in steps["plan_starts"]]
    if len(begins) != len(planned):
        raise DamagedFile(
            episode / STEPS, f"it has {len(begins)} plans where the record has {len(planned)}"
        )
    header, states = str(steps["header"]), steps["states"]
    env = OF_THIS_PROCESS.keep(f"{record.world}:{record.task}")
    begin_again(env, Start(record.task, record.start, record.seed), header)
    beginnings = [states[0], *(states[k] for k in begins)]
    plans = []
    restored = executor_state_at_plans(env, planned, beginnings, header)
    for turn, commands, begin in zip(planned, restored, begins, strict=True):
        plan = _Plan(env, record, turn, commands, states[begin:], header)
        plans.append(plan.outcome(exact))
    return Counterfactual(EXACT if exact else ELSEWHERE, tuple(plans), digests(episode))


@dataclass(frozen=True)
class _Plan:
    """One recorded plan with what it began from."""

    env: Env
    record: EpisodeRecord
    turn: Turn
    commands: GripperCommandState
    states: Array  # recorded, from the beginning of the plan
    header: str

    def outcome(self, exact: bool) -> PlanOutcome:
        """Execute it whole; the committed part again within its own limits where they ended it."""
        rows = self.turn.waypoints
        whole, difference = self._execute(len(rows), UNLIMITED)
        left = self.record.horizon - self.turn.step
        if sum(row.steps for row in rows) >= left:
            part, difference = self._execute(self.turn.committed, left)
        else:
            part = whole[: self.turn.committed]
        different = _difference(rows, part, exact) or (difference if exact else "")
        outcomes = tuple(WaypointOutcome(o.status, o.report, o.label, o.steps) for o in whole)
        return PlanOutcome(self.turn.decision, self.turn.committed, outcomes, different)

    def _execute(self, count: int, steps_left: int) -> tuple[list[Outcome], str]:
        """Run the first waypoints; which recorded state did not come again."""
        compared = sum(row.steps for row in self.turn.waypoints[: self.turn.committed])
        ticks, different = 0, math.inf

        def compare(_: Tick) -> None:
            nonlocal ticks, different
            ticks += 1
            if ticks <= compared and different > ticks:
                vector = self.env.save_state().vector
                same = vector.tobytes() == self.states[ticks].tobytes()
                different = different if same else ticks

        self.env.load_state(State(self.header, self.states[0]))
        commands = deepcopy(self.commands)
        executor = Executor(
            self.env, steps_left=steps_left, commands=commands, subscribers=[compare]
        )
        waypoints = [row.waypoint for row in self.turn.waypoints]
        outcomes = executor.execute(waypoints[:count], waypoints[count:])
        if math.isfinite(different):
            return outcomes, f"the state after step {different} of the plan differs"
        return outcomes, ""


def _difference(rows: Sequence[WaypointRecord], outcomes: Sequence[Outcome], exact: bool) -> str:
    """The first waypoint of the committed part that did not come out as recorded."""
    waypoints = [row.waypoint for row in rows[: len(outcomes)]]
    for k, (was, now) in enumerate(
        zip(rows, record_waypoints(waypoints, outcomes), strict=False), start=1
    ):
        for name in COMPARED if exact else ("status", "label"):
            then, here = getattr(was, name), getattr(now, name)
            if then != here:
                return f"waypoint {k}: {name} was {then!r}, now {here!r}"
    return ""
