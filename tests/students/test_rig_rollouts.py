"""Students on a rig, here the simulated room: rollouts are arranged, guarded, recorded and judged as a campaign's attempts are."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Picture

import student_data
from capex import rigs, worlds
from capex.errors import ErrorCode
from capex.operators.arrangements import read_match
from capex.operators.scripted import NAME
from capex.report.data import load
from capex.report.sections.students import students_table
from capex.report.sources import group
from capex.report.students import cells
from capex.rigs.env import ACTION_NAMES, TIP_NAMES
from capex.run import load_run
from capex.run.frames import RecordedFrames
from capex.run.steps import read_steps
from capex.students.attended import roll_out
from capex.students.data import Demonstration, write_pack
from capex.students.evaluate import evaluate
from capex.students.study import run_study, trials
from capex.students.study_plan import load_study
from capex.students.tables import chain_summary
from capex.students.train import train_together
from capex.worlds import Start
from capex.worlds.robots import latest_images
from refusals import refuses

FILES = Path(rigs.__file__).parent / "files"
SIZE = (64, 36)
HORIZON = 6
SMALL = "\n".join(f"{k} = {v}" for k, v in student_data.SMALL["act"].items())
STUDY = """
tasks = ["{task}"]
starts = "500"
seeds = [0]
budgets = [1]
device = "cpu"
horizon = {horizon}
untrained = true
[sources]
collected = "capex"
human = "expert"
[policies.act]
{small}
"""


def demonstrations(folder: Path, task: str, source: str) -> None:
    """Two judged demonstrations of a rig's: 8 numbers of state, 7 of action, two cameras."""
    rng = np.random.default_rng(0)
    length, world, name = 10, *worlds.split_name(task)
    rows = [
        Demonstration(k * length, (k + 1) * length, "lift", world, name, k, 0, source, True, False, NAME)
        for k in range(2)
    ]  # fmt: skip
    images = iter(rng.integers(0, 255, (2 * length, 2, SIZE[1], SIZE[0], 3), dtype=np.uint8))
    states = rng.normal(0.3, 0.05, (2 * length, 8)).astype(np.float32)
    actions = rng.normal(0, 0.004, (2 * length, 7)).astype(np.float32)
    head = {"cameras": ["front", "wrist"], "fps": 20}
    head |= {"state_names": [*TIP_NAMES, "opening"], "action_names": list(ACTION_NAMES)}
    write_pack(folder, head, images, states, actions, rows)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Two sources on a rig that is stopped in its first attempt; the policies are trained."""
    folder = tmp_path_factory.mktemp("rig")
    shutil.copytree(FILES / "room", folder / "room")
    text = (FILES / "room.toml").read_text().replace("[640, 360]", str(list(SIZE)))
    text = text.replace('frames = "video"', 'frames = "images"')
    fault = 'faults = [{ kind = "e-stop", at_tick = 3 }]'
    (folder / "desk.toml").write_text(text.replace("\nfps = 20", f"\n{fault}\nfps = 20"))
    task = f"rig:{folder}/desk.toml:LiftBlock"
    for source in ("capex", "expert"):
        demonstrations(folder / source, task, source)
    (folder / "study.toml").write_text(STUDY.format(task=task, horizon=HORIZON, small=SMALL))
    plan = load_study(folder / "study.toml")
    for trial in trials(plan, folder / "out"):
        train_together([trial.job])
    return plan


def test_a_study_on_a_rig_ends_with_judged_rollouts(study):
    """Both sources and the untrained network act on one arrangement; the attempt that an e-stop ended is kept and runs again."""
    out = study.folder / "out"
    said = [line for line in run_study(study, out) if line.startswith("evaluated")]
    arms = ["act-collected-s0-1", "act-untrained", "act-human-s0-1"]
    solved = f"on {study.tasks[0]}: 0 of 1 starts solved"
    assert said == [f"evaluated {arm} {solved}" for arm in arms]
    run = load_run(out / "rollouts")
    (stopped,) = run.invalid
    assert "user stop" in stopped.error
    assert len(run.episodes) == 3
    for episode in run.episodes:
        assert (episode.record.end, episode.record.success, episode.success) == (
            "horizon",
            None,
            False,
        )
        assert episode.verdict.by == NAME
        assert read_match(episode.path).arrangement == "0500"
        steps, frames = read_steps(episode.path), RecordedFrames(episode.path)
        assert steps["actions"].shape == (HORIZON, 7)
        assert steps["proprio"].shape == (HORIZON + 1, 8)
        assert (frames.states, set(frames.sizes.values())) == (HORIZON + 1, {SIZE})
        assert episode.record.extensions["rig"]["lateness"]["ticks"] == HORIZON
    assert [row[1] for row in chain_summary(run.path)] == ["0/1"] * 3
    data = load([run.path])
    table = students_table(cells(data), group(data)[0]).markdown()
    for words in ("0.00* (0/1)", "untrained", "stand-in"):
        assert words in table
    before = {p: p.stat().st_mtime_ns for p in run.path.rglob("record.json")}
    list(run_study(study, out))  # nothing is left to run
    assert before == {p: p.stat().st_mtime_ns for p in run.path.rglob("record.json")}


def test_who_acts_at_every_tick_does_not_wait_for_the_arm(study):
    env = worlds.make(study.tasks[0])
    env.reset(Start("LiftBlock", 0))
    first = latest_images(env, ["front", "wrist"], SIZE)
    env.apply(np.array([0.01, 0, 0, 0, 0, 0, -1.0]))
    at = env.open().clock.now_s()
    moving = latest_images(env, ["front", "wrist"], SIZE)
    assert env.open().clock.now_s() == at
    assert not np.array_equal(first["wrist"], moving["wrist"])
    env.observe(["front"])
    assert env.open().clock.now_s() > at
    env.close()


def test_what_a_rig_cannot_do_is_refused_before_it_moves(study, tmp_path):
    (job, *_), *_ = (trial.rollouts for trial in trials(study, study.folder / "out"))
    job = replace(job, out=tmp_path / "run")
    with refuses(ErrorCode.PERSON_NEEDED, "judged by a person, who stands beside each rollout"):
        next(evaluate(job))
    with refuses(ErrorCode.PERSON_NEEDED, "there is nobody to ask"):
        roll_out([job], operator="person")
    with refuses(ErrorCode.NOT_APPLICABLE, r"--parallel 2: .* is one robot"):
        roll_out([replace(job, parallel=2)])
    with refuses(ErrorCode.CONFLICTING_SETTINGS, "two policies are called act-collected-s0-1"):
        roll_out([job, job])
    (tmp_path / "pictures").mkdir()
    Picture.new("RGB", SIZE).save(tmp_path / "pictures" / "0007.png")
    with refuses(ErrorCode.UNKNOWN_START, "it has no start 500"):
        roll_out([job], arrangements=tmp_path / "pictures")
    assert not job.out.exists()
