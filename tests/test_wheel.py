"""What a user gets from the wheel: the package with all of its files, a command and its answers, away from the sources."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q")


def ran(*words: str | Path, **options) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy: setuptools writes beside the sources."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", source / "src", ignore=ignored)
    ran(*PIP, "wheel", "--no-deps", "--no-index", "--no-build-isolation", "-w", out, source)
    (built,) = out.glob("capex-*.whl")
    return built


def test_the_wheel_holds_every_file_of_the_package(wheel):
    files = (
        p for p in (ROOT / "src/capex").rglob("*") if p.is_file() and "__pycache__" not in p.parts
    )
    inside = set(zipfile.ZipFile(wheel).namelist())
    assert {p.relative_to(ROOT / "src").as_posix() for p in files} <= inside


def test_the_wheel_installs_and_runs_away_from_the_sources(wheel, tmp_path):
    site, here = tmp_path / "site", tmp_path / "here"
    here.mkdir()
    # The dependencies are those of this environment; the package is not.
    ran(*PIP, "install", "--no-deps", "--no-index", "--target", site, wheel)
    env = {**os.environ, "PYTHONPATH": str(site)}
    python = (sys.executable, "-m", "capex")
    where = ran(sys.executable, "-c", "import capex; print(capex.__file__)", cwd=here, env=env)
    assert Path(where.strip()).is_relative_to(site)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert ran(*python, "--version", cwd=here, env=env) == f"capex {version}\n"
    assert "CloseFridge" in ran(site / "bin/capex", "tasks", "kitchen", cwd=here, env=env)
    assert "locate_pixel" in ran(*python, "prompt", cwd=here, env=env)  # a text file
    dry = ("collect", "kitchen:CloseFridge", "--model", "openai:gpt-6-astra", "--starts", "0")
    assert "$25" in ran(*python, *dry, "--dry-run", cwd=here, env=env)  # the table of prices
    assert not list(here.iterdir())
