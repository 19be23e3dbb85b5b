"""How an attempt is written: into a temporary folder, until one rename makes it exist.

.writing-PID-0007/begun.json    of a robot's attempt under way: what it is and took so far
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capex import codec
from capex.codec import Amount as Seconds
from capex.codec import Count
from capex.errors import CapexError, DamagedFile, ErrorCode
from capex.models import LedgerTotals
from capex.pose import Array
from capex.run import live
from capex.run.files import (
    TEMPORARY,
    bytes_of,
    file_of,
    flush_file,
    flush_folder,
    laid_out,
    lock,
    read_json,
    write_bytes,
    write_flushed,
    write_json,
)
from capex.run.steps import STEPS, archive
from capex.untrusted import no_links, read_bytes

if TYPE_CHECKING:
    from capex.run.store import Chain


@dataclass(frozen=True)
class Timing:
    """timing.json: the wall times of an attempt, apart from its record, so that records of equal
    episodes are equal bytes. Seconds, but for the Unix time of its end.
    """

    episode_s: Seconds = 0.0  # without the reset
    reset_s: Seconds = 0.0
    queued_s: Seconds = 0.0  # for a core
    model_s: Seconds = 0.0  # of waiting for the model
    answered_s: Seconds = 0.0  # that the model took for its replies
    # Of a student's rollout: control steps, rendering, inference, waiting for other rollouts.
    physics_s: Seconds | None = None
    drawing_s: Seconds | None = None
    network_s: Seconds | None = None
    waiting_s: Seconds | None = None
    unix_time: Seconds | None = None
    verdicts_seen_at: Mapping[str, str] = field(default_factory=dict)  # by start

    def as_json(self) -> dict[str, Any]:
        """timing.json, without what is not known."""
        data: dict[str, Any] = codec.to_json(self)
        return {k: v for k, v in data.items() if v not in (None, {})}


@dataclass(frozen=True, kw_only=True)
class InvalidNote:
    """The record of an attempt that an error of the model, the simulator or the robot ended. It
    counts against the start's attempts if the model had begun to answer. `continues`: the next one
    begins with its exchanges. `final`: the start's budget is used up.
    """

    task: str = ""
    arm: str = ""
    start: Count
    seed: Count = 0
    model: str = ""
    error: str
    counts: bool = False
    continues: bool = False
    final: bool = False
    position: Count | None = None
    ledger: LedgerTotals | None = None
    extensions: Mapping[str, Any] = field(default_factory=dict)


EXCHANGES, EXCHANGE_TIMES = "exchanges.jsonl", "exchange_times.jsonl"
WRITERS = ".writers"
BEGUN = "begun.json"


class EpisodeWriter:
    """A temporary folder that logs may stream into; one rename makes the episode exist."""

    def __init__(self, chain: Chain, index: int):
        self._chain, self._index = chain, index
        if chain.episode(index).exists():
            raise CapexError(
                f"{chain.episode(index)} exists already; an episode is written once",
                code=ErrorCode.ALREADY_EXISTS,
            )
        chain.episodes_path.mkdir(parents=True, exist_ok=True)
        self.folder = chain.episodes_path / f"{TEMPORARY}{os.getpid()}-{index:04d}"
        if self.folder.is_dir():  # what a failing disk made an attempt of this process leave
            chain.keep_exchanges(self.folder, index)
            shutil.rmtree(self.folder, ignore_errors=True)
        self._hold = open(chain.path / WRITERS, "a", opener=no_links)  # noqa: SIM115  until the episode is written or dropped
        lock(self._hold, shared=True)
        self.folder.mkdir()

    def commit(
        self, record: Mapping[str, Any] | str, timing: Timing, steps: Mapping[str, Array]
    ) -> Path:
        """Finish the episode: flush everything, then rename. `record`: its JSON values, or those as
        `laid_out` has them.
        """
        return self._finish(self._chain.episode(self._index), record, timing, steps)

    def commit_invalid(self, note: InvalidNote, timing: Timing, steps: Mapping[str, Array]) -> Path:
        """Keep an attempt that an error invalidated, apart from the episodes."""
        attempt_dir = self._finish(self._invalid_dir(), codec.to_json(note), timing, steps)
        if note.continues and (attempt_dir / EXCHANGES).is_file():
            self._chain.leave(
                self._index,
                read_bytes(attempt_dir / EXCHANGES),
                bytes_of(attempt_dir / EXCHANGE_TIMES),
            )
        return attempt_dir

    def _invalid_dir(self) -> Path:
        folder = self._chain.path / "invalid"
        folder.mkdir(parents=True, exist_ok=True)
        return next_numbered(folder, f"{self._index:04d}")

    def adopt(
        self,
        files: Mapping[str, bytes],
        *,
        invalid: bool = False,
        unfinished: tuple[bytes, bytes | None] | None = None,
    ) -> Path:
        """Keep an attempt written on another machine: files by name, and what it leaves."""
        for name, content in files.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_bytes(self.folder / name, content)
        attempt_dir = self._rename(
            self._invalid_dir() if invalid else self._chain.episode(self._index)
        )
        if unfinished is not None:
            self._chain.leave(self._index, *unfinished)
        return attempt_dir

    def discard(self) -> None:
        """Drop what was written so far."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self._hold.close()

    def cut_off(self) -> None:
        """Drop what was written so far but for the exchanges, which were paid for. A disk that does
        not even take their new name leaves them where they are, for the next sweep.
        """
        try:
            self._chain.keep_exchanges(self.folder, self._index)
        except OSError:
            with contextlib.suppress(OSError):
                for path in self.folder.iterdir():
                    if path.is_dir():
                        shutil.rmtree(path, ignore_errors=True)
                    elif path.name not in (EXCHANGES, EXCHANGE_TIMES):
                        path.unlink(missing_ok=True)
            self._hold.close()
        else:
            self.discard()

    def _finish(
        self,
        attempt_dir: Path,
        record: Mapping[str, Any] | str,
        timing: Timing,
        steps: Mapping[str, Array],
    ) -> Path:
        text = record if isinstance(record, str) else laid_out(record)
        write_flushed(self.folder / "record.json", file_of(text))
        write_flushed(self.folder / "timing.json", file_of(laid_out(timing.as_json())))
        write_flushed(self.folder / STEPS, archive(steps))
        return self._rename(attempt_dir)

    def _rename(self, attempt_dir: Path) -> Path:
        """The moment at which the attempt comes to exist; everything in it is on disk before."""
        live.forget(self.folder)
        if (times := self.folder / EXCHANGE_TIMES).is_file():
            flush_file(times)  # its lines were not waited for one by one
        for folder, _, _ in os.walk(self.folder):
            flush_folder(Path(folder))
        os.rename(self.folder, attempt_dir)
        flush_folder(attempt_dir.parent)
        self._chain.forget_unfinished(self._index)
        self._hold.close()
        return attempt_dir


def note_begun(attempt_dir: Path, note: InvalidNote, timing: Timing) -> None:
    """Note that a robot's attempt is under way: the note survives even a kill."""
    write_json(attempt_dir / BEGUN, {"note": codec.to_json(note), "timing": timing.as_json()})


def forget_begun(attempt_dir: Path) -> None:
    """The attempt is whole: its note is not needed any more."""
    (attempt_dir / BEGUN).unlink(missing_ok=True)


def keep_begun(chain: Chain, leftover: Path, index: int) -> bool:
    """Turn a killed process's attempt by a robot into an invalid attempt; False where it had not
    begun.
    """
    try:
        begun = read_json(leftover / BEGUN)
    except (FileNotFoundError, DamagedFile):
        return False
    forget_begun(leftover)
    live.forget(leftover)
    write_json(leftover / "record.json", begun.get("note", {}))
    write_json(leftover / "timing.json", begun.get("timing", {}))
    write_flushed(leftover / STEPS, archive({}))
    for folder in (leftover, *(p for p in leftover.rglob("*") if p.is_dir())):
        flush_folder(folder)
    invalid = chain.path / "invalid"
    invalid.mkdir(parents=True, exist_ok=True)
    os.rename(leftover, next_numbered(invalid, f"{index:04d}"))
    flush_folder(invalid)
    return True


def next_numbered(folder: Path, name: str) -> Path:
    """NAME-1, or the number after the last one in the folder."""
    numbers = [
        int(m[1])
        for p in folder.iterdir()
        if (m := re.fullmatch(rf"{re.escape(name)}-(\d+)", p.name))
    ]
    return folder / f"{name}-{max(numbers, default=0) + 1}"
