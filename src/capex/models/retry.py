"""The only retry policy: which failures are tried again, how often, after what wait, until when.

| failure | tried again | billed |
|---|---|---|
| no connection, or the request could not be sent whole | yes | no |
| connection lost after sending | yes | unknown |
| read deadline passed after sending | once (it may be billed twice) | unknown |
| HTTP 408, 409, 429 | yes | no |
| HTTP 5xx | yes | no; unknown where a gateway gave up (`GATEWAY_GAVE_UP`) |
| HTTP 200 with a passing fault, or that cannot be read | yes | by its usage, unknown without |
| quota, authentication, permission, not found, bad request, too long for the context | no | no |
| a body of more than 8 MB | no | unknown |

An attempt lasts until its read deadline at most, or to that of the request (the decision's, the
episode's), whichever comes first. Waits double from 1 s to 60 s, less up to a quarter that depends
on the request alone, so that a run repeats exactly. Retry-After is obeyed up to two minutes. No
wait is begun that would end after the deadline.
"""

from __future__ import annotations

import hashlib
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from capex.errors import printable
from capex.models import (
    AttemptObserver,
    Billed,
    ModelError,
    Observers,
    Reply,
    Request,
    RequestAttempt,
)
from capex.models.redact import scrub

QUOTA = re.compile(
    "insufficient_quota|billing_(hard_limit_reached|not_active|error)|credit balance"
)
CONTEXT = re.compile(  # of OpenAI, vLLM, SGLang, llama.cpp, LiteLLM, Anthropic
    "context_length_exceeded|context (length|size|window)|contextwindow|max_model_len"
    "|maximum model length|prompt is too long"
)
PASSING_CODE = re.compile(
    "(server|rate_limit|overloaded|api|internal|timeout)_error|rate_limit_exceeded"
    "|(vector_store_)?timeout"
)
PASSING_KINDS = ("rate_limit", "timeout", "conflict", "server")
NO_CREDIT = "the provider says that the account has no credit left"
TOO_LONG = "the request is too long for the model"
# A gateway or a proxy answered in place of the server, which may have done the work (520, 522 and
# 524 are Cloudflare's, 598 and 599 those of other proxies).
GATEWAY_GAVE_UP = (502, 504, 520, 522, 524, 598, 599)
MESSAGE_CHARACTERS = 300
LOOK_S = 0.25  # how often a wait looks whether it may go on
# HTTP status -> kind of the error, and a sentence
MEANINGS = {
    401: (
        "authentication",
        "the server refused the key {detail}; check the environment variable {key}",
    ),
    403: ("permission", "the key in {key} may not do this {detail}"),
    404: ("not_found", "the server knows no such model or address {detail}; check both"),
    408: ("timeout", "the server did not take the request {detail}"),
    409: ("conflict", "the server did not take the request {detail}"),
    429: ("rate_limit", "the server asks for fewer requests {detail}"),
}


class Clock:
    """The machine's clock; tests bring their own."""

    def now(self) -> float:
        """Seconds on a clock that never goes back."""
        return time.monotonic()

    def sleep(self, seconds: float, look: Callable[[], None]) -> None:
        """Wait; `look` is called several times a second and may raise to end the wait."""
        until = self.now() + seconds
        look()
        while (left_s := until - self.now()) > 0:
            time.sleep(min(left_s, LOOK_S))
            look()


@dataclass(frozen=True)
class RetryPolicy:
    """How patient a client is. Seconds are wall time."""

    attempts: int = 5
    unanswered: int = 2  # attempts that may pass their read deadline: each may be billed
    first_wait_s: float = 1.0
    longest_wait_s: float = 60.0
    longest_retry_after_s: float = 120.0
    jitter: float = 0.25
    deadline_s: float = 1200.0  # for all attempts of a request; a request may carry a shorter one
    connect_s: float = 10.0
    write_s: float = 60.0
    read_s: float = 600.0  # of a whole attempt, from its beginning to the end of the body
    clock: Clock = field(default_factory=Clock)

    def allows_another(self, attempts: Sequence[RequestAttempt]) -> bool:
        """Whether the attempts made so far leave room for one more."""
        unanswered = sum(a.status == "timeout" and a.billed != "no" for a in attempts)
        return len(attempts) < self.attempts and unanswered < self.unanswered

    def wait_s(self, request: Request, number: int, retry_after_s: float | None = None) -> float:
        """How long to wait after attempt `number` (from 1)."""
        if retry_after_s is not None and retry_after_s > 0:
            return min(retry_after_s, self.longest_retry_after_s)
        whole = min(self.longest_wait_s, self.first_wait_s * 2.0 ** (number - 1))
        digest = hashlib.sha256(f"{request.hash} {number}".encode()).digest()
        return whole * (1 - self.jitter * int.from_bytes(digest[:4], "big") / 2**32)


@dataclass(frozen=True)
class Sent:
    """What became of one send: the attempt (without its times), and whether a retry can help."""

    attempt: RequestAttempt
    retry: bool = False
    retry_after_s: float | None = None


def refused(
    status: int, body: Mapping[str, Any] | str | None, key: str
) -> tuple[str, bool, Billed, str]:
    """What an HTTP error means: kind, whether a retry can help, whether it may be billed, why."""
    code, message = error_in(body)
    detail = f"HTTP {status}" + (f", {code}" if code else "") + (f": {message}" if message else "")
    words = f"{code} {message}".lower()
    if status == 402 or (400 <= status < 500 and QUOTA.search(words)):
        kind, sentence = "quota", NO_CREDIT + " {detail}; top it up or wait for the next period"
    elif status in (400, 413, 422) and CONTEXT.search(words):
        kind, sentence = "context", TOO_LONG + " {detail}"
    elif status >= 500:
        kind, sentence = "server", "the server failed {detail}"
    else:
        refusal = ("bad_request", "the server refused the request {detail}")
        kind, sentence = MEANINGS.get(status, refusal)
    billed: Billed = "unknown" if status in GATEWAY_GAVE_UP else "no"
    return kind, kind in PASSING_KINDS, billed, sentence.format(detail=f"({detail})", key=key)


def failed(code: str, message: str) -> tuple[str, bool, str]:
    """What a failure inside an HTTP 200 means: kind, whether a retry can help, and a sentence."""
    detail = f"{clip(code)}: {clip(message)}" if message else clip(code)
    words = f"{code} {message}".lower()
    if QUOTA.search(words):
        return "quota", False, f"{NO_CREDIT} ({detail})"
    if CONTEXT.search(words):
        return "context", False, f"{TOO_LONG} ({detail})"
    passing_status = code.isdigit() and (int(code) in (408, 409, 429) or int(code) >= 500)
    passing = passing_status or PASSING_CODE.fullmatch(code) is not None
    return "failed", passing, f"the provider reports a failure ({detail})"


def error_in(body: Mapping[str, Any] | str | None) -> tuple[str, str]:
    """Code and message of an error body, whatever its shape; empty where there is none."""
    error = body.get("error", body) if isinstance(body, Mapping) else body
    if isinstance(error, Mapping):
        code = error.get("code") or error.get("type") or ""
        return clip(str(code)), clip(str(error.get("message") or error.get("detail") or ""))
    return "", clip(str(error or ""))


def clip(message: str) -> str:
    """A provider's message on one line, without secrets and control characters, not too long."""
    # Cleaned first: a control character may part a secret.
    line = " ".join(str(scrub(printable(message))).split())
    return line if len(line) <= MESSAGE_CHARACTERS else line[: MESSAGE_CHARACTERS - 1] + "…"


def retry_after_s(
    headers: Mapping[str, str], wall: Callable[[], float] = time.time
) -> float | None:
    """Seconds that the server asks to wait; a date counts from the server's own clock."""
    lower = {name.lower(): value.strip() for name, value in headers.items()}
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(lower[name]) * scale
        except (KeyError, ValueError):
            continue
        return seconds if math.isfinite(seconds) else None
    until, now = _date(lower.get("retry-after", "")), _date(lower.get("date", ""))
    return None if until is None else until - (wall() if now is None else now)


def _date(text: str) -> float | None:
    try:
        moment: datetime = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def conclude(attempts: Sequence[RequestAttempt]) -> Reply:
    """The reply that the last attempt brought, or its ModelError: the same for a recording."""
    last = attempts[-1]
    if (answer := last.answer) is None:
        count = f" ({len(attempts)} attempts)" if len(attempts) > 1 else ""
        raise ModelError(last.kind, last.error + count, tuple(attempts))
    calls, text, tried = answer.calls, answer.text, tuple(attempts)
    return Reply(calls, text, last.usage, tried, answer.incomplete, answer.replay)


def repeat(
    request: Request,
    attempts: Sequence[RequestAttempt],
    observer: AttemptObserver | None,
    *,
    paid: bool = False,
) -> Reply:
    """Show known attempts to the observer and end as they ended. Those `paid` for before the
    episode was cut off count, but cost nothing now.
    """
    observer = observer or Observers()
    for number, attempt in enumerate(attempts, start=1):
        if paid:
            observer.again(request, number, attempt)
        else:
            observer.before(request, number)
            observer.after(request, number, attempt)
    return conclude(attempts)
