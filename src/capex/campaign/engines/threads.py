"""The engine in this process: a thread for each attempt, one core among them."""

from __future__ import annotations

import contextlib
import gc
import pickle
import queue
import threading
import traceback
from collections.abc import Callable

from capex.campaign.attempt import AttemptJob, Progress, run_attempt
from capex.campaign.core import Core, Stopped
from capex.campaign.demonstrators import Asked, answering, demonstrator
from capex.campaign.engines import EPISODES_PER_CORE, Campaign, Failed, Message
from capex.campaign.judging import ask
from capex.campaign.ledger import Spending
from capex.models.pictures import load_codecs
from capex.run.spend import Spend
from capex.run.summary import Summary, summarize
from capex.worlds.cache import Environments

# how long a stopping engine waits for its threads; those that wait for a model are left behind
JOIN_S = 2.0


class Threads:
    """Attempts in threads of this process."""

    def __init__(
        self, campaign: Campaign, slots: int = EPISODES_PER_CORE, spend: Spending | None = None
    ):
        self.slots = slots
        self._campaign = campaign
        self._spend = spend if spend is not None else Spend(campaign.spend_path, campaign.known)
        self._waits_over = threading.Event()
        self._core = Core(waits_over=self._waits_over)
        self._envs = Environments(slots)
        self._messages: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._answering: Asked | None = None
        self._froze = False
        self._making, self._judging = threading.Lock(), threading.Lock()
        load_codecs()

    def submit(self, ticket: int, job: AttemptJob) -> None:
        """Begin an attempt."""
        self._threads = [t for t in self._threads if t.is_alive()]
        thread = threading.Thread(
            target=self._run,
            args=(ticket, job),
            name=f"capex {job.chain.path.name} {job.slot.start}",
            daemon=True,
        )
        self._threads.append(thread)
        thread.start()

    def next(self, timeout_s: float) -> Message | None:
        """The next message of an attempt."""
        with contextlib.suppress(queue.Empty):
            return self._messages.get(timeout=max(0.0, timeout_s))
        return None

    def end_waits(self) -> None:
        """Cut off the attempts that only wait."""
        self._waits_over.set()

    def stop(self) -> None:
        """Cut off every attempt: those that simulate end within a control step, those that wait for
        a model are left to their wait.
        """
        self._core.stop.set()
        for thread in self._threads:
            thread.join(JOIN_S)

    def close(self) -> None:
        """Free the environments."""
        self._envs.close()
        if self._froze:
            gc.unfreeze()

    def _run(self, ticket: int, job: AttemptJob) -> None:
        try:
            who, env = demonstrator(self._asked(), job.method), self._envs.take(job.name)
            tell = lambda moved: self._messages.put(Message(ticket, moved))  # noqa: E731
            outcome = run_attempt(
                env,
                who,
                job,
                spend=self._spend,
                core=self._core,
                tell=tell,
                judge=self._campaign.judge,
                extensions=self._campaign.extensions,
            )
            if isinstance(outcome, Summary) and outcome.success is None:
                outcome = self._judged(outcome, tell)
            self._envs.give(env)
            self._messages.put(Message(ticket, outcome))
        except Stopped:
            return
        except BaseException as error:
            # Told to the driver, which stops the chain and raises it in the end.
            sentence = str(error) or type(error).__name__
            failed = Failed(sentence, traceback.format_exc(), _sendable(error))
            self._messages.put(Message(ticket, failed))

    def _judged(self, attempt: Summary, tell: Callable[[Progress], None]) -> Summary:
        """An attempt with its verdict, while the scene is as it left it."""
        judge = self._campaign.judge
        if judge is None or self._campaign.settings.judge != "now":
            return attempt
        tell(
            Progress(
                "judging", attempt.decisions, attempt.steps, attempt.requests, attempt.cost_usd
            )
        )
        with self._judging:  # one question at a time
            return summarize(ask(attempt.path, judge))

    def _asked(self) -> Asked:
        with self._making:
            if self._answering is None:
                self._answering = answering(self._campaign.model, self._campaign.settings.chat)
                # All that was imported stays: without this the collector looks through it again
                # and again, while every attempt stands still.
                self._froze = gc.get_freeze_count() == 0
                if self._froze:
                    gc.freeze()
            return self._answering


def _sendable(error: BaseException) -> Exception:
    """The error itself if it can travel between processes, else one that says the same."""
    if not isinstance(error, Exception):  # a model or a world that wants to end the program
        return RuntimeError(f"{type(error).__name__}: {error}")
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # whatever a foreign exception does when it is copied
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
