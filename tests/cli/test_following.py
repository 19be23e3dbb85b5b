"""What commands say last: the result of the demo, and what to type next, with paths that work."""

from __future__ import annotations

import io
import shlex
from pathlib import Path

import pytest

import capex
from capex.cli import collect, dataset, demo, expert, export, farewell, following, parse, report
from capex.cli.console import PlainConsole
from runs import fill, new_run

TASKS = ("OpenStandMixerHead", "TurnOffStove")
ARMS = ("capex", "base")


@pytest.fixture
def screen(monkeypatch):
    """An 80-column terminal that remembers."""
    console = PlainConsole(width=80, file=io.StringIO(), record=True)
    for module in (collect, dataset, demo, export, expert, farewell, following, report):
        monkeypatch.setattr(module, "console", console)
    return console


def run_words(line: str) -> None:
    parse(shlex.split(line)[1:]).run()


def next_of(screen: PlainConsole) -> str:
    last = screen.export_text().rstrip().splitlines()[-1]
    assert last.startswith("next: capex ")
    return last.removeprefix("next: ")


def test_each_command_leads_to_the_next(screen, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_words("capex expert kitchen:TurnOnMicrowave --starts 0 --out runs/expert")
    line = next_of(screen)
    assert line == "capex certify runs/expert"
    run_words(line)
    line = next_of(screen)
    assert line == "capex export runs/expert --out datasets/expert"
    run_words(f"{line} --size 32 32")
    line = next_of(screen)
    assert line == "capex dataset check datasets/expert"
    run_words(line)
    line = next_of(screen)
    assert line == "capex train datasets/expert --policy act --out runs/expert-act"
    parse(shlex.split(line)[1:])
    run_words("capex certify runs/expert")
    assert next_of(screen) == "capex export runs/expert --out datasets/expert-2"


def test_after_a_campaign_comes_its_report_and_then_the_certificates(
    screen, shm, monkeypatch, capfd
):
    monkeypatch.chdir(shm)
    words = "kitchen:TurnOnMicrowave --model pilot --starts 0 --out 'runs/a b'"
    run_words(f"capex collect {words}")
    line = next_of(screen)
    assert line == "capex report 'runs/a b' --out 'reports/a b'"
    run_words(f"{line} --strips 0")
    assert next_of(screen) == "capex certify 'runs/a b'"
    run_words(f"capex collect {words} --json-events")
    assert "next:" not in screen.export_text() + capfd.readouterr().out


def test_the_demo_ends_with_its_result_and_what_to_type(screen, tmp_path):
    made = new_run(tmp_path / "run", ARMS, TASKS, range(3))
    for task, arm, solved in [
        (TASKS[0], "capex", "111"),
        (TASKS[0], "base", "000"),
        (TASKS[1], "capex", "111"),
        (TASKS[1], "base", "110"),
    ]:
        fill(made, task, arm, solved)
    run = capex.load_run(made.path)
    assert farewell.result(run) == (
        "The pilot, a stand-in for a model, succeeded in 2 of 6 attempts with base and in 6 of 6"
        " attempts with capex, from the same starts."
    )
    farewell.farewell(
        run, {"report": Path("demo/report/report.html"), "dataset": Path("demo/dataset")}
    )
    text = screen.export_text()
    assert "OpenStandMixerHead  base 0/3  capex 3/3" in text
    assert all(len(line) <= 80 for line in text.splitlines() if str(tmp_path) not in line)
    commands = [
        c.strip() for c in text.replace("\\\n", "").splitlines() if c.startswith("  capex ")
    ]
    assert [shlex.split(c)[1] for c in commands] == ["collect", "doctor", "collect"]
    for command in commands:
        parse(shlex.split(command)[1:])
    fill(made, "CloseFridge", "base", "1")
    assert "same starts" not in farewell.result(capex.load_run(made.path))


def test_how_to_call_capex_depends_on_where_it_is(tmp_path):
    venv = tmp_path / ".venv"
    (venv / "bin").mkdir(parents=True)
    assert farewell.ways_to_call(venv, tmp_path, None)[0].endswith("-m capex")
    (venv / "bin/activate").touch()
    ways = farewell.ways_to_call(venv, tmp_path, "/usr/bin/capex")
    assert [w.split("  ")[0] for w in ways] == [". .venv/bin/activate"]
    assert f". {venv}/bin/activate" in farewell.ways_to_call(venv, tmp_path / "elsewhere", None)[0]
    (tmp_path / "pyproject.toml").touch()
    commands = [w.split("  ")[0] for w in farewell.ways_to_call(venv, tmp_path, None)]
    assert commands == [". .venv/bin/activate", "pipx install -e .", "uv run --no-sync capex"]
    assert farewell.ways_to_call(venv, tmp_path, str(venv / "bin/capex")) == []
