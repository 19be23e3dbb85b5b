"""The collector's side of the rig's process: `open_link` starts it and gives a RigLink."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any

from capex.errors import CapexError, RigFault
from capex.processes import SAFE_PATH, set_niceness
from capex.rigs import locks
from capex.rigs.drivers import ArmFacts
from capex.rigs.interpreter import import_path, interpreter
from capex.rigs.link import TICKING_NICENESS, PersonStop, RigReading
from capex.rigs.rigfile import RigFile
from capex.worlds import Command

ANSWER_S = 30.0  # of a tick that takes 50 ms: whoever waits longer has lost the process
CONNECT_S = 120.0
HOME_S = 600.0
ENDS_S = 5.0
STILL = ("read", "counts", "stops")  # requests that never move an arm
LAST_WORDS = 300  # characters of a log


class KeeperLink:
    """A RigLink to a process of its own. `stop` may come from any thread, also while another one
    waits for an answer.
    """

    def __init__(self, rig: RigFile):
        self._rig = rig
        self._log = log_file(rig.name)
        ours, theirs = socket.socketpair()
        with theirs, open(self._log, "ab") as log:
            self._process = _start(rig, theirs, log)
        self._pipe = Connection(ours.detach())
        self._asking, self._sending = threading.Lock(), threading.Lock()
        self._gone = False
        self._unanswered = 0  # requests; more than one where somebody did not wait for an answer
        try:
            self._unanswered += 1
            self._send(rig)
            self.facts: Mapping[str, ArmFacts] = self._answer(CONNECT_S)
        except CapexError:
            self._pipe.close()
            self._process.wait()
            raise
        self._niceness: int | None = None  # before the first tick, on the real clock

    @property
    def process(self) -> int:
        """The number of the rig's process."""
        return self._process.pid

    @property
    def lost(self) -> bool:
        """Whether the process is gone, or has not answered."""
        return self._pipe.closed or self._gone or self._process.poll() is not None

    def tick(self, command: Command) -> RigReading:
        """One control tick."""
        if self._rig.clock == "real" and self._niceness is None:
            self._niceness = set_niceness(TICKING_NICENESS)
        return self._measured("tick", command)

    def read(self) -> RigReading:
        """Measure now."""
        return self._measured("read")

    def brake(self) -> RigReading:
        """Stop the arms where they are."""
        return self._measured("brake")

    def settle(self) -> RigReading:
        """Hold until the arms keep still, then measure."""
        return self._measured("settle", patience_s=ANSWER_S + self._rig.settle_at_most_s)

    def home(self) -> RigReading:
        """Every arm to its home pose, its force sensing tared there."""
        return self._measured("home", patience_s=HOME_S)

    def tare(self) -> RigReading:
        """Take the present forces of arms with free fingers for their bias."""
        return self._measured("tare")

    def stop(self) -> None:
        """E-stop: nobody waits for an answer."""
        self._send(("stop", None))

    def clear(self) -> None:
        """A person says that it is safe to go on."""
        self._ask("clear", patience_s=CONNECT_S)

    def stops(self) -> Sequence[PersonStop]:
        """Every stop of a person's since the process began."""
        stops: Sequence[PersonStop] = self._ask("stops")
        return stops

    def counts(self) -> dict[str, int]:
        """How often the guard changed, stopped or refused what, since the process began."""
        counts: dict[str, int] = self._ask("counts")
        return counts

    def close(self) -> None:
        """Close the drivers and end the process; a second time does nothing."""
        if self._niceness is not None:
            set_niceness(self._niceness)
            self._niceness = None
        if self._pipe.closed:
            return
        try:
            self._ask("close", patience_s=CONNECT_S)
        except RigFault:
            pass  # it has ended already
        finally:
            self._pipe.close()
            self._process.wait(CONNECT_S)

    def _measured(
        self, verb: str, argument: Any = None, patience_s: float = ANSWER_S
    ) -> RigReading:
        reading: RigReading = self._ask(verb, argument, patience_s)
        return reading

    def _ask(self, verb: str, argument: Any = None, patience_s: float = ANSWER_S) -> Any:
        with self._asking:
            try:
                self._unanswered += 1
                self._send((verb, argument))
                return self._answer(patience_s)
            except Exception:
                raise
            except BaseException:  # Ctrl-C: nobody waits for the end of this motion any more
                if verb not in STILL:
                    with contextlib.suppress(RigFault):
                        self.stop()
                raise

    def _send(self, message: Any) -> None:
        try:
            with self._sending:
                self._pipe.send(message)
        except OSError:
            raise self._lost() from None

    def _answer(self, patience_s: float) -> Any:
        try:
            while self._unanswered:
                if not self._pipe.poll(patience_s):
                    self._gone = True
                    raise RigFault(
                        f"the process of rig {self._rig.name} ({self.process}) has not answered for"
                        f" {patience_s:.0f} s; its log is {self._log}"
                    )
                kind, value = self._pipe.recv()
                self._unanswered -= 1
        except (EOFError, OSError):
            raise self._lost() from None
        if kind == "fault":
            raise value
        if kind == "refused":
            sentence, code = value
            raise CapexError(sentence, code=code)
        return value

    def _lost(self) -> RigFault:
        self._gone = True
        deaths = ", ".join(
            sorted({facts.on_disconnect for facts in getattr(self, "facts", {}).values()})
        )
        arms = f"; its arms: {deaths}" if deaths else ""
        ended = f"the process of rig {self._rig.name} ended"
        if not hasattr(self, "facts") and self._rig.python:
            needs = "an environment with Python 3.11, numpy and what the driver needs"
            ended += (
                f" ({self._last_words()}); python in the rig file is '{self._rig.python}', which"
            )
            ended += f" must be the interpreter of {needs}"
        return RigFault(f"{ended}; its log is {self._log}{arms}")

    def _last_words(self) -> str:
        self._process.wait(ENDS_S)
        lines = self._log.read_text(encoding="utf-8", errors="replace").split("\n")
        return next((line.strip()[:LAST_WORDS] for line in reversed(lines) if line.strip()), "")


def open_link(rig: RigFile) -> KeeperLink:
    """Start the rig's process: its robots are locked and connected when this returns; nothing has
    moved.
    """
    return KeeperLink(rig)


def log_file(name: str) -> Path:
    """Where a rig's process writes what it has to say."""
    locks.FOLDER.mkdir(mode=0o700, exist_ok=True)
    return locks.FOLDER / f"{name}.log"


def _start(rig: RigFile, theirs: socket.socket, log: IO[bytes]) -> subprocess.Popen[bytes]:
    """The process in a session of its own; our import path, so that it finds a user's driver."""
    program = interpreter(rig)
    log.write(f"-- {time.strftime('%Y-%m-%d %H:%M:%S')}\n".encode())
    return subprocess.Popen(
        [program, "-m", "capex.rigs.rigprocess", str(theirs.fileno())],
        pass_fds=[theirs.fileno()],
        env={**os.environ, **SAFE_PATH, "PYTHONPATH": import_path(program)},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
