"""The hand of a Franka behind franky: its calls block until the fingers have moved, so that each
kind has a thread of its own and no tick waits.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from capex.errors import RigFault
from capex.rigs.drivers.franka_tip import HOMED_M, MAX_OPENING_M
from capex.rigs.drivers.franky_options import FrankyOptions

LOOK_EVERY_S = 0.02  # a hand reports some 30 times a second
CLOSES_S = 3.0  # what the last movement may take
THERE_M = 0.003  # open fingers may measure a little more than their largest width
TRIES, PAUSE_S = 3, 0.2  # of a movement that the hand refuses


class FrankyHand:
    """One hand. The newest opening that was asked for is sent when the fingers are free: a command
    under way cannot be interrupted reliably.
    """

    def __init__(self, gripper: Any, options: FrankyOptions, name: str):
        self._gripper, self._options, self._name = gripper, options, name
        state = gripper.state
        self._opening_m, self.max_opening_m = float(state.width), float(state.max_width)
        if not HOMED_M[0] < self.max_opening_m < HOMED_M[1]:  # also false for NaN
            raise RigFault(
                f"the hand of '{name}' opens to {self.max_opening_m:g} m: it has not been homed;"
                " home it in Desk"
            )
        self._wanted_m: float | None = None
        self.refused = False  # the last opening that was asked for was given up
        self._fault = ""
        self._ended = False
        self._news = threading.Condition()
        self._threads = [
            threading.Thread(target=work, daemon=True) for work in (self._watch, self._move)
        ]
        for thread in self._threads:
            thread.start()

    def opening_m(self) -> float:
        """As it was measured last."""
        if self._fault:
            raise RigFault(f"the hand of '{self._name}' is lost ({self._fault})")
        return self._opening_m

    def grip(self, opening_m: float) -> None:
        """Move towards an opening; returns at once."""
        with self._news:
            self.refused = False
            self._wanted_m = min(self.max_opening_m, max(0.0, float(opening_m)))
            self._news.notify_all()

    def close(self) -> None:
        """End both threads; the fingers stay as they are."""
        with self._news:
            self._ended = True
            self._news.notify_all()
        for thread in self._threads:
            thread.join(CLOSES_S)

    def _watch(self) -> None:
        while not self._ended:
            try:
                self._opening_m = float(self._gripper.state.width)
            except Exception as error:  # `opening_m` raises it
                self._fault = str(error)
                return
            time.sleep(LOOK_EVERY_S)

    def _move(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._ended or self._wanted_m is not None)
                if self._ended:
                    return
                wanted_m, self._wanted_m = float(self._wanted_m or 0.0), None
            self._try(wanted_m)

    def _try(self, opening_m: float) -> None:
        """The hand may refuse a movement, as when its fingers are blocked: try again, unless there
        is a newer one; then it is `refused`. Whether it moved is seen in what is measured.
        """
        for _ in range(TRIES):
            try:
                self._send(opening_m)
                return
            except Exception as error:
                print(f"the hand of '{self._name}' refused to move: {error}", flush=True)
            time.sleep(PAUSE_S)
            if self._ended or self._wanted_m is not None:
                return
        with self._news:
            self.refused = self._wanted_m is None

    def _send(self, opening_m: float) -> None:
        """Closing is a grasp of any width, which keeps its force; opening is a plain move."""
        options = self._options
        if opening_m >= min(self._opening_m, self.max_opening_m - THERE_M):
            self._gripper.move(opening_m, options.grip_m_s)
            return
        anything = {"epsilon_inner": MAX_OPENING_M, "epsilon_outer": MAX_OPENING_M}
        self._gripper.grasp(opening_m, options.grip_m_s, options.grip_force_n, **anything)
