"""A person takes a running attempt over from the page and hands it back: marked, replayed, counted for nobody."""

from __future__ import annotations

import json
import threading
import time
from types import SimpleNamespace

import pytest

from capex import worlds
from capex.analysis.fork import fork
from capex.campaign.core import Core, Lease
from capex.campaign.extensions import Attempt, CampaignExtension
from capex.campaign.replay import replay
from capex.campaign.status import read_status
from capex.dataset import certify_run
from capex.dataset.selection import Filters, LeftOut, find_attempts, select, select_failures
from capex.errors import ErrorCode
from capex.operators.inbox import recorded_drives
from capex.operators.requests import OperatorRequests, Sharing, takeovers_of
from capex.operators.teleop_channel import TeleopChannel
from capex.report.data import DRIVEN, load
from capex.run import load_run
from capex.run.control import request, requested, withdraw
from capex.run.live import read_events, under_way
from capex.run.store import Chain, Run
from refusals import refuses
from studio_pages import browser as browser
from studio_pages import quiet, running_campaign, serving, small_rig, stand_still


def tick(browser):
    return int(browser.ask("document.querySelector('main').dataset.tick ?? '-1'"))


def held(browser, key, ticks, until="true"):
    browser._call("Input.dispatchKeyEvent", type="keyDown", key=key)
    browser.wait(f"+(document.querySelector('main').dataset.tick ?? -1) >= {ticks} && {until}")
    browser._call("Input.dispatchKeyEvent", type="keyUp", key=key)


def test_a_running_attempt_is_taken_over_and_handed_back(browser, tmp_path):
    out = tmp_path / "runs" / "live"
    with running_campaign(out) as campaign, serving(tmp_path / "runs") as address:
        browser.open(f"{address.url}#/live/live")
        stand_still(browser)
        release = browser.press("[name=takeover]")
        asked = len(browser.requests)  # a slow finger: the page asks and is drawn anew meanwhile
        browser.wait("document.querySelector('.standing b') !== null")
        while sum("live/requests" in url for url in browser.requests[asked:]) < 2:
            browser.ask("new Promise((done) => setTimeout(done, 100))")
        release()
        browser.wait("Boolean(document.querySelector('.form [name=by]'))")
        browser.ask("document.querySelector('.form [name=by]').focus()")
        browser.type("Ada")
        browser.click("[name=begin]")
        browser.wait("document.querySelector('main').dataset.tick === '0'")
        held(browser, "r", 6)
        browser.key("Enter")
        browser.wait("document.querySelector('h1').innerText === 'Handed back'")
        assert requested(out, "pause") is not None  # it stands still as before
        browser.click("a.button[href*=live]")
        browser.wait("document.body.innerText.includes('Ada drove')")
        browser.wait("document.querySelector('[name=resume]') !== null")
        browser.click("[name=stop]")
        assert campaign.wait(60) == 0
        quiet(browser, address)
    (driven,) = (e for e in load_run(out).episodes if e.record.human_steps)
    check_the_mark(out, driven)


def seated(browser, place):
    """Take an attempt over, from the form to the first picture."""
    browser.open(place)
    browser.wait("Boolean(document.querySelector('.form [name=by]'))")
    browser.ask("document.querySelector('.form [name=by]').focus()")
    browser.ask("document.querySelector('.form [name=by]').value = 'Ada'")
    browser.click("[name=begin]")
    browser.wait("document.querySelector('main').dataset.tick === '0'")


def seated_somewhere(browser, room, chain):
    """The same for whichever attempt stands still: one that ended meanwhile is left to itself."""
    tick = "document.querySelector('main').dataset.tick === '0'"
    for _ in range(6):
        until = time.monotonic() + 60
        while not (starts := [s for s in range(6) if under_way(chain, s)]):
            assert time.monotonic() < until
            time.sleep(0.1)
        place = f"{room}/{chain.path.name}/{starts[0]}"
        browser.open("about:blank")
        browser.open(place)
        browser.wait("Boolean(document.querySelector('.form [name=by]'))")
        browser.ask("document.querySelector('.form [name=by]').value = 'Ada'")
        browser.click("[name=begin]")
        browser.wait(f"{tick} || document.body.innerText.includes('nothing to drive any more')")
        if browser.ask(tick):
            return starts[0], place
    raise AssertionError("every attempt ended before it could be taken over")


def told(attempt, wanted):
    """The events of an attempt, once the last one is wanted."""
    until = time.monotonic() + 60
    while True:
        rows = [json.loads(line) for line in read_events(attempt, 0)[0]]
        if rows and wanted(rows[-1]["event"]):
            return rows
        assert time.monotonic() < until, [row["event"] for row in rows]
        time.sleep(0.05)


def test_a_rig_stands_still_without_its_driver_until_it_is_handed_back(browser, shm):
    out, rig = shm / "runs" / "room", small_rig(shm)
    campaign = running_campaign(out, f"{rig}:BlockOnPlate")
    with campaign, serving(shm / "runs", drives=(rig,)) as address:
        request(out, "pause", "Ada")  # or the attempt is over before a slow page is there
        (chain,) = Run(out).chains()
        start, place = seated_somewhere(browser, f"{address.url}#/drive/takeover/room", chain)
        withdraw(out, "pause")
        before = browser.ask("JSON.parse(document.querySelector('main').dataset.tip)")
        # A hand sets off slowly: after six ticks it is a millimetre higher, rounded up or down.
        higher = f"JSON.parse(document.querySelector('main').dataset.tip)[2] > {before[2]} + 0.5"
        held(browser, "r", 6, until=higher)
        browser.open("about:blank")  # the page vanishes
        attempt = under_way(chain, start)
        assert told(attempt, lambda kind: kind == "paused")[-1]["gone"] == "Ada"
        assert requested(out, "pause") is None  # no other attempt would stand still
        seated(browser, place)
        browser.key("Enter")
        browser.wait("document.querySelector('h1').innerText === 'Handed back'")
        rows = told(attempt, lambda kind: kind not in ("taken", "returned"))  # the model decides
        assert [row["steps"] for row in rows if row["event"] == "returned"][-1] == 0
        (turn,) = recorded_drives(out, chain.path.name, start)
        assert (turn["by"], turn["steps"] >= 6) == ("Ada", True)
        quiet(browser, address)


def test_who_drives_and_does_nothing_leaves_the_core_to_others():
    core, wheel = Core(), TeleopChannel(lambda message: None)

    def another():
        core.take()  # waits until the person has been idle for a while
        core.give()
        wheel.leave()

    with Lease(core) as lease:
        sharing, other = Sharing(wheel, lease), threading.Thread(target=another)
        other.start()
        while (asked := sharing.take(0.2)) is None:
            assert core.busy  # ours again whenever something is to be done
        other.join()
        assert asked == "leave"


@pytest.mark.parametrize("released", ["pause and go on", "ended beside the robot"])
def test_a_robot_whose_driver_vanished_is_released_without_a_second_one(tmp_path, released):
    ended = threading.Event()
    with Lease(Core()) as lease:
        attempt = Attempt(
            worlds.make("lab.world:robot"),
            Chain(tmp_path / "chains" / "chain"),
            0,
            tmp_path,
            lease,
            lambda *_, **__: None,
            lambda: None,
            continues=False,
        )
        ender = CampaignExtension()
        ender.end_now = ended.is_set
        attempt.extensions.append(ender)
        asking = OperatorRequests(attempt)
        left = SimpleNamespace(row={"steps": 0}, request=SimpleNamespace(by="Ada"), ended="leave")
        asking._handed_back(left, real_time=True)
        assert asking._paused()
        if released == "pause and go on":
            request(tmp_path, "pause", "Ben")
            assert asking._paused()
            withdraw(tmp_path, "pause")
        else:
            ended.set()
        assert not asking._paused()


def check_the_mark(out, driven):
    record = driven.record
    (turn,) = takeovers_of(record)
    assert (turn["by"], turn["device"]) == ("Ada", "keyboard")
    assert turn["steps"] == len(turn["moves"]) == record.human_steps >= 6
    steps = driven.steps()
    assert len(steps["actions"]) == record.steps
    assert (steps["waypoint"] == -1).sum() == turn["steps"]
    after = next(t for t in record.turns if t.decision == turn["decision"])
    assert after.step == turn["step"] + turn["steps"]
    told = f"The operator says: I drove the robot myself for {turn['steps']} control steps."
    assert any(told in str(line.request) for line in driven.exchanges())
    (replayed,) = (r for r in replay(out) if r.path == driven.path)
    assert not replayed.difference
    total = read_status(out).board.total
    assert (total.driven, total.judged) == (1, total.episodes - 1)  # counted for nobody
    data = load([out])
    assert driven.index not in {e.start for e in data.episodes}
    (row,) = (row for row in data.invalid if row.error == DRIVEN)
    assert (row.start, any("left out" in p for p in data.problems)) == (driven.index, True)
    if driven.success:
        (certificate,) = (c.certificate for c in certify_run(out) if c.episode == driven.path)
        assert not certificate.certified
        assert "a person drove" in certificate.reason
    choose = select if driven.success else select_failures
    chosen = choose("x", find_attempts(out), Filters(uncertified=True))
    (left,) = (r for r in chosen.left_out if r.start == driven.index)
    assert isinstance(left, LeftOut)
    assert "a person drove" in left.reason
    with refuses(ErrorCode.NOT_APPLICABLE, "a person drove before decision"):
        fork(out, [f"{driven.chain}/{driven.index}@{turn['decision']}"], out=out.parent / "forks")
