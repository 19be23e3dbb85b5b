"""Generated replies through every wire, as whole HTTP responses from a loopback server.

    python benchmarks/hostile_replies.py [REPLIES [SEED]] [--processes N]

By default 100,000 and 0; processes share the replies, each with a seed of its own.

Mutations of real replies, junk by a grammar, bodies and tools of other protocols, control
characters, absurd sizes, HTTP that lies (tests/junk.py). Each is asked for by an episode in a toy
world with ledger and exchange log, so that it passes client, reading, execution, record and the
next request. It must end as a harmless reading (a plan that the executor keeps inside the
workspace, a look at a pixel), as a sentence to the model, or as a sentence to the user. Prints the
table; exit status 1 where something else was raised or written. SIGTERM ends it early with its
table.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from rehearsal.shares import Tick, share
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from capex.campaign.ledger import Ledger
from capex.errors import printable
from capex.method.context import Committed, EpisodeContext, Event, Replied
from capex.method.demonstrator import run_episode
from capex.method.memory import Memory
from capex.method.presets import preset
from capex.method.reading import Act, Locate, read_calls
from capex.method.record import from_json
from capex.method.tools import interface
from capex.models import Model, ModelError, anthropic, openai_chat, openai_responses
from capex.models.cassette import read_requests
from capex.models.exchanges import ExchangeLog
from capex.models.prices import load_prices
from capex.models.retry import RetryPolicy
from capex.run.files import read_json, write_json
from capex.run.spend import Spend
from capex.worlds import Start
from junk import KINDS, junk
from lab.world import LabEnv
from wire_server import Wire

WIRES: dict[str, Wire] = {
    "openai": "responses",
    "chat": "chat",
    "chat-text": "chat",
    "anthropic": "messages",
}
Replies = Iterator[tuple[str, bytes]]  # kind and what the server sends
ENDS = ("carried out", "a sentence to the model", "a sentence to the user", "broken")
HASTY = RetryPolicy(attempts=6, read_s=10.0, first_wait_s=0.0, longest_retry_after_s=0.0)
EPISODES_OF_A_MEMORY = 5
SENTENCE_CHARACTERS = 1500


class Server:
    """Sends prepared responses, one for each connection, and closes."""

    def __init__(self) -> None:
        self.reply = b""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.root = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                try:
                    _take_in(connection)
                    connection.sendall(self.reply)
                except OSError:  # the client has had enough
                    pass


def _take_in(connection: socket.socket) -> None:
    head = b""
    while b"\r\n\r\n" not in head:
        if not (more := connection.recv(65536)):
            return
        head += more
    head, _, body = head.partition(b"\r\n\r\n")
    length = next(
        int(h.split(b":")[1])
        for h in head.split(b"\r\n")
        if h.lower().startswith(b"content-length")
    )
    left = length - len(body)
    while left > 0 and (more := connection.recv(min(left, 1 << 20))):
        left -= len(more)


@dataclass
class Storm:
    """What came of the replies on one wire."""

    wire: str
    ends: Counter[tuple[str, str]] = field(default_factory=Counter)  # kind and end -> times
    broken: list[str] = field(default_factory=list)
    sent: int = 0
    slowest_s: float = 0.0
    kind: str = ""
    _began: float = 0.0

    def before(self, kind: str) -> None:
        """A reply of a kind is asked for."""
        self.kind = kind
        self.sent += 1
        self._began = time.monotonic()

    def after(self, attempt: Any) -> None:
        """How long it took to read, and what the user would be told."""
        self.slowest_s = max(self.slowest_s, time.monotonic() - self._began)
        if attempt.answer is None:
            said = attempt.error
            clean = printable(said) == said and "\n" not in said
            clean = clean and bool(attempt.kind) and 0 < len(said) < SENTENCE_CHARACTERS
            self.end("a sentence to the user" if clean else "broken", repr(said[:200]))

    def end(self, how: str, why: str = "") -> None:
        """Count how the present reply ended."""
        self.ends[self.kind, how] += 1
        if how == "broken":
            self.broken.append(f"{self.wire}, reply {self.sent - 1} ({self.kind}): {why}")
            print(self.broken[-1], file=sys.stderr, flush=True)


def storm(
    replies: int,
    folder: Path,
    seed: int = 0,
    wires: Sequence[str] = tuple(WIRES),
    tick: Callable[[int], bool] = lambda sent: True,
) -> list[Storm]:
    """Let episodes ask for so many replies, the wires in turn, until `tick` says no."""
    servers = {wire: Server() for wire in wires}
    askers = []
    for wire, server in servers.items():
        made = _junk(WIRES[wire], random.Random(f"{wire} {seed}"))
        askers.append(Asker(Storm(wire), server, made, folder / wire))
    try:
        while (sent := sum(a.told.sent for a in askers)) < replies and tick(sent):
            for asker in askers:
                asker.episode()
    finally:
        for server in servers.values():
            server.close()
    return [asker.told for asker in askers]


def _junk(wire: Wire, rng: random.Random) -> Replies:
    while True:
        yield junk(wire, rng)


def _model(wire: str, root: str) -> Model:
    os.environ |= {"OPENAI_API_KEY": "none", "ANTHROPIC_API_KEY": "none"}
    if wire == "openai":
        return openai_responses.make("gpt-6-astra", base_url=f"{root}/v1", policy=HASTY)
    if wire == "anthropic":
        return anthropic.make("junk", base_url=root, policy=HASTY)
    chat = replace(openai_chat.PAPER, context_tokens=10_000_000)
    make = openai_chat.make_text if wire == "chat-text" else openai_chat.make
    return make(f"junk@{root}", chat, policy=HASTY)


class Asker:
    """Runs episodes in a toy world, with all that a campaign puts around them."""

    def __init__(self, told: Storm, server: Server, replies: Replies, folder: Path):
        self.told, self._server, self._replies, self._folder = told, server, replies, folder
        self._model = _model(told.wire, server.root)
        self._env = LabEnv("lab.world", "high")
        self._method = replace(preset("capex"), decisions=12, notes=True, done=True, image_size=32)
        self._face = interface(self._env.spec, self._method)
        self._memory, self._number = Memory(), 0
        self._price = load_prices().find("gpt-6-astra")

    def episode(self) -> None:
        """One episode, as far as its replies let it come."""
        told, folder = self.told, self._folder / f"{self._number:06d}"
        self._number += 1
        folder.mkdir(parents=True)
        log = ExchangeLog(folder, self._model, None)
        ledger = Ledger(self._price, (), Spend(self._folder / f"spend-{self._number // 50}.jsonl"))
        context = EpisodeContext(ledger=ledger, log=_Both(self, log), subscribers=(self._hear,))
        start = Start("high", self._number % 100, 0)
        try:
            episode = run_episode(
                self._env, start, self._model, self._method, self._memory, context
            )
            self._keep(folder, episode.record, episode.pictures)
        except ModelError:  # what it says was looked at as its attempts ended
            pass
        except Exception:
            told.end("broken", traceback.format_exc())
        try:
            if (folder / "exchanges.jsonl").exists():
                for request in read_requests(folder / "exchanges.jsonl"):
                    for attempt in request.attempts():
                        self._model.reread(attempt.body)
        except Exception:
            told.end("broken", f"the log cannot be read back: {traceback.format_exc()}")
        shutil.rmtree(folder)

    def prepare(self) -> None:
        """Let the server have the next reply."""
        kind, self._server.reply = next(self._replies)
        self.told.before(kind)

    def _keep(self, folder: Path, record: Any, pictures: Any) -> None:
        """Write the record as a campaign does, read it back, and remember it."""
        write_json(folder / "record.json", record.as_json())
        back = from_json(read_json(folder / "record.json"))
        if json.dumps(back.as_json()) != json.dumps(record.as_json()):
            self.told.end("broken", "the record is not what was written")
        self._memory.add(back, pictures)
        if self._number % EPISODES_OF_A_MEMORY == 0:
            self._memory = Memory()

    def _hear(self, event: Event) -> None:
        if isinstance(event, Replied):
            tips = {n: a.T_base_tip.position_m for n, a in self._env.robot_state().arms.items()}
            reads = read_calls(event.reply.calls, self._face, tips)
            valid = any(isinstance(read.meaning, Act | Locate) for read in reads)
            self.told.end(ENDS[0] if valid else ENDS[1])
        if isinstance(event, Committed):
            for name, target in (item for targets in event.targets for item in targets.items()):
                lower, upper = np.asarray(self._env.spec.workspace_of(name))
                at = target.position_m
                if not np.all((lower - 1e-9 <= at) & (at <= upper + 1e-9)):  # also where one is NaN
                    self.told.end("broken", f"a target at {at}")


@dataclass(frozen=True)
class _Both:
    """The asker sees an attempt before the log does."""

    asker: Asker
    log: ExchangeLog

    def before(self, request: Any, number: int) -> None:
        self.asker.prepare()
        self.log.before(request, number)

    def after(self, request: Any, number: int, attempt: Any) -> None:
        self.asker.told.after(attempt)
        self.log.after(request, number, attempt)

    def again(self, request: Any, number: int, attempt: Any) -> None:
        self.log.again(request, number, attempt)

    def waiting(self) -> None:
        pass


def show(storms: list[Storm], seconds: float, console: Console) -> None:
    """The table of kinds, and what was broken."""
    table = Table(title="What became of generated replies", title_justify="left")
    table.add_column("kind")
    for name in ("replies", *ENDS):
        table.add_column(name, justify="right")
    total: Counter[tuple[str, str]] = sum((s.ends for s in storms), Counter())
    for kind in KINDS:
        counts = [total[kind, end] for end in ENDS]
        table.add_row(kind, f"{sum(counts):,}", *(f"{n:,}" for n in counts))
    sums = [sum(total[kind, end] for kind in KINDS) for end in ENDS]
    table.add_row("all", f"{sum(sums):,}", *(f"{n:,}" for n in sums), style="bold")
    console.print(table)
    for wire in WIRES:
        own = [s for s in storms if s.wire == wire]
        slowest_s = max(s.slowest_s for s in own)
        console.print(f"{wire}: {sum(s.sent for s in own):,} replies, slowest {slowest_s:.1f} s")
    console.print(f"{seconds:.0f} s")


def blow(replies: int, seed: int, tick: Tick) -> list[Storm]:
    """All wires in turn, in a folder of its own."""
    shm = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=shm) as folder:
        return storm(replies, Path(folder), seed, tick=tick)


def main() -> None:
    """Send the replies, and show what became of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("replies", nargs="?", type=int, default=100_000)
    parser.add_argument("seed", nargs="?", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    given, began = parser.parse_args(), time.monotonic()
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("replies", total=given.replies)

        def tick(done: int) -> None:
            bar.update(task, completed=done)

        parts = share(blow, given.replies, given.seed, given.processes, tick)
    storms = [told for part in parts for told in part]
    show(storms, time.monotonic() - began, Console(width=130))
    sys.exit(1 if any(s.broken for s in storms) else 0)


if __name__ == "__main__":
    main()
