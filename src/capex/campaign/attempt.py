"""One attempt: an episode run and written into its chain, or kept apart as invalid, or cut off.

Workers run it, in any process or machine; `AttemptJob` is all that they are given.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from capex.campaign.chain import Slot
from capex.campaign.cleanup import AttemptCleanup, recovered
from capex.campaign.core import Core, Lease, Stopped, Waiting
from capex.campaign.extensions import (
    Attempt,
    CampaignExtension,
    ExtensionFactory,
    closing,
    extensions_of,
)
from capex.campaign.judging import Judge
from capex.campaign.ledger import Budget, Ledger, Spending, budgets_for
from capex.campaign.live import LiveLog
from capex.errors import BudgetExceeded, CapexError, OperatorLeft, PhysicsDiverged, RigFault
from capex.method.context import (
    DEFAULT_SAMPLING,
    NO_LIMITS,
    Deciding,
    Demonstrator,
    Ended,
    Episode,
    EpisodeContext,
    Event,
    Executed,
    Limits,
    Replied,
)
from capex.method.memory import Memory
from capex.method.presets import MethodSettings
from capex.method.record import EpisodeRecord, from_json
from capex.models import (
    AttemptObserver,
    Model,
    ModelError,
    Request,
    RequestAttempt,
    Sampling,
    pictures,
    with_defaults,
)
from capex.models.cassette import Continued
from capex.models.exchanges import ExchangeLog
from capex.models.pictures import ImageFormat
from capex.models.prices import Price
from capex.models.redact import clean, scrub, secrets
from capex.run import LoadedEpisode, readable
from capex.run.files import laid_out
from capex.run.pace import Rate
from capex.run.store import Chain
from capex.run.summary import Summary, summarize
from capex.run.writing import Timing
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
class AttemptSettings:
    """The settings of a campaign that its attempts need, the same for all of them."""

    price: Price | None = None
    typed_usd: bool = False  # whether the user asked for the methods' dollar limits
    campaign_usd: Decimal | None = None
    limits: Limits = NO_LIMITS
    sampling: Sampling = DEFAULT_SAMPLING
    template: Path | None = None
    hints: str = ""
    seed: int = 0
    images: ImageFormat = "png"
    keep_all_images: bool = True
    rate: Rate | None = None  # the provider's limits

    def budgets(self, model: str, method: MethodSettings) -> tuple[Budget, ...]:
        """The dollar budgets that hold; one typed for a model without a price is refused."""
        budgets = []
        if method.episode_usd is not None:
            budgets.append(Budget(Decimal(str(method.episode_usd)), "episode", self.typed_usd))
        if self.campaign_usd is not None:
            budgets.append(Budget(self.campaign_usd, "campaign", typed=True))
        return budgets_for(model, self.price, budgets)


@dataclass(frozen=True)
class AttemptJob:
    """One slot of a chain with the memory that it is shown."""

    chain: Chain
    name: str  # WORLD:TASK
    method: MethodSettings
    slot: Slot
    memory: Memory = field(repr=False)
    settings: AttemptSettings
    # By start, the verdicts of people that this memory learned from.
    verdicts_seen: Mapping[str, Any] = field(default_factory=dict)
    carried_usd: Decimal = Decimal(0)  # spent by earlier attempts at the slot, known or possible
    extensions: tuple[ExtensionFactory, ...] = ()
    again: bool = False  # a recorded attempt is run again: people's requests are in its extensions


@dataclass(frozen=True)
class Invalid:
    """An error of the model, the simulator or the robot ended the attempt, which is kept apart. It
    counts if the model had begun to answer or the simulator failed. It is `final` where requests
    without an answer have used the start's budget up: no other attempt could send anything.
    """

    error: CapexError
    lasting: bool
    counts: bool
    seconds: float
    path: Path | None
    over: bool = False  # whether the operator ends the campaign: the robot is not fine again
    final: bool = False


@dataclass(frozen=True)
class CutOff:
    """The attempt ended through no fault of its own, because the campaign stops or its budget is
    spent; what it paid for is kept.
    """

    why: str
    error: CapexError | None = None
    over: bool = False  # whether the operator ends the campaign


# A summary: the episode was written.
AttemptOutcome = Summary | Invalid | CutOff


@dataclass(frozen=True)
class Progress:
    """How far a running episode has come."""

    phase: str  # queueing, waiting, simulating
    decision: int = 0
    steps: int = 0
    requests: int = 0
    cost_usd: float | None = None


def run_attempt(
    env: Env,
    demonstrator: Demonstrator,
    job: AttemptJob,
    *,
    spend: Spending | None = None,
    core: Core | None = None,
    tell: Callable[[Progress], None] | None = None,
    subscribers: Sequence[Callable[[Event], object]] = (),
    clock: Callable[[], float] | None = None,
    judge: Judge | None = None,
    extensions: Sequence[ExtensionFactory] = (),
) -> AttemptOutcome:
    """Run one attempt and write it into its chain. The clock is that of its lease of the core,
    unless another is given. `judge` confirms that a robot is fine again after a fault.
    """
    run = _Running(env, demonstrator, job, spend, core, tell)
    with run.lease:
        run.open(subscribers, clock, extensions)
        try:
            with closing(run.extensions):
                episode = demonstrator.attempt(env, run.start, job.memory, run.context)
            return run.commit(episode)
        except RigFault as fault:
            seconds, kept = run.cleanup.seconds, run.cleanup.early(str(fault))
            over = not recovered(env, judge, fault, run.lease.check)
            return Invalid(fault, False, False, seconds, kept, over)
        except (ModelError, PhysicsDiverged) as error:
            return run.invalid(error)
        except BudgetExceeded as spent:
            return run.spent(spent)
        except Stopped:
            run.cleanup.early("cut off")
            return CutOff("stopped")
        except OperatorLeft:
            run.cleanup.early("the operator stopped")
            return CutOff("the operator stopped", over=True)
        except BaseException as error:
            run.cleanup.early(f"cut off: {error or type(error).__name__}")
            raise


class _Running:
    """An attempt under way: its ledger, logs, lease of the core, extensions."""

    context: EpisodeContext
    cleanup: AttemptCleanup

    def __init__(
        self,
        env: Env,
        demonstrator: Demonstrator,
        job: AttemptJob,
        spend: Spending | None,
        core: Core | None,
        tell: Callable[[Progress], None] | None,
    ):
        self._env, self._demonstrator, self._job = env, demonstrator, job
        settings = job.settings
        start = (job.chain.path.name, job.slot.start)
        budgets = settings.budgets(demonstrator.name, job.method)
        self._ledger = Ledger(settings.price, budgets, spend, start, job.carried_usd, settings.rate)
        model = demonstrator.model
        elsewhere = model is not None and not with_defaults(model).computes_here
        self._progress = _ProgressReporter(self._ledger, tell, elsewhere)
        self.lease = Lease(core or Core(), self._progress.phase)
        self._ledger.check = self.lease.may_wait
        paid = job.chain.unfinished(job.slot.start)
        # Recorded answers never drive a robot again.
        self._robot = env.spec.exclusive
        continues = not self._robot and model is not None and paid.is_file() and readable(paid)
        self._paid = paid if continues else None
        self.extensions: list[CampaignExtension] = []
        self.start = Start(env.spec.task, job.slot.start, settings.seed)

    def open(
        self,
        subscribers: Sequence[Callable[[Event], object]],
        clock: Callable[[], float] | None,
        extensions: Sequence[ExtensionFactory],
    ) -> None:
        """Begin the attempt's folder, and everything that writes into it."""
        env, job, settings = self._env, self._job, self._job.settings
        self._writer = writer = job.chain.begin(job.slot.start)
        facts = {
            "task": env.spec.task,
            "arm": job.method.name,
            "start": job.slot.start,
            "seed": settings.seed,
            "model": self._demonstrator.name,
        }
        self.cleanup = AttemptCleanup(
            writer,
            facts | {"position": job.slot.position},
            self._ledger,
            self.lease.clock,
            self._robot,
            self._note_fields,
        )
        images = settings.images if settings.keep_all_images else None
        log = ExchangeLog(writer.folder, self._demonstrator.model, images)
        self._log = _CheckedLog(log, self.lease)
        shown = facts | {
            "stand_in": self._demonstrator.stand_in,
            "world": env.spec.world,
            "tau": job.method.tau,
            "horizon": env.spec.horizon,
            "live_cameras": env.spec.real_time,
        }
        live = LiveLog(writer.folder, env, shown, self._ledger, keep_pictures=not images)
        attempt = Attempt(
            env,
            job.chain,
            job.slot.start,
            writer.folder,
            self.lease,
            live.tell,
            self.cleanup.begin,
            self._paid is not None,
            self.extensions,
        )
        extensions_of(attempt, (*job.extensions, *extensions), requests=not job.again)
        self.context = EpisodeContext(
            ledger=self._ledger,
            log=self._log,
            extensions=(*self.extensions, _SharedCore(self.lease, self._paid)),
            subscribers=(
                self.lease.check,
                self._progress,
                live,
                self.cleanup.on_event,
                *subscribers,
            ),
            limits=settings.limits,
            template=settings.template,
            hints=settings.hints,
            sampling=settings.sampling,
            cache_key=job.chain.path.name,
            clock=clock or self.lease.clock,
        )
        if (prefix := self.context.prefix) is not None:
            self.start = Start(env.spec.task, prefix.record.start, prefix.record.seed)

    def commit(self, episode: Episode) -> Summary:
        """Write a whole attempt."""
        folder, job, lease = self._writer.folder, self._job, self.lease
        for png in episode.pictures.values():
            pictures.keep(folder / pictures.IMAGES, png, job.settings.images)
        record = replace(episode.record, position=job.slot.position)
        for extension in self.extensions:
            record = extension.record_fields(record)
        seen = job.verdicts_seen if self._learns_from_verdicts else None
        if seen is not None:
            record = replace(record, verdicts_seen={s: v and v["verdict"] for s, v in seen.items()})
        record, text = _written(record)
        durations = (e.duration_s(record, lease.model_s) for e in self.extensions)
        timing = Timing(
            episode_s=next((s for s in durations if s is not None), episode.seconds),
            reset_s=episode.reset_s,
            queued_s=lease.queued_s,
            model_s=lease.model_s,
            unix_time=time.time(),
            # Beside the record, which holds no wall times.
            verdicts_seen_at={s: v["at"] for s, v in (seen or {}).items() if v},
        )
        path = self.cleanup.committed(self._writer.commit(text, timing, episode.steps))
        for extension in self.extensions:
            extension.committed()
        return summarize(LoadedEpisode(job.chain.path.name, path, record, timing))

    def invalid(self, error: ModelError | PhysicsDiverged) -> Invalid:
        """An error of the model or the simulator."""
        lasting, counts, continues = _weigh(error, self._log.answers)
        seconds = self.cleanup.seconds
        if not counts and not lasting:  # the model is down
            self.cleanup.untried()
            return Invalid(error, lasting, counts, seconds, None)
        path = self.cleanup.invalid(
            str(error),
            self._progress.answered_s,
            counts=counts,
            continues=continues and not self._robot,
        )
        return Invalid(error, lasting, counts, seconds, path)

    def spent(self, spent: BudgetExceeded) -> AttemptOutcome:
        """A budget is used up: by this start's requests without an answer, or the campaign's."""
        if spent.scope != "episode":
            self.cleanup.early(str(spent))
            return CutOff(str(spent), spent)
        seconds = self.cleanup.seconds
        path = self.cleanup.invalid(
            str(spent), self._progress.answered_s, counts=True, continues=False, final=True
        )
        return Invalid(spent, False, True, seconds, path, final=True)

    @property
    def _learns_from_verdicts(self) -> bool:
        return self._env.spec.success == "operator" and self._job.method.memory == "chain"

    def _note_fields(self) -> Mapping[str, Any]:
        fields: dict[str, Any] = {}
        for extension in self.extensions:
            fields |= extension.note_fields()
        return fields


class _SharedCore(CampaignExtension):
    """Gives the core away while the model thinks; a continued attempt begins with the answers that
    were paid for.
    """

    def __init__(self, lease: Lease, paid: Path | None):
        self._lease, self._paid = lease, paid

    def wrap_model(self, model: Model) -> Model:
        if self._paid is not None:
            model = Continued(model, self._paid, self._lease.replay)
        return Waiting(model, self._lease)


def _written(record: EpisodeRecord) -> tuple[EpisodeRecord, str]:
    """A record and its text. What a model writes may quote a key it was shown by mistake: scrubbed
    before it is written, and remembered as written.
    """
    whole = record.as_json()
    text, known = laid_out(whole), secrets()
    if clean(text, known):
        return record, text
    scrubbed = scrub(whole, known)
    return from_json(scrubbed), laid_out(scrubbed)


def _weigh(error: ModelError | PhysicsDiverged, answers: int) -> tuple[bool, bool, bool]:
    """Whether an error is lasting, whether its attempt counts, and whether the next continues it;
    `answers` the model had given.
    """
    kind = error.kind if isinstance(error, ModelError) else ""
    return kind in LASTING, not kind or answers > 0, bool(kind) and kind not in OWN_FAULT


class _CheckedLog:
    """An exchange log that writes nothing more once the campaign has stopped: its folder may be
    gone.
    """

    def __init__(self, log: AttemptObserver, lease: Lease):
        self._log, self._lease = log, lease
        self.answers = 0  # that the model gave to this attempt

    def before(self, request: Request, number: int) -> None:
        """About to send."""
        self._lease.check()
        self._log.before(request, number)

    def after(self, request: Request, number: int, attempt: RequestAttempt) -> None:
        """An attempt ended."""
        self._lease.check()
        self.answers += attempt.answer is not None
        self._log.after(request, number, attempt)

    def again(self, request: Request, number: int, attempt: RequestAttempt) -> None:
        """An attempt made before."""
        self._lease.check()
        self._log.again(request, number, attempt)

    def waiting(self) -> None:
        """Whether the campaign still waits."""
        self._lease.may_wait()


class _ProgressReporter:
    """Tells how far an episode has come, a few times a decision."""

    def __init__(self, ledger: Ledger, tell: Callable[[Progress], None] | None, waits: bool):
        self._ledger, self._tell, self._waits = ledger, tell, waits
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
            self._tell(Progress(phase, self._decision, self._steps, self.requests, cost))

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
        # One that waits for a model reports when its waiting begins and ends.
        if not self._waits and isinstance(event, Deciding | Executed):
            self.phase(self._phase)
