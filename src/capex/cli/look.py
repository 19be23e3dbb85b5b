"""Commands that look and change nothing: doctor, prompt, tasks, bench, check, film."""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar

from rich.markup import escape
from rich.table import Table
from tyro.conf import OmitArgPrefixes, Positional, arg

from capex import worlds
from capex.cli.allowing import Allowed
from capex.cli.console import console, errors
from capex.cli.help import Examples, SameAs
from capex.cli.tables import FittedTable
from capex.errors import CapexError, ErrorCode, UnknownName
from capex.worlds import Env


@dataclass(frozen=True)
class Doctor:
    """Versions, the GL backend with a rendered frame, and which extras work with the line that
    installs the others.
    """

    EXAMPLES: ClassVar[Examples] = {
        "This machine": "capex doctor",
        "A server of your own, before a campaign": (
            "capex doctor --model chat:NAME@http://localhost:8000/v1"
        ),
    }

    model: Annotated[str | None, arg(metavar="MODEL")] = None
    """Also ask this model a small question and say what its endpoint can do; that may be billed
    (default: none)."""
    world: Annotated[str | None, arg(metavar="WORLD")] = None
    """Also look for what this world needs and how to get it: robosuite or robocasa (default:
    none)."""

    def run(self) -> int:
        """Print the findings; fails when something that every user needs, or the world that was
        asked for, does not work.
        """
        from capex.cli.doctor import examine, examine_model, examine_world, print_findings

        findings = examine()
        asked = examine_world(self.world) if self.world is not None else []
        findings += asked
        if self.model is not None:
            findings += examine_model(self.model)
        print_findings(findings, console)
        return (
            1
            if any(f.verdict == "failed" for f in findings)
            or any(f.verdict == "missing" for f in asked)
            else 0
        )


@dataclass(frozen=True)
class Prompt:
    """The filled system prompt of an arm in a world, with its size."""

    EXAMPLES: ClassVar[Examples] = {
        "What the base arm is told": "capex prompt --arm base",
        "A prompt of your own, filled for a world": (
            "capex prompt robosuite:Lift --prompt my-prompt.txt"
        ),
    }

    name: Positional[Annotated[str, arg(metavar="WORLD:TASK")]] = "kitchen:CloseFridge"
    """Which environment; the prompt depends on its cameras, arms and base, not on the task."""
    arm: Annotated[str, arg(metavar="NAME")] = "capex"
    """Which arm's prompt: capex (default), base or another arm of capex collect."""
    method: Annotated[str | None, SameAs("arm"), arg(metavar="NAME")] = None
    """Another name of --arm."""
    prompt: Annotated[Path | None, arg(metavar="FILE")] = None
    """A file to fill instead of ours (default: ours)."""
    hints: Annotated[Path | None, arg(metavar="FILE")] = None
    """Passages about the robot and the task to add, as `capex collect --hints` does (default:
    none)."""
    json_form: bool = False
    """For models without function calling."""

    def run(self) -> int:
        """Print the prompt; its size goes to standard error, so that the text can be piped."""
        from capex.method.presets import PRESETS
        from capex.method.prompts import SIZE_MAX, read_hints, system_prompt

        arm = self.arm if self.method is None else self.method
        if arm not in PRESETS:
            raise UnknownName("arm" if self.method is None else "method", arm, PRESETS)
        worlds.allow(self.name)
        env = worlds.make(self.name)
        text = system_prompt(
            env.spec,
            PRESETS[arm],
            hints="" if self.hints is None else read_hints(self.hints),
            template=self.prompt,
            json_form=self.json_form,
        )
        sys.stdout.write(text)
        errors.print(
            f"{len(text)} characters before the first episode; at most {SIZE_MAX} with memory",
            highlight=False,
        )
        return 0


@dataclass(frozen=True)
class Tasks:
    """The tasks of a world with horizon, instruction and success criterion."""

    EXAMPLES: ClassVar[Examples] = {
        "The built-in kitchen": "capex tasks",
        "robosuite's tasks, with a sheet of pictures": "capex tasks robosuite --pictures sheets",
    }

    world: Positional[Annotated[str, arg(metavar="WORLD")]] = "kitchen"
    """Which world: kitchen (default), kitchen-mixed, robosuite, robosuite-panda, robosuite-two,
    robocasa, or one of your own."""
    pictures: Annotated[Path | None, arg(metavar="DIR")] = None
    """Folder for a sheet with the three camera views of two starts per task (default: none)."""

    def run(self) -> int:
        """Print the table, and draw the sheet if asked."""
        table = Table(title=f"tasks of {self.world}")
        for column in ("task", "family", "horizon", "instruction", "success"):
            table.add_column(
                column,
                overflow="fold",
                no_wrap=column == "task",
                justify="right" if column == "horizon" else "left",
            )
        worlds.allow(self.world)
        for info in worlds.tasks(self.world).values():
            table.add_row(
                info.name,
                info.family,
                str(info.horizon),
                escape(info.instruction),
                escape(info.criterion),
            )
        console.print(FittedTable(table))
        if self.pictures is not None:
            from capex.dataset.film import write_sheet

            with console.status("rendering"):
                sheet = write_sheet(self.world, self.pictures)
            console.print(f"[bold]{sheet}[/]")
        return 0


@dataclass(frozen=True)
class Bench:
    """The speed table of docs/kitchen.md: ratios within one run, and the limits we promise."""

    EXAMPLES: ClassVar[Examples] = {
        "About a minute on two cores": "capex bench",
        "With software rendering": "MUJOCO_GL=osmesa capex bench",
    }

    def run(self) -> int:
        """Measure and print."""
        from capex.cli import bench

        with console.status("measuring"):
            rows = bench.run()
        bench.print_rows(rows, console)
        return 0 if all(r.holds is not False for r in rows) else 1


@dataclass(frozen=True)
class Check:
    """Run the environment contract on a world: determinism, upright images, limits, save and load,
    and the rest.
    """

    EXAMPLES: ClassVar[Examples] = {
        "Every task of a world, in another start": "capex check robosuite:all --start 3",
        "A robot in a room, without moving it": "capex check rig:room --dry",
    }

    names: Positional[Annotated[str, arg(metavar="WORLD:TASK[,TASK..|all]")]]
    """Which environments; a rig needs no task."""
    start: Annotated[str, arg(metavar="N")] = "0"
    """In which start, or in one drawn anew (fresh:N): the hand should be in view and the base have
    room to drive."""
    dry: bool = False
    """On a rig: connect and read arms and cameras, move nothing."""
    yes: bool = False
    """On a rig: announce each motion and begin it after three seconds, instead of waiting for
    Enter."""

    def run(self) -> int:
        """Print each rule with its verdict."""
        from capex.campaign.names import parse_names, parse_starts
        from capex.worlds import Start

        worlds.allow(self.names)
        try:
            start = int(self.start)
        except ValueError:
            start, *others = parse_starts(self.start)
            if others:
                raise CapexError(
                    f"--start is {self.start}; a check takes one start", code=ErrorCode.BAD_SETTING
                ) from None
        if worlds.robot_prefix(worlds.split_name(self.names)[0]):
            from capex.cli.rig_check import check_rig

            return check_rig(self.names, start, dry=self.dry, yes=self.yes)
        for flag, said in (("--dry", self.dry), ("--yes", self.yes)):
            if said:
                raise CapexError(
                    f"{flag} is for a rig, and {self.names} is none; leave it out",
                    code=ErrorCode.NOT_APPLICABLE,
                )
        fine = True
        for world, task in parse_names(self.names):
            env = _own_or_built_in(world, task)
            if not env.spec.has_start(start):
                none = f"--start: there is no start {self.start} of {world}:{task}"
                raise CapexError(
                    f"{none}; valid: {env.spec.valid_starts}", code=ErrorCode.UNKNOWN_START
                )
            with console.status(f"checking {env.spec.name}"):
                again = functools.partial(worlds.make, f"{world}:{task}")
                report = worlds.check(env, start=Start(task, start), factory=again)
            env.close()
            console.print(FittedTable(report.__rich__()))
            fine &= report.ok
        return 0 if fine else 1


def _own_or_built_in(world: str, task: str) -> Env:
    """An environment; what a world of the user's own raises becomes a sentence."""
    from capex.worlds.contract.trial import describe_error

    try:
        return worlds.make(f"{world}:{task}")
    except CapexError:
        raise
    except Exception as error:
        if world in worlds.WORLDS:
            raise
        raise CapexError(
            describe_error(error, worlds.__file__), code=ErrorCode.CONTRACT_BROKEN
        ) from None


@dataclass(frozen=True)
class Film:
    """A picture strip and a video of an episode, or a moving picture with its plans, re-rendered
    from its saved states or from recorded frames.
    """

    EXAMPLES: ClassVar[Examples] = {
        "The first start of a chain": (
            "capex film runs/a/chains/kitchen--CloseFridge--base/episodes/0000"
        ),
        "Into another folder": (
            "capex film --out films runs/a/chains/kitchen--CloseFridge--base/episodes/0003"
        ),
    }

    episode: Positional[Annotated[Path, arg(metavar="EPISODE")]]
    """An episode folder, such as runs/NAME/chains/CHAIN/episodes/0000."""
    out: Annotated[Path, arg(metavar="DIR")] = Path("film")
    """Folder for the strip and the video."""
    plans: Annotated[Path | None, arg(metavar="FILE")] = None
    """Write this .webp, .gif or .mp4 instead: each plan drawn into the robot's views in the colours
    of its calibrated confidences, committed waypoints filled, the deferred tail hollow (default:
    none).
    """
    speed: Annotated[float, arg(metavar="X")] = 3.0
    """With --plans: how many times as fast as it was the robot moves between decisions."""

    allowed: OmitArgPrefixes[Allowed] = field(default_factory=Allowed)

    def run(self) -> int:
        """Write the files and say where they are."""
        from capex.dataset.animation import write_animation
        from capex.dataset.film import write_strip, write_video
        from capex.run.manifest import MANIFEST
        from capex.run.store import find_run

        run = Path(*self.episode.absolute().parts[:-4])
        if (run / MANIFEST).is_file():
            find_run(run)  # of this format
        name = f"{self.episode.parent.parent.name}-{self.episode.name}"
        with console.status("rendering"):
            if self.plans is not None:
                files = [write_animation(self.episode, self.plans, speed=self.speed)]
            else:
                files = [
                    write_strip(self.episode, self.out / f"{name}.png"),
                    write_video(self.episode, self.out / f"{name}.mp4"),
                ]
        for file in files:
            console.print(f"{file}")
        return 0
