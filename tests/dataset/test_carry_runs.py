"""Runs that travel without their states come back with them, certified where every bit is the same."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

import demos
from capex.dataset.certify import certify_run
from capex.run.steps import read_steps

SCRIPT = Path(__file__).parents[2] / "scripts" / "carry_runs.py"


def carry(*words):
    return subprocess.run(
        [sys.executable, SCRIPT, *map(str, words)], capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = demos.expert_run(tmp_path_factory.mktemp("carried") / "expert", [0, 1])
    list(certify_run(path))
    return path


def test_states_come_again_from_the_actions(run, tmp_path):
    packed = tmp_path / "packed.tar.xz"
    assert "2 certified episodes" in carry("pack", run, "--out", packed).stdout
    with tarfile.open(packed) as archived:
        assert not [name for name in archived.getnames() if name.endswith("steps.npz")]
    said = carry("unpack", packed, "--out", tmp_path / "runs")
    assert "as recorded" in said.stdout, said.stderr
    for old in sorted(run.glob("chains/*/episodes/*")):
        new = tmp_path / "runs" / "expert" / old.relative_to(run)
        assert (new / "record.json").read_bytes() == (old / "record.json").read_bytes()
        before, after = read_steps(old), read_steps(new)
        assert list(before) == list(after)
        assert all(np.array_equal(before[name], after[name]) for name in before)
        assert json.loads((new / "certificate.json").read_text())["certified"] is True
    again = carry("unpack", packed, "--out", tmp_path / "runs")
    assert (again.returncode, again.stdout) == (1, "")
    assert "exists already" in again.stderr


def test_what_comes_otherwise_loses_its_certificate(run, tmp_path):
    """As on a machine that computes other bits."""
    moved = tmp_path / "moved"
    packed, changed = tmp_path / "packed.tar.xz", tmp_path / "changed.tar.xz"
    carry("pack", run, "--out", packed)
    with tarfile.open(packed) as archived:
        archived.extractall(moved, filter="data")
    acted = next(moved.rglob("0000/acted.npz"))
    with np.load(acted) as saved:
        arrays = {name: saved[name] for name in saved.files} | {"digest": np.array("another")}
    np.savez_compressed(acted, **arrays)
    with tarfile.open(changed, "w:xz") as archived:
        archived.add(moved / "expert", "expert")
    carry("unpack", changed, "--out", tmp_path / "runs")
    left = sorted(p.parent.name for p in (tmp_path / "runs").rglob("certificate.json"))
    assert left == ["0001"]


def test_what_cannot_be_packed_is_a_sentence_and_leaves_nothing(run, tmp_path):
    packed = tmp_path / "packed.tar.xz"
    for words, sentence in (
        ((tmp_path / "nowhere",), "is not a run directory"),
        ((run, run), "several runs are called expert"),
    ):
        said = carry("pack", *words, "--out", packed)
        assert said.returncode == 1
        assert sentence in said.stderr
        assert "Traceback" not in said.stderr
    assert list(tmp_path.iterdir()) == []
    packed.write_bytes(b"junk")
    said = carry("unpack", packed, "--out", tmp_path / "runs")
    assert said.returncode == 1
    assert "Traceback" not in said.stderr
