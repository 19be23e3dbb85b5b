"""Two processes cannot drive one robot or read one camera: a file lock for each, by its key.

The kernel frees a lock when its process ends, however it ends. Locks are a user's own, on one
machine; in a file stands who holds it, for the sentence that the other process says.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from capex.errors import RigFault

# Not TMPDIR and not XDG_RUNTIME_DIR: they differ between a terminal and a service of one user.
FOLDER = Path("/tmp") / f"capex-rigs-{os.getuid()}"


def lock_key(lock: str, options: Mapping[str, Any]) -> str:
    """What two processes may not share: what the rig file says, or else an address or a serial
    among the options, or all of them.
    """
    for candidate in (lock, options.get("address"), options.get("serial")):
        if candidate:
            return str(candidate)
    return json.dumps(dict(options), sort_keys=True, default=str)


@contextlib.contextmanager
def one_at_a_time(what: str, name: str, patience_s: float) -> Iterator[None]:
    """Only one process of this machine at a time is inside, of any user and any rig; RigFault after
    `patience_s`. `what`: "camera front", for the sentence.
    """
    path = f"/tmp/capex-{name}.lock"
    try:
        file = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except PermissionError:  # another user's, which may be opened but not created again
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        with contextlib.suppress(PermissionError):
            os.fchmod(file, 0o644)  # whatever our umask is, others must be able to open it
        until = time.monotonic() + patience_s
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise RigFault(
                        f"{what} has waited {patience_s:.0f} s for another process of this machine"
                        f" that holds {path}; end that one"
                    ) from None
            time.sleep(0.05)
        yield
    finally:
        os.close(file)


class RigLock:
    """A held lock, until `release` or the end of the process."""

    def __init__(self, what: str, key: str, rig: str, *, patience_s: float = 0.0):
        """`what`: "the arm at 172.16.0.2", for the sentence. Waits for a holder that has said that
        it is about to let go (`leaving`), and up to `patience_s` for any other.
        """
        FOLDER.mkdir(mode=0o700, exist_ok=True)
        self._rig = rig
        path = FOLDER / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.lock"
        until = time.monotonic() + patience_s
        while True:
            self._file: IO[str] = open(path, "a+", encoding="utf-8")  # noqa: SIM115
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                holder = _holder(self._file)
                self._file.close()
            if time.monotonic() >= until and time.time() >= float(holder.get("leaves_at", 0.0)):
                raise RigFault(f"{what} is driven by {_named(holder)}; end it first")
            time.sleep(0.05)
        self._write({"pid": os.getpid(), "rig": rig})

    def leaving(self, within_s: float) -> None:
        """Say that this process lets go within that time; whoever wants the lock waits for it."""
        holder = {"pid": os.getpid(), "rig": self._rig, "leaves_at": time.time() + within_s}
        self._write(holder)

    def release(self) -> None:
        """Let go; the file stays, so that nobody locks a name that was removed."""
        self._file.close()

    def _write(self, holder: Mapping[str, Any]) -> None:
        self._file.seek(0)
        self._file.truncate()
        self._file.write(json.dumps(holder))
        self._file.flush()


def _holder(file: IO[str]) -> dict[str, Any]:
    file.seek(0)
    try:
        return dict(json.loads(file.read()))
    except ValueError:  # it is being written
        return {}


def _named(holder: Mapping[str, Any]) -> str:
    if not holder:
        return "another process"
    return f"process {holder.get('pid')} (rig {holder.get('rig')})"
