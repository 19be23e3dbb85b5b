"""The room's arm as a driver, and the clock of a room in lock-step."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from capex.errors import RigFault
from capex.pose import Pose
from capex.rigs.drivers import ArmFacts, ArmReading, ArmStatus
from capex.rigs.twins.wire import Header, LineLost, Message, RoomLine, ask, pack, reach, unpack

STATUS_OF_ERROR = {
    "": ArmStatus.READY,
    "reflex": ArmStatus.REFLEX,
    "watchdog": ArmStatus.FAULT,
    "user stop": ArmStatus.USER_STOP,
}
_WHEN_WE_DIE = (
    "the room's arm keeps its last goal for 1 s without a command or a heartbeat, then brakes and"
    " holds (error: watchdog)"
)


class RoomArm:
    """One arm over the room's wire. In lock-step each message asks to be acknowledged: the room
    then has it before its clock can go on, and every state sent before has come.
    """

    def __init__(self, options: Mapping[str, Any], name: str):
        self._options, self._name = options, name
        self._line: RoomLine | None = None
        self._reading: ArmReading | None = None
        self._lock_step = self._drives = False
        self._sent = 0

    @classmethod
    def clock(cls, options: Mapping[str, Any]) -> RoomClock:
        """The clock of a room in lock-step, from the arm's own options."""
        return RoomClock(int(options["side"]))

    def connect(self) -> ArmFacts:
        """Reach the room; the first state comes with the facts."""
        self._line = line = reach(int(self._options["port"]), f"the room's arm '{self._name}'")
        facts, _ = line.receive()
        self._lock_step = bool(facts["lock_step"])
        self._take(line.receive())
        lower, upper = facts["joint_limits_rad"]
        return ArmFacts(
            tuple(facts["joint_names"]),
            tuple(zip(lower, upper, strict=True)),
            float(facts["max_opening_m"]),
            senses_force=True,
            on_disconnect=_WHEN_WE_DIE,
        )

    def read(self) -> ArmReading:
        """The latest state that has come."""
        if self._lock_step:
            self._acknowledged({"kind": "sync"})
        else:
            self._drain()
        if self._reading is None:
            raise RigFault(f"the room's arm '{self._name}' has sent no state")
        return self._reading

    def command(self, T_mount_tip: Pose) -> None:
        """The goal of the tip."""
        self._send({"kind": "goal"}, pack(T_mount_tip.position_m, T_mount_tip.rotation))

    def hold(self) -> None:
        """A heartbeat: the room keeps the last goal."""
        self._send({"kind": "hold"})

    def grip(self, opening_m: float) -> None:
        """Move the fingers towards an opening."""
        self._send({"kind": "grip", "opening_m": float(opening_m)})

    def stop(self) -> None:
        """Brake until the next goal."""
        self._send({"kind": "stop"})

    def recover(self, *, confirmed: bool) -> None:
        """Connect again where the connection was lost, and clear an error; a user stop stays."""
        try:
            self._acknowledged({"kind": "recover"})
        except LineLost:
            self.close()
            self.connect()
            self._acknowledged({"kind": "recover"})
        if self._reading is not None and self._reading.status is not ArmStatus.READY:
            raise RigFault(
                f"the room's arm '{self._name}' stays in the error '{self._reading.error}'; a"
                " person must clear it"
            )

    def close(self) -> None:
        """Brake what was driven, and leave."""
        if self._line is None:
            return
        if self._drives:
            with contextlib.suppress(LineLost):  # the watchdog does the same
                self._line.send({"kind": "stop"})
        self._line.close()
        self._line, self._drives = None, False

    def _send(self, header: Header, body: bytes = b"") -> None:
        self._drives = True
        if self._lock_step:
            self._acknowledged(header, body)
        else:
            self._drain()
            self._connected().send(header, body)

    def _acknowledged(self, header: Header, body: bytes = b"") -> None:
        """Send, and take every state that comes before the answer."""
        self._sent += 1
        line = self._connected()
        line.send({**header, "ack": self._sent}, body)
        while (message := line.receive())[0].get("ack") != self._sent:
            self._take(message)

    def _drain(self) -> None:
        for message in self._connected().drain():
            self._take(message)

    def _take(self, message: Message) -> None:
        header, body = message
        if header["kind"] != "state":
            return
        values = unpack(body)
        self._reading = ArmReading(
            Pose(values[:3], values[3:12].reshape(3, 3)),
            tuple(values[12:19].tolist()),
            float(values[19]),
            float(header["time_s"]),
            (float(values[20]), float(values[21]), float(values[22])),
            STATUS_OF_ERROR[header["error"]],
            str(header["error"]),
        )

    def _connected(self) -> RoomLine:
        if self._line is None:
            raise LineLost(f"the room's arm '{self._name}' is not connected")
        return self._line


class RoomClock:
    """The clock of a room in lock-step, over its side channel: it stands still but for
    `sleep_until`. One process of a rig lets it go on, and so knows the time; others ask.
    """

    lock_step = True

    def __init__(self, side_port: int):
        self._line = reach(side_port, "the room's side channel")
        self._known_s: float | None = None

    def now_s(self) -> float:
        """Seconds of the room's clock."""
        if self._known_s is not None:
            return self._known_s
        return float(ask(self._line, {"kind": "time"})[0]["now_s"])

    def sleep_until(self, time_s: float) -> None:
        """Let the room go on to that time, unless it has passed."""
        answer, _ = ask(self._line, {"kind": "advance", "to_s": float(time_s)})
        self._known_s = float(answer["now_s"])
