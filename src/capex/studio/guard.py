"""Who may ask the studio anything: whoever has the token, from the studio's own page.

Every address begins with the token, so a page of another origin can guess none. Besides, the Host
must be ours (no other name that leads here), an Origin must be the page's own, bodies are bounded,
and each answer carries a content security policy that allows nothing from outside.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from capex.errors import CapexError, ErrorCode
from capex.loopback import Refused as Refused
from capex.loopback import require_address, require_own_page

BODY_MAX = 64 * 2**10  # bytes; a verdict or a word to the model has a few hundred
ADDRESS_MAX = 2048  # characters of path and query together
TOKEN_MIN = 16  # characters of a token that a user chooses
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:;"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
WRITES = ("POST", "PUT", "PATCH", "DELETE")


def new_token() -> str:
    """128 random bits."""
    return secrets.token_urlsafe(16)


def check_token(token: str) -> str:
    """A token that a user chose; CapexError where it is short or does not fit into an address."""
    if len(token) < TOKEN_MIN or not all(c.isalnum() or c in "-_" for c in token):
        raise CapexError(
            f"the token has {len(token)} characters; at least {TOKEN_MIN} letters, digits, - or _"
            " are right, or none at all: then one is drawn",
            code=ErrorCode.BAD_SETTING,
        )
    return token


@dataclass(frozen=True)
class Guard:
    """An application behind its token. `host` is the address that is listened on."""

    app: ASGIApp
    token: str
    host: str
    port: int

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        try:
            self.admit(scope)
        except Refused as refusal:
            await _refuse(refusal, scope, receive, _with_headers(send))
            return
        inside = {**scope, "root_path": f"/{self.token}"}
        await self.app(inside, _bounded(receive), _with_headers(send))

    def admit(self, scope: Scope) -> None:
        """Raise Refused unless the request may be answered."""
        headers = Headers(scope=scope)
        if len(scope["path"]) + len(scope.get("query_string", b"")) > ADDRESS_MAX:
            raise Refused(414, f"the address is longer than {ADDRESS_MAX} characters")
        host = headers.get("host", "")
        require_address(host, self.host, self.port)
        given = scope["path"].split("/")[1]
        if not hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode()):
            raise Refused(
                403,
                "the token in the address is not this studio's; open the address"
                " that `capex studio` printed",
            )
        self._check_origin(scope, headers, host)
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > BODY_MAX:
            raise Refused(413, f"the body has '{length[:20]}' bytes; at most {BODY_MAX} are right")

    def _check_origin(self, scope: Scope, headers: Headers, host: str) -> None:
        writes = scope.get("method") in WRITES
        visits = headers.get("sec-fetch-mode") == "navigate" and not writes
        require_own_page(headers, host, visits=visits)
        if headers.get("origin") is None and (writes or scope["type"] == "websocket"):
            raise Refused(403, "the request does not say which page it comes from (Origin)")
        if writes and headers.get("content-type", "").partition(";")[0] != "application/json":
            raise Refused(415, "the body must be application/json")


async def _refuse(refusal: Refused, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": str(refusal)})
        return
    answer = JSONResponse({"error": str(refusal)}, refusal.status, {"Connection": "close"})
    await answer(scope, receive, send)


def _bounded(receive: Receive) -> Receive:
    """A body in pieces is bounded, too."""
    taken = 0

    async def bounded() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > BODY_MAX:
            raise Refused(413, f"the body has more than {BODY_MAX} bytes")
        return message

    return bounded


def _with_headers(send: Send) -> Send:
    async def answer(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return answer
