"""What the rooms answer with: JSON without control characters, server-sent events, and sentences
for what was asked wrongly.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from capex.errors import CapexError, printable
from capex.studio.guard import Refused
from capex.untrusted import loads

BEAT_S = 10.0  # a stream says something this often, so that a dead one is noticed
TEXT_MAX = 200_000  # characters of one text; a system prompt has at most 18,000
Asked = Mapping[str, str]  # the query of a request


def plain(value: Any) -> Any:
    """A value for a page: text without control characters and not endless, numbers that JSON has,
    paths as text.
    """
    if isinstance(value, str):
        return printable(value[:TEXT_MAX])
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {printable(str(k)): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return printable(str(value)) if isinstance(value, Path) else value


def to_json(value: Any) -> str:
    """JSON text; what JSON has no form for is a bug and raises."""
    return json.dumps(plain(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def answer(value: Any, status: int = 200) -> Response:
    """JSON."""
    text = to_json(value).encode("utf-8", "backslashreplace")
    return Response(text, status, media_type="application/json")


def get(work: Callable[[Asked], Any]) -> Callable[[Request], Any]:
    """An endpoint that reads: `work` gets the query and runs in a thread. It returns what becomes
    JSON, or a Response.
    """

    async def endpoint(request: Request) -> Response:
        value = await run_in_threadpool(work, dict(request.query_params))
        return value if isinstance(value, Response) else answer(value)

    return endpoint


def post(work: Callable[[Mapping[str, Any]], Any]) -> Callable[[Request], Any]:
    """An endpoint that writes: `work` gets the JSON object that was sent and runs in a thread. It
    answers once everything is on disk.
    """

    async def endpoint(request: Request) -> Response:
        try:
            body = loads(await request.body())
        except ValueError as error:
            raise Refused(400, f"the body is no JSON: {str(error)[:200]}") from None
        if not isinstance(body, dict):
            raise Refused(400, "the body must be a JSON object")
        value = await run_in_threadpool(work, body)
        return value if isinstance(value, Response) else answer(value)

    return endpoint


def text_of(body: Mapping[str, Any], name: str, limit: int = 1000) -> str:
    """A text of a body; Refused where it is missing, no text, or too long."""
    value = body.get(name)
    if not isinstance(value, str) or not value.strip():
        raise Refused(400, f"'{name}' is missing; a text is right")
    if len(value) > limit:
        raise Refused(400, f"'{name}' has {len(value)} characters; at most {limit} are right")
    return printable(value).strip()


def number_of(asked: Mapping[str, Any], name: str, default: int | None = None) -> int:
    """A whole number of a query or body, not below 0; Refused where it is none."""
    value = asked.get(name, default)
    if isinstance(value, str) and value.isdecimal() and len(value) < 10:
        value = int(value)
    if type(value) is not int or not 0 <= value < 10**9:
        raise Refused(400, f"'{name}' is '{str(value)[:40]}'; a whole number is right")
    return value


def stream(events: AsyncIterator[tuple[str, Any]]) -> StreamingResponse:
    """Server-sent events: pairs of a name and what becomes JSON. An error ends the stream with its
    sentence.
    """

    async def lines() -> AsyncIterator[bytes]:
        yield b"retry: 1000\n\n"
        try:
            async for name, value in events:
                text = ":\n\n" if not name else f"event: {name}\ndata: {to_json(value)}\n\n"
                yield text.encode("utf-8", "backslashreplace")
        except (CapexError, OSError) as error:
            yield f"event: failed\ndata: {to_json({'error': str(error)})}\n\n".encode()

    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(lines(), media_type="text/event-stream", headers=headers)


async def changes(read: Callable[[], Any], every_s: float) -> AsyncIterator[tuple[str, Any]]:
    """What `read` returns, in a thread, whenever it differs from before."""
    last, silent_s = None, 0.0
    while True:
        text = to_json(now := await run_in_threadpool(read))
        if text != last:
            last, silent_s = text, 0.0
            yield "now", now
        elif silent_s >= BEAT_S:
            silent_s = 0.0
            yield "", None
        await asyncio.sleep(every_s)
        silent_s += every_s
