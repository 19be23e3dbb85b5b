"""manifest.json: its types, its format, and a folder of another one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from capex import codec
from capex.errors import DamagedFile, ErrorCode
from capex.method.presets import MethodSettings
from capex.models.prices import load_prices
from capex.run import load_run
from capex.run.files import read_json, write_json
from capex.run.manifest import (
    FORMAT,
    Manifest,
    Origin,
    RunPlan,
    SettingChange,
    WorldFile,
    read_manifest,
    write_manifest,
)
from capex.run.store import create_run, find_run
from refusals import refuses

RECORDED = Path(__file__).parents[1] / "data" / "vlm-run"
CHAIN = "kitchen--TurnOnMicrowave--capex"


def test_a_manifest_is_read_back_as_it_was_written(tmp_path):
    before = Origin(run="first", episodes={"c": (0, 2)}, invalid={"c": ("0001-1",)})
    changed = (SettingChange("arms.capex.tau", 0.5, 0.9),)
    manifest = Manifest(
        settings={"command": "collect", "arms": {"capex": {"name": "capex", "tau": 0.9}}},
        plan=RunPlan(starts=(0, 1), campaign_usd=Decimal("7.10"), judge="later"),
        price=load_prices().rows[0],
        stand_in=True,
        world_files={"rig:x": WorldFile(sha256="0", files={"rig.toml": "a = 1"})},
        operators={"Ada": False},
        branched_from=Origin(run="second", changed=changed, branched_from=before),
        extensions={"fork": {"run": "origin", "states": {"c/1@2": "0"}}},
    )
    write_manifest(tmp_path, manifest)
    held = read_manifest(tmp_path)
    assert held == manifest
    assert [origin.run for origin in held.origins] == ["second", "first"]
    assert held.recorded.arms == {"capex": MethodSettings("capex", tau=0.9)}
    assert next(iter(read_json(tmp_path / "manifest.json"))) == "format"
    assert read_json(tmp_path / "manifest.json")["plan"]["campaign_usd"] == "7.10"


def test_a_value_that_was_read_is_written_with_all_its_fields():
    plan = codec.from_json({"starts": [1]}, RunPlan)
    assert codec.to_json(plan) == codec.to_json(RunPlan(starts=(1,)))
    assert list(vars(plan)) == list(vars(RunPlan()))


@pytest.mark.parametrize(
    ("place", "value", "field"),
    [
        ("settings", 3, "settings: "),
        ("settings", {"arms": {"capex": 3}}, "settings.arms[...]: "),
        ("settings", {"tasks": [3]}, "settings.tasks[0]: "),
        ("settings", {"round_size": "1"}, "settings.round_size: "),
        ("plan", {"starts": ["a"]}, "plan.starts[0]: "),
        ("plan", None, "plan: "),
        ("price", {"model": "x"}, "price: "),
        ("stand_in", "yes", "stand_in: "),
        ("operators", {"Ada": 1}, "operators[...]: "),
        ("extensions", 3, "extensions: "),
    ],
)
def test_a_field_of_another_type_is_named_in_one_sentence(tmp_path, place, value, field):
    run = create_run(tmp_path / "run", Manifest())
    path = run.path / "manifest.json"
    write_json(path, read_json(path) | {place: value})
    with pytest.raises(DamagedFile) as damage:
        _ = run.manifest
    assert damage.value.reason.startswith(field)


def test_a_price_that_is_none_is_refused(tmp_path):
    run = create_run(tmp_path / "run", Manifest(price=load_prices().rows[0]))
    path = run.path / "manifest.json"
    for rate in ("NaN", "-1"):
        data = read_json(path)
        write_json(path, data | {"price": data["price"] | {"fresh": rate}})
        with pytest.raises(DamagedFile, match=f"a rate is {rate}; a number of at least 0 is right"):
            _ = run.manifest


@pytest.mark.parametrize(("held", "named"), [(None, "1"), (1, "1"), (3, "3"), ("2", "2")])
def test_a_run_of_another_format_is_refused(tmp_path, held, named):
    run = tmp_path / "run"
    shutil.copytree(RECORDED, run)
    data = {k: v for k, v in read_json(run / "manifest.json").items() if k != "format"}
    write_json(run / "manifest.json", data if held is None else {"format": held, **data})
    sentence = f"{run} was written in format {named}; this version reads format {FORMAT}"
    for read in (find_run, load_run, read_manifest):
        with refuses(ErrorCode.WRONG_CONTENT) as refusal:
            read(run)
        assert str(refusal.value) == sentence


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """A folder with a run as it was before runs had a format."""
    folder = tmp_path_factory.mktemp("old")
    shutil.copytree(RECORDED, folder / "run")
    path = folder / "run" / "manifest.json"
    write_json(path, {k: v for k, v in read_json(path).items() if k != "format"})
    return folder


@pytest.mark.parametrize(
    "words",
    [
        "status run",
        "forecast run",
        "report run --out page",
        "replay run",
        "counterfactual run",
        "calibrate run",
        "repair run",
        "certify run",
        "export run --out dataset",
        "judge run --by Ada",
        f"film run/chains/{CHAIN}/episodes/0000 --out films",
        f"fork run {CHAIN}/0@1 --out forks",
        "learn run --out students",
        "collect kitchen:TurnOnMicrowave --starts 0:3 --out run",
        "collect kitchen:TurnOnMicrowave --starts 0:1 --model cassette:run --out again",
        "expert kitchen:TurnOnMicrowave --starts 0:1 --out run",
    ],
)
def test_every_command_refuses_an_old_run_with_one_sentence(old, words):
    before = {p: p.read_bytes() for p in old.rglob("*") if p.is_file()}
    command = [sys.executable, "-m", "capex.cli", *words.split()]
    out = subprocess.run(command, cwd=old, capture_output=True, text=True, check=False)
    assert out.returncode != 0
    said = " ".join(out.stderr.split())
    assert said.endswith("run was written in format 1; this version reads format 2"), out.stderr
    assert "Traceback" not in out.stderr + out.stdout
    assert {p: p.read_bytes() for p in old.rglob("*") if p.is_file()} == before
    assert sorted(os.listdir(old)) == ["run"]
