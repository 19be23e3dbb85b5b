"""What the hands were told last. It outlives a plan and is in no saved state of a world, so whoever
goes on from a saved state needs both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from capex.plan import Gripper
from capex.pose import Array
from capex.worlds import ArmSpec, RobotState

OPEN_TOLERANCE_M = 0.005
CLOSED_BELOW_M = 0.01
CLOSING: tuple[Gripper, ...] = ("close", "reclose")


@dataclass
class Told:
    """By arm: the gripper sign that goes with every step, the last gripper command, and the
    orientation last asked for, which "keep" keeps.
    """

    sign: dict[str, float]
    word: dict[str, Gripper]
    rotation: dict[str, Array]

    @classmethod
    def at_rest(cls, arms: Mapping[str, ArmSpec], state: RobotState) -> Told:
        """Before the first command: a gripper that stands open or shut counts as told so, one in
        between is left alone.
        """
        signs = {n: _sign(arms[n], s.opening_m) for n, s in state.arms.items()}
        return cls(signs, {}, {n: s.T_base_tip.rotation for n, s in state.arms.items()})

    def copy(self) -> Told:
        """Another one that starts the same."""
        return Told(dict(self.sign), dict(self.word), dict(self.rotation))

    def grip(self, arm: str, word: Gripper, *, skipped: bool) -> None:
        """Take in a gripper command; one that is skipped is remembered and moves nothing."""
        self.word[arm] = word
        if not skipped:
            self.sign[arm] = 1.0 if word in CLOSING else -1.0


def _sign(arm: ArmSpec, opening_m: float) -> float:
    if opening_m >= arm.max_opening_m - OPEN_TOLERANCE_M:
        return -1.0
    return 1.0 if opening_m < CLOSED_BELOW_M else 0.0
