"""`chat:NAME@URL`: any OpenAI-compatible server (vLLM and others) on the Chat Completions wire,
through the official SDK.

Requests too long for the context are refused before sending; observers are told of them as attempts
that were not sent, so that a recorded episode meets them again. A model without function calling
answers with JSON in its text; with `chat-text:NAME@URL` the tools are also described in text
instead of being sent as functions. A key, where the server wants one, comes from
CAPEX_CHAT_API_KEY; OpenAI's own key and headers never go to such a server.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from capex.errors import CapexError
from capex.models import (
    Answer,
    AssistantMessage,
    ChatSettings,
    Request,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
    wire,
)
from capex.models.body import (
    Failed,
    argument_object,
    data_url,
    inclusive_usage,
    loads,
    pieces,
    raw_arguments,
)
from capex.models.http import Dialect, HttpModel
from capex.models.retry import Policy

KEY = "CAPEX_CHAT_API_KEY"
NO_KEY = "none"  # the SDK insists on one
PAPER = ChatSettings()
IN_TEXT = "text_"  # begins the id of a call that was read from text
# a server that sends one takes it back within the decision
REASONING_FIELDS = ("reasoning_content", "reasoning")
SCAN_CHARACTERS = 100_000_000  # bounds the search for JSON in a hostile text to about a second
_OBJECT = re.compile(r'\{\s*"')
TOOLS_IN_TEXT = """

Tools: you call them by replying with one JSON object and nothing else, in this form:
{"calls": [{"tool": "NAME", "arguments": {...}}]}
The arguments follow the JSON schema of the tool. The tools are:
"""


def make(
    rest: str,
    chat: ChatSettings = PAPER,
    *,
    policy: Policy | None = None,
    tools_in_text: bool = False,
) -> HttpModel:
    """From chat:NAME@URL. `chat` fills in what a request leaves open, and says how much the server
    holds.
    """
    import openai

    kind = "chat-text" if tools_in_text else "chat"
    parts = re.fullmatch(r"(.+?)@(https?://.+)", rest)
    if not parts:
        raise CapexError(
            f"'{kind}:{rest}' lacks a name or an address; write {kind}:NAME@URL, for example"
            f" {kind}:Qwen/Qwen3-VL-8B@http://localhost:8000/v1"
        )
    model, url = parts[1], wire.check_url(parts[2], "the address of the model")
    url += "/v1" if url.count("/") == 2 else ""  # a bare host: what vLLM and most others serve
    name = f"{kind}:{model}@{url}"
    lines = os.environ.get("OPENAI_CUSTOM_HEADERS", "").splitlines()
    foreign: Any = {line.partition(":")[0].strip(): openai.Omit() for line in lines if ":" in line}
    key = wire.key_from(KEY, name, NO_KEY)
    client = openai.OpenAI(
        api_key=key,
        base_url=url,
        max_retries=0,
        http_client=wire.http_client(),
        default_headers={**foreign, "Authorization": f"Bearer {key}"},
    )
    client.organization = client.project = None
    endpoint = wire.Endpoint(openai, client.chat.completions.with_raw_response.create, KEY)
    dialect = Dialect(partial(body_of, chat=chat, tools_in_text=tools_in_text), answer_of, usage_of)
    return HttpModel(name, model, dialect, endpoint, policy or Policy(), chat, tools_in_text)


def make_text(rest: str, chat: ChatSettings = PAPER, *, policy: Policy | None = None) -> HttpModel:
    """From chat-text:NAME@URL."""
    return make(rest, chat, policy=policy, tools_in_text=True)


def body_of(
    model: str, request: Request, chat: ChatSettings, tools_in_text: bool
) -> dict[str, Any]:
    """The request as the Chat Completions API takes it. Effort and cache key stay out: servers
    differ on them.
    """
    asked = request.sampling
    chosen = {
        k: getattr(chat if getattr(asked, k) is None else asked, k)
        for k in ("temperature", "top_p", "top_k")
    }
    as_functions = bool(request.tools) and not tools_in_text
    system = request.system
    if request.tools and tools_in_text:
        described = [
            {"name": t.name, "description": t.description, "schema": t.parameters}
            for t in request.tools
        ]
        system += TOOLS_IN_TEXT + "\n".join(json.dumps(tool) for tool in described)
        if request.tool_choice not in ("auto", "required"):
            system += f"\nIn this reply only {request.tool_choice} is allowed."
    body: dict[str, Any] = {
        "model": model,
        "messages": _messages(system, request, as_functions),
        "max_tokens": asked.max_output_tokens,
        **{k: v for k, v in chosen.items() if v is not None and k != "top_k"},
    }
    if chosen["top_k"] is not None:
        body["extra_body"] = {"top_k": chosen["top_k"]}
    if as_functions:
        body["tools"] = [_function(vars(t)) for t in request.tools]
        named = {"type": "function", "function": {"name": request.tool_choice}}
        body["tool_choice"] = (
            request.tool_choice if request.tool_choice in ("auto", "required") else named
        )
        body["parallel_tool_calls"] = True
    return body


def _function(tool: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {k: v for k, v in tool.items() if k != "strict" or v}}


def _messages(system: str, request: Request, as_functions: bool) -> list[dict[str, Any]]:
    """System first; neighbouring user messages become one, because many chat templates insist on
    turns.
    """
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    functions: dict[str, str] = {}  # call id -> tool
    for message in request.messages:
        if isinstance(message, AssistantMessage):
            native = [c for c in message.calls if as_functions and not c.id.startswith(IN_TEXT)]
            functions |= {c.id: c.name for c in native}
            messages.append(_assistant(message, native))
        elif isinstance(message, ToolResult) and message.call_id in functions:
            messages.append(
                {"role": "tool", "tool_call_id": message.call_id, "content": message.text}
            )
        else:
            parts = (
                _parts(message)
                if isinstance(message, UserMessage)
                else [{"type": "text", "text": f"Result: {message.text}"}]
            )
            if messages and messages[-1]["role"] == "user":
                messages[-1]["content"] += parts
            else:
                messages.append({"role": "user", "content": parts})
    for said in messages:  # plain text as a string: servers without pictures take nothing else
        if said["role"] == "user" and all(part["type"] == "text" for part in said["content"]):
            said["content"] = "\n".join(part["text"] for part in said["content"])
    return messages


def _assistant(message: AssistantMessage, native: list[ToolCall]) -> dict[str, Any]:
    said: dict[str, Any] = {"role": "assistant", "content": message.text or None}
    if native:
        said["tool_calls"] = [
            {
                "id": c.id,
                "type": "function",
                "function": {"name": c.name, "arguments": json.dumps(argument_object(c.arguments))},
            }
            for c in native
        ]
    elif not message.text:
        calls = [{"tool": c.name, "arguments": argument_object(c.arguments)} for c in message.calls]
        said["content"] = json.dumps({"calls": calls})
    return said | {
        k: v for item in message.replay for k, v in item.items() if k in REASONING_FIELDS
    }


def _parts(message: UserMessage) -> list[dict[str, Any]]:
    return [
        {"type": "text", "text": piece}
        if isinstance(piece, str)
        else {"type": "image_url", "image_url": {"url": data_url(piece), "detail": "high"}}
        for piece in pieces(message)
    ]


def usage_of(body: Mapping[str, Any]) -> Usage | None:
    """Billed tokens of a completion."""
    return inclusive_usage(body.get("usage"), "prompt", "completion")


def answer_of(body: Mapping[str, Any]) -> Answer | Failed | None:
    """What a completion says; None when it is no completion."""
    choices, error = body.get("choices"), body.get("error")
    if error and not choices:
        found = error if isinstance(error, Mapping) else {"message": error}
        return Failed(
            str(found.get("code") or found.get("type") or "unknown"),
            str(found.get("message") or ""),
        )
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        return None
    text = _text(message.get("content")) or _text(message.get("refusal"))
    calls = _native_calls(message) or calls_in_text(text)
    reasoning = {k: message[k] for k in REASONING_FIELDS if isinstance(message.get(k), str)}
    return Answer(
        calls, text, choice.get("finish_reason") == "length", (reasoning,) if reasoning else ()
    )


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(
            part["text"]
            for part in content
            if isinstance(part, dict) and isinstance(part.get("text"), str)
        )
    return content if isinstance(content, str) else ""


def _native_calls(message: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    listed = message.get("tool_calls")
    calls: dict[str, ToolCall] = {}
    for number, item in enumerate(listed if isinstance(listed, list) else ()):
        function = item.get("function") if isinstance(item, dict) else None
        if isinstance(function, dict):
            call_id = str(item.get("id") or f"call_{number}")
            call_id = call_id if call_id not in calls else f"{call_id}_{number}"
            calls[call_id] = ToolCall(
                call_id, str(function.get("name") or ""), raw_arguments(function.get("arguments"))
            )
    return tuple(calls.values())


def calls_in_text(text: str) -> tuple[ToolCall, ...]:
    """Tool calls written as JSON in a text: {"calls": [{"tool": NAME, "arguments": {..} or
    "arguments_json": ".."}]}. Never raises.

    The last such object counts, wherever it stands: thoughts and code fences around it do no harm.
    A single call without the list, and the {"name": .., "arguments": ..} in which many models were
    trained, are taken too.
    """
    decoder, budget = json.JSONDecoder(), SCAN_CHARACTERS
    found: list[ToolCall] = []
    at = _OBJECT.search(text)
    while at and budget > 0:
        end = at.start() + 1
        try:
            _, end = decoder.raw_decode(text, at.start())
            found = _calls(loads(text[at.start() : end])) or found
        except json.JSONDecodeError as error:
            budget -= error.pos + 1
        except (ValueError, RecursionError):
            budget -= len(text)
        at = _OBJECT.search(text, end)
    mark = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]
    return tuple(replace(call, id=f"{IN_TEXT}{mark}_{number}") for number, call in enumerate(found))


def _calls(value: Any) -> list[ToolCall]:
    listed = value.get("calls", [value]) if isinstance(value, dict) else []
    calls = []
    for item in listed if isinstance(listed, list) else [listed]:
        name = item.get("tool", item.get("name")) if isinstance(item, dict) else None
        given = (
            [item[k] for k in ("arguments", "arguments_json") if k in item]
            if isinstance(name, str)
            else []
        )
        if isinstance(name, str) and (given or "calls" in value):
            calls.append(ToolCall("", name, raw_arguments(given[0] if given else {})))
    return calls
