"""A server of portal's wire for the twin, on a free port of the loopback address.

Of portal itself it uses the packing of values. Its own `Server` asks its queues ten thousand times
a second, an eighth of a core for each arm while nothing happens, and has no way to lose a
connection, which is what a twin is for. On the wire: a client says b"portal_handshake", then
messages of a length (8 bytes, little endian) and

    request  number 8, length of the method's name 8, the name, packed arguments
    answer   number 8, status 8 (0: packed result, else words)
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Any

from capex.loopback import HOST
from capex.worlds.rigs.room.fronts import in_background
from capex.worlds.rigs.yam.wire import load_portal

HANDSHAKE = b"portal_handshake"
MESSAGE_MAX = 2**20  # bytes; a request has a few hundred
UNKNOWN, FAILED = 3, 4  # portal's numbers for what went wrong


class Gone(Exception):
    """Raised by a method: the program has ended, and its connections with it."""


class FollowerServer:
    """Answers any number of clients, each in a thread."""

    def __init__(self, methods: dict[str, Callable[..., Any]]):
        self._methods, self._portal = methods, load_portal()
        self._listener = socket.create_server((HOST, 0))
        self._clients: list[socket.socket] = []
        self._guarding = threading.Lock()
        self.port = int(self._listener.getsockname()[1])

    def start(self) -> None:
        """Begin to answer."""
        in_background(self._accept)

    def drop(self) -> None:
        """Lose every client."""
        with self._guarding:
            for client in self._clients:
                with contextlib.suppress(OSError):
                    client.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            in_background(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        with self._guarding:
            self._clients.append(client)
        try:
            if _exactly(client, len(HANDSHAKE)) == HANDSHAKE:
                while True:
                    client.sendall(self._answer(_message(client)))
        except (OSError, EOFError, ValueError, Gone):
            pass  # clients come and go, and so do programs
        finally:
            with self._guarding:
                self._clients.remove(client)
            client.close()

    def _answer(self, request: bytes) -> bytes:
        number, length = request[:8], int.from_bytes(request[8:16], "little")
        name, packed = request[16 : 16 + length].decode(), request[16 + length :]
        status, body = 0, b""
        if name not in self._methods:
            status, body = UNKNOWN, f"Unknown method {name}".encode()
        else:
            try:
                result = self._methods[name](*self._portal.unpack(memoryview(packed)))
                body = b"".join(bytes(part) for part in self._portal.pack(result))
            except (TypeError, ValueError) as error:
                status, body = FAILED, f"Error in server method: {error}".encode()
        message = number + status.to_bytes(8, "little") + body
        return len(message).to_bytes(8, "little") + message


def _message(client: socket.socket) -> bytes:
    length = int.from_bytes(_exactly(client, 8), "little")
    if not 16 <= length <= MESSAGE_MAX:
        raise ValueError(f"a message of {length} bytes")
    return _exactly(client, length)


def _exactly(client: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = client.recv(count - len(data))
        if not part:
            raise EOFError
        data += part
    return data
