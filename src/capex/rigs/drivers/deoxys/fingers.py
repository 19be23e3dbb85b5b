"""What gripper-interface is told. It moves the hand to the end before it listens again and forgets
what came meanwhile, and a grasp that holds is not repeated before a move: so a command is sent when
it changes, and again only where the fingers rest without having done it.
"""

from __future__ import annotations

from capex.rigs.drivers.deoxys.messages import GripperState, grasp, move_fingers
from capex.rigs.drivers.deoxys.options import Options

EPSILON_M = 0.08  # whatever is between the fingers counts as grasped: they must not give up
THERE_M = 0.003
RESTS_S, RESTS_M = 0.5, 0.0005  # by the hand's clock
TRIES = 5


class Fingers:
    """Remembers what the hand was told, and whether it did it."""

    def __init__(self, options: Options):
        self._options = options
        self._told_m: float | None = None
        self._closes = False
        self._tries = 0  # left
        self._rest_m = self._since_s = 0.0

    def tell(self, opening_m: float, state: GripperState) -> bytes | None:
        """The message for an opening; None where the hand was told it already."""
        opening_m = min(max(opening_m, 0.0), state.max_width_m)  # a wider one ends the program
        if opening_m == self._told_m:
            return None
        before_m = state.width_m if self._told_m is None else self._told_m
        # Open fingers may measure a little more than their largest width: going there is no grasp,
        # for one that holds nothing would keep the hand from the next.
        self._closes = opening_m < min(before_m, state.max_width_m - THERE_M)
        self._told_m, self._tries = opening_m, TRIES
        self._rest_m, self._since_s = state.width_m, state.time_s
        return self._message(opening_m)

    def again(self, state: GripperState) -> bytes | None:
        """The message once more, where it was lost."""
        if self._told_m is None or not self._tries:
            return None
        if state.grasped if self._closes else abs(state.width_m - self._told_m) < THERE_M:
            self._tries = 0
            return None
        if abs(state.width_m - self._rest_m) > RESTS_M:
            self._rest_m, self._since_s = state.width_m, state.time_s
        if state.time_s - self._since_s < RESTS_S:
            return None
        self._since_s, self._tries = state.time_s, self._tries - 1
        return self._message(self._told_m)

    def _message(self, opening_m: float) -> bytes:
        options = self._options
        if self._closes:
            return grasp(opening_m, options.fingers_m_s, options.grasp_n, EPSILON_M)
        return move_fingers(opening_m, options.fingers_m_s)
