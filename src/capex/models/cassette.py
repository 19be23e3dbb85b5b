"""`cassette:RUN`: answers from a run's exchange logs; fails at the first request that differs.

Requests are recognised by their hash. One that was made several times gets its answers in the
recorded order. Failed attempts are repeated too, without their waits, so that a replayed record has
the same attempts and costs.
"""

from __future__ import annotations

import itertools
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from capex import codec
from capex.errors import CapexError, DamagedFile, ErrorCode
from capex.models import (
    AttemptObserver,
    Model,
    ModelError,
    Reply,
    Request,
    RequestAttempt,
    Wrapped,
    describe,
)
from capex.models.exchanges import LOG, AttemptTimes, Exchange, read_log, read_times
from capex.models.retry import repeat
from capex.untrusted import FAULTS, JSON_MOST, damage, lines, loads, opened

EXCERPT = 60  # characters of a differing text that are shown


@dataclass(frozen=True)
class RecordedRequest:
    """One request in a log, by the place of its first line; logs may be far too large to hold."""

    log: Path
    number: int  # from 1, among the requests of its log
    hash: str
    line: int  # of its first attempt, from 0
    offset: int  # of that line, bytes
    count: int  # attempts

    def attempts(self) -> list[RequestAttempt]:
        """Its attempts as they were recorded."""
        unknown = itertools.repeat(AttemptTimes())
        times = itertools.chain(read_times(self.log)[self.line :], unknown)
        with damage(self.log), opened(self.log) as log:
            log.seek(self.offset)
            rows = [_line(log.readline(JSON_MOST)) for _ in range(self.count)]
            return [row.attempt(took) for row, took in zip(rows, times, strict=False)]

    def described(self) -> Mapping[str, Any]:
        """What was asked."""
        requests = (line.request or {} for line in read_log(self.log) if line.number == 1)
        return next(itertools.islice(requests, self.number - 1, None))


def make(rest: str) -> Cassette:
    """From cassette:RUN."""
    if not rest:
        raise CapexError(
            "'cassette:' names no run; write cassette:RUN, for example cassette:runs/first",
            code=ErrorCode.BAD_SETTING,
        )
    return Cassette(Path(rest))


class Cassette(Model):
    """A recorded model; `recorded_name` is the recorded one, and so are price name and kind."""

    def __init__(self, path: Path):
        self.name = f"cassette:{path}"
        self._lock = threading.Lock()
        self._unused: dict[Path, dict[int, RecordedRequest]] = {}  # log -> number -> request
        self._queues: dict[str, deque[RecordedRequest]] = defaultdict(deque)
        self._last: Path | None = None
        first: Exchange | None = None
        for log in find_logs(path):
            first = first or next(read_log(log), None)
            self._unused[log] = {}
            for recorded in read_requests(log):
                self._unused[log][recorded.number] = recorded
                self._queues[recorded.hash].append(recorded)
        self.recorded_name = first.model if first else ""
        self.price_name = first.price_name if first else ""
        self.stand_in = bool(first and first.stand_in)
        self.tools_in_text = self.recorded_name.startswith("chat-text:")
        asked = (first.request if first else None) or {}
        self.forces_calls = asked.get("tool_choice") != "auto"

    def complete(self, request: Request, observer: AttemptObserver | None = None) -> Reply:
        """The recorded answer or failure; ModelError of kind cassette when there is none."""
        return repeat(request, self._take(request).attempts(), observer)

    def _take(self, request: Request) -> RecordedRequest:
        with self._lock:
            queue = self._queues.get(request.hash)
            if queue is None:
                why = f"to this request: {self._difference(request)}"
                raise ModelError("cassette", f"{self.name} has no answer {why}")
            if not queue:
                why = "left to this request: it is made more often than it was recorded"
                raise ModelError("cassette", f"{self.name} has no answer {why}")
            recorded = queue.popleft()
            del self._unused[recorded.log][recorded.number]
            self._last = recorded.log
            return recorded

    def _difference(self, request: Request) -> str:
        """What tells it from the next in the log of the last answer, or the likeliest first one."""
        here = [self._last] if self._last and self._unused[self._last] else list(self._unused)
        expected = [next(iter(left.values())) for log in here if (left := self._unused[log])]
        if not expected:
            return "every recorded request has been answered"
        given = describe(request)
        differences = [(*first_difference(r.described(), given), r) for r in expected]
        _, sentence, recorded = max(differences, key=lambda candidate: candidate[0])
        return f"{sentence} (expected was request {recorded.number} of {recorded.log})"


@dataclass(frozen=True)
class _Named:
    """What tells the lines of a request from those of others."""

    hash: str
    number: int


def _line(text: bytes) -> Exchange:
    return codec.convert(loads(text), Exchange)


def find_logs(path: Path) -> list[Path]:
    """The exchange logs of a run's episodes, or below any other folder, by name."""
    if path.is_file():
        return [path]
    logs = sorted(path.glob(f"chains/*/episodes/[0-9]*/{LOG}")) or sorted(path.rglob(LOG))
    if not logs:
        raise CapexError(
            f"{path} holds no recorded exchanges ({LOG}); give the folder of a run that was"
            " collected with a model",
            code=ErrorCode.WRONG_CONTENT,
        )
    return logs


def read_requests(log: Path, *, torn_end: bool = False) -> list[RecordedRequest]:
    """The requests of a log in order, their attempts numbered from 1. `torn_end`: a kill may have
    torn the last line.
    """
    requests: list[RecordedRequest] = []
    offset = 0
    for index, raw in enumerate(lines(log)):
        if torn_end and not raw.endswith(b"\n"):
            break
        try:
            row = codec.convert(loads(raw), _Named)
            number, row_hash = row.number, row.hash
        except FAULTS:
            raise DamagedFile(
                log, f"line {index + 1} cannot be read; restore it, or record the run again"
            ) from None
        if number == 1 or not requests:  # without a hash: the log has lost its first lines
            known = row_hash if number == 1 else ""
            new = RecordedRequest(log, len(requests) + 1, known, index, offset, count=1)
            requests.append(new)
        else:
            requests[-1] = replace(requests[-1], count=requests[-1].count + 1)
        offset += len(raw)
    return requests


def first_difference(recorded: Any, given: Any) -> tuple[tuple[int, int], str]:
    """How much agrees (fields, then characters of the first that differs), and what differs."""
    pairs = itertools.zip_longest(_leaves(recorded), _leaves(given), fillvalue=("its end", None))
    for agreeing, ((path, was), (given_path, now)) in enumerate(pairs):
        if path != given_path:
            sentence = f"where the recorded one has {path}, the given one has {given_path}"
            return (agreeing, 0), sentence
        if was != now:
            same, was_text, now_text = _excerpts(was, now)
            return (agreeing, same), f"{path} differs: recorded {was_text}, given {now_text}"
    return (0, 0), "only the hash differs"


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple) and value:
        for number, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{number}]")
    else:
        yield path, value


def _excerpts(was: Any, now: Any) -> tuple[int, str, str]:
    """How many characters agree, and both values around the first that does not."""
    if not (isinstance(was, str) and isinstance(now, str)):
        return 0, repr(was), repr(now)
    same = next(
        (n for n, (a, b) in enumerate(zip(was, now, strict=False)) if a != b),
        min(len(was), len(now)),
    )
    start = max(0, same - EXCERPT // 3)

    def cut(text: str) -> str:
        end = start + EXCERPT
        return f"{'…' if start else ''}{text[start:end]}{'…' if len(text) > end else ''}"

    return same, repr(cut(was)), repr(cut(now))


class Continued(Wrapped):
    """A model whose first answers come from a log. Observers are told of those as attempts made
    `again`: counted, not paid. `waited` is told the seconds that each answer took back then.
    """

    def __init__(
        self, model: Model, log: Path, waited: Callable[[float], None] = lambda seconds: None
    ):
        super().__init__(model)
        self._waited = waited
        self._recorded: deque[RecordedRequest] = deque(read_requests(log, torn_end=True))

    def complete(self, request: Request, observer: AttemptObserver | None = None) -> Reply:
        """The logged answer while the requests repeat, then the model's."""
        attempts = self._logged(request)
        if not attempts:
            return self._model.complete(request, observer)
        self._waited(sum(a.waited_s + a.latency_s for a in attempts))
        return repeat(request, attempts, observer, paid=True)

    def _logged(self, request: Request) -> list[RequestAttempt]:
        """The attempts that settled this request; none once the log does not tell of it."""
        if not self._recorded:
            return []
        recorded = self._recorded.popleft()
        attempts = recorded.attempts() if recorded.hash == request.hash else []
        if attempts and attempts[-1].kind == "context" and self._recorded:
            return attempts
        # Cut off among the retries: those are the campaign's cost, not the episode's.
        if not attempts or attempts[-1].answer is None:
            self._recorded.clear()
            return []
        if answer := self._model.reread(attempts[-1].body):
            attempts[-1] = replace(attempts[-1], answer=answer)
        return attempts
