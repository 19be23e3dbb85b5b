"""A person takes an attempt over for a while: its model waits, and they drive from a page.

A person's page leaves a request with an address of the loopback interface (`operators.inbox`);
the attempt connects there between two decisions. The moves of each tick are recorded, so that a
replay drives the same way.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import secrets
import socket
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from capex.loopback import HOST
from capex.method.executor import Tick
from capex.operators.inbox import TakeoverRequest
from capex.operators.teleop_channel import Message, TeleopChannel
from capex.operators.teleoperation import Controls, TeleopCommand, drive, read_move
from capex.untrusted import loads
from capex.worlds import Command, Env

CALL_S = 5.0
FRAME = struct.Struct(">cI")  # what follows, JSON or a picture, and how many bytes
JSON, PICTURE = b"j", b"p"
FRAME_MAX = 2**20


PROOF = 64  # characters


def proof(key: str, words: str) -> str:
    """Proof that the sender knows the key."""
    return hmac.new(key.encode(), words.encode(), "sha256").hexdigest()


class TeleopConnection:
    """The attempt's end of the connection to a page."""

    def __init__(self, request: TakeoverRequest):
        """Connect to the page; OSError where nobody answers, or where it is on another machine."""
        if request.host not in ("", socket.gethostname()):
            raise OSError(f"{request.host} is another machine")
        self._socket = socket.create_connection((HOST, request.port), CALL_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        nonce = secrets.token_hex(16)
        self._socket.sendall(f"{nonce} {proof(request.key, 'attempt ' + nonce)}\n".encode())
        try:
            said = self._socket.recv(PROOF, socket.MSG_WAITALL).decode("ascii", "replace")
            if not hmac.compare_digest(said, proof(request.key, "studio " + nonce)):
                raise OSError("another program answers there")
        except OSError:
            self._socket.close()
            raise
        self._socket.settimeout(None)
        self.channel = TeleopChannel(self.send)
        threading.Thread(target=self._listen, daemon=True).start()

    def send(self, message: Message) -> None:
        """Send a state or a picture; a page that is gone is noticed here, too."""
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        kind = PICTURE if isinstance(message, bytes) else JSON
        try:
            self._socket.sendall(FRAME.pack(kind, len(body)) + body)
        except OSError:
            self.channel.leave()

    def _listen(self) -> None:
        try:
            with self._socket.makefile("rb") as lines:
                for line in lines:
                    if isinstance(message := loads(line), dict):
                        self.channel.receive(message)
        except (OSError, ValueError):
            pass
        finally:
            self.channel.leave()

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(OSError):  # wakes the listening thread
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@dataclass
class Recorded:
    """Controls that repeat recorded moves."""

    rows: Sequence[Mapping[str, Any]]
    env: Env | None = None
    _next: int = 0

    def take(self, wait_s: float) -> TeleopCommand | None:
        """The next move."""
        assert self.env is not None
        if self._next >= len(self.rows):
            return "done"
        self._next += 1
        return read_move(self.rows[self._next - 1], self.env.spec)

    def show(self, env: Env, tick: int) -> None:
        """No page is connected."""
        self.env = env


@dataclass
class Takeover:
    """One turn of a person, called as `context.Drive`. `row` is its part of the record."""

    decision: int
    request: TakeoverRequest
    controls: Controls
    end_now: Callable[[], bool]
    ended: str = ""
    row: dict[str, Any] = field(default_factory=dict)

    def __call__(
        self,
        env: Env,
        grips: dict[str, float],
        steps_left: int,
        carry_out: Callable[[Command], Tick],
    ) -> int:
        self.ended, moves = drive(self.controls, env, grips, steps_left, carry_out, self.end_now)
        self.row = {
            "decision": self.decision,
            "step": env.spec.horizon - steps_left,
            "steps": len(moves),
            "by": self.request.by,
            "device": self.request.device,
            "moves": [move.as_json() for move in moves],
        }
        return len(moves)


def recorded_takeover(row: Mapping[str, Any]) -> Takeover:
    """A turn that is driven again."""
    request = TakeoverRequest(str(row["by"]), str(row["device"]), 0, "")
    return Takeover(int(row["decision"]), request, Recorded(row["moves"]), lambda: False)
