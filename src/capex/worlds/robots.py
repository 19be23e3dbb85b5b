"""What holds for a world that is a robot in a room: there is one of it, and nothing recorded drives
it again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from capex.errors import CapexError
from capex.worlds import RIG, Env, Spec, split_name


def one_robot(spec: Spec) -> bool:
    """Whether a world is a robot that there is once: one attempt at a time, none of them repeated
    from a log.
    """
    return spec.real_time or spec.world.startswith(RIG)


def refuse_repeating(world: str, what: str) -> None:
    """Refuse `what`, which would drive a rig with what was recorded."""
    if world.startswith(RIG):
        raise CapexError(
            f"{world} is a rig: {what} would repeat recorded motions on a robot whose room has"
            " changed since; people judge its attempts instead (capex judge)"
        )


def refuse_unattended(name: str, what: str) -> None:
    """Refuse `what`, which arranges no scene and asks nobody, on a rig."""
    if split_name(name)[0].startswith(RIG):
        raise CapexError(
            f"{name} is a rig, where a person arranges and judges each attempt; {what} drives"
            " worlds that reset and judge themselves"
        )


def recover(env: Env) -> None:
    """A person says that the rig is fine again: what stopped it is cleared, or RigFault."""
    clear: Callable[[], None] | None = getattr(env, "recover", None)
    if clear is not None:
        clear()


def stop(env: Env) -> None:
    """Stop the arms of a rig now; only a person lets them go on (`recover`)."""
    halt: Callable[[], None] | None = getattr(env, "stop", None)
    if halt is not None:
        halt()


def when_we_die(env: Env) -> Mapping[str, str]:
    """By arm of a rig, what it does when our processes end without a word; nothing of others."""
    give: Callable[[], Mapping[str, str]] | None = getattr(env, "when_we_die", None)
    return give() if give is not None else {}


def rig_notes(env: Env) -> Mapping[str, Any]:
    """What a rig's record says beside the attempt (clock, lateness, what the guard did); nothing of
    other worlds.
    """
    give: Callable[[], Mapping[str, Any]] | None = getattr(env, "rig_notes", None)
    return give() if give is not None else {}
