"""The command line: one frozen dataclass per command, sentences for a user's mistakes, never a traceback."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from tyro.conf import Positional, arg, subcommand

from capex import worlds
from capex.collect import EpisodeResult, parse_names, parse_starts, run_expert
from capex.errors import CapexError

console = Console()


@dataclass(frozen=True)
class Demo:
    """A tour of about a minute: the expert closes a fridge and puts food into a pan; leaves a picture strip and a video of each."""

    out: Path = Path("demo")
    """Where the run, the strips and the videos go."""

    def run(self) -> int:
        """Run the expert on one start of each task and film it."""
        from capex.film import write_strip, write_video

        names = "kitchen:CloseFridge,PickPlaceCounterToStove"
        results = _watch(names, [0], self.out / "run", parallel=1)
        for world, task in parse_names(names):
            episode = self.out / "run" / "chains" / f"{world}--{task}--expert" / "episodes" / "0000"
            with console.status(f"filming {task}"):
                strip = write_strip(episode, self.out / f"{task}.png")
                video = write_video(episode, self.out / f"{task}.mp4")
            console.print(f"{task}: [bold]{strip}[/] and [bold]{video}[/]")
        return 0 if all(r.success for r in results) else 1


@dataclass(frozen=True)
class Doctor:
    """Versions, the GL backend with a rendered frame, and which extras work with the line that installs the others."""

    model: str | None = None
    """Also ask this model one small question and say what its endpoint can do; a paid model bills it."""

    def run(self) -> int:
        """Print the findings; fails when something that every user needs does not work."""
        from capex.doctor import examine, examine_model, print_findings

        findings = examine()
        if self.model is not None:
            findings += examine_model(self.model)
        print_findings(findings, console)
        return 1 if any(f.verdict == "failed" for f in findings) else 0


@dataclass(frozen=True)
class Prompt:
    """The filled system prompt of an arm in a world, with its size."""

    name: Positional[Annotated[str, arg(metavar="WORLD:TASK")]] = "kitchen:CloseFridge"
    """Which environment; the prompt depends on its cameras, arms and base, not on the task."""
    arm: str = "capex"
    """Which arm's prompt."""
    prompt: Path | None = None
    """A file to fill instead of ours."""
    json_form: bool = False
    """For models without function calling."""

    def run(self) -> int:
        """Print the prompt; its size goes to standard error, so that the text can be piped."""
        from capex.arms import arm as preset
        from capex.prompts import SIZE_MAX, system_prompt

        env = worlds.make(self.name)
        text = system_prompt(env.spec, preset(self.arm), template=self.prompt, json_form=self.json_form)
        sys.stdout.write(text)
        Console(stderr=True).print(f"{len(text)} characters before the first episode; at most {SIZE_MAX} with memory", highlight=False)
        return 0


@dataclass(frozen=True)
class Tasks:
    """The tasks of a world with horizon, instruction and success criterion."""

    world: Positional[str] = "kitchen"
    """Which world."""
    pictures: Path | None = None
    """Folder for a sheet with the three camera views of two starts per task."""

    def run(self) -> int:
        """Print the table, and draw the sheet if asked."""
        table = Table(title=f"tasks of {self.world}")
        for column in ("task", "family", "horizon", "instruction", "success"):
            table.add_column(column, overflow="fold", no_wrap=column == "task", justify="right" if column == "horizon" else "left")
        for info in worlds.tasks(self.world).values():
            table.add_row(info.name, info.family, str(info.horizon), escape(info.instruction), escape(info.criterion))
        console.print(table)
        if self.pictures is not None:
            from capex.film import write_sheet

            with console.status("rendering"):
                sheet = write_sheet(self.world, self.pictures)
            console.print(f"[bold]{sheet}[/]")
        return 0


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
            console.print(f"[yellow]invalid[/] {r.world}:{r.task} start {r.index}: {escape(r.note)}")
        return 0


@dataclass(frozen=True)
class Bench:
    """The speed table of the README: ratios within one run, and the limits we promise."""

    def run(self) -> int:
        """Measure and print."""
        from capex import bench

        with console.status("measuring"):
            rows = bench.run()
        bench.print_rows(rows, console)
        return 0 if all(r.holds is not False for r in rows) else 1


@dataclass(frozen=True)
class Check:
    """Run the environment contract on a world: determinism, upright images, limits, save and load, and the rest."""

    name: Positional[Annotated[str, arg(metavar="WORLD:TASK")]]
    """Which environment."""
    start: int = 0
    """In which start: the hand should be in view and the base have room to drive."""

    def run(self) -> int:
        """Print each rule with its verdict."""
        from capex.worlds import Start

        env = worlds.make(self.name)
        with console.status(f"checking {self.name}"):
            report = worlds.check(env, start=Start(env.spec.task, self.start))
        env.close()
        console.print(report)
        return 0 if report.ok else 1


@dataclass(frozen=True)
class Film:
    """A picture strip and a video of an episode, re-rendered from its saved states."""

    episode: Positional[Path]
    """An episode folder, such as runs/NAME/chains/CHAIN/episodes/0000."""
    out: Path = Path("film")
    """Folder for the two files."""

    def run(self) -> int:
        """Write both files and say where they are."""
        from capex.film import write_strip, write_video

        name = f"{self.episode.parent.parent.name}-{self.episode.name}"
        with console.status("rendering"):
            strip, video = write_strip(self.episode, self.out / f"{name}.png"), write_video(self.episode, self.out / f"{name}.mp4")
        console.print(f"{strip}\n{video}")
        return 0


Command = (
    Annotated[Demo, subcommand("demo")]
    | Annotated[Doctor, subcommand("doctor")]
    | Annotated[Tasks, subcommand("tasks")]
    | Annotated[Prompt, subcommand("prompt")]
    | Annotated[Expert, subcommand("expert")]
    | Annotated[Bench, subcommand("bench")]
    | Annotated[Check, subcommand("check")]
    | Annotated[Film, subcommand("film")]
)


def _watch(names: str, starts: list[int], out: Path, parallel: int) -> list[EpisodeResult]:
    """Run the expert with a progress bar and print the table of successes over everything the run now holds."""
    from capex.worlds import render

    total = len(parse_names(names)) * len(starts)
    backend = f"{render.backend()}: {render.renderer_name()}"
    results: list[EpisodeResult] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("expert", total=total)
        for result in run_expert(names, starts, out, parallel=parallel, gl_backend=backend):
            results.append(result)
            solved = sum(bool(r.success) for r in results)
            progress.update(bar, advance=1, description=f"expert {solved}/{len(results)} solved, last {result.task} {result.index}")
        progress.update(bar, completed=total)
    _print_results(names, starts, out)
    return results


def _print_results(names: str, starts: Iterable[int], out: Path) -> None:
    from capex.store import find_run, read_json

    run = find_run(out)
    wanted = set(starts)
    table = Table(title=f"{out}: expert")
    for column in ("task", "success", "median steps", "median decisions"):
        table.add_column(column, justify="left" if column == "task" else "right")
    for world, task in parse_names(names):
        chain = run.chain(world, task, "expert")
        rows: dict[str, list[int]] = defaultdict(list)
        solved = total = 0
        for index in chain.finished():
            if index not in wanted:
                continue
            record = read_json(chain.episode(index) / "record.json")
            total += 1
            solved += bool(record["success"])
            for key in ("steps", "decisions"):
                rows[key].append(record[key])
        table.add_row(
            task, f"{solved}/{total}", *(str(sorted(rows[k])[len(rows[k]) // 2]) if rows[k] else "" for k in ("steps", "decisions"))
        )
    console.print(table)


def main() -> None:
    """Entry point of `capex`."""
    command = tyro.cli(Command, prog="capex", description="Turns a frozen vision-language model into a robot demonstrator.")
    try:
        status: int = command.run()
    except CapexError as error:
        Console(stderr=True).print(f"capex: {error}", markup=False, highlight=False, soft_wrap=True)
        status = 2
    except OSError as error:
        sentence = f"capex: '{error.filename or 'the disk'}' cannot be read or written ({error.strerror or error}); choose another path"
        Console(stderr=True).print(sentence, markup=False, highlight=False, soft_wrap=True)
        status = 2
    except KeyboardInterrupt:
        Console(stderr=True).print("capex: interrupted; what was finished is kept, the same command continues it")
        status = 130
    sys.exit(status)


if __name__ == "__main__":
    main()
