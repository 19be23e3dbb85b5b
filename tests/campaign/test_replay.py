"""Replay: a recorded campaign re-run from its exchanges, and every kind of difference found."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from PIL import Image

from capex.campaign.replay import replay
from capex.errors import ErrorCode
from capex.models.pictures import find, read_png
from capex.run.store import open_run
from lab.campaigns import cli, collect, contents
from refusals import refuses


@pytest.fixture
def run(shm):
    found, _ = collect(
        shm / "run",
        "lab.world:high",
        starts="0:4",
        round_size=2,
        prices=_prices(shm),
        episode_usd=0.75,
    )
    return found


def _prices(folder):
    from lab.campaigns import price_file

    return price_file(folder)


def _differences(path, **options):
    return [r.difference for r in replay(path, **options) if r.difference]


def test_a_campaign_replays_to_the_last_bit(run, shm):
    results = list(replay(run.path))
    assert len(results) == 8
    assert _differences(run.path) == []
    before = contents(run.path)
    process = cli("replay", str(run.path), "--allow-module", "lab.world")
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    assert "8 episodes replayed, all the same" in out
    assert contents(run.path) == before


def test_each_difference_is_named(run):
    episode = run.chain("lab.world", "high", "capex").episodes[3].path
    kept = {
        name: (episode / name).read_bytes()
        for name in ("record.json", "exchanges.jsonl", "steps.npz")
    }

    def damaged(name, change):
        (episode / name).write_bytes(change(kept[name]))
        found = _differences(run.path)
        (episode / name).write_bytes(kept[name])
        assert len(found) == 1
        return found[0]

    assert "record.json: steps differs: recorded" in damaged(
        "record.json", lambda b: b.replace(b'"steps": ', b'"steps": 1', 1)
    )
    lines = kept["exchanges.jsonl"].split(b"\n")
    lines[0] = lines[0].replace(b"decisions left", b"decisions right")
    assert "request 1: " in damaged("exchanges.jsonl", lambda _: _rehash(b"\n".join(lines)))
    assert "a request more is made than was recorded" in damaged(
        "exchanges.jsonl", lambda b: b"\n".join(b.split(b"\n")[:1]) + b"\n"
    )
    with np.load(episode / "steps.npz") as archive:
        arrays = dict(archive)
    arrays["states"][1, 0] += 1e-12
    np.savez_compressed(episode / "steps.npz", **arrays)
    assert _differences(run.path) == ["steps.npz: 'states' differs"]


def _rehash(log: bytes) -> bytes:
    line, _, rest = log.partition(b"\n")
    row = json.loads(line)
    row["hash"] = "0" * 64
    return json.dumps(row).encode() + b"\n" + rest


def test_pictures_are_compared_by_their_pixels_or_not_at_all(run):
    """A log whose pictures have other names: the same pixels pass, other pixels only with recorded images."""
    episode = run.chain("lab.world", "high", "base").episodes[0].path
    log = episode / "exchanges.jsonl"
    first = json.loads(log.read_text().splitlines()[0])
    sha = next(
        p["sha256"] for m in first["request"]["messages"] for p in m["user"] if "sha256" in p
    )
    other = "f" * 64
    log.write_bytes(_rehash(log.read_bytes().replace(sha.encode(), other.encode(), 1)))
    shutil.copy(find(episode / "images", sha), episode / "images" / f"{other}.png")
    assert _differences(run.path) == []
    with Image.open(episode / "images" / f"{other}.png") as picture:
        Image.eval(picture, lambda v: 255 - v).save(episode / "images" / f"{other}.png")
    assert "sha256 differs" in _differences(run.path)[0]
    assert _differences(run.path, recorded_images=True) == []


def test_what_has_no_exchanges_is_refused(shm):
    open_run(shm / "expert", {"command": "expert"})
    with refuses(ErrorCode.WRONG_CONTENT, "was not collected with a model"):
        list(replay(shm / "expert"))


def test_webp_keeps_what_the_model_saw_and_start_keeps_the_references(shm):
    one = {"names": "lab.world:high", "arm": "capex"}
    collect(shm / "png", **one)
    collect(shm / "webp", **one, image_format="webp")
    run, _ = collect(shm / "start", **one, image_format="webp", keep_images="start")
    png, webp, start = (contents(shm / name) for name in ("png", "webp", "start"))
    records = {k: v for k, v in png.items() if "/images/" not in k}
    assert (
        records
        == {k: v for k, v in webp.items() if "/images/" not in k}
        == {k: v for k, v in start.items() if "/images/" not in k}
    )
    pictures = {k: v for k, v in webp.items() if k.endswith(".webp")}
    assert len(pictures) == len(png) - len(records)
    for name in list(pictures)[:10]:
        assert read_png(shm / "webp" / name) == png[name.replace(".webp", ".png")]
    kept = [k for k in start if k.endswith(".webp")]
    assert len(kept) == 3 * len(run.episodes)
    assert _differences(shm / "start") == []
