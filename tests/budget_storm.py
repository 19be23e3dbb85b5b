"""Random sequences of faults against budgets: what a run counts never exceeds what was announced.

A sequence is a campaign of one to three starts. A provider answers, fails in every way that a
server or a network can, and reports usage that is right, zero, absurd or above what a request can
have. Commands are killed at random moments, interrupted while they wait, and given again until
nothing is left to run. Below the provider's `send` everything is the package's own: client,
retries, ledger, spend.jsonl, exchange log, attempts, chains and driver. A kill leaves the run
directory exactly as it was at that moment, half-written folders included.
"""

from __future__ import annotations

import contextlib
import json
import random
import shutil
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx2

from capex import worlds
from capex.campaign.attempt import AttemptJob, AttemptSettings, run_attempt
from capex.campaign.board import Board
from capex.campaign.ceiling import ceiling
from capex.campaign.chain import ChainPlan
from capex.campaign.core import Core
from capex.campaign.driver import ChainRun, Driver, StopRequest
from capex.campaign.engines import Message
from capex.campaign.scheduling import Patience, Pauses
from capex.campaign.settings import resolve
from capex.errors import BudgetExceeded, CapexError
from capex.method.context import Episode, EpisodeContext
from capex.method.demonstrator import run_episode
from capex.method.memory import Memory
from capex.method.presets import preset
from capex.method.record import EndReason
from capex.models import Request, Sampling, Text, Tool, Usage, UserMessage, Wrapped
from capex.models.http import Dialect, HttpModel
from capex.models.openai_responses import answer_of, body_of, usage_of
from capex.models.prices import cost, input_bound, load_prices, worst_case
from capex.models.retry import Clock, RetryPolicy
from capex.models.wire import TooLarge, lost
from capex.run.spend import Spend
from capex.run.store import SPEND, Run
from capex.worlds import Env, Start
from lab.model import LabModel
from lab.world import LabEnv
from wire_server import Turn, response_body

PRICE = load_prices().find("gpt-6-astra")
assert PRICE is not None
NAME, WORLD, TASK = "openai:gpt-6-astra", "lab.world", "high"
TOOLS = (Tool("act", "Act.", {"type": "object", "properties": {}}),)
COMMANDS = 60  # after which a sequence must have come to its end
KILLED, WAITED = "killed", "interrupted in a wait"


class Killed(BaseException):
    """The process dies here."""


@dataclass
class JumpClock(Clock):
    """Time passes by waiting alone, at once."""

    time_s: float = 0.0
    interrupts: Callable[[], None] = lambda: None

    def now(self) -> float:
        return self.time_s

    def sleep(self, seconds: float, look: Callable[[], None]) -> None:
        self.interrupts()
        look()
        self.time_s += seconds


@dataclass
class Provider:
    """What stands in the place of the network: a response, or how there came none."""

    rng: random.Random
    faults: float  # share of the requests that fail
    kills: float
    strike: Callable[[str], None]
    above: bool = False  # whether it also claims more than a request can have
    key: str = "NO_KEY"
    seen: Counter[str] = field(default_factory=Counter)
    charged_usd: Decimal = Decimal(0)  # known or not to the client
    request: Request | None = None  # the one that is sent, for what it can cost

    def send(self, body: dict[str, Any], policy: RetryPolicy, read_s: float) -> Any:
        assert self.request is not None
        kind = "answer"
        if self.rng.random() < self.faults:
            kind = self.rng.choice((*FAULTS, ABOVE) if self.above else FAULTS)
        self.seen[kind] += 1
        if kind in ("http 429", "http 500", "http 503"):
            headers = {"retry-after": "482"} if self.rng.random() < 0.3 else {}
            return _response(int(kind[5:]), b'{"error": {"message": "later"}}', headers)
        if kind == "refused connection":
            return lost(httpx2.ConnectError("nobody listens"))
        usage = self._usage()
        if kind not in ("absurd usage", "zero usage", ABOVE):
            self.charged_usd += cost(usage, PRICE) or 0
        if self.rng.random() < self.kills:
            self.strike("in flight")
        if kind in ("http 502", "http 504"):
            return _response(int(kind[5:]), b"<html>bad gateway</html>", {})
        if kind == "read timeout":
            return lost(httpx2.ReadTimeout("too slow"))
        if kind == "reset":
            return lost(httpx2.ReadError("reset"))
        if kind == "oversized":
            return lost(TooLarge("body too large"))
        answered = json.dumps(self._body(kind, usage, body)).encode()
        if kind == "truncated":
            answered = answered[: self.rng.randrange(len(answered) - 1)]
        return _response(200, answered, {})

    def _usage(self) -> Usage:
        """What the provider bills: any split of what the request can have."""
        assert self.request is not None
        whole = input_bound(self.request)
        whole = whole if self.rng.random() < 0.2 else self.rng.randrange(whole)
        cached = self.rng.randrange(whole + 1)
        written = self.rng.randrange(whole - cached + 1)
        most = self.request.sampling.max_output_tokens
        output = most if self.rng.random() < 0.2 else self.rng.randrange(most)
        return Usage(whole - cached - written, cached, written, output)

    def _body(self, kind: str, usage: Usage, body: dict[str, Any]) -> dict[str, Any]:
        if kind == "failed":
            usage = usage if self.rng.random() < 0.5 else None
            return response_body(Turn(fault="failed", code="server_error", usage=usage), body)
        if kind == "no usage":
            return response_body(Turn(calls=CALLS, usage=None), body)
        if kind == "zero usage":
            return response_body(Turn(calls=CALLS, usage=Usage(0, 0, 0, 0)), body)
        if kind == ABOVE:
            usage = replace(usage, output=self.rng.choice((1000, 10**5)))
        made = response_body(
            Turn(calls=CALLS, usage=usage, incomplete=kind == "cut off by its limit"), body
        )
        absurd = (10**12, 10**400, -5, "many", None, [1], {"n": 1}, True, 1e300)
        if kind == "absurd usage":
            made["usage"]["input_tokens"] = self.rng.choice(absurd)
        return made


CALLS = (("act", {}),)
ABOVE = "usage above the worst case"
FAULTS = (
    *("http 429", "http 500", "http 503", "http 502", "http 504", "refused connection"),
    *("read timeout", "reset", "oversized", "truncated", "failed", "no usage", "zero usage"),
    *("absurd usage", "cut off by its limit"),
)


def _response(status: int, content: bytes, headers: dict[str, str]) -> httpx2.Response:
    return httpx2.Response(status, content=content, headers=headers)


class MortalSpend(Spend):
    """The campaign's spend of a process that may die around each of its lines."""

    def __init__(self, path: Path, strikes: Callable[[str], None]):
        super().__init__(path)
        self._strikes = strikes

    def reserve(self, *given: Any, **more: Any) -> str:
        self._strikes("before a reservation")
        ticket = super().reserve(*given, **more)
        self._strikes("after a reservation")
        return ticket

    def settle(self, *given: Any, **more: Any) -> None:
        self._strikes("before a settlement")
        super().settle(*given, **more)
        self._strikes("after a settlement")


class Announcing(Wrapped):
    """A model that lets its provider know which request comes."""

    def __init__(self, model: HttpModel, provider: Provider):
        super().__init__(model)
        self._provider = provider

    def complete(self, request: Request, observer: Any = None) -> Any:
        self._provider.request = request
        return super().complete(request, observer)


@dataclass
class Asker:
    """Makes an episode of so many requests, without simulating anything between them."""

    model: Any
    requests: int
    blank: Episode
    name: str = NAME
    stand_in: bool = False

    def attempt(self, env: Env, start: Start, memory: Memory, context: EpisodeContext) -> Episode:
        model, end, answered = context.wrap_model(self.model), EndReason.DECISIONS, 0
        for number in range(self.requests):
            said = UserMessage((Text(f"start {start.index}, request {number}"),))
            request = Request("system", (said,), TOOLS, Sampling(max_output_tokens=200))
            try:
                model.complete(request, context.observer)
            except BudgetExceeded as spent:
                if spent.scope == "campaign" or spent.by_losses:
                    raise
                end = EndReason.COST
                break
            answered += 1
        totals = context.ledger.recorded()
        record = replace(
            self.blank.record,
            start=start.index,
            seed=start.seed,
            end=end,
            requests=answered,
            cost_usd=totals.cost_usd,
            ledger=totals,
        )
        return replace(self.blank, record=record)


class Serial:
    """One attempt at a time, in this thread."""

    slots = 1

    def __init__(self, env: Env, asker: Asker, spend: Spend, strikes: Any):
        self.core = Core()
        self._given = env, asker
        self._spend, self._strikes = spend, strikes
        self._messages: deque[Message] = deque()

    def submit(self, ticket: int, job: AttemptJob) -> None:
        outcome = run_attempt(*self._given, job, spend=self._spend, core=self.core)
        self._strikes("after an attempt")
        self._messages.append(Message(ticket, outcome))

    def next(self, timeout_s: float) -> Message | None:
        return self._messages.popleft() if self._messages else None

    def end_waits(self) -> None:
        self.core.waits_over.set()  # type: ignore[attr-defined]

    def stop(self) -> None:
        self.core.stop.set()

    def close(self) -> None:
        pass


@dataclass
class Tally:
    """What sequences did, and which promises were broken."""

    sequences: int = 0
    commands: int = 0
    requests: int = 0
    seen: Counter[str] = field(default_factory=Counter)  # faults, kills, ends
    above_usd: Decimal = Decimal(0)  # that servers claimed beyond the worst case
    broken: list[str] = field(default_factory=list)


class Storm:
    """Sequences one after the other, in a folder."""

    def __init__(self, folder: Path, seed: int):
        self._folder, self._seed, self.tally = folder, seed, Tally()
        self._env = LabEnv(WORLD, TASK)
        method = replace(preset("base"), decisions=1, image_size=32)
        blank = run_episode(self._env, Start(TASK, 0), LabModel(""), method, Memory())
        self._blank = replace(blank, pictures={}, record=replace(blank.record, images={}, turns=()))
        given = {"model": NAME, "starts": "0:3", "arm": "base", "out": folder}
        worlds.allow(WORLD)
        self._settings = resolve(f"{WORLD}:{TASK}", given)

    def sequence(self, number: int) -> None:
        """One campaign to its end."""
        rng = random.Random(f"{self._seed} {number}")
        run = self._folder / "run"
        shutil.rmtree(run, ignore_errors=True)
        run.mkdir()
        sequence = Sequence(self, rng, run, f"sequence {self._seed} {number}")
        sequence.play()
        self.tally.sequences += 1


class Sequence:
    """One campaign: its budgets, its provider, and what it announced."""

    def __init__(self, storm: Storm, rng: random.Random, run: Path, name: str):
        self._rng, self._run, self._name, self.tally = rng, run, name, storm.tally
        self._env, self._blank = storm._env, storm._blank
        request = Request("system", (UserMessage((Text("start 0, request 0"),)),), TOOLS)
        worst = worst_case(replace(request, sampling=Sampling(max_output_tokens=200)), PRICE)
        assert worst is not None
        self._episode_usd = float(worst) * rng.choice((0.5, 1.5, 3, 6)) * rng.uniform(1, 2)
        starts = rng.choice((1, 1, 1, 1, 2, 3))
        campaign = None
        if rng.random() < 0.3:
            campaign = (worst * Decimal(rng.uniform(0.5, 20))).quantize(Decimal("0.0001"))
        methods = tuple(replace(m, episode_usd=self._episode_usd) for m in storm._settings.methods)
        self._settings = replace(
            storm._settings, starts=tuple(range(starts)), methods=methods, campaign_usd=campaign
        )
        self._kills = rng.choice((0.0, 0.03, 0.15))
        self._interrupts = rng.choice((0.0, 0.0, 0.2))
        faults = rng.choice((0.2, 0.5, 0.5, 0.9, 1.0))
        self._provider = Provider(rng, faults, self._kills, self._strike, rng.random() < 0.1)
        self._requests = rng.choice((1, 1, 2, 3, 5))
        self._snapshot = run.with_name("snapshot")
        # Every maximum that was announced, and what servers had claimed beyond worst cases by then.
        self._most: list[tuple[Decimal, Decimal]] = []
        self._stops: Callable[[], None] = lambda: None

    def play(self) -> None:
        """Give the command again and again, until it has nothing left to do."""
        for _ in range(COMMANDS):
            self.tally.commands += 1
            try:
                over = self._command()
            except Killed:
                shutil.rmtree(self._run)
                self._snapshot.rename(self._run)
                over = False
            self._look()
            if over:
                break
        else:
            if self._provider.faults < 1.0:
                self._broken("does not come to its end")
        self.tally.seen.update(self._provider.seen)
        self.tally.requests += sum(self._provider.seen.values())

    def _command(self) -> bool:
        """One process: True when nothing is left to run, or nothing can."""
        spend = MortalSpend(self._run / SPEND, self._maybe)
        settings, (method,) = self._settings, self._settings.methods
        chain = Run(self._run).chain(WORLD, TASK, method.name)
        shared = AttemptSettings(PRICE, campaign_usd=settings.campaign_usd, keep_all_images=False)
        policy = RetryPolicy(clock=JumpClock(interrupts=self._interrupt))
        dialect = Dialect(body_of, answer_of, usage_of)
        client = HttpModel(NAME, "gpt-6-astra", dialect, self._provider, policy)  # type: ignore[arg-type]
        asker = Asker(Announcing(client, self._provider), self._requests, self._blank)
        with contextlib.ExitStack() as stack:
            stack.enter_context(chain.owned())
            chain.sweep(everything=True)
            plan = ChainPlan(chain, settings.starts, remembers=False)
            loaded = plan.take_loaded()
            board = Board([loaded], spend)
            if board.forgotten or loaded.damaged:
                self._broken(f"forgotten {board.forgotten}, damaged {loaded.damaged}")
            begun = [board.counted_usd(chain.path.name, i) for i in plan.open_starts]
            left = plan.remaining()
            most = ceiling(settings, PRICE, left, spend.total(), begun)
            assert most.usd is not None
            self._most.append((most.usd, spend.account().overrun_usd))
            self._look()
            patience = Patience(Pauses(first_s=0.0))
            chain_run = ChainRun(chain, f"{WORLD}:{TASK}", method, plan, patience, shared)
            engine = Serial(self._env, asker, spend, self._maybe)
            driver = Driver(self._run, [chain_run], engine, board, lambda event: None)
            request = StopRequest()
            self._stops = lambda: (setattr(request, "stop", True), engine.end_waits())  # type: ignore[assignment]
            try:
                driver.run(request)
            except CapexError as error:  # a damaged file would be our own fault
                self._broken(f"{type(error).__name__}: {error}")
            for failure in driver.failures:
                if not isinstance(failure, CapexError):
                    self._broken(failure.trace)
            self.tally.seen[driver.why] += 1
            spent = driver.why == "out of budget"
            return spent or plan.remaining() == 0

    def _maybe(self, where: str) -> None:
        if self._rng.random() < self._kills / 4:
            self._strike(where)

    def _strike(self, where: str) -> None:
        """The process dies here: what it leaves is what the disk holds now."""
        shutil.rmtree(self._snapshot, ignore_errors=True)
        shutil.copytree(self._run, self._snapshot)
        self.tally.seen[f"{KILLED} {where}"] += 1
        raise Killed

    def _interrupt(self) -> None:
        """Ctrl-C, while the client waits."""
        if self._rng.random() < self._interrupts:
            self.tally.seen[WAITED] += 1
            self._stops()

    def _look(self) -> None:
        """What the run counts is within every maximum that was announced."""
        spend = Spend(self._run / SPEND)
        account = spend.account()
        total = account.total_usd
        if account.overruns:
            self.tally.above_usd = max(self.tally.above_usd, account.overrun_usd)
        for most, above in self._most:
            self._hold(total - (account.overrun_usd - above), most, "announced")
        if self._settings.campaign_usd is not None:
            self._hold(total - account.overrun_usd, self._settings.campaign_usd, "campaign")
        for slot, own in spend.slots().items():
            episode = Decimal(str(self._episode_usd))
            self._hold(own.total_usd - own.overrun_usd, episode, f"start {slot[1]}")
        self._hold(self._provider.charged_usd, total, "charged by the provider")

    def _hold(self, counted: Decimal, most: Decimal, what: str) -> None:
        if counted > most:
            self._broken(f"{what}: {counted} is above {most}")

    def _broken(self, why: str) -> None:
        self.tally.broken.append(f"{self._name}: {why}")
