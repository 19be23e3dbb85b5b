"""The studio as a server: it listens first, so that its address is known, then answers until it is
interrupted.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn

from capex.errors import CapexError
from capex.studio.app import Address, application
from capex.studio.guard import check_token, new_token

GRACE_S = 1  # an interrupted studio ends its streams, and waits for others this long


def serve(
    folders: tuple[Path, ...],
    host: str,
    port: int,
    token: str | None,
    ready: Callable[[Address], None],
) -> None:
    """Answer until interrupted; `ready` is told the address once it is listened on."""
    chosen = new_token() if token is None else check_token(token)
    with listen(host, port) as listening:
        address = Address(host, listening.getsockname()[1], chosen)
        app = application(folders, address)
        config = uvicorn.Config(
            app,
            log_level="error",
            access_log=False,
            server_header=False,
            lifespan="off",
            timeout_graceful_shutdown=GRACE_S,
            ws="none",
        )
        ready(address)
        uvicorn.Server(config).run(sockets=[listening])


def listen(host: str, port: int) -> socket.socket:
    """A socket on that address; port 0 takes any free one."""
    try:
        v6 = ipaddress.ip_address(host).version == 6
    except ValueError:
        raise CapexError(f"--host is '{host}'; an address such as 127.0.0.1 is right") from None
    listening = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except (OSError, OverflowError) as error:
        listening.close()
        raise CapexError(
            f"port {port} of {host} cannot be used ({error}); choose another --port, or 0 for any"
            " free one"
        ) from None
    return listening


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    return ipaddress.ip_address(host).is_loopback
