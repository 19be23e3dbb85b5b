"""The hand of a Franka behind franky: its calls block until the fingers have moved, so that each
kind has a thread of its own and no tick waits.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from capex.errors import RigFault
from capex.worlds.rigs.franka_tip import MAX_OPENING_M
from capex.worlds.rigs.franky_options import FrankyOptions

LOOK_EVERY_S = 0.02  # a hand reports some 30 times a second
CLOSES_S = 3.0  # what the last movement may take


class FrankyHand:
    """One hand. The newest opening that was asked for is sent when the fingers are free: a command
    under way cannot be interrupted reliably.
    """

    def __init__(self, gripper: Any, options: FrankyOptions, name: str):
        self._gripper, self._options, self._name = gripper, options, name
        self._opening_m = float(gripper.state.width)
        self._wanted_m: float | None = None
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
            self._wanted_m = min(MAX_OPENING_M, max(0.0, float(opening_m)))
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
            except Exception as error:  # whoever reads is told
                self._fault = str(error)
                return
            time.sleep(LOOK_EVERY_S)

    def _move(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._ended or self._wanted_m is not None)
                if self._ended:
                    return
                wanted_m, self._wanted_m = self._wanted_m, None
            try:
                self._send(float(wanted_m or 0.0))
            except Exception as error:
                self._fault = self._fault or str(error)
                return

    def _send(self, opening_m: float) -> None:
        """Closing is a grasp of any width, which keeps its force; opening is a plain move."""
        options = self._options
        if opening_m >= self._opening_m:
            self._gripper.move(opening_m, options.grip_m_s)
            return
        anything = {"epsilon_inner": MAX_OPENING_M, "epsilon_outer": MAX_OPENING_M}
        self._gripper.grasp(opening_m, options.grip_m_s, options.grip_force_n, **anything)
