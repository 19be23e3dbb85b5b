"""JSON over HTTP on the loopback address: what this package's servers share. Bodies are bounded,
and whatever a client sends, it gets an answer.
"""

from __future__ import annotations

import ipaddress
import json
import re
import socket
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from capex.errors import CapexError, ErrorCode
from capex.untrusted import loads

HOST = "127.0.0.1"
NAMES = (HOST, "localhost", "[::1]")
BODY_MAX = 64 * 2**20  # bytes; a request with three pictures has a few million
DRAIN_MAX = 4 * BODY_MAX  # of a refused body that is read past: no client sends more by mistake


def is_this_machine(host: str) -> bool:
    """Whether the host of an address names this machine: localhost and what ends with it, the
    loopback addresses in every form that a resolver takes (127.1, ::1, ::ffff:127.0.0.1), and the
    unspecified address.
    """
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        try:
            address = ipaddress.ip_address(socket.inet_aton(name))
        except (OSError, UnicodeError):
            return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.is_loopback or address.is_unspecified


class Refused(CapexError):
    """A request that is answered with this sentence and an HTTP status other than 400. `api_code`
    is for clients of a model server.
    """

    code = ErrorCode.BAD_REQUEST

    def __init__(self, status: int, sentence: str, api_code: str = "invalid_request_error"):
        super().__init__(sentence)
        self.status, self.api_code = status, api_code


def require_address(given: str, bound: str, port: int) -> None:
    """Refused unless a Host header names the server that listens at `bound`, and not another name
    that leads to it: a page of anybody's can have such a name, and would then be of one origin.
    """
    name, _, own_port = given.rpartition(":")
    ours = own_port == str(port) and (name in NAMES or name == bound or _any_address(bound, name))
    if not ours:
        raise Refused(421, f"this server is not at '{given[:80]}'; use the address it printed")


def _any_address(bound: str, name: str) -> bool:
    """Whether a server listens at every address and is named by one."""
    if bound not in ("0.0.0.0", "::"):
        return False
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def require_own_page(headers: Mapping[str, str], host: str, *, visits: bool = False) -> None:
    """Refused where a browser says that a page of another origin asks. Programs that are no browser
    say nothing of it. `visits`: the request opens a page, which a link elsewhere may do.
    """
    origin = headers.get("origin")
    if origin is not None and origin != f"http://{host}":
        raise Refused(403, f"a page of '{origin[:80]}' may not ask this server")
    site = headers.get("sec-fetch-site", "same-origin")
    if site not in ("same-origin", "none") and not visits:
        raise Refused(403, "another page may not ask this server")


class JsonHandler(BaseHTTPRequestHandler):
    """Answers with what `get` and `post` return; a CapexError becomes its sentence."""

    protocol_version = "HTTP/1.1"  # a client keeps its connection: 20 requests a second
    disable_nagle_algorithm = True

    def get(self) -> Mapping[str, Any]:
        """The answer to a GET of `self.path`."""
        raise Refused(404, f"there is nothing to get at {self.path}")

    def post(self, body: bytes) -> Mapping[str, Any]:
        """The answer to a POST to `self.path`."""
        raise Refused(404, f"nothing can be posted to {self.path}")

    def error(self, sentence: str, api_code: str) -> Mapping[str, Any]:
        """An error as this server's clients read it."""
        return {"error": sentence}

    def do_GET(self) -> None:
        self._answer(self._admitted(self.get))

    def do_POST(self) -> None:
        self._answer(self._admitted(lambda: self.post(self._body())))

    def log_message(self, *_: object) -> None:
        """Nothing is logged: requests are pictures, twenty a second."""

    def _admitted(self, answer: Callable[[], Mapping[str, Any]]) -> Callable[[], Mapping[str, Any]]:
        """An answer for a program of this machine; a web page gets none."""

        def admitted() -> Mapping[str, Any]:
            bound, port, *_ = self.connection.getsockname()
            headers = {name.lower(): value for name, value in self.headers.items()}
            host = headers.get("host", "")
            try:
                require_address(host, bound, port)
                require_own_page(headers, host)
            except Refused:
                self.close_connection = True  # the body was not read
                raise
            return answer()

        return admitted

    def _answer(self, answer: Callable[[], Mapping[str, Any]]) -> None:
        try:
            status, value = 200, answer()
        except Refused as refusal:
            status, value = refusal.status, self.error(str(refusal), refusal.api_code)
        except CapexError as error:
            status, value = 400, self.error(str(error), "invalid_request_error")
        except Exception as error:
            # Whatever a foreign body led to: its sender gets an answer, and the server goes on.
            self.close_connection = True
            sentence = f"the server failed: {type(error).__name__}: {error}"
            status, value = 500, self.error(sentence, "server_error")
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def _body(self) -> bytes:
        text = self.headers.get("Content-Length", "0")
        length = int(text) if re.fullmatch(r"[0-9]{1,12}", text) else None
        if length is not None and length <= BODY_MAX and "Transfer-Encoding" not in self.headers:
            return self.rfile.read(length)
        self.close_connection = True
        # Clients look for an answer only when they have sent everything: read past it, in reason.
        left = length if length is not None and length <= DRAIN_MAX else 0
        while left > 0 and (count := len(self.rfile.read(min(left, 2**20)))):
            left -= count
        raise Refused(
            413,
            f"the body's length is '{text[:40]}'; its length must be given, and it must be a"
            f" number of at most {BODY_MAX}",
        )


def listen(port: int, handler: type[JsonHandler]) -> ThreadingHTTPServer:
    """A server on the loopback address, not yet running; port 0 takes any free one."""
    try:
        return ThreadingHTTPServer((HOST, port), handler)
    except (OSError, OverflowError) as error:
        raise CapexError(
            f"port {port} of {HOST} cannot be used ({error}); choose another --port, or 0 for any"
            " free one",
            code=ErrorCode.NOT_AVAILABLE,
        ) from None


def read_object(
    body: bytes, hint: str = "", loads: Callable[[bytes], Any] = loads
) -> dict[str, Any]:
    """A body that must be a JSON object; `hint` says which one."""
    try:
        value = loads(body)
    except ValueError as error:
        raise CapexError(f"the body is no JSON: {error}", code=ErrorCode.BAD_REQUEST) from None
    if not isinstance(value, dict):
        raise CapexError(f"the body must be a JSON object{hint}", code=ErrorCode.BAD_REQUEST)
    return value
