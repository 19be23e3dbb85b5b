"""`script:FILE`: replies from a list, one per request; for tests, examples, and worlds by hand.

An entry is a text, or a list of calls, each a pair of tool name and arguments. Arguments given as
text are passed on as they are, however broken. FILE holds such a list as JSON:

    [[["locate_pixel", {"camera": "left", "u": 200, "v": 310}]],
     [["act", {"target_cm": [45, 0, 30], "confidence": 0.9}]],
     "I do not know what to do."]
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from capex.errors import CapexError, ErrorCode
from capex.models import (
    Answer,
    AttemptObserver,
    Model,
    ModelError,
    Reply,
    Request,
    RequestAttempt,
    ToolCall,
    prices,
)
from capex.models.retry import repeat

Call = tuple[str, Mapping[str, Any] | str]
Entry = str | Sequence[Call]


def make(rest: str) -> Scripted:
    """From script:FILE."""
    if not rest:
        raise CapexError(
            "'script:' names no file; write script:FILE, a JSON list of replies",
            code=ErrorCode.BAD_SETTING,
        )
    path = Path(rest)
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CapexError(
            f"the script {path} cannot be read: {error.strerror}", code=ErrorCode.UNREADABLE_FILE
        ) from None
    except ValueError as error:
        raise CapexError(
            f"the script {path} is not JSON: {error}", code=ErrorCode.UNREADABLE_FILE
        ) from None
    if not isinstance(entries, list):
        raise CapexError(
            f"the script {path} holds {type(entries).__name__}; write a list of replies",
            code=ErrorCode.UNREADABLE_FILE,
        )
    return Scripted(entries, name=f"script:{path}")


class Scripted(Model):
    """Answers with a list's entries in order. Tokens come from sizes, ids from the list's order."""

    price_name = "script"
    stand_in = True

    def __init__(self, entries: Sequence[Entry], *, name: str = "script"):
        self.name = name
        self._answers = [_answer(number, entry) for number, entry in enumerate(entries, start=1)]
        self._used = 0

    def complete(self, request: Request, observer: AttemptObserver | None = None) -> Reply:
        """The next entry; ModelError when the list has ended."""
        if self._used == len(self._answers):
            ended = f"{self.name} has no reply left: all {self._used} were given"
            raise ModelError("script", ended)
        answer, entry = self._answers[self._used], self._used + 1
        usage = prices.usage(request, answer)
        attempt = RequestAttempt("ok", "yes", 0.0, usage, answer=answer, body={"entry": entry})
        reply = repeat(request, [attempt], observer)
        self._used = entry
        return reply


def _answer(number: int, entry: Entry) -> Answer:
    if isinstance(entry, str):
        return Answer((), entry)
    calls = []
    for position, call in enumerate(entry, start=1):
        pair = isinstance(call, Sequence) and not isinstance(call, str) and len(call) == 2
        if not pair or not isinstance(call[0], str):
            raise CapexError(
                f"reply {number} of the script has {call!r} as a call; write [NAME, ARGUMENTS]",
                code=ErrorCode.UNREADABLE_FILE,
            )
        arguments = call[1] if isinstance(call[1], str) else json.dumps(call[1])
        calls.append(ToolCall(f"call_{number}_{position}", call[0], arguments))
    return Answer(tuple(calls))
