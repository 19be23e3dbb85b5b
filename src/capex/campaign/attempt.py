"""One attempt: an episode run and written into its chain, or kept apart as invalid, or cut off.

This is what workers do, in whatever process or machine they are: `Work` is what all attempts of a
campaign share, `AttemptJob` names one of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from capex.campaign.begun import Begun
from capex.campaign.chain import Slot
from capex.campaign.core import Core, Lease, Stopped, Waiting
from capex.campaign.ending import Ending, recovered
from capex.campaign.ledger import Budget, Ledger, Spending, budgets_for
from capex.campaign.live import LiveLog
from capex.errors import BudgetExceeded, CapexError, PhysicsDiverged, RigFault
from capex.method.episode import Demonstrator, Episode
from capex.method.hooks import (
    DEFAULT_SAMPLING,
    NO_LIMITS,
    Deciding,
    Ended,
    Event,
    Executed,
    Hooks,
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
from capex.models.continued import Continued
from capex.models.exchanges import ExchangeLog
from capex.models.pictures import ImageFormat
from capex.models.prices import Price
from capex.models.redact import clean, scrub, secrets
from capex.operators import Operator, OperatorLeft, Standby
from capex.operators.arranging import Arranging
from capex.operators.inbox import announce_rig
from capex.operators.requests import Asking, Steered
from capex.operators.scenes import Scenes
from capex.operators.screens import Screens
from capex.run import LoadedEpisode, readable
from capex.run.files import laid_out
from capex.run.pace import Rate
from capex.run.store import Chain
from capex.run.summary import Summary, summarize
from capex.worlds import Env, Start
from capex.worlds.robots import one_robot, person_stops, rig_process

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
    # By start, the verdicts of people that this memory learned from.
    verdicts_seen: Mapping[str, Any] = field(default_factory=dict)
    begun: Begun | None = None  # of a fork: what it goes on from
    carried_usd: Decimal = Decimal(0)  # that earlier attempts at the slot took, known or possible
    # Of a recorded attempt that is run again: what people told its model, and drove.
    steered: Steered | None = None


@dataclass(frozen=True)
class Invalid:
    """An error of the model, the simulator or the rig ended the attempt, which is kept apart. It
    counts if the model had begun to answer or the simulator failed. It is `final` where requests
    without an answer have used the start's budget up: no other attempt could send anything.
    """

    error: CapexError
    lasting: bool
    counts: bool
    seconds: float
    path: Path | None
    over: bool = False  # whether the operator ends the campaign: the rig is not fine again
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
class Moved:
    """How far a running episode has come."""

    phase: str  # queueing, waiting, simulating
    decision: int = 0
    steps: int = 0
    requests: int = 0
    cost_usd: float | None = None


def run_attempt(
    env: Env,
    demonstrator: Demonstrator,
    work: Work,
    job: AttemptJob,
    *,
    spend: Spending | None = None,
    core: Core | None = None,
    tell: Callable[[Moved], None] | None = None,
    subscribers: Sequence[Callable[[Event], object]] = (),
    clock: Callable[[], float] | None = None,
    operator: Operator | None = None,
    scenes: Scenes | None = None,
) -> AttemptOutcome:
    """Run one attempt and write it into its chain. The clock is that of its lease of the core,
    unless another is given. `operator`: stands beside the rig. `scenes`: where its arrangements are
    taken from.
    """
    chain, slot, run_dir = job.chain, job.slot, job.chain.path.parent.parent
    labels: dict[str, str | int] = {"chain": chain.path.name, "episode": slot.start}
    budgets = work.budgets(demonstrator.name, job.method)
    ledger = Ledger(work.price, budgets, spend, labels, job.carried_usd, work.rate)
    asked = demonstrator.model
    elsewhere = asked is not None and not with_defaults(asked).computes_here
    progress = _Progress(ledger, tell, elsewhere)
    lease = Lease(core or Core(), progress.phase)
    ledger.check = lease.may_wait
    paid = chain.unfinished(slot.start)
    robot = one_robot(env.spec)  # what a model once answered is never said to a robot again
    resumed = not robot and demonstrator.model is not None and paid.is_file() and readable(paid)

    begun = job.begun
    prefix = None if begun is None else begun.prefix(notes=job.method.notes)

    def wrap_model(model: Model) -> Model:
        if begun is not None:
            model = with_defaults(model).reseeded(begun.fork.seed)
        return Waiting(Continued(model, paid, lease.replay) if resumed else model, lease)

    with lease:
        writer = chain.begin(slot.start)
        images = work.images if work.keep_all_images else None
        log = _Guarded(ExchangeLog(writer.folder, demonstrator.model, images), lease)
        facts = {
            "task": env.spec.task,
            "arm": job.method.name,
            "start": {"index": slot.start, "seed": work.seed},
            "model": demonstrator.name,
        }
        ending = Ending(writer, facts, slot.position, ledger, lease.clock, robot)
        standby = Standby(run_dir, chain.path.name, lease.check)
        screens = Screens(env, writer.folder)
        beside = standby, (ending.begin, screens.begin), lease.phase
        arranging = Arranging(env, chain, writer.folder, operator, scenes, *beside)
        shown = facts | {"stand_in": demonstrator.stand_in, "world": env.spec.world}
        shown |= {"tau": job.method.tau, "horizon": env.spec.horizon, "start": slot.start}
        shown |= {"screens": env.spec.real_time}
        live = LiveLog(writer.folder, env, shown, ledger, keep_pictures=not images)
        place = run_dir, chain.path.name, slot.start
        asking = Asking(*place, lease, live.tell, resumed, job.steered, lambda: arranging.end_now())
        own = (lease.check, progress, live, arranging.hear, ending.hear)
        hooks = Hooks(
            ledger=ledger,
            log=log,
            limits=work.limits,
            subscribers=(*own, *subscribers),
            template=work.template,
            hints=work.hints,
            sampling=work.sampling,
            cache_key=chain.path.name,
            clock=clock or lease.clock,
            wrap_model=wrap_model,
            prepare=arranging.prepare,
            end_now=lambda: arranging.end_now(),
            prefix=prefix,
            heed=asking.heed,
            take_over=asking.take_over,
        )
        start = Start(env.spec.task, slot.start, work.seed)
        if prefix is not None:
            start = Start(env.spec.task, prefix.record.start, prefix.record.seed)
        try:
            if (rig := rig_process(env)) is not None:  # before anything moves
                announce_rig(run_dir, *rig)
            with arranging, screens:
                episode = demonstrator.attempt(env, start, job.memory, hooks)
            for png in episode.pictures.values():
                pictures.keep(writer.folder / pictures.IMAGES, png, work.images)
            seen = job.verdicts_seen if _learns_from_verdicts(env, job) else None
            placed: dict[str, Any] = {"position": slot.position, **asking.note()}
            if seen is not None:
                placed["verdicts_seen"] = {s: v and v["verdict"] for s, v in seen.items()}
            if begun is not None:
                placed |= begun.note(writer.folder, episode.record)
            record = replace(episode.record, extra={**episode.record.extra, **placed})
            record, written = _written(record)
            timing: dict[str, Any] = {
                "episode_s": _seconds(episode, lease.model_s),
                "reset_s": episode.reset_s,
                "unix_time": time.time(),
                "queued_s": lease.queued_s,
                "model_s": lease.model_s,
            }
            if seen is not None:  # beside the record, in which no wall time stands
                timing["verdicts_seen_at"] = {s: v["at"] for s, v in seen.items() if v}
            path = ending.committed(writer.commit(written, timing, episode.steps))
            asking.over()
            return summarize(LoadedEpisode(chain.path.name, path, record, timing))
        except RigFault as fault:
            seconds, kept = ending.seconds, ending.early(str(fault), person_stops(env))
            over = not recovered(env, operator, fault, lease.check)
            return Invalid(fault, False, False, seconds, kept, over)
        except (ModelError, PhysicsDiverged) as error:
            lasting, counts, continues = _weigh(error, log.answers)
            seconds = ending.seconds
            if not counts and not lasting:  # the model is down
                ending.untried()
                return Invalid(error, lasting, counts, seconds, None)
            continues = continues and not robot
            stops = person_stops(env)
            path = ending.invalid(str(error), counts, continues, progress.answered_s, stops)
            return Invalid(error, lasting, counts, seconds, path)
        except BudgetExceeded as spent:
            if spent.scope == "episode":
                seconds = ending.seconds
                path = ending.invalid(str(spent), True, False, progress.answered_s, final=True)
                return Invalid(spent, False, True, seconds, path, final=True)
            ending.early(str(spent))
            return CutOff(str(spent), spent)
        except Stopped:
            ending.early("cut off")
            return CutOff("stopped")
        except OperatorLeft:
            ending.early("the operator stopped")
            return CutOff("the operator stopped", over=True)
        except BaseException as error:
            ending.early(f"cut off: {error or type(error).__name__}")
            raise


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


def _learns_from_verdicts(env: Env, job: AttemptJob) -> bool:
    return env.spec.success == "operator" and job.method.memory == "chain"


def _weigh(error: ModelError | PhysicsDiverged, answers: int) -> tuple[bool, bool, bool]:
    """Whether an error is lasting, whether its attempt counts, and whether the next continues it;
    `answers` the model had given.
    """
    kind = error.kind if isinstance(error, ModelError) else ""
    return kind in LASTING, not kind or answers > 0, bool(kind) and kind not in OWN_FAULT


def _seconds(episode: Episode, model_s: float) -> float:
    """How long an attempt took. A simulated room in lock-step has no clock of ours: its own virtual
    time counts, and the waiting for the model.
    """
    rig = episode.record.extra.get("rig", {})
    return float(rig["robot_s"]) + model_s if rig.get("clock") == "lock-step" else episode.seconds


class _Guarded:
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


class _Progress:
    """Tells how far an episode has come, a few times a decision."""

    def __init__(self, ledger: Ledger, tell: Callable[[Moved], None] | None, waits: bool):
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
        # Who waits for a model tells of it as it begins and ends to wait.
        if not self._waits and isinstance(event, Deciding | Executed):
            self.phase(self._phase)
