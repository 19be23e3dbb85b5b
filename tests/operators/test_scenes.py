"""Scenes that starts are matched to, from datasets."""

from __future__ import annotations

import pytest

from capex.operators.lerobot_scenes import LeRobotScenes
from capex.operators.matching import compare
from toy import Toy, ToyEnv


@pytest.mark.parametrize("name", ["images", "video", "v21"])
def test_first_frames_are_scenes_to_match(sets, name):
    scenes = LeRobotScenes(sets / name)
    assert list(scenes.starts()) == [0, 1]
    room = Toy(size=(32, 24))  # its first exterior camera takes the only picture there is
    seen = [scenes.images(ToyEnv(room).spec, start)["back_left"] for start in (0, 1)]
    assert seen[0].shape == (24, 32, 3)
    assert compare(*seen).score > 0.01
