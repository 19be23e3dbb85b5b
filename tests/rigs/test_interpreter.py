"""`python` in a rig file: whose interpreter runs the rig's process, and what it imports of ours."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from dataclasses import replace
from pathlib import Path

import pytest

import capex
from capex.errors import ErrorCode, RigFault
from capex.rigs.client import open_link
from capex.rigs.interpreter import import_path, interpreter
from capex.rigs.parse import PACKAGED, read_rig
from refusals import refuses


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """An environment with nothing in it."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False, symlinks=True)
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def rig():
    return read_rig(PACKAGED / "room-live.toml")


def test_the_interpreter_is_found(rig, bare, tmp_path):
    assert interpreter(rig) == sys.executable
    assert interpreter(replace(rig, python=str(bare))) == str(bare)
    relative = os.path.relpath(bare, tmp_path)
    assert os.path.samefile(
        interpreter(replace(rig, path=tmp_path / "rig.toml", python=relative)), bare
    )
    with refuses(ErrorCode.BAD_SETTING, r"python is '/no/such/python', which does not exist"):
        interpreter(replace(rig, python="/no/such/python"))
    text = tmp_path / "text"
    text.write_text("")
    with refuses(ErrorCode.BAD_SETTING, "which cannot be run; it must be the interpreter"):
        interpreter(replace(rig, python=str(text)))


def test_another_interpreter_imports_our_package_and_none_of_our_others(bare):
    assert "site-packages" in import_path(sys.executable)
    path = import_path(str(bare))
    assert "site-packages" not in path
    program = "import importlib.util as u; print(u.find_spec('capex').origin, u.find_spec('numpy'))"
    env = {**os.environ, "PYTHONPATH": path}
    said = subprocess.run(
        [bare, "-c", program], env=env, capture_output=True, text=True, check=True
    )
    origin, numpy = said.stdout.split()
    assert Path(origin).resolve() == Path(capex.__file__).resolve()
    assert numpy == "None"


def test_an_environment_without_what_the_rig_needs_is_a_sentence(rig, bare):
    with pytest.raises(RigFault, match=r"No module named 'numpy'.*must be the interpreter of"):
        open_link(replace(rig, python=str(bare)))


def test_the_rigs_process_imports_little():
    """An environment for a driver has numpy and the driver's own packages alone."""
    program = (
        "import sys, capex.rigs.rigprocess, capex.rigs.drivers.franky;"
        "print({'mujoco', 'PIL', 'scipy', 'pydantic', 'av', 'OpenGL'} & {*sys.modules})"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == "set()"
