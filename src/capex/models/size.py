"""About how many tokens a request has: for the context limit and stand-ins, never for bills."""

from __future__ import annotations

import json
import math

from capex.models import Answer, AssistantMessage, Picture, Request, Text, ToolResult, Usage

CHARACTERS_PER_TOKEN = 4
CELL_PX = 32  # Qwen-VL: patches of 16 px, merged 2 x 2
PICTURE_MARGIN = 16  # start, end and line marks around the cells
UNKNOWN_SIZE = (1024, 1024)


def tokens(request: Request) -> int:
    """Estimated input tokens: 4 characters each, rounded up per piece, and cells for pictures."""
    count = text(request.system) + sum(text(json.dumps(vars(tool))) for tool in request.tools)
    for message in request.messages:
        if isinstance(message, ToolResult):
            count += text(message.text)
        elif isinstance(message, AssistantMessage):
            count += text(message.text) + sum(
                text(call.name + call.arguments) for call in message.calls
            )
        else:
            count += sum(
                text(part.text) if isinstance(part, Text) else text(part.label) + picture(part)
                for part in message.parts
            )
    return count


def usage(request: Request, answer: Answer) -> Usage:
    """What a model that counts no tokens would be billed for an answer, about."""
    written = answer.text + "".join(call.name + call.arguments for call in answer.calls)
    return Usage(fresh=tokens(request), cached=0, cache_write=0, output=text(written))


def picture(part: Picture) -> int:
    """Estimated tokens of a picture: cells, rounded up both ways (256 + 16 for 512 x 512)."""
    width, height = UNKNOWN_SIZE
    if part.png[12:16] == b"IHDR" and len(part.png) >= 24:
        width, height = (int.from_bytes(part.png[n : n + 4], "big") for n in (16, 20))
    return math.ceil(width / CELL_PX) * math.ceil(height / CELL_PX) + PICTURE_MARGIN


def text(written: str) -> int:
    """Estimated tokens of a text."""
    return math.ceil(len(written) / CHARACTERS_PER_TOKEN)
