"""A campaign with a thousand injected faults of twelve kinds, kills included: do records,
spend.jsonl, status and report agree?

`python benchmarks/fault_campaign.py [FAULTS [KILLS]]`

A loopback server answers with the pilot, priced as a model of the price table, and keeps its own
books. It answers with errors, gateways' pages, resets, silence, stalled and torn bodies; the
campaign's process is killed with SIGKILL and started again. In the end everybody's sums must be the
same: attempts and replies to one, dollars to the cent, time to the second. Only what was in flight
at a kill may stand between the server's books and the campaign's, and that must be held in
spend.jsonl.
"""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import capex
from capex.campaign.scheduling import Pauses
from capex.campaign.status import read_status
from capex.models import Usage, openai_responses
from capex.models.prices import cost, load_prices
from capex.models.retry import RetryPolicy
from capex.pilot import make as make_pilot
from capex.pilot.serve import read_responses
from capex.run.spend import Spend

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from wire_server import Turn, WireServer

PRICED_AS = "gpt-6-astra"
TASK, ARMS = "kitchen:TurnOnMicrowave", "capex,base"
SOON = {"retry-after-ms": "5"}
# refusals in a row: more than a request's attempts, so that the attempt at the start is invalidated
# and continued
OUTAGE = 6
KILL = "SIGKILL of the campaign"
# kind -> weight, and what the server does. Silence costs the client its deadline, so that there is
# less of it.
KINDS: dict[str, tuple[float, Turn]] = {
    "HTTP 500, unbilled": (1.0, Turn(fault="http", status=500, headers=SOON)),
    "HTTP 429 with a wait": (1.0, Turn(fault="http", status=429, headers=SOON)),
    "outage: HTTP 503 six times": (0.15, Turn(fault="http", status=503, headers=SOON)),
    "gateway's page, HTTP 502": (
        1.0,
        Turn(fault="http", status=502, worked=True, body=b"<html>bad gateway</html>", headers=SOON),
    ),
    "connection reset": (1.0, Turn(fault="reset", worked=True)),
    "no reply in time": (0.3, Turn(fault="silent", worked=True)),
    "body that stalls": (0.3, Turn(fault="stall", worked=True)),
    "body torn in half": (1.0, Turn(fault="truncated", worked=True)),
    "HTML page with HTTP 200": (1.0, Turn(fault="body", body=b"<html>welcome</html>", worked=True)),
    "failure in HTTP 200": (
        1.0,
        Turn(fault="failed", code="server_error", usage=None, worked=True),
    ),
    "reply cut off by its limit": (0.5, Turn(incomplete=True)),
}


class Provider(WireServer):
    """The pilot behind the Responses wire, with faults in part of the requests until there were
    enough, and books of its own.
    """

    def __init__(self, faults: int, share: float, seed: int = 0):
        super().__init__(())
        self.faults, self.share, self.injected = faults, share, Counter[str]()
        self.told: dict[str, Usage] = {}  # request id -> tokens of replies that were sent whole
        self._rng, self._outage = random.Random(seed), 0

    def take(self) -> Turn:
        with self._lock:
            self.requests += 1
            number = self.requests
            kind = self._draw()
        usage = Usage(
            fresh=1000 + 37 * (number % 11),
            cached=250,
            cache_write=50,
            output=60 + number % 17,
            reasoning=20,
        )
        turn = KINDS[kind][1] if kind else Turn(calls=_pilot)
        headers = {**turn.headers, "x-request-id": f"req_{number}"}
        return Turn(
            **{**vars(turn), "headers": headers, "usage": usage if turn.usage is not None else None}
        )

    def _draw(self) -> str:
        if self._outage:
            self._outage -= 1
            kind = "outage: HTTP 503 six times"
        elif sum(self.injected.values()) >= self.faults or self._rng.random() >= self.share:
            return ""
        else:
            kind = self._rng.choices(list(KINDS), [weight for weight, _ in KINDS.values()])[0]
            self._outage = OUTAGE - 1 if kind.startswith("outage") else 0
        self.injected[kind] += 1
        return kind

    def account(self, turn: Turn) -> None:
        super().account(turn)
        if not turn.fault and turn.usage is not None:
            with self._lock:
                self.told[turn.headers["x-request-id"]] = turn.usage


def _pilot(body: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        (call.name, call.arguments) for call in make_pilot("").complete(read_responses(body)).calls
    ]


def child(out: str, url: str, starts: int) -> None:
    """The campaign's process."""
    os.environ["OPENAI_API_KEY"] = "none"
    policy = RetryPolicy(read_s=4.0, first_wait_s=0.01, longest_wait_s=0.02)
    model = openai_responses.make(PRICED_AS, base_url=url, policy=policy)
    options: dict[str, Any] = {"image_size": 256, "episode_usd": 25, "campaign_usd": 100_000}
    capex.collect(
        TASK,
        arm=ARMS,
        model=model,
        starts=f"0:{starts}",
        out=out,
        pauses=Pauses(0.05, longest_s=0.2),
        **options,
    )


def campaign(out: Path, url: str, starts: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, __file__, "child", str(out), url, str(starts)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def disturbed(out: Path, faults: int, kills: int) -> tuple[Provider, int]:
    """Collect until every fault was injected and every kill done; more starts are added as they are
    needed.
    """
    rng, starts, killed = random.Random(1), 4, 0
    with Provider(faults - kills, share=0.55) as provider:
        while True:
            process = campaign(out, provider.url, starts)
            if killed < kills:
                before = provider.requests
                while process.poll() is None and provider.requests == before:
                    time.sleep(0.01)
                pause_s = rng.uniform(0.0, 6.0)
                try:
                    process.wait(pause_s)
                except subprocess.TimeoutExpired:
                    process.send_signal(signal.SIGKILL)
                    killed += 1
            if process.wait() not in (0, -signal.SIGKILL):
                raise SystemExit(f"the campaign ended with exit code {process.returncode}")
            done = sum(provider.injected.values()) + killed
            print(
                f"\r{done} faults, {killed} kills, {provider.requests} requests, {starts} starts ",
                end="",
                file=sys.stderr,
                flush=True,
            )
            if process.returncode == 0:
                if done >= faults:
                    print(file=sys.stderr)
                    provider.injected[KILL] = killed
                    return provider, starts
                starts += 4


def decisions(run: Path) -> dict[str, Any]:
    """What was decided and what became of it, without costs."""
    found = {}
    for episode in capex.load_run(run).episodes:
        record = json.loads((episode.path / "record.json").read_text())
        found[f"{episode.chain} {episode.index}"] = [
            record["success"],
            record["steps"],
            record["turns"],
        ]
    return found


def logged(run: Path) -> dict[str, dict[str, Any]]:
    """Replies by request id that stand in some exchange log of the run."""
    found = {}
    for log in sorted(run.glob("chains/*/*/*/exchanges.jsonl")):
        for line in map(json.loads, log.read_text().splitlines()):
            if line["status"] in ("ok", "incomplete"):
                found[line["headers"]["x-request-id"]] = line
    return found


def main() -> None:
    faults = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    kills = int(sys.argv[2]) if len(sys.argv) > 2 else max(1, faults // 20)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        run, calm = Path(folder) / "run", Path(folder) / "calm"
        provider, starts = disturbed(run, faults, kills)
        with Provider(0, 0.0) as quiet:
            assert campaign(calm, quiet.url, starts).wait() == 0
        same = _same_decisions(run, calm)
        _show(run, provider, same, time.monotonic() - began)


def _same_decisions(run: Path, calm: Path) -> int:
    """Episodes decided as in an undisturbed campaign. A reply that its limit cut off costs a round,
    and so may change what follows.
    """
    ours, theirs = decisions(run), decisions(calm)
    given_up = {f"{a.chain} {a.index}" for a in capex.load_run(run).invalid if a.note.counts}
    assert ours.keys() <= theirs.keys() <= ours.keys() | given_up, (
        "starts are missing that were not recorded as invalid"
    )
    return sum(ours[key] == theirs[key] for key in ours)


def _show(run: Path, provider: Provider, same: int, seconds: float) -> None:
    price = load_prices().find(PRICED_AS)
    assert price is not None
    account = Spend(run / "spend.jsonl").account()
    loaded, told = capex.load_run(run), read_status(run).as_json()
    from capex import report  # not where only its server is wanted

    report.write([run], run.parent / "report", strips=0)
    rows = list(csv.DictReader((run.parent / "report" / "tables" / "headline.csv").open()))
    wins = [int(row["successes"]) for row in rows]

    def summed(column: str) -> float:
        return sum(float(row[column]) * n for row, n in zip(rows, wins, strict=True))

    kept = logged(run)
    server_usd = {key: cost(usage, price) for key, usage in provider.told.items()}
    kept_usd = sum((server_usd[key] or Decimal(0) for key in kept), Decimal(0))
    # Sent whole, but nobody was there to write them down.
    lost = {key for key in provider.told if key not in kept}
    own_s = sum(e.seconds for e in loaded.episodes)
    invalid_s = sum(
        a.timing.episode_s - a.timing.answered_s for a in loaded.invalid if _continued(a, loaded)
    )
    invalid_s += sum(a.timing.episode_s for a in loaded.invalid if not _continued(a, loaded))
    total = told["total"]

    console = Console(width=110)
    kinds = Table(title="Injected faults", title_justify="left")
    for name in ("kind", "times"):
        kinds.add_column(name, justify="left" if name == "kind" else "right")
    for kind, count in sorted(provider.injected.items(), key=lambda item: -item[1]):
        kinds.add_row(kind, str(count))
    kinds.add_row("all", str(sum(provider.injected.values())), style="bold")
    console.print(kinds)

    books = Table(title="Who says what", title_justify="left")
    for name in ("", "server", "spend.jsonl", "status", "report"):
        books.add_column(name, justify="left" if not name else "right")
    books.add_row(
        "attempts on the wire",
        f"{provider.requests}",
        f"{account.attempts}",
        f"{told['attempts']}",
        "",
    )
    books.add_row(
        "replies",
        f"{len(provider.told)}",
        f"{account.requests}",
        f"{total['requests']}",
        f"{summed('requests_per_success'):.0f}",
    )
    settled, most = account.settled_usd, account.total_usd
    known = (
        f"{kept_usd:.4f}",
        f"{settled:.4f}",
        f"{total['usd']:.4f}",
        f"{summed('usd_per_success'):.4f}",
    )
    books.add_row("dollars, known", *known)
    books.add_row(
        "dollars, at most",
        "",
        f"{most:.4f}",
        f"{total['usd_at_most']:.4f}",
        f"{summed('usd_per_success_at_most'):.4f}",
    )
    books.add_row(
        "seconds",
        f"{own_s + invalid_s:.1f} in timing.json",
        "",
        f"{total['seconds']:.1f}",
        f"{60 * summed('minutes_per_success'):.1f}",
    )
    console.print(books)

    invalid = (
        f"{len(loaded.invalid)} invalidated attempts,"
        f" {sum(_continued(a, loaded) for a in loaded.invalid)} of them continued"
    )
    console.print(
        f"{len(loaded.episodes)} episodes, {same} decided as in an undisturbed campaign; {invalid}"
    )
    console.print(
        f"in flight at a kill: {account.unsettled} attempts held in spend.jsonl, {len(lost)}"
        " replies of the server never written down"
    )
    console.print(f"{seconds:.0f} s")

    assert all(n > 0 for n in wins), "a method without a success has no cost per success to compare"
    assert not loaded.damaged
    assert account.overruns == 0
    # The server and the books: apart from what a kill or the deadline cut off, every attempt and
    # every reply is there.
    assert account.attempts - account.unsettled <= provider.requests <= account.attempts
    assert len(kept) <= account.requests <= len(provider.told)
    assert (
        kept_usd
        <= settled
        <= kept_usd + sum((server_usd[key] or Decimal(0) for key in lost), Decimal(0))
    )
    assert len(lost) <= account.unsettled + account.unknown + (account.requests - len(kept))
    # The books and everybody else.
    assert told["attempts"] == account.attempts
    assert round(summed("requests_per_success")) == total["requests"] == account.requests
    assert (
        abs(total["usd"] - float(settled)) < 1e-6 > abs(summed("usd_per_success") - float(settled))
    )
    assert (
        abs(total["usd_at_most"] - float(most))
        < 1e-6
        > abs(summed("usd_per_success_at_most") - float(most))
    )
    assert (
        abs(total["seconds"] - own_s - invalid_s)
        < 1
        > abs(60 * summed("minutes_per_success") - own_s - invalid_s)
    )
    # An episode's model time holds what its exchanges took, whenever that was.
    for episode in loaded.episodes:
        log = (episode.path / "exchange_times.jsonl").read_text().splitlines()
        waited = sum(t["latency_s"] + t.get("waited_s", 0.0) for t in map(json.loads, log))
        assert episode.timing.model_s > waited - 0.1, episode.path
    console.print("all agree")


def _continued(attempt: capex.run.InvalidAttempt, run: capex.run.LoadedRun) -> bool:
    """Whether a later attempt at the start took over what this one had paid for."""
    # Oldest first.
    tried = [a for a in run.invalid if (a.chain, a.index) == (attempt.chain, attempt.index)]
    done = any((e.chain, e.index) == (attempt.chain, attempt.index) for e in run.episodes)
    return bool(attempt.note.continues) and (done or tried[-1] is not attempt)


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        child(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        main()
