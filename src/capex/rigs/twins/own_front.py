"""The room's own wire: a state every 10 ms, goals, grips and heartbeats back; in lock-step each
message is acknowledged.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import mujoco

from capex.pose import Pose
from capex.rigs.twins.arm import MAX_OPENING_M, SimulatedArm
from capex.rigs.twins.fronts import accept
from capex.rigs.twins.physics import Room, StateMessage
from capex.rigs.twins.wire import Header, LineLost, RoomLine, pack, unpack
from capex.worlds.kitchen import robot as panda


class OwnFront:
    """An `ArmFront` whose driver is `room.driver.RoomArm`."""

    room: Room
    questions: Mapping[str, Callable[[Header], Header]]

    def __init__(self, lock_step: bool, lock: threading.Lock):
        self._lock_step, self._lock = lock_step, lock
        self._arms: list[RoomLine] = []
        self._arm: SimulatedArm  # set once it is built
        self.questions = {}

    def make_arm(self, model: mujoco.MjModel, data: mujoco.MjData) -> SimulatedArm:
        """The room's Panda."""
        self._arm = SimulatedArm(model, data)
        return self._arm

    def listen(self) -> dict[str, int]:
        """One port."""
        return {"arm": accept("arm", self._serve)}

    def _serve(self, line: RoomLine) -> None:
        with self._lock:
            self.room.begin_faults()
            if self.room.faults.on("dropped-connection"):
                return
            line.send(
                {
                    "kind": "facts",
                    "joint_names": panda.JOINTS,
                    "joint_limits_rad": [panda.LOWER_RAD.tolist(), panda.UPPER_RAD.tolist()],
                    "max_opening_m": MAX_OPENING_M,
                    "lock_step": self._lock_step,
                }
            )
            self._arms.append(line)
            self.room.report()
        try:
            while True:
                header, body = line.receive(None)
                with self._lock:
                    self._obey(header, body)
                    if "ack" in header:
                        line.send({"kind": "ack", "ack": header["ack"]})
        finally:
            with self._lock:
                if line in self._arms:
                    self._arms.remove(line)

    def _obey(self, header: Header, body: bytes) -> None:
        room, kind = self.room, header["kind"]
        if kind == "goal":
            values = unpack(body)
            room.command(Pose(values[:3], values[3:].reshape(3, 3)))
        elif kind == "grip":
            self._arm.grip(float(header["opening_m"]), room.now_s)
        elif kind == "hold":
            self._arm.heartbeat(room.now_s)
        elif kind == "stop":
            self._arm.brake()
            self._arm.heartbeat(room.now_s)
        elif kind == "recover":
            self._arm.recover(room.now_s)
            room.report()

    def send_state(self, state: StateMessage) -> None:
        """To every client."""
        header = {"kind": "state", "time_s": state.time_s, "error": state.error}
        body = pack(*state.values)
        for line in list(self._arms):
            try:
                line.send(header, body)
            except LineLost:
                self._arms.remove(line)  # its own thread ends by itself

    def drop(self) -> None:
        """Close every connection."""
        for line in self._arms:
            line.close()
        self._arms.clear()
