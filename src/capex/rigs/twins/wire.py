"""The room's wire: messages of a JSON header and raw bytes over TCP on the loopback address.

Each message is two lengths (header, body; 4 bytes each, network order), the header and the body.
Numbers that must keep their bits travel in the body as little-endian float64.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import struct
import threading
import time
from typing import Any

import numpy as np

from capex.errors import RigFault
from capex.loopback import HOST
from capex.pose import Array

Header = dict[str, Any]
Message = tuple[Header, bytes]

_LENGTHS = struct.Struct("!II")
LENGTH_MAX = 64 * 2**20  # bytes: a picture with its depth has a few million
ANSWER_S = 30.0  # real seconds after which a room that does not answer is lost


class LineLost(RigFault):
    """The other end of a connection to the room is gone."""


class RoomLine:
    """One end of a connection. Sending is safe from any thread, receiving from one at a time."""

    def __init__(self, connection: socket.socket, what: str):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Never blocking: one thread may wait to receive while another sends.
        connection.setblocking(False)
        self._socket, self._what = connection, what
        self._sending = threading.Lock()
        self._buffer = bytearray()

    def send(self, header: Header, body: bytes = b"") -> None:
        """Send one message whole."""
        text = json.dumps(header).encode()
        message = b"".join((_LENGTHS.pack(len(text), len(body)), text, body))
        with self._sending:
            view = memoryview(message)
            while view:
                try:
                    view = view[self._socket.send(view) :]
                except BlockingIOError:
                    if not self._wait(select.POLLOUT, ANSWER_S):
                        raise self._lost("nobody reads it") from None
                except OSError as error:
                    raise self._lost(error) from None

    def receive(self, timeout_s: float | None = ANSWER_S) -> Message:
        """The next message, waited for; None waits without limit."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while (message := self._next()) is None:
            left = None if deadline is None else max(deadline - time.monotonic(), 1e-3)
            if not self._fill(left) and left is not None:
                raise LineLost(f"{self._what} did not answer within {timeout_s:.0f} s")
        return message

    def drain(self) -> list[Message]:
        """Every message that has arrived, without waiting. What arrived before the other end closed
        is given first; LineLost comes with the next call.
        """
        messages: list[Message] = []
        try:
            while self._fill(0.0):
                pass
        except LineLost:
            if not (messages := self._complete()):
                raise
            return messages
        return messages + self._complete()

    def close(self) -> None:
        """Close this end; a thread that receives on it is woken."""
        with contextlib.suppress(OSError):  # the other end was faster
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _complete(self) -> list[Message]:
        messages = []
        while (message := self._next()) is not None:
            messages.append(message)
        return messages

    def _fill(self, timeout_s: float | None) -> bool:
        """Whether more bytes came in time."""
        try:
            received = self._socket.recv(2**20)
        except BlockingIOError:
            if timeout_s != 0.0 and self._wait(select.POLLIN, timeout_s):
                return self._fill(0.0)
            return False
        except OSError as error:
            raise self._lost(error) from None
        if not received:
            raise self._lost("closed")
        self._buffer += received
        return True

    def _wait(self, event: int, timeout_s: float | None) -> bool:
        poll = select.poll()
        try:
            poll.register(self._socket, event)
        except ValueError:
            raise self._lost("closed") from None
        return bool(poll.poll(None if timeout_s is None else 1000.0 * timeout_s))

    def _next(self) -> Message | None:
        if len(self._buffer) < _LENGTHS.size:
            return None
        header, body = _LENGTHS.unpack_from(self._buffer)
        if header + body > LENGTH_MAX:
            raise LineLost(f"{self._what} sent a message of {header + body} bytes")
        end = _LENGTHS.size + header + body
        if len(self._buffer) < end:
            return None
        text = bytes(self._buffer[_LENGTHS.size : _LENGTHS.size + header])
        content = bytes(self._buffer[_LENGTHS.size + header : end])
        del self._buffer[:end]
        return json.loads(text), content

    def _lost(self, reason: object) -> LineLost:
        return LineLost(f"the connection to {self._what} is lost ({reason})")


def reach(port: int, what: str) -> RoomLine:
    """Connect to a port of the room; LineLost with a sentence where nothing listens."""
    try:
        return RoomLine(socket.create_connection((HOST, port), timeout=ANSWER_S), what)
    except OSError as error:
        raise LineLost(f"{what} cannot be reached at port {port} of {HOST} ({error})") from None


def ask(line: RoomLine, header: Header, body: bytes = b"") -> Message:
    """A request and its answer; what the room refuses is raised as RigFault with its sentence."""
    line.send(header, body)
    answer, content = line.receive()
    if "refused" in answer:
        raise RigFault(str(answer["refused"]))
    return answer, content


def pack(*parts: Array) -> bytes:
    """Arrays as the body of a message, one after the other."""
    return b"".join(np.ascontiguousarray(part, dtype="<f8").tobytes() for part in parts)


def unpack(body: bytes) -> Array:
    """The numbers of a body."""
    return np.frombuffer(body, dtype="<f8").astype(np.float64)
