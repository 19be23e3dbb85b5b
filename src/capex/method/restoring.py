"""Continuing from saved states: the executor's state when each recorded plan began.

A world's saved state is complete for the world; the last commands are the executor's, and are
retraced through the recorded plans. Nothing moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

from capex.errors import CapexError, ErrorCode
from capex.method.executor import Executor
from capex.method.motion import GripperCommandState
from capex.method.record import Turn, past_outcome
from capex.pose import Array
from capex.worlds import Env, Start, State


def begin_again(env: Env, start: Start, header: str) -> None:
    """Reset to a recorded start, so that its states can be loaded; refuses a world that cannot."""
    if not env.spec.can_save:
        raise CapexError(
            f"{env.spec.name} has no saved states, so nothing can go on from one; a simulated world"
            " has them",
            code=ErrorCode.UNSUPPORTED,
        )
    env.reset(start)
    if (now := env.save_state().header) != header:
        raise CapexError(
            f"it was recorded as {header}; this version of the world has {now}",
            code=ErrorCode.STATE_MISMATCH,
        )


def executor_state_at_plans(
    env: Env, planned: Sequence[Turn], states: Sequence[Array], header: str
) -> list[GripperCommandState]:
    """The last commands of the hands when each of an episode's plans began.

    planned: the turns that have a plan. states: the state at the start of the episode, then that at
    the beginning of each plan.
    """
    env.load_state(State(header, states[0]))
    executor, before = Executor(env), []
    for turn, state in zip(planned, states[1:], strict=True):
        env.load_state(State(header, state))
        before.append(deepcopy(executor.commands))
        rows = turn.waypoints
        executor.retrace([row.waypoint for row in rows], [past_outcome(row) for row in rows])
    return before
