"""Runs a campaign whose run directory is open: its chains, its engine, its driver; signals in,
events out.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import FrameType

from capex.campaign import ceiling as ce
from capex.campaign import events as ev
from capex.campaign.allocation import Allocation
from capex.campaign.board import Board
from capex.campaign.chain import ChainPlan
from capex.campaign.check import attempt_settings
from capex.campaign.driver import ChainRun, Driver, StopRequest
from capex.campaign.engines import (
    EPISODES_OF_A_BUSY_CORE,
    EPISODES_PER_CORE,
    Campaign,
    Engine,
    Failed,
)
from capex.campaign.judging import LATER, Judge, ask_first, waits
from capex.campaign.manifest import moved_from, note_operator
from capex.campaign.patience import Patience
from capex.campaign.repair import left_out_sentence, refuse_forgotten
from capex.campaign.settings import Settings
from capex.errors import CapexError, ErrorCode
from capex.run import Damaged, Depth, LoadedRun, load_run
from capex.run.machine import allow_handles
from capex.run.spend import Spend
from capex.run.store import Run

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
