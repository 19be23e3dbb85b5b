"""Replies that no server should send: mutated ones, junk by a grammar, other protocols, absurd sizes, HTTP that lies.

`junk(wire, rng)` gives one as the bytes of a whole HTTP response with the name of its kind; the same generator gives the same bytes.
"""

from __future__ import annotations

import copy
import gzip
import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from capex.models import Usage
from wire_server import BODIES, Turn, Wire

REAL = json.loads((Path(__file__).parent / "golden" / "microwave_replies.json").read_text())
ACT = {"reasoning": "Up.", "delta_cm": [0, 0, 3], "confidence": 0.9, "gripper": "open"}
# Names that models were trained on elsewhere, and names that are code or paths in some language.
TOOLS = (
    *("functions.act", "act ", "ACT", "act_", "\u0430ct", "act\u200b", "multi_tool_use.parallel"),
    *("tools/call", "tools/list", "sampling/createMessage", "mcp__robot__act", "robot.act"),
    *("computer", "computer_use_preview", "str_replace_based_edit_tool", "bash", "web_search_call"),
    *("python", "code_interpreter", "browser.click", "file_search", "apply_patch", "final_answer"),
    *("assistant to=functions.act", "act<|channel|>commentary", "<|python_tag|>act", "done"),
    *("__proto__", "constructor", "__class__", "../../etc/passwd", "; rm -rf /", "{0.__init__}"),
    *("%s%n%x", "${jndi:ldap://x}", "", " ", "\x00", "locate_pixel\n", "act\r\nact", "a" * 500),
)
CONTROL = [
    *(chr(c) for c in (*range(0x20), *range(0x7F, 0xA0))),
    *("\u202e", "\u2066", "\ufeff", "\ud800", "\udfff\ud800", "\ufffe", "\u2028", "\U000e0001"),
    *("\x1b[2J\x1b[H", "\x1b]0;owned\x07", "\x1b[31m", "\r\n\r\nHTTP/1.1 200 OK\r\n\r\n{}"),
]
NUMBERS = (
    0,
    -1,
    1e308,
    -1e308,
    5e-324,
    2**53 + 1,
    2**64,
    10**30,
    -(10**400),
    0.1,
    24,
    25,
    1_000_001,
)
# Written into JSON as they are: its parser takes more than JSON has.
LITERALS = (
    "NaN",
    "-Infinity",
    "1e999",
    "-1e-999",
    "0" * 30,
    "9" * 5000,
    "9" * 4000,
    "1" + "0" * 400,
    "true",
    "nul",
)
WORDS = (
    *("output", "choices", "content", "message", "tool_calls", "function", "arguments", "input"),
    *("type", "text", "tool_use", "function_call", "status", "completed", "error", "usage", "name"),
    *("id", "call_id", "reasoning", "finish_reason", "length", "stop_reason", "code", "refusal"),
    *("act", "locate_pixel", "target_cm", "delta_cm", "chunk", "confidence", "orientation"),
    *("gripper", "base_forward_cm", "camera", "u", "v", "notes", "calls", "tool", "tokens"),
    *("input_tokens", "output_tokens", "prompt_tokens", "completion_tokens", "total_tokens"),
)
OTHERS: tuple[Any, ...] = (
    {"candidates": [{"content": {"parts": [{"functionCall": {"name": "act", "args": ACT}}]}}]},
    {
        "output": {
            "message": {"content": [{"toolUse": {"toolUseId": "1", "name": "act", "input": ACT}}]}
        }
    },
    {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "moved"}]}},
    {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "act", "arguments": ACT}},
    {
        "message": {
            "role": "assistant",
            "tool_calls": [{"function": {"name": "act", "arguments": ACT}}],
        },
        "done": True,
    },
    {"choices": [{"text": json.dumps(ACT), "index": 0}]},
    {
        "choices": [
            {"message": {"content": None, "function_call": {"name": "act", "arguments": "{}"}}}
        ]
    },
    {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]}}]},
    {
        "text": "I will act.",
        "generation_id": "1",
        "tool_calls": [{"name": "act", "parameters": ACT}],
    },
    b'data: {"choices": [{"delta": {"content": "act"}}]}\n\ndata: [DONE]\n\n',
    b'event: message_start\ndata: {"type": "message_start"}\n\n',
    b"<?xml version='1.0'?><!DOCTYPE x [<!ENTITY a 'aa'>]><x>&a;</x>",
    b"\x00\x00\x00\x02{}",
    b"PK\x03\x04",
    b"\xff\xfe{\x00}\x00",
)
SAID = (
    'Thought: move.\nAction: act\nAction Input: {"delta_cm": [0, 0, 3], "confidence": 0.9}',
    '<tool_call>\n{"name": "act", "arguments": {"delta_cm": [0, 0, 3], "confidence": 0.9}}\n</tool_call>',
    '<function=act><parameter=delta_cm>[0, 0, 3]</parameter></function>',
    '```json\n{"calls": [{"tool": "act", "arguments": {"delta_cm": [0, 0, 3], "confidence": 1}}]}\n```',
    '{"calls": [{"tool": "act"}, {"tool": "act", "arguments": 7}]} {"calls": {}}',
    '{"tool": "act", "arguments_json": "{\\"delta_cm\\": [0,0,3], \\"confidence\\": 1}"} and then {"',
    '{"name": "act", "arguments": {"name": "act", "arguments": {"name": "act", "arguments": {}}}}',
    "[TOOL_CALLS][{\"name\": \"act\", \"arguments\": {}}]",
    "{\"calls\": " * 40,
)  # fmt: skip
STATUSES = (200, 200, 200, 201, 204, 206, 302, 304, 400, 401, 402, 403, 404, 408, 409, 413, 418, 422, 429, 451, 500, 502, 503, 504, 529, 599, 999)  # fmt: skip
HEADERS = (
    *("Retry-After: nan", "Retry-After: -1", "Retry-After: 1e400", "Retry-After: Fri, 99 Foo 2026"),
    *("Retry-After: Mon, 01 Jan 0001 00:00:00 +9999", "Date: Tue, 15 Nov 99999 08:12:31 GMT"),
    *("Content-Encoding: gzip", "Content-Encoding: deflate, gzip", "Content-Encoding: br"),
    *("Content-Type: text/html; charset=utf-7", "Content-Type: application/json; charset=nonsense"),
    *(
        "Content-Type: \xff\xfe",
        "Set-Cookie: a=b",
        "Location: file:///etc/passwd",
        "X: " + "y" * 9000,
    ),
    *("x-request-id: \x1b[2J", "x-ratelimit-remaining-tokens: lots", "retry-after-ms: infinity"),
)


def junk(wire: Wire, rng: random.Random) -> tuple[str, bytes]:
    """One reply: the name of its kind and the whole HTTP response."""
    kind = rng.choices(list(KINDS), [weight for weight, _ in KINDS.values()])[0]
    made = KINDS[kind][1](wire, rng)
    return kind, made if made.startswith(b"HTTP/") or kind == "HTTP that lies" else http(made)


def http(body: bytes, status: int = 200, headers: tuple[str, ...] = ()) -> bytes:
    """A response that says how long it is."""
    head = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", "Connection: close", *headers]
    if not any(h.lower().startswith("content-type") for h in headers):
        head.append("Content-Type: application/json")
    return "\r\n".join(head).encode("latin-1", "replace") + b"\r\n\r\n" + body


def real(wire: Wire, rng: random.Random) -> dict[str, Any]:
    """A reply as a server sends it, with calls that a campaign has seen."""
    calls = rng.choice([*REAL, [["act", ACT]], [["act", ACT]]])
    usage = Usage(rng.randrange(9000), rng.randrange(500), rng.randrange(50), rng.randrange(900), 5)
    turn = Turn(
        calls=[(name, given) for name, given in calls],
        usage=usage,
        text=rng.choice(("", "I move up.")),
    )
    if rng.random() < 0.05:
        turn = replace(turn, fault="failed", code=rng.choice(("server_error", "502", "quota")))
    return copy.deepcopy(BODIES[wire](turn, {"model": "junk"}))


def text(body: Any, rng: random.Random | None = None) -> bytes:
    """A body as JSON; with a generator, one of its numbers may be written as JSON has none."""
    written = json.dumps(body)
    if rng is not None and rng.random() < 0.2 and "0" in written:
        at = rng.choice([i for i, c in enumerate(written) if c == "0"])
        written = written[:at] + rng.choice(LITERALS) + written[at + 1 :]
    return written.encode()


def leaf(rng: random.Random) -> Any:
    """A value without others in it."""
    letters = "".join(rng.choice(CONTROL) for _ in range(rng.randrange(4)))
    return rng.choice(
        (None, True, False, "", rng.choice(WORDS), rng.choice(TOOLS), letters, rng.choice(SAID),
         rng.choice(NUMBERS), rng.randrange(-9, 99), rng.random(), [], {}, "null", "[1,2,3]", "0x10")
    )  # fmt: skip


def tree(rng: random.Random, depth: int = 4) -> Any:
    """Junk by a grammar: JSON of the words that protocols use."""
    shape = rng.random()
    if depth == 0 or shape < 0.3:
        return leaf(rng)
    if shape < 0.75:
        return {rng.choice(WORDS): tree(rng, depth - 1) for _ in range(rng.randrange(6))}
    return [tree(rng, depth - 1) for _ in range(rng.randrange(4))]


def mutated(value: Any, rng: random.Random, times: int = 1) -> Any:
    """A tree with some of its nodes replaced, removed, doubled, renamed or wrapped."""
    for _ in range(times):
        nodes = [(None, None), *_nodes(value)]
        holder, key = rng.choice(nodes)
        if holder is None:
            value = _changed(value, rng) if rng.random() < 0.1 else value
            continue
        how = rng.randrange(5)
        if how == 0 and isinstance(holder, dict):
            del holder[key]
        elif how == 1 and isinstance(holder, dict):
            holder[rng.choice(WORDS)] = holder.pop(key)
        elif how == 2 and isinstance(holder, list):
            holder.insert(key, copy.deepcopy(holder[key]))
        else:
            holder[key] = _changed(holder[key], rng)
    return value


def _changed(value: Any, rng: random.Random) -> Any:
    how = rng.randrange(6)
    if how == 0:
        return [value]
    if how == 1:
        return {rng.choice(WORDS): value}
    if how == 2:
        return json.dumps(value)
    if how == 3 and isinstance(value, str):
        at = rng.randrange(len(value) + 1)
        return value[:at] + rng.choice(CONTROL) + value[at:]
    return tree(rng, 2) if how == 4 else leaf(rng)


def _nodes(value: Any) -> list[tuple[Any, Any]]:
    inside = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [pair for key, inner in list(inside) for pair in ((value, key), *_nodes(inner))]


def _bytes(wire: Wire, rng: random.Random) -> bytes:
    body = bytearray(text(real(wire, rng)))
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(body) + 1)
        how = rng.randrange(4)
        if how == 0:
            del body[at:]
        elif how == 1:
            body[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 9)))
        elif how == 2:
            body[at : at + rng.randrange(1, 40)] = b""
        else:
            body[at:at] = body[: rng.randrange(1 + len(body) // 4)]
    return bytes(body)


def _arguments(wire: Wire, rng: random.Random) -> bytes:
    given = mutated(copy.deepcopy(rng.choice([*(c[1] for r in REAL for c in r), ACT])), rng, 3)
    if wire != "messages" and rng.random() < 0.7:
        given = text(given, rng).decode()
        given = given[: rng.randrange(len(given) + 1)] if rng.random() < 0.2 else given
    name = rng.choice(("act", "act", "locate_pixel"))
    return text(
        BODIES[wire](Turn(calls=[(name, given)] * rng.choice((1, 1, 2))), {"model": "junk"}), rng
    )


def _tools(wire: Wire, rng: random.Random) -> bytes:
    calls = [(rng.choice(TOOLS), ACT) for _ in range(rng.randrange(1, 4))]
    return text(BODIES[wire](Turn(calls=calls), {"model": "junk"}))


def _control(wire: Wire, rng: random.Random) -> bytes:
    def dirty(value: Any) -> Any:
        if isinstance(value, str) and rng.random() < 0.3:
            at = rng.randrange(len(value) + 1)
            return value[:at] + rng.choice(CONTROL) * rng.choice((1, 1, 40)) + value[at:]
        if isinstance(value, dict):
            return {k: dirty(v) for k, v in value.items()}
        return [dirty(v) for v in value] if isinstance(value, list) else value

    body = dirty(real(wire, rng))
    return json.dumps(body, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")


def _sizes(wire: Wire, rng: random.Random) -> bytes:
    """Mostly tens of kilobytes; now and then as much as a client reads, and more."""
    size = rng.choice((10_000,) * 200 + (100_000,) * 20 + (1_000_000,) * 3 + (9_000_000,))
    body, how = real(wire, rng), rng.randrange(8)
    if how == 0:
        return text(BODIES[wire](Turn(calls=[("act", ACT)] * (size // 150)), {"model": "junk"}))
    if how == 1:
        return text(
            BODIES[wire](
                Turn(text=rng.choice(('{"', "\\", "[", "{", "a", "€")) * (size // 3)),
                {"model": "junk"},
            )
        )
    if how == 2:
        return b'{"a":' * (size // 5)
    if how == 3:
        return b'{"output": ' + b"[" * (size // 2) + b"]" * (size // 2) + b"}"
    if how == 4:
        big = {**ACT, "chunk": [ACT] * (size // 120)}
        return text(BODIES[wire](Turn(calls=[("act", big)]), {"model": "junk"}))
    if how == 5:
        named = {"id": "x" * size, "call_id": "x" * size}
        return text(mutated(body, rng)).replace(b'"id": "', b'"id": "' + b"y" * size, 1) + text(
            named
        )
    if how == 6:  # a usage that no model can have
        return text(body).replace(
            b'_tokens": ', b'_tokens": ' + b"9" * rng.choice((12, 40, 400)), rng.randrange(1, 5)
        )
    packed = gzip.compress(b" " * size * 10)
    return http(packed, 200, ("Content-Encoding: gzip",))


def _http(wire: Wire, rng: random.Random) -> bytes:
    body = rng.choice(
        (
            text(real(wire, rng)),
            b"",
            b"null",
            b"<html>\x1b[2J</html>",
            text(tree(rng)),
            text({"error": tree(rng, 2)}),
        )
    )
    status = rng.choice(STATUSES)
    headers = tuple(rng.choice(HEADERS) for _ in range(rng.randrange(3)))
    made, how = http(body, status, headers), rng.randrange(10)
    if how == 0:
        return made[: rng.randrange(len(made) + 1)]
    if how == 1:
        return made.replace(
            b"Content-Length: ",
            rng.choice((b"Content-Length: 9", b"Content-Length: -", b"Content-Length: x")),
        )
    if how == 2:
        head = f"HTTP/1.1 {status} X\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n".encode()
        return head + rng.choice(
            (
                b"5\r\nab",
                b"zz\r\n",
                b"ffffffffffffffff\r\nx",
                b"2\r\n{}\r\n0\r\n\r\n",
                b"-1\r\n\r\n",
            )
        )
    if how == 3:
        return rng.choice(
            (
                b"",
                b"\r\n",
                b"HTTP/9.9 200\r\n\r\n",
                b"HTTP/1.1 abc X\r\n\r\n",
                b"SSH-2.0-OpenSSH_9\r\n",
                b"\x16\x03\x01\x02\x00",
                b"{}",
                b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n{}",
            )
        )
    return made


def _other(wire: Wire, rng: random.Random) -> bytes:
    body = rng.choice(
        (*OTHERS, *(BODIES[w](Turn(calls=[("act", ACT)]), {"model": "junk"}) for w in BODIES))
    )
    return (
        body
        if isinstance(body, bytes)
        else text(mutated(copy.deepcopy(body), rng, rng.randrange(3)))
    )


def _said(wire: Wire, rng: random.Random) -> bytes:
    said = rng.choice(SAID)
    if rng.random() < 0.5:
        at = rng.randrange(len(said) + 1)
        said = said[:at] + rng.choice((*CONTROL, *SAID)) + said[at:]
    return text(BODIES[wire](Turn(text=said), {"model": "junk"}))


Make = Callable[[Wire, random.Random], bytes]
# kind -> weight, and what makes one
KINDS: dict[str, tuple[float, Make]] = {
    "as real ones are": (1.0, lambda wire, rng: text(real(wire, rng))),
    "a real one, its tree mutated": (
        4.0,
        lambda wire, rng: text(mutated(real(wire, rng), rng, rng.randrange(1, 5)), rng),
    ),
    "a real one, its bytes mutated": (2.0, _bytes),
    "arguments of a call mutated": (4.0, _arguments),
    "junk by a grammar": (2.0, lambda wire, rng: text(tree(rng), rng)),
    "calls and junk as text": (2.0, _said),
    "tools of other protocols": (1.5, _tools),
    "bodies of other protocols": (1.5, _other),
    "control characters": (2.0, _control),
    "absurd sizes": (0.3, _sizes),
    "HTTP that lies": (1.5, _http),
}
