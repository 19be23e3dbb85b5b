"""One HTTP exchange through a provider's SDK: nothing hidden, nothing unbounded, nothing raised.

SDK retries are off, redirects are not followed and connections are not reused: one attempt is one
request on the wire, and a lost connection is never a stale one. A body is read up to 8 MB, unpacked
or not, and an attempt ends at its deadline, however slowly its server sends what: the socket is
shut down then, because a byte now and then keeps every other timeout from coming.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx2

from capex.errors import CapexError, ErrorCode
from capex.loopback import is_this_machine
from capex.models import Billed, ModelError, RequestAttempt, redact
from capex.models.retry import RetryPolicy, Sent, clip

BODY_BYTES = 8_000_000
_NOT_SENT = (  # whatever else goes wrong, the server may have the whole request
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
    httpx2.LocalProtocolError,
    httpx2.WriteError,
    httpx2.WriteTimeout,
)


class TooLarge(httpx2.RequestError):
    """A body beyond the limit."""


@dataclass(frozen=True)
class Endpoint:
    """Where requests go: the provider's SDK and the raw form of its method."""

    sdk: Any  # the module, for its exceptions
    create: Any
    key: str  # the environment variable that holds it

    def send(
        self, body: dict[str, Any], policy: RetryPolicy, read_s: float
    ) -> httpx2.Response | Sent:
        """The response, whatever its status; Sent when there is none.

        The body travels as the SDK's `extra_body`, past its walk through every value by its type,
        which takes longer than all else on this side; what its methods insist on stands beside it.
        """
        connect_s, write_s = min(policy.connect_s, read_s), min(policy.write_s, read_s)
        timeout = httpx2.Timeout(connect=connect_s, write=write_s, read=read_s, pool=connect_s)
        try:
            needed = ("model", "max_tokens")
            named: dict[str, Any] = {name: body[name] for name in needed if name in body}
            named |= {"messages": []} if "messages" in body else {}
            whole = {k: v for k, v in body.items() if k != "extra_body"} | body.get(
                "extra_body", {}
            )
            sent = self.create(**named, extra_body=whole, timeout=timeout)
            response: httpx2.Response = sent.http_response
        except self.sdk.APIStatusError as error:
            response = error.response
        except self.sdk.APIConnectionError as error:
            return lost(_cause_of(error))
        return response


def connect(client: Callable[..., Any], key: str, url: str, **more: Any) -> Any:
    """An SDK's client over our HTTP. Proxies and certificates are those of the machine, but what
    goes to this machine itself goes through no proxy.
    """
    limits = httpx2.Limits(max_keepalive_connections=0)
    # With a transport of its own, a client does not look for proxies.
    here = is_this_machine(urlsplit(url).hostname or "")
    http_client = httpx2.Client(
        transport=httpx2.HTTPTransport(limits=limits) if here else None,
        event_hooks={"request": [_time], "response": [_bound]},
        follow_redirects=False,
        headers={"Accept-Encoding": "identity"},
        limits=limits,
    )
    return client(api_key=key, base_url=url, max_retries=0, http_client=http_client, **more)


def lost(cause: BaseException | None) -> Sent:
    """An attempt that ended without a response."""
    if isinstance(cause, TooLarge):
        sentence = (
            f"the reply is larger than {BODY_BYTES // 1_000_000} MB; lower max_output_tokens or"
            " check the server"
        )
        return Sent(RequestAttempt("too large", "unknown", 0.0, kind="too_large", error=sentence))
    accepted = not isinstance(cause, _NOT_SENT)
    if isinstance(cause, httpx2.TimeoutException):
        status = "timeout"
        after = "no reply came before the read deadline; the request was sent and may be billed"
        before = "the server could not be reached in time; nothing was accepted"
    else:
        status = "connection"
        after = "the connection broke after the request was sent; it may be billed"
        before = "the server could not be reached; is it running, and is the address right?"
    detail = clip(f"{type(cause).__name__}: {cause}")
    sentence = f"{after if accepted else before} ({detail})"
    billed: Billed = "unknown" if accepted else "no"
    return Sent(RequestAttempt(status, billed, 0.0, kind=status, error=sentence), retry=True)


def key_from(variable: str, model: str, default: str | None = None) -> str:
    """The key in an environment variable; without one, the default or a sentence."""
    key = os.environ.get(variable, "").strip() or default
    if key is None:
        sentence = f"{model} needs a key, and {variable} is not set; set that environment variable"
    elif not key.isascii() or not key.isprintable() or " " in key:
        sentence = f"{variable} holds characters that no key has; copy the key again"
    else:
        return key
    raise ModelError("authentication", sentence)


def check_url(url: str, where: str) -> str:
    """A server's address, refused when there may be a secret in it."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise CapexError(
            f"{where} is '{redact.scrub(url)}', which is no address; write one like"
            " http://localhost:8000/v1",
            code=ErrorCode.BAD_SETTING,
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise CapexError(
            f"{where} carries more than an address (a user, a query or a fragment); keys belong"
            " into environment variables",
            code=ErrorCode.BAD_SETTING,
        )
    return url.rstrip("/")


class _Deadline:
    """Shuts the socket of an attempt down when its time is over, unless it ended before."""

    def __init__(self, seconds: float):
        self._until = time.monotonic() + seconds
        self._socket: socket.socket | None = None
        self._timer: threading.Timer | None = None
        self.passed = False

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """The HTTP library tells of the socket, and with TLS of another one around it."""
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            self._socket = info["return_value"].get_extra_info("socket")
            if self._timer is None:
                self._timer = threading.Timer(max(0.0, self._until - time.monotonic()), self._pass)
                self._timer.daemon = True
                self._timer.start()

    def _pass(self) -> None:
        self.passed = True
        with contextlib.suppress(OSError):
            if self._socket is not None:
                self._socket.shutdown(socket.SHUT_RDWR)

    def cancel(self) -> None:
        """The attempt has ended."""
        if self._timer is not None:
            self._timer.cancel()


def _time(request: httpx2.Request) -> None:
    """Give an attempt its deadline: its read timeout holds for all of it."""
    seconds = request.extensions.get("timeout", {}).get("read")
    if seconds is not None:
        deadline = _Deadline(seconds)
        request.extensions |= {"trace": deadline.trace, "deadline": deadline}


def _deadline(request: httpx2.Request) -> _Deadline | None:
    deadline: _Deadline | None = request.extensions.get("deadline")
    return deadline


def _cause_of(error: Any) -> BaseException | None:
    """What ended an attempt; a socket shut down at the deadline looks like a broken connection."""
    cause: BaseException | None = error.__cause__
    deadline = _deadline(error.request)
    if deadline is None:
        return cause
    deadline.cancel()
    if not deadline.passed or isinstance(cause, TooLarge):
        return cause
    writing = isinstance(cause, httpx2.WriteError | httpx2.WriteTimeout)
    late = httpx2.WriteTimeout if writing else httpx2.ReadTimeout
    return late("the server was too slow", request=error.request)


def _bound(response: httpx2.Response) -> None:
    """Bound a body as it comes, and unpacked: a few kilobytes may unpack to gigabytes."""
    assert isinstance(response.stream, httpx2.SyncByteStream)
    packed = _Bounded(response.stream, response.stream.close, response.request)
    response.stream = packed
    if "content-encoding" in response.headers:
        unpacking = httpx2.Response(
            response.status_code, headers=response.headers, stream=packed, request=response.request
        )
        response.stream = _Bounded(unpacking.iter_bytes(), packed.close, response.request)
        del response.headers["content-encoding"]


class _Bounded(httpx2.SyncByteStream):
    """A response stream that ends with an error beyond its size."""

    def __init__(self, chunks: Iterable[bytes], close: Callable[[], None], request: httpx2.Request):
        self._chunks, self._close, self._request = chunks, close, request

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for chunk in self._chunks:
            size += len(chunk)
            if size > BODY_BYTES:
                raise TooLarge("body too large", request=self._request)
            yield chunk
        if (deadline := _deadline(self._request)) is not None and deadline.passed:
            # A body of unknown length ends with its connection: what was shut down looks whole.
            raise httpx2.ReadTimeout("the body came too slowly", request=self._request)

    def close(self) -> None:
        """Close the stream underneath; the attempt has ended."""
        if (deadline := _deadline(self._request)) is not None:
            deadline.cancel()
        self._close()
