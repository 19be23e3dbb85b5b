"""Which runs and datasets there are below the folders that the studio was given. What a page names
is looked up here and never joined to a path, so that nothing outside those folders can be reached.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from capex.errors import CapexError, ErrorCode
from capex.run.manifest import MANIFEST
from capex.run.store import SPEND, Chain, Run
from capex.studio.guard import Refused

# Whether a folder with these folders and files in it is looked for.
Wanted = Callable[[Path, Sequence[str], Sequence[str]], bool]
DEPTH = 4  # folders below a given one that are looked into for runs


class Library:
    """The runs by their names: the path below the given folder, or the folder's own name."""

    def __init__(self, folders: tuple[Path, ...]):
        for folder in folders:
            if not folder.is_dir():
                raise CapexError(
                    f"{folder} is not a folder; give run directories, or folders of them",
                    code=ErrorCode.NOT_FOUND,
                )
        self.folders = tuple(folder.resolve() for folder in folders)
        self._lock = threading.Lock()
        self._runs: dict[str, Run] = {}
        self._datasets: dict[str, Path] = {}

    def runs(self) -> dict[str, Run]:
        """All runs there are now, by name."""
        found = {name: Run(path) for name, path in self._named(_is_run).items()}
        with self._lock:
            self._runs = found
        return found

    def datasets(self) -> dict[str, Path]:
        """All LeRobot folders there are now, by name."""
        found = self._named(_is_dataset)
        with self._lock:
            self._datasets = found
        return found

    def dataset(self, name: str) -> Path:
        """A dataset by its name; Refused where there is none."""
        path = self._datasets.get(name) or self.datasets().get(name)
        if path is None:
            raise Refused(404, f"there is no dataset '{name[:80]}' below the studio's folders")
        return path

    def _named(self, wanted: Wanted) -> dict[str, Path]:
        found: dict[str, Path] = {}
        for folder in self.folders:
            for path in _below(folder, wanted):
                name = folder.name if path == folder else path.relative_to(folder).as_posix()
                if name in found:
                    name = f"{folder.name}/{name}"
                found.setdefault(name, path)
        return found

    def run(self, name: str) -> Run:
        """A run by its name; Refused where there is none."""
        run = self._runs.get(name) or self.runs().get(name)
        if run is None:
            raise Refused(404, f"there is no run '{name[:80]}' below the folders of this studio")
        run.require_plain()
        return run

    def chain(self, run: str, chain: str) -> Chain:
        """A chain of a run."""
        known = {c.path.name: c for c in self.run(run).chains()}
        if chain not in known:
            raise Refused(404, f"run '{run[:80]}' has no chain '{chain[:80]}'")
        return known[chain]

    def episode(self, run: str, chain: str, index: int) -> Path:
        """The folder of a whole episode."""
        folder = self.chain(run, chain).episode(index)
        if not folder.is_dir():
            raise Refused(404, f"chain '{chain[:80]}' has no episode {index}")
        return folder


def _is_run(path: Path, folders: Sequence[str], files: Sequence[str]) -> bool:
    return MANIFEST in files and ("chains" in folders or SPEND in files)


def _is_dataset(path: Path, folders: Sequence[str], files: Sequence[str]) -> bool:
    meta = path / "meta"
    return "meta" in folders and not meta.is_symlink() and (meta / "info.json").is_file()


def _below(folder: Path, wanted: Wanted) -> list[Path]:
    """The wanted folders at or below one, by path; links are not followed, runs and datasets not
    searched.
    """
    found = []
    for place, folders, files in os.walk(folder):
        path = Path(place)
        if wanted(path, folders, files):
            found.append(path)
        deep = len(path.relative_to(folder).parts) >= DEPTH
        if deep or _is_run(path, folders, files) or _is_dataset(path, folders, files):
            folders.clear()
        folders[:] = sorted(f for f in folders if not f.startswith("."))
    return found
