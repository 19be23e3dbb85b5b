"""A chain by itself, in this thread: for a world or a model of one's own, and for reading how a
chain works.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from capex.campaign.attempt import CutOff, Finished, Job, Work, run_attempt
from capex.campaign.chain import ChainPlan, counted_attempts, silent_sentence
from capex.campaign.patience import Patience, Pauses
from capex.errors import CapexError
from capex.method.demonstrator import NO_LIMITS, Event, Limits
from capex.method.presets import DEFAULT_EPISODE_USD, MethodSettings
from capex.models import Model
from capex.models.prices import Price
from capex.run.spend import Spend
from capex.run.store import Chain
from capex.worlds import Env


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


def run_chain(
    env: Env,
    model: Model,
    arm: MethodSettings,
    chain: Chain,
    starts: Sequence[int],
    *,
    price: Price | None = None,
    campaign_usd: float | None = None,
    spend: Spend | None = None,
    limits: Limits = NO_LIMITS,
    subscribers: Sequence[Callable[[Event], None]] = (),
    template: Path | None = None,
    seed: int = 0,
    pauses: Pauses | None = None,
) -> Iterator[EpisodeResult]:
    """Run a chain's starts in order, after those it already holds; yields each episode as it is
    committed.

    Dollars: the arm's limit per episode holds wherever the model has a price; a campaign's limit
    needs the campaign's `spend`, and reaching it ends the chain with an error, the attempt cut off.
    Invalidated attempts and a model that is down: see `campaign.patience`.
    """
    work = Work(
        price=price,
        typed_usd=arm.episode_usd != DEFAULT_EPISODE_USD,
        campaign_usd=None if campaign_usd is None else Decimal(str(campaign_usd)),
        limits=limits,
        template=template,
        seed=seed,
    )
    work.budgets(model, arm)
    with chain.owned():
        chain.sweep()
        plan = ChainPlan(chain, starts, remembers=arm.memory == "chain")
        patience = Patience(pauses or Pauses(), (e.record.end for e in plan.loaded.episodes))
        while ready := plan.ready():
            place = ready[0]
            outcome = run_attempt(
                env,
                model,
                work,
                Job(chain, env.spec.name, arm, place, plan.memory),
                spend=spend,
                subscribers=subscribers,
            )
            if isinstance(outcome, CutOff):
                raise outcome.error or CapexError(outcome.why)
            verdict = patience.judge(outcome, counted_attempts(chain, place.start))
            if isinstance(outcome, Finished):
                record = plan.settle(place)
                o, spec = outcome, env.spec
                yield EpisodeResult(
                    spec.world,
                    spec.task,
                    place.start,
                    o.success,
                    o.steps,
                    o.decisions,
                    o.seconds,
                    o.path,
                )
                if verdict.step == "stop":
                    raise CapexError(silent_sentence(env.spec.name, record))
            elif verdict.step == "stop":
                raise outcome.error
            elif verdict.step == "give up":
                plan.give_up(place)
            time.sleep(verdict.pause_s)
