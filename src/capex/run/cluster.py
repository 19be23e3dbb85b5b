"""The connection to a Ray cluster: one that is there, or one on this machine for the time being."""

from __future__ import annotations

import importlib
import socket
from typing import Any

from capex.errors import CapexError, ErrorCode

INSTALL = 'pip install "capex[ray]"'
CONNECT_S = 10.0


def import_ray() -> Any:
    """The package, or a sentence about how to install it."""
    try:
        return importlib.import_module("ray")
    except ModuleNotFoundError:
        raise CapexError(
            f"--ray needs the package ray; install it with {INSTALL}",
            code=ErrorCode.MISSING_PACKAGE,
        ) from None


class Cluster:
    """A joined cluster; `ray` is the package. Where this process has joined one before, that one
    is used, and left as it is.
    """

    def __init__(self, address: str):
        self.ray = import_ray()
        if address.startswith("ray://"):
            raise CapexError(
                f"--ray {address} is a client's address; run the command on a node of the cluster"
                " and write --ray auto",
                code=ErrorCode.BAD_SETTING,
            )
        self._joined = not self.ray.is_initialized()
        try:
            _require_listener(address)
            if self._joined:
                self.ray.init(
                    address=None if address == "local" else address,
                    log_to_driver=False,
                    logging_level="error",
                    configure_logging=False,
                )
        except (OSError, ValueError, RuntimeError) as error:
            raise CapexError(
                f"--ray {address}: no cluster could be reached ({error}); start one with `ray"
                " start --head`",
                code=ErrorCode.NOT_AVAILABLE,
            ) from None

    def close(self) -> None:
        """Leave the cluster, if it was joined here; one that was started here ends."""
        if self._joined:
            self.ray.shutdown()


def _require_listener(address: str) -> None:
    """Ray itself waits a minute for a cluster that is not there, and then ends the
    whole program.
    """
    host, colon, port = address.rpartition(":")
    if colon:  # else auto or local: Ray finds out by itself
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_S).close()
