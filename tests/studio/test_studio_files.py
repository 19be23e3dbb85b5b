"""What the studio and a campaign leave for each other in a run directory."""

from __future__ import annotations

import shutil
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

import runs
from capex import worlds
from capex.campaign.core import Core, Lease
from capex.campaign.extensions import Attempt
from capex.errors import DamagedFile, ErrorCode
from capex.models import pictures
from capex.operators import inbox
from capex.operators.screens import Screens
from capex.run import Depth, control, load_run
from capex.run.files import TEMPORARY, write_json
from capex.run.live import LIVE_FOLDER, camera_views, watch
from capex.run.store import Chain
from capex.studio.guard import Refused
from capex.studio.heads import Heads
from capex.studio.library import Library
from capex.studio.rooms import arrange, live
from capex.studio.rooms.room import Studio
from capex.studio.shelf import fitted
from capex.worlds import Start
from refusals import refuses


def test_heads_tell_what_whole_records_tell(synthetic):
    whole, heads = load_run(synthetic).episodes, load_run(synthetic, Depth.HEADS).episodes
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
    assert control.requested(tmp_path, "pause") is None
    control.request(tmp_path, "pause", "Ada")
    assert control.requested(tmp_path, "pause")["by"] == "Ada"
    control.request(tmp_path, "stop", "Ada")
    half_written = [tmp_path / "requests" / at / ".writing-0-x" for at in ("", "messages/chain")]
    for leftover in half_written:  # of a process that was killed
        leftover.parent.mkdir(parents=True, exist_ok=True)
        leftover.touch()
    control.forget(tmp_path)
    assert not any(leftover.exists() for leftover in half_written)
    assert not any(control.requested(tmp_path, kind) for kind in control.KINDS)
    with refuses(ErrorCode.PERSON_NEEDED, "`by` is required"):
        control.request(tmp_path, "stop", " ")
    inbox.post_message(tmp_path, "chain", 7, "Mind\nthe mug.", "Ada")
    with open(inbox.messages_file(tmp_path, "chain", 7), "a") as torn:
        torn.write('{"words": "to')
    assert [m.text for m in inbox.list_messages(tmp_path, "chain", 7)] == ["Mind the mug."]
    with refuses(ErrorCode.INVALID_INPUT, "1 to 500 characters"):
        inbox.post_message(tmp_path, "chain", 7, "x" * 501, "Ada")


def test_a_rigs_pictures_are_written_while_somebody_watches(tmp_path):
    env = worlds.make("lab.world:robot")
    (tmp_path / LIVE_FOLDER).mkdir()
    with Lease(Core()) as lease:
        chain = Chain(tmp_path / "chain")
        attempt = Attempt(env, chain, 0, tmp_path, lease, print, print, continues=False)
        shown = Screens(attempt)
        shown.prepare(env, Start("robot", 0))
        time.sleep(0.3)
        assert not camera_views(tmp_path)  # nobody watches
        until = time.monotonic() + 20
        while len(camera_views(tmp_path)) < len(env.spec.cameras):
            watch(tmp_path)
            assert time.monotonic() < until
            time.sleep(0.02)
        shown.close()
    assert set(camera_views(tmp_path)) == {c.name for c in env.spec.cameras}
    with Image.open(camera_views(tmp_path)[env.spec.cameras[0].name]) as picture:
        assert picture.size == (32, 32)


def test_a_wish_to_drive_is_taken_once_and_one_that_was_left_is_forgotten(tmp_path):
    place = tmp_path, "chain", 7
    inbox.request_takeover(*place, inbox.TakeoverRequest("Ada", "keyboard", 1, "a-key"))
    folder = tmp_path / control.REQUESTS / inbox.TAKEOVER
    assert folder.stat().st_mode & 0o77 == 0  # its key is for this user alone
    assert inbox.takeover_requested(*place)
    assert inbox.pop_takeover_request(*place).by == "Ada"
    assert inbox.pop_takeover_request(*place) is None
    inbox.request_takeover(*place, inbox.TakeoverRequest("Ada", "keyboard", 1, "a-key"))
    control.forget(tmp_path)
    assert not inbox.takeover_requested(*place)
    row = {"decision": 3, "by": "Ada", "device": "keyboard", "moves": []}
    inbox.record_drive(*place, row)
    assert [row["decision"] for row in inbox.recorded_drives(*place)] == [3]
    control.forget_attempt(*place)
    assert inbox.recorded_drives(*place) == []


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
    with refuses(ErrorCode.NOT_FOUND):
        Library((tmp_path / "nothing",))


def test_a_picture_is_found_while_its_attempt_becomes_whole(tmp_path):
    """Read again and again while the folder that holds it is renamed, as at the end of an attempt."""
    run = runs.campaign(tmp_path / "runs" / "first", runs.TASKS[:1], ["capex"], 1, plans=1)
    studio, (chain,), sha = Studio(Library((tmp_path / "runs",)), ()), run.chains(), "a" * 64
    asked = {"run": "first", "chain": chain.path.name, "start": "7", "sha": sha}
    for turn in range(60):
        folder = chain.episodes_path / f"{TEMPORARY}{turn}-0007"
        path = pictures.find(folder / pictures.IMAGES, sha)
        path.parent.mkdir(parents=True)
        path.write_bytes(b"a picture")
        ends = threading.Timer(0.002, folder.rename, [chain.episode(7)])
        ends.start()
        while ends.is_alive():
            assert live._picture(studio, asked).body == b"a picture"
        assert live._picture(studio, asked).body == b"a picture"
        shutil.rmtree(chain.episode(7))


def test_a_scene_that_lies_outside_is_not_shown(tmp_path):
    run = runs.campaign(tmp_path / "runs" / "first", runs.TASKS[:1], ["capex"], 1, plans=1)
    outside = tmp_path / "outside"
    outside.mkdir()
    write_json(outside / "scene.json", {"scene": "secret", "cameras": {"front": True}})
    (run.path / "arranging").symlink_to(outside)
    studio = Studio(Library((tmp_path / "runs",)), ())
    assert arrange._waiting(studio) == []
    with pytest.raises(DamagedFile, match="is a link"):
        arrange._picture(studio, {"run": "first", "camera": "front"})


def test_a_dataset_whose_metadata_lie_outside_is_not_listed(tmp_path):
    (tmp_path / "outside").mkdir()
    write_json(tmp_path / "outside" / "info.json", {"robot_type": "secret"})
    (tmp_path / "runs" / "set").mkdir(parents=True)
    (tmp_path / "runs" / "set" / "meta").symlink_to(tmp_path / "outside")
    assert Library((tmp_path / "runs",)).datasets() == {}


def test_a_picture_far_higher_than_wide_is_cut_short():
    assert fitted(np.zeros((16_000, 1, 3), np.uint8), 192).shape == (768, 192, 3)
