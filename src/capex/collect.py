"""Campaigns: which episodes to run, in which processes, skipping what the run directory already holds.

A chain is one arm at one task, sequential in memory: each episode sees what the ones before it left, and nothing else. The privileged
expert of a world has chains of its own, named WORLD--TASK--expert, whose episodes are independent.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from capex import worlds
from capex.arms import DEFAULT_EPISODE_USD, ArmSettings
from capex.demonstrator import NO_LIMITS, Event, Limits, run_episode
from capex.errors import CapexError, PhysicsDiverged
from capex.executor import Executor
from capex.ledger import Budget, Ledger, Spend, budgets_for
from capex.memory import Memory
from capex.memory.record import EpisodeRecord, Turn, from_json, record_waypoints
from capex.models import Model, ModelError
from capex.models.exchanges import ExchangeLog
from capex.models.redact import scrub
from capex.plan import PLAN_MAX
from capex.prices import Price
from capex.recorder import Recorder
from capex.store import Chain, open_run, read_json, write_bytes
from capex.worlds import Env, Start

EXPERT_DECISIONS = 30
FINAL_ERRORS = ("authentication", "permission", "quota", "not_found", "bad_request", "context")  # will not pass by themselves
STARTS_EXAMPLE = "write 0:20 for the starts 0 to 19, 7 for one, 1,4,9 for some"


@dataclass(frozen=True)
class EpisodeResult:
    """One line of progress."""

    world: str
    task: str
    index: int
    success: bool | None
    steps: int
    decisions: int
    seconds: float
    path: Path
    note: str = ""


def parse_starts(text: str) -> list[int]:
    """Start indices from "0:20", "7" or "1,4,9"; anything else is refused with a sentence."""
    indices: list[int] = []
    for piece in text.split(","):
        low, colon, high = piece.strip().partition(":")
        try:
            found = list(range(int(low), int(high))) if colon else [int(low)]
        except ValueError:
            raise CapexError(f"'{text}' names no starts; {STARTS_EXAMPLE}") from None
        if not found or min(found) < 0:
            raise CapexError(f"'{text}' holds an empty or negative range; {STARTS_EXAMPLE}")
        indices += found
    return list(dict.fromkeys(indices))


def parse_names(text: str) -> list[tuple[str, str]]:
    """(world, task) pairs from WORLD:TASK[,TASK..|all]; every name is checked before anything runs."""
    world, _, rest = text.partition(":")
    known = worlds.tasks(world)
    names = list(known) if rest.strip() == "all" else [t.strip() for t in rest.split(",") if t.strip()]
    if not names:
        raise CapexError(f"'{text}' names no task; write {world}:{next(iter(known))} or {world}:all")
    for name in names:
        if name not in known:
            raise worlds.unknown_task(world, name)
    return [(world, name) for name in dict.fromkeys(names)]


def load_memory(chain: Chain, indices: Sequence[int]) -> Memory:
    """What the whole episodes of a chain left, in the order in which they ran."""
    memory = Memory()
    for index in indices:
        folder = chain.episode(index)
        record = from_json(read_json(folder / "record.json"))
        memory.add(record, {sha: folder / "images" / f"{sha}.png" for sha in record.images.values()})
    return memory


def chain_order(chain: Chain) -> list[int]:
    """The starts that a chain holds, in the order in which they ran."""
    place = {index: read_json(chain.episode(index) / "record.json").get("position", index) for index in chain.finished()}
    return sorted(place, key=lambda index: (place[index], index))


def _dollars(model: Model, price: Price | None, arm: ArmSettings, campaign_usd: float | None) -> tuple[Budget, ...]:
    wanted = []
    if arm.episode_usd is not None:
        wanted.append(Budget("dollars", Decimal(str(arm.episode_usd)), "episode", typed=arm.episode_usd != DEFAULT_EPISODE_USD))
    if campaign_usd is not None:
        wanted.append(Budget("dollars", Decimal(str(campaign_usd)), "campaign", typed=True))
    return budgets_for(model.name, price, wanted)


def run_chain(
    env: Env,
    model: Model,
    arm: ArmSettings,
    chain: Chain,
    starts: Sequence[int],
    *,
    price: Price | None = None,
    campaign_usd: float | None = None,
    spend: Spend | None = None,
    limits: Limits = NO_LIMITS,
    subscribers: Sequence[Callable[[Event], None]] = (),
    template: Path | None = None,
) -> Iterator[EpisodeResult]:
    """Run a chain's starts in order, after those it already holds; yields each episode as it is committed.

    Dollars: the arm's limit per episode holds wherever the model has a price; a campaign's limit needs the campaign's `spend`, and reaching
    it ends the chain with BudgetExceeded, the attempt dropped. An attempt that a model or simulator error invalidates is kept apart and
    rerun once, unless the error will not pass by itself (a key, a quota); then, or the second time, it ends the chain.
    """
    with chain.owned():
        yield from _run_owned(env, model, arm, chain, starts, price, campaign_usd, spend, limits, subscribers, template)


def _run_owned(
    env: Env,
    model: Model,
    arm: ArmSettings,
    chain: Chain,
    starts: Sequence[int],
    price: Price | None,
    campaign_usd: float | None,
    spend: Spend | None,
    limits: Limits,
    subscribers: Sequence[Callable[[Event], None]],
    template: Path | None,
) -> Iterator[EpisodeResult]:
    chain.sweep()
    order = chain_order(chain)
    memory = load_memory(chain, order)
    budgets = _dollars(model, price, arm, campaign_usd)
    for index in (i for i in starts if i not in set(order)):
        while True:
            ledger = Ledger(price, budgets, spend, {"chain": chain.path.name, "episode": index})
            result, record, error = _attempt(env, model, arm, chain, index, memory, ledger, limits, subscribers, template)
            if record is not None:
                break
            if chain.invalid_count(index) > 1 or getattr(error, "kind", "") in FINAL_ERRORS:
                raise error or CapexError(result.note)
        memory.add(record, {sha: result.path / "images" / f"{sha}.png" for sha in record.images.values()})
        yield result


def _attempt(
    env: Env,
    model: Model,
    arm: ArmSettings,
    chain: Chain,
    index: int,
    memory: Memory,
    ledger: Ledger,
    limits: Limits,
    subscribers: Sequence[Callable[[Event], None]],
    template: Path | None,
) -> tuple[EpisodeResult, EpisodeRecord | None, CapexError | None]:
    """One attempt into the chain: an episode with its record, or an invalid attempt with its error."""
    spec, began = env.spec, time.perf_counter()
    writer = chain.begin(index)
    shown = memory if arm.memory == "chain" else Memory()
    try:
        episode = run_episode(
            env,
            Start(spec.task, index),
            model,
            arm,
            shown,
            ledger=ledger,
            log=ExchangeLog(writer.folder, model),
            limits=limits,
            subscribers=subscribers,
            template=template,
            cache_key=chain.path.name,
        )
    except (ModelError, PhysicsDiverged) as error:
        seconds = time.perf_counter() - began
        note = {"task": spec.task, "arm": arm.name, "start": {"index": index, "seed": 0}, "model": model.name, "error": str(error)}
        scrubbed = scrub(note | {"ledger": ledger.totals.as_json()})
        path = writer.commit_invalid(scrubbed, {"episode_s": seconds, "unix_time": time.time()}, {})
        return EpisodeResult(spec.world, spec.task, index, None, 0, 0, seconds, path, str(error)), None, error
    except BaseException:
        writer.discard()
        raise
    images = writer.folder / "images"
    images.mkdir(exist_ok=True)
    for sha, png in episode.pictures.items():
        if not (images / f"{sha}.png").exists():
            write_bytes(images / f"{sha}.png", png)
    # What a model writes may quote a key it was shown by mistake: scrubbed before it is written, and remembered as written.
    record = from_json(scrub(episode.record.as_json() | {"position": memory.attempts}))
    timing = {"episode_s": episode.seconds, "reset_s": episode.reset_s, "unix_time": time.time()}
    path = writer.commit(record.as_json(), timing, episode.steps)
    return EpisodeResult(spec.world, spec.task, index, record.success, record.steps, len(record.turns), episode.seconds, path), record, None


def run_expert(names: str, starts: Sequence[int], out: Path, *, parallel: int = 1, gl_backend: str = "") -> Iterator[EpisodeResult]:
    """Run the expert on every task and start, yielding each episode as it is committed; finished ones are skipped."""
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


def _run_jobs(chains: Mapping[tuple[str, str], Chain], starts: Sequence[int], parallel: int) -> Iterator[EpisodeResult]:
    jobs = []
    for (world, task), chain in chains.items():
        chain.sweep()
        done = set(chain.finished())
        jobs += [(world, task, index, chain) for index in starts if index not in done]
    if parallel == 1:
        env: Env | None = None
        for world, task, index, chain in jobs:
            if env is None or env.spec.name != f"{world}:{task}":
                if env is not None:
                    env.close()
                env = worlds.make(f"{world}:{task}")
            yield expert_episode(env, index, chain)
        if env is not None:
            env.close()
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(parallel, max(1, len(jobs))), mp_context=context) as pool:
        futures = [pool.submit(_in_worker, *job) for job in jobs]
        try:
            for future in as_completed(futures):
                yield future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


_worker_env: Env | None = None


def _in_worker(world: str, task: str, index: int, chain: Chain) -> EpisodeResult:
    global _worker_env
    if _worker_env is None or _worker_env.spec.name != f"{world}:{task}":
        _worker_env = worlds.make(f"{world}:{task}")
    return expert_episode(_worker_env, index, chain)


def expert_episode(env: Env, index: int, chain: Chain) -> EpisodeResult:
    """One episode of the expert, committed to its chain; a diverged simulation is kept apart as invalid."""
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
        scene=worlds.scene_of(env),
        end="success" if success else "horizon" if executor.steps_left <= 0 else "decisions",
        error=error,
        stand_in=True,
    )
    seconds = time.perf_counter() - began
    timing = {"episode_s": seconds, "reset_s": reset_s, "unix_time": time.time()}
    writer = chain.begin(index)
    path = (writer.commit_invalid if error else writer.commit)(record.as_json(), timing, recorder.steps)
    return EpisodeResult(spec.world, spec.task, index, success, steps, len(turns), seconds, path, error or "")
