"""Forged runs, datasets, checkpoints and reports, opened with the commands and the studio's pages."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
import hostile_files


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    hostile_files.make_good(folder / "good")
    return folder


@pytest.mark.parametrize(
    ("kind", "family"),
    [
        ("run", "a module as world"),
        ("run", "a rig with a program as world"),
        ("run", "modules in the current folder"),
        ("run", "links that lead outside"),
        ("run", "depth"),
        ("dataset", "templates and paths"),
        ("hdf5", "other files, sizes, texts"),
        ("checkpoint", "sizes"),
        ("lerobot", "classes and paths"),
        ("report", "what the index lists, and links"),
    ],
)
def test_nothing_of_a_forgery_gets_through(good, kind, family):
    if not (good / "good" / kind).is_dir():
        pytest.skip("checkpoints need the students extra")
    rows, faults = hostile_files.storm(1, 0, good, f"{kind} {family}", first=1001)
    assert not faults
    assert rows[kind, family].cases == 1
