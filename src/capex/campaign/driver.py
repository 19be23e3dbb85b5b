"""The loop of a campaign: hands out places of its chains, hears what became of them, and knows when
to stop.

The driver owns the chains; workers only run attempts. Chains advance side by side, the one that is
furthest behind first, so that arms stay comparable at any moment. What a place is shown does not
depend on any of this.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from capex.campaign import events as ev
from capex.campaign.attempt import CutOff, Finished, Invalid, Job, Moved
from capex.campaign.board import FORECAST_AFTER, Board
from capex.campaign.chain import ChainPlan, Place, counted_attempts, silent_sentence
from capex.campaign.engines import Engine, Failed, Lost, Said
from capex.campaign.patience import Patience
from capex.errors import CapexError
from capex.method.presets import MethodSettings
from capex.run.store import Chain, write_json

LIVE = "live.json"
HEARTBEAT_S = 2.0
POLL_S = 0.25
LOSSES = 3  # workers that may die over one place before its chain stops
Tell = Callable[[ev.Event], None]


@dataclass
class ChainRun:
    """A chain while it runs."""

    chain: Chain
    name: str  # WORLD:TASK
    arm: MethodSettings
    plan: ChainPlan
    patience: Patience
    retry_invalid: bool = False
    resume_at: float = 0.0  # monotonic
    ended: bool = False
    # Invalidated attempts that count, by start.
    counted: dict[int, int] = field(default_factory=dict)
    losses: dict[int, int] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """WORLD--TASK--ARM."""
        return self.chain.path.name

    def attempts(self, start: int) -> int:
        """Invalidated attempts at a start so far."""
        if start not in self.counted:
            self.counted[start] = 0 if self.retry_invalid else counted_attempts(self.chain, start)
        return self.counted[start]


@dataclass
class Wish:
    """What the user wants of a running campaign; signal handlers write it."""

    stop: bool = False
    at_once: bool = False
    reason: str = ""


@dataclass(frozen=True)
class _Running:
    run: ChainRun
    place: Place


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
    ):
        self._path, self._chains, self._engine, self._board, self._tell_others = (
            path,
            chains,
            engine,
            board,
            tell,
        )
        self._deadline = None if hours is None else time.monotonic() + 3600 * hours
        self._running: dict[int, _Running] = {}
        self._ticket = 0
        self._beat = 0.0
        self._forecast_told = board.total.episodes >= FORECAST_AFTER
        self.failures: list[Failed | CapexError] = []
        self.stopping = ""
        self._spent = False  # whether the campaign's dollars ended a chain

    def run(self, wish: Wish) -> None:
        """Until everything is done, or the wish is to stop."""
        try:
            while not wish.at_once:
                self._look_at_the_clock(wish)
                self._hand_out()
                if not self._running and not self._paused():
                    break
                said = self._engine.next(self._patience_s())
                if said is not None:
                    self._hear(said)
                self._live()
            if wish.at_once:
                self._stop_at_once(wish.reason)
        except BaseException:
            self._engine.stop()
            raise
        finally:
            with contextlib.suppress(OSError):
                (self._path / LIVE).unlink(missing_ok=True)

    @property
    def why(self) -> str:
        """How it ended."""
        if self.stopping or self.failures:
            return "stopped"
        return "out of budget" if self._spent else "finished"

    def _look_at_the_clock(self, wish: Wish) -> None:
        if self._deadline is not None and time.monotonic() >= self._deadline and not self.stopping:
            self._finish_what_runs("the campaign's hours are over")
        if wish.stop and not self.stopping:
            self._finish_what_runs(wish.reason)

    def _finish_what_runs(self, reason: str) -> None:
        self.stopping = reason
        self._tell(ev.Stopping(False, len(self._running), reason))

    def _hand_out(self) -> None:
        """Submit what may run, furthest behind first, while there are slots."""
        while not self.stopping and len(self._running) < self._engine.slots:
            ready = [
                (place.position, order, run, place)
                for order, run in enumerate(self._chains)
                for place in self._ready(run)
            ]
            if not ready:
                break
            *_, run, place = min(ready, key=lambda r: r[:2])
            self._ticket += 1
            run.plan.begin(place)
            self._running[self._ticket] = _Running(run, place)
            self._tell(
                ev.EpisodeBegan(run.key, place.start, place.position, run.attempts(place.start) + 1)
            )
            self._engine.submit(
                self._ticket, Job(run.chain, run.name, run.arm, place, run.plan.memory)
            )
        for run in self._chains:
            if not run.ended and run.plan.done and not self.stopping:
                self._end(
                    run,
                    (
                        "every start has run"
                        if run.plan.remaining() is not None
                        else f"{run.plan.successes} successes"
                    ),
                )

    def _ready(self, run: ChainRun) -> list[Place]:
        if (
            run.ended
            or time.monotonic() < run.resume_at
            or (run.patience.wary and run.plan.running)
        ):
            return []
        return run.plan.ready()

    def _paused(self) -> bool:
        return not self.stopping and any(not run.ended and run.plan.ready() for run in self._chains)

    def _patience_s(self) -> float:
        waits = [run.resume_at - time.monotonic() for run in self._chains if not run.ended]
        return max(0.0, min([POLL_S, *(w for w in waits if w > 0)]))

    def _hear(self, said: Said) -> None:
        job, what = self._running[said.ticket], said.what
        run, place = job.run, job.place
        if isinstance(what, Moved):
            self._tell(
                ev.EpisodeMoved(
                    run.key,
                    place.start,
                    what.phase,
                    what.decision,
                    what.steps,
                    what.requests,
                    what.cost_usd,
                )
            )
            return
        del self._running[said.ticket]
        if isinstance(what, Finished):
            self._finished(run, place, what)
        elif isinstance(what, Invalid):
            self._invalid(run, place, what)
        elif isinstance(what, CutOff):
            run.plan.drop(place)
            self._tell(ev.AttemptCutOff(run.key, place.start, what.why))
            if what.error is not None:
                self._spent = True
                self._end(run, what.why)
        elif isinstance(what, Lost):
            self._lost(run, place, what)
        else:
            run.plan.drop(place)
            self.failures.append(what)
            self._tell(ev.AttemptCutOff(run.key, place.start, what.sentence))
            self._end(run, "failed", what.sentence)
            if isinstance(what.error, OSError) and not self.stopping:
                self._finish_what_runs("the disk failed")

    def _finished(self, run: ChainRun, place: Place, what: Finished) -> None:
        record = run.plan.settle(place)
        verdict = run.patience.judge(what, 0)
        values = (
            what.success,
            what.end,
            what.steps,
            what.decisions,
            what.requests,
            what.cost_usd,
            what.seconds,
            str(what.path),
        )
        self._tell(ev.EpisodeEnded(run.key, place.start, place.position, *values))
        if verdict.step == "stop" and not run.ended:
            sentence = silent_sentence(run.name, record)
            self.failures.append(CapexError(sentence))
            self._end(run, "the model calls no tool", sentence)
        if not self._forecast_told and (forecast := self._board.forecast()) is not None:
            self._forecast_told = True
            self._tell(forecast)

    def _invalid(self, run: ChainRun, place: Place, what: Invalid) -> None:
        run.counted[place.start] = run.attempts(place.start) + what.counts
        # By an attempt of the same round: this one says no more than that.
        paused = time.monotonic() < run.resume_at
        verdict = run.patience.judge(what, run.counted[place.start], paused=paused)
        then = {"again": "again", "give up": "recorded as invalid", "stop": "chain stopped"}[
            verdict.step
        ]
        self._tell(ev.AttemptInvalid(run.key, place.start, str(what.error), then, what.counts))
        if verdict.step == "give up":
            run.plan.give_up(place)
        else:
            run.plan.drop(place)
        if verdict.step == "stop":
            self.failures.append(what.error)
            self._end(run, "the model refuses", str(what.error))
        elif verdict.pause_s:
            run.resume_at = time.monotonic() + verdict.pause_s
            self._tell(ev.ChainPaused(run.key, verdict.pause_s, str(what.error)))

    def _lost(self, run: ChainRun, place: Place, what: Lost) -> None:
        run.chain.sweep()
        run.plan.drop(place)
        run.losses[place.start] = run.losses.get(place.start, 0) + 1
        self._tell(ev.AttemptCutOff(run.key, place.start, what.reason))
        if run.losses[place.start] >= LOSSES:
            sentence = f"{what.reason} {LOSSES} times over start {place.start} of {run.name}"
            self.failures.append(CapexError(sentence))
            self._end(run, "failed", sentence)

    def _end(self, run: ChainRun, why: str, error: str = "") -> None:
        if not run.ended:
            run.ended = True
            self._tell(ev.ChainEnded(run.key, why, error))

    def _stop_at_once(self, reason: str) -> None:
        self.stopping = reason
        self._tell(ev.Stopping(True, len(self._running), reason))
        self._engine.stop()
        while (said := self._engine.next(0.0)) is not None:
            if said.ticket in self._running and isinstance(said.what, Finished):
                self._hear(said)
        for job in self._running.values():
            job.run.chain.sweep(everything=True)
            self._tell(ev.AttemptCutOff(job.run.key, job.place.start, reason))
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
            write_json(self._path / LIVE, live_note(self._board))


def live_note(board: Board) -> dict[str, Any]:
    """What runs now, for whoever looks from outside."""
    chains = {}
    for line in board.lines.values():
        now = [
            {k: v for k, v in vars(moved).items() if k != "chain"} for moved in line.now.values()
        ]
        chains[line.chain] = {
            **{name: getattr(line, name) for name in ("wanted", "until", "state", "paused_until")},
            "now": now,
        }
    here = {"process": os.getpid(), "host": socket.gethostname()}
    return {"unix_time": time.time(), **here, "hours_left": board.hours_left, "chains": chains}


def from_live(board: Board, note: dict[str, Any]) -> None:
    """Put a live note onto a board."""
    for name, chain in note.get("chains", {}).items():
        if (line := board.lines.get(name)) is not None:
            line.wanted, line.until = chain["wanted"], chain["until"]
            line.state, line.paused_until = chain["state"], chain["paused_until"]
            line.now = {m["start"]: ev.EpisodeMoved(name, **m) for m in chain["now"]}
            # What runs has not ended.
            line.taken = {
                start: taken for start, taken in line.taken.items() if start not in line.now
            }
