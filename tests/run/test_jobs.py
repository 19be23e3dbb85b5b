"""Jobs in processes: results, sentences and deaths come back, and nothing outlives its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from capex.errors import CapexError, ErrorCode
from capex.processes import WorkerDied
from capex.run.jobs import Lane, run_jobs
from refusals import refuses


def work(job: str) -> str:
    if job == "sentence":
        raise CapexError("no such thing", code=ErrorCode.NOT_FOUND)
    if job == "bug":
        raise ZeroDivisionError
    if job == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if job.startswith("/"):
        with open(job, "a", encoding="ascii") as place:
            place.write(f"{os.getpid()}\n")
        time.sleep(600)
    return job.upper()


def test_jobs_come_back_as_results_sentences_or_deaths():
    results = dict(run_jobs(work, ["a", "sentence", "die", "b"], parallel=2))
    assert (results[0], results[3]) == ("A", "B")
    assert str(results[1]) == "no such thing"
    assert results[1].code is ErrorCode.NOT_FOUND
    assert "its process died (SIGKILL, perhaps for lack of memory)" in str(results[2])
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        list(run_jobs(work, ["bug"], parallel=1, fresh=True))
    with refuses(ErrorCode.BAD_SETTING, "--parallel is 0"):
        list(run_jobs(work, ["a"], parallel=0))


def test_a_lane_runs_one_job_after_another_and_ends_the_one_under_way(tmp_path):
    lane = Lane()
    first, second, third = (lane.submit(work, job) for job in ("sentence", "die", "b"))
    last = lane.submit(work, str(tmp_path / "pids"))
    assert isinstance(second.exception(), WorkerDied)
    assert (str(first.exception()), third.result()) == ("no such thing", "B")
    (worker,) = written(tmp_path / "pids", 1)
    lane.close()
    assert isinstance(last.exception(), WorkerDied)
    assert not alive(worker)


def test_no_worker_outlives_a_killed_parent(tmp_path):
    """Neither those in the middle of a job nor one that waits for its next."""
    place = tmp_path / "pids"
    code = f"import test_jobs as t; list(t.run_jobs(t.work, [{str(place)!r}] * 2 + ['a'], 3))"
    paths = os.pathsep.join((os.path.dirname(__file__), *sys.path))
    env = {**os.environ, "PYTHONPATH": paths}
    parent = subprocess.Popen([sys.executable, "-c", code], env=env)
    workers = written(place, 2)
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 30
    while any(alive(w) for w in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(alive(w) for w in workers)


def written(place, count: int) -> list[int]:
    """The processes that have written their numbers, once there are so many."""
    while not place.exists() or place.read_text().count("\n") < count:
        time.sleep(0.05)
    return [int(line) for line in place.read_text().split()]


def alive(pid: int) -> bool:
    """Whether a process runs; one that nobody has waited for yet does not."""
    found = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return bool(found.stdout.strip()) and not found.stdout.startswith("Z")
