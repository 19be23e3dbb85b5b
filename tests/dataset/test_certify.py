"""Certificates: what replays is certified, what was touched is refused with the step, and an interrupted command continues."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

from capex.dataset import certify_run, read_certificate
from capex.run.files import read_json, write_json
from capex.run.steps import read_steps
from capex.run.store import open_run
from demos import TASK
from lab.campaigns import collect


@pytest.fixture
def copy(expert_demos, tmp_path):
    """A run of one episode that a test may touch, and the episode; it has no certificate."""
    path = tmp_path / "run"
    shutil.copytree(expert_demos, path)
    chain = path / "chains" / f"kitchen--{TASK}--expert" / "episodes"
    for other in ("0001", "0002"):
        shutil.rmtree(chain / other)
    (chain / "0000" / "certificate.json").unlink()
    return path, chain / "0000"


def touch(episode, step: int, by: float) -> None:
    steps = read_steps(episode)
    steps["actions"][step, 2] += by
    np.savez_compressed(episode / "steps.npz", **steps)


def test_a_success_is_certified_bit_for_bit_and_not_executed_twice(expert_demos):
    first, *others = certify_run(expert_demos)
    assert first.known
    assert all(other.known for other in others)
    certificate = first.certificate
    assert certificate.rule == "every state bit for bit, and success"
    assert (
        certificate.success_step
        == certificate.steps
        == read_json(first.episode / "record.json")["steps"]
    )
    assert (certificate.first_difference, certificate.reason) == (None, "")
    assert read_certificate(first.episode) == certificate


def test_a_corrupted_action_is_refused_with_the_step(copy):
    path, episode = copy
    touch(episode, 17, 1e-9)
    (result,) = certify_run(path)
    assert not result.certificate.certified
    assert result.certificate.first_difference == 18  # the state after action 17
    steps = result.certificate.steps
    assert (
        result.certificate.reason
        == f"step 18 of {steps} is the first that differs from the recording; success came again"
    )
    assert read_certificate(episode) == result.certificate


def test_an_action_that_no_world_takes_is_refused_with_the_step(copy):
    path, episode = copy
    touch(episode, 3, 5.0)
    (result,) = certify_run(path)
    assert result.certificate.reason.startswith("step 4 could not be executed: action['eef_dz'] is")


def test_a_certificate_is_void_once_the_files_change(copy):
    path, episode = copy
    certify_run(path)
    record = read_json(episode / "record.json")
    write_json(episode / "record.json", record | {"cost_usd": 0.01})
    assert read_certificate(episode) is None
    (result,) = certify_run(path)
    assert not result.known
    assert result.certificate.certified


def test_on_another_machine_success_counts_and_the_divergence_is_told(copy):
    path, episode = copy
    manifest = read_json(path / "manifest.json")
    manifest["fingerprint"]["mujoco"] = "2.0"
    write_json(path / "manifest.json", manifest)
    touch(episode, 10, 1e-6)
    (result,) = certify_run(path)
    certificate = result.certificate
    assert certificate.certified, certificate.reason
    assert certificate.rule == "success again (recorded on another machine)"
    assert certificate.first_difference == 11
    assert 0 < certificate.largest_stray_m < 0.01
    assert list(certificate.elsewhere) == ["mujoco"]


def test_a_recording_of_another_version_of_the_world_is_refused(copy):
    path, episode = copy
    steps = read_steps(episode)
    steps["header"] = np.array(str(steps["header"]).replace('"version": ', '"version": 9'))
    np.savez_compressed(episode / "steps.npz", **steps)
    (result,) = certify_run(path)
    assert "it was recorded as" in result.certificate.reason


def test_an_interrupted_command_continues(expert_demos, tmp_path):
    path = tmp_path / "run"
    shutil.copytree(expert_demos, path)
    for index in (0, 1):
        next(path.glob(f"chains/*/episodes/{index:04d}/certificate.json")).unlink()

    def interrupt(done, total, latest):
        if not latest.known:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        certify_run(path, tell=interrupt)
    assert len(list(path.rglob("certificate.json"))) == 2
    assert sorted(r.known for r in certify_run(path)) == [False, True, True]


def test_the_command_says_which_step_and_fails(copy):
    path, episode = copy
    touch(episode, 17, 1e-9)
    out = subprocess.run(
        [sys.executable, "-m", "capex.cli", "certify", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert out.returncode == 1, out.stderr
    assert "step 18 of" in " ".join(out.stdout.split())
    out = subprocess.run(
        [sys.executable, "-m", "capex.cli", "certify", str(path.parent)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert out.returncode == 2
    assert "is not a run directory" in " ".join(out.stderr.split())


def test_certificates_are_plain_json(expert_demos):
    for place in expert_demos.rglob("certificate.json"):
        held = json.loads(place.read_text())
        assert set(held["digests"]) == {"record.json", "steps.npz"}
        assert held["certified"] is True


def test_a_run_without_a_success_has_nothing_to_certify(tmp_path):
    open_run(tmp_path / "run", {"command": "expert"})
    command = [sys.executable, "-m", "capex.cli", "certify", str(tmp_path / "run")]
    out = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "holds no success, so there is nothing to certify" in " ".join(out.stdout.split())


def test_a_world_of_ones_own_is_certified_bit_for_bit_where_its_spec_says_so(tmp_path):
    collect(tmp_path / "run", "lab.world:low", arm="base", starts="0:3")
    certified = certify_run(tmp_path / "run")
    assert certified
    for result in certified:
        assert result.certificate.certified, result.certificate.reason
        assert result.certificate.rule == "every state bit for bit, and success"
    touch(certified[0].episode, 0, 1e-9)
    refused = certify_run(tmp_path / "run")[0].certificate
    assert (refused.certified, refused.first_difference) == (False, 1)
