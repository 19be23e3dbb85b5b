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

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from capex.models import (
    Answer,
    Attempt,
    Model,
    Picture,
    Request,
    ToolCall,
    Usage,
    UserMessage,
    describe,
    pictures,
)
from capex.models.pictures import ImageFormat
from capex.models.redact import scrub, secrets

LOG, TIMES = "exchanges.jsonl", "exchange_times.jsonl"
STATIC = ("system", "tools")
AS_SENT = "[as sent]"  # in the place of the system text that the Responses API repeats in its body


class ExchangeLog:
    """Writes the attempts that it observes into a folder. With a model, each line names it, so that
    a cassette can price its replies.

    `images` is the form in which the pictures are kept, None when they are not.
    """

    def __init__(
        self, folder: Path, model: Model | None = None, images: ImageFormat | None = "png"
    ):
        self.folder, self._images = folder, images
        self._model = (
            {}
            if model is None
            else {"model": model.name, "price_name": model.price_name, "stand_in": model.stand_in}
        )
        self._written: set[str] = set()

    def before(self, request: Request, number: int) -> None:
        """Keep the pictures before the request is sent."""
        for message in request.messages if self._images else ():
            for part in message.parts if isinstance(message, UserMessage) else ():
                if isinstance(part, Picture) and self._images:
                    pictures.keep(self.folder / pictures.IMAGES, part.png, self._images)

    def after(self, request: Request, number: int, attempt: Attempt) -> None:
        """Append the attempt."""
        line: dict[str, Any] = {"hash": request.hash, "number": number, **self._model}
        if number == 1:
            described = describe(request)
            static = {name: described.pop(name) for name in STATIC}
            mark = hashlib.sha256(json.dumps(static, sort_keys=True).encode()).hexdigest()
            line |= {
                "static": mark,
                "request": described if mark in self._written else static | described,
            }
            self._written.add(mark)
        body = attempt.body
        if (
            isinstance(body, Mapping)
            and request.system
            and body.get("instructions") == request.system
        ):
            body = {**body, "instructions": AS_SENT}
        line |= {
            "status": attempt.status,
            "http_status": attempt.http_status,
            "billed": attempt.billed,
            "usage": None if attempt.usage is None else vars(attempt.usage),
            "kind": attempt.kind,
            "error": attempt.error,
            "answer": None if attempt.answer is None else _answer(attempt.answer),
            "headers": dict(attempt.headers),
            "body": body,
        }
        _append(self.folder / LOG, scrub(line, secrets()))
        _append(self.folder / TIMES, {"hash": request.hash, "number": number, **_times(attempt)})

    def again(self, request: Request, number: int, attempt: Attempt) -> None:
        """An attempt that was made and paid for before the episode was cut off: written as if it
        were made now.
        """
        self.before(request, number)
        self.after(request, number, attempt)


def read_log(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of an exchanges.jsonl in order, each first attempt with its whole request."""
    static: dict[str, Any] = {}
    with open(path, encoding="utf-8") as lines:
        for text in lines:
            line: dict[str, Any] = json.loads(text)
            if "request" in line:
                request = line["request"]
                static.setdefault(
                    line["static"], {name: request[name] for name in STATIC if name in request}
                )
                line["request"] = static[line["static"]] | request
            yield line


def times_of(log: Path) -> Path:
    """Where the wall times of a log lie: beside it, under its own name where it has one."""
    return log.with_name(TIMES if log.name == LOG else f"{log.stem}.times")


def read_times(log: Path) -> list[dict[str, float]]:
    """Wall times of the attempts in seconds, in the order of the log; as far as they were kept."""
    place = times_of(log)
    if not place.is_file():
        return []
    found = []
    for text in place.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(text)
            found.append({name: float(row.get(name, 0.0)) for name in ("latency_s", "waited_s")})
        except (ValueError, AttributeError):  # a kill tore the line
            break
    return found


def attempt_from(line: Mapping[str, Any], latency_s: float = 0.0, waited_s: float = 0.0) -> Attempt:
    """An attempt as it was logged. What a provider wants replayed is not kept apart from the body:
    nobody is sent it again.
    """
    said = line["answer"]
    answer = (
        None
        if said is None
        else Answer(
            tuple(ToolCall(**call) for call in said["calls"]), said["text"], said["incomplete"]
        )
    )
    return Attempt(
        status=line["status"],
        billed=line["billed"],
        latency_s=latency_s,
        usage=None if line["usage"] is None else Usage(**line["usage"]),
        http_status=line["http_status"],
        kind=line["kind"],
        error=line["error"],
        answer=answer,
        body=line["body"],
        headers=line["headers"],
        waited_s=waited_s,
    )


def _times(attempt: Attempt) -> dict[str, float]:
    waited = {"waited_s": round(attempt.waited_s, 4)} if attempt.waited_s else {}
    return {"latency_s": round(attempt.latency_s, 4), **waited}


def _answer(answer: Answer) -> dict[str, Any]:
    return {
        "calls": [vars(call) for call in answer.calls],
        "text": answer.text,
        "incomplete": answer.incomplete,
    }


def _append(path: Path, line: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a", encoding="utf-8") as out:
        out.write(json.dumps(line) + "\n")
        out.flush()
        os.fsync(out.fileno())
