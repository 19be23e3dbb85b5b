"""Our end of Deoxys' wire: two sockets to each of the two programs of the robot's computer.

This computer binds what it commands on, the robot's computer what it reports on; nothing is
acknowledged. States are conflated: the newest is what counts. In lock-step with a simulated room
(`InStep`) its side channel says what has come and what is there to be read; that is no part of what
meets a robot.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any

from capex.errors import CapexError, ErrorCode, RigFault
from capex.rigs.drivers.deoxys.messages import (
    GripperState,
    PandaState,
    read_gripper_state,
    read_robot_state,
)
from capex.rigs.drivers.deoxys.options import Options
from capex.rigs.twins.wire import Header, RoomLine, ask, reach

try:
    import zmq
except ImportError:
    raise CapexError(
        'Deoxys\' wire needs pyzmq, which is not installed: pip install "capex[deoxys]"',
        code=ErrorCode.MISSING_PACKAGE,
    ) from None

COME_S = 10.0  # real seconds within which what is on the loopback address has come
FREE_S = 0.5
PAUSE_S = 0.02
LINGER_MS = 200


class ProgramLine:
    """The two sockets of one program."""

    def __init__(self, context: Any, what: str, states_at: str, commands_at: str):
        self.what, self.states_at, self.commands_at = what, states_at, commands_at
        self.sent = self.listeners = 0
        # An XPUB is a PUB to whoever subscribes, and sees that somebody does.
        self._commands, self._states = context.socket(zmq.XPUB), context.socket(zmq.SUB)
        self._commands.setsockopt(zmq.XPUB_VERBOSER, 1)
        self._states.setsockopt(zmq.CONFLATE, 1)
        self._states.setsockopt(zmq.SUBSCRIBE, b"")
        self._states.setsockopt(zmq.RECONNECT_IVL, 20)  # ms: a program that starts anew
        self._bind()
        self._states.connect(states_at)

    def _bind(self) -> None:
        """A port that is in use is tried for a moment: a client that has just left, or one of many
        attempts to reach us that came from that very port, lets go of it.
        """
        end_s = time.monotonic() + FREE_S
        while True:
            try:
                self._commands.bind(self.commands_at)
                return
            except zmq.ZMQError as error:
                if error.errno != zmq.EADDRINUSE:
                    raise RigFault(
                        f"{self.commands_at} cannot be bound ({error}); the option bind must be"
                        " this computer's address on the robot's network"
                    ) from None
                if time.monotonic() > end_s:
                    raise RigFault(
                        f"{self.commands_at} is in use: another program on this computer commands"
                        f" the robot's {self.what}; only one may, so end the other"
                    ) from None
            time.sleep(PAUSE_S)

    def send(self, data: bytes) -> None:
        """To whoever listens."""
        self._commands.send(data, zmq.NOBLOCK)
        self.sent += 1

    def newest(self, wait_ms: int = 0) -> bytes | None:
        """The newest state that has come since the last call."""
        with contextlib.suppress(zmq.Again):
            while True:
                self.listeners += 1 if self._commands.recv(zmq.NOBLOCK).startswith(b"\1") else -1
        if not self._states.poll(wait_ms):
            return None
        return bytes(self._states.recv())


class InStep:
    """The side channel of a simulated room in lock-step."""

    def __init__(self, side_port: int):
        self._line: RoomLine = reach(side_port, "the room's side channel")

    def ask(self, **header: Any) -> Header:
        """What the room has got, and what it has published."""
        return ask(self._line, {"kind": "in-step", **header})[0]

    def advance(self, to_s: float) -> None:
        """Let the room's clock go on."""
        ask(self._line, {"kind": "advance", "to_s": to_s})

    def close(self) -> None:
        """Leave."""
        self._line.close()


class Exchange:
    """Sends commands, keeps the newest states and when they came. `now_s` is this computer's clock,
    or the room's in lock-step.
    """

    def __init__(self, options: Options):
        self.options = options
        self._context = zmq.Context()
        self._in_step: InStep | None = None
        self.robot: PandaState | None = None
        self.hand: GripperState | None = None
        self.now_s = self.robot_heard_s = self.hand_heard_s = time.monotonic()
        self.robot_silent_s = 0.0  # the longest that no state came, since somebody set it to 0
        host, bind = f"tcp://{options.host}", f"tcp://{options.bind}"
        try:
            self.arm = self._line("arm", f"{host}:{options.arm}", f"{bind}:{options.arm_commands}")
            self.gripper = self._line(
                "gripper", f"{host}:{options.gripper}", f"{bind}:{options.gripper_commands}"
            )
        except BaseException:
            self.close()
            raise

    def _line(self, what: str, states_at: str, commands_at: str) -> ProgramLine:
        try:
            return ProgramLine(self._context, what, states_at, commands_at)
        except zmq.ZMQError as error:
            raise RigFault(f"{states_at} is no address of a robot's computer ({error})") from None

    def meet(self) -> None:
        """Wait until both programs listen and report, for a while; whoever calls looks at what is
        still missing.
        """
        if self.options.side is not None:
            self._join(InStep(self.options.side))
        end_s = time.monotonic() + self.options.answer_s
        while time.monotonic() < end_s and not (self.arm.listeners and self.gripper.listeners):
            self.receive()
            time.sleep(PAUSE_S)
        end_s = self.now_s + self.options.answer_s
        while self.now_s < end_s and (self.robot is None or self.hand is None):
            self.pause(PAUSE_S)

    def _join(self, room: InStep) -> None:
        """Count anew, and get the last states; a room on the real clock is met like a robot."""
        answer = room.ask(new=True, arm=0, gripper=0)
        if not answer["lock_step"]:
            room.close()
            return
        self._in_step, self.now_s = room, float(answer["now_s"])
        self.robot_heard_s = self.hand_heard_s = self.now_s
        self.robot = self.hand = None
        end_s = time.monotonic() + (COME_S if answer["runs"] else 0.0)
        while time.monotonic() < end_s and (self.robot is None or self.hand is None):
            self._take_robot(self.arm.newest(5))
            self._take_hand(self.gripper.newest(5))

    def send(self, line: ProgramLine, data: bytes) -> None:
        """One message."""
        line.send(data)
        if self._in_step is not None:
            self.receive()

    def receive(self) -> None:
        """Take the newest states."""
        if self._in_step is not None:
            self._receive_in_step(self._in_step)
            return
        self.now_s = time.monotonic()
        self._take_robot(self.arm.newest())
        self._take_hand(self.gripper.newest())

    def pause(self, seconds: float) -> None:
        """Let time pass, and take the newest states."""
        if self._in_step is not None:
            self._in_step.advance(self.now_s + seconds)
        else:
            time.sleep(seconds)
        self.receive()

    def part(self, data: bytes, seconds: float) -> None:
        """A last message to the arm, and the time until it is looked for: the other side keeps one
        message only, and forgets it when we are gone.
        """
        with contextlib.suppress(RigFault):  # the watchdog does the same
            self.send(self.arm, data)
            if self._in_step is None:
                time.sleep(seconds)

    def close(self) -> None:
        """Close every socket; what was sent has a moment to go out."""
        if self._in_step is not None:
            self._in_step.close()
        self._context.destroy(linger=LINGER_MS)

    def _take_robot(self, data: bytes | None) -> None:
        if data is not None:
            self.robot = read_robot_state(data) or PandaState()
            silent_s = self.now_s - self.robot_heard_s
            self.robot_silent_s = max(self.robot_silent_s, silent_s)
            self.robot_heard_s = self.now_s

    def _take_hand(self, data: bytes | None) -> None:
        if data is not None:
            self.hand = read_gripper_state(data) or GripperState()
            self.hand_heard_s = self.now_s

    def _receive_in_step(self, room: InStep) -> None:
        """Until everything that the room has published is here."""
        answer = room.ask(arm=self.arm.sent, gripper=self.gripper.sent)
        self.now_s = float(answer["now_s"])
        frame, hand_s = int(answer["frame"]), float(answer["gripper_s"])
        end_s = time.monotonic() + COME_S
        wait_ms = 0
        while time.monotonic() < end_s:
            self._take_robot(self.arm.newest(wait_ms))
            self._take_hand(self.gripper.newest(wait_ms))
            robot_came = self.robot is None or self.robot.frame == frame
            if robot_came and (self.hand is None or self.hand.time_s >= hand_s):
                return
            wait_ms = 5
        raise RigFault("the twin's states did not come")
