"""A person takes an attempt over for a while: its model waits, and they drive from a page.

Whoever asks leaves a request with an address of the loopback interface (`run.requests`); the
attempt calls there between two decisions. What they ask of each tick is recorded, so that a replay
drives the same way.
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
from capex.operators.inbox import Wish
from capex.operators.teleop_channel import Message, Wheel
from capex.operators.teleoperation import Asked, Controls, drive, read_move
from capex.untrusted import loads
from capex.worlds import Command, Env

CALL_S = 5.0
FRAME = struct.Struct(">cI")  # what follows, JSON or a picture, and how many bytes
JSON, PICTURE = b"j", b"p"
FRAME_MAX = 2**20


PROOF = 64  # characters


def proof(key: str, words: str) -> str:
    """That whoever says so knows the key."""
    return hmac.new(key.encode(), words.encode(), "sha256").hexdigest()


class Line:
    """The attempt's end of the connection to a page."""

    def __init__(self, wish: Wish):
        """Call whoever asked; OSError where nobody answers, or where they are elsewhere."""
        if wish.host not in ("", socket.gethostname()):
            raise OSError(f"{wish.host} is another machine")
        self._socket = socket.create_connection((HOST, wish.port), CALL_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        nonce = secrets.token_hex(16)
        self._socket.sendall(f"{nonce} {proof(wish.key, 'attempt ' + nonce)}\n".encode())
        try:
            said = self._socket.recv(PROOF, socket.MSG_WAITALL).decode("ascii", "replace")
            if not hmac.compare_digest(said, proof(wish.key, "studio " + nonce)):
                raise OSError("somebody else answers there")
        except OSError:
            self._socket.close()
            raise
        self._socket.settimeout(None)
        self.wheel = Wheel(self.tell)
        threading.Thread(target=self._listen, daemon=True).start()

    def tell(self, message: Message) -> None:
        """Send a state or a picture; a page that is gone is noticed here, too."""
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        kind = PICTURE if isinstance(message, bytes) else JSON
        try:
            self._socket.sendall(FRAME.pack(kind, len(body)) + body)
        except OSError:
            self.wheel.leave()

    def _listen(self) -> None:
        try:
            with self._socket.makefile("rb") as lines:
                for line in lines:
                    if isinstance(message := loads(line), dict):
                        self.wheel.hear(message)
        except (OSError, ValueError):
            pass
        finally:
            self.wheel.leave()

    def close(self) -> None:
        """Hang up."""
        with contextlib.suppress(OSError):  # wakes whoever listens
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@dataclass
class Recorded:
    """Controls that repeat what was driven."""

    rows: Sequence[Mapping[str, Any]]
    env: Env | None = None
    _next: int = 0

    def take(self, wait_s: float) -> Asked | None:
        """The next move."""
        assert self.env is not None
        if self._next >= len(self.rows):
            return "done"
        self._next += 1
        return read_move(self.rows[self._next - 1], self.env.spec)

    def show(self, env: Env, tick: int) -> None:
        """Nobody looks."""
        self.env = env


@dataclass
class Takeover:
    """One turn of a person's, as `hooks.Person` is called. `row` is what the record says of it."""

    decision: int
    wish: Wish
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
            "by": self.wish.by,
            "device": self.wish.device,
            "moves": [move.as_json() for move in moves],
        }
        return len(moves)


def recorded(row: Mapping[str, Any]) -> Takeover:
    """A turn that is driven again."""
    wish = Wish(str(row["by"]), str(row["device"]), 0, "")
    return Takeover(int(row["decision"]), wish, Recorded(row["moves"]), lambda: False)
