"""`chat:NAME@URL`: any OpenAI-compatible server (vLLM and others), by Chat Completions.

A model without function calling answers with JSON in its text; with `chat-text:NAME@URL` the tools
are also described in text instead of being sent as functions. A key, where the server wants one,
comes from CAPEX_CHAT_API_KEY; OpenAI's own key and headers never go to such a server.
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

from capex.errors import CapexError, ErrorCode
from capex.models import (
    Answer,
    AssistantMessage,
    ChatSettings,
    Request,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
    claude,
    wire,
)
from capex.models.body import (
    ProviderFailure,
    argument_object,
    data_url,
    inclusive_usage,
    loads,
    pieces,
    raw_arguments,
    tool_choice,
)
from capex.models.http import Dialect, HttpModel
from capex.models.retry import RetryPolicy

KEY = "CAPEX_CHAT_API_KEY"
NO_KEY = "none"  # the SDK insists on one
PAPER = ChatSettings()
IN_TEXT = "text_"  # begins the id of a call that was read from text
# Fields of a reply's message that are written anew for the next round. All others go back as they
# came: reasoning_content, reasoning_details, Gemini's extra_content with its thought signature, ..
REWRITTEN = ("role", "content", "refusal", "tool_calls", "function_call")
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
    policy: RetryPolicy | None = None,
    tools_in_text: bool = False,
) -> HttpModel:
    """From chat:NAME@URL. `chat` has the server's context, and what a request leaves open."""
    import openai

    kind = "chat-text" if tools_in_text else "chat"
    parts = re.fullmatch(r"(.+?)@(https?://.+)", rest)
    if not parts:
        raise CapexError(
            f"'{kind}:{rest}' lacks a name or an address; write {kind}:NAME@URL, for example"
            f" {kind}:Qwen/Qwen3-VL-8B@http://localhost:8000/v1",
            code=ErrorCode.BAD_SETTING,
        )
    model, url = parts[1], wire.check_url(parts[2], "the address of the model")
    url += "/v1" if url.count("/") == 2 else ""  # a bare host: what vLLM and most others serve
    name = f"{kind}:{model}@{url}"
    lines = os.environ.get("OPENAI_CUSTOM_HEADERS", "").splitlines()
    foreign: Any = {line.partition(":")[0].strip(): openai.Omit() for line in lines if ":" in line}
    key = wire.key_from(KEY, name, NO_KEY)
    headers = {**foreign, "Authorization": f"Bearer {key}"}
    client = wire.connect(openai.OpenAI, key, url, default_headers=headers)
    client.organization = client.project = None
    endpoint = wire.Endpoint(openai, client.chat.completions.with_raw_response.create, KEY)
    dialect = Dialect(partial(body_of, chat=chat, tools_in_text=tools_in_text), answer_of, usage_of)
    forces = claude.forces_calls(model)  # behind LiteLLM, OpenRouter and the like
    return HttpModel(name, model, dialect, endpoint, policy, chat, tools_in_text, forces)


def make_text(
    rest: str, chat: ChatSettings = PAPER, *, policy: RetryPolicy | None = None
) -> HttpModel:
    """From chat-text:NAME@URL."""
    return make(rest, chat, policy=policy, tools_in_text=True)


def body_of(
    model: str, request: Request, chat: ChatSettings, tools_in_text: bool
) -> dict[str, Any]:
    """The request for Chat Completions. Effort and cache key stay out: servers differ on them."""
    asked, system = request.sampling, request.system
    chosen = {
        k: getattr(chat if getattr(asked, k) is None else asked, k)
        for k in ("temperature", "top_p", "top_k")
    }
    as_functions = bool(request.tools) and not tools_in_text
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
        functions = [
            {k: v for k, v in vars(t).items() if k != "strict" or v} for t in request.tools
        ]
        body["tools"] = [{"type": "function", "function": function} for function in functions]
        named = {"type": "function", "function": {"name": request.tool_choice}}
        body["tool_choice"] = tool_choice(request, named)
        body["parallel_tool_calls"] = True
    return body


def _messages(system: str, request: Request, as_functions: bool) -> list[dict[str, Any]]:
    """System first; user messages in a row become one: many chat templates insist on turns."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    functions: dict[str, str] = {}  # call id -> tool
    for message in request.messages:
        if isinstance(message, AssistantMessage):
            native = [c for c in message.calls if as_functions and not c.id.startswith(IN_TEXT)]
            functions |= {c.id: c.name for c in native}
            messages.append(_assistant(message, native))
        elif isinstance(message, ToolResult) and message.call_id in functions:
            result = {"role": "tool", "tool_call_id": message.call_id, "content": message.text}
            messages.append(result)
        else:
            if not messages or messages[-1]["role"] != "user":
                messages.append({"role": "user", "content": []})
            messages[-1]["content"] += _parts(message)
    for sent in messages:  # plain text as a string: servers without pictures take nothing else
        if sent["role"] == "user" and all(part["type"] == "text" for part in sent["content"]):
            sent["content"] = "\n".join(part["text"] for part in sent["content"])
    return messages


def _assistant(message: AssistantMessage, native: list[ToolCall]) -> dict[str, Any]:
    """A reply as the server sent it, fields that are unknown here included; what is broken in its
    calls is replaced.
    """
    received = message.replay[0] if message.replay else {}
    content = received.get("content")
    sent: dict[str, Any] = {
        "role": "assistant",
        "content": content if content and isinstance(content, list) else message.text or None,
    }
    if native:
        listed = _listed_calls(received)
        sent["tool_calls"] = [_sent_call(call, listed.get(call.id, {})) for call in native]
    elif not message.text:
        calls = [{"tool": c.name, "arguments": argument_object(c.arguments)} for c in message.calls]
        sent["content"] = json.dumps({"calls": calls})
    unknown = {k: v for k, v in received.items() if k not in REWRITTEN and v is not None}
    return sent | unknown


def _sent_call(call: ToolCall, received: Mapping[str, Any]) -> dict[str, Any]:
    """A call as it was received, unless its arguments are no JSON object: templates insist on one.
    Signatures hold for the text as it was, so one that can be read is not written anew.
    """
    try:
        readable = isinstance(loads(call.arguments), dict)
    except ValueError:
        readable = False
    arguments = call.arguments if readable else json.dumps(argument_object(call.arguments))
    function = {**received.get("function", {}), "name": call.name, "arguments": arguments}
    known = {"id": call.id, "type": "function", "function": function}
    return {k: v for k, v in received.items() if v is not None} | known


def _parts(message: UserMessage | ToolResult) -> list[dict[str, Any]]:
    if isinstance(message, ToolResult):
        return [{"type": "text", "text": f"Result: {message.text}"}]
    return [
        {"type": "text", "text": piece}
        if isinstance(piece, str)
        else {"type": "image_url", "image_url": {"url": data_url(piece), "detail": "high"}}
        for piece in pieces(message)
    ]


def usage_of(body: Mapping[str, Any]) -> Usage | None:
    """Billed tokens of a completion."""
    return inclusive_usage(body.get("usage"), "prompt", "completion")


def answer_of(body: Mapping[str, Any]) -> Answer | ProviderFailure | None:
    """What a completion says; None when it is no completion."""
    choices, error = body.get("choices"), body.get("error")
    if error and not choices:
        details = error if isinstance(error, Mapping) else {"message": error}
        code = details.get("code") or details.get("type") or "unknown"
        return ProviderFailure(str(code), str(details.get("message") or ""))
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        return None
    text = _text(message.get("content")) or _text(message.get("refusal"))
    calls = _native_calls(message) or calls_in_text(text)
    return Answer(calls, text, choice.get("finish_reason") == "length", (message,))


def _text(content: Any) -> str:
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, dict)]
        return "\n".join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else ""


def _listed_calls(message: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The calls that a message lists, by their ids; a missing or repeated id is made up."""
    listed = message.get("tool_calls")
    calls: dict[str, Mapping[str, Any]] = {}
    for number, item in enumerate(listed if isinstance(listed, list) else ()):
        if isinstance(item, dict) and isinstance(item.get("function"), dict):
            call_id = str(item.get("id") or f"call_{number}")
            calls[call_id if call_id not in calls else f"{call_id}_{number}"] = item
    return calls


def _native_calls(message: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    listed = ((call_id, item["function"]) for call_id, item in _listed_calls(message).items())
    return tuple(
        ToolCall(call_id, str(f.get("name") or ""), raw_arguments(f.get("arguments")))
        for call_id, f in listed
    )


def calls_in_text(text: str) -> tuple[ToolCall, ...]:
    """Tool calls written as JSON in a text: {"calls": [{"tool": NAME, "arguments": {..} or
    "arguments_json": ".."}]}. Never raises.

    The last such object counts, wherever it stands: thoughts and code fences around it do no harm.
    A single call without the list, and the {"name": .., "arguments": ..} in which many models were
    trained, are taken too.
    """
    decoder, budget = json.JSONDecoder(), SCAN_CHARACTERS
    calls: list[ToolCall] = []
    at = _OBJECT.search(text)
    while at and budget > 0:
        end = at.start() + 1
        try:
            _, end = decoder.raw_decode(text, at.start())
            calls = _calls(loads(text[at.start() : end])) or calls
        except json.JSONDecodeError as error:
            budget -= error.pos + 1
        except (ValueError, RecursionError):
            budget -= len(text)
        at = _OBJECT.search(text, end)
    mark = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]
    return tuple(replace(call, id=f"{IN_TEXT}{mark}_{number}") for number, call in enumerate(calls))


def _calls(value: Any) -> list[ToolCall]:
    listed = value.get("calls", [value]) if isinstance(value, dict) else []
    calls = []
    for item in listed if isinstance(listed, list) else [listed]:
        name = item.get("tool", item.get("name")) if isinstance(item, dict) else None
        if not isinstance(name, str):
            continue
        given = [item[k] for k in ("arguments", "arguments_json") if k in item]
        if given or "calls" in value:
            calls.append(ToolCall("", name, raw_arguments(given[0] if given else {})))
    return calls
