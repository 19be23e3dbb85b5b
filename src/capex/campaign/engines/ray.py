"""The engine on a Ray cluster: a chain is a sequence of tasks, one for each attempt, wherever there
is room.

The driver runs on a node of the cluster and owns the run directory; nobody else writes it. An
attempt is written into a scratch folder on its node and comes back whole as the task's result.
Beside the driver sits a desk, an actor with the campaign's spend: a request is reserved there
before it is sent, on whatever node. Workers also send the desk each exchange as it comes, so that
an attempt that is lost with its node continues on another one without paying again. Retries are the
driver's, not Ray's: it knows what the chain has learned since.
"""

from __future__ import annotations

import functools
import os
import shutil
import sys
import tempfile
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from capex import trust
from capex.campaign.attempt import (
    AttemptJob,
    AttemptOutcome,
    CutOff,
    Invalid,
    Progress,
    run_attempt,
)
from capex.campaign.core import Core
from capex.campaign.demonstrators import Asked, answering, demonstrator
from capex.campaign.engines import Campaign, Failed, Lost, Message
from capex.campaign.names import parse_resources
from capex.errors import CapexError, ErrorCode
from capex.models import ChatSettings, Usage
from capex.models.exchanges import append
from capex.run.cluster import Cluster, import_ray
from capex.run.files import TEMPORARY
from capex.run.pace import Rate, Turn
from capex.run.spend import ChainStart, Known, Spend
from capex.run.store import EXCHANGE_TIMES, EXCHANGES, Chain
from capex.run.summary import Summary
from capex.worlds.cache import OF_THIS_PROCESS

CPUS = 0.25  # of a core that an attempt counts as: most of its time it waits for its model
TAKE_S = 0.3  # how often the driver asks its actor for news


@dataclass(frozen=True)
class PackedAttempt:
    """An attempt on its way to the driver: what became of it, its files, and the exchanges that it
    leaves unfinished.
    """

    outcome: AttemptOutcome
    files: Mapping[str, bytes]
    unfinished: tuple[bytes, bytes | None] | None


class DriverActor:
    """What runs beside the driver: spends, and takes news and exchanges from attempts elsewhere."""

    def __init__(self, spend: Path, known: Known | None):
        self._spend = Spend(spend, known)
        self._news: list[tuple[int, Progress]] = []
        self._waits_over = False
        # Tickets of attempts that are over: what still comes from them comes too late.
        self._over: set[int] = set()

    def reserve(
        self, usd: Decimal | None, limit: Decimal | None, start: ChainStart | None
    ) -> str | CapexError:
        """A ticket, or the refusal as a value."""
        try:
            return self._spend.reserve(usd, limit=limit, start=start)
        except CapexError as refusal:
            return refusal

    def settle(self, ticket: str, usd: Decimal | None, usage: Usage | None, reply: bool) -> None:
        """Replace a reservation with the actual cost."""
        self._spend.settle(ticket, usd, usage, reply=reply)

    def turn(self, rate: Rate, tokens: int) -> Turn:
        """Count a request against the provider's limits, which all nodes share."""
        return self._spend.turn(rate, tokens)

    def used(self, turn: Turn, more: int) -> None:
        """Count more tokens for a request, or fewer."""
        self._spend.used(turn, more)

    def moved(
        self, ticket: int, moved: Progress, chain: Chain, start: int, fresh: Mapping[str, bytes]
    ) -> None:
        """News of an attempt, with what its exchange log and its times have grown by since the
        last.
        """
        if ticket in self._over:
            return
        self._news.append((ticket, moved))
        for name, lines in fresh.items():
            append(self._folder(chain, start) / name, lines)

    def end_waits(self) -> None:
        """No attempt waits any longer."""
        self._waits_over = True

    def waits_over(self) -> bool:
        """Whether no attempt waits any longer."""
        return self._waits_over

    def take(self) -> list[tuple[int, Progress]]:
        """All news since the last time."""
        news, self._news = self._news, []
        return news

    def forget(self, ticket: int, chain: Chain, start: int, keep: bool) -> None:
        """An attempt is over: keep the exchanges it sent for the next one, or drop them."""
        self._over.add(ticket)
        folder = self._folder(chain, start)
        if keep and folder.is_dir():
            chain.keep_exchanges(folder, start)
        shutil.rmtree(folder, ignore_errors=True)

    @staticmethod
    def _folder(chain: Chain, start: int) -> Path:
        return chain.episodes_path / f"{TEMPORARY}{os.getpid()}-{start:04d}"


@dataclass(frozen=True)
class _RemoteSpend:
    """The campaign's spend as an attempt on another node sees it."""

    actor: Any

    def reserve(
        self, usd: Decimal | None, *, limit: Decimal | None = None, start: ChainStart | None = None
    ) -> str:
        answer: str | CapexError = import_ray().get(self.actor.reserve.remote(usd, limit, start))
        if isinstance(answer, CapexError):
            raise answer
        return answer

    def settle(
        self, ticket: str, usd: Decimal | None, usage: Usage | None = None, *, reply: bool = False
    ) -> None:
        import_ray().get(self.actor.settle.remote(ticket, usd, usage, reply))

    def turn(self, rate: Rate, tokens: int) -> Turn:
        turn: Turn = import_ray().get(self.actor.turn.remote(rate, tokens))
        return turn

    def used(self, turn: Turn, more: int) -> None:
        self.actor.used.remote(turn, more)


@dataclass
class _WaitsOver:
    """Whether attempts wait no longer, as one on another node learns it."""

    actor: Any
    _set: bool = False
    _looked: float = 0.0

    def is_set(self) -> bool:
        if not self._set and time.monotonic() - self._looked > TAKE_S:
            self._set = bool(import_ray().get(self.actor.waits_over.remote()))
            self._looked = time.monotonic()
        return self._set


@dataclass(frozen=True)
class TaskSetup:
    """What every task takes along: the campaign, a prompt of the user's own, where the driver finds
    its modules, and which of them it may load.
    """

    campaign: Campaign
    template: str | None
    path: tuple[str, ...]
    allowed: trust.Trust


def attempt_elsewhere(
    ticket: int,
    given: TaskSetup,
    job: AttemptJob,
    unfinished: tuple[bytes, bytes | None] | None,
    actor: Any,
) -> PackedAttempt:
    """Run one attempt in a scratch folder of this node and pack it."""
    trust.hold(given.allowed)
    sys.path += [p for p in given.path if p not in sys.path and os.path.isdir(p)]
    campaign, template = given.campaign, given.template
    with tempfile.TemporaryDirectory(prefix="capex-") as folder:
        here = Chain(Path(folder) / job.chain.path.name)
        here.path.mkdir()
        if unfinished is not None:
            here.leave(job.slot.start, *unfinished)
        settings = job.settings
        if template is not None:
            settings = replace(settings, template=Path(folder) / "prompt.txt")
            (Path(folder) / "prompt.txt").write_text(template, encoding="utf-8")
        who = demonstrator(_asked(str(campaign.model), campaign.settings.chat), job.method)
        env = OF_THIS_PROCESS.keep(job.name)
        sent = {EXCHANGE_TIMES: 0, EXCHANGES: 0}

        def tell(moved: Progress) -> None:
            fresh = {}
            for name, done in sent.items():
                for log in here.episodes_path.glob(f"{TEMPORARY}*/{name}"):
                    with open(log, "rb") as lines:
                        lines.seek(done)
                        fresh[name] = lines.read()
            sent.update({name: sent[name] + len(lines) for name, lines in fresh.items()})
            actor.moved.remote(ticket, moved, job.chain, job.slot.start, fresh)

        core, spend = Core(waits_over=_WaitsOver(actor)), _RemoteSpend(actor)
        job = replace(job, chain=here, settings=settings)
        outcome = run_attempt(env, who, job, spend=spend, core=core, tell=tell)
        path = None if isinstance(outcome, CutOff) else outcome.path
        files = (
            {
                str(p.relative_to(path)): p.read_bytes()
                for p in sorted(path.rglob("*"))
                if p.is_file()
            }
            if path
            else {}
        )
        return PackedAttempt(outcome, files, here.left(job.slot.start))


@functools.lru_cache(maxsize=1)
def _asked(name: str, chat: ChatSettings | None) -> Asked:
    """Who is asked; a worker process keeps its model from task to task."""
    return answering(name, chat)


@dataclass(frozen=True)
class _Sent:
    ticket: int
    job: AttemptJob


class RayCluster:
    """Attempts as tasks of a Ray cluster."""

    def __init__(
        self,
        campaign: Campaign,
        address: str,
        slots: int | None = None,
        resources: str | None = None,
    ):
        """`resources`: what an attempt takes of a node, by the names that the cluster has."""
        taken = {"CPU": CPUS} if resources is None else parse_resources(resources)
        self._cluster = Cluster(address)
        self._ray = ray = self._cluster.ray
        self.slots = slots if slots is not None else self._room(taken, named=resources is not None)
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=False
        )
        self._actor = ray.remote(num_cpus=0, scheduling_strategy=here)(DriverActor).remote(
            campaign.spend_path, campaign.known
        )
        # As in the other engines.
        threads = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(os.cpu_count() or 1))}
        options = {
            "num_cpus": taken.pop("CPU", 0),
            "num_gpus": taken.pop("GPU", 0),
            "memory": taken.pop("memory", None),
            "resources": taken,
            "max_retries": 0,
            "scheduling_strategy": "SPREAD",
            "runtime_env": {"env_vars": threads},
        }
        self._task = ray.remote(**options)(attempt_elsewhere)
        prompt = campaign.settings.prompt
        template = None if prompt is None else prompt.read_text(encoding="utf-8")
        self._task_setup = ray.put(
            TaskSetup(
                replace(campaign.for_workers(), known=None), template, tuple(sys.path), trust.held()
            )
        )
        self._sent: dict[Any, _Sent] = {}
        self._messages: deque[Message] = deque()

    def _room(self, taken: Mapping[str, float], *, named: bool) -> int:
        """Attempts that the nodes have room for now; one where none is up yet."""
        there: dict[str, float] = self._ray.cluster_resources()
        if not named and "CPU" not in there:
            return 1
        if lacking := [name for name in taken if name not in there]:
            self._cluster.close()
            raise CapexError(
                f"--ray-resources: no node of the cluster has {' and '.join(lacking)}; start one"
                " that does, or say with --slots how many attempts may wait for it",
                code=ErrorCode.NOT_AVAILABLE,
            )
        return max(1, int(min(there[name] / amount for name, amount in taken.items())))

    def submit(self, ticket: int, job: AttemptJob) -> None:
        """Begin an attempt somewhere in the cluster."""
        sent = replace(job, memory=job.memory.portable())
        left = job.chain.left(job.slot.start)
        self._sent[self._task.remote(ticket, self._task_setup, sent, left, self._actor)] = _Sent(
            ticket, job
        )

    def next(self, timeout_s: float) -> Message | None:
        """The next message of an attempt, or that its node is lost."""
        if not self._messages:
            ready, _ = (
                self._ray.wait(list(self._sent), num_returns=1, timeout=min(timeout_s, TAKE_S))
                if self._sent
                else ([], [])
            )
            under_way = {s.ticket for s in self._sent.values()}
            self._messages += [
                Message(ticket, moved)
                for ticket, moved in self._ray.get(self._actor.take.remote())
                if ticket in under_way
            ]
            self._messages += [self._unpack(ref) for ref in ready]
        return self._messages.popleft() if self._messages else None

    def end_waits(self) -> None:
        """Cut off the attempts that only wait."""
        self._ray.get(self._actor.end_waits.remote())

    def stop(self) -> None:
        """Cut off every attempt; what it had sent is kept."""
        for ref, sent in self._sent.items():
            self._ray.cancel(ref, force=True)
            self._forget(sent, keep=True)
        self._sent.clear()

    def close(self) -> None:
        """Leave the cluster; one that was started here ends."""
        self._ray.kill(self._actor)
        self._cluster.close()

    def _unpack(self, ref: Any) -> Message:
        """Write an attempt that came back into its chain."""
        sent = self._sent.pop(ref)
        job = sent.job
        try:
            packed: PackedAttempt = self._ray.get(ref)
        except self._ray.exceptions.RayTaskError as error:
            self._forget(sent, keep=True)
            cause = error.cause if isinstance(error.cause, Exception) else RuntimeError(str(error))
            return Message(sent.ticket, Failed(str(cause), str(error), cause))
        except self._ray.exceptions.RayError as error:
            self._forget(sent, keep=True)
            return Message(
                sent.ticket,
                Lost(f"a node or a worker of the cluster was lost ({type(error).__name__})"),
            )
        outcome = packed.outcome
        if isinstance(outcome, Summary | Invalid) and outcome.path is not None:
            writer = job.chain.begin(job.slot.start)
            try:
                attempt_dir = writer.adopt(
                    packed.files, invalid=isinstance(outcome, Invalid), unfinished=packed.unfinished
                )
            except BaseException:
                writer.discard()
                raise
            outcome = replace(outcome, path=attempt_dir)
        self._forget(sent, keep=isinstance(outcome, CutOff) or outcome.path is None)
        return Message(sent.ticket, outcome)

    def _forget(self, sent: _Sent, *, keep: bool) -> None:
        self._ray.get(
            self._actor.forget.remote(sent.ticket, sent.job.chain, sent.job.slot.start, keep)
        )
