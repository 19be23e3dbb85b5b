"""`capex certify` and `capex export`."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, fields, make_dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_type_hints

from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from tyro.conf import OmitArgPrefixes, Positional, arg

from capex.cli.allowing import Allowed
from capex.cli.console import console
from capex.cli.following import free, print_next
from capex.cli.help import Examples, Groups
from capex.cli.tables import FittedTable
from capex.dataset import Certified, Filters, Pipeline, certify_run, export_run
from capex.dataset.selection import summary
from capex.errors import CapexError, ErrorCode
from capex.registry import EXPORT_FILTERS, load
from capex.setting import docstrings

NO_SIZE = (0, 0)  # none was given; an optional pair would take a run that follows it, too
COLUMNS = (
    TextColumn("{task.description}"),
    BarColumn(),
    MofNCompleteColumn(),
    TimeElapsedColumn(),
    TimeRemainingColumn(),
)


@dataclass(frozen=True)
class Certify:
    """Execute every success of a run again, from its start by its recorded actions, and store
    beside it whether it replays.
    """

    EXAMPLES: ClassVar[Examples] = {
        "Every success of a run, on two cores": "capex certify runs/first --parallel 2",
        "Those with a certificate, too": "capex certify runs/first --again",
    }

    run_directory: Positional[Annotated[Path, arg(metavar="RUN")]]
    """A run directory, what --out named."""
    parallel: Annotated[int, arg(metavar="N")] = 1
    """Processes; each episode gets a fresh one in any case."""
    again: bool = False
    """Execute those that are certified already, too."""

    allowed: OmitArgPrefixes[Allowed] = field(default_factory=Allowed)

    def run(self) -> int:
        """Print a table; fails when a success does not replay."""
        with Progress(*COLUMNS, console=console) as progress:
            bar = progress.add_task("certifying", total=None)

            def tell(done: int, total: int, _: Certified) -> None:
                progress.update(bar, completed=done, total=total)

            results = certify_run(self.run_directory, self.parallel, again=self.again, tell=tell)
        if not results:
            console.print(
                f"{self.run_directory} holds no success, so there is nothing to certify",
                markup=False,
                highlight=False,
            )
            return 0
        table = Table(title=f"{self.run_directory}: replays of successes")
        for column in ("chain", "successes", "certified", "rule"):
            table.add_column(
                column,
                justify="right" if column in ("successes", "certified") else "left",
                overflow="fold",
            )
        chains: dict[str, list[Certified]] = {}
        for result in (r for r in results if not r.damaged):
            chains.setdefault(result.episode.parent.parent.name, []).append(result)
        for chain, members in chains.items():
            rules = Counter(m.certificate.rule for m in members if m.certificate.rule)
            table.add_row(
                chain,
                str(len(members)),
                str(sum(m.certificate.certified for m in members)),
                "; ".join(rules),
            )
        console.print(FittedTable(table))
        judges = Counter(r.judge for r in results if r.judge)
        for name, number in judges.items():
            said = f"{number} judged by {name}, not certified: a person judges this world"
            console.print(said, markup=False, highlight=False, soft_wrap=True)
        refused = [r for r in results if not r.certificate.certified and not r.judge]
        for r in refused:
            what = "left out, damaged" if r.damaged else "not certified"
            console.print(
                f"[yellow]{what}[/] {escape(str(r.episode))}: {escape(r.certificate.reason)}",
                soft_wrap=True,
            )
        if damaged := sum(r.damaged for r in refused):
            count = "1 damaged episode was" if damaged == 1 else f"{damaged} damaged episodes were"
            console.print(
                f"{count} left out; capex repair {self.run_directory} moves them aside",
                markup=False,
                soft_wrap=True,
            )
        if len(refused) < len(results):
            out = free(Path("datasets", self.run_directory.resolve().name))
            print_next("capex", "export", self.run_directory, "--out", out)
        return 1 if refused else 0


def _filter_fields() -> list[tuple[str, Any, Any]]:
    """The flags of filters: those of the core, then those of extensions."""
    hints, texts = get_type_hints(Filters), docstrings(Filters)
    core = [
        (f.name, Annotated[hints[f.name], arg(help=texts[f.name])], field(default=f.default))
        for f in fields(Filters)
        if f.name != "extensions"
    ]
    loaded = {name: load(target) for name, target in EXPORT_FILTERS.items()}
    added = [
        (name, Annotated[bool, arg(help=extension.help)], field(default=False))
        for name, extension in loaded.items()
        if extension.help
    ]
    return core + added


FilterFlags = make_dataclass("FilterFlags", _filter_fields(), frozen=True)


def filters_of(flags: Any) -> Filters:
    """The filters that were given as flags."""
    given = vars(flags)
    named = tuple(name for name in EXPORT_FILTERS if given.get(name))
    core = {name: value for name, value in given.items() if name not in EXPORT_FILTERS}
    return Filters(**core, extensions=named)


@dataclass(frozen=True)
class Export:
    """Write demonstrations, certified or judged by a person, as a dataset: LeRobot's, or
    robomimic's HDF5.
    """

    GROUPS: ClassVar[Groups] = {
        "Which demonstrations": (
            *("runs", "tasks", "arms", "max", "uncertified", "forks", "min_steps", "max_steps"),
            *("max_cost_usd", "min_confidence", "paired", "failures"),
        ),
        "Pictures": ("size", "cameras", "video", "crf", "depth"),
        "Engine": ("parallel",),
        "Output": ("out", "format", "license"),
    }
    EXAMPLES: ClassVar[Examples] = {
        "A LeRobot dataset with video": "capex export runs/first --video --out datasets/first",
        "Two sources over the starts that both solved": (
            "capex export runs/first runs/expert --paired --out datasets/pair"
        ),
    }

    runs: Positional[Annotated[tuple[Path, ...], arg(metavar="RUN [RUN ..]")]]
    """Run directories, or single chains of them (RUN/chains/CHAIN); several become one dataset."""
    out: Annotated[Path, arg(metavar="DIR")]
    """Folder of the dataset; it must not exist yet."""
    format: Literal["lerobot", "lerobot-v2.1", "lerobot-v3.1", "hdf5", "pack"] = "lerobot"
    """LeRobot v3.0; v2.1 with GR00T's modality.json; v3.1, with language columns and depth, for
    LeRobot 0.6 and later; one HDF5 file in robomimic's and RoboCasa's layout; or a pack, plain
    frames for `capex train` alone, without pyarrow."""
    paired: bool = False
    """Two runs become two datasets over the starts that both solved."""
    failures: bool = False
    """Write the failed attempts too, as a dataset of their own named OUT-failures."""
    filters: Annotated[Any, OmitArgPrefixes, arg(name="filters", constructor=FilterFlags)] = field(
        default_factory=FilterFlags
    )
    size: Annotated[tuple[int, int], arg(metavar="WIDTH HEIGHT")] = NO_SIZE
    """Size of the pictures in pixels (default: 256 256; recorded frames keep their own)."""
    cameras: Annotated[tuple[str, ...], arg(metavar="NAME [NAME ..]")] = ()
    """Only these cameras (default: all)."""
    video: bool = False
    """h264 video instead of a PNG per frame."""
    crf: int = 18
    """Quality of the video: 0 is lossless, 23 small."""
    depth: bool = False
    """Depth of each camera too: metres in HDF5, millimetres in LeRobot's formats."""
    license: Annotated[str, arg(metavar="NAME")] = ""
    """Licence for the dataset card, as the Hugging Face hub spells them: apache-2.0, cc-by-4.0
    (default: none)."""
    parallel: Annotated[int, arg(metavar="N")] = 1
    """Processes that render; the files do not depend on it."""

    allowed: OmitArgPrefixes[Allowed] = field(default_factory=Allowed)

    def run(self) -> int:
        """Export, and print what was written and what was left out."""
        size = None if self.size == NO_SIZE else self.size
        with Progress(*COLUMNS, console=console) as progress:
            bars: dict[str, TaskID] = {}

            def tell(name: str, done: int, total: int) -> None:
                if name not in bars:
                    bars[name] = progress.add_task(f"{name}, frames", total=total)
                progress.update(bars[name], completed=done)

            if self.format == "pack":
                return self._pack(size, tell)
            exported = export_run(
                self.runs,
                self.out,
                format=self.format,
                paired=self.paired,
                failures=self.failures,
                filters=filters_of(self.filters),
                pipeline=Pipeline(size, self.cameras, self.depth, self.video, self.crf),
                licence=self.license,
                command=shlex.join(["capex", *sys.argv[1:]]),
                parallel=self.parallel,
                tell=tell,
            )
        if exported.left_out:
            table = Table(title="left out")
            for column in ("dataset", "why", "attempts"):
                table.add_column(
                    column, justify="right" if column == "attempts" else "left", overflow="fold"
                )
            for dataset, reason, count in summary(exported.left_out):
                table.add_row(dataset, escape(reason), str(count))
            console.print(FittedTable(table))
        for dataset_written in exported.datasets:
            frames = f"{dataset_written.frames:,} frames"
            console.print(
                f"[bold]{dataset_written.path}[/]: {dataset_written.demonstrations} episodes,"
                f" {frames}",
                soft_wrap=True,
            )
        print_next("capex", "dataset", "check", exported.datasets[0].path)
        return 0

    def _pack(self, size: tuple[int, int] | None, tell: Callable[[str, int, int], None]) -> int:
        """Plain frames; what only datasets for others have is refused."""
        given = {"--paired": self.paired, "--failures": self.failures, "--video": self.video}
        given |= {"--depth": self.depth, "--license": bool(self.license)}
        if asked := [flag for flag, is_given in given.items() if is_given]:
            raise CapexError(
                f"{asked[0]} is not for --format pack; it holds frames for training",
                code=ErrorCode.NOT_APPLICABLE,
            )
        from capex.students.packing import export_pack

        chosen = export_pack(
            self.runs,
            self.out,
            filters_of(self.filters),
            Pipeline(size, self.cameras),
            parallel=self.parallel,
            tell=lambda done, total: tell(self.out.name, done, total),
        )
        for _, reason, count in summary(chosen.left_out):
            console.print(f"left out: {count} x {escape(reason)}", highlight=False)
        written = f"[bold]{self.out}[/]: {len(chosen.attempts)} episodes"
        console.print(written, highlight=False, soft_wrap=True)
        policy = self.out.with_name(f"{self.out.name}-act")
        print_next("capex", "train", self.out, "--out", policy)
        return 0
