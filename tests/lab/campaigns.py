"""Small campaigns in the lab: how tests run one, from Python or from the command line, and how they compare two."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import capex
from capex.campaign import events as ev
from capex.campaign.scheduling import Pauses

TESTS = Path(__file__).parent.parent
TIMES = ("timing.json", "exchange_times.jsonl")
SMALL: dict[str, Any] = {
    "arm": "capex,base",
    "model": "lab.model:",
    "starts": "0:4",
    "image_size": 32,
    "decisions": 6,
}
TASKS = "lab.world:low,high"
QUICK = Pauses(first_s=0.05)
PRICES = """
[[price]]
model = "{model}"
fresh = {fresh}
output = {output}
source = "a test"
checked = 2026-01-01
"""


def collect(out: Path, names: str = TASKS, **options):
    """A small campaign and its events."""
    events: list[ev.Event] = []
    watch = options.pop("watch", None)

    def both(event, board):
        events.append(event)
        if watch is not None:
            watch(event, board)

    run = capex.collect(
        names, out=out, watch=both, **{**SMALL, "pauses": QUICK, "yes": True, **options}
    )
    return run, events


def contents(run: Path) -> dict[str, bytes]:
    """Every file in the chains of a run but for times and locks."""
    files = [
        p
        for p in sorted((run / "chains").rglob("*"))
        if p.is_file() and p.name not in TIMES and not p.name.startswith(".")
    ]
    return {str(p.relative_to(run)): p.read_bytes() for p in files}


def kinds(events: list[ev.Event]) -> list[str]:
    return [type(e).__name__ for e in events]


def cli(*words: str, **options) -> subprocess.Popen:
    """The command line as a process. `terminal`: the file descriptor of one to print to, instead of pipes."""
    env = {
        **options.pop("env", os.environ),
        "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]),
    }
    command = [sys.executable, "-m", "capex.cli", *words]
    place = options.pop("terminal", subprocess.PIPE)
    return subprocess.Popen(command, env=env, stdout=place, stderr=place, text=True, **options)


def flags(out: Path, names: str = TASKS, **options) -> list[str]:
    """The words of a small campaign."""
    said = {**SMALL, **options}
    return [
        "collect",
        names,
        "--out",
        str(out),
        *(w for k, v in said.items() for w in (f"--{k.replace('_', '-')}", str(v))),
    ]


def price_file(folder: Path, model: str = "lab", fresh: float = 10, output: float = 50) -> Path:
    place = folder / "prices.toml"
    place.write_text(PRICES.format(model=model, fresh=fresh, output=output))
    return place
