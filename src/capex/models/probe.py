"""What a model can do: one small request with a picture and a tool, or else without the picture."""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import replace

from capex.errors import CapexError
from capex.models import (
    Model,
    ModelError,
    Picture,
    Reply,
    Request,
    Sampling,
    Text,
    Tool,
    UserMessage,
)
from capex.models.retry import clip

COLOUR, RGB, SIDE_PX = "red", (220, 20, 20), 64
DEADLINE_S = 120.0
REPORT = Tool(
    "report_colour",
    "Say which colour the picture has.",
    {
        "type": "object",
        "properties": {"colour": {"type": "string"}},
        "required": ["colour"],
        "additionalProperties": False,
    },
)
Finding = tuple[str, bool, str]


def probe(model: Model) -> list[Finding]:
    """(what, whether it works, detail) for: reachable, takes pictures, calls tools, reports usage.
    Costs a request or two.
    """
    question = Text("Which colour is it? Call report_colour with one word.")
    request = Request(
        system="You test a robot's connection. Answer with the tool.",
        messages=(UserMessage((Picture("A picture:", _png()), question)),),
        tools=(REPORT,),
        sampling=Sampling(max_output_tokens=2000, effort="low"),
        deadline_s=DEADLINE_S,
    )
    try:
        return _findings(model.complete(request), None)
    except ModelError as error:
        refusal = error
    if refusal.kind not in ("bad_request", "failed", "server"):
        return [("reachable", False, str(refusal))]
    without = UserMessage((Text("Call report_colour with 'red'."),))
    try:
        return _findings(model.complete(replace(request, messages=(without,))), refusal)
    except ModelError as error:
        return [("reachable", False, str(error))]


def _findings(reply: Reply, refusal: CapexError | None) -> list[Finding]:
    count, seconds = len(reply.attempts), sum(a.latency_s for a in reply.attempts)
    tries = "the first attempt" if count == 1 else f"{count} attempts"
    arguments = [call.arguments for call in reply.calls if call.name == REPORT.name]
    colour = clip(_colour(arguments[0])) if arguments else ""
    sees = refusal is None and COLOUR in colour.lower()
    if refusal is not None:
        seen = f"without the picture it answered, with it: {refusal}"
    elif sees:
        seen = "named the colour"
    else:
        seen = f"accepted a {COLOUR} picture but called it '{colour or clip(reply.text[:40])}'"
    if colour:
        called = "called the tool"
    elif arguments:
        called = f"called it with unusable arguments: {clip(arguments[0][:80])}"
    else:
        called = (
            "answered without calling the tool (on vLLM: --enable-auto-tool-choice and the right"
            " --tool-call-parser; or use chat-text:NAME@URL)"
        )
    usage, counted = reply.attempts[-1].usage, "no usage came back, so costs stay unknown"
    if usage is not None:
        counted = f"{usage.fresh + usage.cached + usage.cache_write} tokens in, {usage.output} out"
    return [
        ("reachable", True, f"a reply after {tries} and {seconds:.1f} s"),
        ("takes pictures", sees, seen),
        ("calls tools", bool(colour), called),
        ("reports usage", usage is not None, counted),
    ]


def _colour(arguments: str) -> str:
    try:
        parsed = json.loads(arguments)
    except (ValueError, RecursionError):
        return ""
    return str(parsed.get("colour", "")) if isinstance(parsed, dict) else ""


def _png() -> bytes:
    """A picture of one colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        size, check = struct.pack(">I", len(data)), struct.pack(">I", zlib.crc32(kind + data))
        return size + kind + data + check

    header = struct.pack(">IIBBBBB", SIDE_PX, SIDE_PX, 8, 2, 0, 0, 0)
    pixels = zlib.compress((b"\x00" + bytes(RGB) * SIDE_PX) * SIDE_PX)
    chunks = (chunk(b"IHDR", header), chunk(b"IDAT", pixels), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
