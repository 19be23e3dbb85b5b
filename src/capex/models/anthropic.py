"""`anthropic:NAME`: Anthropic's Messages API. Needs the extra: pip install "capex[anthropic]". The
key comes from ANTHROPIC_API_KEY.

A cache mark stands after the system text, so that tools and system are cached. Thinking is left to
the model's default, which is always on for the newest ones. Inside a decision every block of a
reply goes back verbatim, thinking included: the API refuses edited ones. Which model takes what is
in `claude`.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping
from typing import Any

from capex.errors import CapexError, ErrorCode
from capex.models import (
    Answer,
    AssistantMessage,
    Message,
    Request,
    ToolCall,
    ToolResult,
    Usage,
    claude,
)
from capex.models.body import ProviderFailure, argument_object, pieces, tokens
from capex.models.http import Dialect, HttpModel
from capex.models.retry import RetryPolicy
from capex.models.wire import Endpoint, check_url, connect, key_from

KEY = "ANTHROPIC_API_KEY"
URL = "https://api.anthropic.com"
INSTALL = 'pip install "capex[anthropic]"'


def make(rest: str, *, base_url: str | None = None, policy: RetryPolicy | None = None) -> HttpModel:
    """From anthropic:NAME."""
    if not rest:
        raise CapexError(
            "'anthropic:' names no model; write anthropic:NAME", code=ErrorCode.BAD_SETTING
        )
    name = f"anthropic:{rest}"
    try:
        import anthropic
    except ImportError:
        needs = f"{name} needs the package anthropic; install it with: {INSTALL}"
        raise CapexError(needs, code=ErrorCode.MISSING_PACKAGE) from None
    url = base_url or os.environ.get("ANTHROPIC_BASE_URL") or URL
    key, url = key_from(KEY, name), check_url(url, "ANTHROPIC_BASE_URL")
    client = connect(anthropic.Anthropic, key, url)
    endpoint = Endpoint(anthropic, client.messages.with_raw_response.create, KEY)
    dialect = Dialect(body_of, answer_of, usage_of)
    forces = claude.forces_calls(rest)
    return HttpModel(name, rest, dialect, endpoint, policy, forces_calls=forces)


def body_of(model: str, request: Request) -> dict[str, Any]:
    """The request as the Messages API takes it."""
    sampling = request.sampling
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": sampling.max_output_tokens,
        "messages": _messages(request),
    }
    if request.system:
        marked = {"type": "text", "text": request.system, "cache_control": {"type": "ephemeral"}}
        body["system"] = [marked]
    if request.tools:
        body["tools"] = [
            {"name": t.name, "description": t.description, "input_schema": t.parameters}
            | ({"strict": True} if t.strict else {})
            for t in request.tools
        ]
        choices = {"auto": {"type": "auto"}, "required": {"type": "any"}}
        named = {"type": "tool", "name": request.tool_choice}
        body["tool_choice"] = choices.get(request.tool_choice, named)
    if (effort := claude.effort(model, sampling.effort)) is not None:
        body["output_config"] = {"effort": effort}
    chosen = {"temperature": sampling.temperature, "top_p": sampling.top_p, "top_k": sampling.top_k}
    return body | {k: v for k, v in chosen.items() if v is not None}


def _messages(request: Request) -> list[dict[str, Any]]:
    """User and assistant in turns: results of calls and what follows them form one user message."""
    messages: list[dict[str, Any]] = []
    for message in request.messages:
        role = "assistant" if isinstance(message, AssistantMessage) else "user"
        if not messages or messages[-1]["role"] != role:
            messages.append({"role": role, "content": []})
        messages[-1]["content"] += _blocks(message)
    return [m for m in messages if m["content"]]


def _blocks(message: Message) -> list[Any]:
    if isinstance(message, ToolResult):
        return [{"type": "tool_result", "tool_use_id": message.call_id, "content": message.text}]
    if isinstance(message, AssistantMessage):
        if message.replay:
            return list(message.replay)
        text: list[Any] = [{"type": "text", "text": message.text}] if message.text.strip() else []
        return text + [
            {"type": "tool_use", "id": c.id, "name": c.name, "input": argument_object(c.arguments)}
            for c in message.calls
        ]
    blocks: list[Any] = []
    for piece in pieces(message):
        if not isinstance(piece, str):
            data = base64.b64encode(piece.png).decode()
            source = {"type": "base64", "media_type": "image/png", "data": data}
            blocks.append({"type": "image", "source": source})
        elif piece.strip():
            blocks.append({"type": "text", "text": piece})
    return blocks


def usage_of(body: Mapping[str, Any]) -> Usage | None:
    """Billed tokens of a message. Input excludes what was read from and written to the cache."""
    usage = body.get("usage")
    try:
        return Usage(
            fresh=tokens(usage, "input_tokens"),
            cached=tokens(usage, "cache_read_input_tokens", default=0),
            cache_write=tokens(usage, "cache_creation_input_tokens", default=0),
            output=tokens(usage, "output_tokens"),
            reasoning=tokens(usage, "output_tokens_details", "thinking_tokens", default=0),
        )
    except ValueError:
        return None


def answer_of(body: Mapping[str, Any]) -> Answer | ProviderFailure | None:
    """What a message says; None when it is no message."""
    content, error = body.get("content"), body.get("error")
    if isinstance(error, Mapping):
        return ProviderFailure(str(error.get("type") or "unknown"), str(error.get("message") or ""))
    if not isinstance(content, list):
        return None
    blocks = [block for block in content if isinstance(block, dict)]
    calls, texts = [], []
    for number, block in enumerate(blocks):
        if block.get("type") == "text" and isinstance(block.get("text"), str):
            texts.append(block["text"])
        elif block.get("type") == "tool_use":
            call_id, name = str(block.get("id") or f"call_{number}"), str(block.get("name") or "")
            calls.append(ToolCall(call_id, name, json.dumps(block.get("input", {}))))
    incomplete = body.get("stop_reason") in ("max_tokens", "model_context_window_exceeded")
    return Answer(tuple(calls), "\n".join(texts), incomplete, tuple(blocks))
