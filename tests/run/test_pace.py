"""A provider's limits: in no minute more requests or tokens than they allow, whoever sends them."""

from __future__ import annotations

import random
import threading

import capex
from capex.run.pace import Pace, Rate
from lab.campaigns import collect


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_no_minute_holds_more_than_the_limits(tmp_path):
    clock, rng = Clock(), random.Random(0)
    rate = Rate(requests=7, tokens=5000)
    pace = Pace(tmp_path / "pace.json", clock)
    sent: list[tuple[float, int]] = []
    for _ in range(120):
        asked = rng.randint(100, 2500)
        while (turn := pace.turn(rate, asked)).wait_s:
            clock.now += turn.wait_s
        actual = rng.randint(50, asked)
        sent.append((clock.now, actual))
        clock.now += rng.random()
        pace.used(turn, actual - asked)
    for at, _ in sent:
        minute = [tokens for other, tokens in sent if at <= other < at + 60.0]
        assert len(minute) <= 7
        assert sum(minute) <= 5000
    assert sent[-1][0] - sent[0][0] < 60 * 120 / 5  # and it does send


def test_a_request_beyond_the_limit_goes_alone_and_a_torn_file_is_forgotten(tmp_path):
    clock = Clock()
    pace = Pace(tmp_path / "pace.json", clock)
    assert pace.turn(Rate(tokens=100), 5000).wait_s == 0
    assert pace.turn(Rate(tokens=100), 1).wait_s == 60
    clock.now += 60
    assert pace.turn(Rate(tokens=100), 1).wait_s == 0
    (tmp_path / "pace.json").write_text("[[1000.0, 1")
    assert pace.turn(Rate(requests=1), 1).wait_s == 0


def test_those_who_ask_at_once_share_the_limit(tmp_path):
    turns = []

    def ask():
        turns.append(Pace(tmp_path / "pace.json").turn(Rate(requests=5), 10).wait_s == 0)

    threads = [threading.Thread(target=ask) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(turns) == 5


def test_a_campaign_keeps_to_the_limits_and_its_records_do_not_depend_on_them(shm):
    few = {"names": "lab.world:low", "arm": "base", "starts": "0:2"}
    collect(shm / "free", **few)
    run, _ = collect(shm / "run", **few, requests_per_minute=1000, tokens_per_minute=10**9)
    assert len(run.episodes) == 2
    assert (shm / "run/pace.json").is_file()
    assert not (shm / "free/pace.json").exists()
    free = [e.record for e in capex.load_run(shm / "free").episodes]
    assert [e.record for e in run.episodes] == free
