"""Kills campaigns with SIGKILL at random moments, driver and workers, and starts them again.

    python benchmarks/kill_campaign.py [KILLS [WORLD [SEED]]] [--processes N]

By default 20, kitchen and 1; processes share the kills, each with campaigns and a seed of its own.

A driver is killed while its attempts run in threads, or with two worker processes beside it,
which are killed too, one at a time, while it goes on. WORLD is `kitchen` (two tasks, two arms, ten
starts, the pilot), `lab` (a toy and a model of the tests, a hundred times cheaper) or `tight` (the
lab with a budget for each start that a few requests lost to kills use up). Campaigns
follow each other until there were enough kills. After every kill what the run holds must be whole
and within its budget, which is tight and is raised when it is spent. In the end the records must
equal those of an undisturbed run, byte for byte but for times; nothing may have been paid for twice
but what was in flight at a kill, and that must stand in the books. Of a tight campaign every start
must end as an episode or, with its budget used up by what kills lost, as invalid; after every kill
no start may count more than its budget, and the run no more than it announced. Prints the table;
exit status 1 where that was not so. SIGTERM ends it early, after the present campaigns. Nodes of a
cluster are killed in cluster_campaign.py.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

from rehearsal.shares import Tick, share
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import capex
from capex.campaign import api  # before the first fork, and not after each
from capex.campaign.engines import processes, threads
from capex.campaign.status import read_status
from capex.errors import CapexError
from capex.run.spend import Account, Spend

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from lab import model, world
from lab.campaigns import contents, price_file

IMPORTED = (api, processes, threads, model, world)

SLOTS = 4
DONE, REFUSED, FAILED = 0, 2, 70  # exit statuses of a driver
HANGS_S = 300.0  # that a driver may live
IN_VAIN = 12  # drivers that may end without being killed before the campaign is whole
KILLS_A_CAMPAIGN = 20  # at most
KILLS_WITH_WORKERS = 6  # fewer: each needs a process that imports everything


@dataclass(frozen=True)
class Victim:
    """The campaign that is killed."""

    tasks: str
    settings: dict[str, Any]
    tight: bool = False  # its starts have budgets that kills use up

    def drive(self, out: Path, usd: Decimal, workers: int | None) -> int:
        """Run the campaign in a process of its own; returns its number."""
        child = os.fork()
        if child:
            return child
        status = FAILED
        try:
            os.setpgid(0, 0)
            options = {**self.settings, "parallel": workers, "campaign_usd": float(usd)}
            capex.collect(self.tasks, out=out, slots=SLOTS, **options)
            status = DONE
        except CapexError:  # the budget is spent, or one slot has lost too many workers
            status = REFUSED
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)


def victim(name: str, folder: Path) -> Victim:
    """The campaign in a world."""
    if name in ("lab", "tight"):
        priced = {"prices": price_file(folder)}
        lab = {"model": "lab.model:delay=0.04", "starts": "0:6", "decisions": 6, "image_size": 32}
        lab |= {"max_output_tokens": 256}  # so that the worst case of a request is near its cost
        settings = {"arm": "capex,base", **lab, **priced}
        return Victim("lab.world:low,high", settings, tight=name == "tight")
    pilot = {"model": "pilot:price=gpt-6-astra", "starts": "0:10", "decisions": 8}
    tasks = "kitchen:CloseFridge,TurnOnMicrowave"
    return Victim(tasks, {"arm": "capex,base", "image_size": 256, **pilot})


@dataclass
class Tally:
    """What the campaigns have taken and left."""

    kills: Counter[str] = field(default_factory=Counter)
    campaigns: int = 0  # begun
    whole: int = 0  # that came to their end
    episodes: int = 0
    files: int = 0
    recorded: int = 0  # attempts at the model that stand in records
    booked: int = 0  # and in spend.jsonl
    calm_usd: Decimal = Decimal(0)  # what an undisturbed run costs
    settled_usd: Decimal = Decimal(0)
    held_usd: Decimal = Decimal(0)
    raised: int = 0  # budgets that were spent and raised
    given_up: int = 0  # starts of which requests lost to kills used the budget up
    looks: int = 0  # how often the sums were compared with the budgets
    broken: list[str] = field(default_factory=list)

    def check(self, holds: bool, why: str) -> None:
        """Note a promise that was broken."""
        if not holds:
            self.broken.append(why)
            print(why, file=sys.stderr, flush=True)


class Killer:
    """Kills campaigns of one kind, one after the other."""

    def __init__(self, folder: Path, world: str, seed: int):
        self._folder, self._rng = folder, random.Random(seed)
        self._victim, self.tally = victim(world, folder), Tally()
        began, calm = time.monotonic(), folder / "calm"
        child = self._victim.drive(calm, Decimal(10_000), None)
        assert _exit(os.waitpid(child, 0)[1]) == DONE
        self.calm_s = time.monotonic() - began
        self._calm, self._account = contents(calm), Spend(calm / "spend.jsonl").account()
        rows = map(json.loads, (calm / "spend.jsonl").read_text().splitlines())
        self._worst_usd = max(Decimal(row["usd"]) for row in rows if row["line"] == "reserve")
        self._mean_s = 2 * self.calm_s / KILLS_A_CAMPAIGN
        episodes = capex.load_run(calm).episodes
        self._episodes, self._episode_usd = len(episodes), Decimal(25)  # the default
        if self._victim.tight:
            most = max(Decimal(str(e.record.cost_usd)) for e in episodes)
            self._episode_usd = Decimal(f"{most + self._worst_usd:.4f}")
            settings = self._victim.settings | {"episode_usd": float(self._episode_usd)}
            self._victim = replace(self._victim, settings=settings)

    def campaign(self, kills: int, workers: int | None) -> int:
        """One campaign from its first start to its end, killed so many times at most; returns
        how many times.
        """
        run = self._folder / f"run-{self.tally.campaigns:04d}"
        self.tally.campaigns += 1
        usd, done, in_vain = self._budget(None), 0, 0
        while in_vain < IN_VAIN:
            child = self._victim.drive(run, usd, workers)
            took, status = self._strike(child, kills - done, workers, run)
            done += took
            self._look(run, usd)
            if status == FAILED:
                break
            if status is None:
                continue
            if status == DONE and self._whole(run):
                self._end(run, done)
                return done
            in_vain = 0 if took else in_vain + 1  # a spent budget, or too many kills of one slot
            usd = self._budget(Spend(run / "spend.jsonl").account())
            self.tally.raised += 1
        self.tally.check(False, f"{run}: the campaign does not come to its end")
        return max(1, done)

    def _whole(self, run: Path) -> bool:
        """Whether every start has an episode, or was given up for want of dollars."""
        loaded = capex.load_run(run)
        given_up = {(a.chain, a.index) for a in loaded.invalid if a.note.final}
        return len(loaded.episodes) + len(given_up) == self._episodes

    def _budget(self, account: Account | None) -> Decimal:
        """What the campaign may cost next: a few requests at their worst beyond what is spent."""
        spent = Decimal(0) if account is None else account.total_usd
        return spent + self._account.total_usd / 3 + SLOTS * self._worst_usd

    def _strike(
        self, child: int, kills: int, workers: int | None, run: Path
    ) -> tuple[int, int | None]:
        """Let a driver run and kill its workers, until it is killed itself or ends; kills done,
        and its exit status if it ended.
        """
        done, until = 0, time.monotonic() + HANGS_S
        before, early = _size(run), self._rng.random() < 0.2  # some before the first request
        strikes = time.monotonic() + self._rng.uniform(0.0, 1.0) if early else math.inf
        while (status := _ended(child)) is None:
            now = time.monotonic()
            if strikes == math.inf and _size(run) != before:
                strikes = now + self._rng.expovariate(1 / self._mean_s)
            if done < kills and now >= strikes:
                found = _workers(child) if workers else []
                if found and self._rng.random() < 0.7:
                    _kill(self._rng.choice(found))
                    self.tally.kills["worker"] += 1
                else:
                    _kill(child)
                    os.waitpid(child, 0)
                    self.tally.kills["driver"] += 1
                    return done + 1, None
                done += 1
                before, strikes = _size(run), math.inf
            if now > until:
                _kill(child)
                os.waitpid(child, 0)
                self.tally.check(False, f"{run}: the driver hangs")
                return done, None
            time.sleep(0.003)
        return done, status

    def _look(self, run: Path, usd: Decimal) -> None:
        """After a kill: everything whole, nothing beyond the budget."""
        if not (run / "manifest.json").exists():
            return
        self.tally.check(not (damaged := capex.load_run(run).damaged), f"{run}: {damaged}")
        if (run / "spend.jsonl").exists():
            spend = Spend(run / "spend.jsonl")
            account, most = spend.account(), self._episodes * self._episode_usd
            self.tally.looks += 1
            announced = min(usd, most)
            self.tally.check(
                account.total_usd <= announced, f"{run}: {account.total_usd} above {announced}"
            )
            for slot, own in spend.slots().items():
                why = f"{run}: {own.total_usd} of {self._episode_usd} at {slot}"
                self.tally.check(own.total_usd <= self._episode_usd, why)
            self.tally.check(account.total_usd <= usd, f"{run}: {account.total_usd} of {usd}")
            self.tally.check(account.overruns == 0, f"{run}: {account.overruns} overruns")

    def _end(self, run: Path, kills: int) -> None:
        tally, account = self.tally, Spend(run / "spend.jsonl").account()
        found, episodes = contents(run), capex.load_run(run).episodes
        tight = self._victim.tight
        same = found == self._calm or tight
        tally.check(same, f"{run}: the records differ from an undisturbed campaign's")
        left = [str(path.relative_to(run)) for path in run.rglob(".writing-*")]
        tally.check(not left, f"{run}: half-written is {', '.join(left)}")
        recorded = sum(e.record.ledger.attempts for e in episodes)
        whole = recorded == self._account.attempts or tight
        tally.check(whole, f"{run}: {recorded} attempts recorded")
        twice = account.attempts - recorded
        few = 0 <= twice <= kills * SLOTS or tight
        tally.check(few, f"{run}: {twice} paid twice after {kills} kills")
        tally.given_up += self._episodes - len(episodes)
        told = read_status(run).as_json()
        tally.check(told["attempts"] == account.attempts, f"{run}: status says {told['attempts']}")
        exact = abs(told["total"]["usd_at_most"] - float(account.total_usd)) < 1e-6
        tally.check(exact, f"{run}: status says ${told['total']['usd_at_most']}")
        tally.whole += 1
        tally.episodes += len(episodes)
        tally.files += len(found)
        tally.recorded += recorded
        tally.booked += account.attempts
        tally.calm_usd += self._account.total_usd
        tally.settled_usd += account.settled_usd
        tally.held_usd += account.held_usd


def show(tallies: list[Tally], seconds: float) -> None:
    """The table."""
    t = Tally()
    for other in tallies:
        for name in (f.name for f in fields(Tally)):
            setattr(t, name, getattr(t, name) + getattr(other, name))
    rows = {
        "kills": ", ".join(f"{n} of a {who}" for who, n in sorted(t.kills.items())),
        "campaigns": f"{t.whole}, {t.episodes} episodes, {t.files} files",
        "attempts at the model": f"{t.recorded} in records, {t.booked} in spend.jsonl",
        "paid twice, in flight at a kill": str(t.booked - t.recorded),
        "dollars, undisturbed": f"{t.calm_usd:.4f}",
        "dollars, settled": f"{t.settled_usd:.4f}",
        "dollars, held for what was lost": f"{t.held_usd:.4f}",
        "budgets spent, kept to, and raised": str(t.raised),
        "starts given up, their budget lost to kills": str(t.given_up),
        "comparisons of the sums with the budgets": str(t.looks),
        "promises broken": str(len(t.broken)),
    }
    table = Table(title="Kills", title_justify="left", show_header=False)
    for name, value in rows.items():
        table.add_row(name, value)
    console = Console(width=110)
    console.print(table)
    console.print(f"{seconds:.0f} s, {len(tallies)} processes")


def _size(run: Path) -> int:
    """How much the books have grown."""
    with contextlib.suppress(FileNotFoundError):
        return (run / "spend.jsonl").stat().st_size
    return 0


def _exit(status: int) -> int:
    return os.waitstatus_to_exitcode(status)


def _ended(child: int) -> int | None:
    number, status = os.waitpid(child, os.WNOHANG)
    return _exit(status) if number else None


def _workers(driver: int) -> list[int]:
    """The worker processes of a driver that are under way."""
    try:
        children = Path(f"/proc/{driver}/task/{driver}/children").read_text().split()
        commands = {int(c): Path(f"/proc/{c}/cmdline").read_bytes() for c in children}
    except OSError:  # one has just gone
        return []
    return [c for c, words in commands.items() if b"spawn_main" in words]


def _kill(process: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def kill(kills: int, seed: int, tick: Tick, world: str) -> Tally:
    """Campaigns in threads and with workers in turn, until there were enough kills."""
    shm = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=shm) as folder:
        killer, done = Killer(Path(folder), world, seed), 0
        while done < kills and tick(done) and len(killer.tally.broken) < 20:
            workers = 2 if killer.tally.campaigns % 4 == 1 else None
            most = min(KILLS_A_CAMPAIGN if workers is None else KILLS_WITH_WORKERS, kills - done)
            done += killer.campaign(most, workers)
        tick(done)
    return killer.tally


def main() -> None:
    """Kill, and show what was left."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kills", nargs="?", type=int, default=20)
    parser.add_argument("world", nargs="?", default="kitchen", choices=("kitchen", "lab", "tight"))
    parser.add_argument("seed", nargs="?", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    given, began = parser.parse_args(), time.monotonic()
    with Progress(console=Console(stderr=True)) as bar:
        task, work = bar.add_task("kills", total=given.kills), partial(kill, world=given.world)

        def tick(done: int) -> None:
            bar.update(task, completed=done)
            print(f"{done} kills", file=sys.stderr, flush=True)

        tallies = share(work, given.kills, given.seed, given.processes, tick)
    show(tallies, time.monotonic() - began)
    sys.exit(1 if any(tally.broken for tally in tallies) else 0)


if __name__ == "__main__":
    main()
