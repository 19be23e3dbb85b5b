"""Skill x method: every chain of a study file, many at once, resumable.

    python benchmarks/method_worth.py OUT [STUDY.toml] [--parallel N] [--minutes M] [--cells A:B]

A cell is one chain: a skill, a seed, a task and an arm, over all starts of the study. It is a run
of its own in OUT/runs, and once it is whole its numbers are in OUT/cells, which is all that
`python benchmarks/method_worth_tables.py OUT` reads. The same command continues; after M minutes no
episode is begun. --cells runs a part of the list, for one machine of several, and --list prints it.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import time
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import capex
from capex.campaign.names import read_starts
from capex.errors import CapexError
from capex.pose import Array
from capex.run.files import write_json
from capex.run.jobs import run_jobs
from capex.run.summary import Summary, summarize
from capex.worlds import split_name

STUDY = Path(__file__).with_suffix(".toml")
SHOWN_DECIMALS = 4  # of confidences


@dataclass(frozen=True)
class Cell:
    """One chain of the study."""

    skill: float
    seed: int
    task: str  # WORLD:TASK
    arm: str  # the study's name of it
    model: str
    starts: str
    options: Mapping[str, Any]  # of `capex.collect`

    @property
    def name(self) -> str:
        """What its folder and its file are called."""
        return f"{self.skill:g}--{self.seed}--{split_name(self.task)[1]}--{self.arm}"


@dataclass(frozen=True)
class Job:
    """A cell, where it goes, and until when episodes may begin."""

    cell: Cell
    out: Path
    until: float | None  # unix time

    @property
    def result(self) -> Path:
        """The file of its numbers."""
        return self.out / "cells" / f"{self.cell.name}.json"


def read_study(path: Path) -> dict[str, Any]:
    """The study file, refused with a sentence where it lacks something."""
    try:
        study = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CapexError(f"the study file {path} cannot be read: {error}") from None
    needed = ("model", "skills", "seeds", "tasks", "starts", "arms", "parts", "price")
    if missing := [name for name in needed if name not in study]:
        raise CapexError(f"the study file {path} lacks {', '.join(missing)}")
    return study


def cells(study: Mapping[str, Any]) -> Iterator[Cell]:
    """Every chain in the order of running: a study that is cut short has whole seeds first, and of
    a seed the first arms.
    """
    order = itertools.product(
        study["seeds"], study["arms"].items(), study["skills"], study["tasks"]
    )
    for seed, (arm, options), skill, task in order:
        model = study["model"].format(skill=skill, seed=seed)
        yield Cell(skill, seed, task, arm, model, study["starts"], {"arm": arm, **options})


def run_cell(job: Job) -> int:
    """Run what a cell lacks; returns its episodes. Its numbers are written once it is whole."""
    cell, hours = job.cell, None
    if job.until is not None:
        hours = max(0.0, (job.until - time.time()) / 3600)
        if not hours:
            return 0
    run = capex.collect(
        cell.task,
        model=cell.model,
        starts=cell.starts,
        out=job.out / "runs" / cell.name,
        keep_images="start",
        campaign_hours=hours,
        **cell.options,
    )
    episodes = [summarize(episode) for episode in run.episodes]
    if len(episodes) == len(read_starts(cell.starts)):
        rows = [numbers(e) for e in sorted(episodes, key=lambda e: e.position)]
        job.result.parent.mkdir(exist_ok=True)
        write_json(job.result, {"cell": asdict(cell), "episodes": rows})
    return len(episodes)


def numbers(episode: Summary) -> dict[str, Any]:
    """What the tables need of an episode; waypoints are those that got a label."""
    w = episode.waypoints
    told = w.label >= 0
    tokens = episode.tokens
    return {
        "start": episode.start,
        "success": episode.success,
        "end": episode.end,
        "requests": episode.requests,
        "decisions": episode.decisions,
        "steps": episode.steps,
        "seconds": round(episode.seconds, 2),
        "tokens": None if tokens is None else asdict(tokens),
        "plans": episode.plans,
        "truncated": episode.truncated,
        "waypoints": len(w.label),
        "labels_before": episode.labels_before,
        "label": w.label[told].tolist(),
        "stated": _confidences(w.stated[told]),
        "calibrated": _confidences(w.calibrated[told]),
    }


def _confidences(values: Array) -> list[float | None]:
    """Rounded for the file; None where there is none."""
    return [None if math.isnan(v) else round(float(v), SHOWN_DECIMALS) for v in values]


def main() -> None:
    args = _arguments()
    every = list(cells(read_study(args.study)))
    first, _, last = args.cells.partition(":")
    chosen = every[int(first or 0) : int(last) if last else None]
    if args.list:
        for number, cell in enumerate(every):
            print(number, cell.name)
        return
    began = time.time()
    until = None if args.minutes is None else began + 60 * args.minutes
    jobs = [Job(cell, args.out.resolve(), until) for cell in chosen]
    todo = [job for job in jobs if not job.result.exists()]
    args.out.mkdir(parents=True, exist_ok=True)
    console, failed = Console(), 0
    columns = (TextColumn("chains"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("", total=len(jobs), completed=len(jobs) - len(todo))
        for index, result in run_jobs(run_cell, todo, args.parallel):
            if isinstance(result, CapexError):
                failed += 1
                console.print(f"{todo[index].cell.name}: {result}", markup=False)
            progress.advance(bar, int(todo[index].result.exists()))
    whole = sum(job.result.exists() for job in jobs)
    took = f"{(time.time() - began) / 60:.1f} minutes with {args.parallel} processes"
    console.print(f"{whole} of {len(jobs)} chains are whole, {failed} failed; {took}", markup=False)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("out", type=Path)
    parser.add_argument("study", type=Path, nargs="?", default=STUDY)
    parser.add_argument("--parallel", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--cells", default=":", metavar="A:B")
    parser.add_argument("--list", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
