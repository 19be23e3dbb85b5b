"""A server of portal's wire for the twin, on a free port of the loopback address."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Any

from capex.loopback import HOST
from capex.rigs.drivers.yam.wire import HANDSHAKE, exactly, framed, load_portal, message
from capex.rigs.twins.fronts import in_background

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
            if exactly(client, len(HANDSHAKE)) == HANDSHAKE:
                while True:
                    client.sendall(self._answer(message(client)))
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
        return framed(number + status.to_bytes(8, "little") + body)
