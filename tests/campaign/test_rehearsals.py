"""The scripts that kill campaigns, let their disks fail and their clusters, in short."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def _run(script: str, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, BENCHMARKS / script, *words],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_drivers_and_workers_that_are_killed_leave_the_same_records_within_the_budget():
    said = _run("kill_campaign.py", "4", "lab", "3")
    assert "of a driver" in said
    assert re.search(r"promises broken\s+│ 0 ", said)


@pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None, reason="needs Linux and a C compiler"
)
def test_disks_that_fail_are_a_sentence_and_nothing_is_lost():
    assert "disk full" in _run("disk_faults.py", "5", "2")


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's addresses of this machine")
def test_a_node_whose_connections_are_half_closed_changes_no_record():
    pytest.importorskip("ray")
    # At the first sign of work: a fast machine would else be done before.
    said = _run("cluster_campaign.py", "1", "3", "--nodes", "2", "--starts", "1", "--within", "0")
    assert "connections of a node: half-close" in said
    assert "NO" not in said


def test_of_a_line_that_a_disk_takes_in_part_nothing_stays(tmp_path):
    log = tmp_path / "exchanges.jsonl"
    log.write_bytes(b"x" * 89 + b"\n")
    program = (
        "import resource, sys; from pathlib import Path; from capex.models.exchanges import append\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "try: append(Path(sys.argv[1]), b'y' * 50 + b'\\n')\n"
        "except OSError as error: print(error.strerror)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, log], capture_output=True, text=True, check=True
    )
    assert "fitted" in done.stdout
    assert log.read_bytes() == b"x" * 89 + b"\n"
