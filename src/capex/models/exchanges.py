"""The exchange log: every attempt of an episode, what was asked and what came back, one line each.

    exchanges.jsonl         one JSON object per attempt, flushed to disk before the next is sent
    exchange_times.jsonl    its wall time, apart, so that the logs of two runs compare byte for byte
    images/HASH.png         each picture once, or HASH.webp

A line holds the request's hash, the attempt's number, status, billing, usage, answer, and the body
as received. The request stands in the line of its first attempt, pictures by hash. System text and
tools repeat all episode long: they stand where they first occur, later lines name them by `static`.
Keys are replaced before anything is written, and of the headers only an allow-list is kept.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from capex.errors import DamagedFile
from capex.models import (
    Answer,
    Model,
    Picture,
    Request,
    RequestAttempt,
    ToolCall,
    Usage,
    UserMessage,
    describe,
    pictures,
)
from capex.models.pictures import ImageFormat
from capex.models.redact import NO_SECRETS, scrubbed_line, secrets
from capex.untrusted import FAULTS, lines, loads, no_links

LOG, TIMES = "exchanges.jsonl", "exchange_times.jsonl"
STATIC = ("system", "tools")
AS_SENT = "[as sent]"  # in the place of the system text that the Responses API repeats in its body
# Fields of an attempt that a line holds, in this order.
LOGGED = ("status", "http_status", "billed", "usage", "kind", "error", "answer", "headers", "body")


class ExchangeLog:
    """Writes the attempts that it observes into a folder, and the pictures as `images` (None: not).
    With a model, each line names it, so that a cassette can price its replies.
    """

    def __init__(
        self, folder: Path, model: Model | None = None, images: ImageFormat | None = "png"
    ):
        self.folder, self._images = folder, images
        self._model: dict[str, Any] = {}
        if model is not None:
            self._model = {"model": model.name, "price_name": model.price_name}
            self._model["stand_in"] = model.stand_in
        self._written: set[str] = set()
        self._secrets = secrets()

    def before(self, request: Request, number: int) -> None:
        """Keep the pictures before the request is sent."""
        users = [message for message in request.messages if isinstance(message, UserMessage)]
        for part in [part for message in users for part in message.parts]:
            if self._images and isinstance(part, Picture):
                pictures.keep(self.folder / pictures.IMAGES, part.png, self._images)

    def after(self, request: Request, number: int, attempt: RequestAttempt) -> None:
        """Append the attempt."""
        named = {"hash": request.hash, "number": number}
        line: dict[str, Any] = {**named, **self._model}
        if number == 1:
            described = describe(request)
            static = {name: described.pop(name) for name in STATIC}
            mark = hashlib.sha256(json.dumps(static, sort_keys=True).encode()).hexdigest()
            line["static"] = mark
            line["request"] = described if mark in self._written else static | described
            self._written.add(mark)
        line |= {name: getattr(attempt, name) for name in LOGGED}
        if attempt.usage is not None:
            line["usage"] = vars(attempt.usage)
        if (answer := attempt.answer) is not None:
            calls = [vars(call) for call in answer.calls]
            line["answer"] = {"calls": calls, "text": answer.text, "incomplete": answer.incomplete}
        body, system = attempt.body, request.system
        if isinstance(body, Mapping) and system and body.get("instructions") == system:
            line["body"] = {**body, "instructions": AS_SENT}
        append(self.folder / LOG, scrubbed_line(line, self._secrets))
        times = {"latency_s": round(attempt.latency_s, 4)}
        if attempt.waited_s:
            times["waited_s"] = round(attempt.waited_s, 4)
        append(self.folder / TIMES, scrubbed_line({**named, **times}, NO_SECRETS), flush=False)

    def again(self, request: Request, number: int, attempt: RequestAttempt) -> None:
        """An attempt paid for before the episode was cut off is written as if it were made now."""
        self.before(request, number)
        self.after(request, number, attempt)

    def waiting(self) -> None:
        """Nothing is written while the client waits."""


def read_log(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of an exchanges.jsonl in order, each first attempt with its whole request."""
    static: dict[str, Any] = {}
    for number, text in enumerate(lines(path), 1):
        try:
            line: dict[str, Any] = loads(text)
            if "request" in line:
                request = line["request"]
                here = {name: request[name] for name in STATIC if name in request}
                line["request"] = static.setdefault(line["static"], here) | request
        except FAULTS as error:
            raise DamagedFile(path, f"line {number} cannot be read ({error})") from None
        yield line


def times_of(log: Path) -> Path:
    """Where the wall times of a log lie: beside it, under its own name where it has one."""
    return log.with_name(TIMES if log.name == LOG else f"{log.stem}.times")


def read_times(log: Path) -> list[dict[str, float]]:
    """Wall times of the attempts in seconds, in the order of the log; as far as they were kept."""
    path = times_of(log)
    if not path.is_file():
        return []
    times = []
    for text in lines(path):
        try:
            row = loads(text)
            times.append({name: float(row.get(name, 0.0)) for name in ("latency_s", "waited_s")})
        except (ValueError, TypeError, AttributeError):  # a kill tore the line
            break
    return times


def attempt_from(
    line: Mapping[str, Any], latency_s: float = 0.0, waited_s: float = 0.0
) -> RequestAttempt:
    """An attempt as it was logged. What a provider wants replayed stands in the body alone."""
    fields = {name: line[name] for name in LOGGED}
    if line["usage"] is not None:
        fields["usage"] = Usage(**line["usage"])
    if (answer := line["answer"]) is not None:
        calls = tuple(ToolCall(**call) for call in answer["calls"])
        fields["answer"] = Answer(calls, answer["text"], answer["incomplete"])
    return RequestAttempt(**fields, latency_s=latency_s, waited_s=waited_s)


def append(path: Path, lines: bytes, *, flush: bool = True) -> None:
    """Add whole lines to a file; `flush`: they are on disk when this returns. Of what a failing
    disk takes in part nothing stays, as far as it lets go of it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(
        path, "ab", buffering=0, opener=no_links
    ) as out:  # a buffer would be written again as it is closed
        end = os.fstat(out.fileno()).st_size
        try:
            if (written := out.write(lines)) != len(lines):
                raise OSError(errno.ENOSPC, f"{written} of {len(lines)} bytes fitted", str(path))
            if flush:
                os.fsync(out.fileno())
        except OSError:
            with contextlib.suppress(OSError):
                out.truncate(end)
            raise
