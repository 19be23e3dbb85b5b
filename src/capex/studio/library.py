"""Which runs there are below the folders that the studio was given. What a page names is looked up
here and never joined to a path, so that nothing outside those folders can be reached.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

from capex.errors import CapexError
from capex.run.store import Chain, Run
from capex.studio.guard import Refused

DEPTH = 4  # folders below a given one that are looked into for runs
MANIFEST = "manifest.json"


class Library:
    """The runs by their names: the path below the given folder, or the folder's own name."""

    def __init__(self, folders: tuple[Path, ...]):
        for folder in folders:
            if not folder.is_dir():
                raise CapexError(
                    f"{folder} is not a folder; give run directories, or folders of them"
                )
        self.folders = tuple(folder.resolve() for folder in folders)
        self._lock = threading.Lock()
        self._runs: dict[str, Run] = {}

    def runs(self) -> dict[str, Run]:
        """All runs there are now, by name."""
        found: dict[str, Run] = {}
        for folder in self.folders:
            for path in _below(folder):
                name = folder.name if path == folder else path.relative_to(folder).as_posix()
                if name in found:
                    name = f"{folder.name}/{name}"
                found.setdefault(name, Run(path))
        with self._lock:
            self._runs = found
        return found

    def run(self, name: str) -> Run:
        """A run by its name; Refused where there is none."""
        run = self._runs.get(name) or self.runs().get(name)
        if run is None:
            raise Refused(404, f"there is no run '{name[:80]}' below the folders of this studio")
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


def _below(folder: Path) -> list[Path]:
    """The run directories at or below a folder, by path; links are not followed."""
    found = []
    for place, folders, files in os.walk(folder):
        path = Path(place)
        if MANIFEST in files and ("chains" in folders or (path / "spend.jsonl").exists()):
            found.append(path)
            folders.clear()
        elif len(path.relative_to(folder).parts) >= DEPTH:
            folders.clear()
        folders[:] = sorted(f for f in folders if not f.startswith("."))
    return found
