"""From a run to a judged student in one command, and frames straight from a run into a pack."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import student_data
from capex.cli.export import Export
from capex.cli.learn import Learn
from capex.errors import CapexError, ErrorCode, UnknownName
from capex.students import data
from capex.students.learn import LearnJob, as_toml, export, plan_learning
from capex.students.study import trials
from capex.students.study_plan import load_study
from refusals import refuses

TASK = "kitchen:TurnOnMicrowave"
SIZE = (40, 32)
SET = tuple(f"{k}={v}" for k, v in student_data.SMALL["act"].items())


@pytest.fixture(scope="module")
def learned(expert_demos, tmp_path_factory):
    """A laptop-sized setting of everything: one small ACT, two steps, one short rollout."""
    out = tmp_path_factory.mktemp("learned") / "out"
    small = {"policies": ("act",), "steps": (2,), "seeds": (0,), "starts": "1000:1001"}
    command = Learn(
        (expert_demos,), out, TASK, size=SIZE, horizon=3, parallel=1, device="cpu", set=SET, **small
    )
    assert command.run() == 0
    return command


def test_learn_goes_from_a_run_to_a_table_and_continues(learned, capsys):
    study = learned.out / "study"
    name = learned.runs[0].name
    table = (study / "table.md").read_text()
    assert f"| Task (demonstrations) | {name} | untrained |" in table
    assert f"| {TASK} (3) | 0.00 (0/1) | 0.00 (0/1) |" in table
    assert (study / "report" / "report.html").is_file()
    records = {p: p.read_bytes() for p in (study / "rollouts").rglob("*.json")}
    assert len([p for p in records if p.name == "record.json"]) == 2
    assert learned.run() == 0
    assert "3 demonstrations, there already" in capsys.readouterr().out
    assert {p: p.read_bytes() for p in records} == records
    again = load_study(learned.out / "study.toml")  # which `capex study` may go on with
    (trial,) = trials(again, study)
    assert (trial.job.steps, trial.job.settings.dim, trial.job.only) == (2, 32, (0, 1, 2))


def test_a_pack_is_what_exporting_and_unpacking_gives(learned, expert_demos, tmp_path):
    """At a size that is not square."""
    unpacked = data.open_pack(learned.out / "datasets" / expert_demos.name)
    assert Export((expert_demos,), tmp_path / "pack", "pack", size=SIZE).run() == 0
    packed = data.open_pack(tmp_path / "pack")
    assert packed.size == SIZE
    for what in ("cameras", "state_names", "action_names", "fps", "episodes"):
        assert getattr(packed, what) == getattr(unpacked, what), what
    for what in ("states", "actions"):
        assert np.array_equal(getattr(packed, what), getattr(unpacked, what)), what
    assert np.array_equal(packed.images[0], unpacked.images[0])


def test_what_cannot_be_learned_from_is_refused(learned, expert_demos, synthetic, tmp_path):
    job = LearnJob((expert_demos,), tmp_path / "out")
    assert plan_learning(job).task == TASK  # the only one of the run
    for changes, error, sentence in (
        ({"task": "kitchen:CloseFridge"}, UnknownName, "CloseFridge"),
        ({"policies": ("cat",)}, UnknownName, "cat"),
        ({"changes": {"act.leg": "1"}}, UnknownName, "leg"),
        ({"changes": {"cat.dim": "1"}}, UnknownName, "cat"),
        ({"arms": ("base",)}, UnknownName, "base"),
        ({"starts": "x"}, CapexError, "starts"),
        ({"starts": "1000000000"}, CapexError, "--starts: start 1000000000 does not exist in kit"),
        ({"horizon": 451}, CapexError, "--horizon is 451; kitchen:TurnOnMicrowave has 450 steps"),
        ({"runs": (expert_demos, expert_demos)}, CapexError, "two runs are called"),
        ({"runs": (synthetic,)}, CapexError, "several tasks"),
        (
            {"runs": (synthetic,), "task": "kitchen:CloseFridge"},
            CapexError,
            "choose one with --arm",
        ),
    ):
        with pytest.raises(error, match=sentence):
            plan_learning(LearnJob(**{**vars(job), **changes}))
    assert not job.out.exists()
    # a run that has fewer demonstrations than were exported
    fewer = tmp_path / expert_demos.name
    shutil.copytree(expert_demos, fewer)
    shutil.rmtree(next(fewer.glob("chains/*/episodes/0002")))
    plan = plan_learning(LearnJob((fewer,), learned.out, policies=("act",)))
    with refuses(ErrorCode.OTHER_SETTINGS, "holds 3 demonstrations and the run now gives 2"):
        list(export(plan, lambda name, done, total: None))


def test_fine_tuning_is_a_third_policy_and_the_study_is_plain_toml(expert_demos, tmp_path):
    job = LearnJob(
        (expert_demos,), tmp_path, init=tmp_path / "pre", changes={"diffusion.lr": "1e-3"}
    )
    plan = plan_learning(job)
    assert list(plan.study.policies) == ["act", "diffusion", "diffusion-tuned"]
    assert plan.study.policies["diffusion"].settings.lr == 1e-3
    assert plan.study.policies["diffusion-tuned"].tuned
    assert plan.study.seeds == (0, 1, 2)
    assert plan.study.budgets == (20_000,)
    (tmp_path / "study.toml").write_text(as_toml(plan.table))
    assert load_study(tmp_path / "study.toml") == plan.study
