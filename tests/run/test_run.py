"""A run as typed values: everything readable is read, what is damaged is reported and raises nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import capex
import runs
from capex.analysis.forecast import forecast
from capex.campaign.status import read_status
from capex.dataset.film import read_episode
from capex.errors import DamagedFile, ErrorCode, printable
from capex.method.record import EpisodeRecord
from capex.run import load_run
from capex.run.store import open_run
from capex.run.writing import InvalidNote, Timing
from refusals import refuses

STEPS = {"actions": np.zeros((2, 12))}


def _record(index: int, position: int, success: bool = False) -> dict:
    record = EpisodeRecord(
        world="kitchen",
        task="CloseFridge",
        arm="capex",
        start=index,
        seed=0,
        model="script",
        success=success,
        steps=2,
        requests=1,
        instruction="Close it.",
        horizon=500,
    )
    return record.as_json() | {"position": position}


def test_a_run_is_loaded_in_the_order_in_which_it_ran(tmp_path):
    chain = open_run(tmp_path / "run", {"tau": 0.5}).chain("kitchen", "CloseFridge", "capex")
    chain.commit(7, _record(7, 0, True), Timing(episode_s=2.5), STEPS)
    chain.commit(2, _record(2, 1), Timing(episode_s=1.5), STEPS)
    for _ in range(11):
        note = InvalidNote(start=3, error="the server failed")
        chain.begin(3).commit_invalid(note, Timing(), STEPS)
    run = capex.load_run(tmp_path / "run")
    assert run.manifest.settings == {"tau": 0.5}
    assert [(e.index, e.position, e.seconds) for e in run.episodes] == [(7, 0, 2.5), (2, 1, 1.5)]
    assert run.chain("kitchen", "CloseFridge", "capex").successes == 1
    assert run.chain("kitchen", "CloseFridge", "base") is None
    assert run.episodes[0].steps()["actions"].shape == (2, 12)
    assert list(run.episodes[0].exchanges()) == []
    assert [a.path.name for a in run.invalid] == [f"0003-{n}" for n in range(1, 12)]
    assert run.invalid[0].error == "the server failed"
    assert run.damaged == ()


def test_damage_is_reported_and_the_rest_is_read(tmp_path):
    chain = open_run(tmp_path / "run", {}).chain("kitchen", "CloseFridge", "capex")
    for index in range(4):
        chain.commit(index, _record(index, index), Timing(), STEPS)
    (chain.episode(0) / "record.json").write_text("{")
    (chain.episode(1) / "record.json").write_text(json.dumps({"task": "CloseFridge"}))
    (chain.episode(2) / "timing.json").unlink()
    run = capex.load_run(tmp_path / "run")
    assert [e.index for e in run.episodes] == [3]
    reasons = [d.reason for d in run.damaged]
    assert "record.json is damaged: Expecting property name" in reasons[0]
    assert reasons[1] == "record.json is damaged: Object missing required field 'arm'"
    assert reasons[2] == "timing.json is damaged: it cannot be read (No such file or directory)"
    with refuses(ErrorCode.WRONG_CONTENT, "not a run directory"):
        capex.load_run(tmp_path)


def test_importing_the_package_loads_nothing_heavy():
    code = "import sys, capex; print(sorted({'numpy', 'mujoco', 'rich', 'openai'} & set(sys.modules)), 'load_run' in dir(capex))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split("\n")[0] == "[] True"


@pytest.mark.parametrize(
    "change",
    [
        lambda turn: turn.update(reasoning={"a": 1}),
        lambda turn: turn.update(repairs=[7]),
        lambda turn: turn.update(located="somewhere"),
        lambda turn: turn["waypoints"][0].update(report=None),
        lambda turn: turn["waypoints"][0].update(steps=True),
        lambda turn: turn["waypoints"][0].update(tips=[]),
    ],
)
def test_a_field_of_a_record_of_another_type_is_damage(tmp_path, change):
    run = runs.campaign(tmp_path / "run", runs.TASKS[:1], ["capex"], 1, plans=1)
    path = run.chains()[0].episode(0) / "record.json"
    record = json.loads(path.read_text())
    change(record["turns"][0])
    path.write_text(json.dumps(record))
    (damaged,) = load_run(run.path).damaged
    assert "record.json is damaged" in damaged.reason


@pytest.mark.parametrize(
    "note",
    [
        {"chains": {"x": 7}},
        {"chains": {}, "unix_time": "now"},
        {"chains": {}, "process": 10**400, "host": "here"},
        {"chains": [], "unix_time": 4e9, "process": 1, "host": "h", "hours_left": 1},
    ],
)
def test_a_note_of_what_runs_that_is_none_says_nothing(tmp_path, note):
    run = runs.campaign(tmp_path / "run", runs.TASKS[:1], ["capex"], 1, plans=1)
    (run.path / "live.json").write_text(json.dumps(note))
    assert not read_status(run.path).running


def test_a_name_that_is_no_text_can_be_shown_and_predicted_from(tmp_path):
    run = runs.campaign(tmp_path / "run", runs.TASKS[:1], ["capex"], 2, plans=1)
    chain = os.fsencode(run.chains()[0].path)
    os.rename(chain, chain + b"\xff\xfe")
    name = run.chains()[0].path.name
    assert printable(name) == os.fsdecode(os.path.basename(chain))
    assert forecast(run.path, 5).chains


def test_an_episode_is_not_filmed_through_a_link(tmp_path):
    run = runs.campaign(tmp_path / "run", runs.TASKS[:1], ["capex"], 1, plans=1)
    episodes = run.chains()[0].episodes_path
    episodes.rename(tmp_path / "outside")
    episodes.symlink_to(tmp_path / "outside")
    with pytest.raises(DamagedFile, match="is a link"):
        read_episode(episodes / "0000")
