"""Driving in a real browser: a person presses the microwave's button with keys, and it pairs with another's demonstration."""

from __future__ import annotations

import json
import time

from capex import worlds
from capex.run import load_run
from capex.worlds import Start
from studio_pages import browser as browser
from studio_pages import quiet, serving

TASK = "kitchen:TurnOnMicrowave"
AXES = (("w", "s"), ("a", "d"), ("r", "f"))


def plan():
    """Where the expert would go, in cm, and whether it closes its gripper there."""
    env = worlds.make(TASK)
    try:
        env.reset(Start(env.spec.task, 0))
        waypoints = worlds.expert("kitchen")(env, 0)
        return [
            ([100 * v for v in w.targets["arm"].position_m], w.gripper_words.get("arm") == "close")
            for w in waypoints
        ]
    finally:
        env.close()


def tip(browser):
    return json.loads(browser.ask("document.querySelector('main').dataset.tip ?? 'null'"))


def hold(browser, key, until, *, slow=False):
    """Hold a key, as a person does, until something is true of the tip or the attempt is over."""
    shift = 8 if slow else 0
    browser._call("Input.dispatchKeyEvent", type="keyDown", key=key, modifiers=shift)
    try:
        end = time.monotonic() + 30
        while (at := tip(browser)) is not None and not until(at):
            assert time.monotonic() < end, (key, at)
    finally:
        browser._call("Input.dispatchKeyEvent", type="keyUp", key=key, modifiers=0)


def go(browser, goal):
    for axis, (plus, minus) in enumerate(AXES):
        for _ in range(4):
            way = goal[axis] - (tip(browser) or goal)[axis]
            if abs(way) < 0.35 or over(browser):
                break
            key, sign = (plus, 1) if way > 0 else (minus, -1)
            hold(
                browser,
                key,
                lambda at, sign=sign, axis=axis: sign * (goal[axis] - at[axis]) < 0.25,
                slow=abs(way) < 4,
            )


def over(browser):
    return browser.ask("document.querySelector('main h1').innerText") == "Recorded"


def test_a_person_turns_the_microwave_on_by_keyboard(browser, tmp_path):
    (tmp_path / "runs").mkdir()
    with serving(tmp_path / "runs") as address:
        browser.open(f"{address.url}#/drive/{TASK.replace(':', '%3A')}/0/human")
        browser.wait("Boolean(document.querySelector('[name=by]'))")
        browser.ask("document.querySelector('[name=by]').focus()")
        browser.type("Ada")
        browser.click("[name=begin]")
        browser.wait("document.querySelector('.stage canvas')?.dataset.tick === '0'")
        for goal, closes in plan()[:-1]:
            go(browser, goal)
            if closes:
                browser.key("g")
                browser.wait("+document.querySelector('main').dataset.tick >= 10")
        depth = plan()[-1][0][0] - 0.6
        hold(browser, "w", lambda at: at[0] > depth)
        hold(browser, "s", lambda at: over(browser))  # success is the button, and the hand away
        browser.wait("document.body.innerText.includes('Recorded')")
        assert "solved" in browser.ask("document.querySelector('.outcome').className")
        quiet(browser, address)
    run = load_run(tmp_path / "runs" / "human")
    (episode,) = run.episodes
    assert episode.chain == "kitchen--TurnOnMicrowave--human"
    assert episode.success
    assert episode.record.extra["driven"] == {"by": "Ada", "device": "keyboard"}
    assert len(episode.steps()["actions"]) == episode.record.steps > 10
