"""`capex.collect`: a campaign from Python. The command line calls it too.

    import capex

    run = capex.collect(
        "kitchen:CloseFridge,TurnOnMicrowave", arm="capex,base", model="pilot", starts="0:20",
        out="runs/first", parallel=2,
    )
    for episode in run.episodes:
        print(episode.chain, episode.index, episode.record.success)

Call it under `if __name__ == "__main__":` when `parallel` is more than 1: worker processes import
the script that started them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from types import FrameType
from typing import Any

from capex import models
from capex.campaign import ceiling as ce
from capex.campaign import events as ev
from capex.campaign.board import Board
from capex.campaign.chain import ChainPlan
from capex.campaign.check import refuse_the_impossible, specs_of, work_of
from capex.campaign.driver import ChainRun, Driver, Wish
from capex.campaign.engines import EPISODES_OF_A_BUSY_CORE, EPISODES_PER_CORE, Engine, Failed, Setup
from capex.campaign.manifest import moved_from, open_campaign
from capex.campaign.patience import Patience, Pauses
from capex.campaign.repair import left_out_sentence
from capex.campaign.settings import NOWHERE, Settings, read_config, resolve
from capex.errors import CapexError
from capex.models import Model, ModelError, with_defaults
from capex.models.prices import Price, load_prices, parse_price
from capex.run import LoadedRun, load_run, origins
from capex.run.spend import Spend
from capex.run.store import PROMPT, SPEND, Run, find_run, write_bytes
from capex.worlds import Spec


@dataclass(frozen=True)
class Prepared:
    """A campaign that has passed every check; nothing was written and nothing sent."""

    settings: Settings
    model: Model
    price: Price | None
    specs: Mapping[tuple[str, str], Spec]


def prepare(
    names: str | Sequence[str] = (),
    *,
    config: str | Path | None = None,
    model: str | Model | None = None,
    dry: bool = False,
    **options: Any,
) -> Prepared:
    """Resolve settings and refuse the impossible. `dry`: nothing will be sent or written, so
    neither a key nor `out` is needed.
    """
    file = read_config(Path(config)) if config is not None else None
    named = model if isinstance(model, str) or model is None else model.name
    settings = _as_begun(resolve(names, {**options, "model": named}, file, dry=dry))
    if isinstance(model, str) or model is None:
        asked = _make(settings, dry)
    else:  # it brings its own chat settings
        asked = with_defaults(model)
        if "context_tokens" in settings.typed:
            raise CapexError(
                "--context-tokens is for a model given by name; give it to the model object itself"
            )
        if settings.parallel > 1 or settings.ray is not None:
            raise CapexError(
                "a model object stays in its process; give the model by name to run in several"
            )
        settings = replace(settings, chat=asked.chat_settings)
    price = _held_price(settings) or load_prices(settings.prices).find(asked.price_name)
    specs = specs_of(settings)
    refuse_the_impossible(settings, specs, asked, price)
    return Prepared(settings, asked, price, specs)


def _make(settings: Settings, dry: bool) -> Model:
    """The named model; one that only lacks its key will do where nothing is sent."""
    try:
        return models.make(settings.model, settings.chat)
    except ModelError as error:
        if not dry or error.kind != "authentication":
            raise
        return ce.Keyless(settings.model)


def _as_begun(settings: Settings) -> Settings:
    """The settings as the run that is continued, if there is one, takes them."""
    return (
        settings.as_begun(find_run(settings.out).manifest)
        if (settings.out / "manifest.json").is_file()
        else settings
    )


def _held_price(settings: Settings) -> Price | None:
    """The price row that a run began with: it holds to the end, unless the user brings another."""
    if "prices" in settings.typed or not (settings.out / "manifest.json").is_file():
        return None
    held = find_run(settings.out).manifest.get("price")
    return (
        None
        if held is None
        else parse_price(held, f"the price in {settings.out / 'manifest.json'}")
    )


def collect(
    names: str | Sequence[str] = (),
    *,
    config: str | Path | None = None,
    model: str | Model | None = None,
    fork: bool = False,
    retry_invalid: bool = False,
    yes: bool = False,
    confirm: Callable[[str], bool] | None = None,
    watch: Callable[[ev.Event, Board], None] | None = None,
    pauses: Pauses | None = None,
    **options: Any,
) -> LoadedRun:
    """Run a campaign, or continue it, and return what the run directory then holds.

    names: WORLD:TASK[,TASK..|all], or several of those. options: the names of
    `campaign.settings.OPTIONS`, of which `out` is needed. model: a name, or a model of your own as
    long as everything stays in this process. A campaign that may cost more than $25 needs
    `campaign_usd`, or `yes`, or a `confirm` that is told what it may cost and answers yes. watch:
    told of every event. A campaign that ends early because something failed raises that, after
    everything else has run; Ctrl-C raises KeyboardInterrupt once the store is whole.
    """
    ready = prepare(names, config=config, model=model, **options)
    settings = ready.settings
    _refuse_an_empty_purse(ready)
    if not yes:
        _ask_first(ready, confirm)
    gl = _gl_backend()
    run, price = open_campaign(
        settings.out, settings, ready.price, stand_in=ready.model.stand_in, fork=fork, gl_backend=gl
    )
    settings = _with_own_prompt(settings, run)
    work = work_of(settings, price)
    spend = Spend(run.path / SPEND)
    asked = settings.model if model is None or isinstance(model, str) else ready.model
    setup = Setup(work, asked, run.path / SPEND, settings.chat)
    with contextlib.ExitStack() as stack:
        board = Board(spend=spend, lineage=origins(run.manifest))
        chains = _chains(
            settings, ready.specs, run, board, stack, pauses or Pauses(), retry_invalid
        )

        def tell(event: ev.Event) -> None:
            if watch is not None:
                watch(event, board)

        todo = [c.plan.remaining() for c in chains]
        left = None if any(n is None for n in todo) else sum(n or 0 for n in todo)
        most = ce.ceiling(settings, price, left, spend.total())
        limit = None if most.usd is None else float(most.usd)
        keys = tuple(c.key for c in chains)
        warning = "\n".join(
            w
            for w in (
                moved_from(run, gl),
                left_out_sentence(run, [d for c in chains for d in c.plan.loaded.damaged]),
            )
            if w
        )
        about = None if most.expected_usd is None else float(most.expected_usd)
        tell(
            ev.CampaignBegan(
                str(run.path),
                settings.model,
                ready.model.stand_in,
                keys,
                left,
                limit,
                most.sentence,
                warning,
                about,
            )
        )
        wish = stack.enter_context(_interrupts())
        failures: list[Failed | CapexError] = []
        why = "finished"
        if left != 0:
            engine = _engine(settings, setup, ready.model, settings.round_size * len(chains))
            stack.callback(engine.close)
            driver = Driver(run.path, chains, engine, board, tell, hours=settings.campaign_hours)
            driver.run(wish)
            failures, why = driver.failures, "interrupted" if wish.stop else driver.why
        known = None if price is None else float(spend.total())
        tell(ev.CampaignEnded(str(run.path), why, board.total.episodes, known))
    if failures:
        raise _as_error(failures, run)
    if wish.stop:
        raise KeyboardInterrupt
    return load_run(run.path)


def _ask_first(ready: Prepared, confirm: Callable[[str], bool] | None) -> None:
    """Refuse a campaign that may cost more than $25 unless somebody says yes. A stand-in bills
    nobody.
    """
    if ready.model.stand_in:
        return
    cost = ce.ask_first(ready.settings, ready.price, *_still_to_run(ready.settings))
    if cost and (confirm is None or not confirm(cost)):
        advice = (
            "set a budget with --campaign-usd, or agree with --yes (in Python: campaign_usd=.. or"
            " yes=True)"
        )
        raise CapexError(f"this campaign costs {cost}; nothing was sent: {advice}")


def _still_to_run(settings: Settings) -> tuple[int | None, Decimal]:
    """How many episodes the run lacks, as far as its folders tell (None where successes decide),
    and what it has spent.
    """
    held, spent = 0, Decimal(0)
    if (settings.out / "manifest.json").is_file():
        wanted, run = set(settings.starts), Run(settings.out)
        chains = [run.chain(w, t, a.name) for w, t in settings.tasks for a in settings.arms]
        held = sum(len(wanted & set(c.finished())) for c in chains)
        spent = Spend(settings.out / SPEND).total()
    count = len(settings.tasks) * len(settings.arms) * len(settings.starts)
    return None if settings.until_successes is not None else count - held, spent


def _refuse_an_empty_purse(ready: Prepared) -> None:
    """Budgets that were typed must cover at least one request."""
    settings, limit = ready.settings, ready.settings.campaign_usd
    if ready.price is None or not {"campaign_usd", "episode_usd"} & settings.typed:
        return
    world, task = settings.tasks[0]
    work = work_of(settings, ready.price)
    asked = {
        arm.name: ce.sample(settings, work, ready.model, arm, world, task).first_usd or Decimal(0)
        for arm in settings.arms
    }
    spent = Spend(settings.out / SPEND).total() if (settings.out / SPEND).is_file() else Decimal(0)
    least = min(asked.values())
    if limit is not None and spent + least > limit:
        already = f" and ${spent:.2f} are spent or held" if spent else ""
        raise CapexError(
            f"the campaign's budget of ${limit:.2f} covers no request: the next may cost"
            f" ${least:.2f}{already}; raise it"
        )
    for arm in settings.arms:
        if arm.episode_usd is not None and asked[arm.name] > Decimal(str(arm.episode_usd)):
            first = f"its first may cost ${asked[arm.name]:.2f}"
            raise CapexError(
                f"a budget of ${arm.episode_usd:.2f} per episode covers no request of arm"
                f" {arm.name}: {first}; raise it"
            )


def _chains(
    settings: Settings,
    specs: Mapping[tuple[str, str], Spec],
    run: Run,
    board: Board,
    stack: contextlib.ExitStack,
    pauses: Pauses,
    retry_invalid: bool,
) -> list[ChainRun]:
    """The chains of the campaign, owned and swept; what they hold already goes onto the board."""
    chains = []
    for (world, task), spec in specs.items():
        for arm in settings.arms:
            chain = run.chain(world, task, arm.name)
            stack.enter_context(chain.owned())
            chain.sweep(everything=True)
            plan = ChainPlan(
                chain,
                settings.starts,
                round_size=settings.round_size,
                remembers=arm.memory == "chain",
                until_successes=settings.until_successes,
                further=spec.starts,
                max_starts=settings.max_starts,
                retry_invalid=retry_invalid,
            )
            patience = Patience(pauses, (e.record.end for e in plan.loaded.episodes))
            chains.append(ChainRun(chain, f"{world}:{task}", arm, plan, patience, retry_invalid))
            remaining = plan.remaining()
            board.add_chain(plan.loaded, None, settings.until_successes)
            line = board.lines[chain.path.name]
            line.wanted = None if remaining is None else line.episodes + plan.invalid + remaining
    return chains


def _engine(settings: Settings, setup: Setup, model: Model, useful: int) -> Engine:
    """The engine that was asked for. A model that computes here leaves its core to nobody, so few
    episodes share one.
    """
    processes = min(settings.parallel, useful)
    each = EPISODES_OF_A_BUSY_CORE if model.computes_here else EPISODES_PER_CORE
    if settings.ray is not None:
        from capex.campaign.engines.ray import RayCluster

        return RayCluster(setup, settings.ray, settings.slots)
    if settings.parallel > 1:
        from capex.campaign.engines.processes import Processes

        return Processes(setup, processes, settings.slots or processes * each)
    from capex.campaign.engines.threads import Threads

    return Threads(setup, settings.slots or each)


def _with_own_prompt(settings: Settings, run: Run) -> Settings:
    """A user's prompt is kept with the run, and read from there."""
    if settings.prompt is None:
        return settings
    place = run.path / PROMPT
    if not place.exists():
        write_bytes(place, settings.prompt.read_bytes())
    return replace(settings, prompt=place)


def _gl_backend() -> str:
    """For the fingerprint: what draws; empty where nothing does."""
    try:
        from capex.worlds import render

        return f"{render.backend()}: {render.renderer_name()}"
    except CapexError:
        return ""


@contextlib.contextmanager
def _interrupts() -> Iterator[Wish]:
    """Ctrl-C once: finish what runs; twice, or SIGTERM: cut it off. Outside the main thread signals
    stay as they are.
    """
    wish = Wish()
    if threading.current_thread() is not threading.main_thread():
        yield wish
        return

    def interrupted(number: int, frame: FrameType | None) -> None:
        wish.at_once = wish.stop or number == signal.SIGTERM
        wish.stop, wish.reason = True, "interrupted"

    before = {s: signal.signal(s, interrupted) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield wish
    finally:
        for s, handler in before.items():
            signal.signal(s, handler)


def _as_error(failures: Sequence[Failed | CapexError], run: Run) -> Exception:
    """What to raise for what failed: one sentence for what a user can mend, the error itself for
    what nobody expected.
    """
    first = failures[0]
    if isinstance(first, Failed) and not isinstance(first.error, CapexError | OSError):
        first.error.add_note(first.trace)
        return first.error
    sentences = []
    for failure in failures:
        error = failure.error if isinstance(failure, Failed) else failure
        if isinstance(error, OSError):
            reason = (
                "is full"
                if error.errno == errno.ENOSPC
                else f"failed ({os.strerror(error.errno) if error.errno else error})"
            )
            sentences.append(
                f"the disk that holds {run.path} {reason}; what was finished is kept: make room and"
                " give the same command again"
            )
        else:
            sentences.append(str(error))
    unique = list(dict.fromkeys(sentences))
    if len(unique) == 1 and isinstance(first, CapexError):
        return first
    return CapexError("; ".join(unique))


@dataclass(frozen=True)
class DryRun:
    """What `--dry-run` says."""

    settings: Settings
    episodes: int | None
    samples: tuple[ce.Sample, ...]
    ceiling: ce.Ceiling
    disk: tuple[float, float] | None  # bytes: about, at most
    free_bytes: float


def dry_run(ready: Prepared) -> DryRun:
    """The plan, the requests' size in tokens, the ceiling and the disk it takes; nothing is sent
    and nothing written.
    """
    settings = ready.settings
    work = work_of(settings, ready.price)
    worlds_seen = dict(reversed(settings.tasks))  # the prompt depends on the world, not on the task
    samples = [
        ce.sample(settings, work, ready.model, arm, w, t)
        for w, t in worlds_seen.items()
        for arm in settings.arms
    ]
    episodes, spent = _still_to_run(settings)
    horizon = max(spec.horizon for spec in ready.specs.values())
    free = ce.free_bytes(Path() if settings.out == NOWHERE else settings.out)
    disk = None if episodes is None else ce.disk_bytes(settings, samples, episodes, horizon)
    return DryRun(
        settings,
        episodes,
        tuple(samples),
        ce.ceiling(settings, ready.price, episodes, spent),
        disk,
        free,
    )
