"""What a person types: single keys at a terminal, lines from anywhere else."""

from __future__ import annotations

import os
import select
import sys
import termios
import threading
import tty
from typing import Any, TextIO

POLL_S = 0.1
LONGEST_LINE = 4096  # bytes that a terminal gives at once


class Keys:
    """Reads keys and lines. `close` ends a wait in another thread and leaves the terminal as it
    was.
    """

    def __init__(self, source: TextIO | None = None):
        self._source = sys.stdin if source is None else source
        self._closed = threading.Event()
        self._before: list[Any] | None = None  # how the terminal was

    @property
    def terminal(self) -> bool:
        """Whether a person types."""
        return not self._source.closed and self._source.isatty()

    def key(self, valid: str) -> str:
        """One of these keys, without Enter at a terminal; the first letter of a line elsewhere,
        where Enter alone is the key "\\n". Empty at the end of the input.
        """
        while not self._closed.is_set():
            typed = self._single() if self.terminal else self._source.readline()
            if not typed:
                break
            if (letter := typed.strip()[:1].lower() or "\n") in valid:
                return letter
        return ""

    def key_within(self, valid: str, timeout_s: float, *, keep: bool = False) -> str | None:
        """Like `key`, but None where none of them was typed in time. Elsewhere than at a terminal
        it waits for a line. `keep`: keys that were typed before count, too.
        """
        if not self.terminal:
            return self.key(valid)
        self._before = termios.tcgetattr(self._source)
        tty.setcbreak(self._source, termios.TCSADRAIN if keep else termios.TCSAFLUSH)
        try:
            if self._closed.is_set():
                return ""
            if not select.select([self._source], [], [], timeout_s)[0]:
                return None
            typed = os.read(self._source.fileno(), 1).decode(errors="replace")
        finally:
            self._restore()
        letter = typed.strip().lower() or "\n"
        return letter if letter in valid else None

    def line(self) -> str:
        """A line without its end; empty at the end of the input."""
        typed = self._read(LONGEST_LINE) if self.terminal else self._source.readline()
        return typed.strip()

    def close(self) -> None:
        """Nobody is asked any more."""
        self._closed.set()
        self._restore()

    def _single(self) -> str:
        """A key at once, which the terminal does not show."""
        self._before = termios.tcgetattr(self._source)
        tty.setcbreak(self._source, termios.TCSADRAIN)  # keeps what was typed already
        try:
            return self._read(1)
        finally:
            self._restore()

    def _read(self, most: int) -> str:
        """What was typed. Past Python's own buffer, in which keys would wait unseen."""
        while not self._closed.is_set():
            if select.select([self._source], [], [], POLL_S)[0]:
                return os.read(self._source.fileno(), most).decode(errors="replace")
        return ""

    def _restore(self) -> None:
        before, self._before = self._before, None
        if before is not None:
            termios.tcsetattr(self._source, termios.TCSADRAIN, before)
