"""The last line of a command: what to type next, with the paths at hand."""

from __future__ import annotations

import shlex
from itertools import count
from pathlib import Path

from capex.cli.console import console


def print_next(*words: str | Path) -> None:
    """One line with the command that follows; nothing else is printed after it."""
    console.print(
        f"next: {shlex.join(map(str, words))}", markup=False, highlight=False, soft_wrap=True
    )


def free(path: Path) -> Path:
    """The path, or the first of path-2, path-3, .. where nothing is yet."""
    names = (path.with_name(f"{path.name}-{k}") for k in count(2))
    return path if not path.exists() else next(name for name in names if not name.exists())
