"""JSON bodies: what is sent can be stored; what comes from a server or a model is not trusted."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from capex.models import Picture, Request, Text, Usage, UserMessage

NESTING = 100  # levels of JSON that are read
UNREADABLE_CHARACTERS = 20_000  # kept of a body that is not JSON
TOKENS_MAX = 10**9  # of one request; beyond it a server has miscounted, and no bill is known


@dataclass(frozen=True)
class ProviderFailure:
    """A failure that arrived with HTTP 200."""

    code: str
    message: str


def parse(content: bytes) -> Mapping[str, Any] | str:
    """A JSON object without numbers that JSON cannot hold and lone surrogates, or else a text."""
    text = content.decode("utf-8", errors="replace")
    try:
        body = loads(text)
    except ValueError:
        return text[:UNREADABLE_CHARACTERS]
    return body if isinstance(body, dict) else text[:UNREADABLE_CHARACTERS]


def loads(text: str) -> Any:
    """JSON from outside; what could not be sent or stored again is a ValueError or replaced."""
    try:
        return sound(json.loads(text, parse_constant=str, parse_float=_finite))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _finite(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) else text


def sound(value: Any, depth: int = NESTING) -> Any:
    """JSON without lone surrogates, which nobody can send or store; ValueError beyond `depth`."""
    if depth == 0:
        raise ValueError(f"nested more than {NESTING} deep")
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Mapping):
        return {sound(k): sound(v, depth - 1) for k, v in value.items()}
    return [sound(v, depth - 1) for v in value] if isinstance(value, list | tuple) else value


def tokens(usage: Any, *path: str, default: int | None = None) -> int:
    """A token count in nested usage fields; ValueError if it is wrong or has no default."""
    for name in path:
        usage = usage.get(name) if isinstance(usage, Mapping) else None
    if usage is None and default is not None:
        return default
    if not isinstance(usage, int) or isinstance(usage, bool) or not 0 <= usage <= TOKENS_MAX:
        raise ValueError(f"{'.'.join(path)} is no count of tokens")
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
    """A call's arguments as the object that some wires insist on; other text is put inside one."""
    try:
        parsed = loads(arguments)
    except ValueError:
        return {"unreadable": arguments}
    return parsed if isinstance(parsed, dict) else {"unreadable": arguments}


def tool_choice(request: Request, named: dict[str, Any]) -> str | dict[str, Any]:
    """OpenAI's tool_choice; `named` when the request allows a single tool."""
    return request.tool_choice if request.tool_choice in ("auto", "required") else named


def pieces(message: UserMessage) -> Iterator[str | Picture]:
    """Texts and pictures in order, a picture's label before it; empty texts are left out."""
    for part in message.parts:
        if text := part.text if isinstance(part, Text) else part.label:
            yield text
        if not isinstance(part, Text):
            yield part


def data_url(picture: Picture) -> str:
    return "data:image/png;base64," + base64.b64encode(picture.png).decode()
