"""Errors have codes and keep them between processes; the documentation lists every code."""

import pickle
import re
from decimal import Decimal
from pathlib import Path

import pytest

import capex
from capex.errors import (
    BadCommand,
    BudgetExceeded,
    CapexError,
    DamagedFile,
    ErrorCode,
    GLUnavailable,
    PhysicsDiverged,
    RigFault,
    StateMismatch,
    UnknownName,
    Unsupported,
)
from capex.loopback import Refused
from capex.models import ModelError, RequestAttempt
from capex.npz import NotReadable
from capex.processes import WorkerDied
from capex.trust import NotAllowed

ERRORS = {
    CapexError("a sentence"): ErrorCode.INVALID_INPUT,
    CapexError("a sentence", code=ErrorCode.IN_USE): ErrorCode.IN_USE,
    UnknownName("arm", "middle", ["left", "right"], flag="--arm"): ErrorCode.UNKNOWN_NAME,
    DamagedFile(Path("steps.npz"), "it is empty"): ErrorCode.DAMAGED_FILE,
    BudgetExceeded(
        Decimal(2), Decimal(3), "episode", Decimal("1.5"), Decimal(1)
    ): ErrorCode.BUDGET_EXCEEDED,
    BadCommand("arms: none"): ErrorCode.BAD_COMMAND,
    Unsupported("no depth"): ErrorCode.UNSUPPORTED,
    StateMismatch("another start"): ErrorCode.STATE_MISMATCH,
    GLUnavailable("no OpenGL"): ErrorCode.MISSING_PACKAGE,
    PhysicsDiverged("not finite"): ErrorCode.PHYSICS_DIVERGED,
    RigFault("an arm is lost", not_home=True): ErrorCode.RIG_FAULT,
    ModelError("quota", "no money", (RequestAttempt("http 429", "no", 0.1),)): (
        ErrorCode.MODEL_FAILED
    ),
    NotAllowed("module x", "--allow-module x"): ErrorCode.NOT_PERMITTED,
    NotReadable("too large"): ErrorCode.UNREADABLE_FILE,
    WorkerDied("exit code 9"): ErrorCode.WORKER_DIED,
    Refused(404, "nothing there"): ErrorCode.BAD_REQUEST,
}


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_keeps_its_class_its_code_and_its_fields_between_processes(error):
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert copy.code is error.code is ERRORS[error]
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


def test_the_code_of_one_error_is_not_that_of_its_class():
    assert Unsupported("no depth", code=ErrorCode.BAD_SETTING).code is ErrorCode.BAD_SETTING
    assert Unsupported.code is ErrorCode.UNSUPPORTED


def test_every_code_is_used_and_documented():
    text = (Path(__file__).parents[1] / "docs/python.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| ([A-Z_]+) \|", text, re.MULTILINE) == [code.name for code in ErrorCode]
    used = {
        name
        for path in Path(capex.__file__).parent.rglob("*.py")
        for name in re.findall(r"\bErrorCode\.([A-Z_]+)", path.read_text(encoding="utf-8"))
    }
    assert used == {code.name for code in ErrorCode}
