"""The run directory: whole episodes or none, resumable, and never mixed with another run."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import runs
from capex.errors import DamagedFile, ErrorCode
from capex.run import live
from capex.run.files import TEMPORARY, read_json, whole_folder
from capex.run.steps import read_steps
from capex.run.store import Chain, find_run, open_run
from capex.run.writing import InvalidNote, Timing
from refusals import refuses

STEPS = {"actions": np.arange(24.0).reshape(2, 12)}


def test_an_episode_is_read_back_as_written(tmp_path):
    run = open_run(tmp_path / "run", {"command": "expert"})
    chain = run.chain("kitchen", "CloseFridge", "expert")
    path = chain.commit(7, {"success": True, "text": "naïve"}, Timing(episode_s=1.5), STEPS)
    assert path == tmp_path / "run/chains/kitchen--CloseFridge--expert/episodes/0007"
    assert sorted(p.name for p in path.iterdir()) == ["record.json", "steps.npz", "timing.json"]
    assert read_json(path / "record.json") == {"success": True, "text": "naïve"}
    assert np.array_equal(read_steps(path)["actions"], STEPS["actions"])
    assert chain.finished() == [7]
    assert [c.path for c in find_run(tmp_path / "run").chains()] == [chain.path]
    with refuses(ErrorCode.ALREADY_EXISTS):
        chain.commit(7, {}, Timing(), STEPS)


def test_a_record_that_cannot_be_written_leaves_no_episode(tmp_path):
    chain = open_run(tmp_path / "run", {}).chain("kitchen", "CloseFridge", "expert")
    with pytest.raises(ValueError, match="JSON"):
        chain.commit(0, {"cost_usd": float("nan")}, Timing(), STEPS)
    assert chain.finished() == []
    chain.sweep()
    assert list(chain.episodes_path.iterdir()) == []


def test_a_chain_has_one_owner_at_a_time(tmp_path):
    chain = Chain(tmp_path / "chain")
    with chain.owned(), refuses(ErrorCode.IN_USE), chain.owned():
        pass
    with chain.owned():
        pass


def test_invalid_attempts_are_kept_apart_and_counted(tmp_path):
    chain = open_run(tmp_path / "run", {}).chain("kitchen", "CloseFridge", "expert")
    names = [
        chain.begin(3).commit_invalid(InvalidNote(start=3, error="x"), Timing(), STEPS).name
        for _ in range(2)
    ]
    assert names == ["0003-1", "0003-2"]
    assert len(chain.invalid(3)) == 2
    assert chain.finished() == []


def test_a_run_continues_with_the_same_settings_only(tmp_path):
    open_run(tmp_path / "run", {"tau": 0.5})
    open_run(tmp_path / "run", {"tau": 0.5})
    with refuses(ErrorCode.OTHER_SETTINGS, "tau differ"):
        open_run(tmp_path / "run", {"tau": 0.6})
    (tmp_path / "other").mkdir()
    (tmp_path / "other/thesis.tex").write_text("years of work")
    with refuses(ErrorCode.ALREADY_EXISTS):
        open_run(tmp_path / "other", {})
    with refuses(ErrorCode.WRONG_CONTENT, r"it has no manifest\.json"):
        find_run(tmp_path / "other")


def test_the_manifest_says_what_bits_depend_on(tmp_path):
    manifest = open_run(tmp_path / "run", {"a": 1}, "egl").manifest
    assert manifest.settings == {"a": 1}
    assert manifest.fingerprint["gl"] == "egl"
    assert {"mujoco", "numpy", "blas", "cpu_features"} <= set(manifest.fingerprint)
    assert manifest.versions["capex"]


def _write_for_ever(path: str) -> None:
    chain = Chain(__import__("pathlib").Path(path))
    for index in range(100_000):
        chain.commit(
            index, {"index": index, "filler": "x" * 20_000}, Timing(), {"a": np.full(20_000, index)}
        )


def test_a_process_killed_at_any_moment_leaves_only_whole_episodes(tmp_path):
    context = multiprocessing.get_context("spawn")
    chain = Chain(tmp_path / "chain")
    for attempt in range(4):
        process = context.Process(target=_write_for_ever, args=(str(tmp_path / "chain"),))
        process.start()
        while not chain.finished():
            time.sleep(0.002)
        time.sleep(0.013 * (attempt + 1))
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        finished = chain.finished()
        assert finished
        for index in finished:
            assert json.loads((chain.episode(index) / "record.json").read_text())["index"] == index
            assert np.all(read_steps(chain.episode(index))["a"] == index)
        chain.sweep()
        assert {p.name for p in chain.episodes_path.iterdir()} == {f"{i:04d}" for i in finished}
        for index in finished:
            for file in chain.episode(index).iterdir():
                file.unlink()
            chain.episode(index).rmdir()


def test_what_a_killed_process_left_beside_the_episodes_is_swept(tmp_path):
    """Of a process that is gone; what a living one is writing stays."""
    run = open_run(tmp_path / "run", {"model": "pilot"})
    chain = run.chain("kitchen", "CloseFridge", "capex")
    gone, lives = (
        subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({s})"]) for s in (0, 600)
    )
    gone.wait()
    folders = (run.path, chain.path, chain.path / "unfinished")
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
        for process in (gone.pid, lives.pid, os.getpid()):
            (folder / f".writing-{process}-live.json").write_text("{")
    run.sweep()
    chain.sweep()
    names = [f".writing-{process}-live.json" for process in (lives.pid, os.getpid())]
    for folder in folders:
        assert sorted(p.name for p in folder.glob(".writing-*")) == sorted(names)
    chain.sweep(everything=True)  # nobody else writes into the chain
    lives.kill()
    lives.wait()
    assert [p.name for p in chain.path.rglob(".writing-*")] == [names[1]] * 2


def test_folders_that_are_only_named_like_half_written_ones_are_left_alone(tmp_path):
    """Of a process that is gone they are removed; anything else is not ours."""
    gone = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True
    )
    dead = f".writing-{int(gone.stdout)}-set"
    foreign = [".writing-foo-set", ".writing--set", f".writing-{10**30}-x-set", ".writing-²-set"]
    for name in (dead, f".writing-{10**30}-set", *foreign):
        (tmp_path / name).mkdir()
    with whole_folder(tmp_path / "set") as folder:
        (folder / "a").touch()
    assert {p.name for p in tmp_path.iterdir()} == {"set", *foreign}
    chain = Chain(tmp_path / "chain")
    for name in (".writing-foo-0007", dead.replace("set", "0007")):
        (chain.episodes_path / name).mkdir(parents=True)
    chain.sweep()
    assert [p.name for p in chain.episodes_path.iterdir()] == [".writing-foo-0007"]


@pytest.mark.parametrize("place", ["requests", "requests/words/chain", "arranging", "origins"])
def test_a_link_above_the_attempts_of_a_run_is_not_followed(tmp_path, place):
    run = runs.campaign(tmp_path / "run", runs.TASKS[:1], ["base"], 1, plans=1)
    (tmp_path / "outside").mkdir()
    (run.path / place).parent.mkdir(parents=True, exist_ok=True)
    (run.path / place).symlink_to(tmp_path / "outside")
    for look in (lambda: run.manifest, run.chains):
        with pytest.raises(DamagedFile, match="is a link"):
            look()


@pytest.mark.parametrize("inner", ["", "live", "exchanges.jsonl"])
def test_an_attempt_under_way_that_leads_out_is_none(tmp_path, inner):
    run = runs.campaign(tmp_path / "run", runs.TASKS[:1], ["base"], 1, plans=1)
    (chain,), outside = run.chains(), tmp_path / "outside"
    outside.mkdir()
    (outside / "exchanges.jsonl").write_text("{}\n")
    (outside / "events.jsonl").write_text('{"event": "secret"}\n')
    folder = chain.episodes_path / f"{TEMPORARY}0-0007"
    (folder / inner).parent.mkdir(exist_ok=True)
    (folder / inner).symlink_to(outside / inner if inner.endswith("l") else outside)
    before = sorted((p, p.stat().st_mtime_ns) for p in outside.iterdir())
    assert live.under_way(chain, 7) is None
    assert chain.under_way() == []
    chain.sweep(everything=True)
    assert sorted((p, p.stat().st_mtime_ns) for p in outside.iterdir()) == before
