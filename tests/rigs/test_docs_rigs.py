"""The rig files of docs/, used as a reader would: copied, read, opened as far as is possible without
a robot, and held against what the pages promise of them.
"""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import numpy as np
import pytest

from capex import worlds
from capex.cli.look import Tasks
from capex.pose import angle_between
from capex.rigs.cameras import build_camera
from capex.rigs.drivers import CAMERA_DRIVERS, DRIVERS, load_driver
from capex.rigs.env import RigFileEnv
from capex.rigs.parse import find_rig, read_rig

DOCS = Path(__file__).parents[2] / "docs"
FILES = sorted(path.name for path in DOCS.glob("*.toml"))


@pytest.fixture(params=FILES)
def copied(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    shutil.copy(DOCS / request.param, tmp_path)
    return tmp_path / str(request.param)


def test_a_rig_file_of_the_docs_is_used_as_it_stands(
    copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert Tasks(f"rig:{copied}").run() == 0
    rig = read_rig(copied)
    assert next(iter(rig.tasks)) in capsys.readouterr().out
    for arm in rig.arms:
        if arm.driver in DRIVERS:  # reads its options, connects nothing
            load_driver(arm.driver, DRIVERS)(dict(arm.options), arm.name)
    for camera in rig.cameras:
        there = camera.driver != "realsense" or importlib.util.find_spec("pyrealsense2") is not None
        if camera.driver in CAMERA_DRIVERS and there:  # no wheel of it for some machines
            build_camera(camera)
    env = worlds.make(f"rig:{copied}:{next(iter(rig.tasks))}")
    assert isinstance(env, RigFileEnv)
    env.close()


def test_a_camera_with_depth_has_what_locate_pixel_needs(copied: Path) -> None:
    rig = read_rig(copied)
    for camera in rig.cameras:
        assert not camera.depth or camera.extrinsics is not None, camera.name
    name = f"rig:{copied}:{next(iter(rig.tasks))}"
    worlds.allow(name)
    env = worlds.make(name)
    offered = {camera.name for camera in env.spec.cameras if camera.depth}
    assert offered == {camera.name for camera in rig.cameras if camera.depth}
    assert env.spec.depth == bool(offered)


def test_the_yam_file_promises_what_its_page_does() -> None:
    docs, twin = read_rig(DOCS / "yam.toml"), read_rig(find_rig("yam-twin"))
    for ours, drawn in zip(docs.cameras, twin.cameras, strict=True):
        assert ours.depth
        assert ours.extrinsics is not None
        assert drawn.extrinsics is not None
        assert np.allclose(ours.extrinsics.position_m, drawn.extrinsics.position_m, atol=1e-4)
        assert angle_between(ours.extrinsics.rotation, drawn.extrinsics.rotation) < 1e-3
    assert [arm.options["model"] for arm in docs.arms] == ["yam", "yam"]
