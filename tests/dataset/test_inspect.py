"""`capex dataset check` and `diff`: sound datasets pass in every format, each defect is found and named, broken folders get sentences."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from capex.dataset import Filters, export_run
from capex.dataset.inspect import check_dataset, diff_datasets
from capex.dataset.inspect.report import RULES
from capex.errors import CapexError, ErrorCode
from capex.run.files import read_json, write_json
from layouts import DATA, EPISODES, QUICK
from refusals import refuses

PICTURE = "observation.images.wrist"


@pytest.fixture
def copy(sets, shm):
    def make(name: str = "images") -> Path:
        return shutil.copytree(sets / name, shm / name)

    return make


def found(path: Path, **more) -> dict[str, str]:
    """The sentences of the rules that do not hold."""
    return {f.rule: " ".join(f.sentences) for f in check_dataset(path, **more).failed}


@pytest.mark.parametrize("name", ["images", "video", "hdf5", "v21"])
def test_a_sound_dataset_passes(sets, name, expert_demos):
    told: list[tuple[int, int]] = []
    report = check_dataset(sets / name, expected=2, tell=lambda *now: told.append(now))
    status = {f.rule: f.status for f in report.findings}
    assert report.ok, report.failed
    assert list(status) == list(RULES)
    assert not [rule for rule, s in status.items() if s == "warning"]
    assert len(told) == 2
    assert told[-1][0] == told[-1][1]
    unclaimed = {"hdf5": {"timestamps", "statistics"}, "v21": {"certificates"}}
    assert {r for r, s in status.items() if s == "not claimed"} == unclaimed.get(name, set())
    if name != "v21":
        compared = check_dataset(sets / name, runs=expert_demos.parent)
        assert "compared with the runs" in compared.findings[-1].sentences[0]


def edit(path: Path, **columns) -> None:
    """Rewrite columns of a Parquet file: name -> function of its list of values."""
    table = pq.read_table(path)
    for name, change in columns.items():
        name = name.replace("__", ".").replace("_OF_", "/")
        values = table[name].to_pylist()
        change(values)
        column = pa.array(values, table.schema.field(name).type)
        table = table.set_column(table.schema.names.index(name), table.schema.field(name), column)
    pq.write_table(table, path)


def put(index, value):
    return lambda values: values.__setitem__(index, value)


def _info(path: Path, **changes) -> None:
    write_json(path / "meta/info.json", read_json(path / "meta/info.json") | changes)


def _stats(path: Path) -> None:
    stats = read_json(path / "meta/stats.json")
    stats["action"]["q90"][3] += 0.01
    write_json(path / "meta/stats.json", stats)


def _no_column(path: Path) -> None:
    pq.write_table(pq.read_table(path / DATA).drop_columns(["action"]), path / DATA)


def _cut(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


DEFECTS = {
    "a count": (lambda d: _info(d, total_frames=7), "counts", r"7 frames are stated, \d+ are there"),
    "an episode that is not there": (lambda d: edit(d / EPISODES, length=put(1, 9)), "counts", r"episode 1 has \d+ frames in data/chunk-000/file-000.parquet; 9 are stated"),
    "a frame twice": (lambda d: edit(d / DATA, frame_index=put(4, 3)), "order", "episode 0, frame 4: frame_index is 3, not 4"),
    "a task that nobody named": (lambda d: edit(d / DATA, task_index=put(0, 5)), "order", "episode 0: task_index 5 of 1 tasks"),
    "a late frame": (lambda d: edit(d / DATA, timestamp=put(2, 0.11)), "timestamps", r"episode 0, frame 2: the timestamp is 0.1100 s, not 0.1000 s \(20 per second\)"),
    "NaN": (lambda d: edit(d / DATA, action=put(5, [np.nan] * 12)), "numbers", r"episode 0, frame 5: action \(eef_dx\) is nan"),
    "infinity": (lambda d: edit(d / DATA, observation__state=put(5, [np.inf] * 12)), "numbers", r"frame 5: observation.state \(eef_x\) is inf"),
    "a picture": (lambda d: edit(d / DATA, observation__images__wrist=put(3, {"bytes": b"\x89PNG", "path": None})), "pictures", "episode 0, frame 3, observation.images.wrist: the picture cannot be decoded"),
    "no picture": (lambda d: edit(d / DATA, observation__images__wrist=put(3, None)), "pictures", "episode 0, frame 3, observation.images.wrist: there is no picture"),
    "statistics": (_stats, "statistics", r"meta/stats.json: action: q90 is stated as .* and is .* \(number 3\)"),
    "a column": (_no_column, "features", "file-000.parquet has no column action, which meta/info.json declares"),
    "a file": (lambda d: (d / DATA).unlink(), "files", "file-000.parquet cannot be read: it is missing"),
    "half a file": (lambda d: _cut(d / DATA), "files", "file-000.parquet cannot be read: "),
    "a digest": (lambda d: edit(d / EPISODES, capex_OF_record_sha256=put(1, "")), "certificates", "episode 1 has the record_sha256 '', which is no digest"),
}  # fmt: skip


@pytest.mark.parametrize("defect", DEFECTS)
def test_each_defect_is_found_and_named(copy, defect):
    damage, rule, sentence = DEFECTS[defect]
    folder = copy()
    damage(folder)
    wrong = found(folder)
    assert rule in wrong
    assert re.search(sentence, wrong[rule]), wrong[rule]


def test_video_that_breaks_off_or_holds_too_much(copy, sets):
    folder = copy("video")
    film = folder / f"videos/{PICTURE}/chunk-000/file-000.mp4"
    key = f"videos_OF_{PICTURE.replace('.', '__')}_OF_to_timestamp"
    ends = [
        row[f"videos/{PICTURE}/to_timestamp"]
        for row in pq.read_table(folder / EPISODES).to_pylist()
    ]
    edit(folder / EPISODES, **{key: put(1, ends[1] - 0.25)})
    report = check_dataset(folder)
    (wrong,) = [f for f in report.findings if f.rule == "pictures"]
    assert any("episode 1, observation.images.wrist: there are" in s for s in wrong.sentences)
    assert any("holds 5 frames that belong to no episode" in s for s in wrong.sentences)
    film.write_bytes(film.read_bytes()[:2000])
    assert "file-000.mp4 is damaged" in found(folder)["pictures"]
    film.unlink()
    assert "file-000.mp4 is missing" in found(folder)["pictures"]


def test_hdf5_defects(copy):
    folder = copy("hdf5")
    with h5py.File(folder / "demo.hdf5", "r+") as file:
        file["data/demo_0/actions"][3, 2] = np.nan
        file["data/demo_1"].attrs["num_samples"] = 5
        del file["mask/valid"]
        file["mask/valid"] = np.array([b"demo_0", b"demo_7"])
    wrong = found(folder)
    assert "demo.hdf5, demo_0, frame 3: actions (number 2) is nan" in wrong["numbers"]
    assert "rows of actions and num_samples 5" in wrong["counts"]
    assert "mask/valid names demo_7" in wrong["order"]
    assert "demo_0 is in mask/train and mask/valid" in wrong["order"]


def test_an_episode_that_is_there_twice_is_named(copy):
    folder = copy("v21")
    first, second = (folder / f"data/chunk-000/episode_00000{k}.parquet" for k in (0, 1))
    shutil.copy(first, second)
    wrong = found(folder)
    assert (
        "episode 1 is episode 0 again: the same numbers and pictures to the bit"
        in wrong["duplicates"]
    )
    assert "statistics" in wrong  # those of the episode that was replaced


def test_certificates_are_compared_with_the_runs(sets, expert_demos, shm):
    run = shutil.copytree(expert_demos, shm / expert_demos.name)
    episodes = sorted(run.glob("chains/*/episodes/*"))
    (episodes[0] / "certificate.json").unlink()
    (episodes[1] / "record.json").write_text("{}")
    wrong = found(sets / "images", runs=shm, expected=3)
    assert "episode 0 is stated to be certified, and" in wrong["certificates"]
    assert "record.json has changed since episode 1 was exported" in wrong["certificates"]
    assert wrong["counts"] == "3 episodes were expected, 2 are there"
    shutil.rmtree(run)
    assert "which is not there" in found(sets / "images", runs=shm)["certificates"]


@pytest.mark.parametrize("name", ["images", "v21", "hdf5"])
def test_no_damage_ends_in_a_traceback(copy, name):
    """Every file gone, cut in half, and full of something else: a failed rule, or a sentence."""
    folder = copy(name)
    kinds = (".json", ".jsonl", ".parquet", ".hdf5")
    for path in sorted(p for p in folder.rglob("*") if p.suffix in kinds):
        content = path.read_bytes()
        for damage in (None, content[: len(content) // 2], b"hello {"):
            path.unlink() if damage is None else path.write_bytes(damage)
            assert not in_order(folder), (path, damage is None)
            path.write_bytes(content)
    assert in_order(folder)


def in_order(folder: Path) -> bool:
    """Whether a dataset passes; where there is none the sentence names the folder."""
    try:
        return check_dataset(folder).ok
    except CapexError as error:
        return str(folder) not in str(error)


def test_the_difference_is_one_episode_where_one_was_left_out(sets, expert_demos, shm):
    export_run(expert_demos, shm / "one", pipeline=QUICK, filters=Filters(max=1))
    assert diff_datasets(sets / "images", sets / "images").same
    rows = diff_datasets(shm / "one", sets / "images")
    kinds = {row.what for row in rows.differences}
    assert kinds == {"number of episodes", "number of frames", "episodes", "statistics"}
    (row,) = [row for row in rows.differences if row.what == "episodes"]
    assert row.where == "episode 1, start 1 of kitchen:TurnOnMicrowave, arm expert"
    assert (row.first, row.second, rows.same_episodes) == ("not there", "there", 1)


def test_differences_of_numbers_pictures_and_structure(sets, copy):
    folder = copy()
    edit(folder / DATA, action=put(5, [0.0] * 12))
    swap = pq.read_table(folder / DATA)[PICTURE].to_pylist()
    edit(folder / DATA, observation__images__wrist=put(6, swap[60]))
    rows = {row.what: row for row in diff_datasets(sets / "images", folder).differences}
    assert set(rows) == {"numbers", "pictures"}
    assert "episode 0, start 0 of" in rows["numbers"].where
    assert "action, 1 of" in rows["numbers"].where
    assert rows["numbers"].where.endswith("first frame 5")
    assert rows["numbers"].second == "0"
    assert rows["pictures"].where.endswith("first frame 6")
    encoded = {row.what: row for row in diff_datasets(sets / "images", sets / "video").differences}
    assert encoded["features"].first == "image [24, 32, 3]"
    assert encoded["features"].second == "video [24, 32, 3]"
    formats = diff_datasets(sets / "v21", sets / "images")
    assert [row.what for row in formats.differences] == ["format"]
    assert formats.same_episodes == 2
    other = diff_datasets(sets / "hdf5", sets / "images")
    assert "no feature has the same name in both" in other.sentence
    assert not [row for row in other.differences if row.what == "episodes"]


def test_the_commands_print_a_table_and_a_status(copy, sets):
    folder = copy()
    (folder / "meta/stats.json").unlink()
    for words, status, said in (
        (("check", str(sets / "images"), "--expected", "2"), 0, "2 episodes"),
        (("check", str(folder)), 1, "meta/stats.json is missing"),
        (("diff", str(sets / "images"), str(sets / "v21")), 1, "2 episodes are equal in every"),
        (("check", str(folder.parent)), 2, "nor an HDF5 file; its folders images are"),
    ):
        command = [sys.executable, "-m", "capex.cli", "dataset", *words]
        out = subprocess.run(command, capture_output=True, text=True, check=False)
        text = " ".join((out.stdout + out.stderr).split())
        assert out.returncode == status, (words, text)
        assert "Traceback" not in text
        assert said in text, (words, text)


def test_what_is_no_dataset_gets_a_sentence(sets, copy, shm):
    (shm / "text.txt").write_text("")
    for path, code, sentence in (
        (
            shm / "nowhere",
            ErrorCode.NOT_FOUND,
            "there is no .*nowhere; give the folder of a dataset",
        ),
        (shm, ErrorCode.WRONG_CONTENT, "is no dataset: it has neither meta/info.json"),
        (shm / "text.txt", ErrorCode.WRONG_CONTENT, "is no dataset: it has neither meta/info.json"),
    ):
        with refuses(code, sentence):
            check_dataset(path)
    folder = copy()
    for changes, code, sentence in (
        (
            {"codebase_version": "v1.6"},
            ErrorCode.WRONG_CONTENT,
            "has the codebase_version v1.6; v3 and v2 can be read",
        ),
        ({"fps": 0}, ErrorCode.CONTRACT_BROKEN, "has the fps 0; it must be a positive number"),
        ({"features": {}}, ErrorCode.CONTRACT_BROKEN, "declares no features"),
        (
            {"data_path": "{nothing}"},
            ErrorCode.CONTRACT_BROKEN,
            "has the data_path '{nothing}'; it may name chunk_index",
        ),
        (
            {"data_path": "../x"},
            ErrorCode.NOT_PERMITTED,
            "has the data_path '../x', which leads outside",
        ),
    ):
        shutil.copy(sets / "images/meta/info.json", folder / "meta/info.json")
        _info(folder, **changes)
        with refuses(code, re.escape(sentence)):
            check_dataset(folder)


def column(path: Path, name: str, values, kind) -> None:
    """Give a column of a Parquet file other values of another type."""
    table = pq.read_table(path)
    number = table.schema.names.index(name)
    made = pa.array([values] * table.num_rows, kind)
    pq.write_table(table.set_column(number, name, made), path)


@pytest.mark.parametrize(
    "name", ["tasks", "length", "episode_index", f"videos/{PICTURE}/to_timestamp"]
)
@pytest.mark.parametrize(
    ("values", "kind"),
    [("x", pa.string()), (7.5, pa.float64()), ({"a": 1}, None), ([1], None), (None, pa.int64())],
)
def test_columns_of_any_type_end_in_sentences(copy, name, values, kind):
    path = copy("video")
    column(path / EPISODES, name, values, kind)
    for look in (check_dataset, lambda p: diff_datasets(p, p)):
        with contextlib.suppress(CapexError):
            look(path)


def test_a_list_of_episodes_has_a_limit(copy):
    path = copy()
    many = pa.table({"episode_index": pa.array(np.zeros(2**22, np.int8))})
    pq.write_table(many, path / EPISODES)
    assert "4,194,304 values" in found(path)["files"]


@pytest.mark.parametrize(
    "change",
    [
        lambda file: file["data"].attrs.__setitem__("total", "1" * 5000),
        lambda file: file["data"].attrs.__setitem__("total", np.zeros(3)),
        lambda file: file["data"].attrs.__setitem__("env_args", h5py.Empty("f8")),
        lambda file: (file.pop("mask", None), file.create_dataset("mask", data=7)),
        lambda file: file["data"].create_dataset("demo_7", data=np.zeros(4)),
        lambda file: [
            file["data/demo_0"].create_dataset(f"more_{k}", (2**21, 8), "f8", chunks=(1024, 8))
            for k in range(4)
        ],
        lambda file: file["data/demo_0"].create_dataset(
            "a_image", (9, 8000, 8000, 3), "u1", chunks=(1, 8, 8, 3)
        ),
    ],
)
def test_hdf5_of_any_type_ends_in_sentences(copy, change):
    path = copy("hdf5")
    with h5py.File(path / "demo.hdf5", "r+") as file:
        change(file)
    with contextlib.suppress(CapexError):
        found(path)
