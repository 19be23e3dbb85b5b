"""What each hand was told last: the executor's own state between plans."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from capex.method.motion import REACHED_RAD
from capex.plan import Gripper
from capex.pose import Array, angle_between
from capex.worlds import ArmSpec, RobotState

OPEN_TOLERANCE_M = 0.005
CLOSED_BELOW_M = 0.01


@dataclass
class Told:
    """By arm, what it was told last."""

    # The sign of the last gripper command, repeated with every step. Before the first one, a
    # gripper that stands open or shut counts as told so, and one in between is left alone.
    grip: dict[str, float]
    rotation: dict[str, Array]  # the orientation last asked for
    last: dict[str, Gripper]  # the last gripper command, skipped ones included

    @classmethod
    def at(cls, arms: Iterable[ArmSpec], state: RobotState) -> Told:
        """Nothing was told yet: what the present state says."""
        return cls(
            {a.name: _sign(a, state.arms[a.name].opening_m) for a in arms},
            {n: s.T_base_tip.rotation for n, s in state.arms.items()},
            {},
        )

    def turn(self, rotations: Mapping[str, Array]) -> None:
        """Arms are sent to these orientations."""
        self.rotation |= rotations

    def act(self, arm: str, word: Gripper, *, skipped: bool) -> None:
        """A gripper command is carried out, or skipped."""
        self.last[arm] = word
        if not skipped:
            self.grip[arm] = 1.0 if word in ("close", "reclose") else -1.0

    def kept(self, state: RobotState) -> dict[str, Array]:
        """What "keep" keeps: the orientation last asked for, so that small errors do not add up."""
        now = {n: s.T_base_tip.rotation for n, s in state.arms.items()}
        return {
            n: told if angle_between(told, now[n]) <= REACHED_RAD else now[n]
            for n, told in self.rotation.items()
        }


def _sign(arm: ArmSpec, opening_m: float) -> float:
    if opening_m >= arm.max_opening_m - OPEN_TOLERANCE_M:
        return -1.0
    return 1.0 if opening_m < CLOSED_BELOW_M else 0.0
