"""Two episodes of a real model, as recorded: loaded, summarised, reported and replayed."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

import capex
from capex.campaign.replay import replay
from capex.campaign.status import read_status
from capex.models.cassette import Cassette
from capex.plan import WaypointStatus as S
from capex.report.data import load
from capex.run import Depth, load_run
from capex.run.spend import Spend

RECORDED = Path(__file__).parents[1] / "data" / "vlm-run"
CHAIN = "kitchen--TurnOnMicrowave--capex"


@pytest.fixture(scope="module")
def run():
    return load_run(RECORDED)


def test_the_episodes_hold_what_happened(run):
    assert run.damaged == ()
    first, second = run.chain("kitchen", "TurnOnMicrowave", "capex").episodes
    assert [(e.success, e.record.steps, e.record.decisions) for e in (first, second)] == [
        (True, 84, 2),
        (True, 102, 3),
    ]
    assert [(e.record.requests, e.record.labels_before) for e in (first, second)] == [
        (3, 0),
        (4, 3),
    ]
    for episode in (first, second):
        assert len(episode.steps()["states"]) >= episode.record.steps
        assert sum(turn.calls for turn in episode.record.turns) == episode.record.requests
    plans = [
        [(w.status, w.waypoint.confidence, w.label) for w in turn.waypoints]
        for turn in second.record.turns
    ]
    assert plans[0] == [
        (S.REACHED, 0.95, 1),
        (S.REACHED, 0.93, 1),
        (S.REACHED, 0.92, 1),
        (S.DEFERRED, 0.3, None),
        (S.DEFERRED, 0.9, None),
        (S.DEFERRED, 0.9, None),
        (S.DEFERRED, 0.88, None),
    ]
    assert plans[1][0] == (S.FINGER_CONTACT, 0.25, 0)
    assert [status for status, _, _ in plans[1][1:]] == [S.NOT_EXECUTED] * 3
    assert plans[2][:2] == [(S.REACHED, 0.95, 1), (S.TERMINAL, 0.93, None)]
    gripper = second.record.turns[0].waypoints[0]
    assert gripper.waypoint.gripper_words == {"arm": "close"}
    assert gripper.grippers["arm"].opening_m == pytest.approx(0.0, abs=1e-6)
    assert [len(e.record.turns[0].located) for e in (first, second)] == [7, 4]


def test_the_requests_and_replies_are_read(run):
    episode = run.episodes[1]
    exchanges = list(episode.exchanges())
    assert [e.replied for e in exchanges] == [True] * 4
    assert [e.answer.calls[-1].name for e in exchanges] == ["locate_pixel", "act", "act", "act"]
    acts = [json.loads(e.answer.calls[-1].arguments) for e in exchanges[1:]]
    assert [1 + len(act["chunk"]) for act in acts] == [7, 4, 4]
    stated = [w["confidence"] for act in acts for w in (act, *act["chunk"])]
    assert stated == [w.waypoint.confidence for t in episode.record.turns for w in t.waypoints]
    assert len({e.request["system"] for e in exchanges}) == 1
    assert Cassette(RECORDED).recorded_name == run.manifest.recorded.model == episode.record.model


def test_heads_status_and_spending_agree(run):
    heads, brief = load_run(RECORDED, Depth.HEADS), load_run(RECORDED, Depth.BRIEF)
    assert heads == brief
    assert [e.record.steps for e in heads.episodes] == [84, 102]
    assert all(e.record.turns == () for e in heads.episodes)
    total = read_status(RECORDED).as_json()["total"]
    assert (total["episodes"], total["successes"], total["requests"]) == (2, 2, 7)
    account = Spend(RECORDED / "spend.jsonl").account()
    assert (account.attempts, account.requests, account.unsettled) == (7, 7, 0)
    assert account.tokens.output == 3500


def test_the_report_counts_them(tmp_path):
    data = load([RECORDED])
    assert data.problems == []
    _, second = data.episodes
    assert (second.plans, second.truncated, second.calls) == (3, 1, (2, 1, 1))
    assert second.waypoints.label.tolist() == [
        1,
        1,
        1,
        -1,
        -1,
        -1,
        -1,
        0,
        -1,
        -1,
        -1,
        1,
        -1,
        -1,
        -1,
    ]
    page = capex.report.write([RECORDED], tmp_path / "page", strips=2)
    text = page.read_text()
    assert "recorded.vlm" in text
    (row,) = json.loads((page.parent / "report.json").read_text())["summary"]
    assert "2" in json.dumps(row)


def test_every_request_of_an_episode_is_made_again(shm):
    """The first: the second was shown pictures of the first that are not kept here. On another
    machine the last bits of what the robot did differ, and pictures may.
    """
    shutil.copytree(RECORDED, shm / "run")
    shutil.rmtree(shm / "run" / "chains" / CHAIN / "episodes" / "0001")
    (replayed,) = replay(shm / "run", recorded_images=True)
    assert (replayed.damaged, replayed.skipped) == ("", "")
    bits = r"(record\.json: turns\[\d+\]\..*(tips|grippers|position_m).* differs|steps\.npz).*"
    assert re.fullmatch(bits, replayed.difference) or not replayed.difference
