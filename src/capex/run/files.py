"""Files written whole or not at all, read with a sentence for what is damaged, and locked."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from json.encoder import encode_basestring
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ImportError:  # Windows: a run then has no guard against a second process
    fcntl = None  # type: ignore[assignment]

from capex.errors import CapexError, ErrorCode
from capex.untrusted import read_bytes
from capex.untrusted import read_json as read_json

TEMPORARY = ".writing-"
LEVELS = 4  # that are indented: of a record its waypoints, each on a line
# Nothing that is written holds itself: looking out for that costs a tenth of the encoding.
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False).encode
# What needs no encoder, which costs more to set up than to run.
_PLAIN: dict[type, Callable[[Any], str]] = {
    str: encode_basestring,
    int: repr,
    bool: {True: "true", False: "false"}.__getitem__,
    type(None): {None: "null"}.__getitem__,
}


def bytes_of(path: Path) -> bytes | None:
    """What a file holds; None where there is none."""
    return read_bytes(path) if path.is_file() else None


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON file whole."""
    write_bytes(path, file_of(laid_out(value)))


def file_of(text: str) -> bytes:
    """A JSON text as a file holds it. A lone surrogate in a model's text stays what it is in JSON:
    an escape.
    """
    return f"{text}\n".encode("utf-8", "backslashreplace")


def laid_out(value: Any, levels: int = LEVELS, indent: str = "\n") -> str:
    """JSON for people and programs: what lies deeper than some levels stands on one line, which
    Python encodes several times as fast as indented text.
    """
    kind = type(value)
    if (plain := _PLAIN.get(kind)) is not None:
        return plain(value)
    if not value and kind is list:
        return "[]"
    if levels and value:
        deeper = indent + " "
        if kind is dict:
            rows = [f"{_key(k)}: {laid_out(v, levels - 1, deeper)}" for k, v in value.items()]
            return "{" + deeper + f",{deeper}".join(rows) + indent + "}"
        if kind is list and type(value[0]) is dict:
            items = [laid_out(item, levels - 1, deeper) for item in value]
            return "[" + deeper + f",{deeper}".join(items) + indent + "]"
    return _encode(value)


def _key(name: Any) -> str:
    """A key as JSON has it: a string, whatever it was."""
    return encode_basestring(name) if isinstance(name, str) else _encode({name: 0})[1:-4]


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file whole: into a neighbour, flushed, then renamed."""
    neighbour = path.with_name(f"{TEMPORARY}{os.getpid()}-{path.name}")
    try:
        write_flushed(neighbour, content)
        os.replace(neighbour, path)
    except BaseException as error:
        neighbour.unlink(missing_ok=True)
        _name_file(error, path)
        raise
    flush_folder(path.parent)


def write_flushed(path: Path, content: bytes) -> None:
    """Write a file that is on disk when this returns: for a folder that comes to exist as a whole,
    where nobody can find half of it.
    """
    with open(path, "wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())


def _name_file(error: BaseException, path: Path) -> None:
    """A write that fails, on a full disk, does not say where."""
    if isinstance(error, OSError) and error.filename is None:
        error.filename = str(path)


def writer_of(leftover: Path) -> int | None:
    """The process that wrote a half-written file or folder, .writing-PROCESS-NAME; None where the
    name is not one of ours.
    """
    number = leftover.name.removeprefix(TEMPORARY).partition("-")[0]
    return int(number) if number.isdecimal() else None


def remove_leftovers(folder: Path, *, everything: bool = False) -> None:
    """Remove files that killed processes left half-written in a folder; what a living one of this
    machine writes stays, and what this process does: of its number it writes the same name anew.

    `everything`: the caller knows that no other process writes here.
    """
    for leftover in folder.glob(f"{TEMPORARY}*"):
        process = writer_of(leftover) or 0
        dead = everything or not alive(process)
        if dead and process != os.getpid() and leftover.is_file():
            leftover.unlink(missing_ok=True)


@contextlib.contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """A folder to write into that takes its place in one rename, flushed, when the block ends well;
    otherwise nothing is left of it.

    What killed processes left half-written beside it is removed first.
    """
    if target.exists():
        raise CapexError(
            f"{target} exists already; choose another --out or remove it",
            code=ErrorCode.ALREADY_EXISTS,
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    for leftover in target.parent.glob(f"{TEMPORARY}*-{glob.escape(target.name)}"):
        process = writer_of(leftover)
        ours = process is not None and leftover.name == f"{TEMPORARY}{process}-{target.name}"
        if ours and process is not None and not alive(process):
            shutil.rmtree(leftover, ignore_errors=True)
    folder = target.with_name(f"{TEMPORARY}{os.getpid()}-{target.name}")
    folder.mkdir()
    try:
        yield folder
        for path in folder.rglob("*"):
            if path.is_dir():
                flush_folder(path)
            else:
                flush_file(path)
        flush_folder(folder)
        os.rename(folder, target)
        flush_folder(target.parent)
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        _name_file(error, target)
        raise


def lock(file: IO[str], *, shared: bool = False, patience_s: float = 0.0) -> bool:
    """Lock a file until it is closed, by the kernel if need be; False if another process
    holds it.
    """
    if fcntl is None:
        return True
    until = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(0.05)
        else:
            return True


def alive(process: int) -> bool:
    """Whether another process of this number runs."""
    if process <= 0 or process == os.getpid():
        return False
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):  # no process has so large a number
        return False
    except OSError:
        return True
    return True


def flush_file(path: Path) -> None:
    """Make what was written to a file durable."""
    with open(path, "rb") as written:
        os.fsync(written.fileno())


def flush_folder(folder: Path) -> None:
    """Make renames in a folder durable."""
    if os.name == "nt":  # Windows cannot open a folder for flushing; its rename is durable enough
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def now(timespec: str = "milliseconds") -> str:
    """The time as notes and verdicts keep it: UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec=timespec)
