"""What holds for a world that is a robot in a room: there is one of it, and nothing recorded drives
it again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from capex.errors import CapexError
from capex.worlds import RIG, Env, Image, Spec


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


def rig_process(env: Env) -> tuple[str, int] | None:
    """The name of a rig and the process that owns its arms, opened now if need be; None of other
    worlds.
    """
    give: Callable[[], tuple[str, int]] | None = getattr(env, "rig_process", None)
    return give() if give is not None else None


def person_stops(env: Env) -> Sequence[Mapping[str, Any]]:
    """Who stopped the arms of a rig since its reset, and after which step."""
    give: Callable[[], Sequence[Mapping[str, Any]]] | None = getattr(env, "person_stops", None)
    return give() if give is not None else ()


def glimpse(env: Env, cameras: Sequence[str], size: tuple[int, int]) -> dict[str, Image]:
    """What one sees who acts at every tick: a rig's newest pictures, without waiting until its arms
    keep still; of other worlds the present.
    """
    look: Callable[[Sequence[str], tuple[int, int]], dict[str, Image]]
    look = getattr(env, "glimpse", env.observe)
    return look(cameras, size)


def brake(env: Env) -> None:
    """Stop the arms of a rig where they are, on the way to a goal ahead of them; other worlds stand
    still between two ticks anyway.
    """
    halt: Callable[[], None] | None = getattr(env, "brake", None)
    if halt is not None:
        halt()


def settle(env: Env) -> None:
    """Wait until the arms of a rig keep still, which ends a stop of its guard's."""
    rest: Callable[[], None] | None = getattr(env, "settle", None)
    if rest is not None:
        rest()


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
