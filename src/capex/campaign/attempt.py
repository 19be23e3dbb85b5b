"""One attempt: an episode run and written into its chain, or kept apart as invalid, or cut off.

This is what workers do, in whatever process or machine they are: `Work` is what all attempts of a
campaign share, `Job` names one of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from capex.campaign.chain import Place
from capex.campaign.core import Core, Stopped, Turn, Waiting
from capex.campaign.ledger import Budget, Ledger, Spending, budgets_for
from capex.errors import BudgetExceeded, CapexError, PhysicsDiverged
from capex.method.demonstrator import (
    DEFAULT_SAMPLING,
    NO_LIMITS,
    Deciding,
    Ended,
    Event,
    Executed,
    Hooks,
    Limits,
    Replied,
    run_episode,
)
from capex.method.memory import Memory
from capex.method.presets import MethodSettings
from capex.method.record import from_json
from capex.models import (
    AttemptObserver,
    Model,
    ModelError,
    Request,
    RequestAttempt,
    Sampling,
    pictures,
)
from capex.models.continued import Continued
from capex.models.exchanges import ExchangeLog
from capex.models.pictures import ImageFormat
from capex.models.prices import Price
from capex.models.redact import scrub
from capex.run import readable
from capex.run.store import Chain
from capex.worlds import Env, Start

# Errors that will not pass by themselves: a key, a quota, a request that the server does not take,
# a log that has ended.
LASTING = (
    "authentication",
    "permission",
    "quota",
    "not_found",
    "bad_request",
    "context",
    "cassette",
    "script",
)
# Of these the ones that the same requests would meet again; after any other error the next attempt
# continues from what was paid for.
OWN_FAULT = ("bad_request", "context", "cassette", "script")


@dataclass(frozen=True)
class Work:
    """What all attempts of a campaign share."""

    price: Price | None = None
    typed_usd: bool = False  # whether the user asked for the arms' dollar limits
    campaign_usd: Decimal | None = None
    limits: Limits = NO_LIMITS
    sampling: Sampling = DEFAULT_SAMPLING
    template: Path | None = None
    seed: int = 0
    images: ImageFormat = "png"
    keep_all_images: bool = True

    def budgets(self, model: Model, arm: MethodSettings) -> tuple[Budget, ...]:
        """The dollar budgets that hold; one that was typed for a model without a price
        is refused.
        """
        wanted = []
        if arm.episode_usd is not None:
            wanted.append(Budget(Decimal(str(arm.episode_usd)), "episode", typed=self.typed_usd))
        if self.campaign_usd is not None:
            wanted.append(Budget(self.campaign_usd, "campaign", typed=True))
        return budgets_for(model.name, self.price, wanted)


@dataclass(frozen=True)
class Job:
    """One place of a chain with the memory that it is shown."""

    chain: Chain
    name: str  # WORLD:TASK
    arm: MethodSettings
    place: Place
    memory: Memory = field(repr=False)


@dataclass(frozen=True)
class Finished:
    """An episode was written."""

    success: bool | None
    end: str
    steps: int
    decisions: int
    requests: int
    cost_usd: float | None
    seconds: float
    path: Path


@dataclass(frozen=True)
class Invalid:
    """A model or simulator error ended the attempt, which is kept apart. It counts if the model had
    begun to answer or the world failed.
    """

    error: CapexError
    lasting: bool
    counts: bool
    seconds: float
    path: Path | None


@dataclass(frozen=True)
class CutOff:
    """The attempt ended through no fault of its own, because the campaign stops or its budget is
    spent; what it paid for is kept.
    """

    why: str
    error: CapexError | None = None


Outcome = Finished | Invalid | CutOff


@dataclass(frozen=True)
class Moved:
    """How far a running episode has come."""

    phase: str  # queueing, waiting, simulating
    decision: int = 0
    steps: int = 0
    requests: int = 0
    cost_usd: float | None = None


def run_attempt(
    env: Env,
    model: Model,
    work: Work,
    job: Job,
    *,
    spend: Spending | None = None,
    core: Core | None = None,
    tell: Callable[[Moved], None] | None = None,
    subscribers: Sequence[Callable[[Event], object]] = (),
    clock: Callable[[], float] | None = None,
) -> Outcome:
    """Run one attempt and write it into its chain. The clock is that of the attempt's turn on its
    core, unless another is given.
    """
    chain, place, arm = job.chain, job.place, job.arm
    ledger = Ledger(
        work.price,
        work.budgets(model, arm),
        spend,
        {"chain": chain.path.name, "episode": place.start},
    )
    progress = _Progress(ledger, tell)
    turn = Turn(core or Core(), progress.phase)
    if (paid := chain.unfinished(place.start)).is_file() and readable(paid):
        model = Continued(model, paid, turn.replay)
    with turn:
        writer = chain.begin(place.start)
        log = _Guarded(
            ExchangeLog(writer.folder, model, work.images if work.keep_all_images else None), turn
        )
        began = turn.clock()
        try:
            hooks = Hooks(
                ledger=ledger,
                log=log,
                limits=work.limits,
                subscribers=(turn.check, progress, *subscribers),
                template=work.template,
                sampling=work.sampling,
                cache_key=chain.path.name,
                clock=clock or turn.clock,
            )
            start = Start(env.spec.task, place.start, work.seed)
            episode = run_episode(env, start, Waiting(model, turn), arm, job.memory, hooks)
            for png in episode.pictures.values():
                pictures.keep(writer.folder / pictures.IMAGES, png, work.images)
            # What a model writes may quote a key it was shown by mistake: scrubbed before it is
            # written, and remembered as written.
            record = from_json(scrub(episode.record.as_json() | {"position": place.position}))
            timing = {
                "episode_s": episode.seconds,
                "reset_s": episode.reset_s,
                "unix_time": time.time(),
            }
            waits = {"queued_s": turn.queued_s, "model_s": turn.model_s}
            path = writer.commit(record.as_json(), timing | waits, episode.steps)
            turns = len(record.turns)
            return Finished(
                record.success,
                record.end,
                record.steps,
                turns,
                record.requests,
                record.cost_usd,
                episode.seconds,
                path,
            )
        except (ModelError, PhysicsDiverged) as error:
            kind = error.kind if isinstance(error, ModelError) else ""
            lasting, counts = kind in LASTING, not kind or log.answers > 0
            seconds = turn.clock() - began
            if not counts and not lasting:  # the model is down: nothing was tried
                writer.cut_off()
                return Invalid(error, lasting, counts, seconds, None)
            continues = bool(kind) and kind not in OWN_FAULT
            note: dict[str, Any] = {
                "task": env.spec.task,
                "arm": arm.name,
                "start": {"index": place.start, "seed": work.seed},
            }
            note |= {
                "model": model.name,
                "error": str(error),
                "counts": counts,
                "continues": continues,
                "position": place.position,
            }
            note |= {"ledger": ledger.as_json()}
            times = {
                "episode_s": seconds,
                "unix_time": time.time(),
                "answered_s": progress.answered_s,
            }
            return Invalid(
                error,
                lasting,
                counts,
                seconds,
                writer.commit_invalid(scrub(note), times, {}, continues=continues),
            )
        except BudgetExceeded as spent:
            writer.cut_off()
            return CutOff(str(spent), spent)
        except Stopped:
            writer.cut_off()
            return CutOff("stopped")
        except BaseException:
            writer.cut_off()
            raise


class _Guarded:
    """An exchange log that writes nothing more once the campaign has stopped: its folder may be
    gone.
    """

    def __init__(self, log: AttemptObserver, turn: Turn):
        self._log, self._turn = log, turn
        self.answers = 0  # that the model gave to this attempt

    def before(self, request: Request, number: int) -> None:
        """About to send."""
        self._turn.check()
        self._log.before(request, number)

    def after(self, request: Request, number: int, attempt: RequestAttempt) -> None:
        """An attempt ended."""
        self._turn.check()
        self.answers += attempt.answer is not None
        self._log.after(request, number, attempt)

    def again(self, request: Request, number: int, attempt: RequestAttempt) -> None:
        """An attempt made before."""
        self._turn.check()
        self._log.again(request, number, attempt)


class _Progress:
    """Tells how far an episode has come, a few times a decision."""

    def __init__(self, ledger: Ledger, tell: Callable[[Moved], None] | None):
        self._ledger, self._tell = ledger, tell
        self._phase = "queueing"
        self._decision = self._steps = self.requests = 0
        # that the model took for the answers so far: what a continuing attempt need not wait for
        # again
        self.answered_s = 0.0

    def phase(self, phase: str) -> None:
        """What the episode does now."""
        self._phase = phase
        if self._tell is not None:
            known = self._ledger.totals.known_usd if self._ledger.price is not None else None
            cost = None if known is None else float(known)
            self._tell(Moved(phase, self._decision, self._steps, self.requests, cost))

    def __call__(self, event: Event) -> None:
        if isinstance(event, Deciding):
            self._decision = event.number
        elif isinstance(event, Replied):
            self.requests += 1
            self.answered_s += event.reply.seconds
        elif isinstance(event, Executed):
            self._steps += sum(outcome.steps for outcome in event.outcomes)
        elif isinstance(event, Ended):
            self._tell = None
        # A model that computes here changes no phase by which this would be told.
        if isinstance(event, Deciding | Executed):
            self.phase(self._phase)
