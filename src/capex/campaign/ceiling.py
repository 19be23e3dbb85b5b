"""Before anything is sent: how large requests will be, what the campaign will cost, about and at
most, and how much disk it takes.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

from capex import worlds
from capex.campaign.attempt import AttemptSettings
from capex.campaign.demonstrators import STUDENT, WITHOUT_MODEL
from capex.campaign.settings import Settings
from capex.method.context import EpisodeContext
from capex.method.demonstrator import run_episode
from capex.method.memory import Memory
from capex.method.presets import MethodSettings
from capex.method.prompts import SIZE_MAX
from capex.models import (
    AssistantMessage,
    AttemptObserver,
    Model,
    ModelError,
    Picture,
    Reply,
    Request,
    ToolCall,
    ToolResult,
    UserMessage,
    Wrapped,
    pictures,
    prices,
)
from capex.models.prices import Price, input_bound, worst_case
from capex.worlds import Env, Start

BILLING = ("openai", "anthropic")  # providers whose every model costs something
UNASKED_USD = Decimal(25)  # that a campaign may cost without a yes or a budget
# And its dollars per million tokens.
PAPER_MODEL, PAPER_FRESH, PAPER_OUTPUT = ("gpt-6-astra", Decimal(10), Decimal(50))
# Of an attempt, with CAPEX and with the base arm (docs/paper-numbers.md).
PAPER_USD, PAPER_BASE_USD = (Decimal("0.98"), Decimal("1.14"))
RESULT_CHARACTERS = 4000  # of what the harness answers to one reply, at the very most
TYPICAL_REQUESTS = 20  # of an episode: the paper's capex arm took 19.6
TYPICAL_STEPS = 300
STEPS_RATIO = 0.55  # of the raw size of steps.npz, compressed
RECORD_BYTES_PER_REQUEST = 12_000  # record.json and exchanges.jsonl together


class _Asking(Wrapped):
    """A model that answers nothing and keeps what it was asked."""

    request: Request | None = None

    def complete(self, request: Request, observer: AttemptObserver | None = None) -> Reply:
        """Never answers."""
        self.request = request
        raise ModelError("script", "nothing is sent")


class Keyless(Model):
    """A model by its name alone, for a dry run without its key."""

    stand_in = False

    def __init__(self, name: str):
        self.name, self.price_name = name, name.partition(":")[2]

    def complete(self, request: Request, observer: AttemptObserver | None = None) -> Reply:
        """Never answers."""
        raise ModelError("authentication", f"{self.name} has no key; nothing can be sent")


@dataclass(frozen=True)
class Sample:
    """The first request of a method in a world, and what can be said of those that follow."""

    world: str
    arm: str
    tokens: int  # of the first request, about
    first_bound: int  # of the first request, whatever the tokenizer
    largest_bound: int  # of any request: full memory, the last round
    first_usd: Decimal | None  # worst cases
    episode_usd: Decimal | None  # of an episode without its budget
    image_bytes: int  # as kept, of one observation
    step_bytes: float  # as kept


def sample(
    settings: Settings,
    attempts: AttemptSettings,
    model: Model,
    method: MethodSettings,
    world: str,
    task: str,
) -> Sample:
    """Look at the first start of a task as a method would, and ask nobody."""
    env = worlds.make(f"{world}:{task}")
    asking = _Asking(model)
    try:
        start = Start(task, settings.starts[0], settings.seed)
        context = EpisodeContext(
            template=attempts.template, hints=attempts.hints, sampling=attempts.sampling
        )
        run_episode(env, start, asking, method, Memory(), context)
    except ModelError:
        pass
    finally:
        per_step = _step_bytes(env)
        env.close()
    assert asking.request is not None
    rounds = [_grown(asking.request, method, number) for number in range(method.rounds)]
    worst = [worst_case(r, attempts.price) for r in rounds]
    decision = (
        None if attempts.price is None else sum((w for w in worst if w is not None), Decimal(0))
    )
    return Sample(
        world=world,
        arm=method.name,
        tokens=prices.tokens(asking.request),
        first_bound=input_bound(asking.request),
        largest_bound=max(input_bound(r) for r in rounds),
        first_usd=worst_case(asking.request, attempts.price),
        episode_usd=None if decision is None else decision * method.decisions,
        image_bytes=sum(
            len(pictures.as_format(p.png, attempts.images)) for p in _pictures(asking.request)
        ),
        step_bytes=per_step,
    )


def _grown(request: Request, method: MethodSettings, number: int) -> Request:
    """The request as large as it can become: full memory, and so many rounds before it."""
    system = request.system.ljust(SIZE_MAX) if method.memory == "chain" else request.system
    shown = _pictures(request)[: 2 * method.references] if method.memory == "chain" else []
    said = AssistantMessage((ToolCall("call", "act", "x" * request.sampling.max_output_tokens),))
    answered = ToolResult("call", "x" * RESULT_CHARACTERS)
    return replace(
        request,
        system=system,
        messages=(UserMessage(tuple(shown)), *request.messages, *((said, answered) * number)),
    )


def _pictures(request: Request) -> list[Picture]:
    return [
        p
        for m in request.messages
        if isinstance(m, UserMessage)
        for p in m.parts
        if isinstance(p, Picture)
    ]


def _step_bytes(env: Env) -> float:
    state = len(env.save_state().vector) if env.spec.can_save else 0
    return STEPS_RATIO * 8 * (state + len(env.spec.action_names) + len(env.spec.state_names) + 2)


@dataclass(frozen=True)
class Ceiling:
    """What a campaign can cost at most, what it is expected to cost, and both in words."""

    usd: Decimal | None
    most: str
    expected_usd: Decimal | None = None  # of the episodes still to run
    about: str = ""

    @property
    def sentence(self) -> str:
        """Both in one line."""
        return ", ".join(words for words in (self.about, self.most) if words)


def ceiling(
    settings: Settings,
    price: Price | None,
    episodes: int | None,
    spent: Decimal = Decimal(0),
    begun: Sequence[Decimal] = (),
) -> Ceiling:
    """The most that so many more episodes can cost beside what the run has spent; None where
    nothing bounds it. `begun` are the parts of `spent` that went to those episodes already: each
    counts against the budget of its episode.
    """
    if settings.model in (*WITHOUT_MODEL, STUDENT):
        return Ceiling(None, "no model is asked")
    if price is None:
        words = f"{settings.model} has no price: dollars are not counted and not limited"
        return Ceiling(None, words)
    each = expected_usd(settings, price)
    expected = None if episodes is None else episodes * each
    source = "by what the paper's attempts cost" + (
        "" if price.model == PAPER_MODEL else f", scaled from {PAPER_MODEL} to these prices"
    )
    about = (
        f"about ${each:.2f} an episode ({source})"
        if expected is None
        else f"about ${expected:.2f} ({source})"
    )
    budgets = [m.episode_usd for m in settings.methods]
    per_episode = None if None in budgets else max(Decimal(str(b)) for b in budgets)
    most_episodes = episodes
    if most_episodes is None and settings.max_starts is not None:
        most_episodes = len(settings.tasks) * len(settings.methods) * settings.max_starts
    bounds = []
    if most_episodes is not None and per_episode is not None:
        words = f"{most_episodes} episodes of at most ${per_episode:.2f}"
        # A request above its worst case may have taken more than its episode's budget.
        counted = sum((min(usd, per_episode) for usd in begun), Decimal(0))
        bounds.append((spent - counted + most_episodes * per_episode, words))
    if settings.campaign_usd is not None:
        kept = ", set by an earlier command" if settings.keeps_budget else ""
        bounds.append((max(settings.campaign_usd, spent), f"the campaign's budget{kept}"))
    if not bounds:
        unbounded = (
            "nothing bounds the cost: successes decide how many episodes run; give --campaign-usd"
        )
        return Ceiling(None, unbounded, expected, about)
    usd, why = min(bounds)
    already = f", ${spent:.2f} of it spent or held already" if spent else ""
    most = f"at most ${usd:.2f} ({why}{already}), at the list prices checked on {price.checked}"
    return Ceiling(usd, most, expected, about)


def expected_usd(settings: Settings, price: Price) -> Decimal:
    """Dollars that an episode is expected to cost, the mean over the arms: what the paper's
    attempts cost, at these prices.
    """
    scale = (price.fresh / PAPER_FRESH + price.output / PAPER_OUTPUT) / 2
    costs = [
        scale * (PAPER_BASE_USD if m.prompt == "base" else PAPER_USD) for m in settings.methods
    ]
    budgets = [
        cost if m.episode_usd is None else Decimal(str(m.episode_usd))
        for m, cost in zip(settings.methods, costs, strict=True)
    ]
    return sum(map(min, costs, budgets), Decimal(0)) / len(costs)


def ask_first(
    settings: Settings,
    price: Price | None,
    episodes: int | None,
    spent: Decimal,
    begun: Sequence[Decimal] = (),
) -> str:
    """Why a campaign needs a yes before it begins: what is left to run may cost more than $25, and
    the user set no budget for it.
    """
    if settings.campaign_usd is not None or episodes == 0:
        return ""
    most = ceiling(settings, price, episodes, spent, begun)
    if price is None:  # a server of one's own bills nobody
        return most.sentence if settings.model.partition(":")[0] in BILLING else ""
    return "" if most.usd is not None and most.usd - spent <= UNASKED_USD else most.sentence


def disk_bytes(
    settings: Settings, samples: list[Sample], episodes: int, horizon: int
) -> tuple[float, float]:
    """How much disk so many episodes take: about, and at most. One more observation than decisions:
    the start is always kept.
    """
    typical = most = 0.0
    for s in samples:
        method = next(m for m in settings.methods if m.name == s.arm)
        looks, looks_most = (
            (TYPICAL_REQUESTS, method.decisions) if settings.keep_images == "all" else (0, 0)
        )
        typical += (
            (looks + 1) * s.image_bytes
            + TYPICAL_REQUESTS * RECORD_BYTES_PER_REQUEST
            + min(horizon, TYPICAL_STEPS) * s.step_bytes
        )
        most += (
            (looks_most + 1) * s.image_bytes
            + method.decisions * method.rounds * RECORD_BYTES_PER_REQUEST
            + horizon * s.step_bytes
        )
    return episodes * typical / len(samples), episodes * most / len(samples)


def free_bytes(path: Path) -> float:
    """Free disk where a run will be written."""
    here = path.resolve()
    while not here.exists():
        here = here.parent
    return float(shutil.disk_usage(here).free)


def bytes_text(count: float) -> str:
    """A size for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB" if math.isfinite(count) else "unbounded"
