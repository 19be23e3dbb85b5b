"""A studio and a browser for the tests of its rooms."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import contextmanager
from importlib import resources
from pathlib import Path

import pytest

from browser import Browser
from capex.run.live import LIVE_FOLDER
from capex.studio.serve import studio_server
from lab.campaigns import cli

TOKEN = "a-token-of-the-tests"


@pytest.fixture(scope="module")
def browser():
    opened = Browser()
    yield opened
    opened.close()


@contextmanager
def serving(*folders, drives=()):
    """A studio in a thread of this process."""
    server = studio_server(folders, drives=drives)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield server.address
    finally:
        server.stop()
        thread.join(10)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def studio_process(folder, port, *options):
    """A studio that can be killed, once it answers; returns it with its address."""
    process = cli("studio", str(folder), "--port", str(port), "--token", TOKEN, *options)
    url = f"http://127.0.0.1:{port}/{TOKEN}/"
    until = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return process, url
        except OSError:
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.1)


def quiet(browser, address):
    """Nothing was complained of, and nobody else was asked for anything."""
    assert not browser.messages, browser.messages
    ours = (address.url, address.url.replace("http:", "ws:"), "about:", "blob:")
    assert all(url.startswith(ours) for url in browser.requests)


def stand_still(browser):
    """Pause the attempt that a page shows; one that ends before is let go, and the next one paused."""
    shown = "document.querySelector('.next').innerText"
    for _ in range(20):
        runs = f"!/is over|Waiting/.test({shown})"
        browser.wait(f"document.querySelectorAll('.view .waypoint').length > 2 && {runs}")
        browser.click("[name=pause]")
        none = "document.querySelector('.standing').innerText.includes('no attempt begins')"
        browser.wait(f"{shown}.includes('Stands still') || {none}")
        if not browser.ask(none):
            return
        browser.click("[name=resume]")
    raise AssertionError("every attempt ended before it could be paused")


def small_rig(folder: Path, size: str = "[320, 180]", fps: int = 20) -> str:
    """The simulated room on the real clock with small pictures: a processor draws them here."""
    files = Path(str(resources.files("capex.rigs") / "files"))
    text = (files / "room-live.toml").read_text()
    text = text.replace('"room/', f'"{files}/room/').replace("fps = 30", f"fps = {fps}")
    path = folder / "small.toml"
    path.write_text(re.sub(r"size = \[640, 360\]", f"size = {size}", text))
    return f"rig:{path}"


@contextmanager
def running_campaign(out, task="kitchen:OpenDrawer"):
    """The pilot at a task in a process of its own, from its first attempt's first live event."""
    words = ["collect", task, "--model", "pilot", "--starts", "0:40", "--out", out]
    command = [sys.executable, "-m", "capex", *map(str, words)]
    campaign = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        until = time.monotonic() + 120
        while not list(out.glob(f"chains/*/episodes/.*/{LIVE_FOLDER}")):
            assert campaign.poll() is None, campaign.stderr.read()
            assert time.monotonic() < until
            time.sleep(0.1)
        yield campaign
    finally:
        campaign.kill()
        campaign.wait()
        campaign.stderr.close()
