"""Driving in a real browser: a person presses the microwave's button with keys, and it pairs with another's demonstration."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace

from capex import worlds
from capex.campaign.api import demonstrate
from capex.dataset import Pipeline, certify_run, export_run
from capex.dataset.inspect import check_dataset
from capex.errors import ErrorCode
from capex.operators.teleoperation import Move, Teleoperator, command_of, read_move
from capex.run import load_run
from capex.worlds import Start
from refusals import refuses
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


def test_a_person_turns_the_microwave_on_by_keyboard(browser, tmp_path, model_demos):
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
    assert episode.record.extensions["teleoperation"] == {"by": "Ada", "device": "keyboard"}
    assert len(episode.steps()["actions"]) == episode.record.steps > 10
    assert [r.certificate.certified for r in certify_run(run.path)] == [True]
    small = Pipeline((32, 24), ("wrist",))
    export_run([model_demos, run.path], tmp_path / "pair", paired=True, pipeline=small)
    report = check_dataset(tmp_path / "pair" / "human", expected=1)
    assert report.ok, report.failed


PAD = """(() => {
  const pad = { axes: [0, 0, 0, 0] };
  window.pad = pad;
  navigator.getGamepads = () => [pad];
})()"""


def test_two_arms_are_driven_with_a_switch_by_pointer_and_by_gamepad(browser, shm):
    (shm / "runs").mkdir()
    with serving(shm / "runs", drives=("lab.pair",)) as address:
        browser.open(f"{address.url}#/drive/lab.pair%3Alift/0/pair")
        browser.wait("Boolean(document.querySelector('[name=by]'))")
        browser.ask("document.querySelector('[name=by]').focus()")
        browser.type("Ada")
        browser.click("[name=begin]")
        browser.wait("document.querySelector('.stage canvas')?.dataset.tick === '0'")
        home = tip(browser)
        assert home[1] > 0  # the left arm is the first one
        browser.key("x")
        browser.wait("JSON.parse(document.querySelector('main').dataset.tip)[1] < 0")
        x, y = browser.ask(
            "(() => { const b = document.querySelector('.hold[data-key=d]'); b.scrollIntoView(); const r = b.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        right = tip(browser)
        for kind in ("mousePressed", "mouseReleased"):
            browser._call(
                "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1
            )
            if kind == "mousePressed":
                browser.wait("+document.querySelector('main').dataset.tick >= 3")
        assert tip(browser)[1] < right[1] - 1  # held, it moves to the right
        browser.ask(PAD)
        time.sleep(0.5)  # a tick may be under way
        still = browser.ask("document.querySelector('main').dataset.tick")
        browser.ask("pad.axes[1] = 0.05")  # within the dead zone
        time.sleep(0.2)
        assert browser.ask("document.querySelector('main').dataset.tick") == still
        browser.ask("pad.axes[3] = -1")  # the right stick ahead: up
        browser.wait("document.body.innerText.includes('Recorded')")
        quiet(browser, address)
    (episode,) = load_run(shm / "runs" / "pair").episodes
    assert episode.success
    names = list(episode.steps()["state_names"])
    moved = episode.steps()["proprio"][-1] - episode.steps()["proprio"][0]
    lifted = {name: moved[k] for k, name in enumerate(names) if name.endswith("_z")}
    (left,) = (v for name, v in lifted.items() if name.startswith("left"))
    assert (left, max(lifted.values()) > 0.05) == (0.0, True)


class Typed:
    """Controls that ask for what is listed, then leave."""

    def __init__(self, *moves):
        self.moves, self.tips = list(moves), []

    def take(self, wait_s):
        return self.moves.pop(0) if self.moves else "leave"

    def show(self, env, tick):
        self.tips.append(env.robot_state().arms["left"].T_base_tip.position_m)


def test_an_attempt_that_is_left_is_not_kept_and_one_that_is_done_waits_for_a_verdict(shm):
    up = Move("left", (0.0, 0.0, 1.0))
    left = Typed(up, None, up)
    run = demonstrate(Teleoperator(left, "Ada"), "lab.world:low", out=shm / "left", starts=[0])
    assert not run.episodes
    assert len(left.tips) == 3  # before, and after each of two ticks: without a message none
    assert left.tips[0][2] < left.tips[1][2] < left.tips[2][2]
    done = Typed(up, "done")
    run = demonstrate(Teleoperator(done, "Ada"), "lab.world:judged", out=shm / "done", starts=[0])
    (episode,) = run.episodes
    assert (episode.record.end, episode.success, episode.record.steps) == ("done", None, 1)
    again = Typed(*[up] * 60)
    run = demonstrate(Teleoperator(again, "Ada"), "lab.world:low", out=shm / "left", starts=[0])
    assert [e.success for e in run.episodes] == [True]  # the start was still to be had


def test_what_a_page_sends_moves_no_further_than_an_arm_may(fridge):
    spec, grips = fridge.spec, {"arm": 0.0}
    fridge.reset(Start(spec.task, 0))
    state = fridge.robot_state()
    asked = read_move({"arm": "arm", "step": [1, 1, 1], "turn": [0, 0, -1], "gripper": 1}, spec)
    command = command_of(spec, state, asked, grips).arms["arm"]
    assert sum(v * v for v in command.step_m) ** 0.5 <= spec.arms[0].max_step_m * (1 + 1e-9)
    assert (command.step_rad[2], command.gripper) == (-spec.arms[0].max_step_rad, 1)
    idle = command_of(spec, state, read_move({}, spec), grips).arms["arm"]
    assert (idle.step_m, idle.gripper) == (None, 1)  # holds, and holds what it has
    tip = tuple(float(v) for v in state.arms["arm"].T_base_tip.position_m)
    boxed = replace(spec, workspace_m=((-1.0, -1.0, tip[2]), tip))
    assert command_of(boxed, state, asked, grips).arms["arm"].step_m == (0.0, 0.0, 0.0)
    with refuses(ErrorCode.UNKNOWN_NAME, "tail"):
        read_move({"arm": "tail"}, spec)
    for wrong in (
        {"step": [2, 0, 0]},
        {"step": [math.nan, 0, 0]},
        {"step": "up"},
        {"turn": [0, 0]},
        {"base": [True, 0, 0]},
        {"gripper": 0.5},
    ):
        with refuses(ErrorCode.BAD_COMMAND):
            read_move(wrong, spec)
