"""One HTTP exchange through a provider's SDK, told as an Outcome: nothing hidden, nothing
unbounded, nothing raised.

SDK retries are off, redirects are not followed and connections are not reused: one attempt is one
request on the wire, and a lost connection is never a stale one. A body is read up to 8 MB, unpacked
or not, and an attempt ends at its deadline, however slowly its server sends what: the socket is
shut down then, because a byte now and then keeps every other timeout from coming.
"""

from __future__ import annotations

import base64
import contextlib
import json
import math
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx2

from capex.errors import CapexError
from capex.models import (
    Answer,
    Attempt,
    AttemptObserver,
    Billed,
    ModelError,
    Picture,
    Reply,
    Request,
    Usage,
    redact,
)
from capex.models.retry import Clock, Outcome, Policy, clip, failed, persist, refused, retry_after_s

BODY_BYTES = 8_000_000
NESTING = 100  # levels of JSON that are read
UNREADABLE_CHARACTERS = 20_000  # kept of a body that is not JSON
QUOTED_CHARACTERS = 120  # of it, in the sentence that says so
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


@dataclass(frozen=True)
class Failed:
    """A failure that arrived with HTTP 200."""

    code: str
    message: str


@dataclass(frozen=True)
class Wire:
    """What one provider's wire consists of: its SDK, the raw form of the SDK's method, how to read
    a body, and whose key it takes.
    """

    sdk: Any  # the module, for its exceptions
    create: Any
    usage_of: Callable[[Mapping[str, Any]], Usage | None]
    answer_of: Callable[[Mapping[str, Any]], Answer | Failed | None]
    key: str  # the environment variable
    policy: Policy
    clock: Clock | None

    def complete(
        self, request: Request, body: dict[str, Any], observer: AttemptObserver | None
    ) -> Reply:
        """Send a body until it is answered or the policy gives up."""
        sendable = sound(body)
        return persist(
            request,
            lambda read_s: self._exchange(sendable, read_s),
            self.policy,
            observer,
            self.clock,
        )

    def reread(self, body: Mapping[str, Any] | str | None) -> Answer | None:
        """The answer in a logged body, with what the provider wants sent back in the next round."""
        answer = self.answer_of(body) if isinstance(body, Mapping) else None
        return answer if isinstance(answer, Answer) else None

    def _exchange(self, request_body: dict[str, Any], read_s: float) -> Outcome:
        policy = self.policy
        connect_s, write_s = min(policy.connect_s, read_s), min(policy.write_s, read_s)
        timeout = httpx2.Timeout(connect=connect_s, write=write_s, read=read_s, pool=connect_s)
        try:
            response = self.create(**request_body, timeout=timeout).http_response
        except self.sdk.APIStatusError as error:
            response = error.response
        except self.sdk.APIConnectionError as error:
            return _lost(_end_of(error.request, error.__cause__))
        status, headers = response.status_code, dict(response.headers)
        kept, body = redact.allowed_headers(headers), parse(response.content)
        usage = self.usage_of(body) if isinstance(body, Mapping) else None
        billed: Billed = "yes" if usage else "unknown"
        if not 200 <= status < 300:
            kind, retry, may_be_billed, sentence = refused(status, body, self.key)
            attempt = Attempt(
                f"http {status}",
                "yes" if usage else may_be_billed,
                0.0,
                usage,
                status,
                kind,
                sentence,
                None,
                body,
                kept,
            )
            return Outcome(attempt, retry, retry_after_s(headers))
        answer = self.answer_of(body) if isinstance(body, Mapping) else None
        if answer is None:
            sentence = (
                f"the server answered with HTTP {status}, but its body cannot be read as a reply:"
                f" {_quoted(response.content)}"
            )
            return Outcome(
                Attempt(
                    "unreadable",
                    billed,
                    0.0,
                    usage,
                    status,
                    "unreadable",
                    sentence,
                    None,
                    body,
                    kept,
                ),
                True,
            )
        if isinstance(answer, Failed):
            kind, retry, sentence = failed(answer.code, answer.message)
            attempt = Attempt(
                f"failed: {clip(answer.code)}",
                billed,
                0.0,
                usage,
                status,
                kind,
                sentence,
                None,
                body,
                kept,
            )
            return Outcome(attempt, retry, retry_after_s(headers))
        return Outcome(
            Attempt(
                "incomplete" if answer.incomplete else "ok",
                "yes",
                0.0,
                usage,
                status,
                "",
                "",
                answer,
                body,
                kept,
            )
        )


class TooLarge(httpx2.RequestError):
    """A body beyond the limit."""


def http_client() -> httpx2.Client:
    """The HTTP client that the SDKs are given; proxies and certificates are those of
    the machine.
    """
    return httpx2.Client(
        event_hooks={"request": [_time], "response": [_bound]},
        follow_redirects=False,
        headers={"Accept-Encoding": "identity"},
        limits=httpx2.Limits(max_keepalive_connections=0),
    )


def _lost(cause: BaseException | None) -> Outcome:
    if isinstance(cause, TooLarge):
        sentence = (
            f"the reply is larger than {BODY_BYTES // 1_000_000} MB; lower max_output_tokens or"
            " check the server"
        )
        return Outcome(Attempt("too large", "unknown", 0.0, kind="too_large", error=sentence))
    sent = not isinstance(cause, _NOT_SENT)
    word = "timeout" if isinstance(cause, httpx2.TimeoutException) else "connection"
    happened = {
        (
            "timeout",
            True,
        ): "no reply came before the read deadline; the request was sent and may be billed",
        ("timeout", False): "the server could not be reached in time; nothing was accepted",
        ("connection", True): "the connection broke after the request was sent; it may be billed",
        (
            "connection",
            False,
        ): "the server could not be reached; is it running, and is the address right?",
    }[word, sent]
    detail = clip(f"{type(cause).__name__}: {cause}")
    return Outcome(
        Attempt(word, "unknown" if sent else "no", 0.0, kind=word, error=f"{happened} ({detail})"),
        True,
    )


def parse(content: bytes) -> Mapping[str, Any] | str:
    """A body as a JSON object, or as text when it is none. Numbers that JSON cannot hold and lone
    surrogates do not get past here.
    """
    text = content.decode("utf-8", errors="replace")
    try:
        body = loads(text)
    except ValueError:
        return text[:UNREADABLE_CHARACTERS]
    return body if isinstance(body, dict) else text[:UNREADABLE_CHARACTERS]


def loads(text: str) -> Any:
    """JSON from a model or a server; whatever could not be sent or stored again is a ValueError or
    replaced.
    """
    try:
        return sound(json.loads(text, parse_constant=str, parse_float=_finite))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _finite(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) else text


def sound(value: Any, depth: int = NESTING) -> Any:
    """A JSON value without lone surrogates, which a model can write and nobody can send or store;
    ValueError when nested too deeply.
    """
    if depth == 0:
        raise ValueError(f"nested more than {NESTING} deep")
    if isinstance(value, str):
        return (
            value
            if value.isascii()
            else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        )
    if isinstance(value, Mapping):
        return {sound(k): sound(v, depth - 1) for k, v in value.items()}
    return [sound(v, depth - 1) for v in value] if isinstance(value, list | tuple) else value


def tokens(usage: Any, *path: str, default: int | None = None) -> int:
    """A token count from nested usage fields. One that is absent is the default; a wrong one, or no
    default, is a ValueError.
    """
    for name in path:
        usage = usage.get(name) if isinstance(usage, Mapping) else None
    if usage is None and default is not None:
        return default
    if not isinstance(usage, int) or isinstance(usage, bool) or usage < 0:
        raise ValueError(f"{'.'.join(path)} is {usage!r}")
    return usage


def inclusive_usage(usage: Any, inputs: str, outputs: str) -> Usage | None:
    """Usage in OpenAI's manner: input includes cached and cache-write tokens. None unless it is
    there and adds up.

    Where the total exceeds input + output (servers that leave reasoning out of their output count),
    the rest is output too.
    """
    try:
        whole, out = tokens(usage, f"{inputs}_tokens"), tokens(usage, f"{outputs}_tokens")
        cached = tokens(usage, f"{inputs}_tokens_details", "cached_tokens", default=0)
        written = tokens(usage, f"{inputs}_tokens_details", "cache_write_tokens", default=0)
        reasoning = tokens(usage, f"{outputs}_tokens_details", "reasoning_tokens", default=0)
        total = tokens(usage, "total_tokens", default=whole + out)
    except ValueError:
        return None
    if cached + written > whole or total < whole + out:
        return None
    return Usage(whole - cached - written, cached, written, total - whole, reasoning)


def raw_arguments(arguments: Any) -> str:
    """A call's arguments as JSON text, however they came."""
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else json.dumps(arguments)


def argument_object(arguments: str) -> dict[str, Any]:
    """A call's arguments as the object that some wires insist on; text that is none is carried
    inside one.
    """
    try:
        parsed = loads(arguments)
    except ValueError:
        return {"unreadable": arguments}
    return parsed if isinstance(parsed, dict) else {"unreadable": arguments}


def data_url(picture: Picture) -> str:
    """A PNG as a data URL."""
    return "data:image/png;base64," + base64.b64encode(picture.png).decode()


def key_from(variable: str, model: str, default: str | None = None) -> str:
    """The key in an environment variable; without one, the default or a sentence."""
    key = os.environ.get(variable, "").strip() or default
    if key is None:
        raise ModelError(
            "authentication",
            f"{model} needs a key, and {variable} is not set; set that environment variable",
        )
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ModelError(
            "authentication", f"{variable} holds characters that no key has; copy the key again"
        )
    return key


def check_url(url: str, where: str) -> str:
    """A server's address, refused when there may be a secret in it."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise CapexError(
            f"{where} is '{redact.scrub(url)}', which is no address; write one like"
            " http://localhost:8000/v1"
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise CapexError(
            f"{where} carries more than an address (a user, a query or a fragment); keys belong"
            " into environment variables"
        )
    return url.rstrip("/")


class _Deadline:
    """Shuts the socket of an attempt down when its time is over; nothing happens if it has ended
    before.
    """

    def __init__(self, seconds: float):
        self._until = time.monotonic() + seconds
        self._socket: socket.socket | None = None
        self._timer: threading.Timer | None = None
        self.passed = False

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """What the HTTP library tells: the socket comes with the connection, and another one around
        it with TLS.
        """
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
    found: _Deadline | None = request.extensions.get("deadline")
    return found


def _end_of(request: httpx2.Request, cause: BaseException | None) -> BaseException | None:
    """What ended an attempt: a socket that was shut down at the deadline looks like a broken
    connection.
    """
    deadline = _deadline(request)
    if deadline is None:
        return cause
    deadline.cancel()
    if not deadline.passed or isinstance(cause, TooLarge):
        return cause
    late = (
        httpx2.WriteTimeout
        if isinstance(cause, httpx2.WriteError | httpx2.WriteTimeout)
        else httpx2.ReadTimeout
    )
    return late("the server was too slow", request=request)


def _bound(response: httpx2.Response) -> None:
    """Bound a body as it comes, and again as it is unpacked: a few kilobytes may unpack to
    gigabytes.
    """
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


def _quoted(content: bytes) -> str:
    """The first words of a body that is no reply, for a person to recognize it by."""
    words = clip(content[: 8 * QUOTED_CHARACTERS].decode("utf-8", errors="replace"))
    return f"{words[:QUOTED_CHARACTERS]!r}" if words else "it is empty"


def is_stand_in(model: str) -> bool:
    """Whether a server's model is the pilot (`capex pilot serve`), whose results say nothing about
    any foundation model.
    """
    return model.partition(":")[0] == "pilot"
