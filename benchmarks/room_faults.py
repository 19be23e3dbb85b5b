"""What a rig does when something goes wrong, fault by fault, in the simulated room.

    python benchmarks/room_faults.py [OUT]

For each kind of fault, and for an emergency stop that is released after 2, 4 and 8 s: two attempts
of the pilot (a stand-in) through `capex collect`; the fault comes with the 30th goal of the first
one. Printed: how that attempt ended, what was recorded of it, and how the next ones ended.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import capex
from capex.rigs.twins.faults import KINDS

FILES = Path(capex.__file__).parent / "worlds" / "rigs" / "files"
AT_TICK = 30


@dataclass(frozen=True)
class Case:
    """A fault, and how long it lasts where that is not its kind's own."""

    kind: str
    lasts_s: float | None = None

    @property
    def name(self) -> str:
        """For a table."""
        return self.kind if self.lasts_s is None else f"{self.kind}, over after {self.lasts_s:g} s"


RELEASED = tuple(Case("e-stop", seconds) for seconds in (2.0, 4.0, 8.0))


def rig_with(case: Case, folder: Path, name: str = "room", at_tick: int = AT_TICK) -> Path:
    """A copy of a packaged rig whose first attempt goes wrong, at so many goals."""
    folder.mkdir(parents=True)
    for own in ("room", "franka", "yam"):
        shutil.copytree(FILES / own, folder / own)
    lasts = "" if case.lasts_s is None else f", duration_s = {case.lasts_s}"
    fault = f'faults = [{{ kind = "{case.kind}", at_tick = {at_tick}{lasts} }}]'
    text = (FILES / f"{name}.toml").read_text().replace("fps = 20", f"fps = 20\n{fault}", 1)
    (folder / f"{name}.toml").write_text(text)
    return folder / f"{name}.toml"


def attempts(run: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Every attempt of the run, whole or invalid, in the order of time."""
    folders = [*run.glob("chains/*/episodes/[0-9]*"), *run.glob("chains/*/invalid/*")]
    folders.sort(key=lambda f: json.loads((f / "timing.json").read_text())["unix_time"])
    for folder in folders:
        yield folder, json.loads((folder / "record.json").read_text())


def reports(record: dict[str, Any]) -> str:
    """What the model was told of the guard."""
    rows = [w["report"] for t in record.get("turns", ()) for w in t["waypoints"]]
    told = [r for r in rows if "guard" in r]
    return "; ".join(dict.fromkeys(told))


def frames(folder: Path) -> int:
    """How many ticks have their pictures."""
    index = folder / "frames" / "index.npz"
    if not index.is_file():
        return 0
    with np.load(index) as arrays:
        return len(arrays[arrays.files[0]])


def verdict(folder: Path) -> str:
    """The verdict on an attempt."""
    path = folder / "verdicts.jsonl"
    lines = path.read_text().splitlines() if path.is_file() else []
    return json.loads(lines[-1])["verdict"] if lines else "none"


def campaign(case: Case, base: Path, name: str, task: str, at_tick: int = AT_TICK) -> list[str]:
    """One row: the fault, the first attempt, what was recorded of it, and how the next ended."""
    key = case.kind if case.lasts_s is None else f"{case.kind}-{case.lasts_s:g}"
    rig, out = rig_with(case, base / f"rig-{key}", name, at_tick), base / key
    command = [sys.executable, "-m", "capex", "collect", f"rig:{rig}:{task}", "--arm"]
    command += ["base", "--model", "pilot", "--starts", "0:2", "--out", str(out)]
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode:
        return [case.name, f"exit {ended.returncode}", ended.stderr[-400:], "", ""]
    rows = list(attempts(out))
    (folder, first), others = rows[0], rows[1:]
    whole = folder.parent.name == "episodes"
    guard = first.get("rig", {}).get("guard", {})
    stops = ", ".join(f"{text} x{n}" for text, n in guard.items())
    said = reports(first) or first.get("error") or ""
    ends = [
        f"start {r['start']['index']} "
        f"{r.get('end') or 'invalid'}: {verdict(f) if f.parent.name == 'episodes' else '-'}"
        for f, r in others
    ]
    how = f"{first['end']}: {verdict(folder)}" if whole else "invalid"
    told = "; ".join(t for t in (said, stops) if t)
    return [case.name, how, told, str(frames(folder)), "\n".join(ends)]


def campaigns(
    cases: Iterable[Case], base: Path, name: str, task: str, at_tick: int = AT_TICK
) -> Table:
    """One row per fault, and one for each stop that is released."""
    table = Table("fault", "first attempt", "told or recorded", "frames", "next attempts")
    for case in (*cases, *RELEASED):
        table.add_row(*campaign(case, base, name, task, at_tick))
    return table


def main() -> None:
    """The simulated room's own kinds."""
    base = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp())
    Console(width=160).print(campaigns(map(Case, KINDS), base, "room", "LiftBlock"))


if __name__ == "__main__":
    main()
