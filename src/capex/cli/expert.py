"""`capex expert`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from tyro.conf import Positional, arg

from capex.campaign.alone import EpisodeResult
from capex.campaign.expert import run_expert
from capex.campaign.names import parse_names, parse_starts
from capex.cli.console import console


@dataclass(frozen=True)
class Expert:
    """Demonstrations by the privileged expert, the stand-in for the human source."""

    names: Positional[Annotated[str, arg(metavar="WORLD:TASK[,TASK..|all]")]]
    """Which tasks of which world."""
    out: Path
    """Run directory; the same command again continues it."""
    starts: str = "0:20"
    """Start indices: 0:20, 7 or 1,4,9."""
    parallel: int = 1
    """Processes; the records do not depend on it."""

    def run(self) -> int:
        """Run what the run directory does not hold yet, and print a table of it all."""
        results = _watch(self.names, parse_starts(self.starts), self.out, self.parallel)
        failed = [r for r in results if r.note]
        for r in failed:
            console.print(
                f"[yellow]invalid[/] {r.world}:{r.task} start {r.index}: {escape(r.note)}"
            )
        return 0


def _watch(names: str, starts: list[int], out: Path, parallel: int) -> list[EpisodeResult]:
    """Run the expert with a progress bar and print the table of successes over everything the run
    now holds.
    """
    from capex.worlds import render

    total = len(parse_names(names)) * len(starts)
    backend = f"{render.backend()}: {render.renderer_name()}"
    results: list[EpisodeResult] = []
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("expert", total=total)
        for result in run_expert(names, starts, out, parallel=parallel, gl_backend=backend):
            results.append(result)
            solved = sum(bool(r.success) for r in results)
            progress.update(
                bar,
                advance=1,
                description=(
                    f"expert {solved}/{len(results)} solved, last {result.task} {result.index}"
                ),
            )
        progress.update(bar, completed=total)
    _print_results(names, starts, out)
    return results


def _print_results(names: str, starts: Iterable[int], out: Path) -> None:
    from capex.campaign.repair import left_out_sentence
    from capex.run import Damaged, load_chain
    from capex.run.store import find_run

    run = find_run(out)
    wanted = set(starts)
    damaged: list[Damaged] = []
    table = Table(title=f"{out}: expert")
    for column in ("task", "success", "median steps", "median decisions"):
        table.add_column(column, justify="left" if column == "task" else "right")
    for world, task in parse_names(names):
        chain = run.chain(world, task, "expert")
        rows: dict[str, list[int]] = defaultdict(list)
        solved = total = 0
        loaded = load_chain(chain)
        damaged += list(loaded.damaged)
        for episode in loaded.episodes:
            if episode.index not in wanted:
                continue
            total += 1
            solved += bool(episode.record.success)
            rows["steps"].append(episode.record.steps)
            rows["decisions"].append(len(episode.record.turns))
        table.add_row(
            task,
            f"{solved}/{total}",
            *(
                str(sorted(rows[k])[len(rows[k]) // 2]) if rows[k] else ""
                for k in ("steps", "decisions")
            ),
        )
    console.print(table)
    if damaged:
        console.print(
            left_out_sentence(run, damaged), markup=False, highlight=False, soft_wrap=True
        )
