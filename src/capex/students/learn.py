"""`capex learn`: from runs to judged students in one go: certify, export, train, evaluate, report.

Each stage is the one that its own command has, and leaves what that leaves; the same command
continues where it stopped. What is trained and evaluated is a study of one task, whose sources are
the runs.

OUT/datasets/SOURCE    what was trained on
OUT/study.toml         the study, for `capex study`, which may go on with it
OUT/study/             trainings, rollouts, table.md, report/
"""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from capex.dataset import Certified, Filters, Pipeline, certify_run, export_run
from capex.dataset.frames import open_take
from capex.dataset.selection import Selection, find_attempts, select
from capex.errors import CapexError, ErrorCode, UnknownName
from capex.run import Depth, load_chain
from capex.run.files import write_bytes
from capex.run.store import Chain, find_run
from capex.students import data
from capex.students.evaluate import require_possible, world_of
from capex.students.packing import pack_attempts
from capex.students.settings import POLICIES
from capex.students.study_plan import StudyPlan, make_study
from capex.worlds import split_name

TUNED = "diffusion-tuned"  # the Diffusion Policy that begins from --init


@dataclass(frozen=True)
class LearnJob:
    """What is to be learned from; the paper's settings where nothing else is said."""

    runs: tuple[Path, ...]
    out: Path
    task: str = ""  # WORLD:TASK; the runs' only one when empty
    arms: tuple[str, ...] = ()
    policies: tuple[str, ...] = ("act", "diffusion")
    steps: tuple[int, ...] = (20_000,)
    seeds: tuple[int, ...] = (0, 1, 2)
    starts: str = "1000:1050"
    demonstrations: int = 50
    horizon: int = 0
    changes: Mapping[str, str] = field(default_factory=dict)  # NAME or POLICY.NAME -> value
    init: Path | None = None
    instructions: Path | None = None
    backbone: Path | None = None
    pipeline: Pipeline = field(default_factory=Pipeline)
    packed: bool = False  # frames straight into a pack, without a LeRobot dataset
    save_every: int = 5000
    parallel: int = 0
    device: str = "auto"


@dataclass(frozen=True)
class Source:
    """Demonstrations of one run at one task by one method."""

    name: str
    chain: Chain

    @property
    def run(self) -> Path:
        """The run that holds them."""
        return self.chain.path.parent.parent


@dataclass(frozen=True)
class LearnPlan:
    """A job whose runs were looked at and whose study was checked."""

    job: LearnJob
    task: str
    sources: tuple[Source, ...]
    table: Mapping[str, Any]  # of study.toml
    study: StudyPlan

    def dataset(self, source: Source) -> Path:
        """Where a source's demonstrations are exported to."""
        return self.job.out / "datasets" / source.name

    @property
    def results(self) -> Path:
        """Where trainings, rollouts and the report go."""
        return self.job.out / "study"


def plan_learning(job: LearnJob) -> LearnPlan:
    """Resolve task, sources and settings; whatever is wrong with them is refused before anything
    is written.
    """
    task = job.task or _only_task(job.runs)
    _require_arms(job, task)
    sources = tuple(_source(run, task, job) for run in job.runs)
    names = [source.name for source in sources]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise CapexError(
            f"two runs are called {twice}; rename one, tables go by these names",
            code=ErrorCode.CONFLICTING_SETTINGS,
        )
    table = _study_table(job, task, names)
    study = make_study(table, job.out / "study.toml")
    require_possible(world_of(task), study.starts, study.horizon)
    return LearnPlan(job, task, sources, table, study)


def certify(
    plan: LearnPlan, tell: Callable[[int, int, Certified], None] | None = None
) -> dict[str, list[Certified]]:
    """Execute the successes again that have no certificate yet, by source."""
    return {
        s.name: certify_run(s.run, _processes(plan.job), only=[s.chain.path.name], tell=tell)
        for s in plan.sources
    }


def export(plan: LearnPlan, tell: Callable[[str, int, int], None]) -> Iterator[str]:
    """Write each source's dataset, or find that it is there; yields a line about each."""
    job = plan.job
    most = job.demonstrations if len(plan.sources) == 1 else None  # several are matched first
    for source in plan.sources:
        chosen = select(source.name, find_attempts(source.chain.path), Filters(max=most))
        if not chosen.attempts:
            reasons = sorted({row.reason for row in chosen.left_out})
            raise CapexError(
                f"{source.chain.path} has no demonstration: {'; '.join(reasons)}",
                code=ErrorCode.NO_DATA,
            )
        path = plan.dataset(source)
        told = f"{path}: {len(chosen.attempts)} demonstrations"
        how: dict[str, Any] = {"pipeline": job.pipeline, "parallel": _processes(job)}
        if path.exists():
            _require_same(path, chosen, job.pipeline)
            told += ", there already"
        elif job.packed:
            pack_attempts(chosen.attempts, path, **how, tell=functools.partial(tell, source.name))
        else:
            chain, filters = source.chain.path, Filters(max=most)
            export_run(chain, path, filters=filters, command="capex learn", tell=tell, **how)
        yield told
    write_bytes(job.out / "study.toml", as_toml(plan.table).encode())


def _processes(job: LearnJob) -> int:
    return job.parallel or os.cpu_count() or 1


def _require_same(path: Path, chosen: Selection, pipeline: Pipeline) -> None:
    """Refuse a dataset of other demonstrations than the run has now, or of other pictures."""
    pack = data.open_pack(path)
    there = sorted((e.start, e.seed) for e in pack.episodes)
    now = sorted((a.summary.start, a.summary.seed) for a in chosen.attempts)
    if there != now:
        raise CapexError(
            f"{path} holds {len(there)} demonstrations and the run now gives {len(now)}, not the"
            " same ones; choose another --out",
            code=ErrorCode.OTHER_SETTINGS,
        )
    sizes = pipeline.resolve(open_take(chosen.attempts[0].summary.path).spec).sizes
    if dict.fromkeys(pack.cameras, pack.size) != sizes:
        given = ", ".join(f"{name} {width}x{height}" for name, (width, height) in sizes.items())
        raise CapexError(
            f"{path} has pictures of {pack.size[0]}x{pack.size[1]} of {', '.join(pack.cameras)};"
            f" asked for: {given}; choose another --out",
            code=ErrorCode.OTHER_SETTINGS,
        )


def _only_task(runs: Sequence[Path]) -> str:
    """The task that all runs are of."""
    chains = [load_chain(chain, Depth.HEADS) for run in runs for chain in find_run(run).chains()]
    named = {f"{c.world}:{c.task}" for c in chains}
    if len(named) != 1:
        given = ", ".join(sorted(named)) or "none"
        raise CapexError(
            f"the runs hold several tasks or none ({given}); choose one with --task",
            code=ErrorCode.MISSING_SETTING,
        )
    return next(iter(named))


def _require_arms(job: LearnJob, task: str) -> None:
    """Refuse a method by which no run attempted the task."""
    chains = [
        load_chain(chain, Depth.HEADS) for run in job.runs for chain in find_run(run).chains()
    ]
    known = {c.arm for c in chains if (c.world, c.task) == split_name(task)}
    for arm in job.arms if known else ():
        if arm not in known:
            where = f" of {task} in {', '.join(map(str, job.runs))}"
            raise UnknownName("arm", arm, sorted(known), where=where, flag="--arm")


def _source(run: Path, task: str, job: LearnJob) -> Source:
    """The run's chain of the task; where several methods attempted it, the one that was named."""
    loaded = [load_chain(chain, Depth.HEADS) for chain in find_run(run).chains()]
    tasks = sorted({f"{c.world}:{c.task}" for c in loaded})
    wanted = ":".join(split_name(task))
    if wanted not in tasks:
        raise UnknownName("task", wanted, tasks, where=f" in {run}", flag="--task")
    mine = [c for c in loaded if f"{c.world}:{c.task}" == wanted]
    known = sorted(c.arm for c in mine)
    mine = [c for c in mine if c.arm in job.arms] or mine
    if len(mine) > 1:
        raise CapexError(
            f"{run} holds demonstrations of {task} by {', '.join(known)}; choose one with --arm",
            code=ErrorCode.MISSING_SETTING,
        )
    name = re.sub(r"[^A-Za-z0-9]+", "-", run.resolve().name).strip("-") or "run"
    return Source(name, Chain(mine[0].path))


def _study_table(job: LearnJob, task: str, sources: Sequence[str]) -> dict[str, Any]:
    policies: dict[str, dict[str, Any]] = {}
    for name in job.policies:
        if name not in POLICIES:
            raise UnknownName("policy", name, POLICIES, flag="--policies")
        policies[name] = {"policy": name}
    if job.init is not None:
        policies[TUNED] = {"policy": "diffusion", "init": str(job.init.resolve())}
    for name, policy in policies.items():
        if policy["policy"] == "diffusion" and job.instructions is not None:
            policy["instructions"] = str(job.instructions.resolve())
        if name == "act" and job.backbone is not None:
            policy["backbone"] = str(job.backbone.resolve())
    for given, value in job.changes.items():
        _change(policies, given, value)
    return {
        "tasks": [task],
        "starts": job.starts,
        "seeds": list(job.seeds),
        "budgets": list(job.steps),
        "max_demonstrations": job.demonstrations,
        "horizon": job.horizon,
        "untrained": True,
        "together": len(sources) > 1,
        "save_every": job.save_every,
        "parallel": job.parallel,
        "device": job.device,
        "sources": {name: f"datasets/{name}" for name in sources},
        "policies": policies,
    }


def _change(policies: Mapping[str, dict[str, Any]], given: str, value: str) -> None:
    """A setting of one policy, or of all of them."""
    policy, dot, name = given.rpartition(".")
    if dot and policy not in policies:
        raise UnknownName("policy", policy, policies, flag="--set")
    for table in [policies[policy]] if dot else policies.values():
        table[name] = value


def as_toml(table: Mapping[str, Any], within: str = "") -> str:
    """Plain values and tables of them, as TOML."""
    lines = [f"[{within}]"] if within else []
    inner = {k: v for k, v in table.items() if isinstance(v, Mapping)}
    lines += [f"{json.dumps(k)} = {json.dumps(v)}" for k, v in table.items() if k not in inner]
    texts = ["\n".join(lines)]
    for key, value in inner.items():
        texts.append(as_toml(value, f"{within}.{json.dumps(key)}" if within else key))
    return "\n".join(text.rstrip("\n") for text in texts if text) + "\n"
