"""The studio as a server: it listens first, so that its address is known, then answers until it is
interrupted.
"""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from capex import worlds
from capex.errors import CapexError, ErrorCode
from capex.studio.app import Address, application
from capex.studio.guard import BODY_MAX, check_token, new_token
from capex.studio.library import Library

GRACE_S = 1  # an interrupted studio ends its streams, and waits for others this long


@dataclass(frozen=True)
class StudioServer:
    """A studio that listens, and does not answer before `run`."""

    address: Address
    listening: socket.socket
    server: uvicorn.Server

    def run(self) -> None:
        """Answer until interrupted, or until `stop`."""
        with self.listening:
            self.server.run(sockets=[self.listening])

    def stop(self) -> None:
        """End, from another thread."""
        self.server.should_exit = True


def studio_server(
    folders: tuple[Path, ...],
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    drives: tuple[str, ...] = (),
) -> StudioServer:
    """A studio over folders of runs; without a token one is drawn. `drives`: worlds besides the
    package's that may be driven, such as a rig file.
    """
    worlds.allow(*drives)
    chosen = new_token() if token is None else check_token(token)
    library = Library(folders)
    listening = listen(host, port)
    address = Address(host, listening.getsockname()[1], chosen)
    config = uvicorn.Config(
        application(library, address, drives),
        log_level="error",
        access_log=False,
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=GRACE_S,
        ws="wsproto",
        ws_max_size=BODY_MAX,
    )
    return StudioServer(address, listening, uvicorn.Server(config))


def listen(host: str, port: int) -> socket.socket:
    """A socket on that address; port 0 takes any free one."""
    try:
        v6 = ipaddress.ip_address(host).version == 6
    except ValueError:
        raise CapexError(
            f"--host is '{host}'; an address such as 127.0.0.1 is right", code=ErrorCode.BAD_SETTING
        ) from None
    listening = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen()
    except (OSError, OverflowError) as error:
        listening.close()
        raise CapexError(
            f"port {port} of {host} cannot be used ({error}); choose another --port, or 0 for any"
            " free one",
            code=ErrorCode.NOT_AVAILABLE,
        ) from None
    return listening


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    return ipaddress.ip_address(host).is_loopback
