"""The run directory: the only truth about what was tried. Episodes are written whole or not at all.

    runs/NAME/manifest.json       settings, versions, fingerprint
    runs/NAME/spend.jsonl         every reservation and settlement; see capex.run.spend
    runs/NAME/chains/WORLD--TASK--ARM/
        episodes/0007/            record.json, timing.json, steps.npz, exchanges.jsonl, images/
        invalid/0007-1/           attempts that an error invalidated, kept and counted
        damaged/0007-1/           what `capex repair` moved aside
        asked.json                starts that an evaluation was asked for
        unfinished/               exchanges of cut-off episodes: paid for, used when run again

An episode is written into a temporary folder beside its place, every file and the folder are
flushed to disk, and one rename makes it exist. Wall times live in timing.json alone, so that
records of two runs compare byte for byte.
"""

from __future__ import annotations

import contextlib
import ctypes.util
import json
import os
import platform
import re
import shutil
import subprocess
import time
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import IO, Any

import numpy as np

try:
    import fcntl
except ImportError:  # Windows: a run then has no guard against a second process
    fcntl = None  # type: ignore[assignment]

from capex.errors import CapexError, DamagedFile
from capex.pose import Array

TEMPORARY = ".writing-"
EXCHANGES, EXCHANGE_TIMES = "exchanges.jsonl", "exchange_times.jsonl"
ASKED = "asked.json"
SPEND, PROMPT = "spend.jsonl", "prompt.txt"
WRITERS = ".writers"
EPISODES, STEPS = "episodes", "steps.npz"
# how the last record of a zip archive begins: its last 22 bytes, as numpy writes it without a
# comment
ARCHIVE_END = b"PK\x05\x06"
ARCHIVE_END_BYTES = 22
ORPHANS_S = 30.0  # how long a new owner waits for the last words of a killed one's workers


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
        return sorted(
            int(p.name) for p in self.episodes_path.iterdir() if p.is_dir() and p.name.isdigit()
        )

    def ask(self, starts: Iterable[int]) -> None:
        """Remember starts that are to be run, so that a cut-off run shows what it lacks: successes
        end first and would flatter it.
        """
        write_json(self.path / ASKED, {"starts": sorted({*self.asked(), *starts})})

    def asked(self) -> set[int]:
        """Every start that was asked for, where that is known."""
        place = self.path / ASKED
        if not place.is_file():
            return set()
        starts = read_json(place).get("starts")
        if not isinstance(starts, list) or not all(isinstance(i, int) for i in starts):
            raise CapexError(
                f"{place} does not hold a list of starts; delete it and run the command again"
            )
        return set(starts)

    def begin(self, index: int) -> EpisodeWriter:
        """A place to write an episode into; it comes to exist only when the writer commits."""
        return EpisodeWriter(self, index)

    def commit(
        self,
        index: int,
        record: Mapping[str, Any],
        timing: Mapping[str, Any],
        steps: Mapping[str, Array],
    ) -> Path:
        """Write an episode whole, in one go."""
        return self.begin(index).commit(record, timing, steps)

    def invalid(self, index: int | None = None) -> list[Path]:
        """The folders of attempts that an error has invalidated, at one start or at all of them,
        oldest first.
        """
        folder = self.path / "invalid"
        names = (
            {p: re.fullmatch(r"(\d+)-(\d+)", p.name) for p in folder.iterdir()}
            if folder.is_dir()
            else {}
        )
        numbers = {p: (int(m[1]), int(m[2])) for p, m in names.items() if m}
        return [
            p for p in sorted(numbers, key=lambda p: numbers[p]) if index in (None, numbers[p][0])
        ]

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
        place = _free_place(
            folder,
            (
                attempt.name
                if attempt.parent == self.episodes_path
                else f"{attempt.parent.name}-{attempt.name}"
            ),
        )
        os.rename(attempt, place)
        _flush_folder(attempt.parent)
        _flush_folder(folder)
        return place

    @contextlib.contextmanager
    def owned(self) -> Iterator[None]:
        """Be the only process that runs this chain; a second one is refused with a sentence. A
        killed owner's hold ends with it.

        The workers of a killed owner may live a moment longer; this waits for the end of what they
        write.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with open(self.path / ".owner", "a", encoding="ascii") as owner:
            if not _lock(owner):
                raise CapexError(
                    f"{self.path} is being written by another process; wait for it or choose"
                    " another --out"
                )
            with open(self.path / WRITERS, "a", encoding="ascii") as writers:
                if not _lock(writers, patience_s=ORPHANS_S):
                    raise CapexError(
                        f"{self.path} is still being written by a worker of a killed command; wait"
                        " for its end"
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

    def leave(self, index: int, exchanges: bytes, times: bytes | None) -> None:
        """Leave exchanges for the next attempt at a start."""
        place = self.unfinished(index)
        place.parent.mkdir(exist_ok=True)
        if times is None:  # those of other exchanges would be taken for theirs
            place.with_suffix(".times").unlink(missing_ok=True)
        else:
            write_bytes(place.with_suffix(".times"), times)
        write_bytes(place, exchanges)

    def left(self, index: int) -> tuple[bytes, bytes | None] | None:
        """The exchanges left for the next attempt at a start with their times; None where there are
        none.
        """
        place = self.unfinished(index)
        return (
            (place.read_bytes(), _bytes_of(place.with_suffix(".times")))
            if place.is_file()
            else None
        )

    def forget_unfinished(self, index: int) -> None:
        """An attempt at the start is whole: nothing is left to continue."""
        for path in (self.unfinished(index), self.unfinished(index).with_suffix(".times")):
            path.unlink(missing_ok=True)

    def sweep(self, *, everything: bool = False) -> None:
        """Remove what a killed process left half-written, and keep the exchanges in it; what a
        living one is writing stays.

        `everything`: the caller knows that nobody writes here, although a process may have the
        number of the killed one.
        """
        for leftover in (
            self.episodes_path.glob(f"{TEMPORARY}*") if self.episodes_path.is_dir() else ()
        ):
            process, _, index = leftover.name[len(TEMPORARY) :].partition("-")
            if everything or not _alive(int(process or 0)):
                if index.isdigit():
                    self.keep_exchanges(leftover, int(index))
                shutil.rmtree(leftover, ignore_errors=True)

    def keep_exchanges(self, folder: Path, index: int) -> None:
        """Keep the exchanges of an attempt that ends here unfinished, unless an earlier one had got
        further.
        """
        log, place = folder / EXCHANGES, self.unfinished(index)
        if not log.is_file() or (place.is_file() and place.stat().st_size >= log.stat().st_size):
            return
        place.parent.mkdir(exist_ok=True)
        if (times := folder / EXCHANGE_TIMES).is_file():
            os.replace(times, place.with_suffix(".times"))
        os.replace(log, place)
        _flush_folder(place.parent)


class EpisodeWriter:
    """A temporary folder beside an episode's place. Logs may stream into `folder`; one rename makes
    the episode exist.
    """

    def __init__(self, chain: Chain, index: int):
        self._chain, self._index = chain, index
        if chain.episode(index).exists():
            raise CapexError(f"{chain.episode(index)} exists already; an episode is written once")
        chain.episodes_path.mkdir(parents=True, exist_ok=True)
        self.folder = chain.episodes_path / f"{TEMPORARY}{os.getpid()}-{index:04d}"
        shutil.rmtree(self.folder, ignore_errors=True)
        self._hold = open(chain.path / WRITERS, "a", encoding="ascii")  # noqa: SIM115  until the episode is written or dropped
        _lock(self._hold, shared=True)
        self.folder.mkdir()

    def commit(
        self, record: Mapping[str, Any], timing: Mapping[str, Any], steps: Mapping[str, Array]
    ) -> Path:
        """Finish the episode: flush everything, then rename. The rename is the only moment at which
        it comes to exist.
        """
        return self._finish(self._chain.episode(self._index), record, timing, steps)

    def commit_invalid(
        self,
        record: Mapping[str, Any],
        timing: Mapping[str, Any],
        steps: Mapping[str, Array],
        *,
        continues: bool = False,
    ) -> Path:
        """Keep an attempt that an error invalidated, apart from the episodes. `continues`: the next
        one begins with its exchanges.
        """
        place = self._finish(self._invalid_place(), record, timing, steps)
        if continues and (place / EXCHANGES).is_file():
            self._chain.leave(
                self._index, (place / EXCHANGES).read_bytes(), _bytes_of(place / EXCHANGE_TIMES)
            )
        return place

    def _invalid_place(self) -> Path:
        folder = self._chain.path / "invalid"
        folder.mkdir(parents=True, exist_ok=True)
        return _free_place(folder, f"{self._index:04d}")

    def adopt(
        self,
        files: Mapping[str, bytes],
        *,
        invalid: bool = False,
        unfinished: tuple[bytes, bytes | None] | None = None,
    ) -> Path:
        """Take over an attempt that was written on another machine: its files by their names, and
        what it leaves unfinished.
        """
        for name, content in files.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_bytes(self.folder / name, content)
        place = self._rename(self._invalid_place() if invalid else self._chain.episode(self._index))
        if unfinished is not None:
            self._chain.leave(self._index, *unfinished)
        return place

    def discard(self) -> None:
        """Drop what was written so far."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self._hold.close()

    def cut_off(self) -> None:
        """Drop what was written so far but for the exchanges, which were paid for."""
        with contextlib.suppress(OSError):  # on a full disk there is no room for them
            self._chain.keep_exchanges(self.folder, self._index)
        self.discard()

    def _finish(
        self,
        place: Path,
        record: Mapping[str, Any],
        timing: Mapping[str, Any],
        steps: Mapping[str, Array],
    ) -> Path:
        write_json(self.folder / "record.json", record)
        write_json(self.folder / "timing.json", timing)
        with open(self.folder / STEPS, "wb") as out:
            np.savez_compressed(out, allow_pickle=False, **steps)
            out.flush()
            os.fsync(out.fileno())
        return self._rename(place)

    def _rename(self, place: Path) -> Path:
        """The moment at which the attempt comes to exist; everything in it is on disk before."""
        for folder in (self.folder, *(p for p in self.folder.rglob("*") if p.is_dir())):
            _flush_folder(folder)
        os.rename(self.folder, place)
        _flush_folder(place.parent)
        self._chain.forget_unfinished(self._index)
        self._hold.close()
        return place


@dataclass(frozen=True)
class Run:
    """A run directory."""

    path: Path

    def chain(self, world: str, task: str, arm: str) -> Chain:
        """The chain of an arm at a task."""
        return Chain(self.path / "chains" / f"{world}--{task}--{arm}")

    def chains(self) -> list[Chain]:
        """Every chain that has begun, by name."""
        folder = self.path / "chains"
        return [Chain(p) for p in sorted(folder.iterdir()) if p.is_dir()] if folder.is_dir() else []

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest as written."""
        return read_json(self.path / "manifest.json")


def open_run(path: Path, settings: Mapping[str, Any], gl_backend: str = "") -> Run:
    """Create a run, or continue one whose settings are the same; starts are not part of them."""
    run = Run(path)
    wanted = json.loads(json.dumps(settings))
    if (path / "manifest.json").exists():
        held = run.manifest.get("settings")
        if held != wanted:
            changed = sorted(
                k for k in {*wanted, *(held or {})} if (held or {}).get(k) != wanted.get(k)
            )
            raise CapexError(
                f"{path} holds a run with other settings ({', '.join(changed)} differ); choose"
                " another --out or repeat its settings"
            )
        return run
    return create_run(path, {"settings": wanted}, gl_backend)


def create_run(path: Path, fields: Mapping[str, Any], gl_backend: str = "") -> Run:
    """A new run directory; its manifest holds the given fields, versions, revision and fingerprint.
    Any other folder is left alone.
    """
    leftovers = f"{TEMPORARY}*"
    if path.exists() and (not path.is_dir() or any(not p.match(leftovers) for p in path.iterdir())):
        raise CapexError(
            f"{path} exists and is not a run directory (no manifest.json); choose another --out"
        )
    path.mkdir(parents=True, exist_ok=True)
    made_by = {
        "versions": versions(),
        "revision": _revision(),
        "fingerprint": fingerprint(gl_backend),
    }
    write_json(path / "manifest.json", {**fields, **made_by})
    return Run(path)


def find_run(path: Path) -> Run:
    """An existing run; anything else is refused with a sentence."""
    if not (path / "manifest.json").is_file():
        raise CapexError(
            f"{path} is not a run directory: it has no manifest.json; give the folder that --out"
            " named"
        )
    return Run(path)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file; a damaged one is refused with a sentence."""
    try:
        loaded = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DamagedFile(path, str(error)) from None
    except RecursionError:
        raise DamagedFile(path, "it is nested too deeply") from None
    if not isinstance(loaded, dict):
        raise DamagedFile(path, "it holds no JSON object")
    return loaded


class Steps(dict[str, Any]):
    """The arrays of a steps.npz by name; one that it lacks is DamagedFile, not KeyError."""

    def __init__(self, path: Path, arrays: Mapping[str, Any]):
        super().__init__(arrays)
        self.path = path

    def __missing__(self, name: str) -> Any:
        raise DamagedFile(self.path, f"it has no '{name}'")


def read_steps(episode: Path) -> Steps:
    """The arrays of an episode's steps.npz, each checked against its checksum; DamagedFile where
    they cannot be read or do not fit.
    """
    path = episode / STEPS
    try:
        with open(path, "rb") as file:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise DamagedFile(path, "it is no archive of arrays")
            steps = Steps(path, {name: archive[name] for name in archive.files})
    except OSError as error:
        raise DamagedFile(path, f"it cannot be read ({error.strerror or error})") from None
    except (
        ValueError,
        KeyError,
        EOFError,
        RuntimeError,
        MemoryError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise DamagedFile(
            path, f"its arrays cannot be read ({str(error) or type(error).__name__})"
        ) from None
    ticks = steps["actions"].shape[0] if "actions" in steps and steps["actions"].ndim else 0
    fitting = {
        "actions": (2, ticks),
        "states": (2, ticks + 1),
        "proprio": (2, ticks + 1),
        "decision": (1, ticks),
        "waypoint": (1, ticks),
    }
    for name, (dimensions, rows) in fitting.items():
        if name in steps and (steps[name].ndim != dimensions or len(steps[name]) != rows):
            raise DamagedFile(
                path,
                f"'{name}' has the shape {steps[name].shape}, which does not fit {ticks} actions",
            )
    return steps


def check_steps(episode: Path) -> None:
    """Refuse a steps.npz that is missing or was cut short: a look at its last bytes, cheap enough
    for every episode of a run.
    """
    path = episode / STEPS
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - ARCHIVE_END_BYTES))
            whole = file.read().startswith(ARCHIVE_END)
    except OSError as error:
        raise DamagedFile(path, f"it cannot be read ({error.strerror or error})") from None
    if not whole:
        raise DamagedFile(
            path, f"its {size} bytes are not a whole archive" if size else "it is empty"
        )


def _bytes_of(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON file whole. A lone surrogate in a model's text stays what it is in JSON: an
    escape.
    """
    write_bytes(
        path,
        (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode(
            "utf-8", "backslashreplace"
        ),
    )


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file whole: into a neighbour, flushed, then renamed."""
    neighbour = path.with_name(f"{TEMPORARY}{os.getpid()}-{path.name}")
    try:
        with open(neighbour, "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        os.replace(neighbour, path)
    except BaseException:
        neighbour.unlink(missing_ok=True)
        raise
    _flush_folder(path.parent)


@contextlib.contextmanager
def whole_folder(place: Path) -> Iterator[Path]:
    """A folder to write into that takes its place in one rename, flushed, when the block ends well;
    otherwise nothing is left of it.

    What killed processes left half-written beside it is removed first.
    """
    if place.exists():
        raise CapexError(f"{place} exists already; choose another --out or remove it")
    place.parent.mkdir(parents=True, exist_ok=True)
    for leftover in place.parent.glob(f"{TEMPORARY}*-{place.name}"):
        if not _alive(int(leftover.name[len(TEMPORARY) :].partition("-")[0] or 0)):
            shutil.rmtree(leftover, ignore_errors=True)
    folder = place.with_name(f"{TEMPORARY}{os.getpid()}-{place.name}")
    folder.mkdir()
    try:
        yield folder
        for path in folder.rglob("*"):
            if path.is_dir():
                _flush_folder(path)
            else:
                with open(path, "rb") as written:
                    os.fsync(written.fileno())
        _flush_folder(folder)
        os.rename(folder, place)
        _flush_folder(place.parent)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _lock(file: IO[str], *, shared: bool = False, patience_s: float = 0.0) -> bool:
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


def _free_place(folder: Path, name: str) -> Path:
    """NAME-1, or the number after the last one in the folder."""
    numbers = [
        int(m[1])
        for p in folder.iterdir()
        if (m := re.fullmatch(rf"{re.escape(name)}-(\d+)", p.name))
    ]
    return folder / f"{name}-{max(numbers, default=0) + 1}"


def _alive(process: int) -> bool:
    if process <= 0 or process == os.getpid():
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _flush_folder(folder: Path) -> None:
    if os.name == "nt":  # Windows cannot open a folder for flushing; its rename is durable enough
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def versions() -> dict[str, str]:
    """Versions of this package and of what its results depend on."""
    found = {"python": platform.python_version()}
    for package in ("capex", "mujoco", "numpy"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def fingerprint(gl_backend: str = "") -> dict[str, Any]:
    """What bit-exactness depends on besides the code: two runs are comparable bit for bit only
    where these agree.
    """
    build: Any = np.show_config(mode="dicts")
    blas = build.get("Build Dependencies", {}).get("blas", {})
    features = build.get("SIMD Extensions", {}).get("found", [])
    return {
        "machine": platform.machine(),
        "system": platform.system(),
        "mujoco": metadata.version("mujoco"),
        "numpy": np.__version__,
        "blas": f"{blas.get('name', '?')} {blas.get('version', '?')}",
        "cpu_features": list(features),
        "libm": ctypes.util.find_library("m") or "",
        "gl": gl_backend,
    }


def _revision() -> str | None:
    """The git revision of the code, when it runs from a checkout."""
    try:
        here = Path(__file__).resolve().parent
        git = ["git", "-C", str(here)]
        tracked = subprocess.run(
            [*git, "ls-files", "--error-unmatch", "store.py"],
            capture_output=True,
            timeout=10,
            check=False,
        )
        if tracked.returncode != 0:  # installed somewhere inside another repository
            return None
        out = subprocess.run(
            [*git, "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return out.stdout.strip() or None
