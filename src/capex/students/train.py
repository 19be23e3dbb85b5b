"""`capex train`: from datasets to a policy. Repeating the command continues it exactly."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from capex.errors import CapexError, ErrorCode
from capex.run.files import read_json, write_json
from capex.run.manifest import versions
from capex.students import checkpoint, curves, data, language, normalizer
from capex.students.act import ACT
from capex.students.batches import Batches
from capex.students.data import Demonstrations
from capex.students.device import choose_device, prepare, working_dtype
from capex.students.diffusion import Diffusion
from capex.students.graph import Stepper
from capex.students.hearing import vocabulary_of
from capex.students.resnet import load_backbone
from capex.students.settings import SEED_MAX, ActSettings, DiffusionSettings, Settings
from capex.students.spec import PolicySpec
from capex.students.trainer import LOG_EVERY, Trainer

JOB = "job.json"
DEVICE_SHARE = 0.6  # of a device's free memory that images may take


@dataclass(frozen=True)
class TrainingJob:
    """One training: what goes in, how long, where to."""

    datasets: tuple[Path, ...]
    settings: Settings
    steps: int
    out: Path
    seed: int = 0
    backbone: Path | None = None  # ResNet-18 weights for ACT
    instructions: Path | None = None  # embeddings for Diffusion
    init: Path | None = None  # a policy to begin from
    trust_pickle: bool = False
    uncertified: bool = False
    keep: tuple[int, ...] = ()  # steps whose policies stay; 0: what training begins from
    task: str = ""  # only demonstrations of this WORLD:TASK; all of them when empty
    only: tuple[int, ...] = ()  # only demonstrations of these starts; all of them when empty
    save_every: int = 5000
    device: str = "auto"
    graphed: bool = True
    labels: Mapping[str, str] = field(default_factory=dict)

    def identity(self) -> dict[str, Any]:
        """What must be the same for a training to be continued."""
        paths = {"backbone": self.backbone, "instructions": self.instructions, "init": self.init}
        return {
            "datasets": [str(d) for d in self.datasets],
            "policy": self.settings.policy,
            "settings": asdict(self.settings),
            "steps": self.steps,
            "seed": self.seed,
            "task": self.task,
            "only": list(self.only),
            **{k: None if p is None else str(p) for k, p in paths.items()},
        }


@dataclass(frozen=True)
class TrainingProgress:
    """What a display shows."""

    step: int
    steps: int
    losses: Mapping[str, float]
    steps_per_s: float


OnProgress = Callable[[TrainingProgress], None]
Announce = Callable[[str], None]


def _ignore(_: object) -> None:
    """For callers who want no news."""


def train(job: TrainingJob, report: OnProgress = _ignore, announce: Announce = _ignore) -> Path:
    """Train or continue; returns the last checkpoint."""
    return train_together([job], report, announce)[0]


def train_together(
    jobs: Sequence[TrainingJob], report: OnProgress = _ignore, announce: Announce = _ignore
) -> list[Path]:
    """Several trainings side by side on one device, as branches of one graph, which loses a branch
    when a training ends. One that is alone continues exactly; several do where all of them were
    saved at the same step.
    """
    if len({job.device for job in jobs}) > 1:
        raise CapexError(
            "trainings that run together need the same device", code=ErrorCode.CONFLICTING_SETTINGS
        )
    for job in jobs:
        for name, value in (("steps", job.steps), ("save-every", job.save_every)):
            if value < 1:
                raise CapexError(
                    f"--{name} is {value}; it must be at least 1", code=ErrorCode.BAD_SETTING
                )
        if not 0 <= job.seed <= SEED_MAX:
            raise CapexError(
                f"--seed is {job.seed}; it must be from 0 to {SEED_MAX}", code=ErrorCode.BAD_SETTING
            )
    device = choose_device(jobs[0].device)
    for job in jobs:
        working_dtype(job.settings.precision, device)
        _require_ours(job)
    firsts = [max(checkpoint.steps(job.out), default=0) for job in jobs]
    if todo := [(job, first) for job, first in zip(jobs, firsts, strict=True) if first < job.steps]:
        _train(todo, device, report, announce)
    return [checkpoint.path_of(job.out, max(checkpoint.steps(job.out))) for job in jobs]


def _train(
    todo: Sequence[tuple[TrainingJob, int]],
    device: torch.device,
    report: OnProgress,
    announce: Announce,
) -> None:
    """Train jobs to their end, each from the step that it has reached."""
    prepare(device)
    if device.type == "cuda":
        torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = True, True
    running: list[Running] = []
    try:
        for job, first in todo:
            running.append(_begin(job, device, announce))
            _claim(job)
            if first:
                _continue(running[-1], first)
                announce(f"continuing at step {first}")
        _run(running, device, report, announce)
    finally:
        for r in running:
            r.trainer.batches.close()


@dataclass(frozen=True)
class Running:
    """A training in progress."""

    job: TrainingJob
    spec: PolicySpec
    trainer: Trainer

    @property
    def step(self) -> int:
        """Steps so far."""
        return self.trainer.step

    @property
    def over(self) -> bool:
        """Whether no step is left."""
        return self.step >= self.job.steps

    @property
    def saves(self) -> bool:
        """Whether the policy is kept as it is now."""
        return self.over or self.step in self.job.keep or self.step % self.job.save_every == 0

    @property
    def logs(self) -> bool:
        """Whether the losses are read now, for which the device is waited for."""
        return self.saves or self.step % LOG_EVERY == 0


def _begin(job: TrainingJob, device: torch.device, announce: Announce) -> Running:
    demonstrations = data.load(
        job.datasets,
        window=len(job.settings.action_steps),
        uncertified=job.uncertified,
        task=job.task,
        only=job.only,
        drop_still=job.settings.still == "drop",
        agree=job.settings.agree,
    )
    spec, weights = describe(job, demonstrations)
    _announce(announce, spec, device)
    torch.manual_seed(job.seed)
    net = spec.network()
    if weights is not None:
        net.load_state_dict(weights)
    if isinstance(net, ACT) and job.backbone is not None:
        load_backbone(net.backbone, job.backbone)
    _give_language(job, spec, net)
    net.to(device)
    if device.type == "cuda":
        net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    fits = _fits(demonstrations, device)
    batches = Batches(demonstrations, spec, device, job.seed, on_device=fits)
    assert isinstance(net, (ACT, Diffusion))
    return Running(job, spec, Trainer(net, spec.settings, batches, job.steps, device))


def _continue(running: Running, step: int) -> None:
    path = checkpoint.path_of(running.job.out, step)
    checkpoint.require_same(path, running.spec)
    checkpoint.restore(path, running.trainer)


def _run(
    running: Sequence[Running], device: torch.device, report: OnProgress, announce: Announce
) -> None:
    """Step all trainings until the shortest is over, then the others."""
    curve = {
        r.job.out: curves.Curve(r.job.out / curves.CURVE, r.trainer.parts, r.step) for r in running
    }
    _save([r for r in running if r.step == 0 and 0 in r.job.keep])
    while active := [r for r in running if not r.over]:
        graphed = all(r.job.graphed for r in active)
        stepper = Stepper([r.trainer for r in active], device, graphed=graphed)
        mark, since = time.perf_counter(), 0
        while not any(r.over for r in active):
            stepper.advance()
            since += 1
            if not (logging := [r for r in active if r.logs]):
                continue
            losses = [r.trainer.losses() for r in logging]  # waits for the device
            now = time.perf_counter()
            speed, mark, since = since / max(now - mark, 1e-9), now, 0
            for r, means in zip(logging, losses, strict=True):
                if not all(map(math.isfinite, means.values())):
                    raise CapexError(
                        f"the loss is not finite at step {r.step}; the last checkpoint in"
                        f" {r.job.out} is whole: try a smaller lr",
                        code=ErrorCode.JOB_FAILED,
                    )
                curve[r.job.out].add(r.step, means, speed)
                report(TrainingProgress(r.step, r.job.steps, means, speed))
            if saving := [r for r in active if r.saves]:
                _save(saving)
                mark = time.perf_counter()
        del stepper  # whose graph holds memory that the next one needs
    for r in running:
        picture, count = r.job.out / "curve.png", r.spec.training["episodes"]
        title = f"{r.spec.policy}, {count} demonstrations, seed {r.job.seed}"
        try:
            curve[r.job.out].draw(picture, title)
        except ImportError:  # a machine that only trains does without it
            announce(
                f"{picture} was not drawn because matplotlib is not installed; the numbers are in"
                " curve.csv"
            )


def _save(running: Sequence[Running]) -> None:
    """Checkpoints of trainings as they are now, and no older ones that nobody asked to keep."""
    for r in running:
        spec = replace(r.spec, training={**r.spec.training, "steps": r.step})
        checkpoint.save(r.job.out, r.step, r.trainer, spec, {"job": r.job.identity()})
        checkpoint.prune(r.job.out, r.job.keep)


def describe(
    job: TrainingJob, demonstrations: Demonstrations
) -> tuple[PolicySpec, dict[str, torch.Tensor] | None]:
    """The policy to be trained and, with --init, the weights to begin from."""
    settings, pretrained, norm = job.settings, None, "group"
    if job.init is not None:
        if job.backbone is not None:
            raise CapexError(
                "--init and --backbone are two beginnings; give one of them",
                code=ErrorCode.CONFLICTING_SETTINGS,
            )
        from capex.students import initial

        pretrained = initial.read(job.init, settings, demonstrations, trust_pickle=job.trust_pickle)
        settings = pretrained.settings
        if job.instructions is not None and isinstance(settings, DiffusionSettings):
            pretrained.require_language(job.instructions)
    states, actions = demonstrations.numbers()
    fitted = normalizer.fit(settings.policy, states, actions, demonstrations.state_names)
    if isinstance(settings, ActSettings):
        if job.instructions is not None:
            raise CapexError(
                "--instructions is for Diffusion Policy; ACT takes no language",
                code=ErrorCode.NOT_APPLICABLE,
            )
        by_weights = "group" if job.backbone is None else "frozen"
        norm = by_weights if settings.norm == "auto" else settings.norm
    elif job.backbone is not None:
        raise CapexError(
            "--backbone is for ACT; Diffusion Policy trains its encoders from scratch or from"
            " --init",
            code=ErrorCode.NOT_APPLICABLE,
        )
    spec = PolicySpec(
        settings=settings,
        cameras=demonstrations.cameras,
        image_size=demonstrations.size,
        state_names=demonstrations.state_names,
        action_names=demonstrations.action_names,
        fps=demonstrations.fps,
        normalizer=fitted,
        norm=norm,
        commands=_commands(settings, demonstrations, actions),
        learned_language=isinstance(settings, DiffusionSettings) and job.instructions is None,
        **_language(job, settings, demonstrations),
        initialisation="random" if job.backbone is None else f"backbone {job.backbone.name}",
        training={
            "seed": job.seed,
            "datasets": list(demonstrations.names),
            "episodes": len(demonstrations.episodes),
            "frames": len(states),
            "instructions": len(demonstrations.instructions),
            "starts": sorted({(e.world, e.task, e.start, e.seed) for e in demonstrations.episodes}),
            "sources": sorted({e.source for e in demonstrations.episodes}),
            "stand_in": any(e.stand_in for e in demonstrations.episodes),
            "labels": dict(job.labels),
            "tuned": job.init is not None,
            "versions": versions() | {"torch": torch.__version__},
        },
    )
    return (spec, None) if pretrained is None else pretrained.adapt(spec)


def _commands(
    settings: Settings, demonstrations: Demonstrations, actions: npt.NDArray[np.float32]
) -> tuple[tuple[int, float, float], ...]:
    """Gripper and mode where they take exactly two values, if they are to be classes."""
    if not isinstance(settings, ActSettings) or settings.commands == "regress":
        return ()
    named = [k for k, n in enumerate(demonstrations.action_names) if n.endswith(data.COMMANDS)]
    values = {k: np.unique(actions[:, k]).tolist() for k in named}
    return tuple((k, v[0], v[1]) for k, v in values.items() if len(v) == 2)


def _language(
    job: TrainingJob, settings: Settings, demonstrations: Demonstrations
) -> dict[str, tuple[str, ...]]:
    """The instructions whose embeddings the policy has, first those that it is trained on; behind
    them the others of a given file, so that they travel with the checkpoint.
    """
    if not isinstance(settings, DiffusionSettings):
        return {}
    trained = demonstrations.instructions
    if job.instructions is not None:
        others = language.cached(job.instructions)
        return {"instructions": tuple(dict.fromkeys((*trained, *others)))}
    known = vocabulary_of(trained) if settings.text == "words" else ()
    return {"instructions": trained, "vocabulary": known}


def _give_language(job: TrainingJob, spec: PolicySpec, net: torch.nn.Module) -> None:
    """Use the given embeddings; the row for any other instruction is their mean."""
    if job.instructions is not None and isinstance(net, Diffusion):
        given = language.read(job.instructions, spec.instructions, net.settings.language)
        vectors = torch.from_numpy(given)
        assert isinstance(net.instructions, torch.nn.Embedding)
        with torch.no_grad():
            net.instructions.weight.copy_(torch.cat([vectors, vectors.mean(dim=0, keepdim=True)]))


def _fits(demonstrations: Demonstrations, device: torch.device) -> bool:
    if device.type != "cuda":
        return False
    free, _ = torch.cuda.mem_get_info(device)
    return sum(images.size for images in demonstrations.images) < DEVICE_SHARE * free


def _require_ours(job: TrainingJob) -> None:
    """See that the folder is this training's, or free."""
    if (job.out / JOB).is_file():
        old = read_json(job.out / JOB)
        changed = sorted(k for k, v in job.identity().items() if old.get(k) != v)
        if changed:
            raise CapexError(
                f"{job.out} holds a training with other {', '.join(changed)}; choose another --out"
                " or repeat its settings",
                code=ErrorCode.OTHER_SETTINGS,
            )
    elif job.out.exists() and (not job.out.is_dir() or any(job.out.iterdir())):
        raise CapexError(
            f"{job.out} exists and is no training folder (no {JOB}); choose another --out",
            code=ErrorCode.ALREADY_EXISTS,
        )


def _claim(job: TrainingJob) -> None:
    """Make the folder this training's, once everything that goes in was found fit."""
    job.out.mkdir(parents=True, exist_ok=True)
    if not (job.out / JOB).is_file():
        write_json(job.out / JOB, job.identity())


def _announce(announce: Announce, spec: PolicySpec, device: torch.device) -> None:
    counts = "{episodes} demonstrations, {frames} frames".format_map(spec.training)
    cameras = ", ".join(spec.cameras)
    announce(f"{spec.policy} on {device}: {counts}, cameras {cameras} at {spec.size_json}")
    announce(f"initialisation: {spec.initialisation}; backbone norm: {spec.norm}")
    statistics = spec.normalizer.statistics or {}
    for what, names in (("state", spec.state_names), ("action", spec.action_names)):
        columns = (statistics[what][k] for k in ("mean", "std", "min", "max"))
        for name, mean, std, low, high in zip(names, *columns, strict=True):
            announce(
                f"  {what:6s} {name:14s} mean {mean:8.4f}  std {std:7.4f}  {low:8.4f} .. {high:.4f}"
            )
