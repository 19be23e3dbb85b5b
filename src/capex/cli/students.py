"""`capex train`, `capex evaluate`, `capex study`, `capex policy serve`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

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

from capex.campaign.names import parse_starts
from capex.cli.console import console
from capex.cli.following import print_next
from capex.cli.tables import FittedTable
from capex.errors import CapexError

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
        raise CapexError(f"students need {' and '.join(missing)}: {INSTALL}")


@dataclass(frozen=True)
class Train:
    """Train a student on exported demonstrations; the same command again continues."""

    datasets: Positional[Annotated[tuple[Path, ...], arg(metavar="DATASET [DATASET..]")]]
    """Datasets that `capex export` wrote; several are trained on together."""
    out: Path
    """Folder for checkpoints and curves."""
    policy: Literal["act", "diffusion"] = "act"
    """Which policy."""
    steps: int = 20_000
    """Training steps."""
    seed: int = 0
    """Of weights, order and noise."""
    set: tuple[str, ...] = ()
    """Settings as NAME=VALUE; the paper's values are the defaults."""
    backbone: Path | None = None
    """ResNet-18 weights for ACT, as torchvision's (.safetensors or .pth); nothing is downloaded."""
    instructions: Path | None = None
    """Instruction embeddings for Diffusion: a .safetensors or .npz file, or a folder with CLIP."""
    init: Path | None = None
    """Begin from a policy of ours, or from RoboCasa365's released Diffusion Policy checkpoint."""
    trust_pickle: bool = False
    """Let --init run the code inside a pickle; only for files you made yourself."""
    uncertified: bool = False
    """Train on demonstrations without a certificate too."""
    keep: tuple[int, ...] = ()
    """Steps whose policies stay, besides the last."""
    save_every: int = 5000
    """Steps between checkpoints."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:1, mps."""

    def run(self) -> int:
        """Train with a progress bar and say where the policy is."""
        require_torch()
        from capex.students import checkpoint
        from capex.students.settings import make_settings, parse_changes
        from capex.students.train import TrainingJob, TrainingProgress, train

        settings = make_settings(self.policy, parse_changes(self.set))
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
            first = max(1000, *(start[2] + 1 for start in starts))
            unseen = ("--starts", f"{first}:{first + 50}")
            rollouts = self.out.with_name(f"{self.out.name}-rollouts")
            print_next("capex", "evaluate", self.out, f"{world}:{task}", *unseen, "--out", rollouts)
        return 0


@dataclass(frozen=True)
class Evaluate:
    """Roll a policy out on starts that no dataset used; success if the task's criterion holds at
    any step.
    """

    checkpoint: Positional[Path]
    """The folder of a training, or one of its checkpoints."""
    name: Positional[Annotated[str, arg(metavar="WORLD:TASK")]]
    """Where to evaluate."""
    starts: str = "1000:1050"
    """Start indices: 1000:1050, 7 or 1,4,9. The same list for every policy."""
    out: Path = Path("runs/evaluation")
    """Run directory; several policies may share one. The same command again continues it."""
    arm: str = ""
    """What the records call the policy; by default its kind and training steps."""
    parallel: int = 0
    """Simulating processes; 0: one per core. The results do not depend on it."""
    device: str = "auto"
    """Where the policy runs."""
    seed: int = 0
    """Of what is random in the policy."""
    untrained: bool = False
    """Fresh weights instead of the trained ones, for comparison."""
    allow_seen: bool = False
    """Also starts that were trained on."""
    horizon: int = 0
    """Control steps of a rollout; 0: the task's own. What they do not suffice for is a failure."""

    def run(self) -> int:
        """Evaluate with a progress bar, then print the success of everything in the chain."""
        require_torch()
        from capex.students.evaluate import Rollouts, evaluate
        from capex.students.tables import chain_summary

        starts = tuple(parse_starts(self.starts))
        job = Rollouts(**vars(self) | {"starts": starts})
        with Progress(*COLUMNS, console=console) as progress:
            bar = progress.add_task("evaluating", total=len(starts))
            done = solved = 0

            def show(left: int, steps: int) -> None:
                progress.update(
                    bar, description=f"{solved}/{done} solved, {left} running, step {steps}"
                )

            for rollout in evaluate(job, show):
                done, solved = done + 1, solved + (rollout.success is True)
                progress.update(bar, advance=1)
            progress.update(bar, completed=len(starts))
        table = Table(title=str(self.out))
        for column in ("chain", "success", "rate", "95% interval", "median steps of successes"):
            table.add_column(
                column, justify="left" if column == "chain" else "right", overflow="fold"
            )
        for row in chain_summary(self.out):
            table.add_row(*row)
        console.print(FittedTable(table))
        name = self.out.resolve().name
        print_next("capex", "report", self.out, "--out", Path("reports", name))
        return 0


@dataclass(frozen=True)
class Study:
    """Train and evaluate tasks x sources x policies x seeds x budgets from a TOML file; the same
    command continues it.
    """

    file: Positional[Path]
    """What to study; capex/students/study_plan.py and docs/students.md have the layout."""
    out: Path | None = None
    """Folder for everything; by default the file's name without its ending."""
    ray: str | None = None
    """Address of a Ray cluster with GPUs (auto: the local one); without it, this machine."""

    def run(self) -> int:
        """Run what is missing, then write tables and figure."""
        require_torch()
        from capex.students.study import run_study
        from capex.students.study_plan import load_study
        from capex.students.tables import study_tables

        study = load_study(self.file)
        out = self.out or self.file.with_suffix("")
        for line in run_study(study, out, ray=self.ray):
            console.print(escape(line), highlight=False)
        for path in study_tables(out):
            console.print(f"[bold]{path}[/]", highlight=False)
        return 0


@dataclass(frozen=True)
class PolicyCommand:
    """Serve a trained policy to any client on this machine."""

    action: Positional[Literal["serve"]]
    """What to do with it."""
    checkpoint: Positional[Path]
    """The folder of a training, or one of its checkpoints."""
    port: int = 8900
    """Loopback port; 0 chooses a free one."""
    device: str = "auto"
    """Where the policy runs."""

    def run(self) -> int:
        """Answer until interrupted."""
        require_torch()
        from capex.students.policy import load_policy
        from capex.students.serve import serve

        with console.status("loading"):
            policy = load_policy(self.checkpoint, self.device)
        with serve(policy, self.port) as server:
            console.print(
                f"{policy.spec.policy} at http://127.0.0.1:{server.port}  (POST /reset, POST /act,"
                " GET /spec; Ctrl-C ends)"
            )
            server.wait()
        return 0
