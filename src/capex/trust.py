"""Which code beyond this package may be loaded: the modules and files that the user named.

Runs, datasets and checkpoints come from strangers, and they name worlds. Such a name is looked up
here before anything is imported or started: a built-in world is always right, a module or a
file only once `allow` was called with it. The command line calls it with what was typed, and
nothing calls it with what a file of a run, dataset or checkpoint says. Worker processes carry the
permission of the process that started them and no more.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from capex.errors import CapexError, ErrorCode

Job = TypeVar("Job")
Result = TypeVar("Result")

MODULE_FLAG = "--allow-module"


class NotAllowed(CapexError):
    """A module or a file that the user did not name. `flag` permits it for one command."""

    code = ErrorCode.NOT_PERMITTED

    def __init__(self, sentence: str, flag: str):
        self.flag = flag
        super().__init__(f"{sentence}; if you trust it, permit it with {flag}")


@dataclass(frozen=True)
class Trust:
    """What the user named."""

    modules: frozenset[str] = frozenset()
    files: frozenset[Path] = frozenset()  # resolved


_held = Trust()


def held() -> Trust:
    """What this process may load, for the workers that it starts."""
    return _held


def hold(trust: Trust) -> None:
    """Set what this process may load: a worker does so first."""
    global _held
    _held = trust


def run_holding(trust: Trust, work: Callable[[Job], Result], job: Job) -> Result:
    """Do a job in a process of a cluster with the permission of the one that sent it."""
    hold(trust)
    return work(job)


def allow(modules: Iterable[str] = (), files: Iterable[str | os.PathLike[str]] = ()) -> None:
    """Let this process load these too. Only for what the user named."""
    resolved = frozenset(Path(file).expanduser().resolve() for file in files)
    hold(Trust(_held.modules | frozenset(modules), _held.files | resolved))


def require_module(name: str, what: str) -> None:
    """NotAllowed unless the user named the module; `what` says what it was named as."""
    if name not in _held.modules:
        raise NotAllowed(
            f"the {what} '{name}' is a module that is not part of this package, and it was not"
            " loaded",
            f"{MODULE_FLAG} {name}",
        )


def require_file(path: Path, what: str, flag: str) -> None:
    """NotAllowed unless the user named the file, which is a `what` that `flag` permits."""
    if path.resolve() not in _held.files:
        raise NotAllowed(
            f"the {what} '{path}' can start programs, and it was not opened", f"{flag} {path}"
        )
