"""`capex expert` and `capex human`: campaigns that ask no model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import median_high
from typing import Annotated, Any, ClassVar

from rich.table import Table
from tyro.conf import Positional, arg

from capex.campaign.names import parse_names, parse_starts
from capex.cli.collect import Flag
from capex.cli.console import console
from capex.cli.following import print_next
from capex.cli.help import Examples, Groups
from capex.cli.tables import FittedTable
from capex.run import LoadedRun
from capex.worlds import robot_prefix


@dataclass(frozen=True)
class ExpertCommand:
    """Demonstrations by the privileged expert, the stand-in for the human source."""

    GROUPS: ClassVar[Groups] = {
        "What to run": ("names", "starts", "retry_invalid"),
        "Engine": ("parallel", "ray"),
        "Output": ("out", "json_events"),
    }
    EXAMPLES: ClassVar[Examples] = {
        "Twenty starts of one task": "capex expert kitchen:CloseFridge --out runs/expert",
        "Every task of the kitchen on two cores": (
            "capex expert kitchen:all --starts 0:50 --parallel 2 --out runs/expert"
        ),
    }

    names: Positional[Annotated[str, arg(metavar="WORLD:TASK[,TASK..|all]")]]
    """Which tasks of which world."""
    out: Annotated[Path, arg(metavar="RUN")]
    """Run directory; the same command again continues it."""
    starts: Annotated[str, arg(metavar="STARTS")] = "0:20"
    """Start indices: 0:20 (default, the starts 0 to 19), 7 or 1,4,9."""
    parallel: Annotated[int, arg(metavar="N")] = 1
    """Processes; the records do not depend on it."""
    ray: Annotated[str | None, arg(metavar="ADDRESS")] = None
    """Run on a Ray cluster instead: auto, HOST:PORT, or local to start one here; extra `ray`
    (default: none)."""
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
            if any(robot_prefix(world) for world, _ in parse_names(self.names)):
                print_next("capex", "export", run.path, "--out", Path("datasets", run.path.name))
            elif any(e.success for e in run.episodes):
                print_next("capex", "certify", run.path)
        return 0


@dataclass(frozen=True)
class HumanCommand:
    """Takes the recorded human demonstrations of starts into a run, to be exported beside a
    demonstrator's from the same starts.
    """

    EXAMPLES: ClassVar[Examples] = {
        "The people's demonstrations of twenty starts": (
            "capex human robocasa:CloseFridge --out runs/human"
        ),
        "Of some starts only": ("capex human robocasa:CloseFridge --starts 1,4,9 --out runs/human"),
    }

    names: Positional[Annotated[str, arg(metavar="robocasa:TASK[,TASK..|all]")]]
    """Which tasks."""
    out: Annotated[Path, arg(metavar="RUN")]
    """Run directory; the same command again continues it."""
    starts: Annotated[str, arg(metavar="STARTS")] = "0:20"
    """Start indices: 0:20 (default, the starts 0 to 19), 7 or 1,4,9."""

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
    **engine: Any,
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
        tried = [e for e in episodes if e.index in starts]
        counts = [[e.record.steps for e in tried], [e.record.decisions for e in tried]]
        solved = sum(e.success is True for e in tried)
        medians = (str(median_high(c)) if c else "" for c in counts)
        table.add_row(task, f"{solved}/{len(tried)}", *medians)
    return table
