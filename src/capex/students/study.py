"""`capex study`: tasks x sources x policies x seeds x budgets, trained and evaluated alike,
resumable, on one machine or on Ray.

Sources are matched, unless the file says otherwise: only starts that every source of a task has
are trained on. Each training runs
in a process of its own, and while the next one trains, finished policies are evaluated. A policy
whose rate is constant is trained once, to the largest budget, and evaluated on the way; others are
trained for each budget.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from capex import trust
from capex.errors import CapexError, ErrorCode
from capex.processes import WorkerDied
from capex.run import LoadedRun
from capex.run.cluster import Cluster
from capex.run.files import read_json, write_json
from capex.run.jobs import Lane
from capex.run.store import chain_name
from capex.students import checkpoint, data
from capex.students.attended import roll_out
from capex.students.evaluate import (
    UNADAPTED,
    UNTRAINED,
    Rollouts,
    evaluate,
    missing,
    require_possible,
    world_of,
)
from capex.students.study_plan import StudyPlan
from capex.students.train import TrainingJob, train_together
from capex.worlds import split_name


@dataclass(frozen=True)
class StudyTrial:
    """One training and the rollouts of its checkpoints."""

    job: TrainingJob
    rollouts: tuple[Rollouts, ...]


def trained_starts(study: StudyPlan, task: str) -> dict[str, tuple[int, ...]]:
    """By source, the first starts of a task that it is trained on, as many as the study allows:
    where sources are matched, of those that every source has.
    """
    usable: dict[str, set[int]] = {}
    for source in study.sources:
        episodes = data.of_task(data.open_pack(study.dataset(source, task)), task)
        usable[source] = {e.start for e in episodes if e.trusted or study.uncertified}
    if study.matched:
        usable = dict.fromkeys(usable, set.intersection(*usable.values()))
    if lacking := [source for source, starts in usable.items() if not starts]:
        kind = "start" if study.uncertified else "certified start"
        shared = " in common; collect the same starts" if study.matched else ""
        raise CapexError(
            f"the sources {', '.join(lacking)} have no {kind} of {task}{shared}",
            code=ErrorCode.MISSING_SETTING,
        )
    chosen = {source: tuple(sorted(s)[: study.most(source)]) for source, s in usable.items()}
    if seen := sorted(set().union(*chosen.values()) & set(study.starts)):
        raise CapexError(
            f"{len(seen)} of the rollouts' starts of {task} would be trained on (first: {seen[0]});"
            " take other starts",
            code=ErrorCode.CONFLICTING_SETTINGS,
        )
    return chosen


def trials(study: StudyPlan, out: Path) -> Iterator[StudyTrial]:
    """Every training in the order of running: first seed first, so that a table fills evenly."""
    for seed, task in itertools.product(study.seeds, study.tasks):
        starts = trained_starts(study, task)
        for (policy, given), source in itertools.product(study.policies.items(), study.sources):
            constant = given.settings.schedule == "constant"
            for steps in study.budgets[-1:] if constant else study.budgets:
                name = chain_name(*split_name(task), f"{source}--{policy}--s{seed}--{steps}")
                job = TrainingJob(
                    datasets=(study.dataset(source, task),),
                    settings=given.settings,
                    steps=steps,
                    out=out / "trainings" / name,
                    seed=seed,
                    **study.beginnings(policy, task),
                    trust_pickle=given.trust_pickle,
                    keep=(*([0] if given.tuned else []), *(study.budgets if constant else [steps])),
                    task=task,
                    only=starts[source],
                    uncertified=study.uncertified,
                    save_every=study.save_every,
                    device=study.device,
                    labels={"source": source, "policy": policy},
                )
                yield StudyTrial(job, tuple(_rollouts(study, out, job)))


def _rollouts(study: StudyPlan, out: Path, job: TrainingJob) -> Iterator[Rollouts]:
    """Of each policy that the training keeps, and where the study asks for it of fresh weights; of
    what a fine-tuned policy begins from once a task.
    """
    policy, source = job.labels["policy"], job.labels["source"]
    common = Rollouts(
        checkpoint.path_of(job.out, job.steps),
        job.task,
        study.starts,
        out / "rollouts",
        parallel=study.parallel,
        device=study.device,
        horizon=study.horizon,
        instructions=job.instructions,
    )
    for steps in (steps for steps in job.keep if steps):
        name, path = f"{policy}-{source}-s{job.seed}-{steps}", checkpoint.path_of(job.out, steps)
        yield replace(common, checkpoint=path, arm=name)
    first = (study.seeds[0], next(iter(study.sources)), study.budgets[-1])
    if (job.seed, source, job.steps) == first:
        if study.untrained:
            yield replace(common, arm=f"{policy}-{UNTRAINED}", untrained=True)
        if 0 in job.keep:
            path = checkpoint.path_of(job.out, 0)
            yield replace(common, checkpoint=path, arm=f"{policy}-{UNADAPTED}")


def groups(study: StudyPlan, out: Path) -> Iterator[list[StudyTrial]]:
    """Trials that run together: alone, or side by side on a GPU the sources of one task, policy and
    seed, or, where `together` is a number, so many of one kind that are equally long.
    """
    by_key: dict[object, list[StudyTrial]] = {}
    for trial in trials(study, out):
        job = trial.job
        alike: object = job.out
        if study.together is True:
            alike = (job.labels["policy"], job.seed, job.steps, job.task)
        elif study.together:
            alike = (job.settings.policy, job.steps, job.keep)
        by_key.setdefault(alike, []).append(trial)
    for group in by_key.values():
        most = len(group) if study.together is True else max(1, study.together)
        yield from (group[k : k + most] for k in range(0, len(group), most))


# Runs evaluations of one task where somebody stands beside the robot: `attended.roll_out`.
RollOut = Callable[..., LoadedRun]


def run_study(
    study: StudyPlan, out: Path, *, ray: str | None = None, attend: RollOut = roll_out
) -> Iterator[str]:
    """Run everything that is missing; yields a line as each piece is done. On a rig the rollouts
    follow when every policy is trained, in this process, by `attend`.
    """
    # Opens every dataset and world, so that what is unfit is refused before anything is written.
    planned = list(groups(study, out))
    tasks = {task: world_of(task) for task in study.tasks}
    for world in tasks.values():
        require_possible(world, study.starts, study.horizon, flags="")
    by_person = {task for task, world in tasks.items() if world.success == "operator"}
    engine: RayEngine | LocalEngine = RayEngine(ray) if ray is not None else LocalEngine()
    try:
        _claim(study, out)
        training = {}
        for group in planned:
            submit = _here if finished(group) else engine.submit
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
                        todo = [r for r in trial.rollouts if r.name not in by_person]
                        todo = [rollouts for rollouts in todo if missing(rollouts)]
                        evaluating |= {engine.submit(_evaluated, job): job for job in todo}
                else:
                    yield f"evaluated {evaluating.pop(future).arm} on {_result(future)}"
    finally:
        engine.close()
    every = [rollouts for group in planned for trial in group for rollouts in trial.rollouts]
    for task in (task for task in study.tasks if task in by_person):
        jobs = [replace(job, parallel=0) for job in every if job.name == task]
        yield from _judged(attend(jobs, **study.beside(task)), jobs)


def _judged(run: LoadedRun, jobs: Sequence[Rollouts]) -> Iterator[str]:
    """A line about each policy that a person judged, or will."""
    for job in jobs:
        chain = run.chain(*split_name(job.name), job.arm)
        judged = [e.success for e in chain.episodes] if chain is not None else []
        waiting = f", {n} not judged yet" if (n := judged.count(None)) else ""
        counted = f"{judged.count(True)} of {len(judged)} starts solved{waiting}"
        yield f"evaluated {job.arm} on {job.name}: {counted}"


def _claim(study: StudyPlan, out: Path) -> None:
    """Remember what is studied; more seeds, tasks and budgets may follow, the rest must stay."""
    kept = {
        "sources": list(study.sources),
        "starts": list(study.starts),
        "max_demonstrations": study.max_demonstrations,
    }
    firsts = {name: source.first for name, source in study.sources.items() if source.first}
    if firsts:
        kept["first"] = firsts
    path = out / "study.json"
    if path.is_file():
        held = read_json(path)
        changed = sorted(k for k in {*kept, *held} if held.get(k) != kept.get(k))
        if changed:
            raise CapexError(
                f"{out} holds a study with other {', '.join(changed)}; choose another --out",
                code=ErrorCode.OTHER_SETTINGS,
            )
    out.mkdir(parents=True, exist_ok=True)
    write_json(path, kept)


def finished(group: Sequence[StudyTrial]) -> bool:
    """Whether every training of a group is done, so that no process is needed to say so."""
    return all(max(checkpoint.steps(t.job.out), default=0) >= t.job.steps for t in group)


def _here(work: Callable[[Any], Any], job: Any) -> Future[Any]:
    """Do in this process what is done already: only its settings are compared."""
    future: Future[Any] = Future()
    future.set_result(work(job))
    return future


def _evaluated(job: Rollouts) -> str:
    solved = [r.success is True for r in evaluate(job)]
    return f"{job.name}: {sum(solved)} of {len(solved)} starts solved"


def _result(future: Future[Any]) -> Any:
    """The result of a piece of work; what went wrong in its process becomes a sentence here."""
    try:
        return future.result()
    except WorkerDied as death:
        why = f"a job of the study was lost: {death}; the same command continues"
        raise CapexError(why, code=ErrorCode.WORKER_DIED) from None
    except Exception as error:
        cause = getattr(error, "cause", error)  # Ray wraps what a task raises
        if isinstance(cause, CapexError):
            raise cause from None
        raise


class LocalEngine:
    """One training at a time and one evaluation beside it, each in a process of its own: a captured
    graph holds its memory until its process ends.
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
    """Every training and evaluation as a Ray task, with a GPU of its own where there are any. The
    machines must share the paths.
    """

    def __init__(self, address: str):
        self._cluster = Cluster(address)
        gpus = self._cluster.ray.cluster_resources().get("GPU")
        self._share = {"num_gpus": 1} if gpus else {"num_cpus": 1}

    def submit(self, work: Callable[[Any], Any], job: Any) -> Future[Any]:
        task = self._cluster.ray.remote(**self._share)(trust.run_holding)
        future: Future[Any] = task.remote(trust.held(), work, job).future()
        return future

    def close(self) -> None:
        """Leave the cluster, if this engine joined it."""
        self._cluster.close()
