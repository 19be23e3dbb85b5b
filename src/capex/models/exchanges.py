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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from capex import codec
from capex.codec import Count
from capex.errors import DamagedFile
from capex.models import (
    REPLIED,
    Answer,
    Billed,
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


@dataclass(frozen=True)
class LoggedAnswer:
    """An answer without the items that a provider wants replayed: those are in the body."""

    calls: tuple[ToolCall, ...]
    text: str
    incomplete: bool


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """A line of an exchange log. Fields in their order."""

    hash: str
    number: Count  # of the attempt at the request, from 1
    model: str = ""
    price_name: str = ""
    stand_in: bool | None = None
    static: str = ""  # with the first attempt: names the system text and the tools
    request: Mapping[str, Any] | None = None  # with the first attempt: see `describe`
    status: str
    http_status: int | None
    billed: Billed
    usage: Usage | None
    kind: str
    error: str
    answer: LoggedAnswer | None
    headers: Mapping[str, str]
    body: Any

    @property
    def replied(self) -> bool:
        """Whether the model answered."""
        return self.status in REPLIED

    def attempt(self, took: AttemptTimes) -> RequestAttempt:
        """The attempt as it was logged."""
        answer = None if self.answer is None else Answer(**vars(self.answer))
        return RequestAttempt(
            status=self.status,
            billed=self.billed,
            latency_s=took.latency_s,
            usage=self.usage,
            http_status=self.http_status,
            kind=self.kind,
            error=self.error,
            answer=answer,
            body=self.body,
            headers=self.headers,
            waited_s=took.waited_s,
        )

    def as_json(self) -> dict[str, Any]:
        """The line, without what is not known of the model and the request."""
        data: dict[str, Any] = codec.to_json(self)
        return {k: v for k, v in data.items() if k not in _OPTIONAL or v not in ("", None)}


_OPTIONAL = frozenset(("model", "price_name", "stand_in", "static", "request"))


@dataclass(frozen=True)
class AttemptTimes:
    """Wall times of an attempt, in seconds."""

    latency_s: float = 0.0
    waited_s: float = 0.0


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
        named: dict[str, Any] = {"hash": request.hash, "number": number}
        asked: dict[str, Any] = {}
        if number == 1:
            described = describe(request)
            static = {name: described.pop(name) for name in STATIC}
            mark = hashlib.sha256(json.dumps(static, sort_keys=True).encode()).hexdigest()
            whole = described if mark in self._written else static | described
            asked = {"static": mark, "request": whole}
            self._written.add(mark)
        body, system, answer = attempt.body, request.system, attempt.answer
        if isinstance(body, Mapping) and system and body.get("instructions") == system:
            body = {**body, "instructions": AS_SENT}
        said = None
        if answer is not None:
            said = LoggedAnswer(answer.calls, answer.text, answer.incomplete)
        line = Exchange(
            **named,
            **self._model,
            **asked,
            status=attempt.status,
            http_status=attempt.http_status,
            billed=attempt.billed,
            usage=attempt.usage,
            kind=attempt.kind,
            error=attempt.error,
            answer=said,
            headers=attempt.headers,
            body=body,
        )
        append(self.folder / LOG, scrubbed_line(line.as_json(), self._secrets))
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


def read_log(path: Path) -> Iterator[Exchange]:
    """The lines of an exchanges.jsonl in order, each first attempt with its whole request."""
    static: dict[str, Any] = {}
    for number, text in enumerate(lines(path), 1):
        try:
            line = codec.convert(loads(text), Exchange)
            if (request := line.request) is not None:
                here = {name: request[name] for name in STATIC if name in request}
                line = replace(line, request=static.setdefault(line.static, here) | dict(request))
        except FAULTS as error:
            raise DamagedFile(path, f"line {number} cannot be read ({error})") from None
        yield line


def times_of(log: Path) -> Path:
    """Where the wall times of a log lie: beside it, under its own name where it has one."""
    return log.with_name(TIMES if log.name == LOG else f"{log.stem}.times")


def read_times(log: Path) -> list[AttemptTimes]:
    """Wall times of the attempts in seconds, in the order of the log; as far as they were kept."""
    path = times_of(log)
    if not path.is_file():
        return []
    times = []
    for text in lines(path):
        try:
            times.append(codec.from_json(loads(text), AttemptTimes))
        except ValueError:  # a kill tore the line
            break
    return times


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
