"""Secrets stay out of all that is written: headers by an allow-list, key values by replacement.

A key is the value of an environment variable whose name ends like one (OPENAI_API_KEY, HF_TOKEN),
or anything shaped like OpenAI's and Anthropic's keys, masked ones included: providers quote them in
their error messages.

A key of the environment is recognised as it is and, where it is ASCII, in other case, in hex, in
base64 (both alphabets, also inside a longer text such as "Bearer KEY"), and in any of these with
characters written as URL, JSON or hex escapes (also with their backslash or percent sign escaped
again) or as HTML references, and with line breaks or control characters between. What is
enciphered, compressed or encoded twice is not recognised.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
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
_HEX = "[0-9a-fA-F]"
# A character that is written in another way, or a break that is. Each branch begins with a literal:
# that is what lets the search be quick.
_ESCAPE = re.compile(
    rf"\\\\*(?:u\{{?({_HEX}{{2,4}})\}}?|x({_HEX}{{2}})|[nrtbf])?|%(?:25)*({_HEX}{{2}})"
    rf"|&\#[xX]0*({_HEX}{{2,4}});|&\#0*([0-9]{{2,3}});"
)
_CODED = ("\\u", "\\x", "%", "&#")  # begin the escapes that stand for a character
_BREAKS = ("\\n", "\\r", "\\t", "\\b", "\\f")
_UNSEEN = [*range(0x20), *range(0x7F, 0xA0), 0xAD, *range(0x200B, 0x2010), *range(0x2028, 0x202F)]
_UNSEEN += [*range(0x2060, 0x206A), 0xFEFF, ord("\\")]
# Case, and the two alphabets of base64, make no difference; what is not seen is left out.
_FOLDED: dict[int, int | None] = {c: c + 32 for c in range(ord("A"), ord("Z") + 1)}
_FOLDED |= {ord("-"): ord("+"), ord("_"): ord("/")} | dict.fromkeys(_UNSEEN)


@dataclass(frozen=True)
class Secrets:
    """What must not be written: values as they are, and the plain forms of their encodings."""

    values: tuple[str, ...]  # longest first, so that one inside another is replaced whole
    forms: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.values)


NO_SECRETS = Secrets((), ())


def secrets() -> Secrets:
    """Key values in the environment."""
    names = [name for name in os.environ if name.casefold().endswith(_NAMES)]
    values = {value for name in names if len(value := os.environ.get(name, "").strip()) >= SHORTEST}
    return _secrets(tuple(sorted(values, key=lambda value: (-len(value), value))))


@lru_cache(maxsize=8)
def _secrets(values: tuple[str, ...]) -> Secrets:
    forms = {_plain(form) for value in values for form in _encodings(value)}
    return Secrets(values, tuple(sorted(forms, key=lambda form: (-len(form), form))))


def _encodings(value: str) -> Iterable[str]:
    raw = value.encode("utf-8", "surrogateescape")
    # As text, as JSON with its surrogates, byte by byte in a URL, and in hex.
    yield from (value, json.dumps(value)[1:-1], raw.decode("latin-1"), raw.hex())
    for before in range(3):  # bytes of other text that share its first characters
        encoded = base64.b64encode(bytes(before) + raw).decode()
        # Without the characters that hold bits of what stands before or behind.
        yield encoded[-(-8 * before // 6) : (before + len(raw)) * 8 // 6]


def scrub(value: Any, known: Secrets | None = None) -> Any:
    """A JSON value with every secret in its strings replaced, keys of objects included."""
    known = secrets() if known is None else known
    if isinstance(value, dict) and clean(json.dumps(value), known):
        return value
    return _scrub(value, known)


def scrubbed_line(value: dict[str, Any], known: Secrets) -> bytes:
    """A JSON object on a line of its own, with every secret in it replaced."""
    line = json.dumps(value)
    if not clean(line, known):
        line = json.dumps(_scrub(value, known))
    return line.encode() + b"\n"


def clean(text: str, known: Secrets) -> bool:
    """Whether a text, as it is or written as JSON, surely holds no secret. Mostly there is none,
    and looking for them in the whole text takes a fraction of the time that looking in each string
    takes.
    """
    if _PREFIX in text or any(value in text for value in known.values):
        return False
    if not known:
        return True
    plain = _plain(text)
    return not any(form in plain for form in known.forms)


def _plain(text: str) -> str:
    """A text with its escapes undone and without what says nothing, folded."""
    if any(mark in text for mark in _CODED):
        text = _ESCAPE.sub(_character, text)
    else:  # the same, but quicker
        for written in _BREAKS:
            text = text.replace(written, "")
    return text.translate(_FOLDED)


def _character(escape: re.Match[str]) -> str:
    """The character that an escape stands for; a break stands for none."""
    if (number := escape.lastindex) is None:
        return ""
    return chr(int(escape[number], 10 if number == _ESCAPE.groups else 16))


def _scrub(value: Any, known: Secrets) -> Any:
    if isinstance(value, str):
        for secret in known.values:
            value = value.replace(secret, REDACTED)
        value = _SHAPE.sub(REDACTED, value) if _PREFIX in value else value
        return value if not known else _without_encoded(value, known)
    if value is None or isinstance(value, int | float):  # most of what is written
        return value
    if isinstance(value, Mapping):
        return {_scrub(k, known): _scrub(v, known) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_scrub(v, known) for v in value]
    return value


def _without_encoded(text: str, known: Secrets) -> str:
    """A text with the encodings of secrets replaced where they stand."""
    plain = _plain(text)
    if not any(form in plain for form in known.forms):
        return text
    places: list[tuple[int, int]] = []  # in `text`, of each character of `plain`
    at = 0
    for escape in _ESCAPE.finditer(text):
        places += _seen(text, at, escape.start())
        places += [escape.span()] * len(_character(escape).translate(_FOLDED))
        at = escape.end()
    places += _seen(text, at, len(text))
    spans = [
        (places[found.start()][0], places[found.start() + len(form) - 1][1])
        for form in known.forms
        for found in re.finditer(f"(?={re.escape(form)})", plain)  # they may overlap
    ]
    pieces, done = [], 0
    for start, end in sorted(spans):
        if start >= done:
            pieces += [text[done:start], REDACTED]
        done = max(done, end)
    return "".join([*pieces, text[done:]])


def _seen(text: str, start: int, end: int) -> list[tuple[int, int]]:
    return [(n, n + 1) for n in range(start, end) if _FOLDED.get(ord(text[n]), 0) is not None]


def allowed_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers that are kept: request id, rate limits, retry advice, date, processing time."""
    return {
        name.lower(): str(scrub(value))
        for name, value in sorted(headers.items())
        if _HEADERS.fullmatch(name)
    }
