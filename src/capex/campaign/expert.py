"""Campaigns of the privileged expert: demonstrations by someone who reads the simulator's truth,
the stand-in for a human source.

Its chains are named WORLD--TASK--expert, and their episodes are independent of each other.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from capex import worlds
from capex.campaign.alone import EpisodeResult
from capex.campaign.names import parse_names
from capex.errors import CapexError, PhysicsDiverged
from capex.method.executor import Executor
from capex.method.record import EpisodeRecord, Turn, record_waypoints
from capex.method.recorder import Recorder
from capex.plan import PLAN_MAX
from capex.run.jobs import run_jobs
from capex.run.store import Chain, open_run
from capex.worlds import Env, Start
from capex.worlds.cache import OF_THIS_PROCESS

EXPERT_DECISIONS = 30


def run_expert(
    names: str, starts: Sequence[int], out: Path, *, parallel: int = 1, gl_backend: str = ""
) -> Iterator[EpisodeResult]:
    """Run the expert on every task and start, yielding each episode as it is committed; finished
    ones are skipped.
    """
    pairs = parse_names(names)
    if parallel < 1:
        raise CapexError(f"--parallel is {parallel}; it must be at least 1")
    for world, _ in pairs:
        worlds.expert(world)
    run = open_run(out, {"command": "expert", "worlds": sorted({w for w, _ in pairs})}, gl_backend)
    with contextlib.ExitStack() as owned:
        chains = {(world, task): run.chain(world, task, "expert") for world, task in pairs}
        for chain in chains.values():
            owned.enter_context(chain.owned())
        yield from _run_jobs(chains, starts, parallel)


def _run_jobs(
    chains: Mapping[tuple[str, str], Chain], starts: Sequence[int], parallel: int
) -> Iterator[EpisodeResult]:
    jobs = []
    for (world, task), chain in chains.items():
        chain.sweep()
        done = set(chain.finished())
        jobs += [(world, task, index, chain) for index in starts if index not in done]
    try:
        for _, result in run_jobs(_run_job, jobs, parallel):
            if isinstance(result, CapexError):
                raise result
            yield result
    finally:
        OF_THIS_PROCESS.close()


def _run_job(job: tuple[str, str, int, Chain]) -> EpisodeResult:
    world, task, index, chain = job
    return expert_episode(OF_THIS_PROCESS.keep(f"{world}:{task}"), index, chain)


def expert_episode(env: Env, index: int, chain: Chain) -> EpisodeResult:
    """One episode of the expert, committed to its chain; a diverged simulation is kept apart as
    invalid.
    """
    began = time.perf_counter()
    spec = env.spec
    start = Start(spec.task, index)
    env.reset(start)
    reset_s = time.perf_counter() - began
    plan = worlds.expert(spec.world)
    recorder = Recorder(env)
    executor = Executor(env, subscribers=[recorder])
    turns: list[Turn] = []
    error = None
    try:
        while not env.success() and executor.steps_left > 0 and len(turns) < EXPERT_DECISIONS:
            waypoints = plan(env, len(turns))[:PLAN_MAX]
            recorder.begin_plan()
            step, base = spec.horizon - executor.steps_left, env.robot_state().base
            rows = record_waypoints(waypoints, executor.execute(waypoints))
            turns.append(Turn(len(turns) + 1, step, 0, rows, len(rows), base=base))
    except PhysicsDiverged as diverged:
        error = str(diverged)
    success = bool(env.success()) and not error
    steps = spec.horizon - executor.steps_left
    record = EpisodeRecord(
        world=spec.world,
        task=spec.task,
        arm="expert",
        start=index,
        seed=start.seed,
        model="expert",
        success=success,
        steps=steps,
        requests=0,
        cost_usd=None,
        instruction=env.instruction,
        horizon=spec.horizon,
        turns=tuple(turns),
        scene=env.scene,
        end="success" if success else "horizon" if executor.steps_left <= 0 else "decisions",
        error=error,
        stand_in=True,
    )
    seconds = time.perf_counter() - began
    timing = {"episode_s": seconds, "reset_s": reset_s, "unix_time": time.time()}
    writer = chain.begin(index)
    path = (writer.commit_invalid if error else writer.commit)(
        record.as_json(), timing, recorder.steps
    )
    return EpisodeResult(
        spec.world, spec.task, index, success, steps, len(turns), seconds, path, error or ""
    )
