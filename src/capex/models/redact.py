"""Secrets stay out of all that is written: headers by an allow-list, key values by replacement.

A key is the value of an environment variable whose name ends like one (OPENAI_API_KEY, HF_TOKEN),
or anything shaped like OpenAI's and Anthropic's keys, masked ones included: providers quote them in
their error messages.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

REDACTED = "[redacted]"
SHORTEST = 8  # a shorter value (vLLM's "EMPTY") is a word, not a secret
_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)$", re.IGNORECASE)
_PREFIX = "sk-"
_SHAPE = re.compile(r"\bsk-[\w*.-]{16,}")
_HEADERS = re.compile(
    r"(x-request-id|request-id|date|retry-after(-ms)?|openai-processing-ms|openai-version|(x-|anthropic-)ratelimit-[a-z-]+)",
    re.IGNORECASE,
)


def secrets() -> list[str]:
    """Key values in the environment, longest first so that one inside another is replaced whole."""
    values = {
        v.strip() for k, v in os.environ.items() if _NAME.search(k) and len(v.strip()) >= SHORTEST
    }
    return sorted(values, key=lambda value: (-len(value), value))


def scrub(value: Any, known: list[str] | None = None) -> Any:
    """A JSON value with every secret in its strings replaced, keys of objects included."""
    known = secrets() if known is None else known
    if isinstance(value, str):
        for secret in known:
            value = value.replace(secret, REDACTED)
        return _SHAPE.sub(REDACTED, value) if _PREFIX in value else value
    if value is None or isinstance(value, int | float):  # most of what is written
        return value
    if isinstance(value, Mapping):
        return {scrub(k, known): scrub(v, known) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [scrub(v, known) for v in value]
    return value


def allowed_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers that are kept: request id, rate limits, retry advice, date, processing time."""
    return {
        name.lower(): str(scrub(value))
        for name, value in sorted(headers.items())
        if _HEADERS.fullmatch(name)
    }
