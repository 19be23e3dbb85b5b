"""A loopback server that speaks the Responses, the Chat Completions and the Messages wire from a list of turns, faults included.

It keeps its own books: requests seen, tokens that it reported, and requests that it worked on without the client learning what they cost.
A client's ledger must agree with them exactly. Models by the names of Claude and Gemini are as particular as the providers document
(`refusal_of`): such a request is refused and takes no turn.
"""

from __future__ import annotations

import hashlib
import json
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import urlsplit

from capex.models import Usage

Wire = Literal["responses", "chat", "messages"]
PATHS: dict[str, Wire] = {
    "/v1/responses": "responses",
    "/v1/chat/completions": "chat",
    "/v1/messages": "messages",
}
# Tool choice is `auto` or `none`, thinking is always on, and sampling is not a setting ("What's new in Claude Opus 5.5").
CLAUDE_UNFORCED = (
    "claude-opus-5-5",
    "claude-sonnet-5-5",
    "claude-haiku-5-5",
    "claude-fable-5-1",
    "claude-mythos-5-1",
)
CLAUDE_WITHOUT_EFFORT = ("claude-haiku-4-5", "claude-sonnet-4-5", "claude-3-7-sonnet-latest")
USAGE = Usage(fresh=700, cached=250, cache_write=50, output=90, reasoning=40)


@dataclass(frozen=True)
class Turn:
    """What the server does with one request. Without a fault it answers with calls and text."""

    calls: (
        Sequence[tuple[str, Any]] | Callable[[dict[str, Any]], Sequence[tuple[str, Any]]]
    ) = ()  # or what the request makes of it
    text: str = ""
    usage: Usage | None = USAGE
    fault: str = ""  # "http", "reset", "deaf", "silent", "creep", "stall", "drip", "pour", "truncated", "failed", "body"
    incomplete: bool = False
    status: int = 200
    code: str = ""
    message: str = "as scripted"
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None  # sent as it is
    worked: bool = False  # a fault after work was done: the client is not told what it cost


class WireServer:
    """`with WireServer([turns]) as server`: one turn per request, then HTTP 500. `receive_buffer` makes it take in little unread."""

    def __init__(self, turns: Sequence[Turn], receive_buffer: int | None = None):
        self.turns = list(turns)
        self.requests = 0
        self.reported: list[Usage] = []
        self.unreported = 0
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.refused: list[str] = []
        self.issued: dict[str, Any] = {}  # id of a call -> what the model said with it
        self.closing = threading.Event()
        self._lock = threading.Lock()
        self._buffer = receive_buffer

    def __enter__(self) -> WireServer:
        outer = self

        class Handler(_Handler):
            books = outer

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False

            def server_bind(self) -> None:
                if outer._buffer is not None:
                    self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, outer._buffer)
                super().server_bind()

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        return f"{self.root}/v1"

    def take(self) -> Turn:
        with self._lock:
            self.requests += 1
            return (
                self.turns.pop(0)
                if self.turns
                else Turn(fault="http", status=500, message="no turn left")
            )

    def put_back(self, turn: Turn, sentence: str) -> None:
        """A request was refused: its turn waits for the next."""
        with self._lock:
            self.turns.insert(0, turn)
            self.refused.append(sentence)

    def account(self, turn: Turn) -> None:
        """Enter a turn before its last byte is sent, so that the books are ready when the client is."""
        with self._lock:
            if turn.worked or (not turn.fault and turn.usage is None):
                self.unreported += 1
            elif not turn.fault or turn.fault == "failed":
                self.reported += [turn.usage] if turn.usage is not None else []


class _Handler(BaseHTTPRequestHandler):
    books: WireServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def handle(self) -> None:
        self.turn = self.books.take()
        if self.turn.fault == "deaf":  # accepted by the kernel, read by nobody
            self.books.closing.wait(10)
            return
        self.close_connection = True
        self.handle_one_request()

    def do_POST(self) -> None:
        turn, books = self.turn, self.books
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        books.bodies.append(request)
        books.headers.append({name.lower(): value for name, value in self.headers.items()})
        wire = PATHS[urlsplit(self.path).path]  # a proxy is sent the whole address
        if (sentence := refusal_of(wire, request, books.issued)) is not None:
            books.put_back(turn, sentence)
            self.reply(400, json.dumps(REFUSALS[wire](sentence)).encode(), {})
            return
        books.account(turn)
        if callable(turn.calls):
            turn = replace(turn, calls=turn.calls(request))
        if turn.fault == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        elif turn.fault == "silent":
            books.closing.wait(10)
        elif turn.fault == "creep":  # a header without end, a byte at a time
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
            while not books.closing.wait(0.02):
                try:
                    self.wfile.write(b"x")
                except OSError:  # the client has left
                    return
        elif turn.fault == "http":
            error: dict[str, Any] = {
                "error": {"message": turn.message, "type": "test", "code": turn.code or None}
            }
            self.reply(
                turn.status,
                turn.body if turn.body is not None else json.dumps(error).encode(),
                turn.headers,
            )
        elif turn.fault == "body":
            self.reply(turn.status, turn.body or b"", turn.headers)
        else:
            said = BODIES[wire](turn, request)
            _sign(wire, said, request, books)
            self.answer(json.dumps(said).encode(), turn)

    def answer(self, body: bytes, turn: Turn) -> None:
        if turn.fault == "truncated":
            body = body[: len(body) // 2]
        if turn.fault not in ("stall", "drip", "pour"):
            self.reply(200, body, turn.headers)
            return
        self.start(
            200, None if turn.fault == "pour" else len(body), turn.headers
        )  # without a length, the end of the connection is the body's
        self.wfile.write(body[:10])
        for at in range(10, len(body)):
            if self.books.closing.wait(10 if turn.fault == "stall" else 0.02):
                return
            try:
                self.wfile.write(body[at : at + 1])
            except OSError:  # the client has left
                return

    def reply(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.start(status, len(body), headers)
        try:
            self.wfile.write(body)
        except OSError:  # too much for the client
            self.close_connection = True

    def start(self, status: int, length: int | None, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Type": "application/json",
            "x-request-id": "req_1",
            "set-cookie": "c=1",
            **headers,
        }.items():
            self.send_header(name, value)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()


def refusal_of(wire: Wire, request: dict[str, Any], issued: dict[str, Any]) -> str | None:
    """Why the provider of the model refuses a request, if it does."""
    model = request["model"].rpartition("/")[2].replace(".", "-")
    choice = request.get("tool_choice", "auto")
    forced = (
        choice.get("type") in ("any", "tool", "function")
        if isinstance(choice, dict)
        else choice == "required"
    )
    if model in CLAUDE_UNFORCED and forced:
        return 'tool_choice: type "tool" and "any" are not supported for this model.'
    if wire == "messages":
        return _refused_message(model, request, issued)
    if wire == "chat" and model.startswith("gemini-3"):
        for message in request["messages"]:
            for position, call in enumerate(message.get("tool_calls", ())[:1]):
                if call.get("extra_content") != issued.get(call["id"]):
                    return (
                        "Function call is missing a thought_signature in functionCall parts."
                        f" Additional data, function call `default_api:{call['function']['name']}`, position {position}."
                    )
    return None


def _refused_message(model: str, request: dict[str, Any], issued: dict[str, Any]) -> str | None:
    if "effort" in request.get("output_config", {}):
        if model in CLAUDE_WITHOUT_EFFORT:
            return "This model does not support the effort parameter."
        if (level := request["output_config"]["effort"]) not in (
            "low",
            "medium",
            "high",
            "xhigh",
            "max",
        ):
            return f"output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max', not {level!r}"
    if model not in CLAUDE_UNFORCED:
        return None
    if (kind := request.get("thinking", {}).get("type", "adaptive")) != "adaptive":
        return f'"thinking.type.{kind}" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.'
    for name in ("temperature", "top_p", "top_k"):
        if name in request:
            return f"{name}: Sampling parameters are not supported for this model."
    for at, message in enumerate(request["messages"]):
        if message["role"] != "assistant":
            continue
        for block in message["content"]:
            if block["type"] == "thinking" and block["signature"] != _signature(request, at):
                return f"messages.{at}.content: Invalid `signature` in `thinking` block: bound to a different conversation"
            if block["type"] == "tool_use" and issued.get(block["id"]) != message["content"]:
                return f"messages.{at}.content: `thinking` blocks in an assistant message cannot be modified. They must remain as they were in the original response."
    return None


def _signature(request: dict[str, Any], messages: int) -> str:
    """Of a thinking block: it is bound to all that stood before it."""
    before = [request.get("system"), request.get("tools"), request["messages"][:messages]]
    return hashlib.sha256(json.dumps(before).encode()).hexdigest()


def _sign(wire: Wire, body: dict[str, Any], request: dict[str, Any], books: WireServer) -> None:
    """Add what the particular models say beside their calls, and remember it."""
    model = request["model"].rpartition("/")[2]
    if wire == "messages" and model in CLAUDE_UNFORCED and "content" in body:
        thought = {
            "type": "thinking",
            "thinking": "",
            "signature": _signature(request, len(request["messages"])),
        }
        body["content"].insert(0, thought)
        for call in [block for block in body["content"] if block["type"] == "tool_use"]:
            call["id"] = f"toolu_{books.requests}_{call['id']}"
            books.issued[call["id"]] = body["content"]
    if wire == "chat" and model.startswith("gemini-3"):
        for number, call in enumerate(body["choices"][0]["message"].get("tool_calls", ())):
            call["id"] = f"function-call-{books.requests}-{number}"
            if number == 0:  # of calls in parallel the first alone is signed
                call["extra_content"] = {"google": {"thought_signature": f"sig{books.requests}=="}}
                books.issued[call["id"]] = call["extra_content"]


REFUSALS: dict[Wire, Callable[[str], Any]] = {
    "messages": lambda sentence: {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": sentence},
        "request_id": "req_1",
    },
    "chat": lambda sentence: [
        {"error": {"code": 400, "message": sentence, "status": "INVALID_ARGUMENT"}}
    ],
    "responses": lambda sentence: {"error": {"type": "invalid_request_error", "message": sentence}},
}


def _arguments(given: Any) -> Any:
    return json.dumps(given) if isinstance(given, dict) else given


def response_body(turn: Turn, request: dict[str, Any]) -> dict[str, Any]:
    """A `Response` as OpenAI sends it, the system text repeated in it."""
    output: list[dict[str, Any]] = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
    ]
    status = (
        "failed" if turn.fault == "failed" else "incomplete" if turn.incomplete else "completed"
    )
    for number, (name, arguments) in enumerate(turn.calls):
        call = {
            "id": f"fc_{number}",
            "call_id": f"call_{number}",
            "name": name,
            "arguments": _arguments(arguments),
        }
        output.append(
            {
                "type": "function_call",
                **call,
                "status": "incomplete" if turn.incomplete else "completed",
            }
        )
    if turn.text:
        content = [{"type": "output_text", "text": turn.text, "annotations": []}]
        output.append(
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": content,
            }
        )
    body: dict[str, Any] = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_790_000_000,
        "model": request["model"],
        "status": status,
        "error": {"code": turn.code, "message": turn.message} if turn.fault == "failed" else None,
        "incomplete_details": {"reason": "max_output_tokens"} if turn.incomplete else None,
        "instructions": request.get("instructions"),
        "output": [] if turn.fault == "failed" else output,
        "parallel_tool_calls": True,
        "tool_choice": request.get("tool_choice", "auto"),
        "tools": request.get("tools", []),
        "temperature": 1.0,
        "top_p": 1.0,
        "metadata": {},
    }
    if (u := turn.usage) is not None:
        whole = u.fresh + u.cached + u.cache_write
        body["usage"] = {
            "input_tokens": whole,
            "input_tokens_details": {
                "cached_tokens": u.cached,
                "cache_write_tokens": u.cache_write,
            },
            "output_tokens": u.output,
            "output_tokens_details": {"reasoning_tokens": u.reasoning},
            "total_tokens": whole + u.output,
        }
    return body


def completion_body(turn: Turn, request: dict[str, Any]) -> dict[str, Any]:
    """A `ChatCompletion` as vLLM sends it."""
    if turn.fault == "failed":
        return {"error": {"code": turn.code, "message": turn.message}} | (
            {"usage": _chat_usage(turn.usage)} if turn.usage else {}
        )
    calls = [
        {
            "id": f"call_{n}",
            "type": "function",
            "function": {"name": name, "arguments": _arguments(arguments)},
        }
        for n, (name, arguments) in enumerate(turn.calls)
    ]
    message = {"role": "assistant", "content": turn.text or None, "refusal": None} | (
        {"tool_calls": calls} if calls else {}
    )
    reason = "length" if turn.incomplete else "tool_calls" if calls else "stop"
    body: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_790_000_000,
        "model": request["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": reason, "logprobs": None}],
    }
    return body | ({"usage": _chat_usage(turn.usage)} if turn.usage else {})


def _chat_usage(u: Usage) -> dict[str, Any]:
    whole = u.fresh + u.cached + u.cache_write
    return {
        "prompt_tokens": whole,
        "prompt_tokens_details": {"cached_tokens": u.cached, "cache_write_tokens": u.cache_write},
        "completion_tokens": u.output,
        "completion_tokens_details": {"reasoning_tokens": u.reasoning},
        "total_tokens": whole + u.output,
    }


def message_body(turn: Turn, request: dict[str, Any]) -> dict[str, Any]:
    """A `Message` as Anthropic sends it: input excludes the cache."""
    if turn.fault == "failed":
        return {"type": "error", "error": {"type": turn.code, "message": turn.message}}
    content: list[dict[str, Any]] = [{"type": "text", "text": turn.text}] if turn.text else []
    content += [
        {"type": "tool_use", "id": f"call_{n}", "name": name, "input": given}
        for n, (name, given) in enumerate(turn.calls)
    ]
    body: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": request["model"],
        "content": content,
        "stop_reason": "max_tokens" if turn.incomplete else "tool_use",
        "stop_sequence": None,
    }
    if (u := turn.usage) is not None:
        body["usage"] = {
            "input_tokens": u.fresh,
            "cache_read_input_tokens": u.cached,
            "cache_creation_input_tokens": u.cache_write,
            "output_tokens": u.output,
            "output_tokens_details": {"thinking_tokens": u.reasoning},
        }
    return body


BODIES = {"responses": response_body, "chat": completion_body, "messages": message_body}
