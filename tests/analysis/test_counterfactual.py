"""Plans executed whole from saved states: the committed part comes again to the bit, the deferred tail gets outcomes, and the work can be interrupted."""

from __future__ import annotations

import shutil
from copy import deepcopy

import numpy as np
import pytest

import capex
from capex import worlds
from capex.analysis.counterfactual import execute_episode, execute_run
from capex.analysis.counterfactual_file import COUNTERFACTUAL, read_counterfactual
from capex.analysis.counterfactual_numbers import WholePlans, deferrals, find, selections
from capex.analysis.thresholds import choose, sweep
from capex.campaign.settings import read_config, resolve
from capex.cli import parse
from capex.errors import ErrorCode
from capex.method.executor import Executor
from capex.method.record import record_waypoints
from capex.method.restoring import begin_again, executor_state_at_plans
from capex.report.data import load
from capex.report.sources import group
from capex.run.files import read_json, write_json
from capex.run.steps import read_steps
from capex.run.summary import NO_LABEL
from capex.worlds import Start, State
from lab.campaigns import collect, contents
from refusals import refuses

TAU = 0.75


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Ten episodes in the lab, whose horizon ends some; not to be changed."""
    path = tmp_path_factory.mktemp("counterfactual") / "run"
    collect(path, "lab.world:low,task13", arm="capex", tau=TAU, decisions=40, starts="0:5")
    return path


@pytest.fixture
def run(recorded, shm):
    return shutil.copytree(recorded, shm / "run")


@pytest.fixture(scope="module")
def grasp(tmp_path_factory):
    """An episode with a grasp in the kitchen, whose plans are cut often."""
    path = tmp_path_factory.mktemp("grasp") / "run"
    name = "kitchen:PickPlaceSinkToCounter"
    found = capex.collect(name, model="pilot", starts="0", tau=0.93, decisions=5, out=path)
    return found.episodes[0]


def test_only_the_committed_part_comes_again_to_the_bit(grasp):
    record, steps = grasp.record, grasp.steps()
    planned = [turn for turn in record.turns if turn.waypoints]
    begins, header = [int(k) for k in steps["plan_starts"]], str(steps["header"])
    states = [steps["states"][k] for k in (0, *begins)]
    assert any(t.committed < len(t.waypoints) for t in planned)
    env = worlds.make(f"{record.world}:{record.task}")
    begin_again(env, Start(record.task, record.start, record.seed), header)
    commands = executor_state_at_plans(env, planned, states, header)
    unaware = 0  # plans at which the fingers' opening alone does not tell their last commands
    assert any(c.last for c in commands)  # a gripper command before a later plan
    for turn, before, state, begin in zip(planned, commands, states[1:], begins, strict=True):
        env.load_state(State(header, state))
        unaware += Executor(env).commands.grip != before.grip
        executor = Executor(env, commands=deepcopy(before), steps_left=record.horizon - turn.step)
        rows = [row.waypoint for row in turn.waypoints]
        outcomes = executor.execute(rows[: turn.committed], rows[turn.committed :])
        again = record_waypoints(rows, outcomes)
        for name in ("status", "report", "label", "steps", "clamped_m", "tips", "base_moved"):
            assert [getattr(r, name) for r in again] == [getattr(r, name) for r in turn.waypoints]
        end = begin + sum(row.steps for row in turn.waypoints)
        assert env.save_state().vector.tobytes() == steps["states"][end].tobytes()
    assert unaware
    env.close()


def test_every_plan_is_executed_whole(grasp):
    whole = execute_episode(grasp.path)
    planned = [turn for turn in grasp.record.turns if turn.waypoints]
    assert whole.agreed == len(whole.plans) == len(planned)
    for plan, turn in zip(whole.plans, planned, strict=True):
        assert len(plan.waypoints) == len(turn.waypoints)
        stopped = [k for k, o in enumerate(plan.waypoints) if o.status == "not executed"]
        assert stopped == list(range(len(plan.waypoints) - len(stopped), len(plan.waypoints)))
        assert "deferred" not in {o.status for o in plan.waypoints}
    tails = [o for p in whole.plans for o in p.waypoints[p.committed :]]
    assert any(o.label is not None for o in tails)


def test_it_is_stored_beside_the_episode_and_continues(run):
    before = contents(run)
    assert all(r.counterfactual.agreed == len(r.counterfactual.plans) for r in execute_run(run))
    stored = {k: v for k, v in contents(run).items() if k not in before}
    assert {k: v for k, v in contents(run).items() if k in before} == before
    assert len(stored) == 10
    assert all(k.endswith(COUNTERFACTUAL) for k in stored)
    for name in list(stored)[::2]:
        (run / name).unlink()
    assert sorted(r.known for r in execute_run(run, parallel=2)) == [False] * 5 + [True] * 5
    assert {k: v for k, v in contents(run).items() if k not in before} == stored


def test_the_horizon_ends_a_record_and_no_counterfactual(run):
    results = {r.episode: r.counterfactual for r in execute_run(run)}
    ended = [e for e in capex.load_run(run).episodes if e.record.end == "horizon"]
    assert ended
    for episode in ended:
        plans = results[episode.path].plans
        assert "out of steps" not in {o.status for p in plans for o in p.waypoints}
        assert not any(p.difference for p in plans)


def test_a_touched_recording_is_void_and_then_named(run):
    execute_run(run)
    episode = next(e for e in capex.load_run(run).episodes if e.record.turns[-1].waypoints)
    record = read_json(episode.path / "record.json")
    record["turns"][-1]["waypoints"][0]["steps"] += 1
    write_json(episode.path / "record.json", record)
    assert read_counterfactual(episode.path) is None
    (again,) = (r for r in execute_run(run) if not r.known)
    (different,) = (p.difference for p in again.counterfactual.plans if p.difference)
    assert different.startswith("waypoint 1: steps was ")


def test_the_sweep_at_the_threshold_used_is_what_was_recorded(run, capsys):
    assert parse(["counterfactual", str(run)]).run() == 0
    assert "next: capex calibrate" in capsys.readouterr().out
    (source,), _ = group(load([run]))
    found = find(source)
    w = found.whole
    (at,) = sweep(w, [TAU])
    rows = [
        row for e in capex.load_run(run).episodes for t in e.record.turns for row in t.waypoints
    ]
    reached = sum(row.label == 1 for row in rows)
    cut_off = sum(row.status == "out of steps" for row in rows)  # goes on beyond the horizon
    assert reached <= at.reached <= reached + cut_off
    assert at.cut == sum(e.truncated for e in source.episodes) == deferrals(w).cut > 0
    everything, *_ = sweep(w, [0.0])
    assert everything.executed == w.ran.sum()
    assert everything.needless == everything.spared == everything.cut == 0
    for s in selections(found):
        assert s.n[1] > s.n[0]
        assert s.bias["brier"].value == pytest.approx(s.executed.brier - s.planned.brier)


def test_calibrate_writes_a_config_that_collect_takes(run, capsys):
    with refuses(ErrorCode.NO_DATA, "type capex counterfactual"):
        parse(["calibrate", str(run)]).run()
    execute_run(run)
    assert parse(["calibrate", str(run), "--tau", "auto"]).run() == 0
    assert "tau choice" in capsys.readouterr().out
    written = run / "counterfactual-tau.toml"
    settings = resolve((), {"out": run.parent / "next"}, read_config(written))
    (method,) = settings.methods
    assert method.name == "capex-tau"
    assert set(method.task_tau) == {"lab.world:low", "lab.world:task13"}
    assert (method.image_size, method.decisions) == (32, 40)
    assert settings.tasks == (("lab.world", "low"), ("lab.world", "task13"))


def test_a_task_has_its_own_threshold(shm):
    config = shm / "tau.toml"
    config.write_text('[arms.own]\ntask_tau = {"lab.world:low" = 1.0}\ntau = 0.0\n')
    options = {"arm": None, "config": config, "starts": "0:2"}
    found, _ = collect(shm / "run", "lab.world:low,high", **options)
    cut = {"low": 0, "high": 0}
    for episode in found.episodes:
        for turn in episode.record.turns:
            cut[episode.record.task] += turn.committed < len(turn.waypoints)
    assert cut["low"] > 0 == cut["high"]
    (source,), _ = group(load([shm / "run"]))
    assert {e.task: source.tau_of(e) for e in source.episodes} == {"low": 1.0, "high": 0.0}
    config.write_text('[arms.own]\ntask_tau = {"lab.world:low" = 2}\n')
    with refuses(ErrorCode.BAD_SETTING, r"task_tau: lab\.world:low is 2"):
        collect(shm / "other", "lab.world:low", **options)


def plans(episodes: int, misses_below: float) -> WholePlans:
    """Made-up plans of three waypoints with falling confidence; what lies below is missed."""
    p = np.tile([0.9, 0.7, 0.6], 2 * episodes)
    n = len(p)
    label = np.where(p < misses_below, 0, 1)
    return WholePlans(
        episode=np.arange(n) // 6,
        plan=np.arange(n) // 3,
        decision=np.arange(n) // 3 % 2 + 1,
        place=np.tile([1, 2, 3], n // 3),
        stated=p,
        calibrated=p,
        executed=np.where(p < 0.5, NO_LABEL, label),
        label=label,
        ran=np.ones(n, dtype=bool),
        committed=np.ones(n, dtype=bool),
        hit=np.zeros(n, dtype=bool),
        solved=np.zeros(n, dtype=bool),
        steps=np.full(n, 10),
    )


def test_a_threshold_is_changed_where_the_gain_is_sure():
    few, many, none = (
        choose(w, "w:t", 0.5) for w in (plans(3, 0.65), plans(8, 0.65), plans(8, 0.0))
    )
    assert (few.best, many.best, none.best) == (0.65, 0.65, 0.5)
    assert (few.sure, many.sure, none.sure) == (False, True, False)
    assert (few.chosen, many.chosen, none.chosen) == (0.5, 0.65, 0.5)
    assert many.gain == pytest.approx(1.0)  # one miss a plan less
    assert choose(plans(8, 0.65), "w:t", 0.5, miss_cost=0.0).chosen == 0.5


def test_what_holds_no_plans_is_refused(run):
    episode = capex.load_run(run).episodes[0].path
    steps = read_steps(episode)
    np.savez(episode / "steps.npz", **{**steps, "plan_starts": steps["plan_starts"][:-1]})
    problems = [r.problem for r in execute_run(run) if r.problem]
    assert len(problems) == 1
    assert "plans where the record has" in problems[0]
    manifest = read_json(run / "manifest.json")
    write_json(run / "manifest.json", manifest | {"settings": {"command": "expert"}})
    with refuses(ErrorCode.WRONG_CONTENT, "not collected with a model"):
        execute_run(run)
