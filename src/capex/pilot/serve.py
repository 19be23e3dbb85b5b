"""`capex pilot serve`: the pilot behind the Responses and the Chat Completions wire on this
machine, for trying the wires without a key.

    capex pilot serve --port 8009
    OPENAI_API_KEY=none OPENAI_BASE_URL=http://127.0.0.1:8009/v1 \\
        capex collect kitchen:CloseFridge --model openai:pilot ..
    capex collect kitchen:CloseFridge --model chat:pilot@http://127.0.0.1:8009/v1 ..

A request's model names the stand-in and its settings (pilot, pilot:3, apprentice:0.3,1). Replies
are whole, never streamed. It binds to loopback only.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Mapping, Sequence
from http.server import ThreadingHTTPServer
from typing import Any

from capex.errors import CapexError, ErrorCode
from capex.loopback import JsonHandler, Refused, listen, read_object
from capex.models import (
    AssistantMessage,
    Message,
    Picture,
    Request,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
)
from capex.models.body import loads
from capex.pilot import Pilot, make, make_apprentice
from capex.pilot.prompt_parser import parse

TEXTS = ("text", "input_text", "output_text")  # the kinds of a part that is text, on either wire
STAND_INS: Mapping[str, Callable[[str], Pilot]] = {"pilot": make, "apprentice": make_apprentice}
PATHS = "/v1/responses, /v1/chat/completions and /v1/models"


def server(port: int) -> ThreadingHTTPServer:
    """A server on the loopback address, not yet running; port 0 takes any free one."""
    return listen(port, _Handler)


class _Handler(JsonHandler):
    def error(self, sentence: str, api_code: str) -> Mapping[str, Any]:
        kind = "invalid_request_error"
        return {"error": {"message": sentence, "type": kind, "code": api_code, "param": None}}

    def get(self) -> Mapping[str, Any]:
        """The list of models, as clients ask for it."""
        if self.path.rstrip("/") != "/v1/models":
            raise Refused(404, f"there is nothing at {self.path}; this server has {PATHS}")
        only = {"id": "pilot", "object": "model", "created": 0, "owned_by": "capex, a stand-in"}
        return {"object": "list", "data": [only]}

    def post(self, body: bytes) -> Mapping[str, Any]:
        """Answer a request on either wire."""
        path = self.path.partition("?")[0].rstrip("/")
        if path not in WIRES:
            raise Refused(404, f"there is nothing at {path}; this server has {', '.join(WIRES)}")
        read, write = WIRES[path]
        value = read_object(body, loads=lambda raw: loads(raw.decode("utf-8")))
        if value.get("stream"):
            raise CapexError(
                "this server does not stream; send stream=false", code=ErrorCode.BAD_REQUEST
            )
        name, request = str(value.get("model", "")), read(value)
        kind, _, rest = name.partition(":")
        if kind not in STAND_INS:
            asks = "pilot, pilot:SEED or apprentice:SKILL,SEED"
            sentence = f"there is no model '{name}' here; ask for {asks}"
            raise Refused(404, sentence, "model_not_found")
        pilot = STAND_INS[kind](rest)
        try:
            reply = pilot.complete(request)
        except ValueError as problem:
            raise CapexError(str(problem), code=ErrorCode.BAD_REQUEST) from None
        assert reply.usage is not None
        return write(name, hashlib.sha256(body).hexdigest()[:24], reply.calls, reply.usage)


def read_responses(body: Mapping[str, Any]) -> Request:
    """A Responses body as a request, with the typed values of its texts."""
    messages: list[Message] = []
    calls: list[ToolCall] = []

    def flush() -> None:
        if calls:
            messages.append(AssistantMessage(tuple(calls)))
            calls.clear()

    for item in _list(body, "input"):
        kind = item.get("type", "message")
        if kind == "function_call":
            calls.append(_call(item.get("call_id"), item))
            continue
        if kind not in ("message", "function_call_output"):
            continue  # reasoning of another model
        flush()
        if kind == "function_call_output":
            messages.append(ToolResult(str(item.get("call_id")), str(item.get("output"))))
        elif item.get("role") == "user":
            messages.append(UserMessage(_parts(item.get("content"))))
    flush()
    return _request(str(body.get("instructions") or ""), messages, _list(body, "tools"), body)


def read_chat(body: Mapping[str, Any]) -> Request:
    """A Chat Completions body as a request, with the typed values of its texts."""
    system, messages = "", list[Message]()
    for said in _list(body, "messages"):
        role = said.get("role")
        if role in ("system", "developer"):
            system = "".join(p.text for p in _parts(said.get("content")) if isinstance(p, Text))
        elif role == "assistant":
            given = said.get("tool_calls") or ()
            calls = [_call(c.get("id"), _object(c.get("function"))) for c in given]
            messages.append(AssistantMessage(tuple(calls)))
        elif role == "tool":
            messages.append(ToolResult(str(said.get("tool_call_id")), str(said.get("content"))))
        elif role == "user":
            messages.append(UserMessage(_parts(said.get("content"))))
    offered = [_object(t.get("function")) for t in _list(body, "tools")]
    return _request(system, messages, offered, body)


def _call(call_id: Any, function: Mapping[str, Any]) -> ToolCall:
    return ToolCall(str(call_id), str(function.get("name")), str(function.get("arguments")))


def _request(
    system: str,
    messages: Sequence[Message],
    offered: Sequence[Mapping[str, Any]],
    body: Mapping[str, Any],
) -> Request:
    tools = tuple(
        Tool(str(f.get("name")), str(f.get("description", "")), _object(f.get("parameters")))
        for f in offered
    )
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        choice = str(
            choice.get("name") or _object(choice.get("function")).get("name") or "required"
        )
    tool_choice = choice if isinstance(choice, str) else "auto"
    return parse(Request(system, tuple(messages), tools, tool_choice=tool_choice))


def write_responses(
    model: str, key: str, calls: tuple[ToolCall, ...], usage: Usage
) -> dict[str, Any]:
    """A reply on the Responses wire."""
    rows = [
        {
            "type": "function_call",
            "id": f"fc_{key}_{k}",
            "call_id": c.id,
            "name": c.name,
            "arguments": c.arguments,
            "status": "completed",
        }
        for k, c in enumerate(calls)
    ]
    return {
        "id": f"resp_{key}",
        "object": "response",
        "created_at": 0,
        "model": model,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "output": rows,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": usage.fresh,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": usage.output,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage.fresh + usage.output,
        },
    }


def write_chat(model: str, key: str, calls: tuple[ToolCall, ...], usage: Usage) -> dict[str, Any]:
    """A reply on the Chat Completions wire."""
    rows = [
        {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
        for c in calls
    ]
    message = {"role": "assistant", "content": None, "tool_calls": rows}
    return {
        "id": f"chatcmpl-{key}",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [
            {"index": 0, "message": message, "finish_reason": "tool_calls", "logprobs": None}
        ],
        "usage": {
            "prompt_tokens": usage.fresh,
            "completion_tokens": usage.output,
            "total_tokens": usage.fresh + usage.output,
        },
    }


WIRES = {
    "/v1/responses": (read_responses, write_responses),
    "/v1/chat/completions": (read_chat, write_chat),
}


def _parts(content: Any) -> tuple[Text | Picture, ...]:
    """Texts and pictures in order; the text right before a picture is its label."""
    if isinstance(content, str):
        return (Text(content),)
    parts: list[Text | Picture] = []
    for part in content if isinstance(content, list) else ():
        if not isinstance(part, dict):
            continue
        if part.get("type") in TEXTS:
            parts.append(Text(str(part.get("text", ""))))
        elif part.get("type") in ("input_image", "image_url"):
            address = part.get("image_url")
            label = parts.pop() if parts and isinstance(parts[-1], Text) else Text("")
            assert isinstance(label, Text)
            url = address.get("url") if isinstance(address, dict) else address
            parts.append(Picture(label.text, _png(url)))
    return tuple(parts)


def _png(address: Any) -> bytes:
    head, comma, encoded = str(address).partition(",")
    if not comma or not head.startswith("data:image/") or not head.endswith(";base64"):
        raise CapexError(
            "a picture must come as a data URL (data:image/png;base64,..); nothing is fetched",
            code=ErrorCode.BAD_REQUEST,
        )
    try:
        return base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise CapexError(f"a picture is no base64: {error}", code=ErrorCode.BAD_REQUEST) from None


def _list(body: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    found = body.get(key) or []
    if isinstance(found, str):
        return [{"type": "message", "role": "user", "content": found}]
    if not isinstance(found, list):
        raise CapexError(
            f"'{key}' is {type(found).__name__}; it must be a list", code=ErrorCode.BAD_REQUEST
        )
    return [item for item in found if isinstance(item, dict)]


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
