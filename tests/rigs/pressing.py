"""A person who presses the stop of a rig's process, as the studio does."""

from __future__ import annotations

import json
import socket
from typing import Any

from capex.rigs.stops import stop_address


def press(process: int, key: str = "a key", by: str = "Ada", *, wait: bool = True) -> Any:
    """Stop the arms, and what the process says of it; without `wait` the answer is not read."""
    return ask(process, {"stop": key, "by": by}, wait=wait)


def ask(process: int, question: Any, *, wait: bool = True) -> Any:
    """What the process answers; None where it hangs up."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.connect(str(stop_address(process)))
        text = question if isinstance(question, bytes) else json.dumps(question).encode() + b"\n"
        asking.sendall(text)
        if not wait:
            return None
        with asking.makefile("rb") as answers:
            line = answers.readline()
    return json.loads(line) if line else None
