"""The command line as a user meets it: answers, and sentences instead of tracebacks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from capex.cli import doctor, parse
from capex.cli.export import filters_of
from capex.dataset.selection import Filters
from capex.errors import ErrorCode
from refusals import refuses


def capex(*words: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "capex.cli", *words], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("tasks", "kichen"), "there is no world 'kichen'; valid: kitchen"),
        (
            ("check", "kitchen:CloseFidge"),
            "there is no task 'CloseFidge' in world 'kitchen'; valid: CloseFridge",
        ),
        (("expert", "kitchen:CloseFridge", "--starts", "x", "--out", "run"), "'x' names no starts"),
        (
            ("expert", "kitchen:CloseFridge", "--starts", "10000", "--out", "run"),
            "there is no start 10000",
        ),
        (("expert", "kitchen:CloseFridge", "--parallel", "0", "--out", "run"), "--parallel is 0"),
        (("film", "nowhere"), "nowhere is no episode"),
        (
            ("expert", "kitchen:CloseFridge", "--starts", "0", "--out", "/proc/nope"),
            "'/proc/nope' cannot be read or written",
        ),
        (("prompt", "--arm", "capx"), "there is no arm 'capx'; valid: capex"),
        (("prompt", "--prompt", "none.txt"), "the prompt file none.txt cannot be read"),
        (
            ("install", "lerobot"),
            "there is no extra 'lerobot' that needs this command; valid: robosuite",
        ),
        (
            ("install", "robosuite", "--constraint", "none.txt"),
            "there is no constraints file none.txt",
        ),
        (
            ("human", "kitchen:CloseFridge", "--out", "run"),
            "world 'kitchen' has no human demonstrations",
        ),
    ],
)
def test_a_users_mistake_gets_a_sentence(words, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = capex(*words)
    assert out.returncode == 2
    assert sentence in " ".join(out.stderr.split())
    assert "Traceback" not in out.stderr + out.stdout


def test_none_is_nothing_to_type():
    for words in (("--base-motion", "None"), ("--seed", "None")):
        out = capex("collect", "kitchen:CloseFridge", *words)
        assert out.returncode == 2
        assert "'None'" in out.stderr + out.stdout
    assert "{None}" not in capex("export", "--help").stdout


def test_doctor_names_every_dependency_and_every_extra_of_the_package():
    metadata = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    names = {re.split(r"[<>=]", line)[0] for line in metadata["dependencies"]}
    assert names == set(doctor.CORE)
    assert set(metadata["optional-dependencies"]) == set(doctor.EXTRAS) | {
        "judges"
    }  # which is LeRobot's without its pins, for the tests


def test_doctor_and_tasks_answer():
    out = capex("doctor")
    assert out.returncode == 0, out.stdout
    assert "rendering" in out.stdout
    out = capex("tasks")
    assert out.returncode == 0
    assert "CloseFridge" in out.stdout
    assert "PickPlaceCounterToStove" in out.stdout
    assert "600" in out.stdout


def test_a_world_of_ones_own_that_cannot_be_made_is_named_with_the_call(tmp_path):
    lab = tmp_path / "my_lab"
    lab.mkdir()
    (lab / "__init__.py").touch()
    (lab / "table.py").write_text(
        "from capex.worlds import TaskInfo\n"
        'TASKS = {"Touch": TaskInfo("Touch", "Reach", 100, "Touch it.", "touched")}\n'
        "def make(world, task):\n"
        '    return {}["arm"]\n'
    )
    out = subprocess.run(
        [sys.executable, "-m", "capex.cli", "check", "my_lab.table:Touch"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
    )
    assert out.returncode == 2
    said = "make(world='my_lab.table', task='Touch') raised KeyError: 'arm' (table.py, line 4)"
    assert said in " ".join(out.stderr.split())


def test_filters_of_extensions_are_flags_of_export():
    command = parse(["export", "runs/a", "--out", "d", "--forks", "--max", "2"])
    assert filters_of(command.filters) == Filters(max=2, extensions=("forks",))
    assert filters_of(parse(["export", "runs/a", "--out", "d"]).filters) == Filters()
    with refuses(ErrorCode.UNKNOWN_NAME, "there is no filter 'fork'"):
        Filters(extensions=("fork",))
