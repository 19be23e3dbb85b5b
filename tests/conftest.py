"""Shared environments, and a closing table that says where the time of a run went."""

from __future__ import annotations

import fcntl
import os
import resource
import socket
import subprocess
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import pytest

import model_clients
import runs
import workers
from capex import trust, worlds
from capex.dataset import certify_run
from demos import expert_run, model_run

_began = time.perf_counter()
MEMORY = (
    "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
)  # a disk in memory, for tests that flush thousands of small files


def pytest_configure(config):
    trust.allow(modules=("lab.world", "lab.model", "lab.pair"))  # the tests' own, by their user
    config.pluginmanager.register(workers, "workers")


@pytest.fixture(autouse=True)
def nothing_allowed():
    """What a test permits (`worlds.allow`, a command line) ends with it."""
    before = trust.held()
    yield
    trust.hold(before)


@pytest.fixture
def shm():
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="capex-test-") as folder:
        yield Path(folder)


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 300 kB; where mounting is not allowed, a limit on the size of files, which fails the same way."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = (
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", place],
            capture_output=True,
            check=False,
        ).returncode
        == 0
    )
    yield (
        place,
        None if mounted else lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, 12_000)),
    )
    if mounted:
        subprocess.run(["umount", "-l", place], check=True)


@pytest.fixture(scope="session")
def fridge():
    env = worlds.make("kitchen:CloseFridge")
    yield env
    env.close()


@pytest.fixture(scope="session")
def stove():
    env = worlds.make("kitchen:PickPlaceCounterToStove")
    yield env
    env.close()


def once(tmp_path_factory, name, make):
    """A folder that the first of the test processes makes and all of them read."""
    root = tmp_path_factory.getbasetemp()
    root = root.parent if "PYTEST_XDIST_WORKER" in os.environ else root
    with open(root / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (root / f"{name}.made").exists():
            make(root / name)
            (root / f"{name}.made").touch()
    return root / name


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory):
    """A campaign of two tasks, three arms and eight starts, made up."""
    path = tmp_path_factory.mktemp("synthetic") / "run"
    runs.campaign(path, runs.TASKS, runs.ARMS, 8)
    return path


@pytest.fixture(scope="session")
def expert_demos(tmp_path_factory):
    """Three certified successes of the expert, starts 0 to 2. Not to be changed."""

    def make(path):
        expert_run(path, [0, 1, 2])
        assert all(r.certificate.certified for r in certify_run(path, parallel=2))

    return once(tmp_path_factory, "expert", make)


@pytest.fixture(scope="session")
def sets(expert_demos, tmp_path_factory):
    """Two demonstrations as pictures, as video and as HDF5; the pictures in LeRobot's v2.1 layout too. Not to be changed."""
    from layouts import write_layouts  # here: pyarrow and PyAV are loaded where they are needed

    return once(tmp_path_factory, "sets", lambda root: write_layouts(expert_demos, root))


@pytest.fixture(scope="session")
def model_demos(tmp_path_factory):
    """A certified success of a scripted model at start 0 and a failure at start 1. Not to be changed."""

    def make(path):
        model_run(path)
        (result,) = certify_run(path)
        assert result.certificate.certified

    return once(tmp_path_factory, "scripted", make)


def pytest_terminal_summary(terminalreporter):
    spent: dict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if hasattr(report, "duration") and hasattr(report, "nodeid"):
                room = Path(report.nodeid.partition("::")[0]).parent.name
                spent["package" if room == "tests" else room] += report.duration
    terminalreporter.section("where the time went")
    setup = Path(os.environ.get("VENV", ".venv")) / ".setup-seconds"
    if setup.is_file():
        terminalreporter.write_line(f"{'set-up':24s} {float(setup.read_text()):7.1f} s")
    for area, seconds in sorted(spent.items(), key=lambda item: -item[1]):
        terminalreporter.write_line(f"{area:24s} {seconds:7.1f} s")
    terminalreporter.write_line(f"{'whole test run':24s} {time.perf_counter() - _began:7.1f} s")


@pytest.fixture
def loopback_only(monkeypatch):
    """Any connection or look-up beyond this machine fails the test."""
    connect, look_up = socket.socket.connect, socket.getaddrinfo

    def guarded_connect(self, address):
        if self.family in (socket.AF_INET, socket.AF_INET6):
            assert address[0] in ("127.0.0.1", "::1", "localhost"), f"a test connected to {address}"
        return connect(self, address)

    def guarded_look_up(host, *args, **settings):
        assert host in ("127.0.0.1", "::1", "localhost", None), f"a test looked up {host}"
        return look_up(host, *args, **settings)

    monkeypatch.setattr(socket.socket, "connect", guarded_connect)
    monkeypatch.setattr(socket, "getaddrinfo", guarded_look_up)


@pytest.fixture
def canary_keys(monkeypatch):
    """Every key of a provider is a canary, and nothing else in the environment names a server."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "CAPEX_CHAT_API_KEY"):
        monkeypatch.setenv(name, model_clients.CANARY)
    for name in (
        "OPENAI_BASE_URL",
        "ANTHROPIC_BASE_URL",
        "OPENAI_CUSTOM_HEADERS",
        "HTTP_PROXY",
        "http_proxy",
        "ALL_PROXY",
        "all_proxy",
    ):
        monkeypatch.delenv(name, raising=False)
