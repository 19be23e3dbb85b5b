"""Errors that a user reads. Each carries one sentence: what was wrong, what was given, what would
be right.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

Scope = Literal["episode", "campaign"]

# What a terminal or a page would act on instead of showing it: C0 but for newline and tab, DEL, C1,
# what turns the writing direction, and halves of characters, which cannot be written.
_ACTS = {*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)} - {
    ord("\n"),
    ord("\t"),
} | {*range(0xD800, 0xE000)}
_UNSEEN = dict.fromkeys(_ACTS)


def printable(text: str) -> str:
    """Foreign text (a server's, a model's) for a terminal, a log or a page: without control
    characters; newlines and tabs stay.
    """
    return text.translate(_UNSEEN)


def as_cell(value: Any) -> Any:
    """A value for a table that a spreadsheet may open: foreign text that begins like a formula is
    marked as text.
    """
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t")) else text


class CapexError(Exception):
    """A mistake or a limit that has a sentence for the user; the command line prints it without a
    traceback.
    """


class UnknownName(CapexError):
    """A name that is not among the valid ones; the message lists those, closest first. `flag`: the
    one that the name was given to; `also`: what else would be right.
    """

    def __init__(
        self,
        kind: str,
        given: str,
        valid: Iterable[str],
        *,
        where: str = "",
        flag: str = "",
        also: str = "",
    ):
        self.kind, self.given, self.valid = kind, given, closest_first(given, valid)
        sentence = f"there is no {kind} '{given}'{where}; valid: {', '.join(self.valid)}{also}"
        super().__init__(f"{flag}: {sentence}" if flag else sentence)


class DamagedFile(CapexError):
    """A file of an attempt that is missing or cannot be read. Commands over whole runs leave its
    episode out, name it and go on.
    """

    def __init__(self, path: Path, reason: str):
        self.path, self.reason = path, reason
        super().__init__(f"{path} is damaged: {reason}")

    def __reduce__(self) -> tuple[type[DamagedFile], tuple[Path, str]]:
        return DamagedFile, (self.path, self.reason)


class BudgetExceeded(CapexError):
    """The next request would exceed a budget. Dollars spent include what is held for attempts whose
    cost is not known; `lost` are those of them that brought this attempt no answer.
    """

    def __init__(
        self,
        spent: Decimal,
        limit: Decimal,
        scope: Scope,
        asked: Decimal,
        lost: Decimal = Decimal(0),
    ):
        self.spent, self.limit, self.scope, self.asked, self.lost = spent, limit, scope, asked, lost
        unanswered = f", {dollars(lost)} of it without an answer" if lost else ""
        super().__init__(
            f"the {scope}'s budget of {dollars(limit)} does not cover the next request, which may"
            f" cost {dollars(asked)}: {dollars(spent)} are spent or held{unanswered}"
        )

    @property
    def by_losses(self) -> bool:
        """Whether the request would fit if every dollar had brought an answer: the service, not
        the model, used the budget up.
        """
        return self.lost > 0 and self.spent - self.lost + self.asked <= self.limit

    def __reduce__(self) -> tuple[Any, ...]:
        return BudgetExceeded, (self.spent, self.limit, self.scope, self.asked, self.lost)


class BadCommand(CapexError, ValueError):
    """A command or action refused before physics was touched; the message names the field."""


class Unsupported(CapexError):
    """Something that this world does not claim to have (depth, a saved state, base motion)."""


class StateMismatch(CapexError):
    """A saved state that belongs to another world, task, start or version."""


class GLUnavailable(CapexError):
    """No OpenGL backend could be loaded; the message names the packages that bring one."""


class PhysicsDiverged(CapexError):
    """The simulation produced a value that is not finite; the episode is invalid, never
    a success.
    """


class RigFault(CapexError):
    """A rig cannot go on: an arm or a camera is lost, an e-stop is pressed, a robot refuses. The
    arms hold; an attempt under way is invalid, never a failure of the model.

    Args:
        not_home: whether an arm stands where it cannot find home by itself.
        stop: the press of a person's (`rigs.link.PersonStop`) that this fault is about.
    """

    def __init__(self, message: str, *, not_home: bool = False, stop: object = None):
        super().__init__(message)
        self.not_home = not_home
        self.stop = stop


def closest_first(given: str, valid: Iterable[str]) -> list[str]:
    """The valid names, those most like the given one first."""

    def likeness(name: str) -> float:
        return difflib.SequenceMatcher(None, given.lower(), name.lower()).ratio()

    return sorted(valid, key=lambda name: (-likeness(name), name))


def dollars(value: Decimal) -> str:
    """Cents, or hundredths of them where there are some."""
    return f"${value:.4f}" if value % Decimal("0.01") else f"${value:.2f}"


class OperatorLeft(BaseException):
    """The operator ends the campaign. Not an error: nothing that handles errors may swallow it."""
