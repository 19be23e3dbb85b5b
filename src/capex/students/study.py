"""`capex study`: tasks x sources x policies x seeds x budgets, trained and evaluated alike,
resumable, on one machine or on Ray.

Sources are matched: only starts that every source of a task has are trained on. Each training runs
in a process of its own, and while the next one trains, finished policies are evaluated. A policy
whose rate is constant is trained once, to the largest budget, and evaluated on the way; others are
trained for each budget.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from capex.errors import CapexError
from capex.run.cluster import Cluster
from capex.run.files import read_json, write_json
from capex.run.jobs import Lane, WorkerDied
from capex.students import checkpoint, data
from capex.students.evaluate import Rollouts, evaluate, missing
from capex.students.settings import ActSettings
from capex.students.study_plan import StudyPlan
from capex.students.train import Job, train_together


@dataclass(frozen=True)
class Trial:
    """One training and the rollouts of its checkpoints."""

    job: Job
    rollouts: tuple[tuple[int, Rollouts], ...]  # by the step whose policy they take


class Engine(Protocol):
    """Where trainings and evaluations run."""

    def submit(self, work: Callable[[Any], Any], job: Any) -> Future[Any]: ...

    def close(self) -> None: ...


def matched_starts(study: StudyPlan, task: str) -> tuple[int, ...]:
    """The starts of a task that every source has, the first ones up to the largest number asked
    for.
    """
    common: set[int] | None = None
    for source in study.sources:
        pack = data.open_pack(study.dataset(source, task))
        mine = {
            e.start
            for e in pack.episodes
            if f"{e.world}:{e.task}" == task and (e.certified or study.uncertified)
        }
        common = mine if common is None else common & mine
    if not common:
        kind = "start" if study.uncertified else "certified start"
        raise CapexError(
            f"the sources {', '.join(study.sources)} have no {kind} of {task} in common; collect"
            " the same starts"
        )
    chosen = tuple(sorted(common)[: study.max_demonstrations])
    if seen := sorted(set(chosen) & set(study.starts)):
        raise CapexError(
            f"{len(seen)} of the rollouts' starts of {task} would be trained on (first: {seen[0]});"
            " take other starts"
        )
    return chosen


def trials(study: StudyPlan, out: Path) -> Iterator[Trial]:
    """Every training, in the order in which they run: first seed first, so that a table fills
    evenly.
    """
    for seed, task in itertools.product(study.seeds, study.tasks):
        starts = matched_starts(study, task)
        for policy, source in itertools.product(study.policies, study.sources):
            constant = study.policies[policy].schedule == "constant"
            for steps in study.budgets[-1:] if constant else study.budgets:
                yield _trial(study, out, _Combination(task, source, policy, seed, steps), starts)


@dataclass(frozen=True)
class _Combination:
    task: str
    source: str
    policy: str
    seed: int
    steps: int


def _trial(study: StudyPlan, out: Path, of: _Combination, starts: tuple[int, ...]) -> Trial:
    settings = study.policies[of.policy]
    name = f"{of.task.replace(':', '--')}--{of.source}--{of.policy}--s{of.seed}--{of.steps}"
    folder = out / "trainings" / name
    budgets = study.budgets if settings.schedule == "constant" else (of.steps,)
    job = Job(
        datasets=(study.dataset(of.source, of.task),),
        settings=settings,
        steps=of.steps,
        out=folder,
        seed=of.seed,
        backbone=study.backbone if isinstance(settings, ActSettings) else None,
        keep=budgets,
        task=of.task,
        only=starts,
        uncertified=study.uncertified,
        save_every=study.save_every,
        device=study.device,
        labels={"source": of.source, "policy": of.policy},
    )

    def rollouts(budget: int, arm: str, untrained: bool = False) -> tuple[int, Rollouts]:
        return budget, Rollouts(
            folder / "checkpoints" / f"{budget:06d}",
            of.task,
            study.starts,
            out / "rollouts",
            arm,
            study.parallel,
            study.device,
            untrained=untrained,
            horizon=study.horizon,
        )

    planned = [rollouts(b, f"{of.policy}-{of.source}-s{of.seed}-{b}") for b in budgets]
    first = (study.seeds[0], next(iter(study.sources)), study.budgets[-1])
    if study.untrained and (of.seed, of.source, of.steps) == first:
        planned.append(rollouts(budgets[-1], f"{of.policy}-untrained", untrained=True))
    return Trial(job, tuple(planned))


def groups(study: StudyPlan, out: Path) -> Iterator[list[Trial]]:
    """Trials that run together: alone, or with `together` the sources of one task, policy and seed
    side by side on a GPU.
    """
    held: dict[object, list[Trial]] = {}
    for k, trial in enumerate(trials(study, out)):
        job = trial.job
        key = (
            (job.labels["policy"], job.seed, job.steps, trial.rollouts[0][1].name)
            if study.together
            else k
        )
        held.setdefault(key, []).append(trial)
    yield from held.values()


def run_study(study: StudyPlan, out: Path, *, ray: str | None = None) -> Iterator[str]:
    """Run everything that is missing; yields a line as each piece is done."""
    # Opens every dataset, so that an unfit one is refused before anything is written.
    planned = list(groups(study, out))
    engine: Engine = RayEngine(ray) if ray is not None else LocalEngine()
    try:
        _claim(study, out)
        training = {}
        for group in planned:
            submit = _there if finished(group) else engine.submit
            training[submit(train_together, [t.job for t in group])] = group
        evaluating: dict[Future[Any], Rollouts] = {}
        while training or evaluating:
            done, _ = wait([*training, *evaluating], return_when=FIRST_COMPLETED)
            for future in done:
                if future in training:
                    group = training.pop(future)
                    _result(future)
                    for trial in group:
                        yield f"trained   {trial.job.out.name}"
                        evaluating |= {
                            engine.submit(_evaluated, job): job
                            for _, job in trial.rollouts
                            if missing(job)
                        }
                else:
                    yield f"evaluated {evaluating.pop(future).arm} on {_result(future)}"
    finally:
        engine.close()


def _claim(study: StudyPlan, out: Path) -> None:
    """Remember what is studied; more seeds, tasks and budgets may follow, the rest must stay."""
    kept = {
        "sources": list(study.sources),
        "starts": list(study.starts),
        "max_demonstrations": study.max_demonstrations,
    }
    place = out / "study.json"
    if place.is_file():
        changed = sorted(k for k, v in kept.items() if read_json(place).get(k) != v)
        if changed:
            raise CapexError(
                f"{out} holds a study with other {', '.join(changed)}; choose another --out"
            )
    out.mkdir(parents=True, exist_ok=True)
    write_json(place, kept)


def finished(group: Sequence[Trial]) -> bool:
    """Whether every training of a group is done, so that no process is needed to say so."""
    return all(max(checkpoint.steps(t.job.out), default=0) >= t.job.steps for t in group)


def _there(work: Callable[[Any], Any], job: Any) -> Future[Any]:
    """Work that is done, once more asked for: only what it was done with is compared."""
    future: Future[Any] = Future()
    future.set_result(work(job))
    return future


def _evaluated(job: Rollouts) -> str:
    solved = [r.success is True for r in evaluate(job)]
    return f"{job.name}: {sum(solved)} of {len(solved)} starts solved"


def _result(future: Future[Any]) -> Any:
    """What a piece of work gave; what went wrong in its process becomes a sentence here."""
    try:
        return future.result()
    except WorkerDied as death:
        raise CapexError(
            f"a job of the study was lost: {death}; the same command continues"
        ) from None
    except Exception as error:
        cause = getattr(error, "cause", error)  # Ray wraps what a task raises
        if isinstance(cause, CapexError):
            raise CapexError(str(cause)) from None
        raise


class LocalEngine:
    """One training at a time and one evaluation beside it. Each has a process of its own: a
    captured graph holds its memory until its process ends.
    """

    def __init__(self) -> None:
        self._lanes: dict[Callable[[Any], Any], Lane] = {}

    def submit(self, work: Callable[[Any], Any], job: Any) -> Future[Any]:
        """Queue a job behind others of its kind."""
        return self._lanes.setdefault(work, Lane()).submit(work, job)

    def close(self) -> None:
        """Stop everything; the same command continues."""
        for lane in self._lanes.values():
            lane.close()


class RayEngine:
    """Every training and evaluation as a Ray task with a GPU of its own, where there are any. Its
    machines must share the paths.
    """

    def __init__(self, address: str):
        self._cluster = Cluster(address)
        gpus = self._cluster.ray.cluster_resources().get("GPU")
        self._share = {"num_gpus": 1} if gpus else {"num_cpus": 1}

    def submit(self, work: Callable[[Any], Any], job: Any) -> Future[Any]:
        """Queue a job."""
        future: Future[Any] = self._cluster.ray.remote(**self._share)(work).remote(job).future()
        return future

    def close(self) -> None:
        """Leave the cluster, if this engine joined it."""
        self._cluster.close()
