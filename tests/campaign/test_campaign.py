"""Campaigns: the same records however they are run, resumed or disturbed."""

from __future__ import annotations

import json
import random
import shutil
import tempfile
import time
from pathlib import Path

import pytest

import capex
from capex.campaign import events as ev
from capex.campaign.chain import ChainPlan
from capex.errors import ErrorCode
from capex.run.files import read_json, write_json
from capex.run.manifest import SettingChange
from capex.run.spend import Spend
from capex.run.store import Chain, open_run
from conftest import MEMORY
from lab.campaigns import cli, collect, contents, flags, kinds
from refusals import refuses


@pytest.fixture(scope="module")
def undisturbed():
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="capex-test-") as folder:
        collect(Path(folder) / "run")
        yield Path(folder) / "run"


# -- the same records ------------------------------------------------------------------------------------------------------------------


def test_records_do_not_depend_on_workers_engine_or_order(undisturbed, shm):
    for name, options in {"one": {"slots": 1}, "processes": {"parallel": 2}}.items():
        collect(shm / name, **options)
        assert contents(shm / name) == contents(undisturbed), name
    assert len(contents(undisturbed)) > 4 * 4 * 4


def test_rounds_share_a_snapshot_whatever_the_engine_and_however_the_run_grows(shm):
    collect(shm / "one", round_size=3, starts="0:7", slots=1)
    collect(shm / "two", round_size=3, starts="0:7", parallel=2)
    collect(shm / "grown", round_size=3, starts="0:4")
    collect(shm / "grown", round_size=3, starts="0:7")
    assert contents(shm / "one") == contents(shm / "two") == contents(shm / "grown")
    records = [
        read_json(shm / f"one/chains/lab.world--high--capex/episodes/{n:04d}/record.json")
        for n in range(7)
    ]
    assert [r["position"] for r in records] == list(range(7))
    seen = [r["labels_before"] for r in records]
    assert seen[0] == seen[1] == seen[2] == 0 < seen[3] == seen[4] == seen[5] < seen[6]


def test_a_place_is_known_from_what_the_run_holds(shm, undisturbed):
    held = {p.name: p for p in (undisturbed / "chains/lab.world--low--capex/episodes").iterdir()}
    chain = Chain(shm / "chain")
    chain.episodes_path.mkdir(parents=True)
    for name in ("0001", "0002"):
        shutil.copytree(held[name], chain.episodes_path / name)
    plan = ChainPlan(chain, range(6), round_size=4)
    assert [(p.start, p.position) for p in plan.ready()] == [(0, 0), (3, 3)]
    assert plan.memory.attempts == 0
    plan = ChainPlan(chain, [9, 1], round_size=1)
    assert [(p.start, p.position) for p in plan.ready()] == [(9, 0)]
    assert plan.remaining() == 1
    plan = ChainPlan(chain, [1, 2], round_size=1)
    assert plan.done
    assert plan.memory.attempts == 2


def test_until_successes_goes_on_over_further_starts(shm):
    run, events = collect(
        shm / "run", "lab.world:high", arm="base", starts="0:2", until_successes=3
    )
    (chain,) = run.chains
    assert chain.successes == 3
    assert [e.index for e in chain.episodes] == list(range(len(chain.episodes)))
    assert len(chain.episodes) > 3
    assert chain.episodes[-1].record.success
    again, events = collect(
        shm / "run", "lab.world:high", arm="base", starts="0:2", until_successes=3
    )
    assert "EpisodeBegan" not in kinds(events)
    more, _ = collect(
        shm / "run",
        "lab.world:high",
        arm="base",
        starts="0:2",
        until_successes=4,
        max_starts=len(chain.episodes) + 1,
    )
    assert len(more.episodes) == len(again.episodes) + 1


def test_a_fast_chain_does_not_leave_its_arm_behind(undisturbed, shm):
    _, events = collect(shm / "run", slots=1)
    order = [(e.summary.position, e.chain) for e in events if isinstance(e, ev.EpisodeEnded)]
    assert [position for position, _ in order] == sorted(position for position, _ in order)
    assert len({chain for _, chain in order[:4]}) == 4


# -- resume ----------------------------------------------------------------------------------------------------------------------------


def test_finished_episodes_are_never_run_again(undisturbed, shm):
    out = shm / "run"
    collect(out, starts="0:2")
    spent = Spend(out / "spend.jsonl").account().attempts
    _, events = collect(out, starts="0:2")
    assert kinds(events) == ["CampaignBegan", "CampaignEnded"]
    assert Spend(out / "spend.jsonl").account().attempts == spent
    collect(out)
    assert contents(out) == contents(undisturbed)


def test_changed_settings_are_refused_with_a_list_and_more_arms_are_not(shm):
    out = shm / "run"
    collect(out, arm="capex", starts="0:1", tau=0.4)
    with refuses(
        ErrorCode.OTHER_SETTINGS,
        r"--effort: 'medium' before, 'low' now; --tau of arm capex: 0.4 before, 0.7 now",
    ):
        collect(out, arm="capex", starts="0:1", tau=0.7, effort="low")
    run, _ = collect(out, starts="0:2", tau=0.4)
    assert sorted(run.manifest.recorded.arms) == ["base", "capex"]
    assert run.manifest.plan.starts == (0, 1)
    assert len(run.episodes) == 8


def test_a_run_that_goes_on_elsewhere_says_so(shm):
    collect(shm / "run", starts="0:1")
    manifest = read_json(shm / "run/manifest.json")
    manifest["fingerprint"]["numpy"] = "1.0"
    write_json(shm / "run/manifest.json", manifest)
    _, events = collect(shm / "run", starts="0:2")
    assert "the run began elsewhere (numpy differ)" in events[0].warning


def test_a_run_of_the_expert_is_left_alone(shm):
    open_run(shm / "run", {"command": "expert"})
    with refuses(ErrorCode.WRONG_CONTENT, "a run of another kind"):
        collect(shm / "run")


def test_a_branch_begins_with_the_runs_episodes_and_is_found_again(shm, undisturbed):
    out = shm / "run"
    collect(out, starts="0:2")
    before = contents(out)
    branched, _ = collect(out, starts="0:3", tau=0.9, branch=True)
    assert branched.path == shm / "run-branch1"
    assert branched.manifest.branched_from.changed == (SettingChange("arms.capex.tau", 0.5, 0.9),)
    assert contents(out) == before
    assert {k: v for k, v in contents(branched.path).items() if k in before} == before
    third = branched.chain("lab.world", "high", "capex").episodes[2]
    assert third.record.labels_before == read_json(third.path / "record.json")["labels_before"] > 0
    again, _ = collect(out, starts="0:4", tau=0.9, branch=True)
    assert again.path == branched.path
    assert len(again.episodes) == 16
    assert sorted(p.name for p in shm.iterdir()) == ["run", "run-branch1"]
    with refuses(ErrorCode.OTHER_SETTINGS, "another seed"):
        collect(out, seed=1, branch=True)
    with refuses(ErrorCode.NOT_APPLICABLE, "nothing to branch"):
        collect(out, branch=True)


def test_killed_at_random_moments_it_ends_with_the_same_records_and_pays_nothing_twice(
    undisturbed, shm
):
    out, rng, kills, slots = shm / "run", random.Random(3), 3, 4
    model = "lab.model:delay=0.04"
    reference = shm / "reference"
    collect(reference, model=model)
    for _ in range(kills):
        done = len(list(out.glob("chains/*/episodes/0*")))
        process = cli(*flags(out, model=model, parallel=2, slots=slots))
        while len(list(out.glob("chains/*/episodes/0*"))) <= done and process.poll() is None:
            time.sleep(0.01)
        time.sleep(rng.random() * 0.4)
        process.kill()
        process.communicate()
        for record in out.glob("chains/*/episodes/0*/record.json"):
            json.loads(record.read_text())
    collect(out, model=model, parallel=2, slots=slots)
    assert contents(out) == contents(reference)
    account = Spend(out / "spend.jsonl").account()
    recorded = sum(e.record.ledger.attempts for e in capex.load_run(out).episodes)
    assert recorded <= account.attempts <= recorded + kills * slots
    assert account.unsettled <= kills * slots
