"""What a model can do, found out by asking it: one small request with a picture and a tool, a
second without the picture if need be.
"""

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
    picture = Picture("A picture:", _png())
    request = Request(
        system="You test a robot's connection. Answer with the tool.",
        messages=(
            UserMessage((picture, Text("Which colour is it? Call report_colour with one word."))),
        ),
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
    try:
        return _findings(
            model.complete(
                replace(request, messages=(UserMessage((Text("Call report_colour with 'red'."),)),))
            ),
            refusal,
        )
    except ModelError as error:
        return [("reachable", False, str(error))]


def _findings(reply: Reply, refusal: CapexError | None) -> list[Finding]:
    last, count = reply.attempts[-1], len(reply.attempts)
    named = [call for call in reply.calls if call.name == REPORT.name]
    said = clip(_colour(named[0].arguments)) if named else ""
    tries = "the first attempt" if count == 1 else f"{count} attempts"
    found = [
        (
            "reachable",
            True,
            f"a reply after {tries} and {sum(a.latency_s for a in reply.attempts):.1f} s",
        )
    ]
    if refusal is not None:
        found.append(
            ("takes pictures", False, f"without the picture it answered, with it: {refusal}")
        )
    else:
        detail = (
            "named the colour"
            if COLOUR in said.lower()
            else f"accepted a {COLOUR} picture but called it '{said or clip(reply.text[:40])}'"
        )
        found.append(("takes pictures", COLOUR in said.lower(), detail))
    if named:
        found.append(
            (
                "calls tools",
                bool(said),
                (
                    "called the tool"
                    if said
                    else f"called it with unusable arguments: {clip(named[0].arguments[:80])}"
                ),
            )
        )
    else:
        hint = (
            " (on vLLM: --enable-auto-tool-choice and the right --tool-call-parser; or use"
            " chat-text:NAME@URL)"
        )
        found.append(("calls tools", False, "answered without calling the tool" + hint))
    usage = last.usage
    counted = "no usage came back, so costs stay unknown"
    if usage is not None:
        counted = f"{usage.fresh + usage.cached + usage.cache_write} tokens in, {usage.output} out"
    return [*found, ("reports usage", usage is not None, counted)]


def _colour(arguments: str) -> str:
    try:
        said = json.loads(arguments)
    except (ValueError, RecursionError):
        return ""
    return str(said.get("colour", "")) if isinstance(said, dict) else ""


def _png() -> bytes:
    """A picture of one colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    row = b"\x00" + bytes(RGB) * SIDE_PX
    header = struct.pack(">IIBBBBB", SIDE_PX, SIDE_PX, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(row * SIDE_PX))
        + chunk(b"IEND", b"")
    )
