"""`capex dataset check` and `capex dataset diff`: look at datasets, change nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from rich.progress import Progress, TaskID
from tyro.conf import OmitSubcommandPrefixes, Positional, arg, subcommand

from capex.cli.console import console
from capex.cli.export import COLUMNS
from capex.cli.following import free, print_next
from capex.cli.help import Examples
from capex.errors import CapexError, ErrorCode


@dataclass(frozen=True)
class DatasetCheck:
    """Check a dataset, ours or anyone's: counts, timestamps, statistics, pictures, NaN, duplicates,
    certificates. LeRobot v3 and v2, robomimic's HDF5. Fails when something is wrong.
    """

    EXAMPLES: ClassVar[Examples] = {
        "A dataset, with how many episodes it should have": (
            "capex dataset check datasets/first --expected 20"
        ),
        "Against the runs that it came from": "capex dataset check datasets/first --runs runs",
    }

    directory: Positional[Annotated[Path, arg(metavar="DIR")]]
    """Folder of the dataset, or an HDF5 file."""
    expected: Annotated[int | None, arg(metavar="N")] = None
    """How many episodes there should be (default: not compared)."""
    runs: Annotated[Path | None, arg(metavar="DIR")] = None
    """Folder that holds the runs it was exported from: compare digests and certificates too
    (default: none)."""
    all: bool = False
    """Show every finding, not only the first five of each rule."""

    def run(self) -> int:
        """Print each rule with its verdict."""
        from capex.dataset.inspect import check_dataset

        if self.expected is not None and self.expected < 0:
            raise CapexError(
                f"--expected is {self.expected}; it must be at least 0", code=ErrorCode.BAD_SETTING
            )
        with Progress(*COLUMNS, console=console, transient=True) as progress:
            bar = progress.add_task("checking, frames", total=None)

            def tell(done: int, total: int) -> None:
                progress.update(bar, completed=done, total=total)

            report = check_dataset(
                self.directory, expected=self.expected, runs=self.runs, tell=tell
            )
        console.print(report.table(None) if self.all else report)
        if report.ok:
            _print_next(self.directory, report.format)
        return 0 if report.ok else 1


def _print_next(dataset: Path, written_as: str) -> None:
    """Train on it: with our students, which read LeRobot v3 with pictures."""
    if written_as.startswith("LeRobot v3") and not (dataset / "videos").is_dir():
        student = free(Path("runs", f"{dataset.resolve().name}-act"))
        print_next("capex", "train", dataset, "--policy", "act", "--out", student)


@dataclass(frozen=True)
class DatasetDiffCommand:
    """Compare two datasets: format, features, episodes and their starts, statistics, numbers and
    pictures. The status is 0 when they hold the same, 1 when they differ.
    """

    EXAMPLES: ClassVar[Examples] = {
        "Two exports of one run": "capex dataset diff datasets/first datasets/second",
        "Every difference": "capex dataset diff datasets/first datasets/second --all",
    }

    first: Positional[Annotated[Path, arg(metavar="A")]]
    """Folder of a dataset, or an HDF5 file."""
    second: Positional[Annotated[Path, arg(metavar="B")]]
    """The other one."""
    all: bool = False
    """Show every difference, not only the first ten of each kind."""

    def run(self) -> int:
        """Print a table of differences."""
        from capex.dataset.inspect import diff_datasets

        with Progress(*COLUMNS, console=console, transient=True) as progress:
            bars: dict[str, TaskID] = {}

            def tell(name: str, done: int, total: int) -> None:
                if name not in bars:
                    bars[name] = progress.add_task(f"{name}, frames", total=total)
                progress.update(bars[name], completed=done, total=total)

            found = diff_datasets(self.first, self.second, tell=tell)
        console.print(found.table(None) if self.all and not found.same else found)
        if not found.same:
            console.print(found.sentence, highlight=False)
        return 0 if found.same else 1


@dataclass(frozen=True)
class DatasetCommand:
    """Check a dataset, or compare two."""

    EXAMPLES: ClassVar[Examples] = {
        "Check one": "capex dataset check datasets/first",
        "Compare two": "capex dataset diff datasets/first datasets/second",
    }

    command: OmitSubcommandPrefixes[
        Annotated[DatasetCheck, subcommand("check")]
        | Annotated[DatasetDiffCommand, subcommand("diff")]
    ]

    def run(self) -> int:
        """Do it."""
        return self.command.run()
