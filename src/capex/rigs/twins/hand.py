"""The hand in the room: arranges objects, looks whether a task is done, and lets things go wrong.

A stand-in for the person beside a rig, over the side channel. Env, guard and models never see it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from capex.errors import CapexError, ErrorCode
from capex.rigs.rigfile import RigFile
from capex.rigs.twins.faults import require_fault
from capex.rigs.twins.wire import ask, reach, unpack


class RoomHand:
    """One hand in one running room."""

    def __init__(self, side_port: int, arranged: Callable[[], None] = lambda: None):
        """`arranged` is called after each arrangement: the arm was set to its home, too."""
        self._line = reach(side_port, "the room's side channel")
        self._arranged = arranged

    @classmethod
    def of(cls, rig: RigFile, arranged: Callable[[], None] = lambda: None) -> RoomHand:
        """The hand of a rig whose room runs (`start.prepare`)."""
        if "side" not in rig.room:
            raise CapexError(
                f"the rig '{rig.name}' has no simulated room that runs", code=ErrorCode.UNSUPPORTED
            )
        return cls(int(rig.room["side"]), arranged)

    def arrange(self, task: str, start: int, seed: int = 0, jitter_m: float = 0.0) -> None:
        """Put the objects where a start has them, each up to `jitter_m` off, which follows from the
        seed. The robot stands at home; an e-stop is unlocked, a camera plugged in.
        """
        header = {"task": task, "start": start, "seed": seed, "jitter_m": jitter_m}
        ask(self._line, {"kind": "arrange", **header})
        self._arranged()

    def lift(self) -> None:
        """Lift arms that float (YAM arms before their first goal) to where their joints are free;
        others stay. CapexError in a room whose robot has brakes.
        """
        ask(self._line, {"kind": "lift"})

    def judge(self) -> tuple[bool, str]:
        """Whether the task is achieved now, from the truth, and why."""
        answer, _ = ask(self._line, {"kind": "judge"})
        return bool(answer["achieved"]), str(answer["reason"])

    def fault(self, kind: str, **at: Any) -> None:
        """Let something go wrong: a kind of `faults.KINDS` with at_s (the room's clock) or at_tick
        (goals given since the scene was arranged), duration_s, camera; at once by default.
        """
        require_fault({"kind": kind, **at})
        ask(self._line, {"kind": "fault", "fault": {"kind": kind, **at}})

    def mend(self) -> None:
        """Unlock the e-stop and plug cameras in."""
        ask(self._line, {"kind": "mend"})

    def now_s(self) -> float:
        """The room's clock."""
        return float(ask(self._line, {"kind": "time"})[0]["now_s"])

    def truth(self) -> npt.NDArray[np.float64]:
        """Every position and velocity of the simulation, for tests."""
        return unpack(ask(self._line, {"kind": "truth"})[1])

    def goals(self) -> npt.NDArray[np.float64]:
        """What the arm was told since the room began, counted on the robot's side: rows of time,
        position (3) and rotation (9) in the frame of the mount.
        """
        return unpack(ask(self._line, {"kind": "goals"})[1]).reshape(-1, 13)

    def close(self) -> None:
        """Leave the room."""
        self._line.close()
