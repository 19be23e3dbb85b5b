"""The retry policy, the only one: which failures are tried again, how often, after what wait, and
until when.

| failure | tried again | billed |
|---|---|---|
| no connection, or the request could not be sent whole | yes | no |
| connection lost after sending | yes | unknown |
| read deadline passed after sending | once (it may be billed twice) | unknown |
| HTTP 408, 409, 429 | yes | no |
| HTTP 5xx | yes | no; unknown behind a gateway (502, 504) |
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
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Protocol

from capex.errors import printable
from capex.models import Attempt, Billed, Request
from capex.models.redact import scrub

QUOTA_CODES = (
    "insufficient_quota",
    "billing_hard_limit_reached",
    "billing_not_active",
    "billing_error",
    "credit balance",
)
CONTEXT_WORDS = (  # of OpenAI, vLLM, SGLang, llama.cpp, LiteLLM, Anthropic
    "context_length_exceeded",
    "context length",
    "context size",
    "context window",
    "contextwindow",
    "max_model_len",
    "maximum model length",
    "prompt is too long",
)
PASSING_CODES = (
    "server_error",
    "rate_limit_exceeded",
    "rate_limit_error",
    "overloaded_error",
    "api_error",
    "internal_error",
    "timeout_error",
    "timeout",
    "vector_store_timeout",
)
PASSING_KINDS = ("rate_limit", "timeout", "conflict", "server")
NO_CREDIT = "the provider says that the account has no credit left"
TOO_LONG = "the request is too long for the model"
MESSAGE_CHARACTERS = 300


class Clock(Protocol):
    """Time as the policy sees it; tests bring their own."""

    def now(self) -> float:
        """Seconds on a clock that never goes back."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        """Seconds on a clock that never goes back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


@dataclass(frozen=True)
class Policy:
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
    clock: Clock = field(default_factory=SystemClock)

    def allows_another(self, attempts: Sequence[Attempt]) -> bool:
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
    """What became of one send: the attempt (the caller fills in its times), and whether trying
    again can help.
    """

    attempt: Attempt
    retry: bool = False
    retry_after_s: float | None = None


def refused(
    status: int, body: Mapping[str, Any] | str | None, key: str
) -> tuple[str, bool, Billed, str]:
    """What an HTTP error means: kind, whether trying again can help, whether it may be billed, and
    a sentence.
    """
    code, message = error_in(body)
    said = f"HTTP {status}" + (f", {code}" if code else "") + (f": {message}" if message else "")
    kind, sentence = _meaning(status, f"{code} {message}".lower(), f"({said})", key)
    billed: Billed = "unknown" if status in (502, 504) else "no"
    return kind, kind in PASSING_KINDS, billed, sentence


def _meaning(status: int, words: str, said: str, key: str) -> tuple[str, str]:
    """Kind of an HTTP error, and a sentence."""
    if status == 402 or (400 <= status < 500 and any(word in words for word in QUOTA_CODES)):
        return "quota", f"{NO_CREDIT} {said}; top it up or wait for the next period"
    if status == 401:
        check = f"check the environment variable {key}"
        return "authentication", f"the server refused the key {said}; {check}"
    if status == 403:
        return "permission", f"the key in {key} may not do this {said}"
    if status == 404:
        return "not_found", f"the server knows no such model or address {said}; check both"
    if status in (400, 413, 422) and any(word in words for word in CONTEXT_WORDS):
        return "context", f"{TOO_LONG} {said}"
    if status == 429:
        return "rate_limit", f"the server asks for fewer requests {said}"
    if status in (408, 409):
        kind = "timeout" if status == 408 else "conflict"
        return kind, f"the server did not take the request {said}"
    if status >= 500:
        return "server", f"the server failed {said}"
    return "bad_request", f"the server refused the request {said}"


def failed(code: str, message: str) -> tuple[str, bool, str]:
    """What a failure inside an HTTP 200 means: kind, whether trying again can help, and
    a sentence.
    """
    said = f"{clip(code)}: {clip(message)}" if message else clip(code)
    words = f"{code} {message}".lower()
    if any(word in words for word in QUOTA_CODES):
        return "quota", False, f"{NO_CREDIT} ({said})"
    if any(word in words for word in CONTEXT_WORDS):
        return "context", False, f"{TOO_LONG} ({said})"
    passing = code in PASSING_CODES or (
        code.isdigit() and (int(code) in (408, 409, 429) or int(code) >= 500)
    )
    return "failed", passing, f"the provider reports a failure ({said})"


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
    """Seconds that the server asks to wait: retry-after-ms, or Retry-After as seconds or as a date
    (against the server's own clock).
    """
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
