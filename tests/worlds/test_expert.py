"""The expert solves the tasks through the executor, its runs resume, and what it records replays bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from capex import worlds
from capex.campaign.api import demonstrate
from capex.campaign.events import EpisodeEnded
from capex.campaign.names import parse_names, parse_starts
from capex.campaign.status import read_status
from capex.dataset.film import write_strip, write_video
from capex.errors import ErrorCode
from capex.run.files import read_json
from capex.run.steps import read_steps
from capex.run.store import find_run
from capex.worlds import Start
from refusals import refuses

TASKS = sorted(worlds.tasks("kitchen"))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("expert") / "run"
    first = demonstrate("expert", "kitchen:all", starts=[1], out=out)
    demonstrate("expert", "kitchen:CloseFridge,PickPlaceCounterToStove", starts=[0, 2], out=out)
    return out, [episode.record for episode in first.episodes]


def test_every_task_is_solved(run):
    _, results = run
    assert sorted(r.task for r in results) == TASKS
    assert all(r.success for r in results)


def test_the_record_tells_the_episode(run):
    out, _ = run
    chain = find_run(out).chain("kitchen", "PickPlaceCounterToStove", "expert")
    record = read_json(chain.episode(0) / "record.json")
    first = [
        "task",
        "arm",
        "start",
        "seed",
        "model",
        "success",
        "steps",
        "decisions",
        "requests",
        "cost_usd",
    ]
    assert list(record)[: len(first)] == first
    assert record["decisions"] == len(record["turns"])
    assert record["cost_usd"] is None
    assert record["instruction"].startswith("Pick the ")
    waypoints = [w for turn in record["turns"] for w in turn["waypoints"]]
    assert sum(w["steps"] for w in waypoints) == record["steps"]
    assert waypoints[-1]["report"] in ("terminal", "not executed")
    steps = read_steps(chain.episode(0))
    assert steps["actions"].shape == (record["steps"], 12)
    assert steps["states"].shape[0] == steps["proprio"].shape[0] == record["steps"] + 1
    assert list(steps["plan_starts"]) == [turn["step"] for turn in record["turns"]]


@pytest.mark.parametrize("task", TASKS)
def test_recorded_native_actions_replay_bit_for_bit_to_success(run, task):
    out, _ = run
    episode = find_run(out).chain("kitchen", task, "expert").episode(1)
    steps = read_steps(episode)
    env = worlds.make(f"kitchen:{task}")
    env.reset(Start(task, 1))
    assert np.array_equal(env.save_state().vector, steps["states"][0])
    for tick, action in enumerate(steps["actions"]):
        assert env.success() is False
        env.apply(action)
        assert np.array_equal(env.save_state().vector, steps["states"][tick + 1])
    assert env.success() is True
    env.close()


def test_a_run_resumes_and_does_not_depend_on_the_number_of_processes(run, tmp_path):
    out, _ = run
    name = "kitchen:CloseFridge"
    other, ended = tmp_path / "other", []

    def watch(event, board):
        if isinstance(event, EpisodeEnded):
            ended.append(event.summary.start)

    demonstrate("expert", name, starts=[1], out=other, watch=watch)
    demonstrate("expert", name, starts=[0, 1, 2], out=other, parallel=2, watch=watch)
    assert (ended[:1], sorted(ended[1:])) == ([1], [0, 2])
    assert read_status(other).state == "finished"
    for index in (0, 1, 2):
        one = find_run(out).chain("kitchen", "CloseFridge", "expert").episode(index)
        two = find_run(other).chain("kitchen", "CloseFridge", "expert").episode(index)
        for file in ("record.json", "steps.npz"):
            assert (one / file).read_bytes() == (two / file).read_bytes()


def test_an_episode_becomes_a_strip_and_a_video(run, tmp_path):
    import av
    from PIL import Image

    out, _ = run
    episode = find_run(out).chain("kitchen", "CloseFridge", "expert").episode(0)
    with Image.open(write_strip(episode, tmp_path / "strip.png")) as strip:
        assert strip.size == (6 * 256, 3 * 256 + 22)
        assert np.asarray(strip).std() > 20
    with av.open(str(write_video(episode, tmp_path / "video.mp4", every=8))) as video:
        frames = [f.to_ndarray(format="rgb24") for f in video.decode(video=0)]
    assert len(frames) == len(range(0, len(read_steps(episode)["states"]), 8))
    assert frames[0].shape == (320, 960, 3)
    with refuses(ErrorCode.NOT_FOUND):
        write_strip(tmp_path, tmp_path / "x.png")


@pytest.mark.parametrize(
    ("text", "indices"), [("0:3", [0, 1, 2]), ("7", [7]), ("4,1,4", [4, 1]), ("0:2,5", [0, 1, 5])]
)
def test_starts_are_read(text, indices):
    assert parse_starts(text) == indices


@pytest.mark.parametrize("text", ["", "a", "3:1", "-2", "1:b", "1.5"])
def test_bad_starts_are_refused_with_an_example(text):
    with refuses(ErrorCode.BAD_SETTING, "0:20"):
        parse_starts(text)


def test_task_lists_are_read():
    assert parse_names("kitchen:all") == [("kitchen", t) for t in worlds.tasks("kitchen")]
    with refuses(ErrorCode.BAD_SETTING, "names no task"):
        parse_names("kitchen:")
    with refuses(ErrorCode.UNSUPPORTED, "has no human demonstrations; those with some: robocasa"):
        demonstrate("human", "kitchen:CloseFridge", starts=[0], out="nowhere")
