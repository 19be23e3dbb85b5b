"""The loop of a campaign: hands out slots of its chains, hears what became of them, and knows when
to stop.

The driver owns the chains; workers only run attempts. Chains advance side by side, the one that is
furthest behind first, so that methods stay comparable at any moment. What a slot is shown does not
depend on any of this.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from capex import codec
from capex.campaign import events as ev
from capex.campaign.allocation import Allocation, Grants
from capex.campaign.attempt import AttemptJob, AttemptSettings, CutOff, Invalid, Progress
from capex.campaign.board import FORECAST_AFTER, Board
from capex.campaign.chain import ChainPlan, Slot, counted_attempts, silent_sentence
from capex.campaign.engines import Engine, Failed, Lost, Message
from capex.campaign.extensions import ExtensionFactory
from capex.campaign.judging import make_way, unjudged_sentence
from capex.campaign.scheduling import TRIES, Patience, Turns
from capex.campaign.settings import Order
from capex.errors import CapexError, DamagedFile, ErrorCode, RigFault
from capex.method.memory import Memory
from capex.method.presets import MethodSettings
from capex.run import control, load_episode
from capex.run.files import read_json, write_bytes
from capex.run.store import Chain
from capex.run.summary import Summary, summarize
from capex.untrusted import damage

LIVE = "live.json"
HEARTBEAT_S = 2.0
POLL_S = 0.25
REQUESTS_S = 0.1  # how often the driver looks for what people ask of it
LOSSES = 3  # workers that may die over one slot before its chain stops
THEN = {
    "again": "again",
    "give up": "recorded as invalid",
    "stop": "chain stopped",
    "end": "the campaign ends",
}
NEVER_ANSWERED = (
    "the model has not answered once in {} tries ({}); start its server or correct its address, and"
    " give the same command again"
)
Tell = Callable[[ev.Event], None]
# By number of an episode that resumes from a saved state: the extension that does so, and the
# memory that its origin was shown.
ResumedSlots = Mapping[int, tuple[ExtensionFactory, Memory]]


@dataclass
class ChainRun:
    """A chain while it runs."""

    chain: Chain
    name: str  # WORLD:TASK
    method: MethodSettings
    plan: ChainPlan
    patience: Patience
    settings: AttemptSettings
    retry_invalid: bool = False
    resume_at: float = 0.0  # monotonic
    ended: bool = False
    # Invalidated attempts that count, by start.
    counted: dict[int, int] = field(default_factory=dict)
    losses: dict[int, int] = field(default_factory=dict)
    resumed: ResumedSlots | None = None  # where its episodes resume from saved states
    fitted: tuple[Memory, Memory] | None = None  # the last memory, and as it was sent

    @property
    def key(self) -> str:
        """WORLD--TASK--ARM."""
        return self.chain.path.name

    def job(self, slot: Slot) -> AttemptJob:
        """The job of a slot for a worker."""
        plan, memory = self.plan, self.plan.memory
        extensions: tuple[ExtensionFactory, ...] = ()
        if self.resumed is not None:
            resume, recalled = self.resumed[slot.start]
            extensions = (resume,)
            if self.method.memory == "chain" and not plan.remembers:
                memory = recalled
        return AttemptJob(
            self.chain,
            self.name,
            self.method,
            slot,
            self._fit(memory),
            self.settings,
            plan.verdicts_seen,
            extensions=extensions,
        )

    def _fit(self, memory: Memory) -> Memory:
        """A memory as it is sent; once for all episodes that share it."""
        if self.fitted is None or self.fitted[0] is not memory:
            self.fitted = memory, memory
            # Labels that cannot be learned from fail the attempt, and so stop this chain alone.
            with contextlib.suppress(ArithmeticError, ValueError):
                self.fitted = memory, memory.fitted(self.method)
        return self.fitted[1]

    def attempts(self, start: int) -> int:
        """Invalidated attempts at a start so far."""
        if start not in self.counted:
            self.counted[start] = 0 if self.retry_invalid else counted_attempts(self.chain, start)
        return self.counted[start]


@dataclass
class StopRequest:
    """Whether the user wants a running campaign to stop; signal handlers write it."""

    stop: bool = False
    at_once: bool = False
    reason: str = ""


@dataclass(frozen=True)
class _Running:
    run: ChainRun
    slot: Slot


class Driver:
    """Runs the chains to their end."""

    def __init__(
        self,
        path: Path,
        chains: list[ChainRun],
        engine: Engine,
        board: Board,
        tell: Tell,
        *,
        hours: float | None = None,
        order: Order = "interleave",
        allocation: Allocation | None = None,
        untested: int | None = None,
    ):
        """`untested`: attempts of a chain at once until the model has answered for the first time;
        None: no limit.
        """
        self._untested = None if board.answered else untested
        self._path, self._chains, self._engine = path, chains, engine
        self._board, self._tell_others = board, tell
        self._deadline = None if hours is None else time.monotonic() + 3600 * hours
        self._running: dict[int, _Running] = {}
        self._ticket = 0
        self._turns, self._allocation = Turns(chains, order, self._allows), allocation
        self._beat = self._looked = 0.0
        self._forecast_told = board.total.episodes >= FORECAST_AFTER
        self.failures: list[Failed | CapexError] = []
        self.stopping = ""
        self._spent = False  # whether the campaign's dollars ended a chain
        self._waiting = False  # whether a chain waits for a verdict
        self._held = False  # whether somebody asked for a pause

    def run(self, request: StopRequest) -> None:
        """Until everything is done, or it is asked to stop."""
        control.forget(self._path)
        try:
            if self._allocation is not None and self._allocation.last is not None:
                self._tell(_allocated(self._allocation.last))
            while not request.at_once:
                self._look_at_the_clock(request)
                self._hand_out()
                if not self._running and not self._paused() and not self._held:
                    break
                message = self._engine.next(self._patience_s())
                if message is not None:
                    self._hear(message)
                self._live()
            if request.at_once:
                self._stop_at_once(request.reason)
        except BaseException:
            self._engine.stop()
            raise
        finally:
            with contextlib.suppress(OSError):
                (self._path / LIVE).unlink(missing_ok=True)
                control.forget(self._path)

    @property
    def why(self) -> str:
        """How it ended."""
        if self.stopping or self.failures:
            return "stopped"
        if self._waiting:
            return "waiting for verdicts"
        return "out of budget" if self._spent else "finished"

    def _look_at_the_clock(self, request: StopRequest) -> None:
        if self._deadline is not None and time.monotonic() >= self._deadline and not self.stopping:
            self._finish_what_runs("the campaign's hours are over")
        if request.stop and not self.stopping:
            self._finish_what_runs(request.reason)
            self._engine.end_waits()  # a stop from a page does not: a paused episode is finished
        if time.monotonic() - self._looked < REQUESTS_S:
            return
        self._looked = time.monotonic()
        asked = control.requested(self._path, "stop")
        if asked is not None and not self.stopping:
            self._finish_what_runs(f"{asked.get('by')} asked for it")
        self._held = not self.stopping and control.requested(self._path, "pause") is not None

    def _finish_what_runs(self, reason: str) -> None:
        self.stopping = reason
        self._tell(ev.Stopping(False, len(self._running), reason))

    def _hand_out(self) -> None:
        """Submit what may run while there are slots: furthest behind first, or chain by chain."""
        while not self.stopping and not self._held and len(self._running) < self._engine.slots:
            taken = self._turns.take()
            if taken is None and self._grant():
                continue
            if taken is None:
                break
            run, slot = taken
            self._ticket += 1
            make_way(run.chain, slot.start)
            run.plan.begin(slot)
            self._running[self._ticket] = _Running(run, slot)
            self._tell(
                ev.EpisodeBegan(run.key, slot.start, slot.position, run.attempts(slot.start) + 1)
            )
            carried_usd = self._board.counted_usd(run.key, slot.start)
            self._engine.submit(self._ticket, replace(run.job(slot), carried_usd=carried_usd))
        for run in self._turns.over() if not self.stopping else ():
            counted = f"{run.plan.successes} successes"
            whole = run.plan.remaining() is not None
            waiting = run.plan.waits_for_verdicts
            self._waiting = self._waiting or waiting
            error = unjudged_sentence(len(run.plan.unjudged), self._path) if waiting else ""
            self._end(run, "every start has run" if whole else counted, error)

    def _allows(self, run: ChainRun, slot: Slot) -> bool:
        if self._untested is not None and run.plan.running >= self._untested:
            return False
        return self._allocation is None or self._allocation.allows(run.key, slot.position)

    def _grant(self) -> bool:
        """Once everything that was granted has ended, grant the next attempts; False where there
        is nothing to grant.
        """
        if self._allocation is None or self._running:
            return False
        slots = {run.key: run.plan.ready() for run in self._chains if not run.ended}
        begun = {key: ready[0].position for key, ready in slots.items() if ready}
        paused = any(self._allocation.allows(key, position) for key, position in begun.items())
        if paused or not begun:
            return False
        self._tell(_allocated(self._allocation.decide(begun, self._board.lines)))
        self._turns.all_changed()
        return True

    def _paused(self) -> bool:
        return not self.stopping and any(not run.ended and run.plan.ready() for run in self._chains)

    def _patience_s(self) -> float:
        return min(POLL_S, self._turns.wait_s())

    def _hear(self, message: Message) -> None:
        job, what = self._running[message.ticket], message.what
        run, slot = job.run, job.slot
        if isinstance(what, Progress):
            if self._untested is not None and what.requests:
                self._untested = None
                self._turns.all_changed()
            self._tell(ev.EpisodeMoved(run.key, slot.start, **vars(what)))
            return
        del self._running[message.ticket]
        self._turns.changed(run)
        if (above := self._board.new_overruns(run.key, slot.start)) is not None:
            self._tell(ev.CostAboveBound(run.key, slot.start, *above))
        if isinstance(what, Summary):
            self._finished(run, slot, what)
        elif isinstance(what, Invalid):
            self._invalid(run, slot, what)
        elif isinstance(what, CutOff):
            run.plan.drop(slot)
            self._tell(ev.AttemptCutOff(run.key, slot.start, what.why))
            if what.over:
                self._finish_what_runs(what.why)
            elif what.error is not None:
                self._spent = True
                self._end(run, what.why)
        elif isinstance(what, Lost):
            self._lost(run, slot, what)
        else:
            run.plan.drop(slot)
            self.failures.append(what)
            self._tell(ev.AttemptCutOff(run.key, slot.start, what.sentence))
            self._end(run, "failed", what.sentence)
            if isinstance(what.error, OSError) and not self.stopping:
                self._finish_what_runs("the disk failed")

    def _finished(self, run: ChainRun, slot: Slot, what: Summary) -> None:
        if what.verdict is not None and what.verdict.verdict == "invalid":
            run.plan.drop(slot)
            reason = f"judged invalid by {what.verdict.by}"
            self._tell(ev.AttemptInvalid(run.key, slot.start, reason, "again"))
            return
        record = run.plan.settle(slot)
        verdict = run.patience.judge(what, 0)
        self._tell(ev.EpisodeEnded(run.key, what))
        if what.by_person:  # verdicts may have been changed meanwhile
            self._board.lines[run.key].rejudge(run.plan.outcomes)
        if verdict.step == "stop" and not run.ended:
            sentence = silent_sentence(run.name, record)
            self.failures.append(CapexError(sentence, code=ErrorCode.GIVEN_UP))
            self._end(run, "the model calls no tool", sentence)
        if not self._forecast_told and (forecast := self._board.forecast()) is not None:
            self._forecast_told = True
            self._tell(forecast)

    def _invalid(self, run: ChainRun, slot: Slot, what: Invalid) -> None:
        run.counted[slot.start] = run.attempts(slot.start) + what.counts
        # By an attempt of the same round: this one says no more than that.
        paused = time.monotonic() < run.resume_at
        answered = self._board.answered
        counted = run.counted[slot.start]
        verdict = run.patience.judge(what, counted, paused=paused, answered=answered)
        then = THEN[verdict.step]
        if isinstance(what.error, RigFault):
            then = "the campaign stops" if what.over else "again, the robot is said to be fine"
        self._tell(ev.AttemptInvalid(run.key, slot.start, str(what.error), then, what.counts))
        if verdict.step == "give up":
            run.plan.give_up(slot)
        else:
            run.plan.drop(slot)
        if what.over:
            self.failures.append(what.error)
            self._finish_what_runs("the robot is not fine")
        elif verdict.step == "stop":
            self.failures.append(what.error)
            self._end(run, "the model refuses", str(what.error))
        elif verdict.step == "end" and not self.stopping:
            sentence = NEVER_ANSWERED.format(TRIES, what.error)
            self.failures.append(CapexError(sentence, code=ErrorCode.GIVEN_UP))
            self._end(run, "the model has never answered", sentence)
            self._finish_what_runs("the model has never answered")
        elif verdict.pause_s:
            run.resume_at = time.monotonic() + verdict.pause_s
            self._tell(ev.ChainPaused(run.key, verdict.pause_s, str(what.error)))

    def _lost(self, run: ChainRun, slot: Slot, what: Lost) -> None:
        run.chain.sweep()
        if (episode_dir := run.chain.episode(slot.start)).is_dir():
            # Its worker died between the last rename and the word of it.
            with contextlib.suppress(DamagedFile):
                self._finished(run, slot, summarize(load_episode(episode_dir)))
                return
        run.plan.drop(slot)
        run.losses[slot.start] = run.losses.get(slot.start, 0) + 1
        self._tell(ev.AttemptCutOff(run.key, slot.start, what.reason))
        if run.losses[slot.start] >= LOSSES:
            sentence = f"{what.reason} {LOSSES} times over start {slot.start} of {run.name}"
            self.failures.append(CapexError(sentence, code=ErrorCode.GIVEN_UP))
            self._end(run, "failed", sentence)

    def _end(self, run: ChainRun, why: str, error: str = "") -> None:
        if not run.ended:
            run.ended = True
            self._tell(ev.ChainEnded(run.key, why, error))

    def _stop_at_once(self, reason: str) -> None:
        self.stopping = reason
        self._tell(ev.Stopping(True, len(self._running), reason))
        self._engine.stop()
        while (message := self._engine.next(0.0)) is not None:
            if message.ticket in self._running and isinstance(message.what, Summary):
                self._hear(message)
        for job in self._running.values():
            job.run.chain.sweep(everything=True)
            self._tell(ev.AttemptCutOff(job.run.key, job.slot.start, reason))
        self._running.clear()

    def _tell(self, event: ev.Event) -> None:
        self._board(event)
        self._tell_others(event)

    def _live(self) -> None:
        """Leave a note of what runs now for `capex status`, every other second."""
        if time.monotonic() - self._beat < HEARTBEAT_S:
            return
        self._beat = time.monotonic()
        with contextlib.suppress(OSError):  # nothing depends on it
            # On one line: with a thousand chains that takes a fifth of the time.
            write_bytes(self._path / LIVE, json.dumps(live_note(self._board)).encode())


def _allocated(grants: Grants) -> ev.Allocated:
    worth = {name: i.middle for name, i in grants.worth.items()}
    return ev.Allocated(grants.number, grants.given, worth, grants.why)


@dataclass(frozen=True)
class LiveChain:
    """A chain of which something runs, as `ChainLine` has it."""

    wanted: int | None
    until: int | None
    state: str
    paused_until: float | None
    per_dollar: float | None
    now: tuple[ev.EpisodeMoved, ...]


@dataclass(frozen=True)
class LiveNote:
    """What runs now, for whoever looks from outside: live.json."""

    unix_time: float
    process: int
    host: str
    hours_left: float | None
    chains: Mapping[str, LiveChain]


def live_note(board: Board) -> dict[str, Any]:
    """The note of a driver."""
    chains = {
        line.chain: LiveChain(
            line.wanted,
            line.until,
            line.state,
            line.paused_until,
            line.per_dollar,
            tuple(line.now.values()),
        )
        for line in board.lines.values()
    }
    here = time.time(), os.getpid(), socket.gethostname()
    note: dict[str, Any] = codec.to_json(LiveNote(*here, board.hours_left, chains))
    return note


def read_note(run: Path) -> LiveNote | None:
    """The note that lies in a run; None where there is none, or something else."""
    try:
        with damage(run / LIVE):
            note = codec.from_json(read_json(run / LIVE), LiveNote)
            return note
    except DamagedFile:
        return None


def from_live(board: Board, note: LiveNote) -> None:
    """Put a live note onto a board."""
    for name, chain in note.chains.items():
        if (line := board.lines.get(name)) is not None:
            line.wanted, line.until = chain.wanted, chain.until
            line.state, line.paused_until = chain.state, chain.paused_until
            line.per_dollar = chain.per_dollar
            line.now = {moved.start: moved for moved in chain.now}
            # What runs has not ended.
            line.taken = {
                start: taken for start, taken in line.taken.items() if start not in line.now
            }
