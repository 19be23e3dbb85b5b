"""`openai:NAME`: the Responses API through the official SDK, with nothing stored on the server.

Inside a decision the model's own items (encrypted reasoning with the calls it led to) are sent back
verbatim. The key comes from OPENAI_API_KEY; OPENAI_BASE_URL points elsewhere, for example at a
server on this machine. The price table holds for the standard service tier, which is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from capex.errors import CapexError, ErrorCode
from capex.models import Answer, AssistantMessage, Message, Request, ToolCall, ToolResult, Usage
from capex.models.body import (
    ProviderFailure,
    data_url,
    inclusive_usage,
    pieces,
    raw_arguments,
    tool_choice,
)
from capex.models.http import Dialect, HttpModel
from capex.models.retry import RetryPolicy
from capex.models.wire import Endpoint, check_url, connect, key_from

KEY = "OPENAI_API_KEY"
URL = "https://api.openai.com/v1"


def make(rest: str, *, base_url: str | None = None, policy: RetryPolicy | None = None) -> HttpModel:
    """From openai:NAME."""
    import openai

    if not rest:
        raise CapexError(
            "'openai:' names no model; write openai:NAME, for example openai:gpt-6-astra",
            code=ErrorCode.BAD_SETTING,
        )
    name, url = f"openai:{rest}", base_url or os.environ.get("OPENAI_BASE_URL") or URL
    client = connect(openai.OpenAI, key_from(KEY, name), check_url(url, "OPENAI_BASE_URL"))
    endpoint = Endpoint(openai, client.responses.with_raw_response.create, KEY)
    return HttpModel(name, rest, Dialect(body_of, answer_of, usage_of), endpoint, policy)


def body_of(model: str, request: Request) -> dict[str, Any]:
    """The request as the Responses API takes it; what does not change stands first."""
    sampling = request.sampling
    body: dict[str, Any] = {
        "model": model,
        "instructions": request.system,
        "tools": [{"type": "function", **vars(tool)} for tool in request.tools],
        "input": [item for message in request.messages for item in _items(message)],
        "max_output_tokens": sampling.max_output_tokens,
        "store": False,
        "truncation": "disabled",
        "service_tier": "default",
    }
    if request.tools:
        named = {"type": "function", "name": request.tool_choice}
        body["tool_choice"] = tool_choice(request, named)
        body["parallel_tool_calls"] = True
    if sampling.effort is not None:
        body["reasoning"] = {"effort": sampling.effort}
        body["include"] = ["reasoning.encrypted_content"]
    if request.cache_key:
        body["prompt_cache_key"] = request.cache_key
    chosen = {"temperature": sampling.temperature, "top_p": sampling.top_p}
    body |= {name: value for name, value in chosen.items() if value is not None}
    if sampling.top_k is not None:  # not OpenAI's; vLLM's Responses server takes it
        body["extra_body"] = {"top_k": sampling.top_k}
    return body


def _items(message: Message) -> list[Any]:
    if isinstance(message, ToolResult):
        result = {"type": "function_call_output", "call_id": message.call_id}
        return [result | {"output": message.text}]
    if isinstance(message, AssistantMessage):
        if message.replay:
            return list(message.replay)
        text = {"type": "message", "role": "assistant", "content": message.text}
        calls = [
            {"type": "function_call", "call_id": c.id, "name": c.name, "arguments": c.arguments}
            for c in message.calls
        ]
        return [text, *calls] if message.text else calls
    content = [
        {"type": "input_text", "text": piece}
        if isinstance(piece, str)
        else {"type": "input_image", "image_url": data_url(piece), "detail": "high"}
        for piece in pieces(message)
    ]
    return [{"type": "message", "role": "user", "content": content}]


def usage_of(body: Mapping[str, Any]) -> Usage | None:
    """Billed tokens of a response body."""
    return inclusive_usage(body.get("usage"), "input", "output")


def answer_of(body: Mapping[str, Any]) -> Answer | ProviderFailure | None:
    """What a response body says; None when it is no response."""
    status, output, error = body.get("status"), body.get("output"), body.get("error")
    if status not in ("completed", "incomplete", None) or (error and not output):
        details = error if isinstance(error, Mapping) else {}
        code = details.get("code") or (status if status not in ("failed", None) else "unknown")
        return ProviderFailure(str(code), str(details.get("message") or ""))
    if not isinstance(output, list):
        return None
    items = [item for item in output if isinstance(item, dict)]
    calls, texts = [], []
    for number, item in enumerate(items):
        if item.get("type") == "function_call":
            call_id = str(item.get("call_id") or item.get("id") or f"call_{number}")
            name, arguments = str(item.get("name") or ""), raw_arguments(item.get("arguments"))
            calls.append(ToolCall(call_id, name, arguments))
        elif item.get("type") == "message" and isinstance(item.get("content"), list):
            parts = [part for part in item["content"] if isinstance(part, dict)]
            written = [part.get("text") or part.get("refusal") for part in parts]
            texts += [text for text in written if isinstance(text, str)]
    # Reasoning that led to nothing (cut off by the token limit) is refused when sent back: it lacks
    # the item that must follow it.
    while items and items[-1].get("type") == "reasoning":
        items.pop()
    return Answer(tuple(calls), "\n".join(texts), status == "incomplete", tuple(items))
