"""A PC at the wire of the Franka twin: what it sends is what Deoxys' messages can say, right or
wrong, and what it gets is kept byte for byte.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import zmq

from capex.loopback import HOST
from capex.pose import Pose
from capex.rigs.drivers.deoxys import messages as wire
from capex.rigs.parse import find_rig, read_rig
from capex.rigs.twins import start
from capex.rigs.twins.driver import RoomClock
from capex.rigs.twins.hand import RoomHand
from capex.rigs.twins.wire import ask, reach

TICK_S = 0.05
GAINS = wire.Gains()


class Pc:
    """Both ends of a lock-step twin: the robot's wire and the side channel."""

    def __init__(self, ports: dict[str, int]):
        self.clock, self.hand = RoomClock(ports["side"]), RoomHand(ports["side"])
        self._side = reach(ports["side"], "the room's side channel")
        self._context = zmq.Context()
        self._sockets: dict[str, Any] = {}
        for name in ("arm", "gripper"):
            self._sockets[name] = self._context.socket(zmq.SUB)
            self._sockets[name].setsockopt(zmq.SUBSCRIBE, b"")
            self._sockets[name].connect(f"tcp://{HOST}:{ports[name]}")
            commands = self._context.socket(zmq.XPUB)
            commands.bind(f"tcp://{HOST}:{ports[f'{name}_commands']}")
            assert commands.poll(5000), "the twin does not listen"
            self._sockets[f"{name}_commands"] = commands
        self._sent = {"arm": 0, "gripper": 0}
        self.arm: list[bytes] = []  # every state that came
        self.gripper: list[bytes] = []
        self._in_step(new=True)

    def tick(self, message: bytes = b"", gripper: bytes = b"", ticks: int = 1) -> wire.PandaState:
        """Send, for so many ticks, and let the clock go on."""
        for _ in range(ticks):
            for name, data in (("arm", message), ("gripper", gripper)):
                if data:
                    self._sockets[f"{name}_commands"].send(data)
                    self._sent[name] += 1
            gripper = b""
            self._in_step()
            self.clock.sleep_until(self.clock.now_s() + TICK_S)
            self._in_step()
        return self.state

    def hold(self, goal: Pose, ticks: int) -> wire.PandaState:
        """The same goal again and again."""
        return self.tick(wire.pose_goal(goal, GAINS), ticks=ticks)

    @property
    def state(self) -> wire.PandaState:
        """The last that came."""
        state = wire.read_robot_state(self.arm[-1])
        assert state is not None
        return state

    @property
    def fingers(self) -> wire.GripperState:
        """The last that came of the hand."""
        state = wire.read_gripper_state(self.gripper[-1])
        assert state is not None
        return state

    def _in_step(self, **more: Any) -> None:
        answer, _ = ask(self._side, {"kind": "in-step", **self._sent, **more})
        while not self.arm or self.state.frame != answer["frame"]:
            self._receive("arm", self.arm)
        while not self.gripper or self.fingers.time_s != answer["gripper_s"]:
            self._receive("gripper", self.gripper)

    def _receive(self, name: str, states: list[bytes]) -> None:
        assert self._sockets[name].poll(5000), f"no state of the {name}"
        states.append(self._sockets[name].recv())

    def close(self) -> None:
        """Leave."""
        self.hand.close()
        self._context.destroy(0)


@contextlib.contextmanager
def twin(scene: str = "blocks", task: str = "LiftBlock") -> Iterator[Pc]:
    """A running twin with a PC; the room's own objects by default."""
    rig = read_rig(find_rig("room"))
    rig = dataclasses.replace(rig, room={"scene": scene, "wire": "deoxys", "fps": 20})
    rig, end = start.prepare(rig)
    try:
        pc = Pc(dict(rig.room))
        pc.hand.arrange(task, 0)
        pc._in_step()
        yield pc
        pc.close()
    finally:
        end()
