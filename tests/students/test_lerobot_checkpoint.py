"""Checkpoints as LeRobot's trainer writes them, whole and damaged, read without LeRobot. That they act is tested in dataset/test_lerobot.py."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save_file

from capex.errors import ErrorCode
from capex.run.files import read_json, write_json
from capex.students.evaluate import Rollouts, missing
from capex.students.lerobot_checkpoint import find, named, read_spec
from capex.students.lerobot_policy import VARIABLE, find_interpreter
from refusals import refuses

STATE = ["eef_x", "eef_y", "eef_z"]
ACTION = ["eef_dx", "eef_dy"]
IMAGE = "observation.images.left"
STEPS = "policy_preprocessor_step_1_normalizer_processor.safetensors"


@pytest.fixture
def training(tmp_path, monkeypatch):
    """A dataset's meta/ folder and the folder of a training on its second episode, 30 steps."""
    monkeypatch.chdir(tmp_path)
    dataset = tmp_path / "lifts"
    (dataset / "meta" / "episodes").mkdir(parents=True)
    features = {
        "observation.state": {"dtype": "float32", "shape": [3], "names": STATE},
        "action": {"dtype": "float64", "shape": [2], "names": ACTION},
        IMAGE: {"dtype": "video", "shape": [36, 64, 3], "names": ["height", "width", "channels"]},
    }
    write_json(dataset / "meta" / "info.json", {"features": features, "fps": 20})
    rows = {
        "dataset_from_index": [0, 9],
        "dataset_to_index": [9, 20],
        "tasks": [["lift it"], ["lift it"]],
        "capex/world": ["kitchen"] * 2,
        "capex/task": ["Lift"] * 2,
        "capex/start": [4, 7],
        "capex/arm": ["base", "capex"],
        "capex/stand_in": [False, True],
    }
    pq.write_table(pa.table(rows), dataset / "meta" / "episodes" / "file.parquet")
    folder = tmp_path / "out" / "checkpoints" / "000030" / "pretrained_model"
    folder.mkdir(parents=True)
    inputs = {
        "observation.images.camera1": {"type": "VISUAL", "shape": [3, 36, 64]},
        "observation.state": {"type": "STATE", "shape": [3]},
    }
    outputs = {"action": {"type": "ACTION", "shape": [2]}}
    config = {"type": "act", "input_features": inputs, "output_features": outputs}
    write_json(folder / "config.json", config)
    trained = {"seed": 11, "steps": 100, "dataset": {"root": "lifts", "episodes": [1]}}
    write_json(folder / "train_config.json", trained)
    renamed = {IMAGE: "observation.images.camera1"}
    before = [
        {"registry_name": "rename_observations_processor", "config": {"rename_map": renamed}},
        {"registry_name": "normalizer_processor", "config": {}, "state_file": STEPS},
    ]
    write_json(folder / "policy_preprocessor.json", {"steps": before})
    write_json(folder / "policy_postprocessor.json", {"steps": []})
    for name in ("model.safetensors", STEPS):
        save_file({"weight": np.arange(6, dtype=np.float32)}, folder / name)
    return tmp_path / "out"


def test_a_checkpoint_says_what_it_sees_gives_and_learned_from(training):
    given = named(Path(f"lerobot:{training}"))
    assert given == training
    assert named(training) is None
    spec = read_spec(find(given), version="0.4.4")
    assert (spec.policy, spec.cameras, spec.image_size) == ("lerobot act", ("left",), (64, 36))
    assert (list(spec.state_names), list(spec.action_names)) == (STATE, ACTION)
    known = {k: v for k, v in spec.training.items() if k != "processors"}
    assert known == {
        "steps": 30,
        "seed": 11,
        "datasets": ["lifts"],
        "episodes": 1,
        "starts": [("kitchen", "Lift", 7, 0)],
        "sources": ["capex"],
        "stand_in": True,
        "lerobot": "0.4.4",
    }


def change(path, **values):
    write_json(path, read_json(path) | values)


def cut(path):
    path.write_bytes(path.read_bytes()[:-9])


DAMAGE = {
    "has no config.json": (ErrorCode.WRONG_CONTENT, lambda f: (f / "config.json").unlink()),
    "has no policy_preprocessor.json": (
        ErrorCode.WRONG_CONTENT,
        lambda f: (f / "policy_preprocessor.json").unlink(),
    ),
    "config.json is damaged": (
        ErrorCode.DAMAGED_FILE,
        lambda f: (f / "config.json").write_text("{"),
    ),
    "describes no policy that can be used": (
        ErrorCode.WRONG_CONTENT,
        lambda f: change(f / "config.json", input_features=3),
    ),
    "model.safetensors cannot be read as .safetensors": (
        ErrorCode.UNREADABLE_FILE,
        lambda f: cut(f / "model.safetensors"),
    ),
    f"{STEPS} cannot be read as .safetensors": (
        ErrorCode.UNREADABLE_FILE,
        lambda f: cut(f / STEPS),
    ),
    f"has no {STEPS}, which policy_preprocessor.json names": (
        ErrorCode.DAMAGED_FILE,
        lambda f: (f / STEPS).unlink(),
    ),
    "has a step 'subprocess.Popen', which is none of LeRobot's own": (
        ErrorCode.NOT_PERMITTED,
        lambda f: change(
            f / "policy_postprocessor.json",
            steps=[{"class": "subprocess.Popen", "config": {"args": "reboot"}}],
        ),
    ),
    "name its folder with --dataset": (
        ErrorCode.MISSING_SETTING,
        lambda f: change(f / "train_config.json", dataset={"root": "gone"}),
    ),
    "is not below the current folder; if you trust it, name it with --dataset": (
        ErrorCode.NOT_PERMITTED,
        lambda f: change(f / "train_config.json", dataset={"root": "/etc"}),
    ),
    "'action' is 7 in the checkpoint and 2 in": (
        ErrorCode.MISMATCH,
        lambda f: change(f / "config.json", output_features={"action": {"shape": [7]}}),
    ),
    "trained with 'observation.images.top', which": (
        ErrorCode.MISMATCH,
        lambda f: change(
            f / "config.json", input_features={"observation.images.top": {"shape": [3, 36, 64]}}
        ),
    ),
    "reads 'observation.force', which no export of ours has": (
        ErrorCode.MISMATCH,
        lambda f: change(f / "config.json", input_features={"observation.force": {"shape": [6]}}),
    ),
    "holds an adapter": (ErrorCode.UNSUPPORTED, lambda f: change(f / "config.json", use_peft=True)),
}


@pytest.mark.parametrize("sentence", DAMAGE)
def test_damaged_and_hostile_checkpoints_are_refused_unread(training, sentence):
    code, damage = DAMAGE[sentence]
    damage(training / "checkpoints" / "000030" / "pretrained_model")
    with refuses(code, re.escape(sentence)):
        read_spec(find(training))


def test_a_policy_for_another_robot_is_refused(training, monkeypatch, tmp_path):
    with refuses(ErrorCode.WRONG_CONTENT, "holds no checkpoint of LeRobot's"):
        find(tmp_path / "lifts")
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 0.4.4\n")  # stands in for an environment with LeRobot
    python.chmod(0o755)
    monkeypatch.setenv(VARIABLE, str(python))
    job = Rollouts(
        Path(f"lerobot:{training}"), "kitchen:TurnOnMicrowave", (1000,), tmp_path / "run"
    )
    with refuses(ErrorCode.MISMATCH, "the policy acts in eef_dx, eef_dy and kitchen:TurnOn"):
        missing(job)
    assert not (tmp_path / "run").exists()


def test_the_interpreter_must_have_lerobot(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nowhere"))
    with refuses(ErrorCode.NOT_AVAILABLE, r"nowhere cannot be run .* --python or CAPEX_LEROBOT"):
        find_interpreter()
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    with refuses(ErrorCode.MISSING_PACKAGE, "has no LeRobot; name the Python"):
        find_interpreter(str(python))


@pytest.mark.parametrize(
    "place",
    [
        "checkpoints",
        "checkpoints/000030/pretrained_model",
        "checkpoints/000030/pretrained_model/model.safetensors",
    ],
)
def test_a_checkpoint_does_not_lead_out_of_its_folder(training, tmp_path, place):
    (training / place).rename(tmp_path / "outside")
    (training / place).symlink_to(tmp_path / "outside")
    with refuses(ErrorCode.DAMAGED_FILE, r"leads outside|is a link"):
        read_spec(find(training))


def test_the_link_that_lerobot_makes_is_followed(training):
    (training / "checkpoints" / "last").symlink_to("000030")
    assert find(training) == training / "checkpoints" / "last" / "pretrained_model"
    assert read_spec(find(training)).kind == "act"


def test_a_checkpoint_whose_dataset_leads_out_is_refused(training, tmp_path):
    (tmp_path / "lifts" / "meta").rename(tmp_path / "outside")
    (tmp_path / "lifts" / "meta").symlink_to(tmp_path / "outside")
    with refuses(ErrorCode.DAMAGED_FILE, "is a link"):
        read_spec(find(training))
