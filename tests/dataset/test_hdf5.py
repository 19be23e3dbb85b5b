"""The HDF5 file, checked against robomimic's documented layout: what is where, that it is the recording, and that it replays."""

from __future__ import annotations

import json

import h5py
import mujoco
import numpy as np
import pytest

from capex import worlds
from capex.dataset import Filters, Pipeline, export_run
from capex.run.steps import read_steps
from capex.worlds import Start, State
from demos import TASK

SIZE = (64, 48)


@pytest.fixture(scope="module")
def file(expert_demos, tmp_path_factory):
    out = tmp_path_factory.mktemp("hdf5") / "set"
    pipeline = Pipeline(SIZE, ("left", "wrist"), depth=True)
    export_run(
        expert_demos, out, format="hdf5", pipeline=pipeline, filters=Filters(max=2), parallel=2
    )
    assert sorted(p.name for p in out.iterdir()) == [
        "README.md",
        "demo.hdf5",
        "left_out.csv",
        "pictures",
    ]
    with h5py.File(out / "demo.hdf5") as opened:
        yield opened


def recorded(run, index: int) -> dict:
    return read_steps(run / f"chains/kitchen--{TASK}--expert/episodes/{index:04d}")


def test_the_layout_is_robomimics(file):
    assert set(file) == {"data", "mask"}
    demos = ["demo_0", "demo_1"]
    assert sorted(file["data"]) == demos
    arguments = json.loads(file["data"].attrs["env_args"])
    assert set(arguments) >= {"env_name", "type", "env_kwargs"}
    assert arguments["env_name"] == f"kitchen:{TASK}"
    lengths = {name: int(file["data"][name].attrs["num_samples"]) for name in demos}
    assert file["data"].attrs["total"] == sum(lengths.values())
    masks = {
        name: [member.decode() for member in file["mask"][name]] for name in ("train", "valid")
    }
    assert masks == {"train": demos[:1], "valid": demos[1:]}
    for name, length in lengths.items():
        demo = file["data"][name]
        for key in ("actions", "states", "rewards", "dones"):
            assert demo[key].shape[0] == length
        shapes = {key: values.shape[1:] for key, values in demo["obs"].items()}
        assert shapes == {
            "robot0_agentview_left_image": (48, 64, 3),
            "robot0_eye_in_hand_image": (48, 64, 3),
            "robot0_agentview_left_depth": (48, 64, 1),
            "robot0_eye_in_hand_depth": (48, 64, 1),
            "robot0_base_to_eef_pos": (3,),
            "robot0_base_to_eef_quat": (4,),
            "robot0_gripper_qpos": (2,),
            "robot0_base": (3,),
        }
        assert (
            json.loads(demo.attrs["ep_meta"])["lang"] == "Press the start button on the microwave."
        )
        assert (demo["rewards"][:].tolist(), demo["dones"][:].tolist()) == (
            [0.0] * (length - 1) + [1.0],
            [0] * (length - 1) + [1],
        )
        assert json.loads(demo.attrs["capex"])["certified"] is True
        assert set(demo["capex"]) == {
            "complete_states",
            "decision",
            "waypoint",
            "phase",
            "stated",
            "calibrated",
            "label",
            "language",
        }
        words = json.loads(demo["capex/language"][()])
        assert words[0]["text"].startswith("1. move to x ")
        assert {w["style"] for w in words} == {"plan", "subtask", "memory", "motion"}


def test_it_holds_the_recording_and_the_pictures(file, expert_demos):
    env = worlds.make(f"kitchen:{TASK}")
    for index in range(2):
        steps, demo = recorded(expert_demos, index), file["data"][f"demo_{index}"]
        assert np.array_equal(demo["actions"], steps["actions"])
        assert np.array_equal(demo["capex/complete_states"], steps["states"][:-1])
        assert np.array_equal(demo["obs/robot0_base_to_eef_pos"], steps["proprio"][:-1, :3])
        env.reset(Start(TASK, index))
        env.load_state(State(str(steps["header"]), steps["states"][9]))
        image = env.observe(["wrist"], SIZE)["wrist"]
        assert np.array_equal(demo["obs/robot0_eye_in_hand_image"][9], image)
        assert np.array_equal(
            demo["obs/robot0_eye_in_hand_depth"][9, ..., 0], env.depth("wrist", SIZE).depth_m
        )
    env.close()


def test_every_certified_demonstration_replays_from_the_file_alone(file):
    env = worlds.make(f"kitchen:{TASK}")
    for name in file["data"]:
        demo = file["data"][name]
        known = json.loads(demo.attrs["capex"])
        env.reset(
            Start(
                known["task"],
                known["start"],
                known["seed"],
                State(known["state_header"], demo["capex/complete_states"][0]),
            )
        )
        for action in demo["actions"]:
            env.apply(action)
        assert env.success()
    env.close()


def test_states_fit_the_model_beside_them(file):
    """Setting a state in a MuJoCo that knows nothing of us puts the hand where the observation says."""
    demo = file["data/demo_1"]
    model = mujoco.MjModel.from_xml_string(demo.attrs["model_file"])
    data = mujoco.MjData(model)
    assert demo["states"].shape[1] == 1 + model.nq + model.nv
    for frame in (0, 40):
        state = demo["states"][frame]
        data.time, data.qpos[:], data.qvel[:] = (
            state[0],
            state[1 : 1 + model.nq],
            state[1 + model.nq :],
        )
        mujoco.mj_forward(model, data)
        mount = data.site("mount")
        tip = mount.xmat.reshape(3, 3).T @ (data.site("tip").xpos - mount.xpos)
        assert np.allclose(tip, demo["obs/robot0_base_to_eef_pos"][frame], atol=1e-4)
