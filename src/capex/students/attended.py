"""Rollouts beside which somebody stands: on a rig, where a person arranges each start and judges
what became of it.

They run as a campaign on a rig does, one at a time in this process: home, the scene, the attempt
with its frames, the episode on disk, the verdict. Several policies of one task take turns at each
start, on one arrangement.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from capex.campaign import world_files
from capex.campaign.api import Watch, gl_backend, run_campaign
from capex.campaign.demonstrators import STUDENT, method_without_model
from capex.campaign.engines import Campaign
from capex.campaign.judging import Judge, people_of, refuse_without_operator
from capex.campaign.prepare import refuse_sharing, refuse_starts
from capex.campaign.settings import OPTIONS, Settings
from capex.errors import CapexError, ErrorCode
from capex.method.context import Demonstrator
from capex.run import LoadedRun
from capex.run.store import Run, open_run
from capex.setting import as_flag
from capex.students.evaluate import Rollouts, Student, identify, refuse_other_student, student
from capex.students.rollouts import RolloutPlan
from capex.worlds import Spec

LOADED = 8  # policies that stay in memory while they take turns; Diffusion's is 0.4 GB


class Students(Mapping[str, Demonstrator]):
    """Policies by arm, each loaded when it is first to act."""

    def __init__(self, jobs: Mapping[str, Rollouts]):
        self._jobs = jobs
        self._loaded = functools.lru_cache(LOADED)(self._load)

    def __getitem__(self, arm: str) -> Student:
        return self._loaded(arm)

    def __iter__(self) -> Iterator[str]:
        return iter(self._jobs)

    def __len__(self) -> int:
        return len(self._jobs)

    def _load(self, arm: str) -> Student:
        return student(self._jobs[arm], batch=1)


def roll_out(
    jobs: Sequence[Rollouts],
    *,
    person: Judge | None = None,
    watch: Watch | None = None,
    **options: Any,
) -> LoadedRun:
    """Run what the run directory lacks of these evaluations, of one task and on the same starts,
    and return what it then holds. person: who is asked where a person stands by. options: operator,
    judge, arrangements and order, as for `capex.collect`.
    """
    spec, plans = _identified(jobs)
    settings = _settings(jobs[0], spec, tuple(plans), options)
    specs = {(spec.world, spec.task): spec}
    refuse_sharing(settings, specs)
    refuse_starts(settings, specs)
    people = people_of(settings, specs, person)
    refuse_without_operator(settings, specs, people.judge)
    run = open_run(settings.out, {"command": "evaluate"}, gl_backend())
    world_files.copy(run.path, (spec.world,))
    _claim(run, spec, plans, settings.starts)
    students = Students({plan.arm: job for plan, job in zip(plans.values(), jobs, strict=True)})
    stand_in = any(plan.stand_in for plan in plans.values())
    campaign = Campaign(
        run,
        settings,
        specs,
        students,
        stand_in=stand_in,
        computes_here=True,
        judge=people.judge,
        extensions=people.extensions,
    )
    return run_campaign(campaign, watch)


def _identified(jobs: Sequence[Rollouts]) -> tuple[Spec, dict[str, RolloutPlan]]:
    """The world that all evaluations share, and what the records of each arm say of its policy."""
    plans: dict[str, RolloutPlan] = {}
    specs = []
    for job in jobs:
        spec, plan = identify(job)
        if plan.arm in plans:
            raise CapexError(
                f"two policies are called {plan.arm}; name one of them with --arm",
                code=ErrorCode.CONFLICTING_SETTINGS,
            )
        specs.append(spec)
        plans[plan.arm] = plan
    shared = {(spec.name, job.starts, job.out) for spec, job in zip(specs, jobs, strict=True)}
    if len(shared) != 1:
        names = ", ".join(sorted({spec.name for spec in specs}))
        raise CapexError(
            f"policies take turns on one task, on the same starts and into one run; given: {names}",
            code=ErrorCode.CONFLICTING_SETTINGS,
        )
    return specs[0], plans


def _settings(
    job: Rollouts, spec: Spec, arms: Sequence[str], options: Mapping[str, Any]
) -> Settings:
    given = {
        name: OPTIONS[name].checked(as_flag(name), value)
        for name, value in options.items()
        if value is not None
    }
    settings = Settings(
        tasks=((spec.world, spec.task),),
        methods=tuple(method_without_model(arm) for arm in arms),
        model=STUDENT,
        starts=tuple(job.starts),
        out=Path(job.out),
        parallel=job.parallel or 1,
    )
    return replace(settings, **given)


def _claim(run: Run, spec: Spec, plans: Mapping[str, RolloutPlan], starts: Sequence[int]) -> None:
    """Refuse rollouts of other policies under these names; remember what was asked for."""
    chains = {arm: run.chain(spec.world, spec.task, arm) for arm in plans}
    for arm, chain in chains.items():
        refuse_other_student(chain, plans[arm].student)
    for chain in chains.values():
        chain.path.mkdir(parents=True, exist_ok=True)
        chain.ask(starts)
