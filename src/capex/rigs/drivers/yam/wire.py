"""The wire of the package portal, which i2rt's servers and clients speak.

Values are packed by portal itself. Its `Client` and `Server` are not used: both ask their queues
and sockets a thousand times a second and more while nothing happens (a seventh of a core each on a
busy machine), the client sends goals again that were lost with a connection, and the server has no
way to lose one. On the wire a client says HANDSHAKE, then there are messages of a length (8 bytes,
little endian) and

    request  number 8, length of the method's name 8, the name, packed arguments
    answer   number 8, status 8 (0: packed result, else words)
"""

from __future__ import annotations

import multiprocessing
import socket
from typing import Any

from capex.errors import CapexError, ErrorCode, RigFault

HANDSHAKE = b"portal_handshake"
MESSAGE_MAX = 2**20  # bytes; ours have a few hundred


def load_portal() -> Any:
    """Import it. That changes how this process would start others; it is set back."""
    method = multiprocessing.get_start_method(allow_none=True)
    try:
        import portal
    except ImportError:
        raise CapexError(
            'YAM arms need portal, which is not installed: pip install "capex[yam]"',
            code=ErrorCode.MISSING_PACKAGE,
        ) from None
    multiprocessing.set_start_method(method, force=True)
    return portal


class PortalClient:
    """Calls the methods of one server, one after the other. After any RigFault of `call` but a
    refusal the connection is of no use.
    """

    def __init__(self, host: str, port: int, who: str, answer_s: float):
        self._portal, self._at, self._who = load_portal(), f"{host}:{port}", who
        try:
            self._socket = socket.create_connection((host, port), answer_s)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.sendall(HANDSHAKE)
        except OSError as error:
            raise RigFault(
                f"{who}: nobody answers at {self._at} ({error}); is i2rt's follower server"
                " (minimum_gello --mode follower) running there for this arm?"
            ) from None
        self._answer_s, self._calls = answer_s, 0

    def call(self, method: str, *given: Any) -> Any:
        """The result, or RigFault."""
        self._calls += 1
        number, name = self._calls.to_bytes(8, "little"), method.encode()
        packed = b"".join(bytes(part) for part in self._portal.pack(given))
        try:
            request = number + len(name).to_bytes(8, "little") + name + packed
            self._socket.sendall(framed(request))
            answer = message(self._socket)
        except TimeoutError:
            raise RigFault(
                f"{self._who}: the server at {self._at} has not answered for {self._answer_s:g} s"
            ) from None
        except (OSError, EOFError, ValueError) as error:
            raise RigFault(f"{self._who}: the server at {self._at} is gone ({error})") from None
        if answer[:8] != number:
            raise RigFault(f"{self._who}: the server at {self._at} answers another question")
        if any(answer[8:16]):
            words = answer[16:].decode(errors="replace")
            raise RigFault(f"{self._who}: {method} was refused by {self._at}: {words}")
        return self._portal.unpack(memoryview(answer[16:]))

    def close(self) -> None:
        """Leave."""
        self._socket.close()


def framed(body: bytes) -> bytes:
    """A message as it goes over the wire."""
    return len(body).to_bytes(8, "little") + body


def message(connection: socket.socket) -> bytes:
    """The next message. EOFError where the other end is gone, ValueError where it is none."""
    length = int.from_bytes(exactly(connection, 8), "little")
    if not 16 <= length <= MESSAGE_MAX:
        raise ValueError(f"a message of {length} bytes")
    return exactly(connection, length)


def exactly(connection: socket.socket, count: int) -> bytes:
    """So many bytes."""
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            raise EOFError("it closed the connection")
        data += part
    return data
