"""The red Stop in a real browser, on a simulated room: on every page, whoever hangs, recorded."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import time

import pytest

from capex.operators.inbox import RunningRig, running_rig
from capex.rigs.stops import stop_address
from capex.run.writing import BEGUN
from capex.studio.stopping import RigStops
from studio_pages import browser as browser
from studio_pages import free_port, quiet, running_campaign, serving, studio_process

TASK = "rig:room:StackBlocks"
PAGES = ("campaigns", "campaigns/rig", "live", "live/rig", "judge", "arrange", "drive", "dataset")
BUTTON = "document.querySelector('.estop [name=rig-stop]')"
SAYS = "document.querySelector('.estop .says').innerText"


@contextlib.contextmanager
def frozen(process):
    """A process that does nothing, as if it hung."""
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


@contextlib.contextmanager
def frozen_in_an_attempt(campaign, run):
    """A collector that hangs while its robot's attempt is under way: no homing, no arranging."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        with frozen(campaign.pid):
            if list(run.glob(f"chains/*/episodes/.*/{BEGUN}")):
                yield
                return
        time.sleep(0.1)
    raise AssertionError("no attempt began")


def stopped_attempt(run):
    """The record of the attempt that a stop ended: the last one."""
    until = time.monotonic() + 60
    while not (found := sorted(run.glob("chains/*/invalid/*/record.json"))):
        assert time.monotonic() < until
        time.sleep(0.05)
    return json.loads(found[-1].read_text())


def middle_is_free(browser):
    """Nothing lies over the button, which is whole within the window and large enough for a thumb."""
    return browser.ask(
        f"(() => {{ const b = {BUTTON}, r = b.getBoundingClientRect(); return r.height >= 44 && r.width >= 44 && r.left >= 0"
        " && r.top >= 0 && r.right <= innerWidth && r.bottom <= innerHeight"
        " && b.contains(document.elementFromPoint(r.x + r.width / 2, r.y + r.height / 2)); })()"
    )


def test_every_page_of_a_running_rig_stops_it_though_its_collector_hangs(browser, shm):
    run = shm / "runs" / "rig"
    run.parent.mkdir()
    with serving(run.parent) as address:
        browser.open(f"{address.url}#/campaigns")
        browser.wait("document.querySelector('main h1') !== null")
        with running_campaign(run, TASK) as campaign:
            browser.wait(f"{BUTTON} !== null")
            for width, height in ((1400, 900), (390, 844)):
                browser.resize(width, height, phone=width < 500)
                for page in PAGES:
                    browser.ask(f"location.hash = '#/{page}'")
                    browser.wait("document.querySelector('main h1, main .next') !== null")
                    assert middle_is_free(browser), (page, width)
            assert "room (Escape)" in browser.ask(f"{BUTTON}.ariaLabel")
            assert "does not replace the emergency stop" in browser.ask(SAYS)
            with frozen_in_an_attempt(campaign, run):
                browser.ask("localStorage.setItem('capex-name', 'Ada')")
                browser.click("[name=rig-stop]")
                browser.wait(f"{SAYS}.includes('room stopped at') && {SAYS}.includes('by Ada')")
                browser.open(f"{address.url}#/live/rig")  # loaded anew, it knows
                browser.wait("document.querySelector('.estop')?.innerText.includes('by Ada')")
                assert not list(run.glob("chains/*/invalid/*"))
            campaign.wait(60)
            assert "stopped by Ada" in campaign.stderr.read().decode()
            browser.wait(f"{SAYS}.includes('its attempt is over')")
            assert browser.ask(f"{BUTTON} === null")
            browser.click("[name=seen]")
            browser.wait("document.querySelector('.estop').hidden")
        quiet(browser, address)
    record = stopped_attempt(run)
    assert record["error"] == "stopped by Ada"
    (stop,) = record["extensions"]["rig"]["stops"]
    assert stop["by"] == "Ada"
    assert stop["step"] >= 0


def test_a_press_is_sent_until_it_is_confirmed_by_key_and_over_a_reload(browser, shm):
    run = shm / "runs" / "rig"
    run.parent.mkdir()
    studio, url = studio_process(run.parent, free_port())
    try:
        with running_campaign(run, TASK) as campaign:
            browser.open(f"{url}#/live/rig")
            browser.wait(f"{BUTTON} !== null")
            rig = running_rig(run)
            with frozen_in_an_attempt(campaign, run), frozen(rig.process):
                browser.key("Escape")
                browser.wait(f"/Stopping|not confirmed/.test({SAYS})")
                browser.wait(f"{SAYS}.includes('use the emergency stop')")
                browser.open("about:blank")  # another page, then this one anew
                browser.open(f"{url}#/live/rig")
            browser.wait("document.querySelector('.estop')?.innerText.includes('stopped at')")
            campaign.wait(60)
    finally:
        studio.kill()
        studio.wait()
    record = stopped_attempt(run)
    assert [stop["by"] for stop in record["extensions"]["rig"]["stops"]] == ["the studio"]


def begin_to_drive(browser, address, name):
    browser.open(f"{address.url}#/drive/{name.replace(':', '%3A')}/0/{name.partition(':')[0]}")
    browser.wait("Boolean(document.querySelector('[name=by]'))")
    browser.ask("document.querySelector('[name=by]').value = 'Ada'")
    browser.click("[name=begin]")
    browser.wait("document.querySelector('.stage canvas')?.dataset.tick === '0'", 120)


def test_whoever_drives_a_rig_may_stop_it_and_a_simulated_world_has_no_stop(browser, shm):
    (shm / "runs").mkdir()
    with serving(shm / "runs") as address:
        begin_to_drive(browser, address, "kitchen:TurnOnMicrowave")
        assert browser.ask("document.querySelector('.estop').hidden")
        browser.key("Backspace")
        browser.wait("document.body.innerText.includes('Nothing was kept')")
        browser.open("about:blank")
        begin_to_drive(browser, address, "rig:room:LiftBlock")
        browser.wait(f"{BUTTON} !== null")
        browser._call("Input.dispatchKeyEvent", type="keyDown", key="r")
        browser.wait("+document.querySelector('main').dataset.tick >= 3")
        browser.key("Escape")
        browser.wait("document.querySelector('main').innerText.includes('stopped by Ada')")
        browser._call("Input.dispatchKeyEvent", type="keyUp", key="r")
        quiet(browser, address)
    (stop,) = stopped_attempt(shm / "runs" / "rig")["extensions"]["rig"]["stops"]
    assert stop["by"] == "Ada"
    assert stop["step"] >= 3


def test_a_rig_of_another_user_is_shown_as_out_of_reach():
    with subprocess.Popen(["sleep", "60"]) as other:
        try:
            rig = RunningRig("lab", other.pid, socket.gethostname(), os.getuid() + 1)
            stops = RigStops(None)
            assert stops._runs(None, rig)
            row = asyncio.run(stops._state(other.pid, rig))
            assert row["elsewhere"] == f"{socket.gethostname()} under another user"
        finally:
            other.kill()
    assert not stops._runs(None, rig)


@pytest.mark.parametrize(
    "words", ['{"process": "x"}', "[]", "no JSON", '{"process": 1e999, "stop": ""}']
)
def test_a_page_may_stop_announced_rigs_only(browser, tmp_path, words):
    with serving(tmp_path) as address:
        browser.open(f"{address.url}#/campaigns")
        told = browser.ask(
            "new Promise((done) => { const s = new WebSocket(new URL('api/stop', location.href.replace('http', 'ws'))); "
            f"s.onopen = () => s.send({json.dumps(words)}); s.onclose = () => done('closed'); setTimeout(() => done('open'), 20000); }})"
        )
        assert told == "closed"
        answer = browser.ask(
            "new Promise((done) => { const s = new WebSocket(new URL('api/stop', location.href.replace('http', 'ws'))); "
            f"s.onopen = () => s.send(JSON.stringify({{ process: {os.getpid()}, stop: 'k' }}));"
            " s.onmessage = (m) => { const told = JSON.parse(m.data); if (told.key) done(told.carried); }; })"
        )
        assert answer is None
    assert not stop_address(os.getpid()).exists()
