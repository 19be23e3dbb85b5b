"""`capex counterfactual` and `capex calibrate`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from rich.markup import escape
from rich.progress import Progress
from rich.table import Table
from tyro.conf import OmitArgPrefixes, Positional, arg

from capex.cli.allowing import Allowed
from capex.cli.console import console
from capex.cli.export import COLUMNS
from capex.cli.following import free, print_next
from capex.cli.help import Examples
from capex.cli.tables import FittedTable, print_report_table
from capex.errors import CapexError, ErrorCode

if TYPE_CHECKING:
    from capex.analysis.counterfactual import Executed
    from capex.analysis.counterfactual_numbers import Found

TAU_FILE = "counterfactual-tau.toml"


@dataclass(frozen=True)
class CounterfactualCommand:
    """Execute every plan of a run whole from its saved state, the deferred tail included, without a
    model, and store beside each episode what would have happened. Fails when the committed part of
    a plan does not come out as recorded.
    """

    EXAMPLES: ClassVar[Examples] = {
        "Every plan of a run, on two cores": "capex counterfactual runs/first --parallel 2",
        "Those that were executed already, too": "capex counterfactual runs/first --again",
    }

    run_directory: Positional[Annotated[Path, arg(metavar="RUN")]]
    """A run of `capex collect`, what --out named."""
    parallel: Annotated[int, arg(metavar="N")] = 1
    """Processes; what is stored does not depend on it."""
    again: bool = False
    """Execute episodes that were executed already, too."""

    allowed: OmitArgPrefixes[Allowed] = field(default_factory=Allowed)

    def run(self) -> int:
        """Print what agreed, and what deferral did to confidences."""
        from capex.analysis.counterfactual import execute_run
        from capex.analysis.counterfactual_numbers import deferrals, selections
        from capex.analysis.counterfactual_section import deferral_table, selection_table

        with Progress(*COLUMNS, console=console) as progress:
            bar = progress.add_task("executing plans", total=None)

            def tell(done: int, total: int, _: Executed) -> None:
                progress.update(bar, completed=done, total=total)

            results = execute_run(self.run_directory, self.parallel, again=self.again, tell=tell)
        if not results:
            raise CapexError(
                f"{self.run_directory} holds no episode, so there is no plan to execute",
                code=ErrorCode.NO_DATA,
            )
        console.print(FittedTable(_agreement(self.run_directory, results)))
        wrong = _print_problems(results)
        found = _found(self.run_directory)
        if found:
            print_report_table(console, selection_table([(f, selections(f)) for f in found]))
            print_report_table(console, deferral_table([(f, deferrals(f.whole)) for f in found]))
            print_next("capex", "calibrate", self.run_directory, "--tau", "auto")
        return 1 if wrong else 0


def _agreement(run: Path, results: list[Executed]) -> Table:
    """By chain, how many decisions came out as recorded."""
    table = Table(title=f"{run}: plans executed whole")
    names = ("chain", "episodes", "decisions", "as recorded", "waypoints", "deferred", "labelled")
    for name in names:
        table.add_column(name, justify="left" if name == "chain" else "right", overflow="fold")
    chains: dict[str, list[Executed]] = {}
    for result in results:
        if result.counterfactual is not None:
            chains.setdefault(result.episode.parent.parent.name, []).append(result)
    total = [0] * 6
    for chain, members in chains.items():
        plans = [p for m in members if m.counterfactual for p in m.counterfactual.plans]
        outcomes = [o for p in plans for o in p.waypoints]
        deferred = sum(len(p.waypoints) - p.committed for p in plans)
        row = (
            *(len(members), len(plans), sum(not p.difference for p in plans)),
            *(len(outcomes), deferred, sum(o.label is not None for o in outcomes)),
        )
        table.add_row(chain, *map(str, row))
        total = [a + b for a, b in zip(total, row, strict=True)]
    if len(chains) > 1:
        table.add_section()
        table.add_row("total", *map(str, total))
    return table


def _print_problems(results: list[Executed]) -> bool:
    """Say what did not come out as recorded or could not be executed; whether there was any."""
    some = False
    for result in results:
        if result.problem:
            some = True
            console.print(
                f"[yellow]left out[/] {escape(str(result.episode))}: {escape(result.problem)}",
                soft_wrap=True,
            )
        for plan in result.counterfactual.plans if result.counterfactual else ():
            if plan.difference:
                some = True
                console.print(
                    f"[yellow]not as recorded[/] {escape(str(result.episode))}, decision"
                    f" {plan.decision}: {escape(plan.difference)}",
                    soft_wrap=True,
                )
    return some


def _found(run: Path) -> list[Found]:
    """The sources of a run whose plans were executed whole and have a threshold."""
    from capex.analysis.counterfactual_numbers import find
    from capex.report.data import load
    from capex.report.sources import group

    sources, _ = group(load([run]))
    found = [f for f in map(find, sources) if f is not None]
    return [f for f in found if f.source.tau is not None and len(f.whole.plan)]


@dataclass(frozen=True)
class Calibrate:
    """Choose the commit threshold of each task from plans that were executed whole, with its
    uncertainty, and write it as a config file for `capex collect`.
    """

    EXAMPLES: ClassVar[Examples] = {
        "The thresholds of a run": "capex calibrate runs/first --tau auto",
        "A miss is as bad as two reached waypoints are good": (
            "capex calibrate runs/first --miss-cost 2 --out tau.toml"
        ),
    }

    run_directory: Positional[Annotated[Path, arg(metavar="RUN")]]
    """A run after `capex counterfactual`."""
    tau: Literal["auto"] = "auto"
    """How to choose: auto takes the threshold that reaches most, less what it misses, and changes
    nothing where that is not sure."""
    miss_cost: Annotated[float, arg(metavar="X")] = 1.0
    """How many reached waypoints a missed one is worth; 1 is what the paper's threshold of 0.5 says
    of calibrated confidences."""
    out: Annotated[Path | None, arg(metavar="FILE")] = None
    """Where to write (default: counterfactual-tau.toml in the run directory)."""

    def run(self) -> int:
        """Print the sweep and the choice, write the file."""
        from capex.analysis.counterfactual_section import choice_table, sweep_table
        from capex.analysis.thresholds import choices, settings_file, sweep
        from capex.run.files import write_bytes
        from capex.run.store import find_run

        if not 0 <= self.miss_cost < float("inf"):
            raise CapexError(
                f"--miss-cost is {self.miss_cost}; it must be a number of at least 0",
                code=ErrorCode.BAD_SETTING,
            )
        settings = find_run(self.run_directory).manifest.recorded
        found = _found(self.run_directory)
        if not found:
            raise CapexError(
                f"{self.run_directory} holds no plan with confidences that was executed whole; type"
                f" capex counterfactual {self.run_directory} first",
                code=ErrorCode.NO_DATA,
            )
        chosen = [(f, choices(f, self.miss_cost)) for f in found]
        print_report_table(console, sweep_table([(f, sweep(f.whole)) for f in found]))
        print_report_table(console, choice_table(chosen))
        methods = [(settings.arms[f.source.arm], line) for f, line in chosen]
        note = (
            f"Commit thresholds from {self.run_directory} by capex calibrate: the most waypoints"
            f" reached less {self.miss_cost:g} x those missed; where the gain is not sure, as used."
        )
        out = self.out or self.run_directory / TAU_FILE
        write_bytes(out, settings_file(methods, settings, note).encode())
        console.print(f"{out}", markup=False, highlight=False, soft_wrap=True)
        run = free(Path("runs", f"{self.run_directory.resolve().name}-tau"))
        seen = [e.start for f in found for e in f.episodes]
        unseen = f"{max(seen) + 1}:{max(seen) + 1 + len(set(seen))}"
        print_next("capex", "collect", "--config", out, "--starts", unseen, "--out", run)
        return 0
