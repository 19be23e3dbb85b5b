"""`capex learn`: from a run to a judged student."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Annotated, ClassVar

from rich.markup import escape
from rich.progress import Progress, TaskID
from tyro.conf import OmitArgPrefixes, Positional, arg

from capex import worlds
from capex.cli.allowing import Allowed
from capex.cli.console import console
from capex.cli.help import Examples, Groups
from capex.cli.students import COLUMNS, print_rollouts, require_torch, roll_out_here
from capex.errors import CapexError

if TYPE_CHECKING:
    from capex.dataset import Certified
    from capex.students.learn import LearnPlan
    from capex.students.study import StudyTrial
    from capex.students.study_plan import StudyPlan

NO_SIZE = (0, 0)
STAGES = 4
LOOK_EVERY_S = 1.0


@dataclass(frozen=True)
class Learn:
    """From a run to judged students in one go: certify, export, train, evaluate, report, with the
    paper's settings. The same command again continues.
    """

    GROUPS: ClassVar[Groups] = {
        "What to learn from": ("runs", "task", "arm", "demonstrations", "size", "pack"),
        "What to train": ("policies", "steps", "seeds", "set"),
        "Weights to begin with": ("backbone", "instructions", "init"),
        "Rollouts": ("starts", "horizon", "by"),
        "Engine": ("parallel", "device"),
        "Output": ("out", "save_every"),
    }
    EXAMPLES: ClassVar[Examples] = {
        "ACT and Diffusion Policy, three seeds each, as in the paper": (
            "capex learn runs/first --task kitchen:TurnOffStove --out students/first"
        ),
        "Two demonstrators on the same starts, one seed": (
            "capex learn runs/first runs/expert --task kitchen:TurnOffStove --seeds 0"
            " --out students/both"
        ),
    }

    runs: Positional[Annotated[tuple[Path, ...], arg(metavar="RUN [RUN ..]")]]
    """Run directories; several are compared, trained on the starts that all of them solved."""
    out: Annotated[Path, arg(metavar="DIR")]
    """Folder for datasets, the study, its table and its report."""
    task: Annotated[str, arg(metavar="WORLD:TASK")] = ""
    """Which task (default: the only one of the runs)."""
    arm: Annotated[tuple[str, ...], arg(metavar="NAME [NAME ..]")] = ()
    """Demonstrations by this arm, where a run has several (default: its only one)."""
    demonstrations: Annotated[int, arg(metavar="N")] = 50
    """At most so many, the first by start."""
    size: Annotated[tuple[int, int], arg(metavar="WIDTH HEIGHT")] = NO_SIZE
    """Size of the pictures in pixels (default: 256 256; recorded frames keep their own)."""
    pack: bool = False
    """Write frames for training alone instead of a LeRobot dataset: faster, and without pyarrow."""
    policies: Annotated[tuple[str, ...], arg(metavar="NAME [NAME ..]")] = ("act", "diffusion")
    """Which policies (default: act diffusion)."""
    steps: Annotated[tuple[int, ...], arg(metavar="N [N ..]")] = (20_000,)
    """Training steps; several budgets make the figure (default: 20000)."""
    seeds: Annotated[tuple[int, ...], arg(metavar="N [N ..]")] = (0, 1, 2)
    """Training seeds (default: 0 1 2)."""
    set: Annotated[tuple[str, ...], arg(metavar="[POLICY.]NAME=VALUE [..]")] = ()
    """Settings of the policies, of one with its name before it; the paper's values are the
    defaults, docs/students.md lists them."""
    backbone: Annotated[Path | None, arg(metavar="FILE")] = None
    """ResNet-18 weights for ACT; nothing is downloaded (default: none)."""
    instructions: Annotated[Path | None, arg(metavar="PATH")] = None
    """Instruction embeddings for Diffusion: a file, or a folder with CLIP (default: none)."""
    init: Annotated[Path | None, arg(metavar="PATH")] = None
    """Fine-tune a Diffusion Policy from this one too: a policy of ours, or RoboCasa365's checkpoint
    (default: none)."""
    starts: Annotated[str, arg(metavar="STARTS")] = "1000:1050"
    """Starts of the rollouts: 1000:1050 (default, the starts 1000 to 1049), 7 or 1,4,9."""
    horizon: Annotated[int, arg(metavar="N")] = 0
    """Control steps of a rollout; 0 (default): the task's own."""
    by: Annotated[str | None, arg(metavar="NAME")] = None
    """Where a person judges the rollouts: who does (default: CAPEX_OPERATOR from the environment,
    else you are asked)."""
    save_every: Annotated[int, arg(metavar="N")] = 5000
    """Training steps between checkpoints."""
    parallel: Annotated[int, arg(metavar="N")] = 0
    """Processes that replay, draw and simulate; 0 (default): one per core."""
    device: Annotated[str, arg(metavar="DEVICE")] = "auto"
    """Where students train and act: auto (default), cpu, cuda, cuda:1, mps."""

    allowed: OmitArgPrefixes[Allowed] = field(default_factory=Allowed)

    def run(self) -> int:
        """Go through the stages, then print the table and where everything is."""
        require_torch()
        if self.task:
            worlds.allow(self.task)
        from capex.dataset import Pipeline
        from capex.students.learn import LearnJob, plan_learning
        from capex.students.settings import parse_changes
        from capex.students.tables import study_tables

        given = {k: v for k, v in vars(self).items() if k in LearnJob.__dataclass_fields__}
        plan = plan_learning(
            LearnJob(
                **given,
                arms=self.arm,
                changes=parse_changes(self.set),
                pipeline=Pipeline(None if self.size == NO_SIZE else self.size),
                packed=self.pack,
            )
        )
        _stage(1, f"certificates of {plan.task}: every success executed again in a fresh process")
        _certify(plan)
        _stage(2, "demonstrations for training")
        _export(plan)
        _stage(3, "training and rollouts")
        run_here(plan.study, plan.results, by=self.by)
        _stage(4, "table and report")
        written = study_tables(plan.results)
        print_rollouts(plan.results / "rollouts")
        for path in (plan.job.out / "study.toml", *written):
            console.print(f"[bold]{path}[/]", highlight=False, soft_wrap=True)
        return 0


def _stage(number: int, what: str) -> None:
    console.rule(f"[bold]{number} of {STAGES}[/]", align="left")
    console.print(escape(what), highlight=False)


def _certify(plan: LearnPlan) -> None:
    from capex.students.learn import certify

    with Progress(*COLUMNS, console=console) as progress:
        bar = progress.add_task("certifying", total=None)

        def tell(done: int, total: int, _: Certified) -> None:
            progress.update(bar, completed=done, total=total)

        results = certify(plan, tell)
    for source, rows in results.items():
        good = sum(r.certificate.certified or bool(r.judge) for r in rows)
        console.print(
            f"{source}: {good} of {len(rows)} successes certified or judged", highlight=False
        )
        for r in (r for r in rows if not r.certificate.certified and not r.judge):
            line = f"[yellow]not certified[/] {escape(str(r.episode))}: "
            console.print(line + escape(r.certificate.reason), soft_wrap=True)


def _export(plan: LearnPlan) -> None:
    from capex.students.learn import export

    with Progress(*COLUMNS, console=console) as progress:
        bars: dict[str, TaskID] = {}

        def tell(name: str, done: int, total: int) -> None:
            if name not in bars:
                bars[name] = progress.add_task(f"{name}, frames", total=total)
            progress.update(bars[name], completed=done)

        for line in export(plan, tell):
            progress.console.print(escape(line), highlight=False, soft_wrap=True)


def run_here(study: StudyPlan, out: Path, *, by: str | None = None, ray: str | None = None) -> None:
    """Run what a study lacks, with bars of training steps and rollouts and a line for each piece
    that is done.
    """
    from capex.students.evaluate import judged_by_person
    from capex.students.study import groups, run_study

    planned = list(groups(study, out))
    attend = functools.partial(roll_out_here, by=by)
    lines = run_study(study, out, ray=ray, attend=attend)
    if any(judged_by_person(task) for task in study.tasks):  # whose display is the campaign's
        for line in lines:
            console.print(escape(line), highlight=False, soft_wrap=True)
        return
    with following(planned) as progress:
        for line in lines:
            progress.console.print(escape(line), highlight=False, soft_wrap=True)


@contextmanager
def following(planned: Sequence[Sequence[StudyTrial]]) -> Iterator[Progress]:
    """Bars of a study's training steps and rollouts, from what is written to its folder."""
    from capex.students.study_progress import look

    over = Event()
    with Progress(*COLUMNS, console=console) as progress:
        bars = [progress.add_task(name, total=None) for name in ("training steps", "rollouts")]

        def follow() -> None:
            now = look(planned)
            progress.update(bars[0], completed=now.steps, total=now.all_steps)
            progress.update(bars[1], completed=now.rollouts, total=now.all_rollouts)

        def watch() -> None:
            while not over.wait(LOOK_EVERY_S):
                try:
                    follow()
                except (OSError, CapexError):
                    continue  # a file that is just being replaced

        thread = Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield progress
            follow()
        finally:
            over.set()
            thread.join()
