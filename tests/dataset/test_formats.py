"""What a frame meant in words, LeRobot v2.1 by a strict reader, v3.1 with its language columns, and depth as LeRobot keeps it."""

from __future__ import annotations

import io
import json
import shutil

import av
import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image as Picture

from capex.dataset import Filters, Pipeline, depth, export_run
from capex.dataset.frames import open_take
from capex.dataset.inspect import check_dataset
from capex.dataset.language import STYLES, motion_text, spans
from capex.errors import ErrorCode
from capex.plan import ArmTarget, BaseMotion, Waypoint
from capex.run.files import read_json
from capex.run.steps import read_steps
from capex.students.data import open_pack
from capex.students.lerobot_reader import open_dataset
from capex.students.packing import export_pack
from capex.worlds.cache import OF_THIS_PROCESS
from refusals import refuses

CAMERA = "wrist"
KEY, DEEP = f"observation.images.{CAMERA}", f"observation.images.{CAMERA}_depth"
IMAGES = Pipeline((64, 48), (CAMERA,), depth=True)
VIDEO = Pipeline((64, 48), (CAMERA,), depth=True, video=True)


@pytest.fixture(scope="module")
def sets(model_demos, tmp_path_factory):
    """The scripted model's success in the three versions."""
    root = tmp_path_factory.mktemp("formats")
    export_run(model_demos, root / "v30", pipeline=Pipeline((32, 24), (CAMERA,)))
    export_run(model_demos, root / "v21", format="lerobot-v2.1", pipeline=VIDEO)
    export_run(model_demos, root / "v31", format="lerobot-v3.1", pipeline=IMAGES)
    export_run(model_demos, root / "film", format="lerobot-v3.1", pipeline=VIDEO)
    return root


@pytest.fixture(scope="module")
def told(model_demos):
    """The texts of that episode, by style."""
    found = spans(open_take(next(model_demos.glob("chains/*/episodes/0000"))))
    OF_THIS_PROCESS.close()
    return {style: [span for span in found if span.style == style] for style in STYLES}


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def texts(told, style):
    """The text that holds at each frame."""
    return [span.text for span in told[style] for _ in range(span.from_frame, span.to_frame)]


def test_words_say_what_was_meant_at_every_frame(told):
    for of_style in told.values():
        ends = [0, *(span.to_frame for span in of_style)]
        assert [span.from_frame for span in of_style] == ends[:-1]
        assert ends[-1] == 247
    plan, subtask, memory, motion = (
        texts(told, style) for style in ("plan", "subtask", "memory", "motion")
    )
    why = "Close the fingers and move in front of the panel."
    first = "move to x 38, y -1, z 71 cm, hand forward, then close the gripper"
    assert motion[0] == "drive 5 cm back"
    assert motion[11] == first
    assert plan[11].splitlines()[:2] == [why, f"1. {first}"]
    assert len(plan[11].splitlines()) == 5  # the deferred waypoint, too
    assert subtask[11] == f"move, then close the gripper: {why}"
    assert subtask[-1] == "finish the task: Retreat."
    assert memory[0] == "nothing has been done yet"
    assert memory[29].startswith("closed the gripper (reached; close: opening 0.0 cm); 1 of 1")


@pytest.mark.parametrize(
    ("waypoint", "text"),
    [
        (Waypoint(base=BaseMotion(0.1, -0.2, -0.5)), "drive 10 cm forward, 20 cm to the right,"),
        (Waypoint({"left": ArmTarget(gripper="open")}), "left: open the gripper"),
        (Waypoint({"left": ArmTarget(orientation=(0, 90, 0))}), "left: hand at euler[0,90,0]"),
        (Waypoint({"left": ArmTarget()}), "hold still"),
    ],
)
def test_motions_in_words(waypoint, text):
    assert motion_text(waypoint, several=True).startswith(text)


def test_v30_has_the_subtask_column_and_all_words_beside_it(sets, told):
    data = pq.read_table(sets / "v30/data/chunk-000/file-000.parquet")
    table = pq.read_table(sets / "v30/meta/subtasks.parquet").to_pydict()
    numbered = dict(zip(table["subtask_index"], table["__index_level_0__"], strict=True))
    assert [numbered[n] for n in data["subtask_index"].to_pylist()] == texts(told, "subtask")
    rows = pq.read_table(sets / "v30/meta/language.parquet").to_pylist()
    every = [span for of_style in told.values() for span in of_style]
    assert sorted(map(str, rows)) == sorted(str(span.as_row(0)) for span in every)


def test_v31_has_lerobots_language_columns(sets, told):
    info = read_json(sets / "v31/meta/info.json")
    assert info["codebase_version"] == "v3.0"  # as LeRobot 0.6 itself writes it
    assert info["features"]["language_persistent"] == {
        "dtype": "language",
        "shape": [1],
        "names": None,
    }
    data = pq.read_table(sets / "v31/data/chunk-000/file-000.parquet").to_pylist()
    said = data[0]["language_persistent"]
    assert all(row["language_persistent"] == said and not row["language_events"] for row in data)
    assert said == sorted(said, key=lambda row: (row["timestamp"], row["style"]))
    assert {(row["role"], row["camera"], row["tool_calls"]) for row in said} == {
        ("assistant", None, None)
    }
    for style in STYLES:
        rows = [row for row in said if row["style"] == style]
        assert {row["timestamp"] for row in rows} <= {row["timestamp"] for row in data}
        active = [
            next(r["content"] for r in reversed(rows) if r["timestamp"] <= frame["timestamp"])
            for frame in data
        ]
        assert active == texts(told, style)


def test_depth_is_tiff_or_lossless_video_of_codes(sets, model_demos):
    rows = pq.read_table(sets / "v31/data/chunk-000/file-000.parquet").to_pylist()
    maps = [Picture.open(io.BytesIO(row[DEEP]["bytes"])) for row in rows]
    assert {(m.format, m.mode, m.size) for m in maps} == {("TIFF", "I;16", (64, 48))}
    depths_mm = [np.asarray(m) for m in maps]
    take = open_take(next(model_demos.glob("chains/*/episodes/0000")))
    for frame, _ in zip((0,), take.pictures(IMAGES), strict=False):
        seen_m = take.views.depth_m(CAMERA, IMAGES.sizes[CAMERA])
        assert np.abs(depths_mm[frame] - 1000 * seen_m).max() <= 0.51
    OF_THIS_PROCESS.close()
    with av.open(str(sets / f"film/videos/{DEEP}/chunk-000/file-000.mp4")) as film:
        assert film.streams.video[0].codec_context.pix_fmt == "gray12le"
        codes = [frame.to_ndarray(format="gray12le") for frame in film.decode(video=0)]
    assert len(codes) == len(depths_mm)
    assert all(
        np.array_equal(code, depth.codes(d)) for code, d in zip(codes, depths_mm, strict=True)
    )
    for name in ("v31", "film"):
        stats = read_json(sets / name / "meta/stats.json")[DEEP]
        assert stats["max"] == [[[float(np.max(depths_mm))]]]
        assert np.isclose(stats["mean"][0][0][0], np.mean(depths_mm))
        feature = read_json(sets / name / "meta/info.json")["features"][DEEP]
        assert feature["shape"] == [48, 64, 1]
        assert feature["info"]["is_depth_map"]


def test_a_strict_reader_of_v21_finds_everything(sets, told):
    root = sets / "v21"
    info, meta = read_json(root / "meta/info.json"), root / "meta"
    assert info["codebase_version"] == "v2.1"
    episodes, tasks = lines(meta / "episodes.jsonl"), lines(meta / "tasks.jsonl")
    assert [row["task_index"] for row in tasks] == list(range(info["total_tasks"]))
    named = {row["task_index"]: row["task"] for row in tasks}
    assert len(episodes) == info["total_episodes"] == info["total_videos"] == 1
    (episode,), (measured,) = episodes, lines(meta / "episodes_stats.jsonl")
    assert episode == {"episode_index": 0, "tasks": [named[0]], "length": info["total_frames"]}
    where = {"episode_chunk": 0, "episode_index": 0}
    table = pq.read_table(root / info["data_path"].format(**where))
    stored = {n: f for n, f in info["features"].items() if f["dtype"] != "video"}
    assert set(table.column_names) == set(stored)
    # datasets before version 4, which readers of v2.1 have, does not know the type List
    assert b'"List"' not in table.schema.metadata[b"huggingface"]
    frames = np.arange(episode["length"])
    assert table["index"].to_pylist() == table["frame_index"].to_pylist() == frames.tolist()
    assert np.allclose(table["timestamp"].to_numpy(), frames / info["fps"], atol=1e-4)
    for name, feature in stored.items():
        assert np.stack(table[name].to_numpy()).reshape(len(frames), -1).shape[1:] == tuple(
            feature["shape"]
        )
    for style in STYLES:
        numbers = table[f"annotation.capex.{style}"].to_pylist()
        assert [named[n] for n in numbers] == texts(told, style)
    film = root / info["video_path"].format(**where, video_key=KEY)
    with av.open(str(film)) as container:
        assert sum(1 for _ in container.decode(video=0)) == len(frames)
    assert set(measured["stats"]) == {*stored, KEY} - {
        n for n in stored if n.startswith(("capex.", "annotation."))
    }
    assert np.array(measured["stats"][KEY]["mean"]).shape == (3, 1, 1)
    assert measured["stats"]["action"]["count"] == [len(frames)]
    (known,) = pq.read_table(meta / "provenance.parquet").to_pylist()
    assert known["certified"]
    modality = read_json(meta / "modality.json")
    for part, name in (("state", "observation.state"), ("action", "action")):
        covered = [k for g in modality[part].values() for k in range(g["start"], g["end"])]
        assert covered == list(range(info["features"][name]["shape"][0]))
    assert modality["video"] == {CAMERA: {"original_key": KEY}}
    for name, entry in modality["annotation"].items():
        assert entry.get("original_key", f"annotation.{name}") in stored


def signs(q):
    """How often quaternions (T, 4) in order change their sign."""
    q = np.asarray(q, dtype=np.float64)
    return int(((q[1:] * q[:-1]).sum(axis=1) < 0).sum())


def test_quaternions_are_continuous_in_every_format(sets, model_demos, tmp_path):
    steps = read_steps(next(model_demos.glob("chains/*/episodes/0000")))
    recorded = steps["proprio"][:-1, 3:7]
    assert signs(recorded) > 0
    exported = {}
    for name in ("v30", "v21", "v31"):
        column = pq.read_table(next((sets / name / "data").rglob("*.parquet")))["observation.state"]
        exported[name] = np.array(column.to_pylist())[:, 3:7]
        assert check_dataset(sets / name).ok
    hdf5 = tmp_path / "hdf5"
    export_run(model_demos, hdf5, format="hdf5", pipeline=Pipeline((32, 24), (CAMERA,)))
    with h5py.File(hdf5 / "demo.hdf5") as file:
        exported["hdf5"] = file["data/demo_0/obs/robot0_base_to_eef_quat"][:]
    export_pack([model_demos], tmp_path / "pack", Filters(), Pipeline((32, 24), (CAMERA,)))
    exported["pack"] = open_pack(tmp_path / "pack").states[:, 3:7]
    for name, q in exported.items():
        assert signs(q) == 0, name
        assert q[0, 0] > 0.3  # not w, which is near 0 here
        assert np.allclose(np.abs(q), np.abs(recorded), atol=1e-6)


def test_a_quaternion_that_changes_its_sign_is_pointed_out(sets, shm):
    path = shutil.copytree(sets / "v30", shm / "v30")
    (file,) = (path / "data").rglob("*.parquet")
    table = pq.read_table(file)
    states = np.array(table["observation.state"].to_pylist(), dtype=np.float32)
    states[7:, 3:7] *= -1
    at, field = table.schema.names.index("observation.state"), table.field("observation.state")
    table = table.set_column(at, field, pa.array(states.tolist(), field.type))
    pq.write_table(table, file)
    (numbers,) = (f for f in check_dataset(path).findings if f.rule == "numbers")
    assert numbers.status == "warning"
    assert "frame 7: the quaternion of observation.state has the other sign" in numbers.sentences[0]


def test_students_take_v31_without_its_depth_and_refuse_v21(sets):
    assert open_dataset(sets / "v31").keys == (KEY,)
    with refuses(
        ErrorCode.WRONG_CONTENT, r"is LeRobot v2\.1; export it again with --format lerobot"
    ):
        open_dataset(sets / "v21")
