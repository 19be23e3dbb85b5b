"""Secrets stay out of all that is written: headers by an allow-list, key values by replacement.

A key is the value of an environment variable whose name ends like one (OPENAI_API_KEY, HF_TOKEN),
or anything shaped like OpenAI's and Anthropic's keys, masked ones included: providers quote them in
their error messages.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any

REDACTED = "[redacted]"
SHORTEST = 8  # a shorter value (vLLM's "EMPTY") is a word, not a secret
_NAMES = ("key", "token", "secret", "password")  # how the name of a variable with one ends
_PREFIX = "sk-"
_SHAPE = re.compile(r"\bsk-[\w*.-]{16,}")
_HEADERS = re.compile(
    r"(x-request-id|request-id|date|retry-after(-ms)?|openai-processing-ms|openai-version|(x-|anthropic-)ratelimit-[a-z-]+)",
    re.IGNORECASE,
)


def secrets() -> list[str]:
    """Key values in the environment, longest first so that one inside another is replaced whole."""
    names = [name for name in os.environ if name.casefold().endswith(_NAMES)]
    values = {value for name in names if len(value := os.environ.get(name, "").strip()) >= SHORTEST}
    return sorted(values, key=lambda value: (-len(value), value))


def scrub(value: Any, known: list[str] | None = None) -> Any:
    """A JSON value with every secret in its strings replaced, keys of objects included."""
    known = secrets() if known is None else known
    if isinstance(value, dict) and clean(json.dumps(value), known):
        return value
    return _scrub(value, known)


def scrubbed_line(value: dict[str, Any], known: list[str]) -> bytes:
    """A JSON object on a line of its own, with every secret in it replaced."""
    line = json.dumps(value)
    if not clean(line, known):
        line = json.dumps(_scrub(value, known))
    return line.encode() + b"\n"


def clean(text: str, known: list[str]) -> bool:
    """Whether a JSON text, in ASCII or not, surely holds no secret. Mostly there is none, and
    looking for them in the whole text takes a fraction of the time that looking in each string
    takes.
    """
    plain = all(json.dumps(secret)[1:-1] == secret for secret in known)  # stands there as it is
    return plain and _PREFIX not in text and not any(secret in text for secret in known)


def _scrub(value: Any, known: list[str]) -> Any:
    if isinstance(value, str):
        for secret in known:
            value = value.replace(secret, REDACTED)
        return _SHAPE.sub(REDACTED, value) if _PREFIX in value else value
    if value is None or isinstance(value, int | float):  # most of what is written
        return value
    if isinstance(value, Mapping):
        return {_scrub(k, known): _scrub(v, known) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_scrub(v, known) for v in value]
    return value


def allowed_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers that are kept: request id, rate limits, retry advice, date, processing time."""
    return {
        name.lower(): str(scrub(value))
        for name, value in sorted(headers.items())
        if _HEADERS.fullmatch(name)
    }
