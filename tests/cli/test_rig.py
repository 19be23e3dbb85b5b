"""capex rig calibrate, in the simulated room."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from capex import worlds
from capex.cli import rig
from capex.cli.rig import RigCalibrate, calibrate
from capex.errors import ErrorCode
from capex.pose import angle_between
from capex.rigs.env import RigFileEnv
from capex.rigs.parse import PACKAGED
from capex.worlds.spec import CameraModel
from refusals import refuses

BOX = "workspace = { lower_m = [0.34, -0.06, 0.30], upper_m = [0.46, 0.06, 0.42] }\n"
MARK = (0.5, 0.0, 0.0)


@pytest.fixture(scope="module")
def env(tmp_path_factory):
    """The room with a small workspace, so that its eight places are near each other."""
    tmp_path = tmp_path_factory.mktemp("rig")
    shutil.copytree(PACKAGED, tmp_path / "files")
    policy = tmp_path / "files" / "room" / "guard.toml"
    lines = policy.read_text().splitlines(keepends=True)
    policy.write_text("".join(BOX if line.startswith("workspace") else line for line in lines))
    worlds.allow(f"rig:{tmp_path}/files/room.toml")
    env = worlds.make(f"rig:{tmp_path}/files/room.toml:LiftBlock")
    yield env
    env.close()


@pytest.mark.parametrize(("camera", "mark"), [("front", None), ("wrist", MARK)])
def test_the_pose_of_a_camera_is_found_from_pixels(env, tmp_path, camera, mark):
    (entry,) = (c for c in env.rig.cameras if c.name == camera)
    asked = []

    def see(place, picture):
        assert picture.is_file()
        asked.append(place)
        T_base_camera = entry.extrinsics
        tip = env.robot_state().arms["arm"].T_base_tip
        if mark is not None:
            T_base_camera = tip @ entry.extrinsics
        model = CameraModel(env.open().cameras[camera].intrinsics, T_base_camera)
        u, v, _ = model.project(tip.position_m if mark is None else np.array(mark))
        return f"{u:.6f},{v:.6f}" if place != 3 else ""  # one place is not seen

    solved = calibrate(env, camera, see, tmp_path / "pictures", mark)
    assert asked == list(range(1, 9))
    assert np.allclose(solved.pose.position_m, entry.extrinsics.position_m, atol=1e-3)
    assert angle_between(solved.pose.rotation, entry.extrinsics.rotation) < 1e-3
    assert solved.worst_px < 0.01


def test_wrong_requests_are_refused_before_anything_moves(env, tmp_path):
    with refuses(
        ErrorCode.MISSING_SETTING, "camera wrist is a wrist camera; it needs --mark X Y Z"
    ):
        calibrate(env, "wrist", lambda place, picture: "", tmp_path)
    with refuses(ErrorCode.UNKNOWN_NAME, "there is no camera 'rear'"):
        calibrate(env, "rear", lambda place, picture: "", tmp_path)
    command = RigCalibrate("room", "front", pixels=tmp_path / "none.csv")
    with refuses(ErrorCode.UNREADABLE_FILE, r"none\.csv cannot be read"):
        command.run()


def test_ctrl_c_between_two_motions_stops_the_arms_so_that_they_are_not_parked(monkeypatch):
    stopped = []
    monkeypatch.setattr(RigFileEnv, "stop", lambda env: stopped.append(env.spec.name))

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(rig, "calibrate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        RigCalibrate("room", "front").run()
    assert stopped == ["rig:room:LiftBlock"]
