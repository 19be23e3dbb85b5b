"""Human demonstrations that a world's dataset holds, as chains of a run: what `capex export
--paired` pairs with a demonstrator's.

An episode `WORLD--TASK--human` has the recorded actions and the recorded states, shown one after
the other and not simulated; its success is the world's own check at any of them. No model sees any
of it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from capex import worlds
from capex.campaign.alone import EpisodeResult
from capex.campaign.names import parse_names
from capex.method.executor import Tick
from capex.method.record import EpisodeRecord
from capex.method.recorder import Recorder
from capex.run.store import Chain, open_run
from capex.worlds import Env, Start

ARM = "human"


def run_human(
    names: str, starts: Sequence[int], out: Path, *, gl_backend: str = ""
) -> Iterator[EpisodeResult]:
    """Take the demonstrations of every task and start into a run, yielding each as it is committed;
    finished ones are skipped.
    """
    pairs = parse_names(names)
    for world, _ in pairs:
        worlds.human(world)
    made = [worlds.make(f"{world}:{task}") for world, task in pairs]  # before anything is written
    run = open_run(
        out, {"command": "human", "worlds": sorted({world for world, _ in pairs})}, gl_backend
    )
    for env in made:
        chain = run.chain(env.spec.world, env.spec.task, ARM)
        with chain.owned():
            chain.sweep()
            for index in (i for i in starts if i not in set(chain.finished())):
                yield take_human(env, index, chain)
        env.close()


def take_human(env: Env, index: int, chain: Chain) -> EpisodeResult:
    """One demonstration, committed to its chain."""
    began, spec = time.perf_counter(), env.spec
    human = worlds.human(spec.world)(env, index)
    env.reset(Start(spec.task, index))
    recorder, success = Recorder(env), False
    recorder.begin_plan()
    for action in human:
        success = success or bool(env.success())
        recorder(Tick(action, env.robot_state(), env.success(), 0))
    record = EpisodeRecord(
        world=spec.world,
        task=spec.task,
        arm=ARM,
        start=index,
        seed=0,
        model="human",
        success=success,
        steps=len(recorder.steps["actions"]),
        requests=0,
        cost_usd=None,
        instruction=env.instruction,
        horizon=spec.horizon,
        turns=(),
        scene=env.scene,
        end="success" if success else "recorded",
    )
    seconds = time.perf_counter() - began
    path = chain.begin(index).commit(
        record.as_json(), {"episode_s": seconds, "unix_time": time.time()}, recorder.steps
    )
    return EpisodeResult(spec.world, spec.task, index, success, record.steps, 0, seconds, path)
