"""`capex train`, `capex evaluate`, `capex study`, `capex policy serve`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

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

from capex import worlds
from capex.campaign.settings import OPTIONS
from capex.cli.console import console
from capex.cli.following import print_next
from capex.cli.help import Examples, Groups
from capex.cli.tables import FittedTable
from capex.errors import CapexError, ErrorCode
from capex.worlds import robot_prefix

if TYPE_CHECKING:
    from capex.run import LoadedRun
    from capex.students.evaluate import Rollouts

COLUMNS = (
    TextColumn("{task.description}"),
    BarColumn(),
    MofNCompleteColumn(),
    TimeElapsedColumn(),
    TimeRemainingColumn(),
)
INSTALL = 'pip install "capex[students]"'


def require_torch() -> None:
    """A sentence instead of a traceback where the extra is missing."""
    import importlib.util

    missing = [name for name in ("torch", "safetensors") if importlib.util.find_spec(name) is None]
    if missing:
        raise CapexError(
            f"students need {' and '.join(missing)}: {INSTALL}", code=ErrorCode.MISSING_PACKAGE
        )


@dataclass(frozen=True)
class Train:
    """Train a student on exported demonstrations; the same command again continues."""

    GROUPS: ClassVar[Groups] = {
        "What to train": ("datasets", "policy", "steps", "seed", "set", "uncertified"),
        "Weights to begin with": ("backbone", "instructions", "init", "trust_pickle"),
        "Engine": ("device",),
        "Output": ("out", "save_every", "keep"),
    }
    EXAMPLES: ClassVar[Examples] = {
        "ACT with the paper's settings": "capex train datasets/first --out runs/act",
        "Diffusion Policy on a GPU, with a setting changed": (
            "capex train datasets/first --policy diffusion --set lr=1e-4 --device cuda"
            " --out runs/diffusion"
        ),
    }

    datasets: Positional[Annotated[tuple[Path, ...], arg(metavar="DATASET [DATASET ..]")]]
    """Datasets that `capex export` wrote; several are trained on together."""
    out: Annotated[Path, arg(metavar="DIR")]
    """Folder for checkpoints and curves."""
    policy: Literal["act", "diffusion"] = "act"
    """Which policy."""
    steps: Annotated[int, arg(metavar="N")] = 20_000
    """Training steps."""
    seed: Annotated[int, arg(metavar="N")] = 0
    """Seed of weights, order and noise."""
    set: Annotated[tuple[str, ...], arg(metavar="NAME=VALUE [NAME=VALUE ..]")] = ()
    """Settings of the policy; the paper's values are the defaults, docs/students.md lists them."""
    backbone: Annotated[Path | None, arg(metavar="FILE")] = None
    """ResNet-18 weights for ACT, as torchvision's, .safetensors or .pth; nothing is downloaded
    (default: none)."""
    instructions: Annotated[Path | None, arg(metavar="PATH")] = None
    """Instruction embeddings for Diffusion: a .safetensors or .npz file, or a folder with CLIP
    (default: none)."""
    init: Annotated[Path | None, arg(metavar="PATH")] = None
    """Begin from a policy of ours, or from RoboCasa365's released Diffusion Policy checkpoint
    (default: from scratch)."""
    trust_pickle: bool = False
    """Let --init run the code inside a pickle; only for files you made yourself."""
    uncertified: bool = False
    """Train on demonstrations without a certificate too."""
    keep: Annotated[tuple[int, ...], arg(metavar="N [N ..]")] = ()
    """Steps whose policies stay, besides the last (default: none)."""
    save_every: Annotated[int, arg(metavar="N")] = 5000
    """Training steps between checkpoints."""
    device: Annotated[str, arg(metavar="DEVICE")] = "auto"
    """auto (default), cpu, cuda, cuda:1, mps."""

    def run(self) -> int:
        """Train with a progress bar and say where the policy is."""
        require_torch()
        from capex.students import checkpoint
        from capex.students.settings import make_settings, parse_changes
        from capex.students.train import TrainingJob, TrainingProgress, train

        settings = make_settings(self.policy, parse_changes(self.set), spelled="--set ")
        same = {k: v for k, v in vars(self).items() if k not in ("policy", "set")}
        job = TrainingJob(settings=settings, **same)
        with Progress(*COLUMNS, console=console) as progress:
            bar = progress.add_task(f"{self.policy}: reading", total=self.steps)

            def show(now: TrainingProgress) -> None:
                losses = "  ".join(f"{k} {v:.4g}" for k, v in now.losses.items())
                progress.update(
                    bar,
                    completed=now.step,
                    description=f"{self.policy}  {losses}  {now.steps_per_s:.1f} steps/s",
                )

            place = train(
                job, show, lambda line: progress.console.print(escape(line), highlight=False)
            )
        console.print(
            f"[bold]{place}[/]\n{self.out / 'curve.csv'}  {self.out / 'curve.png'}", highlight=False
        )
        starts = checkpoint.read_spec(place).training.get("starts", ())
        if starts:
            world, task = starts[0][:2]
            rig = bool(robot_prefix(world))  # whose starts a person arranges: few of them
            first = max(0 if rig else 1000, *(start[2] + 1 for start in starts))
            unseen = ("--starts", f"{first}:{first + (10 if rig else 50)}")
            rollouts = self.out.with_name(f"{self.out.name}-rollouts")
            print_next("capex", "evaluate", self.out, f"{world}:{task}", *unseen, "--out", rollouts)
        return 0


@dataclass(frozen=True)
class Evaluate:
    """Roll a policy out on starts that no dataset used; success if the task's criterion holds at
    any step.
    """

    GROUPS: ClassVar[Groups] = {
        "What to run": (
            *("checkpoint", "name", "starts", "horizon", "seed", "instructions"),
            *("untrained", "allow_seen"),
        ),
        "Rig": ("operator", "by", "judge", "arrangements"),
        "Engine": ("parallel", "device"),
        "LeRobot's policies": ("python", "dataset"),
        "Output": ("out", "arm"),
    }
    EXAMPLES: ClassVar[Examples] = {
        "Fifty starts that no dataset used": "capex evaluate runs/act kitchen:TurnOffStove",
        "A policy that lerobot-train trained on our export, in LeRobot's environment": (
            "capex evaluate lerobot:out/act kitchen:TurnOffStove --python .venv-lerobot/bin/python"
        ),
    }

    checkpoint: Positional[Annotated[Path, arg(metavar="CHECKPOINT")]]
    """The folder of a training, or one of its checkpoints; lerobot:FOLDER for one that LeRobot's
    own trainer wrote."""
    name: Positional[Annotated[str, arg(metavar="WORLD:TASK")]]
    """Where to evaluate."""
    starts: Annotated[str, arg(metavar="STARTS")] = "1000:1050"
    """Start indices: 1000:1050 (default, the starts 1000 to 1049), 7 or 1,4,9. The same list for
    every policy."""
    out: Annotated[Path, arg(metavar="RUN")] = Path("runs/evaluation")
    """Run directory; several policies may share one, and the same command again continues it."""
    arm: Annotated[str, arg(metavar="NAME")] = ""
    """What the records call the policy; by default its kind and training steps."""
    parallel: Annotated[int, arg(metavar="N")] = 0
    """Simulating processes; 0 (default): about one per core. The results do not depend on it."""
    device: Annotated[str, arg(metavar="DEVICE")] = "auto"
    """Where the policy runs: auto (default), cpu, cuda, cuda:1, mps."""
    seed: Annotated[int, arg(metavar="N")] = 0
    """Seed of what is random in the policy."""
    instructions: Annotated[Path | None, arg(metavar="PATH")] = None
    """The encoder or the file of embeddings that Diffusion was trained with, for instructions that
    its checkpoint has no embedding of (default: none)."""
    untrained: bool = False
    """Fresh weights instead of the trained ones, for comparison."""
    allow_seen: bool = False
    """Also starts that were trained on."""
    horizon: Annotated[int, arg(metavar="N")] = 0
    """Control steps of a rollout; 0 (default): the task's own. What they do not suffice for is a
    failure."""
    operator: Annotated[Literal["person", "scripted"] | None, arg(metavar="WHO")] = None
    """Who arranges and judges on a rig: person, at this terminal, or scripted, a stand-in that only
    a simulated room has (default: what the rig file says)."""
    by: Annotated[str | None, arg(metavar="NAME")] = None
    """Where a person judges: who does (default: CAPEX_OPERATOR from the environment, else you are
    asked)."""
    judge: Literal["now", "later"] = "now"
    """Where a person judges: now (default) asks after each rollout; later goes on without, and
    `capex judge RUN` asks."""
    arrangements: Annotated[Path | None, arg(metavar="SOURCE")] = None
    """Take a rig's starts from here: another run, a folder of pictures or a LeRobot folder
    (default: a start's first rollout makes its arrangement, and other policies match it)."""
    python: Annotated[str, arg(metavar="PATH")] = ""
    """Python of an environment that has LeRobot (default: CAPEX_LEROBOT_PYTHON, or this one)."""
    dataset: Annotated[Path | None, arg(metavar="DATASET")] = None
    """Dataset that the policy was trained on (default: where train_config.json says, if that is
    below the current folder); its meta/ folder is enough."""

    def run(self) -> int:
        """Evaluate, then print the success of everything in the run."""
        starts = OPTIONS["starts"].checked("--starts", self.starts)
        worlds.allow(self.name)
        require_torch()
        from capex.students.evaluate import Rollouts, judged_by_person

        names = {f.name for f in fields(Rollouts)}
        job = Rollouts(**{k: v for k, v in vars(self).items() if k in names} | {"starts": starts})
        if judged_by_person(self.name):
            beside = {k: getattr(self, k) for k in ("operator", "judge", "arrangements")}
            roll_out_here([job], by=self.by, **beside)
        else:
            self._simulate(job)
        print_rollouts(self.out)
        name = self.out.resolve().name
        print_next("capex", "report", self.out, "--out", Path("reports", name))
        return 0

    def _simulate(self, job: Rollouts) -> None:
        """All rollouts side by side, with a progress bar."""
        from capex.run.files import read_json
        from capex.students.evaluate import evaluate
        from capex.students.tables import time_shares

        starts = job.starts
        with Progress(*COLUMNS, console=console) as progress:
            bar = progress.add_task("evaluating", total=len(starts))
            done = solved = 0

            def show(left: int, steps: int) -> None:
                progress.update(
                    bar, description=f"{solved}/{done} solved, {left} running, step {steps}"
                )

            timings = []
            for rollout in evaluate(job, show):
                done, solved = done + 1, solved + (rollout.success is True)
                timings.append(read_json(rollout.path / "timing.json"))
                progress.update(bar, advance=1)
            progress.update(bar, completed=len(starts))
        if shares := time_shares(timings):
            said = ", ".join(f"{part} {share:.0%}" for part, share in shares.items())
            console.print(f"where the rollouts' time went: {said}", highlight=False)


def print_rollouts(run: Path) -> None:
    """The success of everything that a run of rollouts holds."""
    from capex.students.tables import chain_summary

    table = Table(title=str(run))
    for column in ("chain", "success", "rate", "95% interval", "median steps of successes"):
        table.add_column(column, justify="left" if column == "chain" else "right", overflow="fold")
    for row in chain_summary(run):
        table.add_row(*row)
    console.print(FittedTable(table))


def roll_out_here(jobs: Sequence[Rollouts], *, by: str | None, **options: Any) -> LoadedRun:
    """Rollouts on a rig with a display, and where a person stands by, at this terminal."""
    from capex.cli.operator import at_terminal
    from capex.cli.progress import watching
    from capex.students.attended import roll_out

    with watching(console, False) as watch, at_terminal(by, console, watch) as person:
        return roll_out(jobs, person=person, watch=watch, **options)


@dataclass(frozen=True)
class Study:
    """Train and evaluate tasks x sources x policies x seeds x budgets from a TOML file; the same
    command continues it.
    """

    EXAMPLES: ClassVar[Examples] = {
        "On this machine": "capex study study.toml --out studies/first",
        "On a Ray cluster with GPUs": "capex study study.toml --ray auto",
    }

    file: Positional[Annotated[Path, arg(metavar="FILE")]]
    """What to study; capex/students/study_plan.py and docs/students.md have the layout."""
    out: Annotated[Path | None, arg(metavar="DIR")] = None
    """Folder for everything; by default the file's name without its ending."""
    ray: Annotated[str | None, arg(metavar="ADDRESS")] = None
    """Address of a Ray cluster with GPUs, auto for the local one (default: none, this machine)."""
    by: Annotated[str | None, arg(metavar="NAME")] = None
    """Where a person judges the rollouts: who does (default: CAPEX_OPERATOR from the environment,
    else you are asked)."""

    def run(self) -> int:
        """Run what is missing, then write tables and figure."""
        require_torch()
        from capex.cli.learn import run_here
        from capex.students.study_plan import load_study
        from capex.students.tables import study_tables

        study = load_study(self.file)
        out = self.out or self.file.with_suffix("")
        run_here(study, out, by=self.by, ray=self.ray)
        for path in study_tables(out):
            console.print(f"[bold]{path}[/]", highlight=False)
        return 0


@dataclass(frozen=True)
class PolicyCommand:
    """Serve a trained policy to any client on this machine."""

    EXAMPLES: ClassVar[Examples] = {
        "The newest policy of a training": "capex policy serve runs/act",
        "On a GPU, at any free port": "capex policy serve runs/act --device cuda --port 0",
    }

    action: Positional[Annotated[Literal["serve"], arg(metavar="serve")]]
    """Answer until interrupted."""
    checkpoint: Positional[Annotated[Path, arg(metavar="CHECKPOINT")]]
    """The folder of a training, or one of its checkpoints."""
    port: Annotated[int, arg(metavar="PORT")] = 8900
    """Port on 127.0.0.1; 0 chooses a free one."""
    device: Annotated[str, arg(metavar="DEVICE")] = "auto"
    """Where the policy runs: auto (default), cpu, cuda, cuda:1, mps."""
    instructions: Annotated[Path | None, arg(metavar="PATH")] = None
    """The encoder or the file of embeddings that it was trained with, for instructions that its
    checkpoint has no embedding of (default: none)."""

    def run(self) -> int:
        """Answer until interrupted."""
        require_torch()
        from capex.students.policy import load_policy
        from capex.students.serve import serve

        with console.status("loading"):
            policy = load_policy(self.checkpoint, self.device, self.instructions)
        with serve(policy, self.port) as server:
            console.print(
                f"{policy.spec.policy} at http://127.0.0.1:{server.port}  (POST /reset, POST /act,"
                " GET /spec; Ctrl-C ends)"
            )
            server.wait()
        return 0
