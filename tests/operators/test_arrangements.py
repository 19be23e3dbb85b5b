"""Arrangements: stored whole, compared by pixels, taken from pictures or runs."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image as PillowImage

from capex.errors import DamagedFile, ErrorCode
from capex.operators.arrangements import (
    Match,
    find_arrangement,
    read_image,
    read_match,
    store_arrangement,
    write_match,
)
from capex.operators.matching import MatchView, compare, find_spots
from capex.operators.scenes import FolderScenes, by_camera, open_scenes
from capex.worlds import CameraSpec
from refusals import refuses

SPEC = SimpleNamespace(
    name="rig:desk:Stack", cameras=(CameraSpec("front", "exterior"), CameraSpec("hand", "wrist"))
)


def scene(left: int) -> np.ndarray:
    """A grey table with a bright block that begins at that column."""
    image = np.full((60, 80, 3), 90, np.uint8)
    image[20:40, left : left + 20] = (240, 200, 60)
    return image


def test_an_arrangement_is_stored_whole_and_read_back(tmp_path):
    assert find_arrangement(tmp_path / "a", 7) is None
    stored = store_arrangement(tmp_path / "a", 7, {"front": scene(10)}, "first attempt of x", "mug")
    found = find_arrangement(tmp_path / "a", 7)
    assert found == stored
    assert (found.source, found.notes) == ("first attempt of x", "mug")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", found.at)
    assert np.array_equal(read_image(found.images["front"]), scene(10))
    with refuses(ErrorCode.ALREADY_EXISTS):
        store_arrangement(tmp_path / "a", 7, {"front": scene(20)}, "again")
    (stored.folder / "front.png").unlink()
    with pytest.raises(DamagedFile, match="it holds no picture of the scene"):
        find_arrangement(tmp_path / "a", 7)


def test_a_match_lies_beside_its_attempt(tmp_path):
    assert read_match(tmp_path) is None
    match = Match("Ada", False, 0.03, "0007", 0.1)
    write_match(tmp_path, match, {"front": scene(10)})
    assert read_match(tmp_path) == match
    assert np.array_equal(read_image(tmp_path / "arrangement" / "front.png"), scene(10))


def test_a_moved_block_differs_by_where_it_was_and_where_it_is():
    same = compare(scene(10), scene(10))
    assert (same.score, same.changed) == (0.0, 0.0)
    near, far = compare(scene(10), scene(14)), compare(scene(10), scene(50))
    assert not same.spots
    (first, second) = sorted(far.spots)  # where the block was, and where it is
    assert first == pytest.approx((10 / 80, 20 / 60, 30 / 80, 40 / 60), abs=0.04)
    assert second == pytest.approx((50 / 80, 20 / 60, 70 / 80, 40 / 60), abs=0.04)
    assert 0 < near.score < far.score < 1
    assert near.changed == 2 * 4 * 20 / (60 * 80)
    assert far.changed == 2 * 20 * 20 / (60 * 80)
    assert tuple(far.blend[30, 20]) == (165, 145, 75)
    colours = {tuple(c) for c in far.edges.reshape(-1, 3)}
    assert {(255, 60, 60), (60, 230, 90)} <= colours
    small = np.asarray(PillowImage.fromarray(scene(10)).resize((40, 30)))
    assert compare(scene(10), small).score < near.score


@pytest.mark.parametrize("size", [(480, 848), (4, 200)])
def test_what_differs_at_the_edge_of_any_picture_is_a_spot(size):
    changed = np.zeros(size, bool)
    changed[:, -8:] = True
    ((_, top, right, bottom),) = find_spots(changed)
    assert (top, right, bottom) == (0.0, 1.0, 1.0)


def test_the_view_is_a_picture_and_a_page_that_refreshes(tmp_path):
    view = MatchView(tmp_path, {"front": scene(10)}, "start 7")
    score, changed = view.show({"front": scene(50), "side": scene(10)})
    assert score > 0
    assert changed > 0
    with PillowImage.open(tmp_path / "arrange.jpg") as picture:
        assert picture.size == (80 * 2 + 80, 2 * (60 + 22) + 22)
    page = (tmp_path / "arrange.html").read_text()
    assert "arrange.jpg?" in page
    assert "http" not in page.replace("http-equiv", "")
    assert MatchView(tmp_path, {}).show({"front": scene(1)}) is None
    view.close()
    assert not list(tmp_path.iterdir())


def test_pictures_of_starts_by_number_and_by_camera(tmp_path):
    PillowImage.fromarray(scene(1)).save(tmp_path / "0003.png")
    (tmp_path / "0007").mkdir()
    PillowImage.fromarray(scene(2)).save(tmp_path / "0007" / "front.png")
    (tmp_path / "notes.txt").write_text("not a picture")
    scenes = FolderScenes(tmp_path)
    assert sorted(scenes.starts()) == [3, 7]
    assert np.array_equal(scenes.images(SPEC, 3)["front"], scene(1))
    assert np.array_equal(scenes.images(SPEC, 7)["front"], scene(2))
    with pytest.raises(DamagedFile, match="the cameras that stand in the room are front"):
        by_camera({"a": scene(1), "b": scene(1)}, SPEC, "there")
    with refuses(ErrorCode.NOT_FOUND, "is no folder; give a run, a folder of pictures"):
        open_scenes(tmp_path / "none", "Stack")
    (tmp_path / "empty").mkdir()
    with refuses(ErrorCode.WRONG_CONTENT, r"holds no pictures of starts; name them 0007\.png"):
        open_scenes(tmp_path / "empty", "Stack")
