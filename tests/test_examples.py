"""The examples run as they are, and stay short."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import capex
from capex import worlds
from capex.rigs.preflight import check_dry

EXAMPLES = Path(__file__).parent.parent / "examples"


def _run(name: str) -> str:
    command = [sys.executable, str(EXAMPLES / name)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_hello_runs_one_episode():
    out = _run("hello.py")
    assert "Instruction: Press the start button on the microwave." in out
    assert "plan of 4 waypoints, 4 of them trusted enough to run" in out
    assert "success: True" in out


def test_my_world_keeps_the_contract():
    found = dict(line.split()[:2] for line in _run("my_world.py").splitlines())
    assert set(found.values()) <= {"ok", "not"}, found
    assert [name for name, status in found.items() if status == "ok"][:4] == [
        "spec",
        "starts",
        "reset",
        "success",
    ]


def test_my_model_solves_starts_of_my_world_with_its_references_in_view(tmp_path):
    command = [sys.executable, "-m", "capex", "collect", "examples.my_world:Touch"]
    command += ["--model", "examples.my_model:gazer", "--starts", "0:3", "--out", str(tmp_path)]
    path = os.pathsep.join([str(EXAMPLES.parent), *sys.path])
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": path}, capture_output=True)
    assert [e.record.success for e in capex.load_run(tmp_path).episodes] == [True] * 3


def test_my_model_solves_a_start_of_my_world():
    assert _run("my_model.py").splitlines()[-1].startswith("success: True after")


def test_two_arms_share_an_act():
    out = _run("two_arms.py")
    assert "the model's tool has chunk, confidence, left, reasoning, right" in out
    assert "left close: opening 0.0 cm" in out
    assert out.rstrip().endswith("success: True")


def test_my_robot_answers_and_moves_as_the_contract_says(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    worlds.allow(f"rig:{EXAMPLES / 'my_robot.toml'}")
    env = worlds.make(f"rig:{EXAMPLES / 'my_robot.toml'}:Touch")
    try:
        check_dry(env).raise_if_failed()
        report = worlds.check(env, rules=["spec", "tip"])
    finally:
        env.close()
    assert [f.status for f in report.findings] == ["ok"] * 2, report.failed


@pytest.mark.parametrize(
    "name", ["hello.py", "my_world.py", "my_model.py", "my_robot.py", "two_arms.py"]
)
def test_an_example_fits_on_a_page(name):
    assert len((EXAMPLES / name).read_text().splitlines()) < 80
