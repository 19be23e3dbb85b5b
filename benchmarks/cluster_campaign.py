"""Campaigns on a Ray cluster of five nodes whose nodes, driver and connections do not last.

    python benchmarks/cluster_campaign.py [BLOWS [SEED]] [--starts N] [--nodes N] [--minutes M]

By default 12 blows, seed 0, 12 starts of each of four chains, and five nodes; needs the extra ray.
One campaign follows the other until all blows have fallen.

The nodes are processes of this machine with addresses of their own (127.0.0.2 to 127.0.0.5, which
Linux has without being told). A few seconds after each sign of work a blow falls: a node is killed
with SIGKILL and another one added, the driver is killed and started on another node, the head is
killed with all that hangs on it and the driver started on a new cluster, or the connections of a
node to the head, which pass a proxy, are cut, stalled or half-closed: of any seven blows each kind
falls at least once. After so many minutes no more blows fall. In the end
the records of each must equal those of an undisturbed run in one process, byte for byte but for
times, nothing may have cost more than the budget, and only what was in flight may have been paid
for twice. Prints the table; exit status 1 where that was not so. SIGTERM ends the blows, and the
campaign comes to its end.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

from thousand_chains import PATIENT

os.environ |= PATIENT  # which Ray reads as it is imported
import ray
from ray.cluster_utils import Cluster
from rich.console import Console
from rich.table import Table

import capex
from capex.run.spend import Spend

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from rehearsal.proxy import ProxyProcess

from lab.campaigns import contents, price_file

TESTS = Path(__file__).resolve().parent.parent / "tests"
TASKS, EPISODE_USD = "lab.world:low,high", Decimal(40) / 48
BLOWS = ("node", "node", "driver", "cut", "stall", "half-close", "head")
SMALL = {"num_cpus": 1, "object_store_memory": 80_000_000}
SLOTS = 8
PATIENCE = 5  # times that a node may fail to start
CHAINS = 4
HANGS_S = 1200.0  # that the campaign may take after the last blow


def child(out: str, prices: str, starts: str, address: str, place: str) -> None:
    """The driver's process, on the node with the address `place`; without one, on no cluster."""
    options: dict[str, Any] = {"arm": "capex,base", "starts": f"0:{starts}", "decisions": 6}
    options |= {"image_size": 32, "prices": prices, "campaign_usd": float(budget_usd(int(starts)))}
    options |= {"model": "lab.model:delay=0.2", "max_output_tokens": 256, "slots": SLOTS}
    if place:
        ray.init(address, _node_ip_address=place, log_to_driver=False, logging_level="error")
        options["ray"] = address
    capex.collect(TASKS, out=out, **options)


def budget_usd(starts: int) -> Decimal:
    """What the campaign may cost."""
    return CHAINS * starts * EPISODE_USD


def patiently(start: Callable[[], Any]) -> Any:
    """Start a node; Ray gives one half a minute, which a busy machine may not have."""
    for _ in range(PATIENCE):
        try:
            return start()
        except Exception as error:
            if "timed out during startup" not in str(error):
                raise
    raise SystemExit("this machine is too busy for a Ray node to start")


class Bench:
    """The cluster, and what befalls it."""

    def __init__(self, folder: Path, seed: int, starts: int, nodes: int):
        self._rng, self._folder, self._prices = random.Random(seed), folder, price_file(folder)
        self._starts, self._deck, self.runs = starts, list[str](), list[Path]()
        self.blows: Counter[str] = Counter()
        self._proxies: dict[str, ProxyProcess] = {}
        self._nodes: dict[str, Any] = {}
        self._begin(f"127.0.0.{number}" for number in range(2, nodes + 1))

    def _begin(self, places: Iterable[str]) -> None:
        """A cluster with a head and nodes."""
        head = {**SMALL, "include_dashboard": False}
        self._cluster = patiently(lambda: Cluster(initialize_head=True, head_node_args=head))
        self._head = self._cluster.address.rpartition(":")[0]
        for place in places:
            self._add(place)

    def _add(self, place: str) -> None:
        """A node, whose connections to the head pass a proxy."""
        proxy = ProxyProcess(self._cluster.address)
        given = {"gcs_address": proxy.address, "node_ip_address": place, **SMALL}
        node = patiently(lambda: self._cluster.add_node(wait=False, **given))
        self._nodes[place], self._proxies[place] = node, proxy

    def drive(self, place: str) -> subprocess.Popen[bytes]:
        """Start the driver on a node."""
        words = [str(self.runs[-1]), str(self._prices), str(self._starts)]
        words += [self._cluster.address, place]
        path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
        return subprocess.Popen(
            [sys.executable, __file__, "child", *words],
            env={**os.environ, "PYTHONPATH": path},
            stdout=subprocess.DEVNULL,
        )

    def campaigns(
        self, blows: int, seconds: float, stopped: list[int], within_s: float = 5.0
    ) -> None:
        """One after the other, until so many blows have fallen or the time is over."""
        over = time.monotonic() + seconds
        while not self.runs or (self._left(blows, over) and not stopped):
            self.runs.append(self._folder / f"run-{len(self.runs)}")
            self._campaign(blows, over, stopped, within_s)

    def _campaign(self, blows: int, over: float, stopped: list[int], within_s: float) -> None:
        """From the driver's start to the campaign's end, with blows between."""
        until, place = over + HANGS_S, self._head
        driver, before, strikes = self.drive(place), 0, math.inf
        while driver.poll() != 0:
            now = time.monotonic()
            if now > until:
                driver.kill()
                raise SystemExit("the campaign hangs")
            if driver.poll() is not None:  # one slot has lost its node too often
                self.blows["driver gave up and was started again"] += 1
                driver = self.drive(place)
            if strikes == math.inf and (size := self._books()) != before:  # it works again
                before, strikes = size, now + self._rng.uniform(0.0, within_s)
            if now > strikes and self._left(blows, over) and not stopped:
                driver, place = self._strike(driver, place)
                print(dict(self.blows), file=sys.stderr, flush=True)
                before, strikes = self._books(), math.inf
            time.sleep(0.1)

    def _left(self, blows: int, over: float) -> bool:
        return sum(self.blows.values()) < blows and time.monotonic() < over

    def _books(self) -> int:
        books = self.runs[-1] / "spend.jsonl"
        return books.stat().st_size if books.exists() else 0

    def _end(self) -> list[str]:
        """Kill the head and every node; the places of the nodes."""
        places = list(self._nodes)
        for node in (*self._nodes.values(), self._cluster.head_node):
            self._cluster.remove_node(node, allow_graceful=False)
        for proxy in self._proxies.values():
            proxy.close()
        self._nodes.clear()
        self._proxies.clear()
        return places

    def _strike(
        self, driver: subprocess.Popen[bytes], place: str
    ) -> tuple[subprocess.Popen[bytes], str]:
        others = [p for p in self._nodes if p != place]
        if not self._deck:
            self._deck = self._rng.sample(BLOWS, len(BLOWS))
        blow = self._deck.pop()
        if blow == "node":
            gone = self._rng.choice(others)
            self._cluster.remove_node(self._nodes.pop(gone), allow_graceful=False)
            self._proxies.pop(gone).close()
            self._add(gone)
            self.blows["nodes killed and added"] += 1
        elif blow == "driver":
            driver.send_signal(signal.SIGKILL)
            driver.wait()
            place = self._rng.choice([*others, self._head])
            driver = self.drive(place)
            self.blows["drivers killed and started on another node"] += 1
        elif blow == "head":
            places = self._end()
            driver.kill()
            driver.wait()
            self._begin(places)
            place = self._head
            driver = self.drive(place)
            self.blows["heads killed, and all nodes; driver started on a new cluster"] += 1
        else:
            proxy = self._proxies[self._rng.choice(list(self._nodes))]
            proxy.strike(blow)
            self.blows[f"connections of a node: {blow}"] += 1
        return driver, place

    def close(self) -> None:
        """End every process of the cluster."""
        self._cluster.shutdown()
        for proxy in self._proxies.values():
            proxy.close()


def main() -> None:
    """Campaigns with blows, and one without for comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("blows", nargs="?", type=int, default=12)
    parser.add_argument("seed", nargs="?", type=int, default=0)
    parser.add_argument("--starts", type=int, default=12)
    parser.add_argument("--nodes", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument(
        "--within", type=float, default=5.0, help="seconds of work before a blow, at most"
    )
    given, began, stopped = parser.parse_args(), time.monotonic(), list[int]()
    if given.nodes < 3 and given.blows > 1:
        parser.error(f"--nodes {given.nodes}: more than one blow needs at least three nodes")
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
    shm = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=shm) as name:
        folder = Path(name)
        bench = Bench(folder, given.seed, given.starts, given.nodes)
        try:
            bench.campaigns(given.blows, 60 * given.minutes, stopped, given.within)
        finally:
            bench.close()
        child(str(folder / "calm"), str(folder / "prices.toml"), str(given.starts), "", "")
        limit = budget_usd(given.starts)
        broken = show(folder, bench, limit, f"A cluster of {given.nodes} nodes")
        print(f"{time.monotonic() - began:.0f} s")
    sys.exit(1 if broken else 0)


def show(folder: Path, bench: Bench, limit: Decimal, title: str) -> list[str]:
    """The table, and the promises that were broken."""
    calm = folder / "calm"
    wanted, quiet = contents(calm), Spend(calm / "spend.jsonl").account()
    loaded = [capex.load_run(run) for run in bench.runs]
    accounts = [Spend(run / "spend.jsonl").account() for run in bench.runs]
    recorded = [sum(e.record.ledger.attempts for e in r.episodes) for r in loaded]
    sent, kills = sum(a.attempts for a in accounts), sum(bench.blows.values())
    promises = {
        "the records equal an undisturbed campaign's": all(
            contents(r) == wanted for r in bench.runs
        ),
        "nothing is damaged or half-written": not any(r.damaged for r in loaded)
        and not list(folder.rglob(".writing-*")),
        "the budget holds": all(a.total_usd <= limit and not a.overruns for a in accounts),
        "each request is counted once": set(recorded) == {quiet.attempts},
        "paid twice: at most what was in flight": sent - sum(recorded) <= kills * SLOTS
        and all(a.attempts >= n for a, n in zip(accounts, recorded, strict=True)),
    }
    table = Table(title=title, title_justify="left", show_header=False)
    for name, count in sorted(bench.blows.items()):
        table.add_row(name, str(count))
    dollars = (sum(getattr(a, f"{kind}_usd") for a in accounts) for kind in ("settled", "held"))
    table.add_row("campaigns", str(len(bench.runs)))
    table.add_row("episodes", str(sum(len(r.episodes) for r in loaded)))
    table.add_row("files compared with an undisturbed campaign's", str(len(wanted) * len(loaded)))
    table.add_row("attempts in records, in spend.jsonl", f"{sum(recorded)}, {sent}")
    table.add_row("dollars settled, held", ", ".join(f"{usd:.4f}" for usd in dollars))
    for name, holds in promises.items():
        table.add_row(name, "yes" if holds else "NO", style="" if holds else "bold red")
    Console(width=110).print(table)
    return [name for name, holds in promises.items() if not holds]


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        child(*sys.argv[2:7])
    else:
        main()
