"""The twin's end of Deoxys' wire: two programs behind four ports of the loopback address.

The robot's computer binds its two states and connects to the two commands, which the driver binds.
Nothing here has a thread: sockets are emptied whenever the arm's control runs, with the room's
lock held. In lock-step a driver says by the side channel how much it has sent (`in-step`), so that
its messages are here before the clock goes on, and learns up to which state it has to receive.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import mujoco

from capex.errors import CapexError, ErrorCode
from capex.loopback import HOST
from capex.rigs.twins.deoxys.box import DeoxysBox, PoseOrder
from capex.rigs.twins.deoxys.programs import ArmProgram, GripperProgram
from capex.rigs.twins.physics import Room, StateMessage
from capex.rigs.twins.wire import Header

try:
    import zmq
except ImportError:
    raise CapexError(
        'Deoxys\' wire needs pyzmq, which is not installed: pip install "capex[deoxys]"',
        code=ErrorCode.MISSING_PACKAGE,
    ) from None

COME_S = 5.0  # real seconds within which what was sent over the loopback address has come
RECONNECT_MS = 20  # a driver that starts anew is found soon


class Channel:
    """The two sockets of one program: states out, commands in."""

    def __init__(self, name: str, lock_step: bool):
        self._name, self._lock_step = name, lock_step
        self._context = zmq.Context.instance()
        self.states_port, self.commands_port = _free_port(), _free_port()
        self._came: list[bytes] = []
        self._count = self._joined = 0  # since the last client began
        self._last = b""
        self._states: Any = None  # sockets, while it is open
        self._commands: Any = None
        self.open()

    def open(self) -> None:
        """As a program that starts does."""
        if self._states is not None:
            return
        self._states, self._commands = self._context.socket(zmq.XPUB), self._context.socket(zmq.SUB)
        for made in (self._states, self._commands):
            made.setsockopt(zmq.LINGER, 0)
        self._states.setsockopt(zmq.XPUB_VERBOSER, 1)
        if self._lock_step:  # nothing may be left out, however far the clock goes at once
            self._states.setsockopt(zmq.SNDHWM, 0)
        self._states.bind(f"tcp://{HOST}:{self.states_port}")
        self._commands.setsockopt(zmq.RECONNECT_IVL, RECONNECT_MS)
        self._commands.setsockopt(zmq.SUBSCRIBE, b"")
        self._commands.connect(f"tcp://{HOST}:{self.commands_port}")

    def close(self) -> None:
        """As a program that ends does. In lock-step it only falls silent, for how soon the other
        side notices depends on the machine.
        """
        if self._lock_step or self._states is None:
            return
        self._states.close()
        self._commands.close()
        self._states = self._commands = None

    def publish(self, state: bytes) -> None:
        """To whoever listens."""
        self._last = state
        if self._states is not None:
            self._welcome()
            with contextlib.suppress(zmq.Again):
                self._states.send(state, zmq.NOBLOCK)

    def take(self) -> list[bytes]:
        """Every command that has come since the last call."""
        self._receive(0)
        came, self._came = self._came, []
        return came

    def latest(self) -> bytes:
        """The last of them, b"" for none."""
        return (self.take() or [b""])[-1]

    def begin(self, again: bool) -> None:
        """A new client, which has subscribed: it begins to count, and may get the last state."""
        self.take()
        self._count = 0
        end_s = time.monotonic() + COME_S
        while not self._joined and time.monotonic() < end_s:
            self._welcome(20)
        self._joined = 0
        if again and self._last:
            self.publish(self._last)

    def wait_for(self, count: int) -> None:
        """Until so many commands of this client have come. A socket that is not looked at does not
        tell a driver that bound its port anew that somebody listens.
        """
        self._receive(0)
        end_s = time.monotonic() + COME_S
        while self._count < count:
            if time.monotonic() > end_s:
                raise CapexError(
                    f"the twin's {self._name} has got {self._count} of {count} messages",
                    code=ErrorCode.JOB_FAILED,
                )
            self._receive(20)

    def _receive(self, wait_ms: int) -> None:
        if self._commands is None:
            return
        if wait_ms:
            self._commands.poll(wait_ms)
        with contextlib.suppress(zmq.Again):
            while True:
                self._came.append(self._commands.recv(zmq.NOBLOCK))
                self._count += 1

    def _welcome(self, wait_ms: int = 0) -> None:
        """See who has subscribed."""
        if wait_ms:
            self._states.poll(wait_ms)
        with contextlib.suppress(zmq.Again):
            while True:
                self._joined += self._states.recv(zmq.NOBLOCK).startswith(b"\x01")


class DeoxysFront:
    """An `ArmFront` whose driver is `deoxys.driver.DeoxysArm`."""

    room: Room
    questions: Mapping[str, Callable[[Header], Header]]

    def __init__(self, lock_step: bool, lock: threading.Lock):
        self._lock_step = lock_step
        self._programs = ArmProgram(self._tell), GripperProgram()
        self._channels: tuple[Channel, Channel] | None = None
        self._order: PoseOrder | None = None
        self._gripper_s = 0.0
        self.questions = {"in-step": self._in_step}

    def make_arm(self, model: mujoco.MjModel, data: mujoco.MjData) -> DeoxysBox:
        """The Panda behind both programs."""
        box = DeoxysBox(model, data, self._tick, self._at_home)
        for program in self._programs:
            program.box = box
        return box

    def listen(self) -> dict[str, int]:
        """Four ports: two are bound here, two are free ones for the driver to bind."""
        arm, gripper = Channel("arm", self._lock_step), Channel("gripper", self._lock_step)
        self._channels = arm, gripper
        self.room.report()
        self._publish_gripper()
        return {
            "arm": arm.states_port,
            "arm_commands": arm.commands_port,
            "gripper": gripper.states_port,
            "gripper_commands": gripper.commands_port,
        }

    def send_state(self, state: StateMessage) -> None:
        """Through franka-interface, if it runs."""
        stale = self._channels is not None and self.room.faults.on("stale")
        data = self._programs[0].state(state, stale)
        if data and self._channels is not None:
            self._channels[0].publish(data)

    def drop(self) -> None:
        """Both programs end; their scripts start them again."""
        for program in self._programs:
            program.exit()

    def _at_home(self) -> None:
        """Whoever arranges finds two programs that have just been started."""
        arm, gripper = self._programs
        arm.launch()
        gripper.launch(homing=False)
        self._order = None

    def _tell(self, order: PoseOrder) -> None:
        """Goals that differ from the last one count as told; others are heartbeats."""
        last = self._order
        if last is None or not _same(last, order):
            self.room.command(order.goal)
        self._order = order
        self._programs[0].box.order(order)

    def _tick(self) -> None:
        if self._channels is None:
            return
        (arm, gripper), (arm_line, gripper_line) = self._programs, self._channels
        on = self.room.faults.on
        dropped = on("dropped-connection")
        arm.tick(arm_line.latest, not (dropped or on("relaunch")))
        gripper.tick(gripper_line.take(), not (dropped or on("no-gripper")))
        for program, line in self._pairs():
            (line.open if program.alive else line.close)()
        if gripper.due:
            self._publish_gripper()

    def _pairs(self) -> list[tuple[ArmProgram | GripperProgram, Channel]]:
        return list(zip(self._programs, self._channels or (), strict=True))

    def _publish_gripper(self) -> None:
        assert self._channels is not None
        self._gripper_s = self.room.now_s
        self._channels[1].publish(self._programs[1].state(self._gripper_s))

    def _in_step(self, header: Header) -> Header:
        if not self._lock_step or self._channels is None:
            return {"lock_step": False}
        arm, gripper = self._channels
        if header.get("new"):
            for program, line in self._pairs():
                line.begin(again=program.alive)
        arm.wait_for(int(header.get("arm", 0)))
        gripper.wait_for(int(header.get("gripper", 0)))
        frame = self._programs[0].sent_frame
        runs = all(program.alive for program in self._programs)
        return {"lock_step": True, "frame": frame, "gripper_s": self._gripper_s, "runs": runs}


def _same(one: PoseOrder, other: PoseOrder) -> bool:
    same = one.goal.position_m == other.goal.position_m
    return bool(same.all() and (one.goal.rotation == other.goal.rotation).all())


def _free_port() -> int:
    with socket.create_server((HOST, 0)) as listener:
        return int(listener.getsockname()[1])
