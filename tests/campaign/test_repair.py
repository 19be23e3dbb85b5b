"""One damaged file never ends a command over a whole run: the episode is named, left out and counted, and `capex repair` moves it aside."""

from __future__ import annotations

import json
import random
import shutil

import numpy as np
import pytest

import capex
from capex.campaign import events as ev
from capex.campaign.repair import repair
from capex.campaign.replay import replay
from capex.campaign.status import read_status
from capex.dataset import Filters, Pipeline, certify_run, export_run
from capex.dataset.film import write_strip
from capex.errors import DamagedFile, ErrorCode
from capex.report import write as write_report
from capex.report.data import load
from capex.run import load_chain
from capex.run.spend import Spend
from capex.run.steps import read_steps
from capex.run.store import Chain
from capex.run.writing import InvalidNote, Timing
from lab.campaigns import cli, collect, contents, price_file
from refusals import refuses

NAMES, STARTS = "lab.world:high", 9
ONE = {"names": NAMES, "arm": "capex", "starts": f"0:{STARTS}"}


def _change(name, **fields):
    def change(folder):
        held = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps({**held, **fields}))

    return change


def _overwrite(name, make):
    return lambda folder: (folder / name).write_bytes(make((folder / name).read_bytes()))


# start -> what happens to its episode, and what is said of it
DAMAGE = {
    1: (_overwrite("steps.npz", lambda b: b[: len(b) // 2]), "steps.npz is damaged: its"),
    2: (
        lambda folder: (folder / "steps.npz").unlink(),
        "steps.npz is damaged: it cannot be read (No such file",
    ),
    3: (_overwrite("steps.npz", lambda _: b""), "steps.npz is damaged: it is empty"),
    4: (
        _overwrite("steps.npz", lambda b: random.Random(1).randbytes(len(b))),
        "steps.npz is damaged: its",
    ),
    5: (
        _overwrite("record.json", lambda _: b"{}"),
        "record.json is damaged: Object missing required field 'task'",
    ),
    6: (
        _change("record.json", steps="12"),
        "record.json is damaged: steps: Expected 'int', got 'str'",
    ),
    7: (
        lambda folder: (folder / "timing.json").unlink(),
        "timing.json is damaged: it cannot be read",
    ),
}
LEFT = [i for i in range(STARTS) if i not in DAMAGE]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("repair")
    collect(path / "run", **ONE, prices=price_file(path))
    return path / "run"


@pytest.fixture
def run(whole, shm):
    shutil.copytree(whole, shm / "run")
    return shm / "run"


@pytest.fixture
def damaged(run):
    chain = Chain(run / "chains" / "lab.world--high--capex")
    for start, (damage, _) in DAMAGE.items():
        damage(chain.episode(start))
    return run


def _chain(run):
    return Chain(run / "chains" / "lab.world--high--capex")


def test_every_reader_leaves_the_same_episodes_out(damaged, tmp_path):
    found = {d.start: d.reason for d in load_chain(_chain(damaged)).damaged}
    assert list(found) == list(DAMAGE)
    for start, (_, sentence) in DAMAGE.items():
        assert found[start].startswith(sentence)

    status = read_status(damaged)
    assert status.board.total.episodes == len(LEFT)
    assert len(status.as_json()["damaged"]) == len(DAMAGE)
    assert any("capex repair" in sentence for sentence in status.sentences)

    text = write_report([damaged], tmp_path / "report", strips=2).read_text()
    for start in DAMAGE:
        assert f"episodes/{start:04d} was left out" in text

    replayed = list(replay(damaged))
    assert [int(r.path.name) for r in replayed if not r.damaged] == [
        0
    ]  # 8 saw what the damaged ones had left
    assert sorted(int(r.path.name) for r in replayed if r.damaged) == [*DAMAGE, 8]
    assert not any(r.difference for r in replayed)

    successes = [e.index for e in load_chain(_chain(damaged)).episodes if e.record.success]
    certified = certify_run(damaged)
    assert [int(c.episode.name) for c in certified if not c.damaged] == successes
    assert [int(c.episode.name) for c in certified if c.damaged] == list(DAMAGE)
    assert not any(c.certificate.certified for c in certified if c.damaged)

    exported = export_run(
        damaged, tmp_path / "data", pipeline=Pipeline((32, 32)), filters=Filters(uncertified=True)
    )
    assert exported.datasets[0].demonstrations == len(successes)
    assert {row.start for row in exported.left_out if "is damaged" in row.reason} == set(DAMAGE)


def test_a_film_of_a_damaged_episode_ends_with_the_sentence(damaged, tmp_path):
    for start in (1, 2, 3, 4, 5, 6):
        with pytest.raises(DamagedFile, match="is damaged"):
            write_strip(_chain(damaged).episode(start), tmp_path / "strip.png")


def test_arrays_are_checked_when_they_are_opened(run, tmp_path):
    episode = next(e.path for e in load_chain(_chain(run)).episodes if e.record.success)
    content = bytearray((episode / "steps.npz").read_bytes())
    content[len(content) // 2] ^= 0xFF
    (episode / "steps.npz").write_bytes(content)
    assert (
        load_chain(_chain(run)).damaged == ()
    )  # not every array of every episode is read to count them
    with pytest.raises(DamagedFile, match=r"steps.npz is damaged: its arrays cannot be read"):
        read_steps(episode)
    assert [r.path for r in replay(run) if r.damaged] == [episode]
    assert [c.episode for c in certify_run(run) if c.damaged] == [episode]
    np.savez_compressed(episode / "steps.npz", actions=np.zeros((3, 8)), states=np.zeros((2, 5)))
    with pytest.raises(
        DamagedFile, match=r"'states' has the shape \(2, 5\), which does not fit 3 actions"
    ):
        read_steps(episode)
    np.savez_compressed(episode / "steps.npz", actions=np.zeros((3, 8)))
    with pytest.raises(DamagedFile, match="it has no 'header'"):
        read_steps(episode)["header"]
    assert [
        m.path for m in repair(run, dry_run=True).moved
    ] == []  # readable; what it lacks is told by whoever needs it


def test_collect_names_what_is_damaged_keeps_its_place_and_goes_on(damaged):
    run, events = collect(damaged, NAMES, arm="capex", starts="0:11")
    began = next(e for e in events if isinstance(e, ev.CampaignBegan))
    assert "7 damaged attempts are left out" in began.warning
    assert "capex repair" in began.warning
    assert began.episodes == 2
    assert [(e.index, e.position) for e in run.episodes] == [(0, 0), (8, 8), (9, 9), (10, 10)]
    seen = sum(
        w.label is not None for e in run.episodes[:2] for t in e.record.turns for w in t.waypoints
    )
    assert run.episodes[2].record.labels_before == seen  # memory leaves the damaged ones out


def test_repaired_episodes_run_again_at_their_places_and_are_not_paid_for_twice(
    damaged, whole, shm
):
    chain, before = _chain(damaged), Spend(damaged / "spend.jsonl").account()
    listed = repair(damaged, dry_run=True).moved
    assert [m.path.name for m in listed] == [f"{i:04d}" for i in DAMAGE]
    assert chain.moved_aside() == []
    moved = repair(damaged).moved
    assert (
        [m.to for m in moved]
        == chain.moved_aside()
        == [chain.path / "damaged" / f"{i:04d}-1" for i in DAMAGE]
    )
    assert capex.load_run(damaged).damaged == ()
    assert any("7 damaged attempts were moved aside" in s for s in read_status(damaged).sentences)
    collect(damaged, **ONE)
    kept = {name: content for name, content in contents(damaged).items() if "/damaged/" not in name}
    assert kept == contents(whole)  # the same places, the same memory: the same records
    assert Spend(damaged / "spend.jsonl").account() == before
    assert not any(r.difference or r.damaged for r in replay(damaged))


def test_names_of_what_is_moved_aside_never_collide(run):
    chain = _chain(run)
    for number in (1, 2):
        (chain.episode(3) / "record.json").write_text("{}")
        (moved,) = repair(run).moved
        assert moved.to == chain.path / "damaged" / f"0003-{number}"
        collect(run, **ONE)
    for _ in range(2):
        note = InvalidNote(start=20, error="the server failed")
        chain.begin(20).commit_invalid(note, Timing(), {})
    (chain.path / "invalid" / "0020-1" / "record.json").write_text("[]")
    assert [m.to.name for m in repair(run).moved] == ["invalid-0020-1-1"]
    note = InvalidNote(start=20, error="again")
    place = chain.begin(20).commit_invalid(note, Timing(), {})
    assert place.name == "0020-3"  # not the name of one that is still there
    chain.unfinished(21).parent.mkdir(exist_ok=True)
    chain.unfinished(21).write_text("\x00\n")
    assert [m.to.name for m in repair(run).moved] == ["unfinished-0021.jsonl-1"]


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("record.json", {"ledger": {"tokens": [1]}}),
        ("record.json", {"ledger": {"tokens": {"fresh": "many"}}}),
        ("record.json", {"ledger": {"attempts": None}}),
        ("record.json", {"ledger": {"known_cost_usd": -1}}),
        ("record.json", {"ledger": {"held_usd": "much"}}),
        ("record.json", {"ledger": "none"}),
        ("record.json", {"start": {"index": 5}}),
        ("timing.json", {"answered_s": "long"}),
        ("timing.json", {"episode_s": None}),
    ],
)
def test_a_damaged_invalid_attempt_is_left_out_too(run, name, fields):
    note = InvalidNote(start=20, error="the server failed", counts=True, continues=True)
    timing = Timing(episode_s=2.0, answered_s=1.0)
    _change(name, **fields)(_chain(run).begin(20).commit_invalid(note, timing, {}))
    (damage,) = read_status(run).run.damaged
    assert damage.reason.startswith(f"{name} is damaged: ")
    data = load([run])
    assert data.invalid == []
    assert any("invalid/0020-1 was left out" in sentence for sentence in data.problems)


def test_an_invalid_attempt_with_words_of_another_version_is_read(run):
    note = InvalidNote(start=20, error="the server failed", counts=True)
    path = _chain(run).begin(20).commit_invalid(note, Timing(episode_s=2.0), {})
    tokens = {"fresh": 5, "cached": 0, "cache_write": 0, "output": 0, "heard": 7}
    _change("record.json", ledger={"tokens": tokens, "known_cost_usd": 0.5, "colour": "red"})(path)
    (row,) = load([run]).invalid
    assert (row.tokens.fresh, row.usd, row.seconds) == (5, (0.5, 0.5), 2.0)


@pytest.mark.parametrize("content", [b"\x00\n", b"[1]\n", b'{"number": 1, "hash": "x"}\n'])
def test_damaged_exchanges_of_a_cut_off_attempt_are_named_and_asked_for_again(run, content):
    chain = _chain(run)
    chain.leave(STARTS, content * 2, None)
    loaded, events = collect(run, NAMES, arm="capex", starts=f"0:{STARTS + 1}")
    assert (
        f"unfinished/{STARTS:04d}.jsonl: the exchanges of a cut-off attempt cannot be read"
        in events[0].warning
    )
    assert len(loaded.episodes) == STARTS + 1
    assert loaded.damaged == ()


def test_exchanges_that_are_left_without_times_get_no_others(shm):
    chain = Chain(shm / "chain")
    chain.path.mkdir()
    chain.leave(0, b"a\n", b"b\n")
    chain.leave(0, b"c\n", None)
    assert chain.left(0) == (b"c\n", None)


def test_a_run_that_is_being_written_is_not_repaired(damaged):
    with _chain(damaged).owned(), refuses(ErrorCode.IN_USE):
        repair(damaged)


def test_the_commands_say_it_and_go_on(damaged):
    results = {}
    for words in (
        ["repair", str(damaged), "--dry-run"],
        ["replay", str(damaged), "--allow-module", "lab.world"],
        ["repair", str(damaged)],
        ["repair", str(damaged)],
    ):
        process = cli(*words)
        out, errors = process.communicate()
        results[len(results)] = (process.returncode, out, errors)
    assert results[0][0] == 0
    assert f"next: capex repair {damaged}" in results[0][1]
    assert results[1][0] == 1
    assert "1 episodes replayed, all the same, 8 left out because of damage" in results[1][1]
    assert "Traceback" not in results[1][2]
    assert results[2][0] == 0
    assert "damaged/0005-1" in results[2][1]
    assert (
        f"next: the command that made {damaged}, with the same settings" in results[2][1]
    )  # it had settings of its own
    assert "nothing is damaged" in results[3][1]


def test_the_next_command_is_named_where_the_manifest_tells_it(shm):
    from capex.campaign.repair import collect_command
    from capex.run.store import Run

    capex.collect(NAMES, model="lab.model:", starts="0,2", out=shm / "run", seed=3)
    words = collect_command(Run(shm / "run"))
    assert (
        words
        == f"capex collect lab.world:high --arm capex --model lab.model: --starts 0,2 --seed 3 --out {shm / 'run'}"
    )
