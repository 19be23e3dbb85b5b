"""Campaigns of many chains, long runs and many records, in small: the programs of benchmarks/ that measure them at full size."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import time
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest

from capex.campaign.chain import ChainPlan
from capex.campaign.core import Core
from capex.errors import BudgetExceeded
from capex.run.reading import load_chain
from capex.run.spend import Spend
from capex.run.store import Chain, Run

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module", autouse=True)
def benchmarks():
    sys.path.insert(0, str(BENCHMARKS))
    yield
    sys.path.remove(str(BENCHMARKS))


def test_many_chains_all_advance_within_a_small_limit_of_open_files(shm):
    """Also what a shell allows at first is not enough for them."""
    import thousand_chains

    options = {"episodes": 2, "slots": 24, "open_files": 64}
    row = thousand_chains.campaign(shm, 24, rate=400, requests=2, **options)
    assert (row["episodes"], row["requests"]) == (48, 96)
    assert row["handles"] > 24
    chains = Run(shm / "run-24").chains()
    assert len(chains) == 24
    assert all(chain.finished() == [0, 1] for chain in chains)
    asked = Counter(row.chain for row in thousand_chains.read_times(shm / "times-24"))
    assert set(asked.values()) == {4}


def test_a_promise_that_is_broken_is_said():
    import thousand_chains

    row = {"cpu_p95_ms": 9.0, "cpu_p50_ms": 5.0, "beside_p95_ms": 8.0, "beside_p50_ms": 4.0}
    rows = [row | {"chains": 10.0}, row | {"chains": 1000.0, "beside_p50_ms": 7.0}]
    assert thousand_chains.broken(rows[:1]) == []
    (sentence,) = thousand_chains.broken(rows)
    assert sentence.startswith("1000 chains: 7.0 ms of a core an episode")


def test_a_system_that_allows_too_few_open_files_gets_a_sentence():
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64));"
        "from capex.run.manifest import allow_handles; allow_handles(65)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "need about 65 open files, and this system allows 64; take fewer --slots" in done.stderr


def test_who_waits_longest_for_a_core_is_next():
    core, order, threads = Core(), [], []

    def use(name):
        core.take()
        order.append(name)
        core.give()

    core.take()
    for name in range(8):
        threads.append(threading.Thread(target=use, args=(name,)))
        threads[-1].start()
        while len(core._waiting) <= name:
            time.sleep(0.001)
    core.give()
    for thread in threads:
        thread.join()
    assert order == list(range(8))
    assert not core.busy


def test_writers_of_the_spend_log_share_a_flush(tmp_path, monkeypatch):
    """Each line is on disk before its writer goes on, and waiting for a slow disk is shared."""
    spend, flushes, lines = Spend(tmp_path / "spend.jsonl"), [], []
    real = os.fsync

    def slow(handle):
        seen = (tmp_path / "spend.jsonl").read_bytes().count(b"\n")
        time.sleep(0.03)
        real(handle)
        flushes.append(seen)

    def write(name):
        ticket = spend.reserve(Decimal(1), start=("c", name))
        text = (tmp_path / "spend.jsonl").read_text()
        lines.append(text[: text.index(ticket)].count("\n") < max(flushes))
        spend.settle(ticket, Decimal("0.25"))

    monkeypatch.setattr(os, "fsync", slow)
    threads = [threading.Thread(target=write, args=(k,)) for k in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lines == [True] * 16
    assert len(flushes) < 32
    account = Spend(spend.path).account()
    assert (account.attempts, account.unsettled, account.total_usd) == (16, 0, Decimal(4))
    assert Spend(spend.path).slots().of_chain("c") == spend.slots().of_chain("c")


def test_a_worker_does_not_read_again_what_the_driver_has_read_of_the_spend(tmp_path):
    spend = Spend(tmp_path / "spend.jsonl")
    tickets = [spend.reserve(Decimal(2), start=("c", k)) for k in range(3)]
    spend.settle(tickets[0], Decimal("0.5"))
    known = pickle.loads(pickle.dumps(spend.known()))
    text = spend.path.read_bytes()
    spend.path.write_bytes(b"x" + text[1:])  # what is read again would be damaged
    worker = Spend(spend.path, known)
    worker.settle(tickets[1], Decimal(1))
    with pytest.raises(BudgetExceeded):
        worker.reserve(Decimal(1), limit=Decimal(4))
    account = worker.account()
    assert (account.attempts, account.unsettled, account.total_usd) == (3, 1, Decimal("3.5"))
    assert spend.account() == account


def test_a_continued_campaign_keeps_no_records_and_learns_the_same(shm):
    import resume_scale

    run = shm / "run"
    resume_scale.child(run, 2, 1)
    assert resume_scale.multiply(run, 12) == 24
    chain = Run(run).chains()[0]
    plan = ChainPlan(chain, range(13))
    assert [slot.start for slot in plan.ready()] == [12]
    assert plan.memory.attempts == 12
    assert plan.memory.labels == sum(_labels(episode) for episode in load_chain(chain).episodes)
    assert not any(settled.record for settled in plan._settled.values())
    assert all(episode.record.turns == () for episode in plan.take_loaded().episodes)
    account = Spend(run / "spend.jsonl").account()
    assert account.attempts == account.requests == 24 * resume_scale.REQUESTS


def _labels(episode):
    return sum(w.label is not None for turn in episode.record.turns for w in turn.waypoints)


def test_a_short_soak_with_faults_and_a_kill(shm, monkeypatch):
    import soak

    monkeypatch.setattr(soak, "PACE_S", 0.05)
    monkeypatch.setattr(soak, "SHARE", 0.15)
    monkeypatch.setenv("REHEARSAL_REQUESTS", "3")
    looked, faults, requests, killed, code = soak.soak(shm, 5.0, starts=3, every_s=0.05)
    said = (shm / "driver.log").read_text()
    assert code == 0, said
    assert requests >= 3 * 8 * 3
    assert killed == 1
    assert sum(faults.values()) > 0
    assert {"memory_mb", "handles", "threads"} == set(looked["driver"].rows)
    left = [p for p in (shm / "run").rglob("*") if p.name.startswith(".writing-")]
    assert left == []
    assert list((shm / "tmp").iterdir()) == []
    chains = [Chain(path) for path in (shm / "run" / "chains").iterdir()]
    assert all(load_chain(chain).damaged == () for chain in chains)
