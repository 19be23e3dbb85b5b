"""A loopback proxy that cuts, stalls and half-closes what passes it, in a process of its own.

`python proxy.py HOST PORT` prints its address and passes connections on to that port. A line on its
standard input is a blow: `cut` resets every connection, `stall` lets nothing pass for five seconds,
`half-close` ends the way to the port and leaves the way back. It ends with its input.
"""

from __future__ import annotations

import contextlib
import select
import socket
import subprocess
import sys
import threading
import time

STALL_S = 5.0


class Proxy:
    """The connections and what befalls them."""

    def __init__(self, host: str, port: int):
        self._server, self._pairs = (host, port), list[tuple[socket.socket, socket.socket]]()
        self._listener = socket.create_server((host, 0))
        self.address = f"{host}:{self._listener.getsockname()[1]}"
        self._until = 0.0
        threading.Thread(target=self._accept, daemon=True).start()

    def strike(self, blow: str) -> None:
        """Do what a line asks for."""
        if blow == "stall":
            self._until = time.monotonic() + STALL_S
        elif blow == "half-close":
            for _, ours in self._pairs:
                with contextlib.suppress(OSError):
                    ours.shutdown(socket.SHUT_WR)
        elif blow == "cut":
            pairs, self._pairs = self._pairs, []
            for end in (end for pair in pairs for end in pair):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            theirs, _ = self._listener.accept()
            try:
                ours = socket.create_connection(self._server)
            except OSError:
                theirs.close()
                continue
            self._pairs.append((theirs, ours))
            threading.Thread(target=self._pass, args=(theirs, ours), daemon=True).start()

    def _pass(self, theirs: socket.socket, ours: socket.socket) -> None:
        ways = {theirs: ours, ours: theirs}
        with contextlib.suppress(OSError), theirs, ours:
            while ways:
                for end in select.select(list(ways), [], [])[0]:
                    time.sleep(max(0.0, self._until - time.monotonic()))
                    if data := end.recv(1 << 16):
                        ways[end].sendall(data)
                    else:
                        with contextlib.suppress(OSError):
                            ways[end].shutdown(socket.SHUT_WR)
                        del ways[end]


class ProxyProcess:
    """A proxy before a port, and how to strike it."""

    def __init__(self, address: str):
        self._process = subprocess.Popen(
            [sys.executable, __file__, *address.rsplit(":", 1)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().strip()

    def strike(self, blow: str) -> None:
        """cut, stall or half-close."""
        assert self._process.stdin is not None
        self._process.stdin.write(blow + "\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """End it, and every connection with it."""
        self._process.kill()
        self._process.wait()


def main() -> None:
    """Serve until the input ends."""
    proxy = Proxy(sys.argv[1], int(sys.argv[2]))
    print(proxy.address, flush=True)
    for line in sys.stdin:
        proxy.strike(line.strip())


if __name__ == "__main__":
    main()
