"""Export: which attempts are taken and why others are not, frames that say what the records say, files that are whole or not there."""

from __future__ import annotations

import csv
import io
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image as Picture

from capex import worlds
from capex.dataset import Filters, Pipeline, export_run
from capex.dataset.frames import open_take
from capex.dataset.inspect import check_dataset
from capex.dataset.statistics import QUANTILES
from capex.errors import ErrorCode
from capex.method.record import from_json
from capex.models import pictures
from capex.pose import Pose
from capex.run.files import read_json
from capex.run.steps import read_steps
from capex.worlds import CameraModel, Start, State
from capex.worlds.cache import OF_THIS_PROCESS
from capex.worlds.proprioception import continuous
from demos import TASK
from refusals import refuses

SMALL = Pipeline((64, 48))
QUICK = Pipeline((32, 24), ("wrist",))  # where the pictures do not matter
CAMERAS = ("left", "right", "wrist")


def rows(dataset: Path, what: str = "data") -> list[dict]:
    return [
        row
        for path in sorted((dataset / what).rglob("*.parquet"))
        for row in pq.read_table(path).to_pylist()
    ]


def pixels(cell: dict) -> np.ndarray:
    return np.asarray(Picture.open(io.BytesIO(cell["bytes"])))


def episode(run: Path, index: int) -> Path:
    return next(run.glob(f"chains/*/episodes/{index:04d}"))


@pytest.fixture(scope="module")
def dataset(expert_demos, tmp_path_factory):
    """The expert's three demonstrations as pictures."""
    out = tmp_path_factory.mktemp("export") / "expert"
    exported = export_run(
        expert_demos, out, pipeline=SMALL, command="capex export runs/expert", licence="cc-by-4.0"
    )
    assert [w.demonstrations for w in exported.datasets] == [3]
    assert not exported.left_out
    return out


@pytest.fixture(scope="module")
def driven(model_demos, tmp_path_factory):
    """The scripted model's success, and its failure beside it, with depth."""
    out = tmp_path_factory.mktemp("export") / "driven"
    export_run(model_demos, out, failures=True, pipeline=Pipeline((64, 48), depth=True))
    return out


def test_frames_hold_observation_and_the_action_that_followed(dataset, expert_demos):
    info, data = read_json(dataset / "meta/info.json"), rows(dataset)
    assert (
        info["codebase_version"],
        info["fps"],
        info["total_episodes"],
        info["total_frames"],
    ) == ("v3.0", 20, 3, len(data))
    spec = worlds.make(f"kitchen:{TASK}").spec
    assert info["features"]["action"] == {
        "dtype": "float64",
        "shape": [12],
        "names": list(spec.action_names),
    }
    assert info["features"]["observation.state"]["names"] == list(spec.state_names)
    steps = read_steps(episode(expert_demos, 1))
    (first, second, third) = rows(dataset, "meta/episodes")
    mine = data[second["dataset_from_index"] : second["dataset_to_index"]]
    assert np.array_equal([r["action"] for r in mine], steps["actions"])  # every bit
    state = continuous(spec.state_names, steps["proprio"][:-1])
    assert np.array_equal(
        np.float32([r["observation.state"] for r in mine]), state.astype(np.float32)
    )
    assert [r["next.success"] for r in mine] == [False] * (len(mine) - 1) + [True]
    assert [r["index"] for r in data] == list(range(len(data)))
    assert np.allclose([r["timestamp"] for r in mine], np.arange(len(mine)) / 20)
    assert (second["length"], third["dataset_from_index"]) == (
        len(mine),
        second["dataset_to_index"],
    )
    assert pq.ParquetFile(dataset / "data/chunk-000/file-000.parquet").num_row_groups == 3
    assert first["tasks"] == ["Press the start button on the microwave."]
    assert (second["capex/start"], second["capex/certified"], second["capex/stand_in"]) == (
        1,
        True,
        True,
    )


def test_pictures_are_those_of_the_saved_states(dataset, model_demos):
    row = rows(dataset)[7]
    (start, *_) = rows(dataset, "meta/episodes")
    env = worlds.make(f"kitchen:{TASK}")
    env.reset(
        Start(TASK, 0, 0, State(start["capex/state_header"], np.array(start["capex/start_state"])))
    )
    for before in rows(dataset)[:7]:
        env.apply(np.array(before["action"]))
    for camera, image in env.observe(CAMERAS, SMALL.size).items():
        assert np.array_equal(pixels(row[f"observation.images.{camera}"]), image)
    big = next(open_take(episode(model_demos, 0)).pictures(Pipeline((512, 512), ("left",))))["left"]
    record = read_json(episode(model_demos, 0) / "record.json")
    seen = np.asarray(
        Picture.open(pictures.find(episode(model_demos, 0) / "images", record["images"]["left"]))
    )
    assert np.array_equal(big, seen)  # what the model saw
    OF_THIS_PROCESS.close()
    env.close()


def test_every_certified_demonstration_replays_from_the_dataset_alone(dataset, driven):
    env = worlds.make(f"kitchen:{TASK}")
    for place in (dataset, driven):
        data = rows(place)
        for row in rows(place, "meta/episodes"):
            assert row["capex/certified"]
            state = State(row["capex/state_header"], np.array(row["capex/start_state"]))
            env.reset(Start(row["capex/task"], row["capex/start"], row["capex/seed"], state))
            assert not env.success()
            for frame in data[row["dataset_from_index"] : row["dataset_to_index"]]:
                env.apply(np.array(frame["action"]))
            assert env.success()
    env.close()


def test_statistics_are_those_of_all_frames_in_float64(dataset):
    stats, data = read_json(dataset / "meta/stats.json"), rows(dataset)
    actions = np.array([r["action"] for r in data])
    for name, value in {
        "min": actions.min(0),
        "max": actions.max(0),
        "mean": actions.mean(0),
        "std": actions.std(0),
    }.items():
        assert np.allclose(stats["action"][name], value, rtol=0, atol=1e-12)
    for name, q in QUANTILES.items():
        assert np.allclose(
            stats["action"][name], np.quantile(actions, q, axis=0), rtol=0, atol=1e-12
        )
    images = np.array([pixels(r["observation.images.wrist"]) for r in data]) / 255.0
    for name, value in {
        "min": images.min((0, 1, 2)),
        "mean": images.mean((0, 1, 2)),
        "std": images.std((0, 1, 2)),
    }.items():
        assert np.allclose(
            np.array(stats["observation.images.wrist"][name]).ravel(), value, rtol=0, atol=1e-9
        )
    for name, q in QUANTILES.items():
        assert np.allclose(
            np.array(stats["observation.images.wrist"][name]).ravel(),
            np.quantile(images, q, axis=(0, 1, 2)),
            atol=1e-9,
        )
    assert stats["observation.images.wrist"]["count"] == [len(data)]
    first = rows(dataset, "meta/episodes")[0]
    assert np.allclose(first["stats/action/mean"], actions[: first["length"]].mean(0))
    assert not [name for name in stats if name.startswith("capex.")]


def test_annotations_say_what_the_record_says(driven, model_demos):
    record = from_json(read_json(episode(model_demos, 0) / "record.json"))
    data = rows(driven)
    table = pq.read_table(driven / "meta/waypoints.parquet").to_pylist()
    requested = [
        (turn, number, row) for turn in record.turns for number, row in enumerate(turn.waypoints)
    ]
    assert len(table) == len(requested)
    commands = 0
    for line, (turn, number, row) in zip(table, requested, strict=True):
        assert (line["decision"], line["waypoint"], line["label"], line["report"]) == (
            turn.decision,
            number,
            row.label,
            row.report,
        )
        assert (line["stated"], line["calibrated"]) == (row.waypoint.confidence, row.calibrated)
        frames = [
            r for r in data if (r["capex.decision"], r["capex.waypoint"]) == (turn.decision, number)
        ]
        assert len(frames) == row.steps
        if frames:
            assert (line["from_frame"], line["to_frame"]) == (
                frames[0]["frame_index"],
                frames[-1]["frame_index"] + 1,
            )
            assert {r["capex.label"] for r in frames} == {-1 if row.label is None else row.label}
            assert {r["capex.phase"] for r in frames} == {commands}
            stated = np.float32(
                np.nan if row.waypoint.confidence is None else row.waypoint.confidence
            )
            assert np.array_equal(
                np.float32([r["capex.stated"] for r in frames]),
                np.full(len(frames), stated),
                equal_nan=True,
            )
        told = [t.gripper for t in row.waypoint.targets.values() if t.gripper != "keep"]
        ran = row.status not in ("not executed", "deferred", "contact", "timeout")
        commands += len(told) if ran else 0
    assert {line["status"] for line in table} >= {
        "reached",
        "deferred",
        "finger contact",
        "contact",
        "base",
        "terminal",
    }
    assert commands >= 2
    (row,) = rows(driven, "meta/episodes")
    assert (row["capex/arm"], row["capex/model"], row["capex/decisions"]) == (
        "capex",
        "script",
        len(record.turns),
    )
    assert 0 < row["capex/confidence"] < 1


def test_failures_are_a_dataset_of_their_own(driven, model_demos):
    failed = driven.with_name("driven-failures")
    (row,) = rows(failed, "meta/episodes")
    assert (row["capex/start"], row["capex/success"], row["capex/certified"], row["capex/end"]) == (
        1,
        False,
        False,
        "decisions",
    )
    data = rows(failed)
    assert not any(r["next.success"] for r in data)
    assert data[-1]["next.done"]
    assert {r["capex.label"] for r in data} == {1}  # the hops were reached all the same
    assert len(rows(driven, "meta/episodes")) == 1


def test_depth_is_in_millimetres_beside_the_frames(driven, model_demos):
    deep = rows(driven, "depth")
    assert [r["index"] for r in deep] == [r["index"] for r in rows(driven)]
    env, steps = worlds.make(f"kitchen:{TASK}"), read_steps(episode(model_demos, 0))
    env.reset(Start(TASK, 0))
    env.load_state(State(str(steps["header"]), steps["states"][5]))
    for camera in CAMERAS:
        depth_m = env.depth(camera, SMALL.size).depth_m
        seen = np.where(np.isfinite(depth_m), depth_m, 0.0)
        assert np.abs(pixels(deep[5][f"depth.{camera}"]) / 1000.0 - seen).max() <= 0.00051
    env.close()


def test_cameras_in_the_metadata_project_as_the_world_does(driven, model_demos):
    (row,) = rows(driven, "meta/episodes")
    held = json.loads(row["capex/cameras"])
    env, steps = worlds.make(f"kitchen:{TASK}"), read_steps(episode(model_demos, 0))
    env.reset(Start(TASK, 0))
    for tick in (0, len(steps["actions"]) - 1):
        env.load_state(State(str(steps["header"]), steps["states"][tick]))
        tip = env.robot_state().arms["arm"].T_base_tip
        point = tip.position_m + tip.rotation @ np.array([0.01, 0.02, 0.05])
        for camera in CAMERAS:
            pose = Pose(
                np.array(held[camera]["position_m"]), _matrix(held[camera]["quaternion_xyzw"])
            )
            if held[camera]["frame"] == "tip of arm":
                pose = Pose(
                    tip.position_m + tip.rotation @ pose.position_m, tip.rotation @ pose.rotation
                )
            found = CameraModel(np.array(held[camera]["intrinsics"]), pose).project(point)
            assert np.allclose(
                found, env.camera_model(camera, SMALL.size).project(point), atol=0.01
            )  # pixels; the torso gives way by micrometres
    env.close()


def _matrix(q: list[float]) -> np.ndarray:
    x, y, z, w = q
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def test_video_holds_the_same_pictures_at_the_same_times(expert_demos, dataset, tmp_path):
    export_run(
        expert_demos,
        tmp_path / "video",
        pipeline=Pipeline(SMALL.size, ("left", "wrist"), video=True),
        filters=Filters(max=2),
    )
    episodes = rows(tmp_path / "video", "meta/episodes")
    data = rows(dataset)[: episodes[-1]["dataset_to_index"]]
    for camera in ("left", "wrist"):
        key = f"observation.images.{camera}"
        with av.open(str(tmp_path / f"video/videos/{key}/chunk-000/file-000.mp4")) as container:
            frames = [
                (float(f.time), f.to_ndarray(format="rgb24")) for f in container.decode(video=0)
            ]
        assert len(frames) == len(data)
        assert np.allclose([t for t, _ in frames], np.arange(len(data)) / 20, atol=1e-4)
        error = np.array(
            [
                image - pixels(row[key]).astype(float)
                for (_, image), row in zip(frames, data, strict=True)
            ]
        )
        assert (
            10 * np.log10(255**2 / (error**2).mean()) > 30
        )  # decibels; colours are halved in size
    assert len(episodes) == 2
    for row in episodes:
        assert row[f"videos/{key}/from_timestamp"] == row["dataset_from_index"] / 20
    assert not [
        name for name in rows(tmp_path / "video")[0] if name.startswith("observation.images")
    ]
    with refuses(ErrorCode.BAD_SETTING, "even width and height"):
        export_run(expert_demos, tmp_path / "odd", pipeline=Pipeline((63, 48), video=True))


@pytest.mark.parametrize("use_video", [False, True])
def test_the_files_do_not_depend_on_the_number_of_processes(expert_demos, tmp_path, use_video):
    one, two = tmp_path / "1" / "set", tmp_path / "2" / "set"
    for parallel, out in ((1, one), (2, two)):
        export_run(expert_demos, out, pipeline=replace(QUICK, video=use_video), parallel=parallel)
    names = sorted(p.relative_to(one) for p in one.rglob("*") if p.is_file())
    assert names == sorted(p.relative_to(two) for p in two.rglob("*") if p.is_file())
    for name in names:
        assert (one / name).read_bytes() == (two / name).read_bytes(), name


def test_the_card_says_what_it_is(dataset):
    card = (dataset / "README.md").read_text()
    for words in (
        "license: cc-by-4.0",
        "- LeRobot",
        "3 demonstrations",
        "3 of them certified",
        "a stand-in for a human demonstrator",
        "![Press the start button on the microwave.](pictures/kitchen-TurnOnMicrowave.png)",
        "capex export runs/expert",
        "| kitchen:TurnOnMicrowave |",
        "Cost: no model was paid",
        "3 certified by re-execution",
        "every state bit for bit, and success",
        "arm `arm`: the gripper opens 8 cm",
        "| left | exterior |",
        "| tip of arm |",
    ):
        assert words in card, words
    assert Picture.open(dataset / "pictures/kitchen-TurnOnMicrowave.png").width > 1000


def test_an_uncertified_success_is_not_exported_unless_asked_for(expert_demos, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(expert_demos, run)
    (episode(run, 0) / "certificate.json").unlink()
    record = read_json(episode(run, 1) / "record.json")
    (episode(run, 1) / "record.json").write_text(json.dumps(record | {"cost_usd": 0.5}))
    exported = export_run(run, tmp_path / "one", pipeline=QUICK)
    assert {(r.start, r.reason) for r in exported.left_out} == {
        (0, "not certified yet; run capex certify"),
        (1, "changed since it was certified; run capex certify"),
    }
    assert [r["capex/start"] for r in rows(tmp_path / "one", "meta/episodes")] == [2]
    (episode(run, 2) / "certificate.json").unlink()
    with refuses(
        ErrorCode.NO_DATA, r"nothing to export from .*2 x not certified yet; run capex certify"
    ):
        export_run(run, tmp_path / "none", pipeline=QUICK)
    export_run(run, tmp_path / "all", pipeline=QUICK, filters=Filters(uncertified=True))
    assert [r["capex/certified"] for r in rows(tmp_path / "all", "meta/episodes")] == [False] * 3
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("filters", "taken", "reason"),
    [
        (Filters(max=1), [0], "beyond --max 1"),
        (Filters(max_steps=1), [], "longer than 1 steps"),
        (Filters(min_steps=10_000), [], "shorter than 10000 steps"),
        (Filters(max_cost_usd=1.0), [], "cost unknown"),
        (Filters(min_confidence=0.5), [], "no confidence was stated"),
        (Filters(tasks=(TASK,), arms=("expert",)), [0, 1, 2], ""),
    ],
)
def test_filters(expert_demos, filters, taken, reason):
    from capex.dataset.selection import find_attempts, select

    chosen = select("x", find_attempts(expert_demos), filters)
    assert [a.summary.start for a in chosen.attempts] == taken
    assert {r.reason for r in chosen.left_out} == ({reason} if reason else set())


def test_filters_by_confidence_and_unknown_names(model_demos, expert_demos):
    from capex.dataset.selection import find_attempts, require_known_names, select

    attempts = find_attempts(next(model_demos.glob("chains/*")))  # a chain's folder will do
    for limit, taken in ((0.3, [0]), (0.99, [])):
        assert [
            a.summary.start for a in select("x", attempts, Filters(min_confidence=limit)).attempts
        ] == taken
    assert select("x", attempts, Filters()).left_out[0].reason == "failed (decisions)"
    with refuses(
        ErrorCode.UNKNOWN_NAME,
        "--tasks: there is no task 'CloseFridge' among the attempts; valid: TurnOnMicrowave",
    ):
        require_known_names(attempts, Filters(tasks=("CloseFridge",)))
    with refuses(ErrorCode.BAD_SETTING, "--max is 0"):
        Filters(max=0)
    with refuses(ErrorCode.BAD_SETTING, "--min-confidence is 7; it must lie in 0 to 1"):
        Filters(min_confidence=7)


def test_pairs_are_the_same_starts_in_both(expert_demos, model_demos, tmp_path):
    exported = export_run(
        [model_demos, expert_demos], tmp_path / "pair", paired=True, pipeline=QUICK
    )
    assert [(w.path.name, w.demonstrations) for w in exported.datasets] == [
        ("scripted", 1),
        ("expert", 1),
    ]
    left, right = tmp_path / "pair/scripted", tmp_path / "pair/expert"
    for column in ("capex/start", "capex/seed", "capex/task", "capex/start_state", "capex/cameras"):
        assert [r[column] for r in rows(left, "meta/episodes")] == [
            r[column] for r in rows(right, "meta/episodes")
        ]
    assert np.array_equal(
        *(pixels(rows(place)[0]["observation.images.wrist"]) for place in (left, right))
    )  # one start, one first picture
    table = list(csv.DictReader((tmp_path / "pair/left_out.csv").open()))
    assert {(r["dataset"], r["start"], r["reason"]) for r in table} == {
        ("scripted", "1", "failed (decisions)"),
        ("expert", "1", "no partner in scripted: failed (decisions)"),
        ("expert", "2", "no partner in scripted: never attempted"),
    }
    assert "Paired with `expert`" in (left / "README.md").read_text()
    assert (
        read_json(left / "meta/info.json")["features"]
        == read_json(right / "meta/info.json")["features"]
    )
    with refuses(ErrorCode.BAD_SETTING, "--paired takes two runs; 1 given"):
        export_run(expert_demos, tmp_path / "no", paired=True)
    same = export_run(
        [expert_demos, expert_demos],
        tmp_path / "same",
        paired=True,
        filters=Filters(max=1),
        pipeline=QUICK,
    )
    assert [w.path.name for w in same.datasets] == ["expert-1", "expert-2"]


def test_arms_name_those_of_both_runs_where_one_of_them_has_several(
    expert_demos, model_demos, tmp_path
):
    several = tmp_path / "several"
    shutil.copytree(model_demos, several)
    (chain,) = expert_demos.glob("chains/*")
    other = several / "chains" / chain.name.replace("expert", "base")
    shutil.copytree(chain, other)
    for path in other.glob("episodes/*/record.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"arm": "base"}))

    def export(name, *arms, runs=(several, expert_demos)):
        filters = Filters(uncertified=True, arms=arms)
        return export_run(runs, tmp_path / name, paired=True, filters=filters, pipeline=QUICK)

    pair = export("pair", "capex", "expert")
    assert [(w.path.name, w.demonstrations) for w in pair.datasets] == [
        ("several", 1),
        ("expert", 1),
    ]
    for number, order in enumerate((("base", "capex"), ("capex", "base"))):
        # Each run has both: the first is named for the first run.
        pair = export(f"both{number}", *order, runs=[several, several])
        assert [w.path.name for w in pair.datasets] == ["several-1", "several-2"]
        arms = [{r["capex/arm"] for r in rows(w.path, "meta/episodes")} for w in pair.datasets]
        assert arms == [{order[0]}, {order[1]}]
    pair = export("turned", "expert", "capex", runs=[several, expert_demos])
    assert [w.path.name for w in pair.datasets] == ["several", "expert"]
    with refuses(
        ErrorCode.CONFLICTING_SETTINGS, r"arms: base, capex\); .* an arm of each run with --arms"
    ):
        export("none")
    with refuses(ErrorCode.NO_DATA, r"expert has no attempt by the arms .* arms are expert"):
        export("one", "capex")
    with refuses(ErrorCode.UNKNOWN_NAME, r"no arm 'humen' .* valid: base, capex, expert"):
        export("wrong", "capex", "humen")


def test_several_runs_become_one_dataset_without_exact_duplicates(
    expert_demos, model_demos, tmp_path
):
    again = shutil.copytree(expert_demos, tmp_path / "again")
    exported = export_run([expert_demos, model_demos, again], tmp_path / "all", pipeline=QUICK)
    episodes, data = rows(tmp_path / "all", "meta/episodes"), rows(tmp_path / "all")
    # Start 0 was demonstrated by two methods: both are kept, in the order of the runs.
    assert [(r["capex/start"], r["capex/arm"]) for r in episodes] == [
        (0, "expert"),
        (1, "expert"),
        (2, "expert"),
        (0, "capex"),
    ]
    assert [r["episode_index"] for r in episodes] == [0, 1, 2, 3]
    assert episodes[-1]["dataset_to_index"] == len(data)
    actions = np.array([r["action"] for r in data])
    stats = read_json(tmp_path / "all/meta/stats.json")["action"]
    assert np.allclose(stats["mean"], actions.mean(0), rtol=0, atol=1e-12)
    assert np.allclose(stats["q99"], np.quantile(actions, 0.99, axis=0), rtol=0, atol=1e-12)
    twins = [r for r in exported.left_out if r.run == "again"]
    chain = f"kitchen--{TASK}--expert"
    same = f"duplicate, the same motion to the bit as in {expert_demos.name}/chains/{chain}"
    assert [(r.start, r.reason) for r in twins] == [(0, same), (1, same), (2, same)]
    table = list(csv.DictReader((tmp_path / "all/left_out.csv").open()))
    assert {r["run"] for r in table} == {"again", model_demos.name}
    assert check_dataset(tmp_path / "all", expected=4).ok


def _export(run: str, out: str) -> None:
    export_run(Path(run), Path(out), pipeline=QUICK, parallel=2)


def test_a_killed_export_leaves_nothing_that_looks_finished(expert_demos, tmp_path):
    context = multiprocessing.get_context("spawn")
    out = tmp_path / "killed"
    process = context.Process(target=_export, args=(str(expert_demos), str(out)))
    process.start()
    while not list(tmp_path.rglob("data/*/*.parquet")):  # the first episode has been joined
        assert process.is_alive()
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert not out.exists()
    (leftover,) = tmp_path.iterdir()
    assert leftover.name.startswith(".writing-")
    assert not list(leftover.rglob("info.json"))
    export_run(expert_demos, out, pipeline=QUICK, filters=Filters(max=1))
    assert [p.name for p in tmp_path.iterdir()] == ["killed"]


def test_an_export_that_fails_leaves_nothing(expert_demos, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(expert_demos, run)
    broken = episode(run, 1) / "steps.npz"
    steps = read_steps(episode(run, 1))
    np.savez_compressed(broken, **steps | {"header": np.array("another world")})
    with refuses(ErrorCode.STATE_MISMATCH, r"0001 could not be exported: .*another world"):
        export_run(run, tmp_path / "out", pipeline=QUICK, filters=Filters(uncertified=True))
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("format", ["lerobot", "hdf5"])
def test_a_damaged_episode_is_left_out_and_named(expert_demos, tmp_path, format):
    run = tmp_path / "run"
    shutil.copytree(expert_demos, run)
    broken = episode(run, 0) / "steps.npz"
    content = bytearray(broken.read_bytes())
    content[len(content) // 2] ^= 0xFF  # found only by whoever reads the arrays
    broken.write_bytes(content)
    (episode(run, 2) / "record.json").write_text("{}")
    exported = export_run(
        run, tmp_path / "out", format=format, pipeline=QUICK, filters=Filters(uncertified=True)
    )
    assert [w.demonstrations for w in exported.datasets] == [1]
    assert [(row.start, row.reason.partition(":")[0]) for row in exported.left_out] == [
        (0, "steps.npz is damaged"),
        (2, "record.json is damaged"),
    ]
    assert "steps.npz is damaged" in (tmp_path / "out" / "left_out.csv").read_text()


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (
            {"pipeline": Pipeline((64, 64), ("rear",))},
            ErrorCode.UNKNOWN_NAME,
            "there is no camera 'rear'; valid: ",
        ),
        (
            {"pipeline": Pipeline((0, 64))},
            ErrorCode.BAD_SETTING,
            "width and height must lie between 1 and",
        ),
        (
            {"pipeline": Pipeline((-4, 4), video=True)},
            ErrorCode.BAD_SETTING,
            "--size is -4 4; width and height must",
        ),
        (
            {"pipeline": Pipeline(video=True, crf=99)},
            ErrorCode.BAD_SETTING,
            "--crf is 99; it must lie between 0 and 51",
        ),
        (
            {"format": "hdf5", "pipeline": Pipeline(video=True)},
            ErrorCode.NOT_APPLICABLE,
            "--video is for --format lerobot",
        ),
        (
            {"format": "zarr"},
            ErrorCode.UNKNOWN_NAME,
            "there is no format 'zarr'; valid: lerobot, lerobot-v2.1, lerobot-v3.1, hdf5",
        ),
        ({"parallel": 0}, ErrorCode.BAD_SETTING, "--parallel is 0"),
    ],
)
def test_a_mistake_gets_a_sentence_and_no_dataset(expert_demos, tmp_path, options, code, sentence):
    with refuses(code, sentence):
        export_run(expert_demos, tmp_path / "x", **options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("nowhere", "--out", "x"), "nowhere is not a run directory"),
        (("RUN", "--out", "taken"), "taken exists already; choose another --out"),
    ],
)
def test_a_users_mistake_gets_a_sentence_on_the_command_line(
    expert_demos, tmp_path, words, sentence
):
    (tmp_path / "taken").mkdir()
    given = [str(expert_demos) if word == "RUN" else word for word in words]
    out = subprocess.run(
        [sys.executable, "-m", "capex.cli", "export", *given],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert out.returncode == 2
    assert sentence in " ".join(out.stderr.split())
    assert "Traceback" not in out.stderr + out.stdout
    assert [p.name for p in tmp_path.iterdir()] == ["taken"]


def test_the_command_writes_and_says_where(model_demos, tmp_path):
    words = [
        str(model_demos),
        "--out",
        "set",
        "--size",
        "32",
        "32",
        "--cameras",
        "wrist",
        "--max",
        "5",
    ]
    out = subprocess.run(
        [sys.executable, "-m", "capex.cli", "export", *words],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    said = " ".join(out.stdout.split())
    assert "failed (decisions)" in said
    assert "set: 1 episodes," in said
    assert f"capex export {model_demos} --out set" in (tmp_path / "set/README.md").read_text()
    assert [k for k in read_json(tmp_path / "set/meta/info.json")["features"] if "images" in k] == [
        "observation.images.wrist"
    ]
