"""Going on from a saved state: the executor as it was when a recorded plan began.

A world's saved state is complete for the world. What the hands had been told (`Told`) is the
executor's, and is followed here through the recorded waypoints: the clamped orientations need the
tip at the beginning of each plan, so every earlier state is loaded once; nothing moves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from capex.errors import CapexError
from capex.method.executor import GRIPPER_STILL_RUNS, NOT_RUN, SKIPPED, Executor
from capex.method.motion import ClampedTarget
from capex.method.record import Turn, WaypointRecord
from capex.method.told import Told
from capex.pose import Array
from capex.worlds import Env, Start, State


def begin_again(env: Env, start: Start, header: str) -> None:
    """Reset to a recorded start, so that its states can be loaded; refuses a world that cannot."""
    if not env.spec.can_save:
        raise CapexError(f"{env.spec.name} saves no states, so that nothing can go on from one")
    env.reset(start)
    if (now := env.save_state().header) != header:
        raise CapexError(f"it was recorded as {header}; this version of the world has {now}")


def told_at_plans(
    env: Env, planned: Sequence[Turn], states: Sequence[Array], header: str
) -> list[Told]:
    """What the hands had been told when each of an episode's plans began.

    planned: the turns that have a plan. states: the state at the start of the episode, then that at
    the beginning of each plan.
    """
    env.load_state(State(header, states[0]))
    told = Executor(env).told
    before = []
    for turn, state in zip(planned, states[1:], strict=True):
        env.load_state(State(header, state))
        executor = Executor(env, told=told)
        targets = executor.clamp([row.waypoint for row in turn.waypoints])
        before.append(told)
        told = executor.told
        for row, clamped in zip(turn.waypoints, targets, strict=True):
            _follow(told, row, clamped)
    return before


def _follow(told: Told, row: WaypointRecord, targets: Mapping[str, ClampedTarget]) -> None:
    """Take in what a recorded waypoint told the hands."""
    if row.status in NOT_RUN:
        return
    if row.waypoint.base is None:
        told.rotation |= {name: target.rotation for name, target in targets.items()}
    if row.status not in GRIPPER_STILL_RUNS:
        return
    notes = row.report.split("; ")
    for name, target in row.waypoint.targets.items():
        if target.gripper != "keep":
            skipped = f"{target.gripper} {SKIPPED}"
            begins = (skipped, f"{name} {skipped}")  # the arm is named where there are several
            told.grip(name, target.gripper, skipped=any(n.startswith(begins) for n in notes))
