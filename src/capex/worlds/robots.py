"""Worlds that are a robot in a room: there is one of it, and nothing recorded drives it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from capex.errors import CapexError, ErrorCode
from capex.worlds import Env, Image, robot_prefix


@runtime_checkable
class RigEnv(Env, Protocol):
    """A real-time world: what a robot in a room adds to `Env`."""

    def rig_process(self) -> tuple[str, int]:
        """The rig's name and the process that owns its arms, opened now if need be."""

    def person_stops(self) -> Sequence[Mapping[str, Any]]:
        """By whom the arms were stopped since the last reset, and after which step."""

    def stop(self) -> None:
        """Stop the arms now, from any thread; `recover` lets them move again."""

    def recover(self) -> None:
        """A person confirms that the rig is fine again: the cause of its stop is cleared, or
        RigFault.
        """

    def brake(self) -> None:
        """Stop the arms where they are, on the way to a goal ahead of them."""

    def settle(self) -> None:
        """Wait until the arms keep still, which ends a stop of the guard's."""

    def latest_images(
        self, cameras: Sequence[str] | None = None, size: tuple[int, int] | None = None
    ) -> dict[str, Image]:
        """The newest pictures, without waiting until the arms keep still."""

    def disconnect_behaviour(self) -> Mapping[str, str]:
        """By arm, its behaviour when our processes end unexpectedly."""

    def rig_notes(self) -> Mapping[str, Any]:
        """For the record: clock, lateness, actions of the guard."""


def refuse_repeating(world: str, what: str) -> None:
    """Refuse `what`, which would drive a rig with recorded motions."""
    if robot_prefix(world):
        raise CapexError(
            f"{world} is a rig: {what} would repeat recorded motions on a robot whose room has"
            " changed since; people judge its attempts instead (capex judge)",
            code=ErrorCode.UNSUPPORTED,
        )


def latest_images(env: Env, cameras: Sequence[str], size: tuple[int, int]) -> dict[str, Image]:
    """The view of one who acts at every tick: a rig's newest pictures; of other worlds the
    present ones.
    """
    look = env.latest_images if isinstance(env, RigEnv) else env.observe
    return look(cameras, size)
