"""How the arm of a simulated room is reached: over the room's own wire, or over that of a real
robot's computer, so that the driver is the one that would meet the robot. Chosen by `[room] wire`.
"""

from __future__ import annotations

import importlib
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import mujoco

from capex.errors import UnknownName
from capex.loopback import HOST
from capex.rigs.twins.physics import ArmBox, Room, StateMessage
from capex.rigs.twins.wire import Header, LineLost, RoomLine

FRONTS = {
    "room": "capex.rigs.twins.own_front:OwnFront",
    "deoxys": "capex.rigs.twins.deoxys.peer:DeoxysFront",
    "portal": "capex.rigs.twins.yam.peer:YamFront",
}


class ArmFront(Protocol):
    """Made from (lock_step, lock): whether the clock stands still but for the side channel, and the
    lock that is held around everything that touches physics. `send_state` and `drop` are called
    with it held.
    """

    room: Room  # set once it is built
    questions: Mapping[str, Callable[[Header], Header]]  # of its own, for the side channel

    def make_arm(self, model: mujoco.MjModel, data: mujoco.MjData) -> ArmBox:
        """The arm, or arms, as this robot's control box would run it."""

    def listen(self) -> dict[str, int]:
        """Open ports, all free ones, and begin to answer; "arm" is one of them."""

    def send_state(self, state: StateMessage) -> None:
        """A state for whoever listens, every 10 ms of the room's clock."""

    def drop(self) -> None:
        """Lose the connection."""


def load_front(wire: str) -> Callable[[bool, threading.Lock], ArmFront]:
    """A front by the name of its wire."""
    if wire not in FRONTS:
        raise UnknownName("wire", wire, FRONTS, where=" for a simulated room")
    module, _, attribute = FRONTS[wire].partition(":")
    make: Callable[[bool, threading.Lock], ArmFront]
    make = getattr(importlib.import_module(module), attribute)
    return make


def accept(name: str, serve: Callable[[RoomLine], None], port: int = 0) -> int:
    """Serve every client of a port, by default a free one, in a thread of its own; returns it."""
    listener = socket.create_server((HOST, port))
    in_background(_accept, listener, name, serve)
    return int(listener.getsockname()[1])


def in_background(work: Callable[..., None], *given: Any) -> None:
    """Run in a thread that ends with the process."""
    threading.Thread(target=work, args=given, daemon=True).start()


def _accept(listener: socket.socket, name: str, serve: Callable[[RoomLine], None]) -> None:
    while True:
        connection, _ = listener.accept()
        in_background(_serve_one, RoomLine(connection, f"a client of the room's {name}"), serve)


def _serve_one(line: RoomLine, serve: Callable[[RoomLine], None]) -> None:
    try:
        serve(line)
    except LineLost:
        pass  # clients come and go
    finally:
        line.close()
