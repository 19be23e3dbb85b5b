"""A loopback server that speaks the Responses, the Chat Completions and the Messages wire from a list of turns, faults included.

It keeps its own books: requests seen, tokens that it reported, and requests that it worked on without the client learning what they cost.
A client's ledger must agree with them exactly.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

from capex.models import Usage

Wire = Literal["responses", "chat", "messages"]
PATHS: dict[str, Wire] = {
    "/v1/responses": "responses",
    "/v1/chat/completions": "chat",
    "/v1/messages": "messages",
}
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
        books.account(turn)
        wire = PATHS[self.path]
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
            self.answer(json.dumps(BODIES[wire](turn, request)).encode(), turn)

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
