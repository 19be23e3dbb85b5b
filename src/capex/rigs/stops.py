"""A person's stop of a running rig, from any process of this user on this machine: the rig's own
process answers at a local socket between two ticks, whatever the collector does meanwhile.

One line of JSON each way, then either side may hang up. {"stop": KEY, "by": NAME} stops the arms;
{} only asks. The answer says what holds the arms. A key is carried out once, so that whoever got no
answer may send it again.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from capex.errors import RigFault
from capex.rigs import locks
from capex.rigs.link import PersonStop

LINE_MAX = 2000  # bytes
NAME_MAX = 80  # characters
CLIENTS_MAX = 16  # who says nothing gives way to later ones
KEYS_MAX = 1000


def stop_address(process: int) -> Path:
    """The socket at which the rig's process of that number is stopped."""
    return locks.FOLDER / f"{int(process)}.stop"


class StopSocket:
    """The rig's side. `press` latches the guard for a stop; `held` says what holds the arms until a
    person clears it, or nothing.
    """

    def __init__(self, rig: str, press: Callable[[PersonStop], None], held: Callable[[], str]):
        self._rig, self._press, self._held = rig, press, held
        self.stops: list[PersonStop] = []  # since the process began
        self.standing: PersonStop | None = None  # the one that was not cleared yet
        self._known = True  # whether the collector was told of it, by a fault that carries it
        self._keys: dict[str, PersonStop] = {}
        self._clients: dict[socket.socket, bytes] = {}
        self._path = stop_address(os.getpid())
        self._path.unlink(missing_ok=True)
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listening.bind(str(self._path))
        self._listening.listen()
        self._listening.setblocking(False)

    @property
    def sockets(self) -> list[socket.socket]:
        """What becomes readable when somebody asks."""
        return [self._listening, *self._clients]

    def serve(self) -> bool:
        """Answer whoever has asked; never waits. True where the arms were stopped by it."""
        known = len(self.stops)
        self._accept()
        for client in list(self._clients):
            try:
                received = client.recv(LINE_MAX)
            except BlockingIOError:
                continue
            except OSError:
                received = b""
            self._clients[client] += received
            line, whole, _ = self._clients[client].partition(b"\n")
            if whole:
                self._answer(client, line)
            if whole or not received or len(line) >= LINE_MAX:
                self._drop(client)
        return len(self.stops) > known

    def stop(self, by: str, key: str = "") -> None:
        """Latch the guard; a stop that stands already stays as it is. Without a key it came by the
        collector, which then knows of it.
        """
        if self.standing is None:
            self.standing = PersonStop(by, time.time())
            self.stops.append(self.standing)
            self._known = not key
            self._press(self.standing)
        if key:
            self._keys[key] = self.standing
            while len(self._keys) > KEYS_MAX:
                del self._keys[next(iter(self._keys))]

    def faulted(self, fault: RigFault) -> None:
        """The collector gets this fault."""
        self._known = self._known or fault.stop is self.standing

    def require_none(self) -> None:
        """RigFault where a stop stands."""
        if self.standing is not None:
            raise RigFault(self.standing.sentence, stop=self.standing)

    @contextlib.contextmanager
    def clearing(self) -> Iterator[None]:
        """While the arms are let go on: RigFault where whoever says so cannot know of the stop that
        stands. A press from now on is a stop of its own; without one, an error leaves the old one.
        """
        if not self._known:
            self.require_none()
        cleared, self.standing = self.standing, None
        try:
            yield
        except BaseException:
            if self.standing is None:
                self.standing = cleared
            raise

    def close(self) -> None:
        """Nobody can ask any more."""
        for client in list(self._clients):
            self._drop(client)
        self._listening.close()
        self._path.unlink(missing_ok=True)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:  # nobody more
                break
            client.setblocking(False)
            self._clients[client] = b""
            while len(self._clients) > CLIENTS_MAX:
                self._drop(next(iter(self._clients)))

    def _drop(self, client: socket.socket) -> None:
        del self._clients[client]
        client.close()

    def _answer(self, client: socket.socket, line: bytes) -> None:
        try:
            asked = json.loads(line)
            key, by = (str(asked.get(name, ""))[:NAME_MAX] for name in ("stop", "by"))
        except (ValueError, AttributeError, RecursionError):
            return
        if key and key not in self._keys:
            self.stop(" ".join(by.split()) or "somebody", key)
        told = {"rig": self._rig, "held": self._held(), "stop": _row(self.standing)}
        if key:
            told["carried"] = _row(self._keys[key])
        with contextlib.suppress(OSError):  # gone; whoever asked asks again
            client.sendall(json.dumps(told).encode() + b"\n")


def _row(stop: PersonStop | None) -> Mapping[str, Any] | None:
    return None if stop is None else {"by": stop.by, "at": stop.unix_time}
