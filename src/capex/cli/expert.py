"""`capex expert` and `capex human`: campaigns that ask no model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import median_high
from typing import Annotated

from rich.table import Table
from tyro.conf import Positional, arg

from capex.campaign.names import parse_names, parse_starts
from capex.cli.collect import Flag
from capex.cli.console import console
from capex.cli.following import print_next
from capex.cli.tables import FittedTable
from capex.run import LoadedRun


@dataclass(frozen=True)
class ExpertCommand:
    """Demonstrations by the privileged expert, the stand-in for the human source."""

    names: Positional[Annotated[str, arg(metavar="WORLD:TASK[,TASK..|all]")]]
    """Which tasks of which world."""
    out: Path
    """Run directory; the same command again continues it."""
    starts: str = "0:20"
    """Start indices: 0:20, 7 or 1,4,9."""
    parallel: int = 1
    """Processes; the records do not depend on it."""
    ray: str | None = None
    """Run on a Ray cluster instead: auto, HOST:PORT, or local to start one here (extra `ray`)."""
    retry_invalid: Flag = False
    """Try starts again that were recorded as invalid."""
    json_events: Flag = False
    """Print one JSON object per event instead of a display."""

    def run(self) -> int:
        """Run what the run directory does not hold yet, and print a table of it all."""
        engine = {"parallel": self.parallel} | ({"ray": self.ray} if self.ray is not None else {})
        run = _demonstrate("expert", self, self.json_events, retry=self.retry_invalid, **engine)
        if not self.json_events:
            console.print(FittedTable(_results(run, self.names, set(parse_starts(self.starts)))))
            if any(e.record.success for e in run.episodes):
                print_next("capex", "certify", run.path)
        return 0


@dataclass(frozen=True)
class HumanCommand:
    """Takes the recorded human demonstrations of starts into a run, to be exported beside a
    demonstrator's from the same starts.
    """

    names: Positional[Annotated[str, arg(metavar="robocasa:TASK[,TASK..|all]")]]
    """Which tasks."""
    out: Path
    """Run directory; the same command again continues it."""
    starts: str = "0:20"
    """Start indices: 0:20, 7 or 1,4,9."""

    def run(self) -> int:
        """Take what the run does not hold yet."""
        run = _demonstrate("human", self)
        if run.episodes:
            print_next("capex", "certify", run.path)
        return 0


def _demonstrate(
    who: str,
    command: ExpertCommand | HumanCommand,
    json_events: bool = False,
    *,
    retry: bool = False,
    **engine: int | str,
) -> LoadedRun:
    from capex.campaign.api import demonstrate
    from capex.cli.progress import watching

    with watching(console, json_events) as watch:
        return demonstrate(
            who,
            command.names,
            out=command.out,
            retry_invalid=retry,
            watch=watch,
            starts=command.starts,
            **engine,
        )


def _results(run: LoadedRun, names: str, starts: set[int]) -> Table:
    table = Table(title=f"{run.path}: expert")
    for column in ("task", "success", "median steps", "median decisions"):
        table.add_column(column, justify="left" if column == "task" else "right")
    for world, task in parse_names(names):
        chain = run.chain(world, task, "expert")
        episodes = chain.episodes if chain is not None else ()
        records = [e.record for e in episodes if e.index in starts]
        counts = [[r.steps for r in records], [r.decisions for r in records]]
        solved = sum(r.success is True for r in records)
        medians = (str(median_high(c)) if c else "" for c in counts)
        table.add_row(task, f"{solved}/{len(records)}", *medians)
    return table
