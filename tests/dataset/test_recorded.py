"""Episodes of a rig become films, strips and datasets from what was recorded: nothing is connected, and the rig file may be gone."""

from __future__ import annotations

import io
import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image as Picture

from capex import worlds
from capex.dataset import Filters, Pipeline, certify_run, export_run
from capex.dataset.animation import write_animation
from capex.dataset.features import DatasetLayout
from capex.dataset.film import write_strip, write_video
from capex.dataset.frames import exported_state, open_take
from capex.dataset.inspect import check_dataset
from capex.errors import ErrorCode
from capex.report.strips import Filmer
from capex.run import load_run
from capex.run.files import read_json, write_json
from capex.run.frames import RecordedFrames
from capex.run.summary import summarize
from capex.worlds.video import decode
from recorded import SIZES, TICKS, TIP_M, recorded_run
from refusals import refuses
from rig_devices import number_of


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two judged successes, a failure and an attempt that nobody judged."""
    return recorded_run(tmp_path_factory.mktemp("recorded") / "run", "110?")


@pytest.fixture(scope="module")
def dataset(run, tmp_path_factory):
    out = tmp_path_factory.mktemp("recorded") / "lerobot"
    exported = export_run(run, out, failures=True)
    assert [row.reason for row in exported.left_out] == ["failed (done)", "success not judged yet"]
    return out


def test_pictures_keep_the_size_of_their_camera_and_belong_to_their_state(dataset):
    features = read_json(dataset / "meta/info.json")["features"]
    for camera, (width, height) in SIZES.items():
        assert features[f"observation.images.{camera}"]["shape"] == [height, width, 3]
    rows = pq.read_table(dataset / "data/chunk-000/file-000.parquet").to_pylist()
    assert len(rows) == 2 * TICKS
    for row in rows:
        for camera, size in SIZES.items():
            content = row[f"observation.images.{camera}"]["bytes"]
            image = np.asarray(Picture.open(io.BytesIO(content)))
            assert image.shape[1::-1] == size
            assert number_of(image) == row["frame_index"] + 1
    report = check_dataset(dataset, expected=2)
    assert report.ok, report.failed
    (said,) = [f for f in report.findings if f.rule == "certificates"]
    assert (said.status, said.sentences) == ("ok", ("0 of 2 episodes certified, 2 judged by Ada",))


def test_the_card_says_who_judged(dataset):
    card = (dataset / "README.md").read_text()
    assert "2 demonstrations, 16 frames at 20 per second, 2 of them judged by Ada." in card
    assert "- 2 judged by Ada, not certified" in card
    assert "left at 64x36; wrist at 48x32, recorded while the robot moved, as PNG" in card
    failures = (dataset.with_name("lerobot-failures") / "README.md").read_text()
    assert "1 failed attempts, 8 frames at 20 per second, 1 of them judged by Ada." in failures


def test_calibration_comes_from_the_recording(dataset, run):
    rows = pq.read_table(dataset / "meta/episodes/chunk-000/file-000.parquet").to_pylist()
    cameras = json.loads(rows[0]["capex/cameras"])
    assert cameras["left"]["position_m"] == [1.0, 0.0, 0.5]
    assert cameras["wrist"]["frame"] == "tip of arm"
    assert np.allclose(cameras["wrist"]["position_m"], [1.0, 0.0, 0.5])
    assert rows[0]["capex/judge"] == "Ada"
    take = open_take(load_run(run).episodes[0].path)
    assert np.allclose(take.views.tips(0)["arm"].position_m, TIP_M)
    half = take.views.camera_model("left", 0, (32, 18))
    assert half is not None
    assert half.intrinsics[0, 0] == 25.0


def test_video_at_another_size(run, tmp_path):
    export_run(run, tmp_path / "d", filters=Filters(max=1), pipeline=Pipeline((32, 18), video=True))
    video = tmp_path / "d/videos/observation.images.wrist/chunk-000/file-000.mp4"
    assert [image.shape for _, image in decode(video)] == [(18, 32, 3)] * TICKS


def test_films_and_strips(run, tmp_path):
    episode = load_run(run).episodes[0]
    assert Picture.open(write_strip(episode.path, tmp_path / "strip.png")).size[0] == 6 * 256
    assert len(list(decode(write_video(episode.path, tmp_path / "film.mp4", every=3)))) == 3
    write_animation(episode.path, tmp_path / "plans.webp")
    filmer = Filmer()
    strip = filmer.strip(summarize(episode), episode.record)
    filmer.close()
    assert (strip.note, len(strip.frames), strip.frames[0].size) == ("", 6, (320, 180))


def test_judged_successes_are_not_certified(run):
    results = certify_run(run)
    assert [r.judge for r in results] == ["Ada", "Ada"]
    assert {r.certificate.reason for r in results} == {
        "judged by Ada, not certified: a person judges this world"
    }


def test_damaged_frames_are_named_and_left_out(tmp_path):
    run = recorded_run(tmp_path / "run", "1111", frames="images")
    episodes = [e.path for e in load_run(run).episodes]
    (episodes[0] / "frames/left/000003.jpg").unlink()
    (episodes[1] / "frames/index.npz").write_bytes(b"PK")
    for path in sorted((episodes[2] / "frames").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (episodes[2] / "frames").rmdir()
    exported = export_run(run, tmp_path / "d")
    assert exported.datasets[0].demonstrations == 1
    first, second, third = (row.reason for row in exported.left_out)
    assert first == "000003.jpg is damaged: it is missing"
    assert second.startswith("index.npz is damaged: its arrays cannot be read")
    assert third == (
        "frames is damaged: there are neither saved states nor recorded frames to make pictures"
        " from"
    )


def test_what_a_recording_cannot_give_is_refused(run, tmp_path):
    for options, code, sentence in (
        (
            {"format": "hdf5"},
            ErrorCode.UNSUPPORTED,
            "has no MuJoCo model; export it with --format lerobot",
        ),
        (
            {"pipeline": Pipeline(depth=True)},
            ErrorCode.UNSUPPORTED,
            "has no depth; leave out --depth",
        ),
        (
            {"pipeline": Pipeline(cameras=("front",))},
            ErrorCode.UNKNOWN_NAME,
            "there is no camera 'front'; valid: ",
        ),
    ):
        with refuses(code, sentence):
            export_run(run, tmp_path / "d", **options)


def test_arms_that_tell_their_joints_give_seven_numbers_each():
    two, one = (worlds.make(n).spec for n in ("yam-twin:BowlHandover", "franka-twin:PickCoke"))
    features = DatasetLayout(two, Pipeline()).features
    parts = [*(f"joint{k}" for k in range(1, 7)), "opening"]
    names = [f"{arm}_{part}" for arm in ("left", "right") for part in parts]
    assert features["observation.state"] == {"dtype": "float32", "shape": [14], "names": names}
    assert features["action"]["shape"] == [14]
    assert set(two.state_names) > {*names, "left_x", "right_qw"}  # films need the tips
    assert len(exported_state(one.state_names)) == len(one.state_names) == 8


def test_names_in_a_record_lead_to_no_other_folder(tmp_path):
    path = recorded_run(tmp_path / "runs" / "run", "1")
    (episode,) = (e.path for e in load_run(path).episodes)
    record = read_json(episode / "record.json")
    write_json(episode / "record.json", {**record, "task": "../../../outside"})
    export_run(path, tmp_path / "sets" / "out", format="lerobot")
    assert {p.name for p in tmp_path.iterdir()} == {"runs", "sets"}
    (picture,) = (tmp_path / "sets" / "out" / "pictures").iterdir()
    assert picture.name.endswith("-outside.png")
    cameras = read_json(episode / "frames" / "cameras.json")
    write_json(episode / "frames" / "cameras.json", {"../../x": next(iter(cameras.values()))})
    with refuses(ErrorCode.DAMAGED_FILE, r"the camera '\.\./\.\./x'"):
        RecordedFrames(episode)
