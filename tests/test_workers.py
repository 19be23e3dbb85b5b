"""A test process that dies, or a test that hangs, ends `make test` as a failure with the name of the test."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
MAKEFILE = TESTS.parent / "Makefile"
DEADLY = """
import os, signal, subprocess, time

def test_before():
    pass

def test_deadly():
    {deed}

def test_after():
    pass
"""
BESIDE = """
import pathlib, subprocess, sys, time

def test_a_long_one_beside():
    {deed}
"""
SLEEP = "time.sleep(600)"


def make_test(folder, *options, deed, beside="pass"):
    """What `make test` runs, over two small files: returns how it ended and what it said."""
    (folder / "test_deadly.py").write_text(DEADLY.format(deed=deed))
    (folder / "test_beside.py").write_text(BESIDE.format(deed=beside))
    (words,) = re.findall(r"-m pytest (.*)", MAKEFILE.read_text())
    ours = [
        "-c",
        str(TESTS.parent / "pyproject.toml"),
        "--rootdir",
        str(folder),
        "-p",
        "workers",
        "-p",
        "no:cacheprovider",
    ]
    command = [
        sys.executable,
        "-m",
        "pytest",
        *words.replace("$(WORKERS)", "2").split(),
        *ours,
        *options,
        ".",
    ]
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    plain = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    plain |= {"PYTHONPATH": path, "COLUMNS": "200"}
    ran = subprocess.run(
        command, cwd=folder, env=plain, capture_output=True, text=True, check=False, timeout=110
    )
    return ran.returncode, ran.stdout + ran.stderr


@pytest.mark.parametrize("name", ["SIGKILL", "SIGILL"])
def test_a_killed_process_ends_the_run_with_the_name_of_its_test(tmp_path, name):
    """Its own child still holds its connection, and a long test runs in the other process: neither is waited for."""
    status, said = make_test(
        tmp_path, deed=f"os.fork() or {SLEEP}; os.kill(os.getpid(), signal.{name})", beside=SLEEP
    )
    assert status == 1, said
    assert re.search(
        rf"FAILED test_deadly.py::test_deadly - the test process gw\d was killed by {name}", said
    ), said
    assert said.count("FAILED") == 1


def test_a_test_that_hangs_ends_the_run_with_its_name_and_where_it_hangs(tmp_path):
    status, said = make_test(
        tmp_path, "-o", "faulthandler_timeout=5", deed=f"subprocess.run(['sleep', '600']); {SLEEP}"
    )
    assert status == 1, said
    assert re.search(
        r"FAILED test_deadly.py::test_deadly - the test process gw\d ended itself with status 1",
        said,
    ), said
    assert "in test_deadly" in said.partition("Timeout")[2]


def test_what_a_dead_process_had_started_is_ended_too(tmp_path):
    started = "child = subprocess.Popen(['sleep', '600']); open('{}', 'w').write(str(child.pid)); os.kill(os.getpid(), signal.SIGKILL)"
    assert make_test(tmp_path, deed=started.format(tmp_path / "pid"))[0] == 1
    child = int((tmp_path / "pid").read_text())
    ended = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(child)], capture_output=True, text=True, check=False
    ).stdout
    assert ended.strip()[:1] in ("", "Z")  # more letters say with which priority


def test_a_process_that_dies_while_it_collects_ends_the_run(tmp_path):
    status, said = make_test(tmp_path, deed="pass\nos.kill(os.getpid(), signal.SIGKILL)")
    assert status == 1, said
    assert re.search(r"the test process gw\d was killed by SIGKILL", said), said


def test_a_run_in_which_nothing_dies_passes(tmp_path):
    status, said = make_test(tmp_path, deed="pass")
    assert status == 0, said
    assert "4 passed" in said


def test_the_whole_suite_is_watched_like_that(pytestconfig):
    assert pytestconfig.pluginmanager.has_plugin("workers")
    assert pytestconfig.getini("faulthandler_timeout") == 480
    assert pytestconfig.getini("faulthandler_exit_on_timeout") is True
