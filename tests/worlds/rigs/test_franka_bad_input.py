"""What a person at a Franka gets wrong: a sentence each, before anything moves where that is possible, and the arm holds."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import pytest
from rig_of import calls, rig_of

from capex.errors import CapexError, RigFault
from capex.worlds import ArmCommand, Command, Start
from capex.worlds.rigs.env import RigEnv
from capex.worlds.rigs.parse import read_rig
from capex.worlds.rigs.rigfile import CameraEntry

DOCS = Path(__file__).parents[3] / "docs"
FILES = ["franka-deoxys.toml", "franka-franky.toml"]


@pytest.mark.parametrize("file", FILES)
def test_the_rig_files_of_the_docs_are_right_and_their_mistakes_are_told(tmp_path, file):
    rig = read_rig(DOCS / file)
    assert list(rig.tasks) == ["PickCoke", "StackCups", "StackBlocks"]
    assert [(c.name, c.driver, c.size, c.depth) for c in rig.cameras] == [
        ("front", "realsense", (640, 360), False),
        ("wrist", "realsense", (640, 360), False),
    ]
    text = (DOCS / file).read_text()
    arm = "[[arms]]" + text.partition("[[arms]]")[2].partition("[[cameras]]")[0]
    for old, new, sentence in (
        ("[[arms]]", arm + "[[arms]]", "two arms have the name 'arm'; each must have its own"),
        ("[0.40, 0.0, 0.38]", "[0.40, 0.0, 0.58]", "the home of arm 'arm' is at [0.4, 0.0, 0.58] m, outside the guard's workspace"),
        ("210987654321", "123456789012", "the cameras 'front' and 'wrist' have one serial, '123456789012'"),
    ):  # fmt: skip
        path = tmp_path / file
        path.write_text(text.replace(old, new, 1))
        with pytest.raises(CapexError) as refused:
            read_rig(path)
        assert sentence in str(refused.value)


def test_a_camera_that_is_unplugged_in_mid_episode_is_a_fault_and_the_arm_holds(tmp_path):
    pytest.importorskip("pyrealsense2", exc_type=ImportError)
    options = {"warm_up": 5, "unplug": str(tmp_path / "unplugged")}
    front = CameraEntry("front", "soft_realsense:soft_camera", options, "exterior", (64, 36))
    rig = dataclasses.replace(rig_of(tmp_path, clock="real"), cameras=(front,))
    env = RigEnv(f"rig:{rig.path}", rig, "Touch")
    try:
        env.reset(Start("Touch", 0))
        recording = env.record_frames(tmp_path / "frames")
        assert env.observe()["front"].shape == (36, 64, 3)
        (tmp_path / "unplugged").touch()
        said, until = "", time.monotonic() + 20
        while not said and time.monotonic() < until:
            env.step(Command({"arm": ArmCommand((0.0, 0.0, 0.001))}))
            try:
                recording.mark()
            except RigFault as fault:
                said = str(fault)
        assert said.startswith("camera front has given no new picture for 1 s: it was unplugged")
        with pytest.raises(RigFault, match="unplugged"):
            env.observe()
        with pytest.raises(RigFault, match=r"frames were recorded .*unplugged"):
            recording.close()
        ordered = calls(tmp_path)[-1]["at"]
        time.sleep(0.3)
        after = [call for call in calls(tmp_path) if call["at"] > ordered + 0.1]
        assert {call["call"] for call in after} == {"hold"}
    finally:
        env.close()
