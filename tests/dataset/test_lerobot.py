"""LeRobot 0.4.4 and robomimic judge: their own readers load our datasets, LeRobot trains on them, and its statistics are compared with ours."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image as Picture

from capex.dataset import Filters, Pipeline, export_run
from capex.dataset.inspect import check_dataset
from capex.errors import ErrorCode
from capex.run.files import read_json, write_json
from capex.run.steps import read_steps
from capex.students import lerobot_checkpoint, lerobot_policy
from capex.students.evaluate import Rollouts, evaluate, missing
from capex.worlds.proprioception import continuous
from demos import TASK
from judge import LAST, pretend
from recorded import TICKS, recorded_run
from refusals import refuses

if importlib.util.find_spec("lerobot") is None:
    pytest.skip("LeRobot is not installed; make test installs it", allow_module_level=True)

SIZE = (64, 64)
CAMERAS = ("left", "wrist")


@pytest.fixture(scope="module")
def folder(expert_demos, tmp_path_factory):
    """Two demonstrations as pictures, as video, as v2.1 and as HDF5; two of a rig as video."""
    root = tmp_path_factory.mktemp("judged")
    two, pipeline = Filters(max=2), Pipeline(SIZE, CAMERAS)
    export_run(expert_demos, root / "images", filters=two, pipeline=pipeline)
    export_run(expert_demos, root / "video", filters=two, pipeline=replace(pipeline, video=True))
    filmed = replace(pipeline, video=True)
    export_run(expert_demos, root / "v2.1", filters=two, pipeline=filmed, format="lerobot-v2.1")
    export_run(
        expert_demos, root / "hdf5", filters=two, pipeline=Pipeline(SIZE, ("left",)), format="hdf5"
    )
    recorded = recorded_run(root / "rig")
    export_run(recorded, root / "recorded", pipeline=Pipeline(video=True))
    return root


@pytest.fixture(scope="module")
def judged(folder):
    """What the judges found, in one process of their own, without the network."""
    caches = {"HF_HOME": str(folder / "cache"), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    judge = Path(__file__).parents[1] / "judge.py"
    out = subprocess.run(
        [sys.executable, str(judge), str(folder)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | caches,
    )
    assert out.returncode == 0, out.stderr[-4000:]
    return json.loads(out.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def steps(expert_demos):
    return [
        read_steps(expert_demos / f"chains/kitchen--{TASK}--expert/episodes/{index:04d}")
        for index in (0, 1)
    ]


@pytest.mark.parametrize("mode", ["images", "video", "v2.1"])
def test_lerobots_reader_loads_every_frame_with_its_windows(judged, folder, steps, mode):
    found = judged[mode]
    actions = np.concatenate([s["actions"] for s in steps])
    states = np.concatenate([continuous(s["state_names"], s["proprio"][:-1]) for s in steps])
    assert (found["episodes"], found["frames"]) == (2, len(actions))
    assert np.allclose(found["actions"], actions, atol=1e-6)
    assert np.allclose(found["states"], states, atol=1e-6)
    first = len(steps[0]["actions"])
    following = np.concatenate(
        [actions[1:first], actions[first - 1 : first], actions[first + 1 :], actions[-1:]]
    )
    assert np.allclose(
        found["next_actions"], following, atol=1e-6
    )  # windows end with their episode
    beginning, ending = (
        [[False, False, False], [True, False]],
        [[False, True, True], [False, False]],
    )
    assert found["pads"] == [beginning, ending, beginning, ending]
    assert found["shapes"]["observation.images.left"] == [2, 3, 64, 64]
    assert found["shapes"]["action"] == [3, 12]
    assert found["second_alone"] == len(steps[1]["actions"])
    assert found["tasks"] == ["Press the start button on the microwave."]
    if mode != "v2.1":  # after its conversion it is LeRobot's own v3.0
        assert found["certified"] == [True, True]
        assert found["subtasks"][0] == "move, then close the gripper"
        assert found["subtasks"][-1] == "finish the task"
    column = pq.read_table(folder / "images/data/chunk-000/file-000.parquet")[
        "observation.images.left"
    ].to_pylist()
    means = [np.asarray(Picture.open(io.BytesIO(cell["bytes"]))).mean() / 255 for cell in column]
    assert np.allclose(found["means"], means, atol=1e-5 if mode == "images" else 0.01)


def test_lerobots_reader_loads_recorded_frames_at_each_cameras_own_size(judged):
    found = judged["recorded"]
    assert (found["episodes"], found["frames"]) == (2, 2 * TICKS)
    assert found["shapes"]["observation.images.left"] == [2, 3, 36, 64]
    assert found["shapes"]["observation.images.wrist"] == [3, 32, 48]
    assert found["certified"] == [False, False]
    # As bright as a picture of its number: a bar for each bit.
    bars = [(k + 1).bit_count() * 200 / 8 + 20 for k in range(TICKS)] * 2
    assert np.allclose(found["means"], np.array(bars) / 255, atol=0.01)


def test_lerobots_statistics_agree_but_for_its_defects(judged, folder):
    ours = read_json(folder / "images/meta/stats.json")
    for name in ("observation.state", "action"):
        for kind, off in (
            ("min", 1e-6),
            ("max", 1e-6),
            ("mean", 1e-6),
            ("std", 1e-4),
        ):  # its squares are float32, where digits cancel
            assert np.allclose(judged["stats"][name][kind], ours[name][kind], atol=off), (
                name,
                kind,
            )
        assert judged["stats"][name]["count"] == ours[name]["count"]
    for camera in CAMERAS:
        name = f"observation.images.{camera}"
        theirs = judged["stats"][name]
        # It looks at a hundred pictures of an episode; ours are over all of them.
        assert np.allclose(theirs["mean"], np.ravel(ours[name]["mean"]), atol=0.01)
        table = pq.read_table(folder / "images/data/chunk-000/file-000.parquet")[name].to_pylist()
        true = (
            np.array([np.asarray(Picture.open(io.BytesIO(c["bytes"]))) for c in table]) / 255.0
        ).std(axis=(0, 1, 2))
        assert np.allclose(np.ravel(ours[name]["std"]), true, atol=1e-9)
        # Its known defect: squares of uint8 overflow, so that its deviation of pictures is wrong. Should it ever be right, this says so.
        assert np.abs(np.array(theirs["std"]) - true).max() > 0.05


@pytest.mark.parametrize(("name", "episodes"), [("again", 2), ("filmed", 2)])
def test_what_lerobots_own_writer_wrote_is_found_in_order(judged, folder, name, episodes):
    report = check_dataset(folder / name, expected=episodes)
    assert report.ok, report.failed
    status = {f.rule: f.status for f in report.findings}
    assert status["certificates"] == "not claimed"
    (statistics,) = [f for f in report.findings if f.rule == "statistics"]
    assert statistics.status == "warning"  # its deviation of pictures
    assert all("std is stated as" in sentence for sentence in statistics.sentences)
    info = read_json(folder / name / "meta/info.json")
    write_json(folder / name / "meta/info.json", info | {"fps": 7})
    wrong = check_dataset(folder / name).failed
    write_json(folder / name / "meta/info.json", info)
    assert "timestamps" in {f.rule for f in wrong}


@pytest.mark.parametrize("policy", ["act", "diffusion"])
def test_lerobot_train_trains(judged, policy):
    assert {
        "model.safetensors",
        "config.json",
        "train_config.json",
        "policy_preprocessor.json",
    } <= set(judged[policy])


def test_robomimics_reader_loads_the_hdf5_with_its_masks(judged, steps):
    found = judged["robomimic"]
    for number, mask in enumerate(("train", "valid")):
        assert found[mask]["demos"] == [f"demo_{number}"]
        assert found[mask]["samples"] == len(steps[number]["actions"])
        assert np.allclose(found[mask]["actions"], steps[number]["actions"][2:13])
        assert found[mask]["obs"]["robot0_agentview_left_image"][-3:] == [64, 64, 3]


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Threads that wait for each other's core make small networks many times slower."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        yield


@pytest.fixture(scope="module")
def process(judged):
    """LeRobot's side, for policies that are asked directly."""
    process = lerobot_policy.LeRobotProcess(lerobot_policy.find_interpreter())
    yield process
    process.close()


def test_a_policy_of_lerobots_trainer_is_rolled_out_and_recorded(judged, folder, tmp_path):
    job = Rollouts(
        Path(f"lerobot:{folder / 'act'}"),
        f"kitchen:{TASK}",
        (1000, 1001),
        tmp_path / "run",
        parallel=1,
        device="cpu",
        horizon=10,
        dataset=folder / "images",
    )
    rollouts = list(evaluate(job))
    assert [(r.start, r.arm, r.steps) for r in rollouts] == [
        (1000, "lerobot-act-2", 10),
        (1001, "lerobot-act-2", 10),
    ]
    student = rollouts[0].student
    assert (student["policy"], student["steps"], student["lerobot"]) == ("lerobot act", 2, "0.4.4")
    assert (student["datasets"], student["sources"]) == (["images"], ["expert"])
    assert rollouts[0].stand_in  # the expert's demonstrations are
    assert missing(job) == []
    with refuses(ErrorCode.CONFLICTING_SETTINGS, r"1 of the starts were trained on \(first: 1\)"):
        missing(replace(job, starts=(1,)))
    with refuses(ErrorCode.MISMATCH, r"acts in .* and rig:room:LiftBlock takes"):
        missing(replace(job, name="rig:room:LiftBlock"))


def test_episodes_side_by_side_act_as_lerobot_does_alone(judged, folder, process):
    """Two episodes that take turns, shown only the pictures that they want."""
    place = lerobot_checkpoint.find(folder / "diffusion")
    spec = lerobot_checkpoint.read_spec(place, folder / "images")
    process.load(place, device="cpu")
    policy = lerobot_policy.LeRobotPolicy(spec, process)
    episodes = [policy.begin(seed) for seed in (5, 6)]
    pretended = [
        [s | {"state": dict(zip(spec.state_names, s["state"], strict=True))} for s in pretend(k, 7)]
        for k in (5, 6)
    ]
    acted, looked = [], []
    for seen in zip(*pretended, strict=True):
        looked.append([e.wants_images() for e in episodes])
        shown = [
            o if e.wants_images() else o | {"images": {}}
            for e, o in zip(episodes, seen, strict=True)
        ]
        acted.append(policy.act_many(episodes, shown))
    assert [both[0] for both in looked] == [True, False, False, True, True, False, False]
    theirs = np.clip(np.array(judged["alone"]), -1, 1).transpose(1, 0, 2)
    assert np.allclose(acted, theirs, atol=1e-4)
    assert not np.allclose(acted[0][0], acted[0][1], atol=1e-3)


def test_checkpoints_that_lerobot_cannot_use_are_refused(judged, folder, process, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(folder / "act" / LAST, broken)
    config = read_json(broken / "config.json")
    write_json(broken / "config.json", config | {"type": "oracle"})
    with refuses(ErrorCode.JOB_FAILED, "it is a policy 'oracle'; LeRobot knows act, diffusion,"):
        process.load(broken, device="cpu")
    write_json(broken / "config.json", config | {"dim_model": 64})
    with refuses(ErrorCode.JOB_FAILED, r"LeRobot cannot use this policy: RuntimeError: .*size"):
        process.load(broken, device="cpu")
    with refuses(ErrorCode.JOB_FAILED, "--device cuda:77: LeRobot's torch has none"):
        process.load(folder / "act" / LAST, device="cuda:77")
    os.kill(process.pid, signal.SIGKILL)
    with refuses(ErrorCode.WORKER_DIED, "LeRobot's process died"):
        process.load(folder / "act" / LAST, device="cpu")
