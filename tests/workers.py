"""A test process that dies ends the run: as a failure, with the name of the test that ran in it, and with everything that it had started.

pytest-xdist would replace a dead process and run its test again. With `--dist loadfile` it may then wait for ever: a process asks which test
comes next before it runs one, and a replacement that got a single test is never told. A test that hangs is ended by pytest's own
faulthandler_timeout (pyproject.toml), which prints where it hangs and ends its process; from there on it is the same.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time

import pytest

CHECK_EVERY_S = 1.0
ENDING_S = 5.0  # a process closes its connection a little before it has ended
MOST_WORKERS = 8  # each holds torch and a few worlds in memory: about 2 GB


def pytest_configure(config):
    if hasattr(config, "workerinput"):
        os.setpgid(0, 0)  # what a test starts belongs to this group and can be ended with it
    elif getattr(config.option, "dist", "no") != "no":
        config.pluginmanager.register(Watch(), "worker-watch")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """`-n auto`: one process more than there are cores, because tests also wait."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return min(cores + 1, MOST_WORKERS)


class Watch:
    """In the process that hands out the tests: watches those that run them."""

    def __init__(self):
        self._groups = {}  # name of a worker -> its process, which leads a group
        self._collected = set()
        self._words = ""  # how a worker ended before its time
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_newgateway(self, gateway):
        self._groups[gateway.id] = gateway._rinfo().pid
        if len(self._groups) == 1:
            self._thread.start()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node, error):
        if error and not self._words:
            self._words = (
                f"the test process {node.gateway.id} {how_it_ended(self._groups[node.gateway.id])}"
            )
            if node not in self._collected:
                pytest.exit(f"{self._words} while collecting the tests", returncode=1)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node):
        self._collected.add(node)

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem, report):
        self._words += f" while running {crashitem}"
        report.longrepr = self._words

    @pytest.hookimpl(trylast=True)  # after the terminal has noted the failure
    def pytest_runtest_logreport(self):
        self._end()

    def pytest_runtest_logstart(self):
        self._end()

    def _end(self):
        if self._words:
            pytest.exit(self._words, returncode=1)

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self):
        """Ctrl-C and the end above: nothing that still runs is waited for."""
        self._kill()

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session):
        self._over.set()
        self._kill()
        if self._words and session.exitstatus == 0:  # it died after its last test
            session.exitstatus = 1

    def pytest_terminal_summary(self, terminalreporter):
        if self._words and not terminalreporter.stats.get("failed"):
            terminalreporter.write_line(f"FAILED {self._words}", red=True)

    def _kill(self):
        for group in self._groups.values():
            end_group(group)

    def _look(self):
        """A forked child holds its dead parent's connection open, and so its death would not be noticed: end the child too."""
        while not self._over.wait(CHECK_EVERY_S):
            for group in list(self._groups.values()):
                if exit_of(group) is not None:
                    end_group(group)


def end_group(leader):
    with contextlib.suppress(
        ProcessLookupError, PermissionError
    ):  # macOS answers with the second for a group of zombies
        os.killpg(leader, signal.SIGKILL)


def exit_of(pid):
    """How a child ended, None while it runs or where that cannot be told. It stays there for its parent's wait."""
    if not hasattr(os, "waitid"):
        return None
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None


def how_it_ended(pid):
    until = time.monotonic() + ENDING_S
    while (ended := exit_of(pid)) is None and time.monotonic() < until:
        time.sleep(0.01)
    if ended is None:
        return "died"
    if ended.si_code == os.CLD_EXITED:
        return f"ended itself with status {ended.si_status} (so does a test that takes longer than faulthandler_timeout)"
    return f"was killed by {signal.Signals(ended.si_status).name}"
