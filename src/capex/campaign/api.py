"""`capex.collect`: a campaign from Python. The command line calls it too.

    import capex

    run = capex.collect(
        "kitchen:CloseFridge,TurnOnMicrowave", arm="capex,base", model="pilot", starts="0:20",
        out="runs/first", parallel=2,
    )
    for episode in run.episodes:
        print(episode.chain, episode.index, episode.success)

Call it under `if __name__ == "__main__":` when `parallel` is more than 1: worker processes import
the script that started them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

from capex import worlds
from capex.campaign import ceiling as ce
from capex.campaign import events as ev
from capex.campaign.allocation import Allocation
from capex.campaign.board import Board
from capex.campaign.chain import ChainPlan
from capex.campaign.demonstrators import (
    WITHOUT_MODEL,
    Asked,
    demonstrator,
    method_without_model,
    require_offer,
)
from capex.campaign.driver import ChainRun, Driver, StopRequest
from capex.campaign.engines import (
    EPISODES_OF_A_BUSY_CORE,
    EPISODES_PER_CORE,
    Campaign,
    Engine,
    Failed,
)
from capex.campaign.judging import (
    LATER,
    Judge,
    ask_first,
    people_of,
    refuse_without_operator,
    waits,
)
from capex.campaign.manifest import moved_from, note_operator, open_campaign, open_without_model
from capex.campaign.names import parse_names
from capex.campaign.prepare import (
    ask_before_spending,
    attempt_settings,
    prepare,
    refuse_sharing,
    refuse_small_budgets,
    refuse_starts,
    specs_of,
)
from capex.campaign.repair import left_out_sentence, refuse_forgotten
from capex.campaign.scheduling import Patience, Pauses
from capex.campaign.settings import OPTIONS, Settings
from capex.errors import CapexError, ErrorCode, UnknownName
from capex.method.context import Demonstrator
from capex.models import Model
from capex.registry import HAS_ROOM, load
from capex.run import Damaged, Depth, LoadedRun, load_run
from capex.run.files import write_bytes
from capex.run.manifest import allow_handles
from capex.run.spend import Spend
from capex.run.store import PROMPT, Run

Watch = Callable[[ev.Event, Board], None]
HANDLES = 128  # that a campaign without attempts has open, and some to spare


def run_campaign(
    campaign: Campaign, watch: Watch | None = None, depth: Depth = Depth.WHOLE
) -> LoadedRun:
    """Run what the run directory lacks and return what it then holds, to this depth. What failed is
    raised after everything else has run; Ctrl-C raises KeyboardInterrupt once the store is
    whole.
    """
    run, settings, price = campaign.run, campaign.settings, campaign.price
    spend = Spend(campaign.spend_path)
    allow_handles(_handles(campaign))
    with contextlib.ExitStack() as stack:
        board = Board(spend=spend, lineage=run.manifest.origins)
        chains, damaged = _chains(campaign, board, stack)
        refuse_forgotten(run, board.forgotten)

        def tell(event: ev.Event) -> None:
            if watch is not None:
                watch(event, board)

        todo = [c.plan.remaining() for c in chains]
        left = None if any(n is None for n in todo) else sum(n or 0 for n in todo)
        begun = [board.counted_usd(c.key, i) for c in chains for i in c.plan.open_starts]
        most = ce.ceiling(settings, price, left, spend.total(), begun)
        warnings = (
            _budget_kept(settings),
            moved_from(run, gl_backend()),
            left_out_sentence(run, damaged),
            _judged_later(campaign),
        )
        tell(
            ev.CampaignBegan(
                run=str(run.path),
                model=settings.model,
                stand_in=campaign.stand_in,
                chains=tuple(c.key for c in chains),
                episodes=left,
                ceiling_usd=None if most.usd is None else float(most.usd),
                ceiling=most.sentence,
                warning="\n".join(w for w in warnings if w),
                expected_usd=None if most.expected_usd is None else float(most.expected_usd),
            )
        )
        request = stack.enter_context(_interrupts())
        failures: list[Failed | CapexError] = []
        why = "finished"
        if left != 0:
            useful = sum(chain.plan.window for chain in chains)
            engine = _engine(replace(campaign, known=spend.known()), useful)
            stack.callback(engine.close)
            driver = Driver(
                run.path,
                chains,
                engine,
                board,
                tell,
                hours=settings.campaign_hours,
                order=settings.order,
                allocation=_allocation(campaign, chains),
                untested=None if campaign.computes_here else settings.round_size,
            )
            driver.run(request)
            failures, why = driver.failures, "interrupted" if request.stop else driver.why
        spent = None if price is None else float(spend.total())
        tell(ev.CampaignEnded(str(run.path), why, board.total.episodes, spent))
    if failures:
        raise _as_error(failures, run)
    if request.stop:
        raise KeyboardInterrupt
    return load_run(run.path, depth)


def gl_backend() -> str:
    """For the fingerprint: what draws; empty where nothing does."""
    try:
        from capex.worlds import render

        return f"{render.backend()}: {render.renderer_name()}"
    except CapexError:
        return ""


def _chains(
    campaign: Campaign, board: Board, stack: contextlib.ExitStack
) -> tuple[list[ChainRun], list[Damaged]]:
    """The chains of the campaign, owned and swept, and what is damaged in them; what they hold
    already goes onto the board.
    """
    settings, retry_invalid = campaign.settings, campaign.retry_invalid
    shared = attempt_settings(settings, campaign.price)
    judge = campaign.judge
    if judge is not None and any(waits(settings, s) for s in campaign.specs.values()):
        note_operator(campaign.run, judge.name, judge.stand_in)
    chains: list[ChainRun] = []
    damaged: list[Damaged] = []
    apart = campaign.resumed is not None and campaign.begins_with is None
    campaign.run.sweep()
    for (world, task), spec in campaign.specs.items():
        for method in settings.methods:
            chain = campaign.run.chain(world, task, method.name)
            stack.enter_context(chain.owned())
            chain.sweep(everything=True)
            if waiting := waits(settings, spec):
                ask_first(chain, _judge(campaign))
            plan = ChainPlan(
                chain,
                settings.starts,
                round_size=settings.round_size,
                remembers=method.memory == "chain" and not apart,
                begins_with=campaign.begins_with,
                until_successes=settings.until_successes,
                further=spec.starts,
                max_starts=settings.max_starts,
                retry_invalid=retry_invalid,
                waits=waiting,
            )
            loaded = plan.take_loaded()
            damaged += loaded.damaged
            patience = Patience(campaign.pauses, (e.record.end for e in loaded.episodes))
            chain_run = ChainRun(
                chain, f"{world}:{task}", method, plan, patience, shared, retry_invalid
            )
            chain_run.resumed = campaign.resumed
            chains.append(chain_run)
            remaining = plan.remaining()
            board.add_chain(loaded, None, settings.until_successes)
            line = board.lines[chain.path.name]
            line.learns = method.memory == "chain"
            line.wanted = None if remaining is None else line.episodes + plan.invalid + remaining
    return chains, damaged


def _allocation(campaign: Campaign, chains: Sequence[ChainRun]) -> Allocation | None:
    """Who decides where the budget goes; None where the chains advance side by side."""
    if campaign.settings.order != "allocate":
        return None
    return Allocation(campaign.run.path, (c.key for c in chains))


def _judge(campaign: Campaign) -> Judge:
    """The judge; `refuse_without_operator` has checked that there is one."""
    assert campaign.judge is not None
    return campaign.judge


def _budget_kept(settings: Settings) -> str:
    """That an earlier command's budget holds, where this one gives none."""
    if not settings.keeps_budget:
        return ""
    return (
        f"the run's budget of ${settings.campaign_usd:.2f}, set by an earlier command, still holds;"
        " --campaign-usd gives it another"
    )


def _judged_later(campaign: Campaign) -> str:
    """What a user should know before a campaign that waits for no verdict."""
    by_person = any(spec.success == "operator" for spec in campaign.specs.values())
    if not by_person or campaign.settings.judge == "now":
        return ""
    return LATER.format(campaign.run.path)


def _handles(campaign: Campaign) -> int:
    """Files that a campaign may have open at once: a lock a chain, and of each attempt a lock, a
    log and a connection.
    """
    settings = campaign.settings
    chains = len(campaign.specs) * len(settings.methods)
    slots = settings.slots or settings.parallel * EPISODES_PER_CORE
    return HANDLES + chains + 3 * slots


def _engine(campaign: Campaign, useful: int) -> Engine:
    """The engine that was asked for, with slots for as many as may be of use. One who computes here
    leaves its core to nobody, so few episodes share one.
    """
    settings = campaign.settings
    if any(spec.exclusive for spec in campaign.specs.values()):
        from capex.campaign.engines.threads import Threads

        return Threads(campaign, 1)
    processes = min(settings.parallel, useful)
    each = EPISODES_OF_A_BUSY_CORE if campaign.computes_here else EPISODES_PER_CORE
    if settings.ray is not None:
        from capex.campaign.engines.ray import RayCluster

        return RayCluster(campaign, settings.ray, settings.slots, settings.ray_resources)
    if settings.parallel > 1:
        from capex.campaign.engines.processes import Processes

        return Processes(campaign, processes, settings.slots or processes * each)
    from capex.campaign.engines.threads import Threads

    return Threads(campaign, settings.slots or each)


@contextlib.contextmanager
def _interrupts() -> Iterator[StopRequest]:
    """Ctrl-C once: finish what runs; twice, or SIGTERM: cut it off. Outside the main thread signals
    stay as they are.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return

    def interrupted(number: int, frame: FrameType | None) -> None:
        request.at_once = request.stop or number == signal.SIGTERM
        request.stop, request.reason = True, "interrupted"

    before = {s: signal.signal(s, interrupted) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
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
            why = os.strerror(error.errno) if error.errno else error
            reason = "is full" if error.errno == errno.ENOSPC else f"failed ({why})"
            sentences.append(
                f"the disk that holds {run.path} {reason}; what was finished is kept: make room and"
                " give the same command again"
            )
        else:
            sentences.append(str(error))
    unique = list(dict.fromkeys(sentences))
    if len(unique) == 1 and isinstance(first, CapexError):
        return first
    cause = first.error if isinstance(first, Failed) else first
    code = cause.code if isinstance(cause, CapexError) else ErrorCode.CANNOT_WRITE
    return CapexError("; ".join(unique), code=code)


def collect(
    names: str | Sequence[str] = (),
    *,
    config: str | Path | None = None,
    model: str | Model | None = None,
    branch: bool = False,
    retry_invalid: bool = False,
    yes: bool = False,
    confirm: Callable[[str], bool] | None = None,
    watch: Watch | None = None,
    pauses: Pauses | None = None,
    operator: Judge | str | None = None,
    person: Judge | None = None,
    depth: Depth = Depth.WHOLE,
    **options: Any,
) -> LoadedRun:
    """Run a campaign, or continue it, and return what the run directory then holds.

    names: WORLD:TASK[,TASK..|all], or several of those. options: the names of
    `campaign.settings.OPTIONS`, of which `out` is needed. model: a name, or a model of your own as
    long as everything stays in this process. branch: changed settings go into a run beside it that
    begins with its episodes. A campaign that may cost more than
    $25 needs `campaign_usd`, or `yes`, or a `confirm` that is told what it may cost and answers
    yes. watch: told of every event. operator: who arranges and judges where a world cannot: one of
    your own, or "person" or "scripted"; person: who is asked where it is a person. depth: of the
    episodes that are returned, `Depth.HEADS` without their decisions. A campaign that
    ends early because something failed raises that, after everything else has run; Ctrl-C raises
    KeyboardInterrupt once the store is whole.
    """
    named = operator if isinstance(operator, str) else None
    asked_person = person if isinstance(operator, str | None) else operator
    ready = prepare(
        names, config=config, model=model, operator=named, named_by_user=True, **options
    )
    people = people_of(ready.settings, ready.specs, asked_person)
    refuse_without_operator(ready.settings, ready.specs, people.judge)
    refuse_small_budgets(ready)
    if not yes:
        ask_before_spending(ready, confirm)
    run, price = open_campaign(
        ready.settings.out,
        ready.settings,
        ready.price,
        stand_in=ready.model.stand_in,
        branch=branch,
        gl_backend=gl_backend(),
        operator=people.named,
    )
    settings = _with_own_prompt(ready.settings, run)
    asked = settings.model if model is None or isinstance(model, str) else ready.model
    campaign = Campaign(
        run,
        settings,
        ready.specs,
        asked,
        price=price,
        judge=people.judge,
        extensions=people.extensions,
        stand_in=ready.model.stand_in,
        computes_here=ready.model.computes_here,
        retry_invalid=retry_invalid,
        pauses=pauses or Pauses(),
    )
    return run_campaign(campaign, watch, depth)


def demonstrate(
    who: str | Demonstrator,
    names: str | Sequence[str],
    *,
    out: str | Path,
    retry_invalid: bool = False,
    watch: Watch | None = None,
    person: Judge | None = None,
    **options: Any,
) -> LoadedRun:
    """A campaign of one who asks no model: "expert", or "human" where a world's dataset holds what
    people did, or a demonstrator of your own, in this process. options: starts, parallel, ray,
    slots. Its episodes are independent of each other. person: who arranges a robot's scene
    in no simulated room; its attempts are judged later.
    """
    worlds.allow(*([names] if isinstance(names, str) else names))
    tasks = tuple(parse_names(names))
    asked: Asked = who if isinstance(who, str) else {who.name: who}
    if isinstance(who, str):
        if who not in WITHOUT_MODEL:
            raise UnknownName("demonstrator", who, WITHOUT_MODEL)
        for world, _ in tasks:
            require_offer(who, world)
    given = {name: OPTIONS[name].checked(f"--{name}", v) for name, v in options.items()}
    name = who if isinstance(who, str) else who.name
    method = method_without_model(name)
    settings = Settings(tasks=tasks, methods=(method,), model=name, out=Path(out), **given)
    specs = specs_of(settings)
    refuse_sharing(settings, specs)
    if any(spec.exclusive for spec in specs.values()):
        # Whose truth the expert reads, the scripted operator arranges and judges.
        has_room = load(HAS_ROOM)
        by_hand = person is not None and not all(has_room(spec.world) for spec in specs.values())
        settings = replace(settings, operator="person" if by_hand else "scripted")
    else:  # nobody stands by: where a person judges, `capex judge` asks
        settings = replace(settings, judge="later")
    refuse_starts(settings, specs)
    people = people_of(settings, specs, person)
    stand_in = demonstrator(asked, method).stand_in
    run = open_without_model(settings, stand_in=stand_in, gl_backend=gl_backend())
    campaign = Campaign(
        run,
        settings,
        specs,
        asked,
        stand_in=stand_in,
        computes_here=True,
        judge=people.judge,
        extensions=people.extensions,
        retry_invalid=retry_invalid,
    )
    return run_campaign(campaign, watch)


def _with_own_prompt(settings: Settings, run: Run) -> Settings:
    """A user's prompt is kept with the run, and read from there."""
    if settings.prompt is None:
        return settings
    kept = run.path / PROMPT
    if not kept.exists():
        write_bytes(kept, settings.prompt.read_bytes())
    return replace(settings, prompt=kept)
