"""Rollouts of a policy in the kitchen: whom they depend on, what they leave, what is refused."""

from __future__ import annotations

import json
import multiprocessing
import shutil

import numpy as np
import pytest

import student_data
from capex import report, worlds
from capex.dataset import film
from capex.dataset.frames import open_take
from capex.errors import ErrorCode
from capex.method.context import NO_CONTEXT
from capex.method.memory import Memory
from capex.run import read_record
from capex.run.files import read_json
from capex.run.steps import read_steps
from capex.students import checkpoint
from capex.students import evaluate as evaluate_module
from capex.students.evaluate import Rollouts, evaluate, identify, student
from capex.students.rollouts import Rollout, look
from capex.students.settings import make_settings
from capex.students.tables import chain_summary
from capex.students.train import TrainingJob, train
from capex.worlds import Start
from capex.worlds.cache import OF_THIS_PROCESS
from refusals import refuses

TASK = "kitchen:TurnOnMicrowave"
HORIZON = 10
EPISODES = "chains/kitchen--TurnOnMicrowave--diffusion-1/episodes"


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("policy")
    pack = student_data.write(folder / "pack", task=TASK)
    train(
        TrainingJob(
            (pack,),
            make_settings("diffusion", student_data.SMALL["diffusion"]),
            1,
            folder / "diffusion",
        )
    )
    return folder / "diffusion"


@pytest.fixture(scope="module")
def rolled(policy, tmp_path_factory):
    """Two starts, side by side in two processes."""
    run = tmp_path_factory.mktemp("rollouts") / "run"
    done = list(
        evaluate(
            Rollouts(policy, TASK, (1000, 1001), run, parallel=2, device="cpu", horizon=HORIZON)
        )
    )
    assert sorted((r.start, r.steps) for r in done) == [(1000, HORIZON), (1001, HORIZON)]
    return run


def test_a_rollout_depends_on_nothing_but_its_start(policy, rolled, tmp_path):
    """Alone in one process, after another start, it is the same to the last bit; what is there is not run again."""
    for starts in ((1001,), (1000, 1001)):
        list(
            evaluate(
                Rollouts(
                    policy,
                    TASK,
                    starts,
                    tmp_path / "run",
                    parallel=1,
                    device="cpu",
                    horizon=HORIZON,
                )
            )
        )
    for index in ("1000", "1001"):
        one, two = (run / EPISODES / index for run in (rolled, tmp_path / "run"))
        assert (one / "record.json").read_bytes() == (two / "record.json").read_bytes()
        assert np.array_equal(read_steps(one)["actions"], read_steps(two)["actions"])
    again = Rollouts(policy, TASK, (1000, 1001), tmp_path / "run", device="cpu", horizon=HORIZON)
    assert list(evaluate(again)) == []


def test_a_free_slot_takes_the_next_start(policy, rolled, tmp_path, monkeypatch):
    """One world for all starts leaves what a world for each leaves."""
    monkeypatch.setattr(evaluate_module, "SLOTS_OF_A_PROCESS", 1)
    asked = {"parallel": 1, "device": "cpu", "horizon": HORIZON}
    job = Rollouts(policy, TASK, (1001, 1000), tmp_path / "run", **asked)
    heard = []
    done = list(evaluate(job, lambda left, steps: heard.append((left, steps))))
    assert [r.start for r in done] == [1001, 1000]
    # Asked at the start and after eight steps of each episode, one at a time.
    assert heard == [(1, 0), (1, 8)] * 2
    for index in ("1000", "1001"):
        one, two = (run / EPISODES / index for run in (rolled, tmp_path / "run"))
        assert (one / "record.json").read_bytes() == (two / "record.json").read_bytes()
        assert np.array_equal(read_steps(one)["states"], read_steps(two)["states"])


def test_what_is_remembered_from_before_the_last_question_stays(tmp_path):
    """Asked at every step, a policy that sees two of them acts side by side as alone."""
    pack = student_data.write(tmp_path / "pack", task=TASK)
    settings = make_settings("diffusion", student_data.SMALL["diffusion"] | {"execute": 1})
    train(TrainingJob((pack,), settings, 1, tmp_path / "policy"))
    asked = {"parallel": 1, "device": "cpu", "horizon": 4}
    job = Rollouts(tmp_path / "policy", TASK, (1000, 1001, 1002), tmp_path / "run", **asked)
    assert len(list(evaluate(job))) == 3
    env = worlds.make(TASK)
    for index in job.starts:
        alone = student(job).attempt(env, Start(env.spec.task, index), Memory(), NO_CONTEXT)
        beside = read_steps(tmp_path / "run" / EPISODES / str(index))
        assert np.array_equal(alone.steps["actions"], beside["actions"])
    env.close()


def test_a_policy_gets_in_a_rollout_the_numbers_that_an_export_holds(policy, model_demos, tmp_path):
    """Also where a measured quaternion changes its sign."""
    recorded = next(model_demos.glob("chains/*/episodes/0000"))
    steps = read_steps(recorded)
    raw = steps["proprio"][:-1, 3:7]
    assert ((raw[1:] * raw[:-1]).sum(axis=1) < 0).any()
    env, (_, plan) = worlds.make(TASK), identify(Rollouts(policy, TASK, (1000,), tmp_path))
    rollout, seen = Rollout(env, plan, Start(env.spec.task, 0)), []
    for number, action in enumerate(steps["actions"]):
        if number % 3 == 0:  # it looks now and then
            seen.append(rollout.proprio)
        rollout.apply(action)
    env.close()
    take = open_take(recorded)
    assert np.array_equal(seen, take.state[::3])
    OF_THIS_PROCESS.close()


def test_a_simulation_that_dies_is_a_sentence(policy, tmp_path):
    """Whether it is noticed when it is asked or when it should answer."""
    asked = {"parallel": 2, "device": "cpu", "horizon": 100}
    job = Rollouts(policy, TASK, (1000, 1001), tmp_path / "run", **asked)

    others = set(multiprocessing.active_children())

    def kill(left, steps):
        if steps:
            for child in set(multiprocessing.active_children()) - others:
                child.kill()

    with refuses(ErrorCode.WORKER_DIED, r"a simulation was lost: its process died \(SIGKILL"):
        list(evaluate(job, kill))
    assert set(multiprocessing.active_children()) <= others


def test_rollouts_are_shared_out_evenly(monkeypatch):
    found = {}
    for cores in (1, 2, 4, 16, 26, 64):
        monkeypatch.setattr(evaluate_module.os, "cpu_count", lambda cores=cores: cores)
        found[cores] = evaluate_module.share_out(50)
    assert found == {1: (8, 1), 2: (16, 2), 4: (32, 4), 16: (50, 17), 26: (50, 26), 64: (50, 50)}
    assert evaluate_module.share_out(3, 8) == (3, 3)


def test_a_student_is_a_demonstrator_like_any_other(policy, rolled, tmp_path):
    """One episode by itself leaves the record that an evaluation leaves."""
    job = Rollouts(policy, TASK, (1001,), tmp_path / "run", device="cpu", horizon=HORIZON)
    env = worlds.make(TASK)
    episode = student(job).attempt(env, Start(env.spec.task, 1001), Memory(), NO_CONTEXT)
    env.close()
    evaluated = rolled / EPISODES / "1001"
    assert episode.record == read_record(evaluated)
    assert np.array_equal(episode.steps["actions"], read_steps(evaluated)["actions"])


def test_a_cut_off_evaluation_says_what_it_lacks(policy, rolled, tmp_path):
    shutil.copytree(rolled, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / EPISODES / "1001")
    report.write([tmp_path / "run"], tmp_path / "report", strips=0)
    assert (
        "diffusion-1 at TurnOnMicrowave: 1 of 2 starts"
        in read_json(tmp_path / "report" / "report.json")["notices"][0]
    )


def test_the_records_are_episodes_that_report_and_film_read(rolled, tmp_path):
    record = read_json(rolled / EPISODES / "1000" / "record.json")
    assert (record["end"], record["success"], record["horizon"]) == ("horizon", False, HORIZON)
    assert record["extensions"]["student"]["policy"] == "diffusion"
    assert record["extensions"]["student"]["initialisation"] == "random"
    assert record["stand_in"]
    assert chain_summary(rolled) == [
        ("kitchen--TurnOnMicrowave--diffusion-1", "0/2", "0.00", "0.00 .. 0.66", "-")
    ]
    page = report.write([rolled], tmp_path / "report", strips=1).read_text()
    assert "Untrained" not in page
    table = (tmp_path / "report" / "tables" / "students.csv").read_text().splitlines()
    assert table[1].startswith("kitchen:TurnOnMicrowave,diffusion,random,1,test,5,1,0.0,,0,2,0.0")
    assert (tmp_path / "report" / "figures" / "students.png").stat().st_size > 5000
    assert (
        film.write_strip(rolled / EPISODES / "1000", tmp_path / "strip.png").stat().st_size > 5000
    )


@pytest.mark.parametrize(
    ("changes", "code", "sentence"),
    [
        ({"starts": (3, 4, 9)}, ErrorCode.CONFLICTING_SETTINGS, "2 of the starts were trained on"),
        ({"horizon": 451}, ErrorCode.BAD_SETTING, "has 450 steps"),
        ({"parallel": -1}, ErrorCode.BAD_SETTING, "--parallel is -1"),
        ({"starts": (10**9,)}, ErrorCode.UNKNOWN_START, "start 1000000000 does not exist"),
        (
            {"name": "kitchen:TurnOnMicrowave,CloseFridge"},
            ErrorCode.BAD_SETTING,
            "names several tasks",
        ),
        ({"name": "kitchen:Fly"}, ErrorCode.UNKNOWN_NAME, "Fly"),
        ({"arm": "../up"}, ErrorCode.BAD_SETTING, "letters and digits are right"),
        ({"seed": 1}, ErrorCode.OTHER_SETTINGS, "holds rollouts with other evaluation_seed"),
        (
            {"untrained": True, "arm": "diffusion-1"},
            ErrorCode.OTHER_SETTINGS,
            "holds rollouts with other .*untrained, weights",
        ),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_written(
    policy, rolled, changes, code, sentence
):
    before = sorted(p.name for p in (rolled / "chains").iterdir())
    asked = {
        "checkpoint": policy,
        "name": TASK,
        "starts": (1000,),
        "out": rolled,
        "device": "cpu",
        "horizon": HORIZON,
    }
    with refuses(code, sentence):
        list(evaluate(Rollouts(**asked | changes)))
    assert sorted(p.name for p in (rolled / "chains").iterdir()) == before


def test_a_policy_with_another_order_of_actions_is_refused(policy, tmp_path):
    place = checkpoint.find(policy)
    told = read_json(place / "policy.json")
    told["action_names"] = [*told["action_names"][1:], told["action_names"][0]]
    (tmp_path / "policy.json").write_text(json.dumps(told))
    (tmp_path / "model.safetensors").write_bytes((place / "model.safetensors").read_bytes())
    with refuses(ErrorCode.MISMATCH, "the orders must agree"):
        list(evaluate(Rollouts(tmp_path, TASK, (1000,), tmp_path / "run", device="cpu")))
    assert not (tmp_path / "run").exists()


class Dark:
    """A world of somebody's that shows what another one does, in the dark."""

    def __init__(self, env):
        self._env = env

    def __getattr__(self, name):
        return getattr(self._env, name)

    def observe(self, cameras=None, size=None):
        return {name: 0 * image for name, image in self._env.observe(cameras, size).items()}


def test_worlds_are_shown_together_unless_one_shows_itself():
    envs = [worlds.make("kitchen:TurnOnMicrowave") for _ in range(2)]
    for start, env in enumerate(envs):
        env.reset(worlds.Start("TurnOnMicrowave", start))
    cameras, size = ("left", "wrist"), (32, 24)
    bright, both = look(envs, cameras, size), look([Dark(envs[0]), envs[1]], cameras, size)
    for camera in cameras:
        assert bright[0][camera].any()
        assert not both[0][camera].any()
        np.testing.assert_array_equal(bright[1][camera], both[1][camera])
    for env in envs:
        env.close()
