"""`capex pilot serve`: the pilot behind the Responses and the Chat Completions wire on this
machine, for trying the wires without a key.

    capex pilot serve --port 8009
    OPENAI_API_KEY=none OPENAI_BASE_URL=http://127.0.0.1:8009/v1 \\
        capex collect kitchen:CloseFridge --model openai:pilot ..
    capex collect kitchen:CloseFridge --model chat:pilot@http://127.0.0.1:8009/v1 ..

A request's model names the pilot and its settings (pilot, pilot:3). Replies are whole, never
streamed. It binds to loopback only.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from capex.errors import CapexError
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
from capex.models.pilot import make

HOST = "127.0.0.1"
BODY_MAX = 64 * 2**20
DRAIN_MAX = 4 * BODY_MAX
SEEN_FROM = ("text", "input_text", "output_text")


class BadBody(ValueError):
    """A body that is no request of the wire; the sentence goes back to the client."""


def server(port: int) -> ThreadingHTTPServer:
    """A server on the loopback address, not yet running; port 0 takes any free one."""
    try:
        return ThreadingHTTPServer((HOST, port), _Handler)
    except (OSError, OverflowError) as error:
        raise CapexError(
            f"port {port} of {HOST} cannot be used ({error}); choose another --port, or 0 for any"
            " free one"
        ) from None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Nothing is logged: requests are pictures."""

    def do_GET(self) -> None:
        """The list of models, as clients ask for it."""
        if self.path.rstrip("/") == "/v1/models":
            only = {"id": "pilot", "object": "model", "created": 0, "owned_by": "capex, a stand-in"}
            self._send(200, {"object": "list", "data": [only]})
        else:
            self._refuse(
                404,
                f"there is nothing at {self.path}; this server has /v1/responses,"
                " /v1/chat/completions and /v1/models",
            )

    def do_POST(self) -> None:
        """Answer a request on either wire."""
        path = self.path.partition("?")[0].rstrip("/")
        length = self.headers.get("Content-Length", "")
        if not re.fullmatch(r"[0-9]{1,12}", length) or int(length) > BODY_MAX:
            self.close_connection = True
            self._drain(int(length) if re.fullmatch(r"[0-9]{1,12}", length) else 0)
            self._refuse(
                413,
                f"the body's length is '{length[:40]}'; it must be a number of at most {BODY_MAX}",
            )
            return
        raw = self.rfile.read(int(length))
        wires = {
            "/v1/responses": (read_responses, write_responses),
            "/v1/chat/completions": (read_chat, write_chat),
        }
        if path not in wires:
            self._refuse(404, f"there is nothing at {path}; this server has {', '.join(wires)}")
            return
        read, write = wires[path]
        try:
            body = loads(raw.decode("utf-8"))
            if not isinstance(body, dict):
                raise BadBody("the body is no JSON object")
            if body.get("stream"):
                raise BadBody("this server does not stream; send stream=false")
            name, request = str(body.get("model", "")), read(body)
            kind, _, rest = name.partition(":")
            if kind != "pilot":
                self._refuse(
                    404,
                    f"there is no model '{name}' here; ask for pilot or pilot:SEED",
                    "model_not_found",
                )
                return
            reply = make(rest).complete(request)
        except (BadBody, CapexError, ValueError) as problem:
            self._refuse(400, str(problem))
            return
        except Exception as problem:
            # whatever a foreign body led to: its sender gets an answer, and the server goes on
            self._refuse(
                500,
                f"the pilot cannot answer this request ({type(problem).__name__}: {problem})",
                "server_error",
            )
            return
        assert reply.usage is not None
        self._send(200, write(name, hashlib.sha256(raw).hexdigest()[:24], reply.calls, reply.usage))

    def _drain(self, length: int) -> None:
        """Read past a body that is too large, as far as is decent: clients look for an answer only
        when they have sent it.
        """
        left = min(length, DRAIN_MAX)
        while left > 0 and (read := len(self.rfile.read(min(left, 2**20)))):
            left -= read

    def _refuse(self, status: int, sentence: str, code: str = "invalid_request_error") -> None:
        self._send(
            status,
            {
                "error": {
                    "message": sentence,
                    "type": "invalid_request_error",
                    "code": code,
                    "param": None,
                }
            },
        )

    def _send(self, status: int, body: Mapping[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def read_responses(body: Mapping[str, Any]) -> Request:
    """A Responses body as a request."""
    messages: list[Message] = []
    calls: list[ToolCall] = []

    def flush() -> None:
        if calls:
            messages.append(AssistantMessage(tuple(calls)))
            calls.clear()

    for item in _list(body, "input"):
        kind = item.get("type", "message")
        if kind == "function_call":
            calls.append(
                ToolCall(
                    str(item.get("call_id")), str(item.get("name")), str(item.get("arguments"))
                )
            )
            continue
        if kind not in ("message", "function_call_output"):
            continue  # reasoning of another model
        flush()
        if kind == "function_call_output":
            messages.append(ToolResult(str(item.get("call_id")), str(item.get("output"))))
        elif item.get("role") == "user":
            messages.append(UserMessage(_parts(item.get("content"))))
    flush()
    tools = tuple(
        Tool(str(t.get("name")), str(t.get("description", "")), _object(t.get("parameters")))
        for t in _list(body, "tools")
    )
    return Request(
        str(body.get("instructions") or ""),
        tuple(messages),
        tools,
        tool_choice=_choice(body.get("tool_choice")),
    )


def read_chat(body: Mapping[str, Any]) -> Request:
    """A Chat Completions body as a request."""
    system, messages = "", list[Message]()
    for said in _list(body, "messages"):
        role = said.get("role")
        if role in ("system", "developer"):
            system = "".join(p.text for p in _parts(said.get("content")) if isinstance(p, Text))
        elif role == "assistant":
            functions = [
                (str(c.get("id")), _object(c.get("function"))) for c in said.get("tool_calls") or ()
            ]
            messages.append(
                AssistantMessage(
                    tuple(
                        ToolCall(i, str(f.get("name")), str(f.get("arguments")))
                        for i, f in functions
                    )
                )
            )
        elif role == "tool":
            messages.append(ToolResult(str(said.get("tool_call_id")), str(said.get("content"))))
        elif role == "user":
            messages.append(UserMessage(_parts(said.get("content"))))
    functions_offered = [_object(t.get("function")) for t in _list(body, "tools")]
    tools = tuple(
        Tool(str(f.get("name")), str(f.get("description", "")), _object(f.get("parameters")))
        for f in functions_offered
    )
    return Request(system, tuple(messages), tools, tool_choice=_choice(body.get("tool_choice")))


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


def _parts(content: Any) -> tuple[Text | Picture, ...]:
    """Texts and pictures in order; the text right before a picture is its label."""
    if isinstance(content, str):
        return (Text(content),)
    parts: list[Text | Picture] = []
    for part in content if isinstance(content, list) else ():
        if not isinstance(part, dict):
            continue
        if part.get("type") in SEEN_FROM:
            parts.append(Text(str(part.get("text", ""))))
        elif part.get("type") in ("input_image", "image_url"):
            address = part.get("image_url")
            label = parts.pop() if parts and isinstance(parts[-1], Text) else Text("")
            assert isinstance(label, Text)
            parts.append(
                Picture(
                    label.text, _png(address.get("url") if isinstance(address, dict) else address)
                )
            )
    return tuple(parts)


def _png(address: Any) -> bytes:
    head, comma, encoded = str(address).partition(",")
    if not comma or not head.startswith("data:image/") or not head.endswith(";base64"):
        raise BadBody(
            "a picture must come as a data URL (data:image/png;base64,..); nothing is fetched"
        )
    try:
        return base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise BadBody(f"a picture is no base64: {error}") from None


def _choice(given: Any) -> str:
    if isinstance(given, str):
        return given
    if isinstance(given, dict):
        return str(given.get("name") or _object(given.get("function")).get("name") or "required")
    return "auto"


def _list(body: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    found = body.get(key) or []
    if isinstance(found, str):
        return [{"type": "message", "role": "user", "content": found}]
    if not isinstance(found, list):
        raise BadBody(f"'{key}' is {type(found).__name__}; it must be a list")
    return [item for item in found if isinstance(item, dict)]


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
