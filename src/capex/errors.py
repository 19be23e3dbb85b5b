"""Errors that a user reads. Each carries one sentence: what was wrong, what was given, what would
be right. And each carries a code: programs and tests decide by `error.code`, people read the
sentence. A code names the cause, so that many sentences share one.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from decimal import Decimal
from enum import StrEnum
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


class ErrorCode(StrEnum):
    """Why an operation was refused or failed."""

    # What was asked for.
    INVALID_INPUT = "invalid-input"  # a value that has none of the causes below
    UNKNOWN_NAME = "unknown-name"  # a name or a key that is not among the valid ones
    UNKNOWN_START = "unknown-start"  # a start that the task does not have
    BAD_SETTING = "bad-setting"  # a setting of the wrong form, or out of its range
    MISSING_SETTING = "missing-setting"  # a setting that is needed and was not given
    CONFLICTING_SETTINGS = "conflicting-settings"  # settings that exclude each other
    NOT_APPLICABLE = "not-applicable"  # a setting or a command that means nothing here
    BAD_COMMAND = "bad-command"  # a command or an action for the robot
    BAD_REQUEST = "bad-request"  # a request to one of this package's servers
    WRONG_ORDER = "wrong-order"  # a call before the one that it needs
    UNSUPPORTED = "unsupported"  # the world or its robot cannot do this
    PERSON_NEEDED = "person-needed"  # a person must arrange, judge, agree or give a name
    NOT_PERMITTED = "not-permitted"  # code, a server or a file that the user did not name
    # Files, folders and runs.
    NOT_FOUND = "not-found"  # a file, a folder or a part of a run that is not there
    ALREADY_EXISTS = "already-exists"  # what would be written is there
    UNREADABLE_FILE = "unreadable-file"  # a file that cannot be read, or not as what it is given
    WRONG_CONTENT = "wrong-content"  # a file or a folder that holds something else
    DAMAGED_FILE = "damaged-file"  # a file of a run or a dataset, damaged or incomplete
    CANNOT_WRITE = "cannot-write"  # a file that cannot be written
    OTHER_SETTINGS = "other-settings"  # the output was begun with other settings or other data
    MISMATCH = "mismatch"  # two things that do not fit together
    STATE_MISMATCH = "state-mismatch"  # a saved state of another world, task, start or version
    NO_DATA = "no-data"  # nothing that could be used is left
    IN_USE = "in-use"  # another process holds the run, the rig or the port
    # Money.
    NO_PRICE = "no-price"  # what requests cost cannot be bounded
    BUDGET_EXCEEDED = "budget-exceeded"  # the next request would exceed a budget
    BUDGET_TOO_SMALL = "budget-too-small"  # a budget that covers no request
    SPENT_UNKNOWN = "spent-unknown"  # what the campaign has spent cannot be read or written
    # What happened.
    MODEL_FAILED = "model-failed"  # no reply; `ModelError.kind` says why
    GIVEN_UP = "given-up"  # a campaign or a chain ended: going on would bring nothing
    MISSING_PACKAGE = "missing-package"  # a package or a library that is not installed
    NOT_AVAILABLE = "not-available"  # a device, a cluster or an address that is not there
    CONTRACT_BROKEN = "contract-broken"  # a world, a driver or a dataset breaks its contract
    PHYSICS_DIVERGED = "physics-diverged"
    RIG_FAULT = "rig-fault"
    WORKER_DIED = "worker-died"  # a process ended before its job was done
    JOB_FAILED = "job-failed"  # a job ended without a result


class CapexError(Exception):
    """A mistake or a limit that has a sentence for the user; the command line prints it without a
    traceback. A subclass has a code of its own; `code` says it for this one error.
    """

    code: ErrorCode = ErrorCode.INVALID_INPUT

    def __init__(self, sentence: str, *, code: ErrorCode | None = None):
        super().__init__(sentence)
        if code is not None:
            self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        """Every error travels between processes as it is, whatever its constructor takes."""
        return _again, (type(self), self.args), vars(self)


def _again(kind: type[CapexError], args: tuple[Any, ...]) -> CapexError:
    return kind.__new__(kind, *args)


class UnknownName(CapexError):
    """A name that is not among the valid ones; the message lists those, closest first. `flag`: the
    one that the name was given to; `also`: what else would be right.
    """

    code = ErrorCode.UNKNOWN_NAME

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

    code = ErrorCode.DAMAGED_FILE

    def __init__(self, path: Path, reason: str):
        self.path, self.reason = path, reason
        super().__init__(f"{path} is damaged: {reason}")


class BudgetExceeded(CapexError):
    """The next request would exceed a budget. Dollars spent include what is held for attempts whose
    cost is not known; `lost` are those of them that brought this attempt no answer.
    """

    code = ErrorCode.BUDGET_EXCEEDED

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


class BadCommand(CapexError, ValueError):
    """A command or action refused before physics was touched; the message names the field."""

    code = ErrorCode.BAD_COMMAND


class Unsupported(CapexError):
    """Something that this world does not claim to have (depth, a saved state, base motion)."""

    code = ErrorCode.UNSUPPORTED


class StateMismatch(CapexError):
    """A saved state that belongs to another world, task, start or version."""

    code = ErrorCode.STATE_MISMATCH


class GLUnavailable(CapexError):
    """No OpenGL backend could be loaded; the message names the packages that bring one."""

    code = ErrorCode.MISSING_PACKAGE


class PhysicsDiverged(CapexError):
    """The simulation produced a value that is not finite; the episode is invalid, never
    a success.
    """

    code = ErrorCode.PHYSICS_DIVERGED


class RigFault(CapexError):
    """A rig cannot go on: an arm or a camera is lost, an e-stop is pressed, a robot refuses. The
    arms hold; an attempt under way is invalid, never a failure of the model.

    Args:
        not_home: whether an arm stands where it cannot find home by itself.
        stop: the press of a person's (`rigs.link.PersonStop`) that this fault is about.
    """

    code = ErrorCode.RIG_FAULT

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
