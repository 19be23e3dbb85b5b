"""Values that a flag cannot take, refused with a sentence about the flag as it was typed, before
the parser would speak of types.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args, get_origin

from capex.cli.help import Argument, arguments
from capex.errors import CapexError, ErrorCode, UnknownName


def refuse_wrong_values(name: str, kind: type, words: Sequence[str]) -> None:
    """Look at the words after a command's name: at the word that says what to do, and at the value
    of each flag that takes a number or one of some words.
    """
    listed = arguments(kind)
    by_flag = {flag: argument for argument in listed for flag in argument.flags}
    if words and not words[0].startswith("-") and listed and not listed[0].flags:
        choices = get_args(listed[0].value) if get_origin(listed[0].value) is Literal else ()
        if choices and words[0] not in choices:
            raise UnknownName("command", f"{name} {words[0]}", [f"{name} {c}" for c in choices])
    for word, following in zip(words, [*words[1:], None], strict=False):
        flag, equals, rest = word.partition("=")
        text = rest if equals else following
        if flag in by_flag and text is not None:
            _refuse(flag, by_flag[flag], text)


def _refuse(flag: str, argument: Argument, text: str) -> None:
    kind: Any = argument.value
    if get_origin(kind) is Literal and text not in get_args(kind):
        raise CapexError(
            f"{flag} is '{text}'; valid: {', '.join(get_args(kind))}", code=ErrorCode.UNKNOWN_NAME
        )
    if kind in (int, float):
        try:
            kind(text)
        except ValueError:
            number = "a whole number" if kind is int else "a number"
            raise CapexError(
                f"{flag} is '{text}'; it must be {number}", code=ErrorCode.BAD_SETTING
            ) from None
