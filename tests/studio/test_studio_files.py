"""What the studio and a campaign leave for each other in a run directory."""

from __future__ import annotations

from dataclasses import replace

import pytest

import runs
from capex.errors import CapexError
from capex.run import load_run, requests
from capex.run.heads import load_head
from capex.studio.guard import Refused
from capex.studio.heads import Heads
from capex.studio.library import Library


def test_heads_tell_what_whole_records_tell(synthetic):
    whole, heads = load_run(synthetic).episodes, load_run(synthetic, load_head).episodes
    assert len(whole) == len(heads) == 48
    for episode, head in zip(whole, heads, strict=True):
        assert replace(episode.record, turns=()) == head.record
        assert (episode.timing, episode.success, episode.path) == (
            head.timing,
            head.success,
            head.path,
        )


def test_a_damaged_head_is_named_and_spoils_no_other(tmp_path):
    run = runs.campaign(tmp_path / "run", runs.TASKS[:1], ["base"], 3, plans=1)
    (run.chains()[0].episode(1) / "record.json").write_text('{"task": "CloseFridge", "turns": [')
    status = Heads().status(run)
    assert [e.index for e in status.run.episodes] == [0, 2]
    (damage,) = status.run.damaged
    assert "record.json is damaged" in damage.reason


def test_requests_are_read_back_and_forgotten(tmp_path):
    assert requests.requested(tmp_path, "pause") is None
    requests.request(tmp_path, "pause", "Ada")
    assert requests.requested(tmp_path, "pause")["by"] == "Ada"
    requests.request(tmp_path, "stop", "Ada")
    requests.forget(tmp_path)
    assert not any(requests.requested(tmp_path, kind) for kind in requests.KINDS)
    with pytest.raises(CapexError, match="say who asks"):
        requests.request(tmp_path, "stop", " ")
    requests.say(tmp_path, "chain", 7, "Mind\nthe mug.", "Ada")
    with open(requests.words_file(tmp_path, "chain", 7), "a") as torn:
        torn.write('{"words": "to')
    assert [w.words for w in requests.said(tmp_path, "chain", 7)] == ["Mind the mug."]
    with pytest.raises(CapexError, match="1 to 500 characters"):
        requests.say(tmp_path, "chain", 7, "x" * 501, "Ada")


def test_a_library_knows_runs_below_its_folders_alone(tmp_path):
    for name in ("a/first", "a/deep/er/second", "b/first"):
        runs.new_run(tmp_path / name, ["base"], ["CloseFridge"], [0])
        (tmp_path / name / "chains").mkdir()
    (tmp_path / "a" / "link").symlink_to(tmp_path / "b")
    library = Library((tmp_path / "a", tmp_path / "b" / "first"))
    assert set(library.runs()) == {"first", "deep/er/second", "first/first"}
    assert library.run("first/first").path == tmp_path / "b" / "first"
    for name in ("../b/first", "link/first", "", "/", "first/"):
        with pytest.raises(Refused, match="there is no run"):
            library.run(name)
    with pytest.raises(CapexError, match="is not a folder"):
        Library((tmp_path / "nothing",))
