"""The run directory: the only truth about what was tried. Episodes are written whole or not at all.

    runs/NAME/manifest.json       format, settings, versions, fingerprint; see capex.run.manifest
    runs/NAME/spend.jsonl         every reservation and settlement; see capex.run.spend
    runs/NAME/allocation.json     with --allocate, the batches of attempts and why they were granted
    runs/NAME/chains/WORLD--TASK--ARM/
        episodes/0007/            record.json, timing.json, steps.npz, exchanges.jsonl, images/,
                                  verdicts.jsonl where a person judges; later certificate.json and
                                  counterfactual.json
        invalid/0007-1/           attempts that an error or a verdict invalidated, kept and counted
        damaged/0007-1/           what `capex repair` moved aside
        asked.json                starts that an evaluation was asked for
        unfinished/               exchanges of cut-off episodes: paid for, used when run again

An episode is written into a temporary folder beside its place, every file and the folder are
flushed to disk, and one rename makes it exist. Wall times live in timing.json alone, so that
records of two runs compare byte for byte.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from capex import codec
from capex.errors import CapexError, DamagedFile, ErrorCode
from capex.pose import Array
from capex.run.files import (
    TEMPORARY,
    alive,
    bytes_of,
    flush_folder,
    lock,
    read_json,
    remove_leftovers,
    write_bytes,
    write_json,
    writer_of,
)
from capex.run.manifest import (
    MANIFEST,
    Manifest,
    fingerprint,
    read_manifest,
    require_format,
    revision,
    versions,
    write_manifest,
)
from capex.run.writing import EXCHANGE_TIMES as EXCHANGE_TIMES
from capex.run.writing import EXCHANGES as EXCHANGES
from capex.run.writing import WRITERS, EpisodeWriter, Timing, keep_begun, next_numbered
from capex.untrusted import is_plain, no_links, read_bytes, require_plain

ASKED = "asked.json"
SPEND, PROMPT = "spend.jsonl", "prompt.txt"
EPISODES = "episodes"
FRAMES = "frames"  # of an episode: its recorded pictures
ATTEMPTS = (EPISODES, "invalid", "damaged")  # folders of a chain that hold attempts
ORPHANS_S = 30.0  # how long a new owner waits for the last words of a killed one's workers


@dataclass(frozen=True)
class AskedStarts:
    """asked.json."""

    starts: tuple[int, ...]


@dataclass(frozen=True)
class Chain:
    """All attempts of one arm at one task of one world, by start index."""

    path: Path

    @property
    def episodes_path(self) -> Path:
        """Where whole episodes live."""
        return self.path / EPISODES

    def episode(self, index: int) -> Path:
        """The folder of one start; it exists only when the episode is whole."""
        return self.episodes_path / f"{index:04d}"

    def finished(self) -> list[int]:
        """Start indices with a whole episode, in order."""
        if not self.episodes_path.is_dir():
            return []
        require_plain(self.path)
        with os.scandir(self.episodes_path) as entries:
            numbered = [e for e in entries if re.fullmatch(r"[0-9]{1,18}", e.name)]
            return sorted(int(e.name) for e in numbered if e.is_dir(follow_symlinks=False))

    def ask(self, starts: Iterable[int]) -> None:
        """Remember starts to run: a cut-off run shows what it lacks, since successes end first."""
        asked = AskedStarts(tuple(sorted({*self.asked(), *starts})))
        write_json(self.path / ASKED, codec.to_json(asked))

    def asked(self) -> set[int]:
        """Every start that was asked for, where that is known."""
        asked_file = self.path / ASKED
        if not asked_file.is_file():
            return set()
        try:
            return set(codec.from_json(read_json(asked_file), AskedStarts).starts)
        except ValueError:
            raise CapexError(
                f"{asked_file} does not hold a list of starts; delete it and run the command again",
                code=ErrorCode.DAMAGED_FILE,
            ) from None

    def begin(self, index: int) -> EpisodeWriter:
        """Begin to write an episode; it comes to exist only when the writer commits."""
        return EpisodeWriter(self, index)

    def commit(
        self, index: int, record: Mapping[str, Any], timing: Timing, steps: Mapping[str, Array]
    ) -> Path:
        """Write an episode whole, in one go."""
        return self.begin(index).commit(record, timing, steps)

    def invalid(self, index: int | None = None) -> list[Path]:
        """The folders of invalidated attempts, at one start or at all of them, oldest first."""
        folder = self.path / "invalid"
        if not folder.is_dir():
            return []
        names = {
            p: re.fullmatch(r"([0-9]{1,18})-([0-9]{1,18})", p.name)
            for p in folder.iterdir()
            if not p.is_symlink()
        }
        numbers = {p: (int(m[1]), int(m[2])) for p, m in names.items() if m}
        oldest_first = sorted(numbers, key=lambda p: numbers[p])
        return [p for p in oldest_first if index in (None, numbers[p][0])]

    def set_invalid(self, index: int) -> Path:
        """Move an episode that was judged invalid to the invalid attempts: its start runs again."""
        folder = self.path / "invalid"
        folder.mkdir(exist_ok=True)
        invalid_dir = next_numbered(folder, f"{index:04d}")
        os.rename(self.episode(index), invalid_dir)
        flush_folder(folder)
        flush_folder(self.episodes_path)
        return invalid_dir

    def moved_aside(self) -> list[Path]:
        """The damaged attempts that `capex repair` took out of the chain."""
        folder = self.path / "damaged"
        return sorted(folder.iterdir()) if folder.is_dir() else []

    def move_aside(self, attempt: Path) -> Path:
        """Take a damaged attempt out of the chain, whole: an episode as damaged/0007-1, an invalid
        one as damaged/invalid-0007-1-1.
        """
        folder = self.path / "damaged"
        folder.mkdir(exist_ok=True)
        whole = attempt.parent == self.episodes_path
        name = attempt.name if whole else f"{attempt.parent.name}-{attempt.name}"
        aside = next_numbered(folder, name)
        os.rename(attempt, aside)
        flush_folder(attempt.parent)
        flush_folder(folder)
        return aside

    @contextlib.contextmanager
    def owned(self) -> Iterator[None]:
        """Be the only process that runs this chain; a second one is refused with a sentence. A
        killed owner's hold ends with it.

        The workers of a killed owner may live a moment longer; this waits for the end of what they
        write.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with open(self.path / ".owner", "a", encoding="ascii", opener=no_links) as owner:
            if not lock(owner):
                raise CapexError(
                    f"{self.path} is being written by another process; wait for it or choose"
                    " another --out",
                    code=ErrorCode.IN_USE,
                )
            with open(self.path / WRITERS, "a", encoding="ascii", opener=no_links) as writers:
                if not lock(writers, patience_s=ORPHANS_S):
                    raise CapexError(
                        f"{self.path} is still being written by a worker of a killed command; wait"
                        " for its end",
                        code=ErrorCode.IN_USE,
                    )
            yield

    def unfinished(self, index: int) -> Path:
        """The exchanges that a cut-off attempt at a start had paid for; the file exists only if
        there are some. 0007.times has their wall times, as far as they were kept.
        """
        return self.path / "unfinished" / f"{index:04d}.jsonl"

    def unfinished_logs(self) -> list[Path]:
        """The exchanges of every cut-off attempt."""
        return sorted((self.path / "unfinished").glob("*.jsonl"))

    def unfinished_starts(self) -> set[int]:
        """The starts of which something is left."""
        return {int(p.stem) for p in (self.path / "unfinished").glob("*") if p.stem.isdigit()}

    def leave(self, index: int, exchanges: bytes, times: bytes | None) -> None:
        """Leave exchanges for the next attempt at a start."""
        log = self.unfinished(index)
        log.parent.mkdir(exist_ok=True)
        if times is None:  # those of other exchanges would be taken for theirs
            log.with_suffix(".times").unlink(missing_ok=True)
        else:
            write_bytes(log.with_suffix(".times"), times)
        write_bytes(log, exchanges)

    def left(self, index: int) -> tuple[bytes, bytes | None] | None:
        """The exchanges left for the next attempt at a start with their times; None where there are
        none.
        """
        log = self.unfinished(index)
        return (read_bytes(log), bytes_of(log.with_suffix(".times"))) if log.is_file() else None

    def forget_unfinished(self, index: int) -> None:
        """An attempt at the start is whole: nothing is left to continue."""
        for path in (self.unfinished(index), self.unfinished(index).with_suffix(".times")):
            path.unlink(missing_ok=True)

    def sweep(self, *, everything: bool = False) -> None:
        """Remove what a killed process left half-written, and keep the exchanges in it; what a
        living one is writing stays. What a robot had begun is kept as an invalid attempt.

        `everything`: the caller knows that nobody writes here, although a process may have the
        number of the killed one.
        """
        for folder in (self.path, self.path / "unfinished"):
            remove_leftovers(folder, everything=everything)
        for leftover in self.under_way():
            index = leftover.name[len(TEMPORARY) :].partition("-")[2]
            process = writer_of(leftover)
            if everything or (process is not None and not alive(process)):
                if index.isdigit() and not keep_begun(self, leftover, int(index)):
                    self.keep_exchanges(leftover, int(index))
                shutil.rmtree(leftover, ignore_errors=True)

    def under_way(self) -> list[Path]:
        """The temporary folders of attempts. One that a link, a pipe or a device lies in is none:
        what is read and written there would reach beyond it.
        """
        if not self.episodes_path.is_dir():
            return []
        found = [p for p in self.episodes_path.glob(f"{TEMPORARY}*") if not p.is_symlink()]
        return [p for p in found if p.is_dir() and is_plain(p)]

    def keep_exchanges(self, folder: Path, index: int) -> None:
        """Keep the exchanges of an unfinished attempt, unless an earlier one had got further."""
        log, kept = folder / EXCHANGES, self.unfinished(index)
        if not log.is_file() or (kept.is_file() and kept.stat().st_size >= log.stat().st_size):
            return
        kept.parent.mkdir(exist_ok=True)
        if (times := folder / EXCHANGE_TIMES).is_file():
            os.replace(times, kept.with_suffix(".times"))
        os.replace(log, kept)
        flush_folder(kept.parent)


def chain_name(world: str, task: str, arm: str) -> str:
    """WORLD--TASK--ARM, as the name of a folder; the name of a world may hold a path."""
    folder = re.sub(r"[^\w.,=+-]+", "-", world)
    return f"{folder}--{task}--{arm}"


@dataclass(frozen=True)
class Run:
    """A run directory."""

    path: Path

    def chain(self, world: str, task: str, arm: str) -> Chain:
        """The chain of an arm at a task."""
        return Chain(self.path / "chains" / chain_name(world, task, arm))

    def chains(self) -> list[Chain]:
        """Every chain that has begun, by name."""
        folder = self.path / "chains"
        if not folder.is_dir():
            return []
        self.require_plain()
        return [Chain(p) for p in sorted(folder.iterdir()) if p.is_dir()]

    def require_plain(self) -> None:
        """DamagedFile where a link, a pipe or a device lies in the run, above its attempts: those
        are looked at as each is read.
        """
        for place, folders, _ in os.walk(self.path):
            with contextlib.suppress(FileNotFoundError):  # a campaign removed it meanwhile
                require_plain(Path(place))
            if Path(place).parent == self.path / "chains":
                folders[:] = [name for name in folders if name not in ATTEMPTS]

    def sweep(self) -> None:
        """Remove what killed processes left half-written beside the chains."""
        remove_leftovers(self.path)

    @property
    def manifest(self) -> Manifest:
        """The manifest as written; DamagedFile where a field has another type, or something in the
        folder leads out of it.
        """
        self.require_plain()
        return read_manifest(self.path)


def open_run(path: Path, settings: Mapping[str, Any], gl_backend: str = "") -> Run:
    """Create a run, or continue one whose settings are the same; starts are not part of them."""
    wanted = json.loads(json.dumps(settings))
    if not (path / MANIFEST).exists():
        return create_run(path, Manifest(settings=wanted), gl_backend)
    run = find_run(path)
    held = run.manifest.settings
    if held != wanted:
        changed = sorted(k for k in {*wanted, *held} if held.get(k) != wanted.get(k))
        raise CapexError(
            f"{path} holds a run with other settings ({', '.join(changed)} differ); choose"
            " another --out or repeat its settings",
            code=ErrorCode.OTHER_SETTINGS,
        )
    return run


def create_run(path: Path, manifest: Manifest, gl_backend: str = "") -> Run:
    """A new run directory; its manifest gets versions, revision and fingerprint. Any other folder
    is left alone.
    """
    leftovers = f"{TEMPORARY}*"
    if path.exists() and (not path.is_dir() or any(not p.match(leftovers) for p in path.iterdir())):
        raise CapexError(
            f"{path} exists and is not a run directory (no {MANIFEST}); choose another --out",
            code=ErrorCode.ALREADY_EXISTS,
        )
    path.mkdir(parents=True, exist_ok=True)
    here = fingerprint(gl_backend)
    made_by = replace(manifest, versions=versions(), revision=revision(), fingerprint=here)
    write_manifest(path, made_by)
    return Run(path)


def find_run(path: Path) -> Run:
    """An existing run of this format; anything else is refused with a sentence."""
    if not (path / MANIFEST).is_file():
        raise CapexError(
            f"{path} is not a run directory: it has no {MANIFEST}; give the folder that --out"
            " named",
            code=ErrorCode.WRONG_CONTENT,
        )
    with contextlib.suppress(DamagedFile):  # what is wrong with it is told by `Run.manifest`
        require_format(path, read_json(path / MANIFEST))
    return Run(path)
