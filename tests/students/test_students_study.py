"""Studies: the file, what is trained on what, resuming, and the table that comes out."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest

import runs
import student_data
from capex.errors import CapexError, ErrorCode, UnknownName
from capex.report.data import load
from capex.report.sections.section import SectionInput
from capex.report.sections.students import students_section, students_table
from capex.report.sources import group
from capex.report.students import blocks, cells, curves, data_curves
from capex.run.stats import fisher
from capex.run.store import open_run
from capex.run.summary import HEARD
from capex.students import language
from capex.students.evaluate import evaluate
from capex.students.settings import make_settings
from capex.students.study import groups, run_study, trials
from capex.students.study_plan import load_study
from capex.students.tables import study_tables
from capex.students.train import TrainingJob, train
from refusals import refuses

TASK = "kitchen:TurnOnMicrowave"
SMALL = "\n".join(f"{k} = {v}" for k, v in student_data.SMALL["act"].items())
FILE = f"""
tasks = ["{TASK}"]
starts = "1000:1002"
seeds = [0]
budgets = [2]
device = "cpu"
parallel = 1
horizon = 3
[sources]
pilot = "{{task}}-pilot"
expert = "{{task}}-expert"
[policies.act]
{SMALL}
"""


@pytest.fixture
def folder(tmp_path):
    """Two sources: the starts 0 to 4, and 0 to 2."""
    student_data.write(tmp_path / "TurnOnMicrowave-pilot", task=TASK, source="capex")
    student_data.write(tmp_path / "TurnOnMicrowave-expert", episodes=3, task=TASK, source="expert")
    (tmp_path / "study.toml").write_text(FILE)
    return tmp_path


def test_a_study_runs_what_is_missing_and_writes_its_table(folder):
    (folder / "study.toml").write_text(FILE.replace('pilot = "{task}-pilot"\n', ""))
    study, out = load_study(folder / "study.toml"), folder / "out"
    said = list(run_study(study, out))
    solved = "evaluated act-expert-s0-2 on kitchen:TurnOnMicrowave: 0 of {} starts solved"
    assert said == ["trained   kitchen--TurnOnMicrowave--expert--act--s0--2", solved.format(2)]
    gone = (
        out
        / "rollouts"
        / "chains"
        / "kitchen--TurnOnMicrowave--act-expert-s0-2"
        / "episodes"
        / "1001"
    )
    before = (gone / "record.json").read_bytes()
    shutil.rmtree(gone)
    assert list(run_study(study, out))[1:] == [solved.format(1)]
    assert (gone / "record.json").read_bytes() == before
    table, page = study_tables(out)
    assert "| kitchen:TurnOnMicrowave (3) | 0.00 (0/2) |" in table.read_text()
    assert page.is_file()
    (folder / "study.toml").write_text(FILE)
    with refuses(ErrorCode.OTHER_SETTINGS, "holds a study with other sources"):
        list(run_study(load_study(folder / "study.toml"), out))


def test_sources_are_matched_unless_told_otherwise_and_trainings_run_side_by_side(folder):
    text = f"{FILE}[policies.other]\npolicy = 'act'\n{SMALL}"

    def planned(together, matched):
        asked = f"parallel = 1\ntogether = {together}\nmatched = {matched}"
        (folder / "study.toml").write_text(text.replace("parallel = 1", asked))
        return list(groups(load_study(folder / "study.toml"), folder / "out"))

    (first, second) = planned("true", "true")
    assert [t.job.labels["policy"] for t in (*first, *second)] == ["act", "act", "other", "other"]
    assert {t.job.only for t in first} == {(0, 1, 2)}
    assert [len(group) for group in planned("3", "true")] == [3, 1]
    alone = planned("false", "false")
    assert [len(group) for group in alone] == [1, 1, 1, 1]
    assert [group[0].job.only for group in alone[:2]] == [(0, 1, 2, 3, 4), (0, 1, 2)]
    few = 'few = { path = "{task}-pilot", first = 2 }'
    (folder / "study.toml").write_text(FILE.replace('expert = "{task}-expert"', few))
    assert [t.job.only for t in trials(load_study(folder / "study.toml"), folder / "out")] == [
        (0, 1, 2, 3, 4),
        (0, 1),
    ]


def test_every_combination_is_planned_once_and_constant_rates_are_trained_once(folder):
    text = FILE.replace("seeds = [0]", "seeds = [0, 1]\nuntrained = true").replace(
        "budgets = [2]", "budgets = [4, 2]"
    )
    (folder / "study.toml").write_text(text + "[policies.slow]\npolicy = 'diffusion'\n")
    found = list(trials(load_study(folder / "study.toml"), folder / "out"))
    act = [t for t in found if t.job.labels["policy"] == "act"]
    slow = [t for t in found if t.job.labels["policy"] == "slow"]
    assert len(act) == 2 * 2  # seeds and sources; both budgets on the way
    assert len(slow) == 2 * 2 * 2  # half a cosine ends at its budget
    assert [int(r.checkpoint.name) for r in act[0].rollouts] == [2, 4, 4]
    assert act[0].rollouts[-1].arm == "act-untrained"
    assert {t.job.only for t in found} == {(0, 1, 2)}  # the starts that both sources have
    names = [job.arm for t in found for job in t.rollouts]
    assert len(names) == len(set(names)) == 2 * 2 * 2 * 2 + 2
    assert {job.starts for t in found for job in t.rollouts} == {(1000, 1001)}


def test_a_policy_may_begin_from_another_whose_success_is_a_floor(folder):
    """The paper's three columns from one file: fine-tuned, from scratch, ACT."""
    settings = make_settings("diffusion", student_data.SMALL["diffusion"])
    source = folder / "TurnOnMicrowave-expert"
    train(TrainingJob((source,), settings, 1, folder / "pre", device="cpu"))
    vectors = {"go to the square": np.ones(8, dtype=np.float32)}
    language.write(folder / "words.npz", vectors)
    small = "\n".join(f"{k} = {v}" for k, v in student_data.SMALL["diffusion"].items())
    tuned = "[policies.tuned]\npolicy = 'diffusion'\ninit = 'pre'\nbatch = 4\n"
    scratch = f"[policies.scratch]\npolicy = 'diffusion'\n{small}\ninstructions = 'words.npz'\n"
    text = FILE.replace('pilot = "{task}-pilot"\n', "").replace("seeds", "untrained = true\nseeds")
    (folder / "study.toml").write_text(text.replace("1000:1002", "1000:1001") + tuned + scratch)
    study = load_study(folder / "study.toml")
    jobs = {t.job.labels["policy"]: t for t in trials(study, folder / "out")}
    assert (jobs["tuned"].job.init, jobs["tuned"].job.keep) == (folder / "pre", (0, 2))
    assert jobs["scratch"].job.instructions == folder / "words.npz"
    assert [r.arm for r in jobs["tuned"].rollouts][1:] == ["tuned-untrained", "tuned-unadapted"]
    train(jobs["tuned"].job)
    for rollouts in jobs["tuned"].rollouts:
        if not rollouts.untrained:
            list(evaluate(rollouts))
    data = load([folder / "out" / "rollouts"])
    (block,) = blocks(cells(data))
    (line,) = block.lines
    assert {name: tally.n for name, tally in line.floors.items()} == {"unadapted": 1}
    text = students_table(cells(data), group(data)[0]).markdown()
    assert "| Task (demonstrations) | expert | unadapted |" in text
    assert "initialisation: fine-tuned from a policy of ours (1 steps)" in text


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('starts = "1000:1002"', "starts = 1000", "starts is 1000; it must be a text"),
        ("budgets = [2]", "budgets = [0]", "whole numbers above 0"),
        ("seeds = [0]", 'seeds = ["a"]', "a list of whole numbers"),
        ("horizon = 3", "horizont = 3", "horizont"),
        (f'tasks = ["{TASK}"]', "", "names no tasks"),
        (TASK, "kitchen:Fly", "Fly"),
        ("[policies.act]", "[policies.other]", "other"),
        ("dim = 32", "dim = 33", "multiple of heads"),
        ("pilot =", '"a/b" =', "letters and digits are right"),
        ("[sources]", "[sources", "is not TOML"),
        ("dim = 32", "dim = 32\ninit = 3", "policies.act.init is 3; it must be a text"),
        (
            '"{task}-pilot"',
            "{ path = 'a', frist = 2 }",
            r"sources is .* \{path = \"FOLDER\", first",
        ),
        (
            '"{task}-pilot"',
            "{ path = 'a', first = 0 }",
            r"sources is .* \{path = \"FOLDER\", first",
        ),
    ],
)
def test_a_slip_in_the_file_is_a_sentence(folder, old, new, sentence):
    assert old in FILE
    (folder / "study.toml").write_text(FILE.replace(old, new))
    with pytest.raises((CapexError, UnknownName), match=sentence):
        load_study(folder / "study.toml")


def test_datasets_that_cannot_be_matched_are_refused_before_anything_is_written(folder):
    (folder / "study.toml").write_text(FILE.replace("1000:1002", "2:5"))
    with refuses(
        ErrorCode.CONFLICTING_SETTINGS,
        r"1 of the rollouts' starts .* would be trained on \(first: 2\)",
    ):
        list(run_study(load_study(folder / "study.toml"), folder / "out"))
    (folder / "study.toml").write_text(FILE.replace("{task}-pilot", "nowhere"))
    with refuses(ErrorCode.WRONG_CONTENT, "is no dataset"):
        list(run_study(load_study(folder / "study.toml"), folder / "out"))
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    ("old", "new", "code", "sentence"),
    [
        (
            "1000:1002",
            "1000000000",
            ErrorCode.UNKNOWN_START,
            "^starts: start 1000000000 does not exist in kitchen:TurnOn",
        ),
        (
            "horizon = 3",
            "horizon = 451",
            ErrorCode.BAD_SETTING,
            "^horizon is 451; kitchen:TurnOnMicrowave has 450 steps",
        ),
    ],
)
def test_rollouts_that_no_world_has_are_refused_before_anything_is_trained(
    folder, old, new, code, sentence
):
    (folder / "study.toml").write_text(FILE.replace(old, new))
    with refuses(code, sentence):
        list(run_study(load_study(folder / "study.toml"), folder / "out"))
    assert not (folder / "out").exists()


def rolled(run, task, source, seed, solved, steps=20_000, heard=None, **student):
    """Ten rollouts of a made-up student."""
    arm = f"act-{source}-s{seed}-{steps}"
    known = {
        "policy": "act",
        "initialisation": "random",
        "steps": steps,
        "seed": seed,
        "episodes": 49,
        "labels": {"source": source},
        **student,
    }
    for k in range(10):
        made_up = runs.record(task, arm, 1000 + k, success=k < solved, model="student:act")
        extra = {"student": known, **({HEARD: heard} if heard else {})}
        runs.commit(run.chain("kitchen", task, arm), replace(made_up, extensions=extra))


def test_the_table_has_means_deviations_and_both_tests(tmp_path):
    run = open_run(tmp_path / "run", {"command": "evaluate"})
    for task, source, seed, solved in (
        ("CloseFridge", "pilot", 0, 6),
        ("CloseFridge", "pilot", 1, 4),
        ("CloseFridge", "expert", 0, 9),
        ("CloseFridge", "expert", 1, 9),
        ("TurnOnMicrowave", "pilot", 0, 2),
        ("TurnOnMicrowave", "expert", 0, 2),
    ):
        rolled(run, task, source, seed, solved)
    rolled(run, "CloseFridge", "pilot", 0, 8, steps=50_000, heard="mean of the known ones")
    rolled(run, "CloseFridge", "pilot", 0, 3, steps=0, untrained=True)
    data = load([tmp_path / "run"])
    found = cells(data)
    first, second = blocks(found)
    fridge, microwave = first.lines
    assert (fridge.scores["pilot"].mean, fridge.scores["pilot"].deviation) == (
        0.5,
        pytest.approx(0.1414, abs=1e-3),
    )
    assert fridge.p["expert"] == pytest.approx(fisher(10, 20, 18, 20))
    assert microwave.p["expert"] == pytest.approx(1.0)
    spread = 20 * 20 * 28 * 12 / (40**2 * 39) + 10 * 10 * 4 * 16 / (
        20**2 * 19
    )  # of the successes of one source, given their sum
    assert first.across["expert"].statistic == pytest.approx((10 - 14 + 2 - 2) ** 2 / spread)
    assert (second.budget, second.across) == (50_000, {})
    points = curves([first, second])["act"]["pilot"]
    assert [(p.amount, p.mean, p.tasks) for p in points] == [
        (20_000, 0.5, 1),
        (50_000, 0.8, 1),
    ]  # the fridge alone: the other task was not trained longer
    assert first.averages == {"pilot": pytest.approx(0.35), "expert": pytest.approx(0.55)}
    text = students_table(found, group(data)[0]).markdown()
    assert "| act, 20,000 steps, initialisation: random |" in text
    assert (
        "| kitchen:CloseFridge (49) | 0.50 ± 0.14 (10/20) | 0.90 ± 0.00* (18/20) | 0.30 (3/10) | 0.014 |"
        in text
    )
    assert "| Average over tasks | 0.35 | 0.55* |" in text
    assert "Cochran-Mantel-Haenszel" in text
    (section,) = students_section(SectionInput(data, group(data)[0]))
    assert section.text == []
    assert section.notes[0].startswith("10 of 10 rollouts of act had an instruction that it was")
    assert [figure.name for figure in section.figures] == ["students"]
    rolled(run, "CloseFridge", "expert-10", 0, 7, episodes=10, sources=["expert"])
    rolled(run, "CloseFridge", "expert-90", 0, 9, episodes=90, sources=["expert"])
    data = load([tmp_path / "run"])
    drawn = data_curves(cells(data))
    assert list(drawn) == ["act, 20,000 steps: kitchen:CloseFridge"]
    points = drawn["act, 20,000 steps: kitchen:CloseFridge"]["expert"]
    assert [(p.amount, p.mean) for p in points] == [(10, 0.7), (90, 0.9)]
    (section,) = students_section(SectionInput(data, group(data)[0]))
    assert [figure.name for figure in section.figures] == ["students", "students-data"]
    alone = open_run(tmp_path / "alone", {"command": "evaluate"})
    rolled(alone, "CloseFridge", "pilot", 0, 3, steps=0, untrained=True)
    data = load([tmp_path / "alone"])
    (section,) = students_section(SectionInput(data, group(data)[0]))
    assert section.text == ["Untrained act on kitchen:CloseFridge: 3 of 10 starts solved."]
    assert section.tables == []
