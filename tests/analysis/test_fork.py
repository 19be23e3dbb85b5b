"""Forks: episodes that go on from a saved state see what their origin saw, and enter nothing by themselves."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path

import numpy as np
import pytest

import capex
import runs
from capex.analysis.fork_origin import fork_of
from capex.analysis.fork_outcomes import Parting, fork_rows
from capex.analysis.fork_section import forks_section
from capex.campaign.replay import replay
from capex.campaign.status import read_status
from capex.cli import parse
from capex.dataset.selection import Filters, find_attempts, select
from capex.errors import DamagedFile, ErrorCode
from capex.report.compare import comparisons
from capex.report.data import load
from capex.report.sections.section import SectionInput
from capex.report.sources import group
from capex.run.manifest import Manifest, write_manifest
from capex.run.store import Run
from conftest import MEMORY
from lab.campaigns import collect, contents
from lab.operator import LabOperator
from refusals import refuses

CHAIN = "lab.world--high--capex"
STOVE = "kitchen--TurnOffStove--capex"


@pytest.fixture(scope="module")
def origin():
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="capex-test-") as folder:
        collect(Path(folder) / "first", "lab.world:high", arm="capex")
        yield Path(folder) / "first"


def fork(run: Path, states, out: Path, **options):
    return capex.fork(run, states, out=out, **{"yes": True, **options})


def same_steps(a, b) -> bool:
    one, two = a.steps(), b.steps()
    return all(np.array_equal(one[name], two[name]) for name in one)


def test_a_fork_that_changes_nothing_repeats_its_origin(shm, origin):
    episode = capex.load_run(origin).episodes[3]
    states = [f"{CHAIN}/3@{n + 1}" for n in range(len(episode.record.turns))]
    assert len(states) > 2
    for k, forked in enumerate(fork(origin, states, shm / "forks").episodes):
        assert forked.record.turns == episode.record.turns
        assert same_steps(forked, episode)
        assert forked.record.labels_before == episode.record.labels_before > 0
        assert forked.record.images == episode.record.images
        own = sum(t.calls for t in episode.record.turns[k:])
        assert (forked.record.requests, fork_of(forked.record).decision) == (own, k + 1)
        first = next(forked.exchanges()).request
        asked = [line.request for line in episode.exchanges() if line.number == 1]
        assert first["messages"] == asked[episode.record.requests - own]["messages"]


def test_forks_of_the_kitchen_part_where_their_noise_differs(shm):
    model = "pilot:0,blur=10"
    first = capex.collect(
        "kitchen:TurnOffStove", arm="capex", model=model, starts="1", out=shm / "first"
    )
    (episode,) = first.episodes
    run = fork(shm / "first", f"{STOVE}/1@2", shm / "forks", times=2)
    again, other = run.episodes
    assert again.record.turns == episode.record.turns
    assert same_steps(again, episode)
    assert other.record.turns[:1] == episode.record.turns[:1]
    assert other.record.turns[1] != episode.record.turns[1]
    data = load([shm / "forks"])
    ((_, of_state),) = fork_rows(data, group(data)[0]).items()
    recorded, *rows = of_state
    assert (recorded.source, recorded.steps) == (None, rows[0].steps)
    assert [row.parting for row in rows] == [None, Parting(2, episode.record.turns[1].step, "plan")]
    assert rows[0].requests == again.record.requests
    # A demonstration begins at its start; none is taken unasked, and no repetition in any case.
    attempts = [*find_attempts(shm / "first"), *find_attempts(shm / "forks")]
    assert len(select("d", attempts, Filters(uncertified=True)).attempts) == 1
    taken = select("d", attempts, Filters(uncertified=True, extensions=("forks",))).attempts
    assert [a.summary.steps for a in taken] == [
        e.record.steps for e in (episode, other) if e.success
    ]


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (3, "extensions.fork: Expected 'object', got 'int'"),
        ({"run": "x", "seed": 0}, "extensions.fork: Object missing required field 'remember'"),
        (
            {"run": "x", "seed": 0, "remember": False, "states": "x"},
            "extensions.fork.states: Expected 'object', got 'str'",
        ),
    ],
)
def test_the_fields_of_a_run_of_forks_are_checked(tmp_path, value, sentence):
    manifest = Manifest(settings={"command": "fork"}, extensions={"fork": value})
    write_manifest(tmp_path, manifest)
    with pytest.raises(DamagedFile) as refused:
        _ = Run(tmp_path).manifest
    assert sentence in str(refused.value)


def test_a_run_of_forks_is_continued_and_extended_but_not_changed(shm, origin):
    states = [f"{CHAIN}/2@2", f"{CHAIN}/1@1"]
    fork(origin, states[0], shm / "forks", times=2)
    before = contents(shm / "forks")
    run = fork(origin, states, shm / "forks", times=3)
    assert [e.path.name for e in run.episodes] == ["0000", "0001", "0002", "1000", "1001", "1002"]
    assert {k: v for k, v in contents(shm / "forks").items() if k in before} == before
    whole = fork(origin, states, shm / "whole", times=3, parallel=2)
    turns = [[e.record.turns for e in r.episodes] for r in (run, whole)]
    assert turns[0] == turns[1]
    status = read_status(shm / "forks")
    assert status.state == "finished"
    assert "forks of 2 states of first" in status.sentences
    for changed, said in (({"tau": 0.9}, "--tau"), ({"seed": 4}, "--seed")):
        with refuses(ErrorCode.OTHER_SETTINGS, f"other settings .*{said}"):
            fork(origin, states, shm / "forks", **changed)
    with refuses(ErrorCode.WRONG_CONTENT, "of another kind"):
        fork(origin, states, origin)
    with refuses(ErrorCode.WRONG_CONTENT, "holds forks"):
        list(replay(shm / "forks"))
    with refuses(ErrorCode.WRONG_CONTENT, "is a fork itself"):
        fork(shm / "forks", f"{CHAIN}/0@1", shm / "of-forks")


def test_forks_learn_from_each_other_only_when_asked_to(shm, origin):
    state, options = f"{CHAIN}/3@2", {"times": 3, "tau": 0.9}
    apart = fork(origin, state, shm / "apart", **options).episodes
    together = fork(origin, state, shm / "together", remember=True, **options).episodes
    seen = [e.record.labels_before for e in apart]
    assert len(set(seen)) == 1
    own = [w.label for t in together[0].record.turns[1:] for w in t.waypoints]
    learned = sum(label is not None for label in own)
    assert together[0].record.labels_before == seen[0]
    assert together[1].record.labels_before == seen[0] + learned > seen[0]
    with refuses(ErrorCode.CONFLICTING_SETTINGS, "share no memory"):
        fork(origin, [state, f"{CHAIN}/2@2"], shm / "two", remember=True)


def test_another_method_goes_on_from_the_same_state(shm, origin):
    run = fork(origin, f"{CHAIN}/3@2", shm / "forks", arm="base,capex-fresh")
    base, fresh = run.episodes
    episode = capex.load_run(origin).episodes[3]
    for forked in (base, fresh):
        assert forked.record.turns[0] == episode.record.turns[0]
        assert forked.record.steps <= episode.record.horizon
    assert all(len(t.waypoints) <= 1 for t in base.record.turns[1:])
    assert fresh.record.labels_before == 0
    data = load([shm / "forks", origin])
    sources, _ = group(data)
    assert [s.resumed for s in sources] == [", forks" in s.label for s in sources]
    (compared,) = comparisons(sources)  # with each other, not with whole episodes
    assert compared.pairs.n == 1
    (section,) = forks_section(SectionInput(data, sources))
    shown = section.tables[0].markdown()
    assert "origin, as recorded" in shown
    assert "decision 2: 1 by plan" in shown


@pytest.mark.parametrize(
    ("states", "options", "code", "said"),
    [
        (f"{CHAIN}/3", {}, ErrorCode.BAD_SETTING, "names no state; write CHAIN/EPISODE@DECISION"),
        (f"{CHAIN}/3@0", {}, ErrorCode.BAD_SETTING, "decisions count from 1"),
        (
            "lab.world--low--capex/3@1",
            {},
            ErrorCode.NOT_FOUND,
            f"has no chain lab.world--low--capex; it has {CHAIN}",
        ),
        (f"{CHAIN}/9@1", {}, ErrorCode.NOT_FOUND, "has no episode 9; it has 0, 1, 2, 3"),
        (f"{CHAIN}/3@99", {}, ErrorCode.NOT_FOUND, "there is no state before decision 99"),
        (
            f"{CHAIN}/3@1",
            {"times": 0},
            ErrorCode.BAD_SETTING,
            "--times is 0; it must be between 1 and 1000",
        ),
        (
            f"{CHAIN}/3@1",
            {"starts": "0:3"},
            ErrorCode.UNKNOWN_NAME,
            "'starts' is no setting of forks",
        ),
        (f"{CHAIN}/3@1", {"arm": "cape"}, ErrorCode.UNKNOWN_NAME, "capex"),
    ],
)
def test_what_cannot_be_forked_is_told_in_a_sentence(shm, origin, states, options, code, said):
    with refuses(code, re.escape(said)):
        fork(origin, states, shm / "forks", **options)
    assert not (shm / "forks").exists()


def test_a_robot_has_no_saved_states(shm):
    collect(shm / "run", "lab.world:robot", operator=LabOperator("s"), arm="capex", starts="0:1")
    with refuses(ErrorCode.UNSUPPORTED):
        fork(shm / "run", "lab.world--robot--capex/0@1", shm / "forks")


def test_the_command_forks(shm, origin, capsys):
    words = ["fork", str(origin), f"{CHAIN}/2@2", "--times", "2", "--out", str(shm / "forks")]
    assert parse(words).run() == 0
    said = capsys.readouterr().out
    assert f"{CHAIN} fork 0: " in said
    assert "capex report" in said
    assert len(capex.load_run(shm / "forks").episodes) == 2


@pytest.mark.parametrize("chain", ["../../outside", "/etc", "a/b", 7, ""])
def test_a_fork_names_a_chain_and_no_path(tmp_path, chain):
    run = runs.campaign(tmp_path / "run", runs.TASKS[:1], ["capex"], 1, plans=1)
    path = run.chains()[0].episode(0) / "record.json"
    told = dict.fromkeys(("episode", "step", "state", "repetition", "seed"), 0)
    fork = {"run": "first", "chain": "chain", "decision": 1, **told}
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "extensions": {"fork": fork}}))
    (episode,) = capex.load_run(run.path).episodes
    assert fork_of(episode.record).chain == "chain"
    path.write_text(json.dumps({**record, "extensions": {"fork": {**fork, "chain": chain}}}))
    (episode,) = capex.load_run(run.path).episodes
    assert fork_of(episode.record) is None
